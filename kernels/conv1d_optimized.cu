// conv1d_optimized: dense 1-D convolution (cross-correlation), several input channels per thread.
//
// Layout:    input [BATCH][IN_CHANNELS][LENGTH], weights [OUT_CHANNELS][IN_CHANNELS][FILTER_WIDTH], bias [OUT_CHANNELS]
//            output [BATCH][OUT_CHANNELS][OUTPUT_LENGTH]; zeros are assumed PADDING words beyond both ends of a row.
// Block:     THREADS threads compute the OUTPUT_LENGTH outputs of one output channel of one batch element.
// Thread:    CHANNELS_PER_THREAD input channels of every output for the first OWNERS threads; the rest fill the last
//            warp, so that shuffles find every lane. The sum over channels goes through shuffles, then through
//            shared memory, in a fixed order.
// Constants: the problem's and the configuration's fields in capitals; OWNERS, THREADS and the size of the dynamic
//            shared memory have their home in the family.

constexpr int WARP = 32;
constexpr int WARPS = THREADS / WARP;
static_assert(THREADS % WARP == 0 && OWNERS <= THREADS, "shuffles need whole warps");

constexpr int INPUT_WORDS = IN_CHANNELS * LENGTH;
constexpr int WEIGHT_WORDS = IN_CHANNELS * FILTER_WIDTH;
constexpr int INPUT_WORDS_PER_THREAD = LENGTH * CHANNELS_PER_THREAD;
constexpr int WEIGHT_WORDS_PER_THREAD = FILTER_WIDTH * CHANNELS_PER_THREAD;

// One unused word after every PAD_PERIOD words spreads the threads' rows over the banks.
constexpr int PAD_PERIOD = INPUT_WORDS_PER_THREAD > WARP ? INPUT_WORDS_PER_THREAD : WARP;
// The last owner has only this many channels, the others have all.
constexpr int CERTAIN_CHANNELS = IN_CHANNELS - (OWNERS - 1) * CHANNELS_PER_THREAD;

__host__ __device__ constexpr int largest_power_below(int lanes, int power = WARP / 2)
{
    return power < lanes || power == 0 ? power : largest_power_below(lanes, power / 2);
}

__host__ __device__ constexpr int largest_width(int words)
{
    return words % 4 == 0 ? 4 : words % 2 == 0 ? 2 : 1;
}

// Taps before the first and from the end on only ever meet padding.
constexpr int FIRST_USED_TAP = FILTER_WIDTH > LENGTH + PADDING ? FILTER_WIDTH - LENGTH - PADDING : 0;
constexpr int USED_TAPS_END = FILTER_WIDTH < LENGTH + PADDING ? FILTER_WIDTH : LENGTH + PADDING;

constexpr int INPUT_VECTOR = largest_width(INPUT_WORDS);
constexpr int OUTPUT_VECTOR = largest_width(OUTPUT_LENGTH);
constexpr int INPUT_PASSES = (INPUT_WORDS + INPUT_VECTOR * THREADS - 1) / (INPUT_VECTOR * THREADS);
constexpr int FARTHEST_PARTNER = largest_power_below(OWNERS);
constexpr int COMBINING_THREADS = WARPS == 1 ? 1 : OUTPUT_LENGTH < THREADS ? OUTPUT_LENGTH : THREADS;
constexpr int WEIGHT_PASSES = (WEIGHT_WORDS + THREADS - 1) / THREADS;

template <int WIDTH>
struct alignas(4 * WIDTH) Words {
    float word[WIDTH];
};

// Volatile, because the compiler would widen the last three words of a row to four and read a word that nobody wrote.
__device__ __forceinline__ float read_word(const float *word)
{
    return *const_cast<const volatile float *>(word);
}

// Copies words FIRST to LAST of a shared row to registers, by the widest accesses that a row aligned to ALIGNMENT words
// allows.
template <int FIRST, int LAST, int ALIGNMENT>
__device__ __forceinline__ void read_row(float *registers, const float *row)
{
    if constexpr (LAST - FIRST > 64) { // shallow recursion: compilers stop at a depth of 200
        constexpr int middle = (FIRST + LAST) / 8 * 4;
        read_row<FIRST, middle, ALIGNMENT>(registers, row);
        read_row<middle, LAST, ALIGNMENT>(registers, row);
    } else if constexpr (FIRST < LAST) {
        constexpr int limit = largest_width(FIRST) < ALIGNMENT ? largest_width(FIRST) : ALIGNMENT;
        constexpr int width = limit == 4 && LAST - FIRST >= 4 ? 4 : limit >= 2 && LAST - FIRST >= 2 ? 2 : 1;
        if constexpr (width == 1) {
            registers[FIRST] = read_word(row + FIRST);
        } else {
            const Words<width> words = *reinterpret_cast<const Words<width> *>(row + FIRST);
#pragma unroll
            for (int i = 0; i < width; i++)
                registers[FIRST + i] = words.word[i];
        }
        read_row<FIRST + width, LAST, ALIGNMENT>(registers, row);
    }
}

// The same for a thread's row of the padded input, where the pad of a word may depend on its place in the row.
template <int FIRST, int LAST>
__device__ __forceinline__ void read_padded_row(float *registers, const float *staged)
{
    const int origin = threadIdx.x * INPUT_WORDS_PER_THREAD;
    if constexpr (INPUT_WORDS_PER_THREAD >= WARP) {
        read_row<FIRST, LAST, largest_width(INPUT_WORDS_PER_THREAD + 1)>(registers, staged + origin + threadIdx.x);
    } else if constexpr (WARP % INPUT_WORDS_PER_THREAD == 0) {
        read_row<FIRST, LAST, 1>(registers, staged + origin + origin / PAD_PERIOD);
    } else {
#pragma unroll
        for (int i = FIRST; i < LAST; i++)
            registers[i] = read_word(staged + origin + i + (origin + i) / PAD_PERIOD);
    }
}

// The same for a thread's weights of channels FIRST to LAST; taps that only ever meet padding stay unread.
template <int FIRST, int LAST>
__device__ __forceinline__ void read_weights(float *registers, const float *row)
{
    if constexpr (FIRST_USED_TAP == 0 && USED_TAPS_END == FILTER_WIDTH) {
        read_row<FIRST * FILTER_WIDTH, LAST * FILTER_WIDTH, largest_width(WEIGHT_WORDS_PER_THREAD)>(registers, row);
    } else {
#pragma unroll
        for (int channel = FIRST; channel < LAST; channel++)
#pragma unroll
            for (int tap = FIRST_USED_TAP; tap < USED_TAPS_END; tap++)
                registers[channel * FILTER_WIDTH + tap] = read_word(row + channel * FILTER_WIDTH + tap);
    }
}

// Sum over the lanes of the warp, valid in lane 0; lanes from OWNERS on hold zeros.
__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int offset = FARTHEST_PARTNER; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

// Without the bound, blocks of up to 256 threads may use all 255 registers anyway.
#if THREADS > 256
#define BOUNDS __launch_bounds__(THREADS)
#else
#define BOUNDS
#endif

extern "C" __global__ void BOUNDS conv1d_optimized(float *__restrict__ output, const float *__restrict__ input,
                                                   const float *__restrict__ weights, const float *__restrict__ bias)
{
    extern __shared__ __align__(16) float staged[];
    const int thread = threadIdx.x;
    // Blocks that run at the same time share the weights of a channel, which are larger than the inputs of a batch.
    const int out_channel = blockIdx.x / BATCH;
    const int batch_element = blockIdx.x % BATCH;
    const float *const block_input = input + static_cast<size_t>(batch_element) * INPUT_WORDS;
    const float *const block_weights = weights + static_cast<size_t>(out_channel) * WEIGHT_WORDS;

    // All global loads are issued before the first is needed: one round trip to memory instead of three.
    const float offset = thread < COMBINING_THREADS ? bias[out_channel] : 0.0f;
    Words<INPUT_VECTOR> loaded_input[INPUT_PASSES];
#pragma unroll
    for (int pass = 0; pass < INPUT_PASSES; pass++) {
        const int word = INPUT_VECTOR * (pass * THREADS + thread);
        if (INPUT_VECTOR * (pass + 1) * THREADS <= INPUT_WORDS || word < INPUT_WORDS)
            loaded_input[pass] = *reinterpret_cast<const Words<INPUT_VECTOR> *>(block_input + word);
    }
    float loaded_weights[WEIGHT_PASSES];
#pragma unroll
    for (int pass = 0; pass < WEIGHT_PASSES; pass++) {
        const int word = pass * THREADS + thread;
        if ((pass + 1) * THREADS <= WEIGHT_WORDS || word < WEIGHT_WORDS)
            loaded_weights[pass] = block_weights[word];
    }

#pragma unroll
    for (int pass = 0; pass < INPUT_PASSES; pass++) {
        const int word = INPUT_VECTOR * (pass * THREADS + thread);
        if (INPUT_VECTOR * (pass + 1) * THREADS <= INPUT_WORDS || word < INPUT_WORDS) {
            const int pad = word / PAD_PERIOD;
            const int word_in_period = word % PAD_PERIOD;
#pragma unroll
            for (int i = 0; i < INPUT_VECTOR; i++) {
                const bool crosses_pad = PAD_PERIOD % INPUT_VECTOR != 0 && word_in_period + i >= PAD_PERIOD;
                staged[word + i + pad + crosses_pad] = loaded_input[pass].word[i];
            }
        }
    }
    __syncthreads();

    float own_input[INPUT_WORDS_PER_THREAD] = {};
    if (OWNERS == THREADS || thread < OWNERS)
        read_padded_row<0, CERTAIN_CHANNELS * LENGTH>(own_input, staged);
    if (CERTAIN_CHANNELS < CHANNELS_PER_THREAD && thread < OWNERS - 1)
        read_padded_row<CERTAIN_CHANNELS * LENGTH, INPUT_WORDS_PER_THREAD>(own_input, staged);
    __syncthreads();

#pragma unroll
    for (int pass = 0; pass < WEIGHT_PASSES; pass++) {
        const int word = pass * THREADS + thread;
        if ((pass + 1) * THREADS <= WEIGHT_WORDS || word < WEIGHT_WORDS)
            staged[word] = loaded_weights[pass];
    }
    __syncthreads();

    const float *const weight_row = staged + thread * WEIGHT_WORDS_PER_THREAD;
    float own_weights[WEIGHT_WORDS_PER_THREAD] = {};
    if (OWNERS == THREADS || thread < OWNERS)
        read_weights<0, CERTAIN_CHANNELS>(own_weights, weight_row);
    if (CERTAIN_CHANNELS < CHANNELS_PER_THREAD && thread < OWNERS - 1)
        read_weights<CERTAIN_CHANNELS, CHANNELS_PER_THREAD>(own_weights, weight_row);

    float sum[OUTPUT_LENGTH];
#pragma unroll
    for (int t = 0; t < OUTPUT_LENGTH; t++) {
        sum[t] = 0.0f;
#pragma unroll
        for (int tap = 0; tap < FILTER_WIDTH; tap++) {
            const int column = t + tap - PADDING;
            if (column >= 0 && column < LENGTH) {
#pragma unroll
                for (int channel = 0; channel < CHANNELS_PER_THREAD; channel++)
                    sum[t] = fmaf(own_input[channel * LENGTH + column],
                                  own_weights[channel * FILTER_WIDTH + tap], sum[t]);
            }
        }
        sum[t] = warp_sum(sum[t]);
    }

    const size_t output_row = static_cast<size_t>(batch_element) * OUT_CHANNELS + out_channel;
    float *const block_output = output + output_row * OUTPUT_LENGTH;
    if constexpr (WARPS == 1) {
        if (thread == 0) {
#pragma unroll
            for (int t = 0; t < OUTPUT_LENGTH; t += OUTPUT_VECTOR) {
                Words<OUTPUT_VECTOR> words;
#pragma unroll
                for (int i = 0; i < OUTPUT_VECTOR; i++)
                    words.word[i] = sum[t + i] + offset;
                *reinterpret_cast<Words<OUTPUT_VECTOR> *>(block_output + t) = words;
            }
        }
    } else {
        __shared__ __align__(16) float warp_sums[WARPS][OUTPUT_LENGTH];
        if (thread % WARP == 0) {
#pragma unroll
            for (int t = 0; t < OUTPUT_LENGTH; t += OUTPUT_VECTOR) {
                Words<OUTPUT_VECTOR> words;
#pragma unroll
                for (int i = 0; i < OUTPUT_VECTOR; i++)
                    words.word[i] = sum[t + i];
                *reinterpret_cast<Words<OUTPUT_VECTOR> *>(&warp_sums[thread / WARP][t]) = words;
            }
        }
        __syncthreads();
#pragma unroll
        for (int pass = 0; pass * THREADS < OUTPUT_LENGTH; pass++) {
            const int t = pass * THREADS + thread;
            if ((pass + 1) * THREADS <= OUTPUT_LENGTH || t < OUTPUT_LENGTH) {
                float total = offset;
#pragma unroll
                for (int warp = 0; warp < WARPS; warp++)
                    total += warp_sums[warp][t];
                block_output[t] = total;
            }
        }
    }
}
