// global_read: the whole grid reads a buffer in 16-byte words, several times over, past the L1 cache.
//
// Layout:    input [words] of float4; sums [gridDim.x * blockDim.x]
// Thread:    words first, first + threads of the grid, …; the sum of what it read.
// Measures:  DRAM read bandwidth (one pass over a buffer much larger than L2), L2 read bandwidth (many passes over one that
//            fits); one pass also empties L2 of everything else without leaving dirty lines.

extern "C" __global__ void global_read(float *sums, const float4 *input, int words, int passes)
{
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    const int threads = gridDim.x * blockDim.x;
    float sum = 0.0f;
    for (int pass = 0; pass < passes; pass++) {
#pragma unroll 4
        for (int i = first; i < words; i += threads) {
            const float4 word = __ldcg(&input[i]);
            sum += (word.x + word.y) + (word.z + word.w);
        }
    }
    sums[first] = sum;
}
