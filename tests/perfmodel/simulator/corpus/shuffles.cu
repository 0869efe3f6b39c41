// Every shuffle mode, with segments of 8 lanes, and a mask of half a warp.
extern "C" __global__ void shuffles(int *out, const int *in, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int value = in[i];
    out[i] = __shfl_sync(0xffffffffu, value, 3, 8);
    out[i + n] = __shfl_up_sync(0xffffffffu, value, 2, 8);
    out[i + 2 * n] = __shfl_down_sync(0xffffffffu, value, 3, 8);
    out[i + 3 * n] = __shfl_xor_sync(0xffffffffu, value, 5);
    out[i + 4 * n] = __shfl_sync(0xffffffffu, value, threadIdx.x * 7);
    int half = -1;
    if (threadIdx.x % 32 < 16)
        half = __shfl_xor_sync(0x0000ffffu, value, 1);
    out[i + 5 * n] = half;
    const long long wide = __shfl_down_sync(0xffffffffu, ((long long)value << 32) | i, 1);
    out[i + 6 * n] = (int)(wide >> 32) ^ (int)wide;
}
