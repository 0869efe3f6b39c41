// constant_walk: warps walk through constant memory and read one word for all of their lanes at a time.
//
// Layout:    table [TABLE_WORDS] in constant memory, all 0; sums [gridDim.x * blockDim.x]
// Thread:    passes over the first WORDS words, STEP words from one read to the next; a warp begins shift words behind the one
//            before it.
// Constants: WORDS, STEP; WAY: 0 for places that come from what was read before, 1 for places known beforehand, both read by
//            index, 2 for places that stand in the instructions.
// Measures:  latency and throughput of the caches of constants, by how much of the memory a kernel reads.

#define TABLE_WORDS 16384
#define READS (WORDS / STEP)
#define TOGETHER 8

__constant__ int table[TABLE_WORDS];

extern "C" __global__ void constant_walk(int *sums, int zero, int shift, int passes)
{
    int sum[4] = {0, 0, 0, 0};
    const int begin = (threadIdx.x / 32 * shift + threadIdx.x % 32 * zero) % WORDS;
    for (int pass = 0; pass < passes; pass++) {
#if WAY == 0
        int place = begin;
        for (int read = 0; read < READS; read++)
            place = (place + STEP + table[place]) % WORDS;
        sum[0] += place;
#elif WAY == 1
        int place = begin;
        for (int read = 0; read < READS; read += TOGETHER) {
#pragma unroll
            for (int next = 0; next < TOGETHER; next++)
                sum[next % 4] += table[place + next * STEP];
            place = (place + TOGETHER * STEP) % WORDS;
        }
#else
#pragma unroll
        for (int read = 0; read < READS; read++)
            sum[read % 4] = sum[read % 4] * zero + table[read * STEP];
#endif
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum[0] + sum[1] + sum[2] + sum[3];
}
