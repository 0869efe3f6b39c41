// A block of 77 threads: idle lanes take no part in votes, shuffles or barriers.
extern "C" __global__ void odd_block(int *out, const int *in)
{
    __shared__ int sum;
    const int t = threadIdx.x;
    if (t == 0)
        sum = 0;
    __syncthreads();
    const unsigned active = __activemask();
    atomicAdd(&sum, in[t]);
    const int above = __shfl_down_sync(active, t, 1);
    __syncthreads();
    out[t] = sum + 100000 * (t % 32 < 31 && t < 76 ? above : 0) + __popc(active);
}
