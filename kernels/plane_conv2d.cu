// plane_conv2d: depthwise 2-D convolution (cross-correlation) with zero padding of small images, whole planes in shared memory.
//
// Layout:    input  [batch][channels][HEIGHT][WIDTH]
//            filter [channels][FILTER_HEIGHT][FILTER_WIDTH]
//            output [batch][channels][OUTPUT_HEIGHT][OUTPUT_WIDTH]
// Grid:      x = groups of PLANES planes, counted through channels and images.
// Block:     BLOCK_X threads. The planes of a group, one run of memory, and their filters are copied to shared memory; the outputs
//            leave by way of shared memory, so that global memory sees whole vectors only, and no edge of an image.
//            DIRECT_STORES: few blocks, whose threads store their outputs themselves: a pass through shared memory and a barrier
//            take longer than sectors that are stored in parts.
// Thread:    ROWS_PER_THREAD x COLUMNS_PER_THREAD neighbouring outputs of one plane. Neighbouring threads have tiles side by side,
//            then one below the other, then of the next plane.
// Edges:     sizes are compile-time constants, so that taps outside of the image cost nothing where a tile is as wide, or as high,
//            as the plane; elsewhere what they would read is zero. Where tiles are as wide, rows outside are zeros that
//            lie in the same banks.
// Constants: fields of problem and configuration in capitals; vectors and pitches have their one home in the family.
//            WHOLE_GROUPS: the last group has as many planes as the others. STORE_VECTOR: words of a thread's store.

#include "vectors.cuh"

#define FILTER_TAPS (FILTER_HEIGHT * FILTER_WIDTH)
#define TILES_ACROSS ((OUTPUT_WIDTH + COLUMNS_PER_THREAD - 1) / COLUMNS_PER_THREAD)
#define TILES_DOWN ((OUTPUT_HEIGHT + ROWS_PER_THREAD - 1) / ROWS_PER_THREAD)
#define TILES (TILES_ACROSS * TILES_DOWN)
#define INPUT_PLANE (HEIGHT * WIDTH)
#define OUTPUT_PLANE (OUTPUT_HEIGHT * OUTPUT_WIDTH)
#define TILE_ROWS ((ROWS_PER_THREAD - 1) * STRIDE + FILTER_HEIGHT)
#define TILE_COLUMNS ((COLUMNS_PER_THREAD - 1) * STRIDE + FILTER_WIDTH)

// Words of shared memory: input planes, the outputs if they pass through it, the filters, each of which starts at a whole vector, and zeros for a row that
// begins in any bank.
#define WHOLE(words) (((words) + 3) / 4 * 4)
#define OUTPUT_START WHOLE(PLANES * INPUT_PLANE)
#define FILTER_START (OUTPUT_START + (DIRECT_STORES ? 0 : WHOLE(PLANES * OUTPUT_PLANE)))
#define FILTER_PITCH WHOLE(FILTER_TAPS)
#define ZEROS_START ((FILTER_START + PLANES * FILTER_PITCH + 31) / 32 * 32)
#define ZEROS (31 + WIDTH)

// Groups of FILTER_TAPS threads copy the taps of as many planes at once.
#define FILTERS_AT_ONCE (BLOCK_X < FILTER_TAPS ? 1 : BLOCK_X / FILTER_TAPS)

// Moves a run of WORDS words, one vector a thread and pass; of the last group only those that are ``there``.
template <int WORDS, int VECTOR, typename Move>
__device__ __forceinline__ void move_run(float *to, const float *from, const int there, const Move move_vector)
{
    const int own = (int)threadIdx.x * VECTOR;
    to += own;
    from += own;
#pragma unroll
    for (int first = 0; first < WORDS; first += BLOCK_X * VECTOR)
        if ((WHOLE_GROUPS && first + BLOCK_X * VECTOR <= WORDS) || first + own < (WHOLE_GROUPS ? WORDS : there))
            move_vector(to + first, from + first);
}

// Where blocks are few, registers for early reads are worth more than room for further blocks.
#if DIRECT_STORES
#define BOUNDS __launch_bounds__(BLOCK_X, 1)
#else
#define BOUNDS __launch_bounds__(BLOCK_X)
#endif

extern "C" __global__ void BOUNDS
    plane_conv2d(float *__restrict__ output, const float *__restrict__ input, const float *__restrict__ filter, const unsigned planes)
{
    extern __shared__ float4 shared_memory[];
    float *const shared = reinterpret_cast<float *>(shared_memory);
    const unsigned first_plane = blockIdx.x * PLANES;
    const int own_planes = WHOLE_GROUPS ? PLANES : min(planes - first_plane, PLANES);

    move_run<PLANES * INPUT_PLANE, INPUT_VECTOR>(shared, input + (long long)first_plane * INPUT_PLANE, own_planes * INPUT_PLANE,
                                                 copy<INPUT_VECTOR>);
    const int of_filter = FILTERS_AT_ONCE == 1 ? 0 : (int)threadIdx.x / FILTER_TAPS;
    const int first_tap = (int)threadIdx.x - of_filter * FILTER_TAPS;
    const int first_channel = first_plane % CHANNELS + of_filter;
#pragma unroll
    for (int first = 0; first < PLANES; first += FILTERS_AT_ONCE) {
        const int channel = CHANNELS % PLANES == 0 ? first_channel + first : (first_channel + first) % CHANNELS;
        if (of_filter < FILTERS_AT_ONCE && first + of_filter < own_planes)
#pragma unroll
            for (int tap = 0; tap < FILTER_TAPS; tap += BLOCK_X)
                if (tap + BLOCK_X <= FILTER_TAPS || FILTERS_AT_ONCE > 1 || tap + first_tap < FILTER_TAPS)
                    copy<1>(shared + FILTER_START + of_filter * FILTER_PITCH + first_tap + first * FILTER_PITCH + tap,
                            filter + channel * FILTER_TAPS + first_tap + tap);
    }
#if TILES_ACROSS == 1 && TILES_DOWN > 1
#pragma unroll
    for (unsigned first = 0; first < ZEROS; first += BLOCK_X)
        if (first + BLOCK_X <= ZEROS || first + threadIdx.x < ZEROS)
            shared[ZEROS_START + first + threadIdx.x] = 0.0f;
#endif

    const int plane = (int)threadIdx.x / TILES;
    const int tile = (int)threadIdx.x % TILES;
    const int output_row = TILES_DOWN == 1 ? 0 : tile / TILES_ACROSS * ROWS_PER_THREAD;
    const int output_column = TILES_ACROSS == 1 ? 0 : tile % TILES_ACROSS * COLUMNS_PER_THREAD;
    int first_row = output_row * STRIDE - PADDING;
    int first_column = output_column * STRIDE - PADDING;
    int first_word = plane * INPUT_PLANE + first_row * WIDTH + first_column;
    int first_tap_word = FILTER_START + plane * FILTER_PITCH;
    const int first_output = plane * OUTPUT_PLANE + output_row * OUTPUT_WIDTH + output_column;
#if DIRECT_STORES
    float *to = output + (long long)first_plane * OUTPUT_PLANE + first_output;
    // While the copies are on their way: the compiler would move these divisions behind the barrier.
    asm volatile("" : "+r"(first_row), "+r"(first_column), "+r"(first_word), "+r"(first_tap_word), "+l"(to));
#else
    float *const to = shared + OUTPUT_START + first_output;
#endif

#if ASYNC_COPY
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncthreads();

    if (plane < own_planes) {
        alignas(16) float tap[FILTER_PITCH];
#pragma unroll
        for (int i = 0; i < FILTER_PITCH; i += 4)
            move<4>(tap + i, shared + first_tap_word + i);

        alignas(16) float sum[ROWS_PER_THREAD][COLUMNS_PER_THREAD] = {};
#pragma unroll
        for (int r = 0; r < TILE_ROWS; r++) {
            if (TILES_DOWN == 1 && (r < PADDING || r - PADDING >= HEIGHT))
                continue;
            const bool row_inside = TILES_DOWN == 1 || (unsigned)(first_row + r) < HEIGHT;
            alignas(16) float x[TILE_COLUMNS];
#if TILES_ACROSS == 1
            const int start = first_word + r * WIDTH + PADDING;
            const float *const row = shared + (row_inside ? start : ZEROS_START + (start & 31));
            alignas(16) float whole_row[WIDTH];
#pragma unroll
            for (int c = 0; c < WIDTH; c += READ_VECTOR)
                move<READ_VECTOR>(whole_row + c, row + c);
#pragma unroll
            for (int c = PADDING; c < TILE_COLUMNS && c - PADDING < WIDTH; c++)
                x[c] = whole_row[c - PADDING];
#else
#pragma unroll
            for (int c = 0; c < TILE_COLUMNS; c++) {
                const bool edge = c < PADDING || c >= WIDTH + PADDING - (TILES_ACROSS - 1) * COLUMNS_PER_THREAD * STRIDE;
                const bool inside = row_inside && (!edge || (unsigned)(first_column + c) < WIDTH);
                x[c] = inside ? shared[first_word + r * WIDTH + c] : 0.0f;
            }
#endif
#pragma unroll
            for (int o = 0; o < ROWS_PER_THREAD; o++) {
                const int k = r - o * STRIDE;
                if (k < 0 || k >= FILTER_HEIGHT)
                    continue;
#pragma unroll
                for (int p = 0; p < COLUMNS_PER_THREAD; p++)
#pragma unroll
                    for (int s = 0; s < FILTER_WIDTH; s++) {
                        const int c = p * STRIDE + s;
                        if (TILES_ACROSS > 1 || (c >= PADDING && c - PADDING < WIDTH))
                            sum[o][p] = fmaf(x[c], tap[k * FILTER_WIDTH + s], sum[o][p]);
                    }
            }
        }

#pragma unroll
        for (int o = 0; o < ROWS_PER_THREAD; o++)
#pragma unroll
            for (int p = 0; p < COLUMNS_PER_THREAD; p += STORE_VECTOR)
                if ((OUTPUT_HEIGHT % ROWS_PER_THREAD == 0 || output_row + o < OUTPUT_HEIGHT)
                    && (OUTPUT_WIDTH % COLUMNS_PER_THREAD == 0 || output_column + p < OUTPUT_WIDTH))
                    move<STORE_VECTOR>(to + o * OUTPUT_WIDTH + p, sum[o] + p);
    }
#if !DIRECT_STORES
    __syncthreads();

    move_run<PLANES * OUTPUT_PLANE, OUTPUT_VECTOR>(output + (long long)first_plane * OUTPUT_PLANE, shared + OUTPUT_START,
                                                   own_planes * OUTPUT_PLANE, move<OUTPUT_VECTOR>);
#endif
}
