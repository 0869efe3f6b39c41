// dependent_chain: each instruction needs the result of the one before; CHAINS such chains in a thread.
//
// Layout:    out [gridDim.x * blockDim.x]; seed: what the chains start from
// Thread:    steps of CHAINS independent chains of one operation.
// Constants: OPERATION (0 FP32 multiply-add, 1 integer multiply-add, 2 FP64 multiply-add, 3 reciprocal square root, 4 shared load,
//            5 shuffle, 6 division, 7 sine), CHAINS, TYPE.
// Measures:  latency and throughput of dependent instructions with few and with many warps.

__device__ __forceinline__ TYPE next(TYPE value, const int *ring)
{
#if OPERATION == 0
    return value * 0.5f + 1.0f;
#elif OPERATION == 1
    return value * 3 + 7;
#elif OPERATION == 2
    return value * 0.5 + 1.0;
#elif OPERATION == 3
    return rsqrtf(value);
#elif OPERATION == 4
    return ring[value];
#elif OPERATION == 5
    return __shfl_xor_sync(0xffffffffu, value, 1);
#elif OPERATION == 6
    return 1.5f / value;
#else
    return sinf(value);
#endif
}

extern "C" __global__ void dependent_chain(TYPE *out, TYPE seed, int steps)
{
    __shared__ int ring[1024];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
        ring[i] = (i + 32) & 1023;
    __syncthreads();
    TYPE values[CHAINS];
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        values[chain] = seed + static_cast<TYPE>(threadIdx.x & 31) + static_cast<TYPE>(chain);
    for (int step = 0; step < steps; step++) {
#pragma unroll
        for (int chain = 0; chain < CHAINS; chain++)
            values[chain] = next(values[chain], ring);
    }
    TYPE sum = 0;
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        sum += values[chain];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
