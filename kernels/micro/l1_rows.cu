// l1_rows: every thread reads a row of its own word by word, so that a line serves 32 steps if L1 keeps it so long.
//
// Layout:    input [threads * row_words]; sums [gridDim.x * blockDim.x]
// Thread:    passes times the first words of its row; UNROLL loads are independent.
// Constants: UNROLL.
// Measures:  what L1 keeps of the lines that many or few warps read in turn (128 bytes a thread).

extern "C" __global__ void l1_rows(float *sums, const float *input, int row_words, int words, int passes)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const float *row = input + static_cast<size_t>(thread) * row_words;
    float sum = 0.0f;
    for (int pass = 0; pass < passes; pass++) {
#pragma unroll UNROLL
        for (int i = 0; i < words; i++)
            sum += row[i];
    }
    sums[thread] = sum;
}
