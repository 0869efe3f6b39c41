// Inclusive scan of segments of WIDTH lanes by shuffles.
extern "C" __global__ void scan_warp(int *out, const int *in)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = in[i];
    for (int distance = 1; distance < WIDTH; distance *= 2) {
        const int below = __shfl_up_sync(0xffffffffu, value, distance, WIDTH);
        if (threadIdx.x % WIDTH >= distance)
            value += below;
    }
    out[i] = value;
}
