// gather: groups of lanes follow chains of their own through a table, from one drawn line or sector to the next.
//
// Layout:    table [places * STRIDE] of words, all 0; sums [gridDim.x * blockDim.x]
// Thread:    steps times CHAINS independent loads; GROUP neighbouring lanes read neighbouring words, the next place depends on
//            what they have read.
// Constants: GROUP (1, 8 or 32 lanes), STRIDE (words from one place to the next), CHAINS
// Measures:  latency and throughput of L2 and DRAM by how many requests are under way, and by the lines that each of them touches.

extern "C" __global__ void gather(unsigned *sums, const unsigned *table, unsigned places, unsigned steps)
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
            words[chain] = table[static_cast<size_t>(place) * STRIDE + thread % GROUP];
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
