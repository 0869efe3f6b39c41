// constant_read: lanes read constant memory by index, the same word or words apart.
//
// Layout:    table [TABLE_WORDS] in constant memory, all 0; out [gridDim.x * blockDim.x]
// Thread:    steps of CHAINS chains of dependent reads; lanes of one group read one word, groups stride words apart.
// Constants: CHAINS.
// Measures:  latency and throughput of indexed constant loads by how many places a warp reads at once.

#define TABLE_WORDS 512

__constant__ int table[TABLE_WORDS];

extern "C" __global__ void constant_read(int *out, int stride, int group, int steps)
{
    const int place = (threadIdx.x & 31) / group * stride % TABLE_WORDS;
    int words[CHAINS];
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        words[chain] = 0;
    for (int step = 0; step < steps; step++) {
#pragma unroll
        for (int chain = 0; chain < CHAINS; chain++)
            words[chain] = table[place + words[chain]];
    }
    int sum = 0;
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        sum += words[chain];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
