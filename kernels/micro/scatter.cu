// scatter: groups of lanes write to drawn places of a table, none of which is known before the step.
//
// Layout:    table [places * STRIDE]; sums [gridDim.x * blockDim.x], written where WORK is 2
// Thread:    steps times one word of a drawn place, neighbouring words for GROUP neighbouring lanes.
// Constants: TYPE; GROUP (1, 8 or 32 lanes); STRIDE (words from one place to the next); WORK (0: stores, 1: additions whose result
//            nobody reads, 2: additions whose result the thread adds up)
// Measures:  how fast SMs send, and L2 and DRAM take, stores and atomics of single words, of sectors and of lines, by how many SMs.

extern "C" __global__ void scatter(TYPE *table, TYPE *sums, unsigned places, unsigned steps)
{
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned state = thread / GROUP * 2654435769u + 12345u;
    TYPE sum = 0;
    for (unsigned step = 0; step < steps; step++) {
        TYPE *target = table + static_cast<size_t>(__umulhi(state, places)) * STRIDE + thread % GROUP;
#if WORK == 0
        *target = static_cast<TYPE>(step);
#elif WORK == 1
        atomicAdd(target, static_cast<TYPE>(1));
#else
        sum += atomicAdd(target, static_cast<TYPE>(1));
#endif
        state = state * 1664525u + 1013904223u;
    }
#if WORK == 2
    sums[thread] = sum;
#endif
}
