// A float4 load from an address that is not a multiple of 16.
extern "C" __global__ void misaligned(float *out, const float *in)
{
    const float4 v = *(const float4 *)(in + threadIdx.x * 4 + (threadIdx.x == 5)); // FAULT
    out[threadIdx.x] = v.x + v.w;
}
