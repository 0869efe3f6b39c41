// common_read: blocks read the same few buffers from begin to end, so that SMs ask L2 for the same lines at a time.
//
// Layout:    sums [gridDim.x * blockDim.x]; input [buffers][words] of float4
// Block:     reads buffer blockIdx.x / apart % buffers.
// Thread:    words threadIdx.x, threadIdx.x + blockDim.x, … of it; the sum of what it read.
// Measures:  how many of the sectors that several SMs miss at about the same time reach L2 once, and which SMs (hardware
//            counters).

extern "C" __global__ void common_read(float *sums, const float4 *input, int words, int buffers, int apart)
{
    input += (size_t)(blockIdx.x / apart % buffers) * words;
    float sum = 0.0f;
#pragma unroll 4
    for (int i = threadIdx.x; i < words; i += blockDim.x) {
        const float4 word = input[i];
        sum += (word.x + word.y) + (word.z + word.w);
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
