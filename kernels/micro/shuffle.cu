// shuffle: butterfly exchanges of CHAINS values that do not wait for one another.
//
// Layout:    values [gridDim.x * blockDim.x]; cycles [gridDim.x]
// Thread:    in each step one exchange with the neighbouring lane for each of CHAINS values; an even number of steps restores
//            them.
// Constants: CHAINS
// Measures:  shuffles per cycle of one SM.

extern "C" __global__ void shuffle(int *values, long long *cycles, int steps)
{
    int value[CHAINS];
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        value[chain] = threadIdx.x + chain;
    __syncthreads();
    const long long start = clock64();
#pragma unroll 8
    for (int step = 0; step < steps; step++) {
#pragma unroll
        for (int chain = 0; chain < CHAINS; chain++)
            value[chain] = __shfl_xor_sync(0xffffffffu, value[chain], 1);
    }
    __syncthreads();
    const long long stop = clock64();
    int sum = 0;
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        sum += value[chain];
    values[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    if (threadIdx.x == 0)
        cycles[blockIdx.x] = stop - start;
}
