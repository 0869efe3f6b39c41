// Compaction: each warp reserves room with one atomic for all its lanes that pass.
extern "C" __global__ void aggregated_atomics(int *out, int *count, const int *in, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || in[i] % 3 != 0)
        return;
    const unsigned active = __activemask();
    const int lane = threadIdx.x % 32;
    const int leader = __ffs(active) - 1;
    const int rank = __popc(active & ((1u << lane) - 1));
    int start = 0;
    if (lane == leader)
        start = atomicAdd(count, __popc(active));
    start = __shfl_sync(active, start, leader);
    out[start + rank] = in[i];
}
