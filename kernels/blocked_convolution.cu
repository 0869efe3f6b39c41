// blocked_convolution: dense convolution (cross-correlation) with zero padding, blocked for shared memory and registers.
//
// Layout:    input  [batch][in_channels][height][width]
//            filter [out_channels][in_channels][FILTER_HEIGHT][FILTER_WIDTH]
//            output [batch][out_channels][output_height][output_width]
//            With ROWS_OF_BATCH a plane's rows are rows of ``height`` batch elements: input [height][in_channels][width], output
//            likewise, batch 1. With BIAS the outputs of a channel begin at its element of bias [out_channels].
// Grid:      x = tiles of an output plane, row by row; y = tiles of OUT_TILE output channels; z = groups of IMAGES images.
// Block:     BLOCK_X * BLOCK_Y * CHANNEL_THREADS * CHANNEL_SLICES threads. Slabs of SLAB_CHANNELS input channels pass through
//            STAGES stages of shared memory: the patch of the input that the tile needs, and the filters. With ASYNC_COPY
//            (compute capability 8.0 and newer) STAGES - 1 slabs are on their way there at any time. A patch is copied by
//            vectors of PATCH_VECTOR words; where rows begin with one, the patch begins PATCH_SHIFT columns early.
// Thread:    ROWS_PER_THREAD x COLUMNS_PER_THREAD outputs of CHANNELS_PER_THREAD output channels, which lie CHANNEL_THREADS
//            apart. It reads each element of its part of the patch once for all outputs that need it, and each tap once. Of the
//            input channels it adds those groups of CHANNEL_GROUP that are its slice's; the slices are added at the end.
// Rows:      with several images in a block, IMAGE_ROWS of the tile's rows belong to each.
// Constants: fields of problem and configuration in capitals; what else is derived has its one home in the family.

#include "vectors.cuh"

#define PATCHES (IMAGES * PATCH_ROWS * (PATCH_COLUMNS / PATCH_VECTOR))
#define OUT_TILE (CHANNEL_THREADS * CHANNELS_PER_THREAD)
#define TILE_ROWS (BLOCK_Y * ROWS_PER_THREAD)
#define TILE_COLUMNS (BLOCK_X * COLUMNS_PER_THREAD)
#define IMAGE_ROWS (TILE_ROWS / IMAGES)
#define POSITIONS (BLOCK_X * BLOCK_Y)
#define SLICE_THREADS (POSITIONS * CHANNEL_THREADS)
#define INTERLEAVED (POSITIONS % 2 == 0 && CHANNEL_THREADS % 2 == 0)
#define THREADS (SLICE_THREADS * CHANNEL_SLICES)
#define FILTER_TAPS (FILTER_HEIGHT * FILTER_WIDTH)
#define GROUP_TAPS (CHANNEL_GROUP * FILTER_TAPS)

// Rows and columns of an input plane that a tile and a thread read.
#define PATCH_ROWS ((IMAGE_ROWS - 1) * STRIDE + FILTER_HEIGHT)
#define THREAD_ROWS ((ROWS_PER_THREAD - 1) * STRIDE + FILTER_HEIGHT)
#define THREAD_COLUMNS (FIRST_TAP + (COLUMNS_PER_THREAD - 1) * STRIDE + FILTER_WIDTH)
// Of the columns by which a patch begins early, a thread skips whole vectors and reads the others.
#define FIRST_TAP (PATCH_SHIFT % PATCH_ALIGNED)
#define SKIPPED_COLUMNS (PATCH_SHIFT - FIRST_TAP)

// Words of a stage: the patch channel by channel, then the taps of each output channel, of which each group starts at a whole
// vector of four.
#define PATCH_CHANNEL (IMAGES * PATCH_ROWS * PATCH_PITCH)
#define FILTER_START ((SLAB_CHANNELS * PATCH_CHANNEL + 3) / 4 * 4)
#define GROUP_PITCH ((GROUP_TAPS + 3) / 4 * 4)
#define STAGE (FILTER_START + OUT_TILE * FILTER_PITCH)

// Neighbouring threads copy neighbouring vectors of the patch; where there are more threads than vectors, groups of threads
// take every PATCH_GROUPS-th channel.
#define PATCH_GROUPS (THREADS < 2 * PATCHES ? 1 : THREADS / PATCHES < SLAB_CHANNELS ? THREADS / PATCHES : SLAB_CHANNELS)
#define PATCH_PASSES ((PATCHES + THREADS - 1) / THREADS)
// Of the filters, FILTER_LANES neighbouring threads copy the run of one output channel, FILTER_VECTOR words each.
#define RUN_VECTORS (SLAB_CHANNELS * FILTER_TAPS / FILTER_VECTOR)
#define RUN_PASSES ((RUN_VECTORS + FILTER_LANES - 1) / FILTER_LANES)
#define FILTER_STEP (THREADS / FILTER_LANES)
#define FILTERS_PAST_L1 (ASYNC_COPY && FILTER_VECTOR == 4)

// Reads WORDS words from an address that is a multiple of ALIGNED words by the widest loads that it allows, none beyond the end.
template <int WORDS, int ALIGNED> __device__ __forceinline__ void read(float *to, const float *from)
{
    constexpr int WIDTH = WORDS >= 4 && ALIGNED == 4 ? 4 : WORDS >= 2 && ALIGNED >= 2 ? 2 : 1;
    move<WIDTH>(to, from);
    if constexpr (WORDS > WIDTH)
        read<WORDS - WIDTH, ALIGNED>(to + WIDTH, from + WIDTH);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    blocked_convolution(float *__restrict__ output, const float *__restrict__ input, const float *__restrict__ filter,
#if BIAS
                        const float *__restrict__ bias,
#endif
                        const int batch, const int in_channels, const int out_channels, const int height, const int width,
                        const int tiles_per_row)
{
    extern __shared__ float4 shared_memory[];
    float *const stages = reinterpret_cast<float *>(shared_memory);

    const int output_height = (height + 2 * ROW_PADDING - FILTER_HEIGHT) / STRIDE + 1;
    const int output_width = (width + 2 * COLUMN_PADDING - FILTER_WIDTH) / STRIDE + 1;
    const int channel_size = ROWS_OF_BATCH ? width : height * width;
    const int row_size = ROWS_OF_BATCH ? in_channels * width : width;
    const int tile_y = (int)blockIdx.x / tiles_per_row;
    const int tile_x = (int)blockIdx.x - tile_y * tiles_per_row;
    const int first_column = tile_x * TILE_COLUMNS;
    const int first_row = tile_y * IMAGE_ROWS;
    const int first_channel = blockIdx.y * OUT_TILE;
    const int first_image = blockIdx.z * IMAGES;

    // Of four neighbouring lanes two read the same elements and two the same taps, so that both are served in half the passes.
    const int thread = threadIdx.x;
    const int slice = thread / SLICE_THREADS;
    const int slice_thread = thread - slice * SLICE_THREADS;
#if INTERLEAVED
    const int pair = slice_thread / 4;
    const int channel_thread = pair / (POSITIONS / 2) * 2 + slice_thread / 2 % 2;
    const int position = pair % (POSITIONS / 2) * 2 + slice_thread % 2;
#else
    const int channel_thread = slice_thread / POSITIONS;
    const int position = slice_thread % POSITIONS;
#endif
    const int thread_y = position / BLOCK_X;
    const int thread_x = position % BLOCK_X;

    // What this thread copies of each channel's patch: elements outside of the image are zero in all stages, for good.
    const int patch_group = PATCH_GROUPS == 1 ? 0 : thread / PATCHES;
    const float *patch_from[PATCH_PASSES];
    int patch_to[PATCH_PASSES];
    bool copies[PATCH_PASSES];
#pragma unroll
    for (int pass = 0; pass < PATCH_PASSES; pass++) {
        const int element = (PATCH_GROUPS == 1 ? thread : thread - patch_group * PATCHES) + pass * THREADS;
        const int patch_row = element / (PATCH_COLUMNS / PATCH_VECTOR);
        const int patch_column = (element - patch_row * (PATCH_COLUMNS / PATCH_VECTOR)) * PATCH_VECTOR;
        const int patch_image = IMAGES == 1 ? 0 : patch_row / PATCH_ROWS;
        const int row = first_row * STRIDE - ROW_PADDING + patch_row - patch_image * PATCH_ROWS;
        const int column = first_column * STRIDE - COLUMN_PADDING - PATCH_SHIFT + patch_column;
        const int image = first_image + patch_image;
        const bool mine = patch_group < PATCH_GROUPS && element < PATCHES;
        copies[pass] = mine && image < batch && (unsigned)row < (unsigned)height && (unsigned)column < (unsigned)width;
        patch_to[pass] = patch_group * PATCH_CHANNEL + patch_row * PATCH_PITCH + patch_column;
        patch_from[pass] = input + ((long long)image * in_channels + patch_group) * channel_size + (long long)row * row_size + column;
        if (mine && !copies[pass]) {
#pragma unroll 1
            for (int stage = 0; stage < STAGES; stage++)
#pragma unroll
                for (int channel = 0; channel < SLAB_CHANNELS; channel += PATCH_GROUPS)
                    if (channel + PATCH_GROUPS <= SLAB_CHANNELS || patch_group + channel < SLAB_CHANNELS)
#pragma unroll
                        for (int word = 0; word < PATCH_VECTOR; word++)
                            stages[stage * STAGE + patch_to[pass] + channel * PATCH_CHANNEL + word] = 0.0f;
        }
    }

    // And of the filters: the run of taps of every FILTER_STEP-th output channel. Channels beyond the last are for sums that are
    // not stored. They repeat the last, but where copies go past L1 the first ones: there all SMs would wait for the few lines of
    // L2 that hold the last.
    const int run_lane = thread % FILTER_LANES;
    const int run_channel = thread / FILTER_LANES;
    int run_to[RUN_PASSES];
#pragma unroll
    for (int pass = 0; pass < RUN_PASSES; pass++) {
        const int word = (run_lane + pass * FILTER_LANES) * FILTER_VECTOR;
        const int group = word / GROUP_TAPS;
        run_to[pass] = FILTER_START + run_channel * FILTER_PITCH + group * GROUP_PITCH + word - group * GROUP_TAPS;
    }
    const float *run_from = filter + run_lane * FILTER_VECTOR;
#if GROUP_TAPS % 4 == 3
#pragma unroll 1
    for (int group = thread; group < STAGES * OUT_TILE * (SLAB_CHANNELS / CHANNEL_GROUP); group += THREADS) {
        const int channel = group / (SLAB_CHANNELS / CHANNEL_GROUP);
        const int within = group - channel * (SLAB_CHANNELS / CHANNEL_GROUP);
        stages[channel / OUT_TILE * STAGE + FILTER_START + channel % OUT_TILE * FILTER_PITCH + within * GROUP_PITCH + GROUP_TAPS] = 0.0f;
    }
#endif

    int fetched = 0;
    float *fetch_stage = stages;
    const auto fetch = [&]() {
        const int channels_left = in_channels - fetched;
#pragma unroll
        for (int pass = 0; pass < PATCH_PASSES; pass++) {
            const float *from = patch_from[pass];
            if (copies[pass]) {
#pragma unroll
                for (int channel = 0; channel < SLAB_CHANNELS; channel += PATCH_GROUPS) {
                    if (patch_group + channel < (CHANNEL_TAIL ? min(channels_left, SLAB_CHANNELS) : SLAB_CHANNELS))
                        copy<PATCH_VECTOR>(fetch_stage + patch_to[pass] + channel * PATCH_CHANNEL, from);
                    from += PATCH_GROUPS * (long long)channel_size;
                }
            }
            patch_from[pass] += SLAB_CHANNELS * (long long)channel_size;
        }
        const int run = CHANNEL_TAIL ? min(channels_left, SLAB_CHANNELS) * FILTER_TAPS : SLAB_CHANNELS * FILTER_TAPS;
#pragma unroll
        for (int first = 0; first < OUT_TILE; first += FILTER_STEP) {
            const int channel = run_channel + first;
            int known = first_channel + channel;
            if (CHANNEL_OVERHANG)
                known = min(FILTERS_PAST_L1 && known >= out_channels ? known - out_channels : known, out_channels - 1);
            if ((THREADS % FILTER_LANES == 0 || run_channel < FILTER_STEP) &&
                (first + FILTER_STEP <= OUT_TILE || channel < OUT_TILE)) {
                const float *const from = run_from + (long long)known * in_channels * FILTER_TAPS;
#pragma unroll
                for (int pass = 0; pass < RUN_PASSES; pass++)
                    if ((!CHANNEL_TAIL && (pass + 1) * FILTER_LANES <= RUN_VECTORS) ||
                        (run_lane + pass * FILTER_LANES) * FILTER_VECTOR < run)
                        copy<FILTER_VECTOR>(fetch_stage + run_to[pass] + first * FILTER_PITCH,
                                            from + pass * FILTER_LANES * FILTER_VECTOR);
            }
        }
        run_from += SLAB_CHANNELS * FILTER_TAPS;
        fetched += SLAB_CHANNELS;
        fetch_stage = fetch_stage == stages + (STAGES - 1) * STAGE ? stages : fetch_stage + STAGE;
    };
    // Groups of copies are counted even where a slab is missing, so that the wait below always leaves STAGES - 2 of them.
    const auto fetch_if_any = [&]() {
        if (fetched < in_channels)
            fetch();
#if ASYNC_COPY
        asm volatile("cp.async.commit_group;" ::: "memory");
#endif
    };

    // What this thread computes.
    const int thread_row = thread_y * ROWS_PER_THREAD;
    const int thread_image = IMAGES == 1 ? 0 : thread_row / IMAGE_ROWS;
    const int image_row = thread_row - thread_image * IMAGE_ROWS;
    const int patch = slice * CHANNEL_GROUP * PATCH_CHANNEL
                      + (thread_image * PATCH_ROWS + image_row * STRIDE) * PATCH_PITCH
                      + thread_x * COLUMNS_PER_THREAD * STRIDE + SKIPPED_COLUMNS;
    const int taps = FILTER_START + channel_thread * FILTER_PITCH + slice * GROUP_PITCH;

    float sum[CHANNELS_PER_THREAD][ROWS_PER_THREAD][COLUMNS_PER_THREAD] = {};
#if BIAS
    if (slice == 0) {
#pragma unroll
        for (int q = 0; q < CHANNELS_PER_THREAD; q++) {
            const int channel = first_channel + channel_thread + q * CHANNEL_THREADS;
            const float offset = bias[CHANNEL_OVERHANG ? min(channel, out_channels - 1) : channel];
#pragma unroll
            for (int o = 0; o < ROWS_PER_THREAD; o++)
#pragma unroll
                for (int p = 0; p < COLUMNS_PER_THREAD; p++)
                    sum[q][o][p] = offset;
        }
    }
#endif

    // Adds a group of input channels. All is unrolled: what has been read is known when this is compiled.
    const auto multiply = [&](const float *const patch, const float *const taps) {
        float x[THREAD_ROWS][THREAD_COLUMNS];
#pragma unroll
        for (int first = 0; first < GROUP_TAPS; first += 4) {
            constexpr int LAST = (GROUP_TAPS - 1) / 4 * 4;
            alignas(16) float tap[CHANNELS_PER_THREAD][4];
#pragma unroll
            for (int q = 0; q < CHANNELS_PER_THREAD; q++) {
                const float *const from = taps + q * CHANNEL_THREADS * FILTER_PITCH + first;
                if (first < LAST)
                    read<4, 4>(tap[q], from);
                else
                    read<GROUP_TAPS - LAST, 4>(tap[q], from);
            }
#pragma unroll
            for (int t = 0; t < 4 && first + t < GROUP_TAPS; t++) {
                const int channel = (first + t) / FILTER_TAPS;
                const int k = (first + t) % FILTER_TAPS / FILTER_WIDTH;
                const int s = (first + t) % FILTER_WIDTH;
                if (s == 0) {
#pragma unroll
                    for (int row = 0; row < THREAD_ROWS; row++) {
                        const int last_output = row / STRIDE < ROWS_PER_THREAD - 1 ? row / STRIDE : ROWS_PER_THREAD - 1;
                        if (row - last_output * STRIDE == k)
                            read<THREAD_COLUMNS, PATCH_ALIGNED>(x[row], patch + channel * PATCH_CHANNEL + row * PATCH_PITCH);
                    }
                }
#pragma unroll
                for (int q = 0; q < CHANNELS_PER_THREAD; q++)
#pragma unroll
                    for (int o = 0; o < ROWS_PER_THREAD; o++)
#pragma unroll
                        for (int p = 0; p < COLUMNS_PER_THREAD; p++)
                            sum[q][o][p] = fmaf(x[o * STRIDE + k][FIRST_TAP + p * STRIDE + s], tap[q][t], sum[q][o][p]);
            }
        }
    };

    const float *stage = stages;
#pragma unroll 1
    for (int ahead = 0; ahead < STAGES - 1; ahead++)
        fetch_if_any();
#pragma unroll 1
    for (int channels_left = in_channels; channels_left > 0; channels_left -= SLAB_CHANNELS) {
#if ASYNC_COPY
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
#endif
        __syncthreads(); // the oldest slab is there, and all have read the one whose place the next takes
        fetch_if_any();
#pragma unroll 1
        for (int channel = 0; channel < SLAB_CHANNELS; channel += CHANNEL_SLICES * CHANNEL_GROUP) {
            if (CHANNEL_TAIL && channel + slice * CHANNEL_GROUP >= channels_left)
                break;
            multiply(stage + patch + channel * PATCH_CHANNEL, stage + taps + channel / CHANNEL_GROUP * GROUP_PITCH);
        }
        stage = stage == stages + (STAGES - 1) * STAGE ? stages : stage + STAGE;
    }

    const long long output_channel = ROWS_OF_BATCH ? output_width : (long long)output_height * output_width;
    const long long output_row = ROWS_OF_BATCH ? (long long)out_channels * output_width : output_width;
#if CHANNEL_SLICES == 1
    const int row = first_row + image_row;
    const int column = first_column + thread_x * COLUMNS_PER_THREAD;
    const int image = first_image + thread_image;
#pragma unroll
    for (int q = 0; q < CHANNELS_PER_THREAD; q++) {
        const int channel = first_channel + channel_thread + q * CHANNEL_THREADS;
        float *const to = output + ((long long)image * out_channels + channel) * output_channel + row * output_row + column;
#pragma unroll
        for (int o = 0; o < ROWS_PER_THREAD; o++) {
            const bool exists = image < batch && channel < out_channels && row + o < output_height;
#pragma unroll
            for (int p = 0; p < COLUMNS_PER_THREAD; p += STORE_VECTOR)
                if (exists && column + p < output_width)
                    move<STORE_VECTOR>(to + o * output_row + p, &sum[q][o][p]);
        }
    }
#else
    // The slices' sums lie one behind the other, each as [channel][row][column], and every thread adds some outputs.
    constexpr int PLANE = TILE_ROWS * TILE_COLUMNS;
    constexpr int OUTPUTS = OUT_TILE * PLANE;
    __syncthreads();
#pragma unroll
    for (int q = 0; q < CHANNELS_PER_THREAD; q++)
#pragma unroll
        for (int o = 0; o < ROWS_PER_THREAD; o++) {
            float *const to = stages + slice * OUTPUTS + (q * CHANNEL_THREADS + channel_thread) * PLANE
                              + (thread_row + o) * TILE_COLUMNS + thread_x * COLUMNS_PER_THREAD;
#pragma unroll
            for (int p = 0; p < COLUMNS_PER_THREAD; p += SUM_VECTOR)
                move<SUM_VECTOR>(to + p, &sum[q][o][p]);
        }
    __syncthreads();
#pragma unroll
    for (int first = 0; first < OUTPUTS; first += THREADS * STORE_VECTOR) {
        const int index = first + thread * STORE_VECTOR;
        alignas(16) float total[STORE_VECTOR];
        const int tile_channel = index / PLANE;
        const int tile_row = index % PLANE / TILE_COLUMNS;
        const int column = first_column + index % TILE_COLUMNS;
        const int tile_image = IMAGES == 1 ? 0 : tile_row / IMAGE_ROWS;
        const int image = first_image + tile_image;
        const int row = first_row + tile_row - tile_image * IMAGE_ROWS;
        const int channel = first_channel + tile_channel;
        const bool exists = image < batch && channel < out_channels && row < output_height && column < output_width;
        if ((first + THREADS * STORE_VECTOR <= OUTPUTS || index < OUTPUTS) && exists) {
            move<STORE_VECTOR>(total, stages + index);
#pragma unroll
            for (int other = 1; other < CHANNEL_SLICES; other++) {
                alignas(16) float part[STORE_VECTOR];
                move<STORE_VECTOR>(part, stages + other * OUTPUTS + index);
#pragma unroll
                for (int word = 0; word < STORE_VECTOR; word++)
                    total[word] += part[word];
            }
            move<STORE_VECTOR>(output + ((long long)image * out_channels + channel) * output_channel + row * output_row + column,
                               total);
        }
    }
#endif
}
