// first_loads: a launch of few loads, each of which depends on the one before and reads a part of the table of its own.
//
// Layout:    table [LOADS * stride + gridDim.x * blockDim.x], all 0; out [gridDim.x * blockDim.x]
// Thread:    LOADS dependent loads, then a store.
// Constants: LOADS
// Measures:  what a launch waits for before its first load, and what its first loads wait for while caches and translations of
//            addresses are cold.

extern "C" __global__ void first_loads(int *out, const int *table, int stride)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int place = thread;
#pragma unroll
    for (int load = 0; load < LOADS; load++)
        place += stride + table[place];
    out[thread] = place;
}
