// warpgroup_convolution: dense convolution (cross-correlation) with zero padding as a matrix product of warpgroups (wgmma, compute
// capability 9.0), whose rows, the windows of the input, are read from patches in shared memory (implicit GEMM).
//
// Layout:    input  [batch][in_channels][HEIGHT][WIDTH]
//            filter [out_channels][in_channels][FILTER_HEIGHT][FILTER_WIDTH]
//            output [batch][out_channels][OUTPUT_HEIGHT][OUTPUT_WIDTH]
// Grid:      x = tiles of POSITION_TILE output positions, counted row by row through all images; y = tiles of FILTER_TILE filters.
// Block:     POSITION_WARPS warps, four a warpgroup. Slabs of SLAB_CHANNELS input channels pass through STAGES stages of shared memory,
//            asynchronously.
// Warpgroup: as in warpgroup_product.cuh.
// Stage:     filters, then the patch, as in patch_copies.cuh. Behind the stages the steps of the terms.
// Constants: fields of problem and configuration in capitals; what else is derived has its one home in the family.

#define FILTER_TAPS (FILTER_HEIGHT * FILTER_WIDTH)
#define INPUT_START (2 * SLAB_PRODUCTS * CHUNK_PITCH / ELEMENT_BYTES)
#define STAGE (INPUT_START + SLAB_CHANNELS * CHANNEL_PITCH)

#include "warpgroup_product.cuh"

#include "patch_copies.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    warpgroup_convolution(Element *__restrict__ output, const Element *__restrict__ input, const Element *__restrict__ filter,
                          const unsigned batch, const unsigned in_channels, const unsigned out_channels)
{
    extern __shared__ float4 shared_memory[];
    Element *const stages = reinterpret_cast<Element *>(shared_memory);

    const unsigned first_filter = blockIdx.y * FILTER_TILE;
    const unsigned first_position = blockIdx.x * POSITION_TILE;
    const unsigned all_positions = batch * positions;
    const unsigned slabs = (in_channels + SLAB_CHANNELS - 1) / SLAB_CHANNELS;

    clear_stages(stages);
    fill_steps(reinterpret_cast<unsigned *>(stages + STAGES * STAGE));
    __syncthreads();

    const unsigned terms = in_channels * FILTER_TAPS;
    const unsigned first_row = padded_row(first_position);
    const unsigned stages_address = static_cast<unsigned>(__cvta_generic_to_shared(stages));
    FilterCopies filter_copies(filter, first_filter, 0, terms);
    PatchCopies patch_copies(input, first_row, 0, batch, in_channels);

    unsigned fetched = 0;
    unsigned fetch_address = stages_address;
    // Groups of copies are counted even where a slab is missing, so that each wait leaves as many of them.
    const auto fetch = [&]() {
        if (fetched < slabs) {
            const unsigned channels_left = in_channels - fetched * SLAB_CHANNELS;
            filter_copies.fetch(filter, fetch_address, first_filter, out_channels, terms, channels_left * FILTER_TAPS);
            patch_copies.fetch(input, fetch_address + ELEMENT_BYTES * INPUT_START, channels_left);
            fetched++;
            fetch_address = fetch_address == stages_address + ELEMENT_BYTES * (STAGES - 1) * STAGE ? stages_address
                                                                                                   : fetch_address + ELEMENT_BYTES * STAGE;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };

    const unsigned lane = threadIdx.x % 32;
    unsigned rows[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const unsigned position = min(first_position + threadIdx.x / 32 * 16 + half * 8 + lane / 4, all_positions - 1);
        rows[half] = stages_address + ELEMENT_BYTES * ((padded_row(position) - first_row) * ROW_PITCH + position % OUTPUT_WIDTH * STRIDE);
    }
    const unsigned steps_address = stages_address + ELEMENT_BYTES * STAGES * STAGE + 4 * (lane % 4 * PAIRED);

    const auto read = [&](unsigned (&a)[4], const unsigned stage, const int product) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            unsigned step[PAIRED];
            read_step(step, steps_address + 4 * (product * PRODUCT_TERMS + half * PRODUCT_TERMS / 2));
#pragma unroll
            for (int row = 0; row < 2; row++)
                a[half * 2 + row] = rounded(read_terms(rows[row], step, stage));
        }
    };
    float sum[SUMS] = {};
    multiply_slabs(sum, slabs, stages_address, fetch, read);
    store_positions(sum, output, first_filter, first_position, all_positions, out_channels, positions);
}
