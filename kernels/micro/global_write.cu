// global_write: the whole grid writes a buffer in 16-byte words.
//
// Layout:    output [words] of float4
// Measures:  DRAM write bandwidth, when the buffer is much larger than L2.

extern "C" __global__ void global_write(float4 *output, float value, int words)
{
    const int threads = gridDim.x * blockDim.x;
#pragma unroll 4
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += threads)
        output[i] = make_float4(value, value, value, value);
}
