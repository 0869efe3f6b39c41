// atomic_shared: every thread of a block adds to shared memory again and again; groups of neighbouring threads share an address.
//
// Layout:    totals [gridDim.x * addresses], what each block summed up
// Thread:    steps additions, first to address (thread / group) % addresses, each time to the next one.
// Constants: TYPE; RETURNS: whether the old value is used.
// Measures:  additions a cycle to one address and spread over many; float additions are loops of compare-and-swap.

extern "C" __global__ void atomic_shared(TYPE *totals, TYPE *sums, unsigned addresses, unsigned group, unsigned steps)
{
    __shared__ TYPE targets[1024];
    for (unsigned i = threadIdx.x; i < addresses; i += blockDim.x)
        targets[i] = 0;
    __syncthreads();
    unsigned slot = threadIdx.x / group % addresses;
    TYPE sum = 0;
    for (unsigned step = 0; step < steps; step++) {
#if RETURNS
        sum += atomicAdd(&targets[slot], static_cast<TYPE>(1));
#else
        atomicAdd(&targets[slot], static_cast<TYPE>(1));
#endif
        slot = slot + 1 < addresses ? slot + 1 : 0;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < addresses; i += blockDim.x)
        totals[blockIdx.x * addresses + i] = targets[i];
#if RETURNS
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
#endif
}
