// arithmetic: FP32 and integer instructions side by side, in chains that do not wait for one another.
//
// Layout:    floats [gridDim.x * blockDim.x], integers the same; cycles [gridDim.x]
// Thread:    in each step one fused multiply-add for each of FLOAT_CHAINS accumulators, one add and one exclusive or for each of
//            INTEGER_CHAINS; factor and addends are parameters, so that nothing can be folded.
// Constants: FLOAT_CHAINS, INTEGER_CHAINS (0 for none)
// Measures:  lanes of FP32 and of integer arithmetic, whether they share ports, and (one warp, one chain) latency.

#define UNROLL 16

extern "C" __global__ void arithmetic(
    float *floats, unsigned *integers, long long *cycles, float factor, float addend, unsigned added, unsigned flipped,
    int steps)
{
    float f[FLOAT_CHAINS + 1];
    unsigned n[INTEGER_CHAINS + 1];
#pragma unroll
    for (int chain = 0; chain < FLOAT_CHAINS; chain++)
        f[chain] = threadIdx.x + chain;
#pragma unroll
    for (int chain = 0; chain < INTEGER_CHAINS; chain++)
        n[chain] = threadIdx.x + chain;
    __syncthreads();
    const long long start = clock64();
#pragma unroll UNROLL
    for (int step = 0; step < steps; step++) {
#pragma unroll
        for (int chain = 0; chain < FLOAT_CHAINS; chain++)
            f[chain] = fmaf(f[chain], factor, addend);
#pragma unroll
        for (int chain = 0; chain < INTEGER_CHAINS; chain++)
            n[chain] = (n[chain] + added) ^ flipped;
    }
    __syncthreads();
    const long long stop = clock64();
    float float_sum = 0.0f;
    unsigned integer_sum = 0;
#pragma unroll
    for (int chain = 0; chain < FLOAT_CHAINS; chain++)
        float_sum += f[chain];
#pragma unroll
    for (int chain = 0; chain < INTEGER_CHAINS; chain++)
        integer_sum += n[chain];
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    floats[thread] = float_sum;
    integers[thread] = integer_sum;
    if (threadIdx.x == 0)
        cycles[blockIdx.x] = stop - start;
}
