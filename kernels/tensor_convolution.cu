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
// Stage:     filters as they lie, FILTER_PITCH elements apart, then the patch (patch_copies.cuh); behind the stages the steps.
// End:       as in pointwise_product (matrix_product.cuh).
// Constants: fields of problem and configuration in capitals; what else is derived has its one home in the family.

#define FILTER_TAPS (FILTER_HEIGHT * FILTER_WIDTH)
#define INPUT_START (FILTER_TILE * FILTER_PITCH)
#define STAGE (INPUT_START + SLAB_CHANNELS * CHANNEL_PITCH)

#include "tensor_product.cuh"

#include "patch_copies.cuh"

extern "C" __global__ void CLUSTER __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    tensor_convolution(Element *__restrict__ output, const Element *__restrict__ input, const Element *__restrict__ filter,
                       const unsigned batch, const unsigned in_channels, const unsigned out_channels)
{
    extern __shared__ float4 shared_memory[];
    Element *const stages = reinterpret_cast<Element *>(shared_memory);

    const unsigned first_filter = blockIdx.y * FILTER_TILE;
    const unsigned first_position = blockIdx.x * POSITION_TILE;
    const unsigned all_positions = batch * positions;
    const unsigned slabs = (in_channels + SLAB_CHANNELS - 1) / SLAB_CHANNELS;
    const unsigned first_slab = CHANNEL_SPLIT == 1 ? 0 : blockIdx.z * slabs / CHANNEL_SPLIT;
    const unsigned end_slab = CHANNEL_SPLIT == 1 ? slabs : (blockIdx.z + 1) * slabs / CHANNEL_SPLIT;

    clear_stages(stages);
    fill_steps(reinterpret_cast<unsigned *>(stages + STAGES * STAGE));
    __syncthreads();

    const unsigned terms = in_channels * FILTER_TAPS;
    const unsigned first_row = padded_row(first_position);
    const unsigned stages_address = static_cast<unsigned>(__cvta_generic_to_shared(stages));
    FilterCopies filter_copies(filter, first_filter, first_slab, terms);
    PatchCopies patch_copies(input, first_row, first_slab * SLAB_CHANNELS, batch, in_channels);

    unsigned fetched = first_slab;
    unsigned fetch_address = stages_address;
    // Groups of copies are counted even where a slab is missing, so that each wait leaves as many of them.
    const auto fetch = [&]() {
        if (fetched < end_slab) {
            const unsigned channels_left = in_channels - fetched * SLAB_CHANNELS;
            filter_copies.fetch(filter, fetch_address, first_filter, out_channels, terms, channels_left * FILTER_TAPS);
            patch_copies.fetch(input, fetch_address + ELEMENT_BYTES * INPUT_START, channels_left);
            fetched++;
            fetch_address = fetch_address == stages_address + ELEMENT_BYTES * (STAGES - 1) * STAGE ? stages_address
                                                                                                   : fetch_address + ELEMENT_BYTES * STAGE;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };

    const WarpPlace place;
    const unsigned first_term = place.slice * PRODUCT_TERMS;
    const unsigned rows =
        stages_address
        + ELEMENT_BYTES * ((place.filter + place.lane % 16) * FILTER_PITCH + place.lane / 16 * (16 / ELEMENT_BYTES) + first_term);
    const unsigned steps_address = stages_address + 4 * (STAGES * STAGE / PAIRED + first_term + place.lane % 4 * PAIRED);
    unsigned columns[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const unsigned position = min(first_position + place.position + c * 8 + place.lane / 4, all_positions - 1);
        columns[c] = stages_address + ELEMENT_BYTES * ((padded_row(position) - first_row) * ROW_PITCH + position % OUTPUT_WIDTH * STRIDE);
    }

    // The steps of the product after the one whose factors are read have been read with those; in half precision two of each half.
    unsigned step[2][PAIRED];
    const auto read_steps = [&](const int number) {
#pragma unroll
        for (int half = 0; half < 2; half++)
            read_step(step[half], steps_address + 4 * (number * CHANNEL_SLICES * PRODUCT_TERMS + half * PRODUCT_TERMS / 2));
    };
    WarpProduct product;
    const auto read = [&](const int buffer, const unsigned stage, const int number) {
        product.read_filters(buffer, rows + ELEMENT_BYTES * (stage + number * CHANNEL_SLICES * PRODUCT_TERMS));
#pragma unroll
        for (int i = 0; i < 2 * COLUMNS; i++)
            product.b[buffer][i / 2][i % 2] = read_terms(columns[i / 2], step[i % 2], stage);
        read_steps(number + 1 == PRODUCTS ? 0 : number + 1);
    };
    read_steps(0);
    multiply_slabs(product, end_slab - first_slab, fetch, read);
    product.store(place, output, reinterpret_cast<float *>(shared_memory), first_filter, first_position, all_positions, out_channels, positions);
}
