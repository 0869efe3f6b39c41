// Lanes ask for lanes that have left.
extern "C" __global__ void inactive_shuffle(int *out)
{
    if (threadIdx.x < 16)
        out[threadIdx.x] = __shfl_down_sync(0x0000ffffu, threadIdx.x, 4); // FAULT
}
