// pointwise_tensor: 1x1 convolution as one matrix product on tensor cores, split over input channels.
//
// Layout:    input  [batch][in_channels][positions]    positions = height * width of one image
//            filter [out_channels][in_channels]
//            output [batch][out_channels][positions]
// Grid:      x = tiles of POSITION_TILE positions, counted through all images; y = tiles of FILTER_TILE filters; z = CHANNEL_SPLIT
//            parts of the slabs of input channels. The blocks along z are one cluster (compute capability 9.0 and newer).
// Block:     FILTER_WARPS x POSITION_WARPS x CHANNEL_SLICES warps. Slabs of SLAB_CHANNELS input channels pass through STAGES stages
//            of shared memory, asynchronously. Each slice takes every CHANNEL_SLICES-th group of PRODUCT_TERMS channels of a slab.
// Warp:      as in tensor_product.cuh.
// Stage:     filters, then the input channel by channel; rows are FILTER_PITCH and INPUT_PITCH elements apart, so that no bank is hit
//            twice. Channels and filters beyond the last are zeros; positions beyond are others, for sums that are not stored.
// End:       as in pointwise_product (matrix_product.cuh).
// Constants: fields of the configuration in capitals; what else is derived has its one home in the family.

#define FILTER_TAPS 1
#define SLAB_PRODUCTS (SLAB_CHANNELS / PRODUCT_TERMS)
#define INPUT_START (FILTER_TILE * FILTER_PITCH)
#define STAGE (INPUT_START + SLAB_CHANNELS * INPUT_PITCH)

#include "tensor_product.cuh"

#include "position_copies.cuh"

extern "C" __global__ void CLUSTER __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    pointwise_tensor(Element *__restrict__ output, const Element *__restrict__ input, const Element *__restrict__ filter,
                     const unsigned batch, const unsigned in_channels, const unsigned out_channels, const unsigned positions)
{
    extern __shared__ float4 shared_memory[];
    float *const stages = reinterpret_cast<float *>(shared_memory);

    const BlockWork work(batch, positions, in_channels);

    const unsigned stages_address = static_cast<unsigned>(__cvta_generic_to_shared(stages));
    FilterCopies filter_copies(filter, work, in_channels);
    InputCopies input_copies(input, work, in_channels, positions);

    const auto copies = [&](const unsigned stage, const unsigned channels_left) {
        filter_copies.fetch(filter, stage, work.first_filter, out_channels, in_channels, channels_left);
        input_copies.fetch(input, stage + ELEMENT_BYTES * INPUT_START, channels_left, positions);
    };
    const SlabFetch fetch(copies, work.first_slab, work.end_slab, in_channels, stages_address);

    const WarpPlace place;
    const unsigned first_channel = place.slice * PRODUCT_TERMS;
    const unsigned rows =
        stages_address
        + ELEMENT_BYTES * ((place.filter + place.lane % 16) * FILTER_PITCH + place.lane / 16 * (16 / ELEMENT_BYTES) + first_channel);
    const unsigned row_of_lane = place.lane % 4, position_of_lane = place.lane / 4;
    const unsigned columns =
        stages_address
        + ELEMENT_BYTES * (INPUT_START + (first_channel + row_of_lane) * INPUT_PITCH + place.position + position_of_lane);

    WarpProduct product;
    const auto read = [&](const int buffer, const unsigned stage, const int number) {
        product.read_filters(buffer, rows + ELEMENT_BYTES * (stage + number * CHANNEL_SLICES * PRODUCT_TERMS));
#pragma unroll
        for (int i = 0; i < 2 * COLUMNS; i++)
            product.read_position(buffer, i / 2, i % 2,
                                  columns + 4 * (stage + i / 2 * 8)
                                      + 4 * (number * CHANNEL_SLICES * PRODUCT_TERMS + i % 2 * 4) * INPUT_PITCH);
    };
    multiply_slabs(product, work.end_slab - work.first_slab, fetch, read);
    product.store(place, output, stages, work, out_channels, positions);
}
