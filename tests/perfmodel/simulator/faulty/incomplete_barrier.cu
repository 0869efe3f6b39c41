// A counted barrier that waits for more threads than ever come.
extern "C" __global__ void incomplete_barrier(int *out)
{
    if (threadIdx.x < 32)
        asm volatile("bar.sync 3, 96;" ::: "memory"); // FAULT
    out[threadIdx.x] = 1;
}
