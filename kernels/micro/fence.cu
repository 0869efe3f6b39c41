// fence: warps that store to global memory and wait until all SMs see it.
//
// Layout:    words [gridDim.x * (STORES + 1) * blockDim.x]
// Thread:    steps of STORES stores of one word each, and one fence.
// Constants: STORES, 0 for fences alone.
// Measures:  cycles of a fence, by the stores that it waits for.

extern "C" __global__ void fence(int *words, int steps)
{
    int *const own = words + blockIdx.x * (STORES + 1) * blockDim.x + threadIdx.x;
    for (int step = 0; step < steps; step++) {
#pragma unroll
        for (int store = 0; store < STORES; store++)
            own[store * blockDim.x] = step;
        __threadfence();
    }
    own[STORES * blockDim.x] = steps;
}
