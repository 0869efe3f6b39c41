// global_copy: the whole grid copies a buffer in 16-byte words.
//
// Layout:    output [words], input [words] of float4
// Measures:  DRAM bandwidth of mixed traffic, bytes read plus bytes written, when the buffers are much larger than L2.

extern "C" __global__ void global_copy(float4 *output, const float4 *input, int words)
{
    const int threads = gridDim.x * blockDim.x;
#pragma unroll 4
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += threads)
        output[i] = input[i];
}
