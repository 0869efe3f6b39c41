// The member mask names lanes that never come.
extern "C" __global__ void absent_member(int *out)
{
    if (threadIdx.x < 16)
        out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 16); // FAULT
}
