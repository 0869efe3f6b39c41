// conv1d_naive_rolled: the naive dense 1-D convolution for sizes that conv1d_naive cannot unroll.
//
// Layout:    input [BATCH][IN_CHANNELS][LENGTH], weights [OUT_CHANNELS][IN_CHANNELS][FILTER_WIDTH], bias [OUT_CHANNELS]
//            output [BATCH][OUT_CHANNELS][OUTPUT_LENGTH]; zeros are assumed PADDING words beyond both ends of a row.
// Block:     THREADS threads compute the OUTPUT_LENGTH outputs of one output channel of one batch element, one by one.
// Thread:    every THREADS-th input channel, read from global memory tap by tap; the threads' sums are added by a tree
//            in shared memory, output by output.
// Constants: the problem's fields in capitals; THREADS and TREE_WIDTH, the largest power of two below THREADS (0 for one
//            thread), have their home in the family.

extern "C" __global__ void __launch_bounds__(THREADS)
conv1d_naive_rolled(float *__restrict__ output, const float *__restrict__ input, const float *__restrict__ weights,
                    const float *__restrict__ bias)
{
    __shared__ float partial[THREADS];
    const int thread = threadIdx.x;
    const int out_channel = blockIdx.x / BATCH;
    const size_t batch_element = blockIdx.x % BATCH;
    const float *const block_input = input + batch_element * IN_CHANNELS * LENGTH;
    const float *const block_weights = weights + static_cast<size_t>(out_channel) * IN_CHANNELS * FILTER_WIDTH;
    float *const block_output = output + (batch_element * OUT_CHANNELS + out_channel) * OUTPUT_LENGTH;

#pragma unroll 1
    for (int t = 0; t < OUTPUT_LENGTH; t++) {
        const int first_tap = t < PADDING ? PADDING - t : 0;
        const int taps_end = PADDING - t < FILTER_WIDTH - LENGTH ? PADDING - t + LENGTH : FILTER_WIDTH;
        float sum = 0.0f;
#pragma unroll 1
        for (size_t channel = thread; channel < IN_CHANNELS; channel += THREADS) {
            const float *const row = block_input + channel * LENGTH;
            const float *const filter = block_weights + channel * FILTER_WIDTH;
#pragma unroll 4
            for (int tap = first_tap; tap < taps_end; tap++)
                sum = fmaf(row[t - PADDING + tap], filter[tap], sum);
        }
        partial[thread] = sum;
        __syncthreads();
#pragma unroll
        for (int width = TREE_WIDTH; width > 0; width /= 2) {
            if (thread < width && thread + width < THREADS)
                partial[thread] += partial[thread + width];
            __syncthreads();
        }
        if (thread == 0)
            block_output[t] = partial[0] + bias[out_channel];
        __syncthreads();
    }
}
