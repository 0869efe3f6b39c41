// code_walk: straight-line code of a chosen length, walked through again and again.
//
// Layout:    floats [gridDim.x * blockDim.x]; cycles [gridDim.x]
// Thread:    in each step BODY fused multiply-adds, in turn on CHAINS accumulators, without a jump.
// Constants: BODY (a multiple of CHAINS)
// Measures:  cycles per instruction over the size of the code: it rises where the code outgrows an instruction cache.

#define CHAINS 4

extern "C" __global__ void code_walk(float *floats, long long *cycles, float factor, float addend, int steps)
{
    float f[CHAINS];
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        f[chain] = threadIdx.x + chain;
    long long start = clock64();
#pragma unroll 1
    for (int step = 0; step <= steps; step++) {
        if (step == 1) // the first walk loads the code
            start = clock64();
#pragma unroll
        for (int i = 0; i < BODY; i++)
            f[i % CHAINS] = fmaf(f[i % CHAINS], factor, addend);
    }
    __syncthreads();
    const long long stop = clock64();
    floats[blockIdx.x * blockDim.x + threadIdx.x] = (f[0] + f[1]) + (f[2] + f[3]);
    if (threadIdx.x == 0)
        cycles[blockIdx.x] = stop - start;
}
