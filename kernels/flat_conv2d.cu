// flat_conv2d: depthwise 2-D convolution (cross-correlation) with zero padding of small images, without idle lanes.
//
// Layout:    input  [batch][channels][height][width]
//            filter [channels][FILTER_HEIGHT][FILTER_WIDTH]
//            output [batch][channels][output_height][output_width]
// Grid:      x = strips of ROWS_PER_THREAD outputs of one column. They are numbered column by column, then down a plane, then
//            from plane to plane, so that a warp runs on where a row or a plane ends.
// Block:     BLOCK_X threads.
// Thread:    one strip. It loads each element and each tap once, all before their first use as far as registers allow.
// Constants: fields of problem and configuration in capitals. Divisors are parameters as multiplier and shift.

#define FILTER_TAPS (FILTER_HEIGHT * FILTER_WIDTH)
#define STRIP_ROWS ((ROWS_PER_THREAD - 1) * STRIDE + FILTER_HEIGHT)

__device__ __forceinline__ unsigned divided(unsigned number, unsigned multiplier, int shift)
{
    return (unsigned)((unsigned long long)number * multiplier >> shift);
}

// *address, or zero. The compiler's own form of the conditional expression would branch.
__device__ __forceinline__ float load_if(bool inside, const float *address)
{
    float element;
    asm("{\n\t"
        ".reg .pred inside;\n\t"
        "setp.ne.s32 inside, %2, 0;\n\t"
        "mov.f32 %0, 0f00000000;\n\t"
        "@inside ld.global.nc.f32 %0, [%1];\n\t"
        "}"
        : "=f"(element)
        : "l"(address), "r"((int)inside));
    return element;
}

extern "C" __global__ void __launch_bounds__(BLOCK_X)
    flat_conv2d(float *__restrict__ output, const float *__restrict__ input, const float *__restrict__ filter,
                const unsigned strips, const int channels, const int height, const int width, const int output_height,
                const int output_width, const int strips_down, const unsigned width_multiplier, const int width_shift,
                const unsigned down_multiplier, const int down_shift, const unsigned channels_multiplier,
                const int channels_shift)
{
    const unsigned strip = blockIdx.x * BLOCK_X + threadIdx.x;
    if (strip >= strips)
        return;
    const unsigned row_of_strips = divided(strip, width_multiplier, width_shift);
    const int output_column = strip - row_of_strips * output_width;
    const unsigned plane = divided(row_of_strips, down_multiplier, down_shift);
    const int first_output_row = (row_of_strips - plane * strips_down) * ROWS_PER_THREAD;
    const unsigned channel = ONE_IMAGE ? plane : plane - divided(plane, channels_multiplier, channels_shift) * channels;

    const int first_row = first_output_row * STRIDE - PADDING;
    const int column = output_column * STRIDE - PADDING;
    const float *row = input + ((long long)plane * height + first_row) * width + column;
    const float *const taps = filter + channel * FILTER_TAPS;

    float tap[FILTER_TAPS];
#pragma unroll
    for (int i = 0; i < FILTER_TAPS; i++)
        tap[i] = __ldg(taps + i);

    bool inside[FILTER_WIDTH];
#pragma unroll
    for (int i = 0; i < FILTER_WIDTH; i++)
        inside[i] = ((i >= PADDING) | (column + i >= 0)) & ((i < FILTER_WIDTH - PADDING) | (column + i < width));

    float sum[ROWS_PER_THREAD] = {};
#pragma unroll
    for (int r = 0; r < STRIP_ROWS; r++) {
        const bool row_inside = ((r >= PADDING) | (first_row + r >= 0)) & (first_row + r < height);
        float element[FILTER_WIDTH];
#pragma unroll
        for (int i = 0; i < FILTER_WIDTH; i++)
            element[i] = load_if(row_inside & inside[i], row + i);
        row += width;
#pragma unroll
        for (int o = 0; o < ROWS_PER_THREAD; o++) {
            const int k = r - o * STRIDE;
            if (k >= 0 && k < FILTER_HEIGHT) {
#pragma unroll
                for (int i = 0; i < FILTER_WIDTH; i++)
                    sum[o] = fmaf(element[i], tap[k * FILTER_WIDTH + i], sum[o]);
            }
        }
    }

    float *const to = output + ((long long)plane * output_height + first_output_row) * output_width + output_column;
#pragma unroll
    for (int o = 0; o < ROWS_PER_THREAD; o++)
        if (first_output_row + o < output_height)
            to[(long long)o * output_width] = sum[o];
}
