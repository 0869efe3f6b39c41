// pointwise_conv2d: 1x1 convolution by four levels of blocking (SM, block, warp and thread tile).
//
// Layout:    input  [batch][in_channels][positions]    positions = height * width of one image
//            filter [out_channels][in_channels]
//            output [batch][out_channels][positions]
// Block:     128 threads, 2x2 warps; BLOCK_W x BLOCK_H outputs. LAYOUT 1 puts filters along the width and positions along
//            the height, LAYOUT 2 the other way round. Grid: x over positions of all images, y over filters.
// Thread:    WARP_H rows x THREAD_W columns, of each CHANNEL_LANES-th channel. Slabs of SLAB_GROUPS * CHANNEL_LANES channels
//            pass through STAGES stages of shared memory. With ASYNC_COPY (compute capability 8.0 and newer) STAGES - 1
//            slabs are on their way there at any time; without, one is, by way of registers. At the end the lanes of an
//            output add up: in each of log2(CHANNEL_LANES) steps a lane sends half of the sums that it still holds to its
//            partner, so that the outputs end spread over the lanes, memory neighbours in one request.
// Constants: LAYOUT and CHANNEL_LANES of the configuration; the tile (WARP_H, THREAD_W), SLAB_GROUPS, STAGES, RESIDENT_BLOCKS,
//            the widths of vector accesses, the shared pitches that keep them free of bank conflicts, and what the problem
//            has or lacks (ONE_IMAGE, CHANNEL_TAIL, FILTER_TAIL) come from the family, their one home.

#define THREADS 128
#define LANES 32
#define SLAB_CHANNELS (SLAB_GROUPS * CHANNEL_LANES)
#define ELEMENT_LANES (LANES / CHANNEL_LANES)
#define WARP_W (THREAD_W * ELEMENT_LANES)
#define BLOCK_W (2 * WARP_W)
#define BLOCK_H (2 * WARP_H)
#define THREAD_OUTPUTS (WARP_H * THREAD_W)

#if LAYOUT == 1
#define FILTER_TILE BLOCK_W
#define SUM_INDEX(row, column) ((column) * WARP_H + (row))
#define POSITION_TILE BLOCK_H
#define FILTER_CHANNEL WIDTH_CHANNEL
#define FILTER_START 0
#define FILTER_PITCH WIDTH_PITCH
#define INPUT_CHANNEL HEIGHT_CHANNEL
#define INPUT_START HEIGHT_START
#else
#define FILTER_TILE BLOCK_H
#define SUM_INDEX(row, column) ((row) * THREAD_W + (column))
#define POSITION_TILE BLOCK_W
#define FILTER_CHANNEL HEIGHT_CHANNEL
#define FILTER_START HEIGHT_START
#define FILTER_PITCH HEIGHT_PITCH
#define INPUT_CHANNEL WIDTH_CHANNEL
#define INPUT_START 0
#endif

// Words of shared memory from the start of a stage. A channel's row starts at a multiple of the pitch; the additional pad
// after every few channels frees the stores that transpose the channels of a filter.
#define ROUND_UP_4(words) (((words) + 3) / 4 * 4)
#define WIDTH_CHANNEL(channel) ((channel) * WIDTH_PITCH + (channel) / WIDTH_PAD_EVERY * WIDTH_PAD)
#define HEIGHT_CHANNEL(channel) ((channel) * HEIGHT_PITCH + (channel) / HEIGHT_PAD_EVERY * HEIGHT_PAD)
#define HEIGHT_START ROUND_UP_4(WIDTH_CHANNEL(SLAB_CHANNELS - 1) + WIDTH_PITCH)
#define COLUMN(index) (((index) / WIDTH_VECTOR * ELEMENT_LANES + element) * WIDTH_VECTOR + (index) % WIDTH_VECTOR)
#define STAGE (HEIGHT_START + ROUND_UP_4(HEIGHT_CHANNEL(SLAB_CHANNELS - 1) + HEIGHT_PITCH))

// Who fetches what: of the filters, FILTER_LANES neighbouring threads take neighbouring channels, then FILTER_STEP of these
// groups neighbouring filters, then further groups further channels; of the input, neighbouring threads take neighbouring
// positions, POSITION_LANES threads a channel, neighbouring channels or, with INPUT_INTERLEAVE 2, channels half a pass apart.
#define FILTER_CHANNELS (THREADS / FILTER_STEP * FILTER_VECTOR)
#define FILTER_PASSES ((FILTER_TILE + FILTER_STEP - 1) / FILTER_STEP)
#define FILTER_CHANNEL_PASSES (SLAB_CHANNELS / FILTER_CHANNELS)
#define POSITION_VECTORS (POSITION_TILE / INPUT_VECTOR)
#define POSITION_PASSES ((POSITION_VECTORS + THREADS - 1) / THREADS)
#define CHANNEL_STEP (THREADS / POSITION_LANES)
#define PASS_CHANNELS (CHANNEL_STEP < SLAB_CHANNELS ? CHANNEL_STEP : SLAB_CHANNELS)
#define CHANNEL_PASSES ((SLAB_CHANNELS + CHANNEL_STEP - 1) / CHANNEL_STEP)

// Index of a position in a tensor of the given number of channels, at channel 0.
#if ONE_IMAGE
#define FIRST_OF(position, channels) (position)
#else
#define FIRST_OF(position, channels) ((position) / positions * (channels) * positions + (position) % positions)
#endif

template <int WORDS>
struct Vector;
template <>
struct Vector<1> {
    using type = float;
};
template <>
struct Vector<2> {
    using type = float2;
};
template <>
struct Vector<4> {
    using type = float4;
};

template <int WORDS>
__device__ __forceinline__ void copy(float *to, const float *from)
{
    using Type = typename Vector<WORDS>::type;
    *reinterpret_cast<Type *>(to) = *reinterpret_cast<const Type *>(from);
}

// Starts a copy from global to shared memory.
template <int WORDS>
__device__ __forceinline__ void copy_async(const unsigned to, const float *from)
{
    if constexpr (WORDS == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(4 * WORDS) : "memory");
}

// Reads words of shared memory. In assembly, because the front end takes vectors apart and joins them anew in runs of 64
// words, which cuts a vector where a run ends within it.
template <int WORDS>
__device__ __forceinline__ void read(float *to, const float *from)
{
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(from));
    if constexpr (WORDS == 4)
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                     : "r"(address)
                     : "memory");
    else if constexpr (WORDS == 2)
        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(to[0]), "=f"(to[1]) : "r"(address) : "memory");
    else
        *to = *from;
}

__device__ __forceinline__ float *at(float *pointer, const unsigned bytes)
{
    return reinterpret_cast<float *>(reinterpret_cast<char *>(pointer) + bytes);
}

// One step of the reduction and all that follow. Before it, sum[i] belongs to output i * BIT + channel_lane % BIT; after the
// last, to output i * CHANNEL_LANES + channel_lane. (Recursive, since a loop whose trip count shrinks is not unrolled.)
template <int LIVE, int BIT>
__device__ __forceinline__ void add_up(float *sum, const unsigned channel_lane)
{
    if constexpr (BIT < CHANNEL_LANES) {
        const bool odd = channel_lane & BIT;
#pragma unroll
        for (int i = 0; i < (LIVE + 1) / 2; i++) {
            const float even_sum = sum[2 * i];
            const float odd_sum = 2 * i + 1 < LIVE ? sum[2 * i + 1] : 0.0f;
            sum[i] = (odd ? odd_sum : even_sum) + __shfl_xor_sync(0xffffffffu, odd ? even_sum : odd_sum, BIT * ELEMENT_LANES);
        }
        add_up<(LIVE + 1) / 2, 2 * BIT>(sum, channel_lane);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    pointwise_conv2d(float *__restrict__ output, const float *__restrict__ input, const float *__restrict__ filter,
                     const unsigned batch, const unsigned in_channels, const unsigned out_channels, const unsigned positions)
{
    extern __shared__ float4 shared_memory[];
    float *const slabs = reinterpret_cast<float *>(shared_memory);

    const unsigned thread = threadIdx.x;
    const unsigned first_filter = blockIdx.y * FILTER_TILE;
    const unsigned first_position = blockIdx.x * POSITION_TILE;
    const unsigned all_positions = batch * positions;

    // What this thread fetches of each slab.
    const unsigned filter_group = thread / (FILTER_LANES * FILTER_STEP) * FILTER_LANES;
    const unsigned filter_channel = (filter_group + thread % FILTER_LANES) * FILTER_VECTOR;
    const unsigned filter_row = thread / FILTER_LANES % FILTER_STEP;
    const unsigned input_group = thread / POSITION_LANES;
    const unsigned input_channel =
        input_group % INPUT_INTERLEAVE * (PASS_CHANNELS / INPUT_INTERLEAVE) + input_group / INPUT_INTERLEAVE;
    const unsigned input_vector = thread % POSITION_LANES;
#if ASYNC_COPY
    // Rows and positions beyond the last repeat it: they reach only sums that are not stored.
    const float *const filter_column = filter + filter_channel;
    unsigned filter_offset[FILTER_PASSES];
#pragma unroll
    for (int pass = 0; pass < FILTER_PASSES; pass++) {
        const unsigned row = first_filter + filter_row + pass * FILTER_STEP;
        filter_offset[pass] = (FILTER_TAIL ? min(row, out_channels - 1) : row) * in_channels;
    }
    const float *input_slab[POSITION_PASSES];
#pragma unroll
    for (int pass = 0; pass < POSITION_PASSES; pass++) {
        const unsigned wanted = first_position + (input_vector + pass * THREADS) * INPUT_VECTOR;
        const unsigned position = min(wanted, all_positions - INPUT_VECTOR);
        input_slab[pass] = input + FIRST_OF(position, in_channels) + input_channel * positions;
    }
    const unsigned slabs_address = static_cast<unsigned>(__cvta_generic_to_shared(slabs));
    const unsigned filter_shared = slabs_address + 4 * (FILTER_START + FILTER_CHANNEL(filter_channel) + filter_row);
    const unsigned input_shared = slabs_address + 4 * (INPUT_START + INPUT_CHANNEL(input_channel) + input_vector * INPUT_VECTOR);

    unsigned fetch_channel = 0;
    unsigned fetch_bytes = 0;
    const auto fetch = [&]() {
        const unsigned channels_left = in_channels - fetch_channel;
#pragma unroll
        for (int pass = 0; pass < FILTER_PASSES; pass++) {
            const float *const from = filter_column + (filter_offset[pass] + fetch_channel);
            const unsigned to = filter_shared + fetch_bytes + 4 * pass * FILTER_STEP;
            if ((pass + 1) * FILTER_STEP <= FILTER_TILE || filter_row + pass * FILTER_STEP < FILTER_TILE) {
#pragma unroll
                for (int step = 0; step < FILTER_CHANNEL_PASSES; step++)
                    if (!CHANNEL_TAIL || filter_channel + step * FILTER_CHANNELS < channels_left)
                        copy_async<1>(to + 4 * FILTER_CHANNEL(step * FILTER_CHANNELS), from + step * FILTER_CHANNELS);
            }
        }
#pragma unroll
        for (int pass = 0; pass < POSITION_PASSES; pass++) {
            const unsigned to = input_shared + fetch_bytes + 4 * pass * THREADS * INPUT_VECTOR;
            if (input_vector + pass * THREADS < POSITION_VECTORS && input_group < SLAB_CHANNELS) {
#pragma unroll
                for (int step = 0; step < CHANNEL_PASSES; step++)
                    if (!CHANNEL_TAIL || input_channel + step * CHANNEL_STEP < channels_left)
                        copy_async<INPUT_VECTOR>(to + 4 * INPUT_CHANNEL(step * CHANNEL_STEP),
                                                 input_slab[pass] + step * CHANNEL_STEP * positions);
            }
            input_slab[pass] += SLAB_CHANNELS * positions;
        }
        fetch_channel += SLAB_CHANNELS;
        fetch_bytes = fetch_bytes == 4 * (STAGES - 1) * STAGE ? 0 : fetch_bytes + 4 * STAGE;
    };
    // Groups of copies are counted even where a slab is missing, so that the wait below always leaves STAGES - 2 of them.
    const auto fetch_if_any = [&]() {
        if (fetch_channel < in_channels)
            fetch();
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
#else
    const float *filter_slab = filter + (first_filter + filter_row) * in_channels + filter_channel;
    const float *input_slab[POSITION_PASSES];
    bool input_valid[POSITION_PASSES];
#pragma unroll
    for (int pass = 0; pass < POSITION_PASSES; pass++) {
        const unsigned vector = input_vector + pass * THREADS;
        const unsigned position = first_position + vector * INPUT_VECTOR;
        input_valid[pass] = vector < POSITION_VECTORS && position < all_positions && input_group < SLAB_CHANNELS;
        input_slab[pass] = input + FIRST_OF(position, in_channels) + input_channel * positions;
    }

    alignas(16) float filter_next[FILTER_PASSES][FILTER_VECTOR] = {};
    alignas(16) float input_next[CHANNEL_PASSES][POSITION_PASSES][INPUT_VECTOR] = {};

    // Registers keep their old value where nothing is to be fetched: it reaches only sums that are not stored.
    const auto fetch = [&](const unsigned channels_left) {
#pragma unroll
        for (int pass = 0; pass < FILTER_PASSES; pass++) {
            const unsigned row = filter_row + pass * FILTER_STEP;
            bool valid = (pass + 1) * FILTER_STEP <= FILTER_TILE || row < FILTER_TILE;
            if (FILTER_TAIL)
                valid = valid && first_filter + row < out_channels;
            if (CHANNEL_TAIL)
                valid = valid && filter_channel < channels_left;
            if (valid)
                copy<FILTER_VECTOR>(filter_next[pass], filter_slab + pass * FILTER_STEP * in_channels);
        }
#pragma unroll
        for (int step = 0; step < CHANNEL_PASSES; step++) {
#pragma unroll
            for (int pass = 0; pass < POSITION_PASSES; pass++) {
                bool valid = input_valid[pass];
                if (CHANNEL_TAIL)
                    valid = valid && input_channel + step * CHANNEL_STEP < channels_left;
                if (valid)
                    copy<INPUT_VECTOR>(input_next[step][pass], input_slab[pass] + step * CHANNEL_STEP * positions);
            }
        }
        filter_slab += SLAB_CHANNELS;
#pragma unroll
        for (int pass = 0; pass < POSITION_PASSES; pass++)
            input_slab[pass] += SLAB_CHANNELS * positions;
    };

    float *const filter_shared = slabs + FILTER_START + FILTER_CHANNEL(filter_channel) + filter_row;
    float *const input_shared = slabs + INPUT_START + INPUT_CHANNEL(input_channel) + input_vector * INPUT_VECTOR;
    const auto publish = [&](const unsigned stage_bytes) {
#pragma unroll
        for (int pass = 0; pass < FILTER_PASSES; pass++) {
            float *const to = at(filter_shared, stage_bytes) + pass * FILTER_STEP;
            if ((pass + 1) * FILTER_STEP <= FILTER_TILE || filter_row + pass * FILTER_STEP < FILTER_TILE) {
#pragma unroll
                for (int word = 0; word < FILTER_VECTOR; word++)
                    to[word * FILTER_PITCH] = filter_next[pass][word];
            }
        }
#pragma unroll
        for (int step = 0; step < CHANNEL_PASSES; step++) {
#pragma unroll
            for (int pass = 0; pass < POSITION_PASSES; pass++) {
                float *const to = at(input_shared, stage_bytes) + INPUT_CHANNEL(step * CHANNEL_STEP) + pass * THREADS * INPUT_VECTOR;
                if (input_group < SLAB_CHANNELS && input_vector + pass * THREADS < POSITION_VECTORS) {
#pragma unroll
                    for (int word = 0; word < INPUT_VECTOR; word += STORE_VECTOR)
                        copy<STORE_VECTOR>(to + word, input_next[step][pass] + word);
                }
            }
        }
    };
#endif

    // What this thread computes.
    const unsigned lane = thread % LANES;
    const unsigned element = lane % ELEMENT_LANES;
    const unsigned channel_lane = lane / ELEMENT_LANES;
    const unsigned warp_column = thread / LANES % 2;
    const unsigned warp_row = thread / LANES / 2;
    float *const width_tile = slabs + WIDTH_CHANNEL(channel_lane) + warp_column * WARP_W + element * WIDTH_VECTOR;
    float *const height_tile = slabs + HEIGHT_START + HEIGHT_CHANNEL(channel_lane) + warp_row * WARP_H;

    float sum[THREAD_OUTPUTS] = {};

    const auto multiply = [&](const unsigned stage_bytes, const int group) {
        const float *const width_group = at(width_tile, stage_bytes) + WIDTH_CHANNEL(group * CHANNEL_LANES);
        const float *const height_group = at(height_tile, stage_bytes) + HEIGHT_CHANNEL(group * CHANNEL_LANES);
        alignas(16) float columns[THREAD_W];
        alignas(16) float rows[WARP_H];
#pragma unroll
        for (int column = 0; column < THREAD_W; column += WIDTH_VECTOR)
            read<WIDTH_VECTOR>(columns + column, width_group + column * ELEMENT_LANES);
#pragma unroll
        for (int row = 0; row < WARP_H; row += HEIGHT_VECTOR)
            read<HEIGHT_VECTOR>(rows + row, height_group + row);
#pragma unroll
        for (int row = 0; row < WARP_H; row++)
#pragma unroll
            for (int column = 0; column < THREAD_W; column++)
                sum[SUM_INDEX(row, column)] += rows[row] * columns[column];
    };

    unsigned stage_bytes = 0;
    unsigned channels_left = in_channels;
    // The last slab stands after the loop, so that only it looks for channels that do not exist.
#if ASYNC_COPY
#pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; stage++)
        fetch_if_any();
#pragma unroll 1
    for (; channels_left > SLAB_CHANNELS; channels_left -= SLAB_CHANNELS) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // the oldest slab is there, and all have read the one whose place the next takes
        fetch_if_any();
#pragma unroll
        for (int group = 0; group < SLAB_GROUPS; group++)
            multiply(stage_bytes, group);
        stage_bytes = stage_bytes == 4 * (STAGES - 1) * STAGE ? 0 : stage_bytes + 4 * STAGE;
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
#else
    fetch(channels_left);
    publish(stage_bytes);
    __syncthreads();
    // With a branch around the fetch, the compiler would sink it below the sums.
#pragma unroll 1
    for (; channels_left > SLAB_CHANNELS; channels_left -= SLAB_CHANNELS) {
        fetch(channels_left - SLAB_CHANNELS);
#pragma unroll
        for (int group = 0; group < SLAB_GROUPS; group++)
            multiply(stage_bytes, group);
        stage_bytes = 4 * STAGE - stage_bytes;
        publish(stage_bytes);
        __syncthreads();
    }
#endif
#if CHANNEL_TAIL
#pragma unroll 1
    for (unsigned channel = channel_lane; channel < channels_left; channel += CHANNEL_LANES)
        multiply(stage_bytes, channel / CHANNEL_LANES);
#else
#pragma unroll
    for (int group = 0; group < SLAB_GROUPS; group++)
        multiply(stage_bytes, group);
#endif

    add_up<THREAD_OUTPUTS, 1>(sum, channel_lane);

#pragma unroll
    for (int i = 0; i < (THREAD_OUTPUTS + CHANNEL_LANES - 1) / CHANNEL_LANES; i++) {
        const unsigned index = i * CHANNEL_LANES + channel_lane;
#if LAYOUT == 1
        const unsigned filter_index = first_filter + warp_column * WARP_W + COLUMN(index / WARP_H);
        const unsigned position = first_position + warp_row * WARP_H + index % WARP_H;
#else
        const unsigned filter_index = first_filter + warp_row * WARP_H + index / THREAD_W;
        const unsigned position = first_position + warp_column * WARP_W + COLUMN(index % THREAD_W);
#endif
        if (index < THREAD_OUTPUTS && filter_index < out_channels && position < all_positions)
            output[FIRST_OF(position, out_channels) + filter_index * positions] = sum[i];
    }
}
