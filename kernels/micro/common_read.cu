// common_read: every block reads the same buffer from its begin to its end, so that SMs ask L2 for the same lines at a time.
//
// Layout:    sums [gridDim.x * blockDim.x]; input [words] of float4
// Thread:    words threadIdx.x, threadIdx.x + blockDim.x, …; the sum of what it read.
// Measures:  how many of the sectors that several SMs miss at about the same time reach L2 once (hardware counters).

extern "C" __global__ void common_read(float *sums, const float4 *input, int words)
{
    float sum = 0.0f;
#pragma unroll 4
    for (int i = threadIdx.x; i < words; i += blockDim.x) {
        const float4 word = input[i];
        sum += (word.x + word.y) + (word.z + word.w);
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
