// tensor_convolution: dense convolution (cross-correlation) with zero padding as a matrix product on tensor cores, whose columns, the
// windows of the input, are read from patches in shared memory and nowhere written (implicit GEMM).
//
// Layout:    input  [batch][in_channels][HEIGHT][WIDTH]
//            filter [out_channels][in_channels][FILTER_HEIGHT][FILTER_WIDTH]
//            output [batch][out_channels][OUTPUT_HEIGHT][OUTPUT_WIDTH]
// Grid:      x = tiles of POSITION_TILE output positions, counted row by row through all images; y = tiles of FILTER_TILE filters;
//            z = CHANNEL_SPLIT parts of the slabs of input channels. The blocks along z are one cluster (compute capability 9.0).
// Block:     FILTER_WARPS x POSITION_WARPS x CHANNEL_SLICES warps. Slabs of SLAB_CHANNELS input channels pass through STAGES stages
//            of shared memory, asynchronously. The terms of a sum are those of a filter in the order of memory, PRODUCT_TERMS a product;
//            each slice takes every CHANNEL_SLICES-th of a slab's SLAB_PRODUCTS products.
// Warp:      as in tensor_product.cuh.
// Stage:     filters as they lie, FILTER_PITCH elements apart, then the patch channel by channel, CHANNEL_PITCH elements apart: PATCH_ROWS
//            whole rows of the images, one below the other with their padding, ROW_PITCH elements apart. In front of a channel's first
//            row are PATCH_LEAD zeros, behind each row at least PADDING.
// Steps:     behind the stages, for each term of a slab, bytes from a position's place in the patch to what it is multiplied with.
// End:       as in pointwise_product (matrix_product.cuh).
// Constants: fields of problem and configuration in capitals; what else is derived has its one home in the family.

#define FILTER_TAPS (FILTER_HEIGHT * FILTER_WIDTH)
#define OUTPUT_HEIGHT ((HEIGHT + 2 * PADDING - FILTER_HEIGHT) / STRIDE + 1)
#define OUTPUT_WIDTH ((WIDTH + 2 * PADDING - FILTER_WIDTH) / STRIDE + 1)
#define PADDED_HEIGHT (HEIGHT + 2 * PADDING)
#define INPUT_START (FILTER_TILE * FILTER_PITCH)
#define STAGE (INPUT_START + SLAB_CHANNELS * CHANNEL_PITCH)

#include "tensor_product.cuh"

// Neighbouring threads copy neighbouring vectors of the patch; where there are more threads than vectors, groups of threads
// take every PATCH_GROUPS-th channel.
#define ROW_VECTORS (WIDTH / INPUT_VECTOR)
#define PATCH_VECTORS (PATCH_ROWS * ROW_VECTORS)
#define MOST_GROUPS (THREADS / PATCH_VECTORS < 1 ? 1 : THREADS / PATCH_VECTORS)
#define PATCH_GROUPS (MOST_GROUPS < SLAB_CHANNELS ? MOST_GROUPS : SLAB_CHANNELS)
#define PATCH_PASSES ((PATCH_VECTORS + THREADS - 1) / THREADS)

constexpr unsigned positions = OUTPUT_HEIGHT * OUTPUT_WIDTH;

// Row of the padded images, one below the other, where the window of an output position begins.
__device__ __forceinline__ unsigned padded_row(const unsigned position)
{
    const unsigned row = position / OUTPUT_WIDTH;
    return row / OUTPUT_HEIGHT * PADDED_HEIGHT + row % OUTPUT_HEIGHT * STRIDE;
}

// What a thread copies of each slab of the input. What is no element of an image is zero in all stages, for good.
struct PatchCopies {
    const Element *from[PATCH_PASSES];
    unsigned to[PATCH_PASSES]; // bytes from the start of a stage's patch
    bool exists[PATCH_PASSES];
    unsigned group;

    __device__ __forceinline__ PatchCopies(const Element *input, const unsigned first_row, const unsigned first_channel,
                                           const unsigned batch, const unsigned in_channels)
        : group(PATCH_GROUPS == 1 ? 0 : threadIdx.x / PATCH_VECTORS)
    {
#pragma unroll
        for (int pass = 0; pass < PATCH_PASSES; pass++) {
            const unsigned vector = threadIdx.x - group * PATCH_VECTORS + pass * THREADS;
            const unsigned patch_row = vector / ROW_VECTORS;
            const unsigned column = vector % ROW_VECTORS * INPUT_VECTOR;
            const unsigned image = (first_row + patch_row) / PADDED_HEIGHT;
            const unsigned row = (first_row + patch_row) % PADDED_HEIGHT - PADDING;
            exists[pass] = vector < PATCH_VECTORS && group < PATCH_GROUPS && image < batch && row < HEIGHT;
            from[pass] = input + (image * in_channels + first_channel + group) * (HEIGHT * WIDTH) + row * WIDTH + column;
            to[pass] = ELEMENT_BYTES * (group * CHANNEL_PITCH + PATCH_LEAD + patch_row * ROW_PITCH + column);
        }
    }

    // Starts the copies of the next slab to the stage whose patch begins at that address; there are so many channels left.
    __device__ __forceinline__ void fetch(const Element *input, const unsigned stage_patch, const unsigned channels_left)
    {
#pragma unroll
        for (int pass = 0; pass < PATCH_PASSES; pass++) {
            if (exists[pass]) {
#pragma unroll
                for (int first = 0; first < SLAB_CHANNELS; first += PATCH_GROUPS) {
                    const bool whole = !CHANNEL_TAIL || group + first < channels_left;
                    if (first + PATCH_GROUPS <= SLAB_CHANNELS || group + first < SLAB_CHANNELS)
                        copy<INPUT_VECTOR, !CHANNEL_TAIL>(stage_patch + to[pass] + ELEMENT_BYTES * first * CHANNEL_PITCH,
                                                          whole ? from[pass] + first * (HEIGHT * WIDTH) : input, whole);
                }
            }
            from[pass] += SLAB_CHANNELS * (HEIGHT * WIDTH);
        }
    }
};

extern "C" __global__ void CLUSTER __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    tensor_convolution(Element *__restrict__ output, const Element *__restrict__ input, const Element *__restrict__ filter,
                       const unsigned batch, const unsigned in_channels, const unsigned out_channels)
{
    extern __shared__ float4 shared_memory[];
    Element *const stages = reinterpret_cast<Element *>(shared_memory);

    const BlockWork work(batch, positions, in_channels);

    // Zeros wherever nothing is copied to, and the steps of the terms.
    constexpr unsigned ZEROS_START = SLAB_TERMS < SLAB_PRODUCTS * PRODUCT_TERMS ? 0 : INPUT_START;
    constexpr unsigned VECTOR = 16 / ELEMENT_BYTES;
    for (unsigned stage = 0; stage < STAGES * STAGE; stage += STAGE)
        for (unsigned first = ZEROS_START + VECTOR * threadIdx.x; first < STAGE; first += VECTOR * THREADS)
            *reinterpret_cast<float4 *>(stages + stage + first) = float4{};
    unsigned *const steps = reinterpret_cast<unsigned *>(stages + STAGES * STAGE);
    for (unsigned term = threadIdx.x; term < SLAB_PRODUCTS * PRODUCT_TERMS; term += THREADS) {
        const unsigned known = term < SLAB_TERMS ? term : 0; // factors of terms beyond are zero
        const unsigned tap = known % FILTER_TAPS;
        steps[term] = ELEMENT_BYTES * (INPUT_START + known / FILTER_TAPS * CHANNEL_PITCH + tap / FILTER_WIDTH * ROW_PITCH
                           + tap % FILTER_WIDTH + PATCH_LEAD - PADDING);
    }
    __syncthreads();

    const unsigned terms = in_channels * FILTER_TAPS;
    const unsigned first_row = padded_row(work.first_position);
    const unsigned stages_address = static_cast<unsigned>(__cvta_generic_to_shared(stages));
    FilterCopies filter_copies(filter, work, terms);
    PatchCopies patch_copies(input, first_row, work.first_slab * SLAB_CHANNELS, batch, in_channels);

    const auto copies = [&](const unsigned stage, const unsigned channels_left) {
        filter_copies.fetch(filter, stage, work.first_filter, out_channels, terms, channels_left * FILTER_TAPS);
        patch_copies.fetch(input, stage + ELEMENT_BYTES * INPUT_START, channels_left);
    };
    const SlabFetch fetch(copies, work.first_slab, work.end_slab, in_channels, stages_address);

    const WarpPlace place;
    const unsigned first_term = place.slice * PRODUCT_TERMS;
    const unsigned rows =
        stages_address
        + ELEMENT_BYTES * ((place.filter + place.lane % 16) * FILTER_PITCH + place.lane / 16 * (16 / ELEMENT_BYTES) + first_term);
    const unsigned steps_address = stages_address + 4 * (STAGES * STAGE + first_term + place.lane % 4);
    unsigned columns[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const unsigned position = min(work.first_position + place.position + c * 8 + place.lane / 4, work.all_positions - 1);
        columns[c] = stages_address + ELEMENT_BYTES * ((padded_row(position) - first_row) * ROW_PITCH + position % OUTPUT_WIDTH * STRIDE);
    }

    // The steps of the product after the one whose factors are read have been read with those.
    unsigned step[2];
    const auto read_steps = [&](const int number) {
#pragma unroll
        for (int half = 0; half < 2; half++)
            asm volatile("ld.shared.u32 %0, [%1];"
                         : "=r"(step[half])
                         : "r"(steps_address + 4 * (number * CHANNEL_SLICES * PRODUCT_TERMS + half * 4))
                         : "memory");
    };
    WarpProduct product;
    const auto read = [&](const int buffer, const unsigned stage, const int number) {
        product.read_filters(buffer, rows + ELEMENT_BYTES * (stage + number * CHANNEL_SLICES * PRODUCT_TERMS));
#pragma unroll
        for (int i = 0; i < 2 * COLUMNS; i++)
            product.read_position(buffer, i / 2, i % 2, columns[i / 2] + (step[i % 2] + 4 * stage));
        read_steps(number + 1 == PRODUCTS ? 0 : number + 1);
    };
    read_steps(0);
    multiply_slabs(product, work.end_slab - work.first_slab, fetch, read);
    product.store(place, output, reinterpret_cast<float *>(shared_memory), work, out_channels, positions);
}
