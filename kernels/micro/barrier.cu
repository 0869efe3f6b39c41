// barrier: a block that does nothing but wait for itself.
//
// Layout:    cycles [gridDim.x]
// Measures:  cycles of a barrier, by the number of warps in the block.

extern "C" __global__ void barrier(long long *cycles, int steps)
{
    __syncthreads();
    const long long start = clock64();
#pragma unroll 8
    for (int step = 0; step < steps; step++)
        __syncthreads();
    const long long stop = clock64();
    if (threadIdx.x == 0)
        cycles[blockIdx.x] = stop - start;
}
