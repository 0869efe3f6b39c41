// chase_global: one thread follows a chain of pointers through global memory.
//
// Layout:    chain [length * STRIDE] of pointers, built here from next [length], a permutation with a single cycle
// Block:     all threads build the chain, thread 0 follows it: once to warm up the caches, once timed.
// Constants: STRIDE (pointers between two links of the chain), PAST_L1 (1 to read from L2 at once)
// Measures:  latency of L1, L2 or DRAM, by the size of the chain; an address is what was loaded, without arithmetic.

typedef unsigned long long Link;

// A pointer that was itself loaded is generic to the compiler: only the assembly says that it is global.
__device__ const Link *followed(const Link *link)
{
    Link next;
#if PAST_L1
    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(next) : "l"(link));
#else
    asm volatile("ld.global.u64 %0, [%1];" : "=l"(next) : "l"(link));
#endif
    return (const Link *)next;
}

extern "C" __global__ void chase_global(
    int *last, long long *cycles, Link *chain, const int *next, int length, int warm_up, int steps)
{
    for (int i = threadIdx.x; i < length; i += blockDim.x)
        chain[(long long)i * STRIDE] = (Link)&chain[(long long)next[i] * STRIDE];
    __threadfence();
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    const Link *link = chain;
    for (int step = 0; step < warm_up; step++)
        link = followed(link);
    const long long start = clock64();
#pragma unroll 16
    for (int step = 0; step < steps; step++)
        link = followed(link);
    last[0] = (int)((link - chain) / STRIDE);
    cycles[0] = clock64() - start;
}
