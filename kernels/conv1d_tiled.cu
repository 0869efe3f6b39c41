// conv1d_tiled: dense 1-D convolution with several input channels per thread, for sizes that conv1d_optimized cannot hold
// in registers and shared memory.
//
// Layout:    input [BATCH][IN_CHANNELS][LENGTH], weights [OUT_CHANNELS][IN_CHANNELS][FILTER_WIDTH], bias [OUT_CHANNELS]
//            output [BATCH][OUT_CHANNELS][OUTPUT_LENGTH]; zeros are assumed PADDING words beyond both ends of a row.
// Block:     THREADS threads compute TILE outputs of one output channel of one batch element. They stage, in turn, each
//            chunk of OWNERS * STAGED_PER_THREAD channels and, of it, the words that meet TAPS filter taps. Rows have an
//            odd pitch, so that neither the copy nor the reads of 32 rows meet in a bank. Without a branch in the copy,
//            lanes between rows, behind the last or on padding load the nearest word in vain.
// Thread:    TILE sums over every OWNERS-th channel for the first OWNERS threads; the rest fill the last warp, so that
//            shuffles find every lane. The sum over channels goes through shuffles, then through shared memory, in a
//            fixed order.
// Constants: the problem's fields in capitals; FIRST_TAP and USED_TAPS (taps that meet an input word), OWNERS, THREADS,
//            TILE, TAPS, STAGED_PER_THREAD and the size of the dynamic shared memory have their home in the family.

constexpr int WARP = 32;
constexpr int WARPS = THREADS / WARP;
static_assert(THREADS % WARP == 0 && OWNERS <= THREADS, "shuffles need whole warps");
static_assert(TILE <= WARP, "the first warp stores the tile");

constexpr int TILES = (OUTPUT_LENGTH - 1) / TILE + 1;
constexpr int CHUNK_CHANNELS = OWNERS * STAGED_PER_THREAD;
constexpr int CHUNKS = (IN_CHANNELS - 1) / CHUNK_CHANNELS + 1;
constexpr int WHOLE_STEPS = USED_TAPS / TAPS;
constexpr int LAST_TAPS = USED_TAPS % TAPS;

__host__ __device__ constexpr int odd(int words)
{
    return words % 2 ? words : words + 1;
}

__host__ __device__ constexpr int smaller(int left, int right)
{
    return left < right ? left : right;
}

__host__ __device__ constexpr int whole_passes(int words)
{
    return (words + THREADS - 1) / THREADS * THREADS;
}

__host__ __device__ constexpr int largest_power_below(int lanes, int power = WARP / 2)
{
    return power < lanes || power == 0 ? power : largest_power_below(lanes, power / 2);
}

constexpr int FARTHEST_PARTNER = largest_power_below(OWNERS);
constexpr int STAGED_INPUT_WORDS = whole_passes(CHUNK_CHANNELS * odd(TILE + TAPS - 1));

// Stages NUMBER taps of a chunk, and what of the input they meet from ``first_column`` on, and adds their products.
template <int NUMBER>
__device__ __forceinline__ void add_taps(float (&sum)[TILE], float *staged, const float *chunk_input,
                                         const float *chunk_weights, int channels, int first_column)
{
    constexpr int window = TILE + NUMBER - 1;
    constexpr int pitch = odd(window);
    constexpr int weight_pitch = odd(NUMBER);
    float *const staged_weights = staged + STAGED_INPUT_WORDS;
    const int thread = threadIdx.x;

    __syncthreads(); // nobody still reads what was staged before
#pragma unroll 4
    for (int pass = 0; pass < channels * pitch; pass += THREADS) {
        const int word = smaller(pass + thread, channels * pitch - 1);
        const int column = first_column + word % pitch;
        const int nearest = column < 0 ? 0 : smaller(column, LENGTH - 1);
        const float value = chunk_input[word / pitch * LENGTH + nearest];
        staged[pass + thread] = column == nearest ? value : 0.0f;
    }
#pragma unroll 4
    for (int pass = 0; pass < channels * weight_pitch; pass += THREADS) {
        const int word = smaller(pass + thread, channels * weight_pitch - 1);
        const int tap = smaller(word % weight_pitch, NUMBER - 1);
        staged_weights[pass + thread] = chunk_weights[word / weight_pitch * FILTER_WIDTH + tap];
    }
    __syncthreads();

    const int own_end = OWNERS == THREADS || thread < OWNERS ? channels : 0;
#pragma unroll 1
    for (int round = 0; round < channels; round += OWNERS) {
        int channel = round + thread;
        if (channel >= own_end)
            continue;
        asm("" : "+r"(channel)); // a row known to be the first would be read by wider accesses, the words behind it too
        const float *const weight_row = staged_weights + channel * weight_pitch;
        const float *const input_row = staged + channel * pitch;
        float own_weights[NUMBER];
#pragma unroll
        for (int tap = 0; tap < NUMBER; tap++)
            own_weights[tap] = weight_row[tap];
        float own_input[window];
#pragma unroll
        for (int i = 0; i < window; i++)
            own_input[i] = input_row[i];
#pragma unroll
        for (int tap = 0; tap < NUMBER; tap++)
#pragma unroll
            for (int t = 0; t < TILE; t++)
                sum[t] = fmaf(own_input[t + tap], own_weights[tap], sum[t]);
    }
    __syncwarp(); // owners and idle lanes go on together
}

// Sum over the lanes of the warp, valid in lane 0; lanes from OWNERS on hold zeros.
__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int offset = FARTHEST_PARTNER; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
conv1d_tiled(float *__restrict__ output, const float *__restrict__ input, const float *__restrict__ weights,
             const float *__restrict__ bias)
{
    extern __shared__ __align__(16) float staged[];
    __shared__ float warp_sums[WARPS][TILE];
    const int thread = threadIdx.x;
    // Blocks that run at the same time share the weights of a channel.
    const int first_output = blockIdx.x % TILES * TILE;
    const size_t batch_element = blockIdx.x / TILES % BATCH;
    const size_t out_channel = blockIdx.x / TILES / BATCH;
    const float *const block_input = input + batch_element * IN_CHANNELS * LENGTH;
    const float *const block_weights = weights + out_channel * IN_CHANNELS * FILTER_WIDTH + FIRST_TAP;
    const bool stores = thread < TILE && first_output + thread < OUTPUT_LENGTH;
    const float offset = stores ? bias[out_channel] : 0.0f;

    float sum[TILE] = {};
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const int first = chunk * CHUNK_CHANNELS;
        const int channels = IN_CHANNELS - first < CHUNK_CHANNELS ? IN_CHANNELS - first : CHUNK_CHANNELS;
        const float *const chunk_input = block_input + static_cast<size_t>(first) * LENGTH;
        const float *const chunk_weights = block_weights + static_cast<size_t>(first) * FILTER_WIDTH;
        const int first_column = first_output - PADDING + FIRST_TAP;
#pragma unroll 1
        for (int step = 0; step < WHOLE_STEPS; step++)
            add_taps<TAPS>(sum, staged, chunk_input, chunk_weights + step * TAPS, channels,
                           first_column + step * TAPS);
        if constexpr (LAST_TAPS > 0)
            add_taps<LAST_TAPS>(sum, staged, chunk_input, chunk_weights + WHOLE_STEPS * TAPS, channels,
                                first_column + WHOLE_STEPS * TAPS);
    }

#pragma unroll
    for (int t = 0; t < TILE; t++)
        sum[t] = warp_sum(sum[t]);
    if (thread % WARP == 0) {
#pragma unroll
        for (int t = 0; t < TILE; t++)
            *const_cast<volatile float *>(&warp_sums[thread / WARP][t]) = sum[t];
    }
    __syncthreads();
    if (stores) {
        float total = offset;
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++)
            total += warp_sums[warp][thread];
        output[(batch_element * OUT_CHANNELS + out_channel) * OUTPUT_LENGTH + first_output + thread] = total;
    }
}
