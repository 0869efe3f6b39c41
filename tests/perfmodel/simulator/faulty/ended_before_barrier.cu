// Some threads of the block end before the barrier.
extern "C" __global__ void ended_before_barrier(int *out)
{
    if (threadIdx.x >= 40)
        return;
    out[threadIdx.x] = 1;
    __syncthreads(); // FAULT
    out[threadIdx.x] += out[(threadIdx.x + 1) % 40];
}
