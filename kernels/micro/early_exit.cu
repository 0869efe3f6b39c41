// early_exit: blocks in which most warps end at once and the others wait.
//
// Measures:  whether the places of warps that have ended are given to further blocks before their own block has ended.
// Times:     as many blocks as an SM could hold if only the waiting warps counted; WAITING warps wait for `cycles`.

#ifndef WAITING
#define WAITING 2
#endif

extern "C" __global__ void early_exit(float *done, int cycles)
{
    if (threadIdx.x >= 32 * WAITING) return;
    long long start = clock64();
    while (clock64() - start < cycles) { }
    done[blockIdx.x * 32 * WAITING + threadIdx.x] = 1.0f;
}
