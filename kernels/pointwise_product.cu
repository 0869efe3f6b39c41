// pointwise_product: 1x1 convolution as one matrix product, blocked for shared memory and registers, split over input channels.
//
// Layout:    input  [batch][in_channels][positions]    positions = height * width of one image
//            filter [out_channels][in_channels]
//            output [batch][out_channels][positions]
// Grid:      x = tiles of POSITION_TILE positions, counted through all images; y = tiles of FILTER_TILE filters; z = CHANNEL_SPLIT
//            parts of the slabs of input channels. The blocks along z are one cluster (compute capability 9.0 and newer).
// Block:     FILTER_THREADS x POSITION_THREADS x CHANNEL_SLICES threads. Slabs of SLAB_CHANNELS input channels pass through STAGES
//            stages of shared memory, asynchronously with ASYNC_COPY (compute capability 8.0 and newer). Each slice takes every
//            CHANNEL_SLICES-th channel of a slab.
// Thread:    FILTERS_PER_THREAD x POSITIONS_PER_THREAD outputs, filters and positions in vectors of four.
//            While it multiplies what belongs to one channel, it reads what belongs to the next, beyond the end of a slab too.
//            Lanes are numbered so that neighbours, or next but one, read the same vector: such loads need half the wavefronts.
// Stage:     filters channel by channel, FILTER_PITCH words apart, which are copied word by word, for they lie the other way round
//            in memory; then the input channel by channel. Channels beyond the last are zeros; filters beyond repeat the last and
//            positions beyond are others, for sums that are not stored.
// End:       the sums of slices and of blocks of a cluster are added in a fixed order through shared memory, each block of a cluster
//            its part of the tile. Where images do not begin at whole vectors, sums take the same way for whole sectors.
// Constants: fields of the configuration in capitals; what else is derived has its one home in the family.

#define FILTER_TILE (FILTER_THREADS * FILTERS_PER_THREAD)
#define POSITION_TILE (POSITION_THREADS * POSITIONS_PER_THREAD)
#define SLICE_THREADS (FILTER_THREADS * POSITION_THREADS)
#define THREADS (SLICE_THREADS * CHANNEL_SLICES)
#define INPUT_PITCH POSITION_TILE
#define SUMS_PITCH POSITION_TILE
#define VECTOR 4
#define THREAD_VECTORS (POSITIONS_PER_THREAD / VECTOR)
#define THREAD_CHANNELS (SLAB_CHANNELS / CHANNEL_SLICES)

#define INPUT_START (SLAB_CHANNELS * FILTER_PITCH)
#define STAGE (INPUT_START + SLAB_CHANNELS * POSITION_TILE)

// Where a filter lies in the row of a channel: vectors of four filters are exchanged within groups of eight, and the words of a vector
// turned, so that 32 channels of one filter, a line of memory that a warp copies, land on different banks. How far words are
// turned follows from the channel's number within its slice, which is known when this is compiled.
#define EXCHANGED(channel) ((channel) % CHANNEL_SLICES + (channel) / (4 * CHANNEL_SLICES) * CHANNEL_SLICES % 8)
#define TURNED(filter, channel) (((filter) + (channel) / CHANNEL_SLICES) % VECTOR)
#define FILTER_WORD(filter, channel) (((filter) / VECTOR ^ EXCHANGED(channel)) * VECTOR + TURNED(filter, channel))

// Who copies filters: COPY_CHANNELS neighbouring threads a run of one.
#define COPY_CHANNELS (SLAB_CHANNELS % 32 == 0 ? 32 : 8)
#define FILTER_STEP (THREADS / COPY_CHANNELS)

// Filter of the tile that belongs to the q-th row of sums of a thread.
#define FILTER_OF(q) (((q) / VECTOR * FILTER_THREADS + filter_thread) * VECTOR + (q) % VECTOR)

#include "position_copies.cuh"

extern "C" __global__ void CLUSTER __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    pointwise_product(float *__restrict__ output, const float *__restrict__ input, const float *__restrict__ filter,
                      const unsigned batch, const unsigned in_channels, const unsigned out_channels, const unsigned positions)
{
    extern __shared__ float4 shared_memory[];
    float *const stages = reinterpret_cast<float *>(shared_memory);

    const unsigned thread = threadIdx.x;
    const BlockWork work(batch, positions, in_channels);

    // What this thread copies of each slab.
    const unsigned row_channel = thread % COPY_CHANNELS;
    const unsigned row = thread / COPY_CHANNELS;
    const float *filter_from =
        later(filter, FILTER_TAIL ? 0 : work.first_filter + row, in_channels) + work.first_slab * SLAB_CHANNELS + row_channel;
    InputCopies copies(input, work, in_channels, positions);

    const unsigned stages_address = static_cast<unsigned>(__cvta_generic_to_shared(stages));
    const unsigned filter_to = stages_address + 4 * row_channel * FILTER_PITCH;

    unsigned fetched = work.first_slab;
    unsigned fetch_bytes = 0;
    const auto fetch = [&]() {
        const unsigned channels_left = in_channels - fetched * SLAB_CHANNELS;
#pragma unroll
        for (int first = 0; first < FILTER_TILE; first += FILTER_STEP) {
            if ((THREADS % COPY_CHANNELS == 0 || row < FILTER_STEP)
                && (first + FILTER_STEP <= FILTER_TILE || row + first < FILTER_TILE)) {
                const float *from = FILTER_TAIL ? later(filter_from, min(work.first_filter + row + first, out_channels - 1), in_channels)
                                                : later(filter_from, in_channels, first);
#pragma unroll
                for (int channel = 0; channel < SLAB_CHANNELS; channel += COPY_CHANNELS) {
                    const bool exists = !CHANNEL_TAIL || row_channel + channel < channels_left;
                    const unsigned to = FILTER_WORD(row + first, row_channel + channel) + channel * FILTER_PITCH;
                    copy<1, !CHANNEL_TAIL>(filter_to + fetch_bytes + 4 * to, exists ? from + channel : filter, exists);
                }
            }
        }
        filter_from += SLAB_CHANNELS;
        copies.fetch(input, stages_address + fetch_bytes + 4 * INPUT_START, channels_left, positions);
        fetched++;
        fetch_bytes = fetch_bytes == 4 * (STAGES - 1) * STAGE ? 0 : fetch_bytes + 4 * STAGE;
    };
    // Groups of copies are counted even where a slab is missing, so that each wait leaves as many of them.
    const auto fetch_if_any = [&]() {
        if (fetched < work.end_slab)
            fetch();
#if ASYNC_COPY
        asm volatile("cp.async.commit_group;" ::: "memory");
#endif
    };

    // What this thread computes. The lowest bit of its number is one of its filter's, the next ones are its position's.
    const unsigned slice = thread / SLICE_THREADS;
    const unsigned in_slice = thread - slice * SLICE_THREADS;
    const unsigned position_thread = in_slice / 2 % POSITION_THREADS;
    const unsigned filter_thread = in_slice / 2 / POSITION_THREADS * 2 + in_slice % 2;
    const float *const rows = stages + slice * FILTER_PITCH;
    const float *const columns = stages + INPUT_START + slice * POSITION_TILE + position_thread * VECTOR;

    float sum[FILTERS_PER_THREAD][POSITIONS_PER_THREAD] = {};
    alignas(16) float w[2][FILTERS_PER_THREAD];
    alignas(16) float x[2][POSITIONS_PER_THREAD];

    const auto read = [&](const int buffer, const unsigned stage, const int channel) {
        const int exchanged = EXCHANGED(channel * CHANNEL_SLICES + slice);
#pragma unroll
        for (int q = 0; q < FILTERS_PER_THREAD; q += VECTOR)
            move<VECTOR>(w[buffer] + q, rows + stage + channel * CHANNEL_SLICES * FILTER_PITCH
                                            + ((q / VECTOR * FILTER_THREADS + filter_thread) ^ exchanged) * VECTOR);
#pragma unroll
        for (int p = 0; p < POSITIONS_PER_THREAD; p += VECTOR)
            move<VECTOR>(x[buffer] + p, columns + stage + channel * CHANNEL_SLICES * POSITION_TILE + p * POSITION_THREADS);
    };
    const auto multiply = [&](const int channel) {
#pragma unroll
        for (int q = 0; q < FILTERS_PER_THREAD; q++)
#pragma unroll
            for (int p = 0; p < POSITIONS_PER_THREAD; p++)
                sum[q][p] = fmaf(w[channel % 2][q / VECTOR * VECTOR + (q + channel) % VECTOR], x[channel % 2][p], sum[q][p]);
    };
    pass_slabs<THREAD_CHANNELS, UNROLLED_CHANNELS>(work.end_slab - work.first_slab, fetch_if_any, read, multiply, [] {}, [] {});

#if THROUGH_SHARED
    // The tile of each slice lies one behind the other, as [filter][position].
    __syncthreads();
#pragma unroll
    for (int q = 0; q < FILTERS_PER_THREAD; q++)
#pragma unroll
        for (int vector = 0; vector < THREAD_VECTORS; vector++)
            move<VECTOR>(stages + slice * TILE_OUTPUTS + FILTER_OF(q) * POSITION_TILE
                             + (vector * POSITION_THREADS + position_thread) * VECTOR,
                         &sum[q][vector * VECTOR]);
    store_sums(output, stages, work, out_channels, positions);
#else
#pragma unroll
    for (int vector = 0; vector < THREAD_VECTORS; vector++) {
        const unsigned position = work.first_position + (vector * POSITION_THREADS + position_thread) * VECTOR;
        if (position < work.all_positions) {
            float *const to = output + FIRST_OF(position, out_channels);
#pragma unroll
            for (int q = 0; q < FILTERS_PER_THREAD; q++) {
                const unsigned filter_index = work.first_filter + FILTER_OF(q);
                if (!FILTER_TAIL || filter_index < out_channels)
                    move<VECTOR>(to + filter_index * positions, &sum[q][vector * VECTOR]);
            }
        }
    }
#endif
}
