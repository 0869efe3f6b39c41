// pointwise_warpgroup: 1x1 convolution as one matrix product of warpgroups (wgmma, compute capability 9.0).
//
// Layout:    input  [batch][in_channels][positions]    positions = height * width of one image
//            filter [out_channels][in_channels]
//            output [batch][out_channels][positions]
// Grid:      x = tiles of POSITION_TILE positions, counted through all images; y = tiles of FILTER_TILE filters.
// Block:     POSITION_WARPS warps, four a warpgroup. Slabs of SLAB_CHANNELS input channels pass through STAGES stages of shared memory,
//            asynchronously.
// Warpgroup: as in warpgroup_product.cuh.
// Stage:     filters, then the input channel by channel, INPUT_PITCH elements apart, so that no bank is hit twice. Channels and filters
//            beyond the last are zeros; positions beyond repeat the last, for sums that are not stored.
// Constants: fields of the configuration in capitals; what else is derived has its one home in the family.

#define FILTER_TAPS 1
#define INPUT_START (2 * SLAB_PRODUCTS * CHUNK_PITCH / ELEMENT_BYTES)
#define STAGE (INPUT_START + SLAB_CHANNELS * INPUT_PITCH)

#include "warpgroup_product.cuh"

#include "position_copies.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    pointwise_warpgroup(Element *__restrict__ output, const Element *__restrict__ input, const Element *__restrict__ filter,
                        const unsigned batch, const unsigned in_channels, const unsigned out_channels, const unsigned positions)
{
    extern __shared__ float4 shared_memory[];

    const unsigned first_filter = blockIdx.y * FILTER_TILE;
    const unsigned first_position = blockIdx.x * POSITION_TILE;
    const unsigned all_positions = batch * positions;
    const unsigned slabs = (in_channels + SLAB_CHANNELS - 1) / SLAB_CHANNELS;

    const unsigned stages_address = static_cast<unsigned>(__cvta_generic_to_shared(shared_memory));
    FilterCopies filter_copies(filter, first_filter, 0, in_channels);
    InputCopies input_copies(input, first_position, 0, all_positions, in_channels, positions);

    unsigned fetched = 0;
    unsigned fetch_address = stages_address;
    // Groups of copies are counted even where a slab is missing, so that each wait leaves as many of them.
    const auto fetch = [&]() {
        if (fetched < slabs) {
            const unsigned channels_left = in_channels - fetched * SLAB_CHANNELS;
            filter_copies.fetch(filter, fetch_address, first_filter, out_channels, in_channels, channels_left);
            input_copies.fetch(input, fetch_address + ELEMENT_BYTES * INPUT_START, channels_left, positions);
            fetched++;
            fetch_address = fetch_address == stages_address + ELEMENT_BYTES * (STAGES - 1) * STAGE ? stages_address
                                                                                                   : fetch_address + ELEMENT_BYTES * STAGE;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };

    const unsigned lane = threadIdx.x % 32;
#if ELEMENT_BYTES == 2
    const unsigned channel_of_lane = lane / 16 * 8 + lane % 8, position_of_lane = lane / 8 % 2 * 8;
#else
    const unsigned channel_of_lane = lane % 4, position_of_lane = lane / 4;
#endif
    const unsigned rows = stages_address
                          + ELEMENT_BYTES * (INPUT_START + channel_of_lane * INPUT_PITCH + threadIdx.x / 32 * 16 + position_of_lane);

    // Factors of positions lie channel by channel: in half precision matrices of eight channels and positions are turned.
    const auto read = [&](unsigned (&a)[4], const unsigned stage, const int product) {
        const unsigned from = rows + ELEMENT_BYTES * (stage + product * PRODUCT_TERMS * INPUT_PITCH);
#if ELEMENT_BYTES == 2
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                     : "r"(from)
                     : "memory");
#else
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float factor;
            asm volatile("ld.shared.f32 %0, [%1];"
                         : "=f"(factor)
                         : "r"(from + ELEMENT_BYTES * (i / 2 * 4 * INPUT_PITCH + i % 2 * 8))
                         : "memory");
            a[i] = rounded(factor);
        }
#endif
    };
    float sum[SUMS] = {};
    multiply_slabs(sum, slabs, stages_address, fetch, read);
    store_positions(sum, output, first_filter, first_position, all_positions, out_channels, positions);
}
