// atomic_global: every thread adds to global memory again and again; groups of neighbouring threads share an address.
//
// Layout:    targets [addresses * stride]; sums [gridDim.x * blockDim.x], written where RETURNS is 1
// Thread:    steps additions, first to address (thread / group) % addresses, each time to the next one.
// Constants: TYPE; RETURNS: whether the old value is used (ATOM) or not (RED).
// Measures:  additions a second to one address, to neighbouring words of a sector, and spread over many.

extern "C" __global__ void atomic_global(TYPE *targets, TYPE *sums, unsigned addresses, unsigned stride, unsigned group,
                                         unsigned steps)
{
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned slot = thread / group % addresses;
    TYPE sum = 0;
    for (unsigned step = 0; step < steps; step++) {
        TYPE *target = targets + static_cast<size_t>(slot) * stride;
#if RETURNS
        sum += atomicAdd(target, static_cast<TYPE>(1));
#else
        atomicAdd(target, static_cast<TYPE>(1));
#endif
        slot = slot + 1 < addresses ? slot + 1 : 0;
    }
#if RETURNS
    sums[thread] = sum;
#endif
}
