// direct_conv2d: 2-D convolution (cross-correlation) with zero padding, straight from global memory to registers.
//
// Layout:    input  [batch][IN_CHANNELS][height][width]
//            output [batch][OUT_CHANNELS][output_height][output_width]
//            filter [OUT_CHANNELS][FILTER_CHANNELS][FILTER_HEIGHT][FILTER_WIDTH]; FILTER_CHANNELS is 1 when DEPTHWISE,
//            else IN_CHANNELS. It stands in constant memory where it fits 64 KiB (FILTER_IN_CONSTANT), else it is a
//            read-only global array.
// Grid:      x = tiles of an output plane, row by row; y = output channel; z = image.
// Block:     BLOCK_X x BLOCK_Y threads; BLOCK_X columns by BLOCK_Y * ROWS_PER_THREAD rows of one output plane. BLOCK_X is a
//            multiple of 32, so that a warp is 32 neighbouring columns of one row.
// Thread:    ROWS_PER_THREAD outputs of one column. The FILTER_WIDTH taps of an input row come from as many loads, or
//            (REUSE COLUMN, COLUMN_ROW) from a few loads and exchanges with the other lanes of the warp. Each output loads its
//            FILTER_HEIGHT rows itself, or (ROW, COLUMN_ROW) each row is loaded once and added to all outputs that it reaches.
// Constants: fields of problem and configuration in capitals. PLAN_LOADS is a list of LOAD(tap) and PLAN_STEPS one of
//            STEP(tap, mask): which taps are loaded and which exchanged, whose one home is the family.

#define NONE 1
#define COLUMN 2
#define ROW 3
#define COLUMN_ROW 4
#define DYNAMIC_INDEX 5
#define PACK_SHIFT 6
#define SELECT 7
#define ROTATE 8
#define UNROLLED 9
#define ROLLING 10

#define COLUMN_REUSE (REUSE == COLUMN || REUSE == COLUMN_ROW)
#define ROW_REUSE (REUSE == ROW || REUSE == COLUMN_ROW)
#define FILTER_TAPS (FILTER_HEIGHT * FILTER_WIDTH)
#define FILTER_CHANNELS (DEPTHWISE ? 1 : IN_CHANNELS)
#define FILTER_ELEMENTS (OUT_CHANNELS * FILTER_CHANNELS * FILTER_TAPS)
#define ALL_LANES 0xffffffffu

// The threads of a warp have the same threadIdx.y. Told so by a shuffle, the compiler keeps no second copy of the exchanges for
// a warp that might have diverged at the end of a strip.
#ifndef SHARE_WARP_ROW
#define SHARE_WARP_ROW COLUMN_REUSE
#endif

// Taps are kept in registers where they are few, so that each is fetched once for a channel. Where they are many they are
// fetched again: from global memory for each use, from constant memory in each pass of a loop.
#define TAPS_IN_REGISTERS (FILTER_TAPS <= TAPS_IN_REGISTERS_LIMIT)
#define FETCH_IN_LOOP (FILTER_CHANNELS > 1 || (FILTER_IN_CONSTANT && OUT_CHANNELS > 1 && !TAPS_IN_REGISTERS))

#if FILTER_IN_CONSTANT
__constant__ float filter[FILTER_ELEMENTS];
#define FILTER_PARAMETER
#else
#define FILTER_PARAMETER , const float *__restrict__ filter
#endif

// Whether column lies in the image; the caller knows on which sides it may lie outside. Conditions are joined by & and |,
// because && and || would branch.
__device__ __forceinline__ bool in_width(int column, int width, bool left, bool right)
{
    if (left && right)
        return (unsigned)column < (unsigned)width;
    return (!left | (column >= 0)) & (!right | (column < width));
}

// The element OFFSET columns right of *row, or zero. The compiler's own form of the conditional expression moves the result
// once more, and without the immediate offset each element gets an address of its own.
template <int OFFSET> __device__ __forceinline__ float load_if(bool inside, const float *row)
{
    float element;
    asm("{\n\t"
        ".reg .pred inside;\n\t"
        "setp.ne.s32 inside, %2, 0;\n\t"
        "mov.f32 %0, 0f00000000;\n\t"
        "@inside ld.global.nc.f32 %0, [%1+%3];\n\t"
        "}"
        : "=f"(element)
        : "l"(row), "r"((int)inside), "n"(OFFSET * (int)sizeof(float)));
    return element;
}

#if !FILTER_IN_CONSTANT
// Volatile, so that the number of loads is the one that the source says.
__device__ __forceinline__ float load_tap(const float *address)
{
    float tap;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(tap) : "l"(address));
    return tap;
}
#endif

// The taps of one output channel and input channel.
struct Filter {
#if FILTER_IN_CONSTANT
    int first;
    __device__ __forceinline__ void select(int channel)
    {
        first = channel * FILTER_TAPS;
        if (FETCH_IN_LOOP)
            asm volatile("" : "+r"(first)); // the compiler must not move the fetches out of the loop
    }
    __device__ __forceinline__ float tap(int row, int column) const { return filter[first + row * FILTER_WIDTH + column]; }
#elif TAPS_IN_REGISTERS
    float taps[FILTER_TAPS];
    const float *all;
    __device__ __forceinline__ void select(int channel)
    {
#pragma unroll
        for (int i = 0; i < FILTER_TAPS; i++)
            taps[i] = load_tap(all + channel * FILTER_TAPS + i);
    }
    __device__ __forceinline__ float tap(int row, int column) const { return taps[row * FILTER_WIDTH + column]; }
#else
    const float *all;
    const float *first;
    __device__ __forceinline__ void select(int channel) { first = all + channel * FILTER_TAPS; }
    __device__ __forceinline__ float tap(int row, int column) const { return load_tap(first + row * FILTER_WIDTH + column); }
#endif
};

#if COLUMN_REUSE && EXCHANGE != ROTATE
// Element lane + TAP from the lane whose number differs in the bit MASK: the lower of the two publishes its tap
// TAP + MASK and gets the other's tap TAP - MASK, which is the same element counted from there.
template <int TAP, int MASK> __device__ __forceinline__ float exchange(const float (&taps)[TAP_COUNT], int lane)
{
#if EXCHANGE == DYNAMIC_INDEX
    return __shfl_xor_sync(ALL_LANES, taps[TAP + MASK - ((lane & MASK) << 1)], MASK);
#elif EXCHANGE == PACK_SHIFT
    const unsigned long long both = (unsigned long long)__float_as_uint(taps[TAP + MASK]) << 32
                                    | __float_as_uint(taps[TAP - MASK]);
    const int shift = ((lane + MASK) & MASK) * (32 / MASK);
    return __shfl_xor_sync(ALL_LANES, __uint_as_float((unsigned)(both >> shift)), MASK);
#else
    return __shfl_xor_sync(ALL_LANES, lane & MASK ? taps[TAP - MASK] : taps[TAP + MASK], MASK);
#endif
}
#endif

// Fills taps with the FILTER_WIDTH elements from `column` on of one input row, of which `row` points to the first.
__device__ __forceinline__ void read_row(float (&taps)[TAP_COUNT], const float *row, bool row_inside, int column, int width,
                                         int lane)
{
#if EXCHANGE == ROTATE
    const float here = load_if<0>(row_inside & in_width(column, width, PADDING > 0, true), row);
    const bool beyond = (lane < FILTER_WIDTH - 1) & in_width(column + 32, width, PADDING > 32, true);
    const float next = FILTER_WIDTH > 1 ? load_if<32>(row_inside & beyond, row) : 0.0f;
    taps[0] = here;
#pragma unroll
    for (int i = 1; i < FILTER_WIDTH; i++)
        taps[i] = __shfl_sync(ALL_LANES, lane < i ? next : here, lane + i);
#else
    // A thread with an output reaches over the left edge with the first PADDING taps only, and likewise on the right.
#define LOAD(TAP)                                                                                                            \
    taps[TAP] = load_if<TAP>(                                                                                                \
        row_inside & in_width(column + TAP, width, TAP < PADDING, COLUMN_REUSE || TAP >= FILTER_WIDTH - PADDING), row);
#define STEP(TAP, MASK) taps[TAP] = exchange<TAP, MASK>(taps, lane);
    PLAN_LOADS
    PLAN_STEPS
#endif
}

extern "C" __global__ void __launch_bounds__(BLOCK_X *BLOCK_Y)
    direct_conv2d(float *__restrict__ output, const float *__restrict__ input FILTER_PARAMETER, int height, int width,
                  int tiles_per_row, unsigned tiles_per_row_reciprocal, int tiles_per_row_shift)
{
    const int output_height = (height + 2 * PADDING - FILTER_HEIGHT) / STRIDE + 1;
    const int output_width = (width + 2 * PADDING - FILTER_WIDTH) / STRIDE + 1;
    const int tile_y = (int)((unsigned long long)blockIdx.x * tiles_per_row_reciprocal >> tiles_per_row_shift);
    const int tile_x = (int)blockIdx.x - tile_y * tiles_per_row;
    const int lane = threadIdx.x & 31;
    const int output_column = tile_x * BLOCK_X + threadIdx.x;
    const int warp_y = SHARE_WARP_ROW ? __shfl_sync(ALL_LANES, threadIdx.y, 0) : threadIdx.y;
    const int first_output_row = (tile_y * BLOCK_Y + warp_y) * ROWS_PER_THREAD;
    const bool has_output = output_column < output_width;

    // Lanes that exchange must all stay as long as one of them has an output.
#if COLUMN_REUSE
    if (output_column - lane >= output_width || first_output_row >= output_height)
        return;
#else
    if (!has_output || first_output_row >= output_height)
        return;
#endif

    const int output_rows = ROWS_PER_THREAD == 1 ? 1 : min(ROWS_PER_THREAD, output_height - first_output_row);
    const int column = output_column * STRIDE - PADDING;
    const int first_row = first_output_row * STRIDE - PADDING;
    const int plane_size = height * width;
    const int input_plane = DEPTHWISE ? blockIdx.z * OUT_CHANNELS + blockIdx.y : blockIdx.z * IN_CHANNELS;
    const int output_plane = blockIdx.z * OUT_CHANNELS + blockIdx.y;
    const float *const patch = input + (long long)input_plane * plane_size + (long long)first_row * width + column;
    float *const strip = output + ((long long)output_plane * output_height + first_output_row) * output_width + output_column;

    const int first_filter = OUT_CHANNELS == 1 ? 0 : blockIdx.y * FILTER_CHANNELS;
    Filter channel_filter;
#if !FILTER_IN_CONSTANT
    channel_filter.all = filter + first_filter * FILTER_TAPS;
#define FILTER_OF(CHANNEL) (CHANNEL)
#else
#define FILTER_OF(CHANNEL) (first_filter + (CHANNEL))
#endif
    if (!FETCH_IN_LOOP)
        channel_filter.select(FILTER_OF(0));

    float taps[TAP_COUNT];

#if !ROW_REUSE

#pragma unroll 1
    for (int o = 0; o < output_rows; o++) {
        const int top = first_row + o * STRIDE;
        float sum = 0.0f;
#pragma unroll 1
        for (int channel = 0; channel < FILTER_CHANNELS; channel++) {
            if (FETCH_IN_LOOP)
                channel_filter.select(FILTER_OF(channel));
            const float *row = patch + (long long)channel * plane_size + (long long)(o * STRIDE) * width;
#pragma unroll
            for (int k = 0; k < FILTER_HEIGHT; k++) {
                const bool inside = ((k >= PADDING) | (k >= -top)) & ((k < FILTER_HEIGHT - PADDING) | (k < height - top));
                read_row(taps, row, inside, column, width, lane);
                row += width;
#pragma unroll
                for (int i = 0; i < FILTER_WIDTH; i++)
                    sum = fmaf(taps[i], channel_filter.tap(k, i), sum);
            }
        }
        if (has_output)
            strip[(long long)o * output_width] = sum;
    }

#else

    // Rows of the patch from here on lie below the image or reach no output of this thread.
    const int row_end = min(height - first_row, (output_rows - 1) * STRIDE + FILTER_HEIGHT);

#if ACCUMULATORS == UNROLLED

    float sums[ROWS_PER_THREAD];
#pragma unroll
    for (int o = 0; o < ROWS_PER_THREAD; o++)
        sums[o] = 0.0f;

#pragma unroll 1
    for (int channel = 0; channel < FILTER_CHANNELS; channel++) {
        if (FETCH_IN_LOOP)
            channel_filter.select(FILTER_OF(channel));
        const float *row = patch + (long long)channel * plane_size;
#pragma unroll
        for (int r = 0; r < (ROWS_PER_THREAD - 1) * STRIDE + FILTER_HEIGHT; r++) {
            read_row(taps, row, ((r >= PADDING) | (r >= -first_row)) & (r < row_end), column, width, lane);
            row += width;
#pragma unroll
            for (int o = 0; o < ROWS_PER_THREAD; o++) {
                const int k = r - o * STRIDE;
                if (k >= 0 && k < FILTER_HEIGHT) {
#pragma unroll
                    for (int i = 0; i < FILTER_WIDTH; i++)
                        sums[o] = fmaf(taps[i], channel_filter.tap(k, i), sums[o]);
                }
            }
        }
    }

#pragma unroll
    for (int o = 0; o < ROWS_PER_THREAD; o++)
        if (has_output && o < output_rows)
            strip[(long long)o * output_width] = sums[o];

#else

    // Partial sums of the outputs that the current rows reach, the one that is finished next in front.
    constexpr int WINDOW = (FILTER_HEIGHT + STRIDE - 1) / STRIDE;
    float sums[WINDOW + 1];
#pragma unroll
    for (int j = 0; j <= WINDOW; j++)
        sums[j] = 0.0f;

#pragma unroll 1
    for (int step = 0; step < output_rows + WINDOW - 1; step++) {
#pragma unroll
        for (int j = 0; j < WINDOW; j++)
            sums[j] = sums[j + 1];
#pragma unroll 1
        for (int channel = 0; channel < FILTER_CHANNELS; channel++) {
            if (FETCH_IN_LOOP)
                channel_filter.select(FILTER_OF(channel));
            const float *row = patch + (long long)channel * plane_size + (long long)(step * STRIDE) * width;
#pragma unroll
            for (int s = 0; s < STRIDE; s++) {
                const int r = step * STRIDE + s;
                read_row(taps, row, ((PADDING == 0) | (r >= -first_row)) & (r < row_end), column, width, lane);
                row += width;
#pragma unroll
                for (int j = 0; j < WINDOW; j++) {
                    const int k = (WINDOW - 1 - j) * STRIDE + s;
                    if (k < FILTER_HEIGHT) {
#pragma unroll
                        for (int i = 0; i < FILTER_WIDTH; i++)
                            sums[j] = fmaf(taps[i], channel_filter.tap(k, i), sums[j]);
                    }
                }
            }
        }
        if (has_output && step >= WINDOW - 1)
            strip[(long long)(step - (WINDOW - 1)) * output_width] = sums[0];
    }

#endif
#endif
}
