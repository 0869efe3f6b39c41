// A barrier under a predicate counts more threads than ever come to it.
extern "C" __global__ void short_barrier(int *out)
{
    if (threadIdx.x < 32)
        asm volatile("bar.sync 1, 64;");  // FAULT
    out[threadIdx.x] = 1;
}
