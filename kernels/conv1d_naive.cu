// conv1d_naive: dense 1-D convolution (cross-correlation), one input channel per thread; conv1d_optimized's baseline.
//
// Layout:    input [BATCH][IN_CHANNELS][LENGTH], weights [OUT_CHANNELS][IN_CHANNELS][FILTER_WIDTH], bias [OUT_CHANNELS]
//            output [BATCH][OUT_CHANNELS][OUTPUT_LENGTH]; zeros are assumed PADDING words beyond both ends of a row.
// Block:     IN_CHANNELS threads compute the OUTPUT_LENGTH outputs of one output channel of one batch element.
// Thread:    one input channel, read from global memory; the channels are summed by a tree in shared memory, output by
//            output.
// Constants: the problem's fields in capitals; TREE_WIDTH, the largest power of two below IN_CHANNELS (0 for one
//            channel), has its home in the family.

extern "C" __global__ void __launch_bounds__(IN_CHANNELS)
conv1d_naive(float *__restrict__ output, const float *__restrict__ input, const float *__restrict__ weights,
             const float *__restrict__ bias)
{
    __shared__ float partial[IN_CHANNELS];
    const int channel = threadIdx.x;
    const int out_channel = blockIdx.x / BATCH;
    const size_t batch_element = blockIdx.x % BATCH;
    const float *const row = input + (batch_element * IN_CHANNELS + channel) * LENGTH;
    const float *const filter = weights + (static_cast<size_t>(out_channel) * IN_CHANNELS + channel) * FILTER_WIDTH;

    float own_input[LENGTH];
#pragma unroll
    for (int i = 0; i < LENGTH; i++)
        own_input[i] = row[i];
    float own_weights[FILTER_WIDTH];
#pragma unroll
    for (int i = 0; i < FILTER_WIDTH; i++)
        own_weights[i] = filter[i];

#pragma unroll
    for (int t = 0; t < OUTPUT_LENGTH; t++) {
        float sum = 0.0f;
#pragma unroll
        for (int tap = 0; tap < FILTER_WIDTH; tap++) {
            const int column = t + tap - PADDING;
            if (column >= 0 && column < LENGTH)
                sum = fmaf(own_input[column], own_weights[tap], sum);
        }
        partial[channel] = sum;
        __syncthreads();
#pragma unroll
        for (int width = TREE_WIDTH; width > 0; width /= 2) {
            if (channel < width && channel + width < IN_CHANNELS)
                partial[channel] += partial[channel + width];
            __syncthreads();
        }
        if (channel == 0)
            output[(batch_element * OUT_CHANNELS + out_channel) * OUTPUT_LENGTH + t] = partial[0] + bias[out_channel];
        __syncthreads();
    }
}
