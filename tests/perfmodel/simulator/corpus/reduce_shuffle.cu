// Sum of a block by shuffles, then of its warps' sums.
__device__ float warp_sum(float value)
{
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_down_sync(0xffffffffu, value, distance);
    return value;
}

extern "C" __global__ void reduce_shuffle(float *sums, const float *in)
{
    __shared__ float of_warp[32];
    float value = warp_sum(in[blockIdx.x * blockDim.x + threadIdx.x]);
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : 0.0f;
        value = warp_sum(value);
        if (threadIdx.x == 0)
            sums[blockIdx.x] = value;
    }
}
