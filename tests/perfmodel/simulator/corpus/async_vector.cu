// Asynchronous copies of 16 bytes, waited for all at once.
#include <cuda_pipeline.h>

extern "C" __global__ void async_vector(float *out, const float4 *in)
{
    __shared__ float4 stage[64];
    const int t = threadIdx.x;
    __pipeline_memcpy_async(&stage[t], in + blockIdx.x * 64 + t, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    const float4 other = stage[63 - t];
    out[blockIdx.x * 64 + t] = other.x + other.y + other.z + other.w;
}
