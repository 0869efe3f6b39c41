// hot_lines: all warps read the same few lines of L2, past L1, each from one drawn line or sector to the next.
//
// Layout:    table [places * stride] of words, all 0; sums [gridDim.x * blockDim.x]
// Thread:    steps times four independent loads; GROUP neighbouring lanes read neighbouring words, the next place depends on what
//            they have read.
// Constants: GROUP (1, 8 or 32 lanes)
// Measures:  what one slice of L2 gives where all SMs ask it, by the number of places and how far they lie apart.

#define CHAINS 4

extern "C" __global__ void hot_lines(unsigned *sums, const unsigned *table, unsigned places, unsigned stride, unsigned steps)
{
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned states[CHAINS];
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        states[chain] = (thread / GROUP * CHAINS + chain) * 2654435769u + 12345u;
    for (unsigned step = 0; step < steps; step++) {
        unsigned words[CHAINS];
#pragma unroll
        for (int chain = 0; chain < CHAINS; chain++) {
            const unsigned place = __umulhi(states[chain], places);
            words[chain] = __ldcg(table + place * stride + thread % GROUP);
        }
#pragma unroll
        for (int chain = 0; chain < CHAINS; chain++)
            states[chain] = states[chain] * 1664525u + 1013904223u + words[chain];
    }
    unsigned sum = 0;
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        sum += states[chain];
    sums[thread] = sum;
}
