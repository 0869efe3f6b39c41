// chase_shared: one thread follows a chain of byte offsets through shared memory.
//
// Layout:    next [LENGTH], a permutation with a single cycle
// Constants: LENGTH (links of the chain)
// Measures:  latency of a shared load; an address is what was loaded, without arithmetic.

extern "C" __global__ void chase_shared(int *last, long long *cycles, const int *next, int steps)
{
    __shared__ int offsets[LENGTH];
    for (int i = threadIdx.x; i < LENGTH; i += blockDim.x)
        offsets[i] = 4 * next[i];
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    int offset = 0;
    const long long start = clock64();
#pragma unroll 16
    for (int step = 0; step < steps; step++)
        offset = *(const int *)((const char *)offsets + offset);
    last[0] = offset / 4;
    cycles[0] = clock64() - start;
}
