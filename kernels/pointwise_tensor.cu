// pointwise_tensor: 1x1 convolution as one matrix product on tensor cores, split over input channels.
//
// Layout:    input  [batch][in_channels][positions]    positions = height * width of one image
//            filter [out_channels][in_channels]
//            output [batch][out_channels][positions]
// Grid:      x = tiles of POSITION_TILE positions, counted through all images; y = tiles of FILTER_TILE filters; z = CHANNEL_SPLIT
//            parts of the slabs of input channels. The blocks along z are one cluster (compute capability 9.0 and newer).
// Block:     FILTER_WARPS x POSITION_WARPS x CHANNEL_SLICES warps. Slabs of SLAB_CHANNELS input channels pass through STAGES stages
//            of shared memory, asynchronously. Each slice takes every CHANNEL_SLICES-th group of eight channels of a slab.
// Warp:      WARP_FILTERS x WARP_POSITIONS outputs, in tiles of 16 x 8. While it multiplies what belongs to one group of channels,
//            it reads what belongs to the next, beyond the end of a slab too.
// Precision: TF32_PRODUCTS = 1: factors are rounded to TF32. TF32_PRODUCTS = 3: each factor is the sum of two TF32 numbers, and all
//            products of them but that of both small ones are added. Tensor cores cut sums off instead of rounding them, so
//            sums of a slab are added outside of them. The error is that of FP32 (Ootomo and Yokota, "Recovering single
//            precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance", 2022).
// Stage:     filters, then the input channel by channel; rows are FILTER_PITCH and INPUT_PITCH words apart, so that no bank is hit
//            twice. Channels beyond the last are zeros; filters and positions beyond repeat the last, for sums that are not
//            stored.
// End:       as in pointwise_product (matrix_product.cuh).
// Constants: fields of the configuration in capitals; what else is derived has its one home in the family.

#define FILTER_TILE (FILTER_WARPS * WARP_FILTERS)
#define POSITION_TILE (POSITION_WARPS * WARP_POSITIONS)
#define SLICE_WARPS (FILTER_WARPS * POSITION_WARPS)
#define THREADS (32 * SLICE_WARPS * CHANNEL_SLICES)

#define INPUT_START (FILTER_TILE * FILTER_PITCH)
#define STAGE (INPUT_START + SLAB_CHANNELS * INPUT_PITCH)

#define DIRECT_VECTOR 2
#include "matrix_product.cuh"

// Who copies filters: FILTER_LANES neighbouring threads the channels of one.
#define FILTER_LANES (SLAB_CHANNELS / FILTER_VECTOR)
#define FILTER_STEP (THREADS / FILTER_LANES)

#define ROWS (WARP_FILTERS / 16)
#define COLUMNS (WARP_POSITIONS / 8)
#define GROUP_CHANNELS 8
#define GROUPS (SLAB_CHANNELS / GROUP_CHANNELS / CHANNEL_SLICES)
#define UNROLLED_GROUPS (GROUPS % 2 == 0 ? 2 : GROUPS) // both buffers, or all

// A factor of a product: its leading part, which is a TF32 number, and what that leaves of it.
struct Parts {
    unsigned large;
#if TF32_PRODUCTS > 1
    unsigned small;
#endif
};

__device__ __forceinline__ Parts parts_of(const float value)
{
#if TF32_PRODUCTS > 1
    const unsigned large = __float_as_uint(value) & 0xffffe000;
    return {large, __float_as_uint(value - __uint_as_float(large))};
#else
    return {__float_as_uint(value) + 0x1000}; // tensor cores ignore the 13 bits behind
#endif
}

__device__ __forceinline__ void add_product(float *sum, const unsigned *a, const unsigned *b)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void CLUSTER __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    pointwise_tensor(float *__restrict__ output, const float *__restrict__ input, const float *__restrict__ filter,
                     const unsigned batch, const unsigned in_channels, const unsigned out_channels, const unsigned positions)
{
    extern __shared__ float4 shared_memory[];
    float *const stages = reinterpret_cast<float *>(shared_memory);

    const unsigned thread = threadIdx.x;
    const unsigned first_filter = blockIdx.y * FILTER_TILE;
    const unsigned first_position = blockIdx.x * POSITION_TILE;
    const unsigned all_positions = batch * positions;
    const unsigned slabs = (in_channels + SLAB_CHANNELS - 1) / SLAB_CHANNELS;
    const unsigned first_slab = CHANNEL_SPLIT == 1 ? 0 : blockIdx.z * slabs / CHANNEL_SPLIT;
    const unsigned end_slab = CHANNEL_SPLIT == 1 ? slabs : (blockIdx.z + 1) * slabs / CHANNEL_SPLIT;

    // What this thread copies of each slab.
    const unsigned row_channel = thread % FILTER_LANES * FILTER_VECTOR;
    const unsigned row = thread / FILTER_LANES;
    const float *filter_from =
        later(filter, FILTER_TAIL ? 0 : first_filter + row, in_channels) + first_slab * SLAB_CHANNELS + row_channel;
    const unsigned stages_address = static_cast<unsigned>(__cvta_generic_to_shared(stages));
    const unsigned filter_to = stages_address + 4 * (row * FILTER_PITCH + row_channel);
    InputCopies copies(input, first_position, first_slab * SLAB_CHANNELS, all_positions, in_channels, positions);

    unsigned fetched = first_slab;
    unsigned fetch_bytes = 0;
    const auto fetch = [&]() {
        const unsigned channels_left = in_channels - fetched * SLAB_CHANNELS;
        const bool exists = !CHANNEL_TAIL || row_channel < channels_left;
#pragma unroll
        for (int first = 0; first < FILTER_TILE; first += FILTER_STEP) {
            if ((THREADS % FILTER_LANES == 0 || row < FILTER_STEP)
                && (first + FILTER_STEP <= FILTER_TILE || row + first < FILTER_TILE)) {
                const float *from = FILTER_TAIL ? later(filter_from, min(first_filter + row + first, out_channels - 1), in_channels)
                                                : later(filter_from, in_channels, first);
                copy<FILTER_VECTOR, !CHANNEL_TAIL>(filter_to + fetch_bytes + 4 * first * FILTER_PITCH, exists ? from : filter,
                                                   exists);
            }
        }
        filter_from += SLAB_CHANNELS;
        copies.fetch(input, stages_address + fetch_bytes + 4 * INPUT_START, channels_left, positions);
        fetched++;
        fetch_bytes = fetch_bytes == 4 * (STAGES - 1) * STAGE ? 0 : fetch_bytes + 4 * STAGE;
    };
    // Groups of copies are counted even where a slab is missing, so that each wait leaves as many of them.
    const auto fetch_if_any = [&]() {
        if (fetched < end_slab)
            fetch();
        asm volatile("cp.async.commit_group;" ::: "memory");
    };

    // What this thread computes: in a tile of 16 x 8 rows lane / 4 and eight more, and columns 2 * (lane % 4) and one more.
    const unsigned lane = thread % 32;
    const unsigned slice = thread / 32 / SLICE_WARPS;
    const unsigned warp_filter = thread / 32 % SLICE_WARPS / POSITION_WARPS * WARP_FILTERS;
    const unsigned warp_position = thread / 32 % POSITION_WARPS * WARP_POSITIONS;
    const unsigned rows = stages_address + 4 * ((warp_filter + lane % 16) * FILTER_PITCH + lane / 16 * 4 + slice * GROUP_CHANNELS);
    const unsigned columns =
        stages_address
        + 4 * (INPUT_START + (slice * GROUP_CHANNELS + lane % 4) * INPUT_PITCH + warp_position + lane / 4);

    float sum[ROWS][COLUMNS][4] = {};
    unsigned a[2][ROWS][4];
    float b[2][COLUMNS][2];

    const auto read = [&](const int buffer, const unsigned stage, const int group) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            unsigned *const to = a[buffer][r];
            const unsigned from =
                rows + 4 * (stage + r * 16 * FILTER_PITCH + group * CHANNEL_SLICES * GROUP_CHANNELS);
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                         : "r"(from)
                         : "memory");
        }
#pragma unroll
        for (int i = 0; i < 2 * COLUMNS; i++)
            asm volatile("ld.shared.f32 %0, [%1];"
                         : "=f"(b[buffer][i / 2][i % 2])
                         : "r"(columns + 4 * (stage + i / 2 * 8)
                               + 4 * (group * CHANNEL_SLICES * GROUP_CHANNELS + i % 2 * 4) * INPUT_PITCH)
                         : "memory");
    };
#if TF32_PRODUCTS > 1
    float part[ROWS][COLUMNS][4];
#else
    float(&part)[ROWS][COLUMNS][4] = sum;
#endif
    const auto multiply = [&](const int buffer) {
        unsigned rows_large[ROWS][4], columns_large[COLUMNS][2];
#if TF32_PRODUCTS > 1
        unsigned rows_small[ROWS][4], columns_small[COLUMNS][2];
#endif
#pragma unroll
        for (int i = 0; i < 4 * ROWS; i++) {
            const Parts of = parts_of(__uint_as_float(a[buffer][i / 4][i % 4]));
            rows_large[i / 4][i % 4] = of.large;
#if TF32_PRODUCTS > 1
            rows_small[i / 4][i % 4] = of.small;
#endif
        }
#pragma unroll
        for (int i = 0; i < 2 * COLUMNS; i++) {
            const Parts of = parts_of(b[buffer][i / 2][i % 2]);
            columns_large[i / 2][i % 2] = of.large;
#if TF32_PRODUCTS > 1
            columns_small[i / 2][i % 2] = of.small;
#endif
        }
#pragma unroll
        for (int product = 0; product < TF32_PRODUCTS; product++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) {
#if TF32_PRODUCTS > 1
                    if (product == 0)
                        add_product(part[r][c], rows_small[r], columns_large[c]);
                    else if (product == 1)
                        add_product(part[r][c], rows_large[r], columns_small[c]);
                    else
#endif
                        add_product(part[r][c], rows_large[r], columns_large[c]);
                }
    };

    unsigned stage = 0;
#pragma unroll 1
    for (int ahead = 0; ahead < STAGES; ahead++)
        fetch_if_any();
    wait_for_slab<STAGES - 1>();
    read(0, stage, 0);
#pragma unroll 1
    for (unsigned slab = first_slab; slab < end_slab; slab++) {
#if TF32_PRODUCTS > 1
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS * 4; i++)
            part[i / 4 / COLUMNS][i / 4 % COLUMNS][i % 4] = 0.0f;
#endif
#pragma unroll 1
        for (int group = 0; group < GROUPS - UNROLLED_GROUPS; group += UNROLLED_GROUPS) {
#pragma unroll
            for (int i = 0; i < UNROLLED_GROUPS; i++) {
                read((i + 1) % 2, stage, group + i + 1);
                multiply(i % 2);
            }
        }
#pragma unroll
        for (int i = 0; i < UNROLLED_GROUPS; i++) {
            if (i + 1 < UNROLLED_GROUPS) {
                read((i + 1) % 2, stage, GROUPS - UNROLLED_GROUPS + i + 1);
            } else if (slab + 1 < end_slab) {
                stage = stage == (STAGES - 1) * STAGE ? 0 : stage + STAGE;
                wait_for_slab<STAGES - 2>();
                fetch_if_any();
                read((i + 1) % 2, stage, 0);
            }
            multiply(i % 2);
        }
#if TF32_PRODUCTS > 1
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS * 4; i++)
            sum[i / 4 / COLUMNS][i / 4 % COLUMNS][i % 4] += part[i / 4 / COLUMNS][i / 4 % COLUMNS][i % 4];
#endif
#if GROUPS % 2 == 1
        // An odd number of groups ends in the other buffer.
#pragma unroll
        for (int i = 0; i < ROWS * 4; i++)
            a[0][i / 4][i % 4] = a[1][i / 4][i % 4];
#pragma unroll
        for (int i = 0; i < COLUMNS * 2; i++)
            b[0][i / 2][i % 2] = b[1][i / 2][i % 2];
#endif
    }

#if THROUGH_SHARED
    __syncthreads();
#endif
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const unsigned tile_filter = warp_filter + lane / 4;
        const unsigned tile_position = warp_position + c * 8 + lane % 4 * 2;
#if !THROUGH_SHARED
        const unsigned position = first_position + tile_position;
        const float *const to = output + FIRST_OF(position, out_channels) + (first_filter + tile_filter) * positions;
#endif
#pragma unroll
        for (int r = 0; r < 2 * ROWS; r++) {
            alignas(8) const float neighbours[2] = {sum[r / 2][c][r % 2 * 2], sum[r / 2][c][r % 2 * 2 + 1]};
#if THROUGH_SHARED
            move<2>(stages + slice * SLICE_SUMS + (tile_filter + r * 8) * SUMS_PITCH + tile_position, neighbours);
#else
            if (position < all_positions && (!FILTER_TAIL || first_filter + tile_filter + r * 8 < out_channels))
                move<2>(const_cast<float *>(later(to, 8 * r, positions)), neighbours);
#endif
        }
    }
#if THROUGH_SHARED
    store_sums(output, stages, first_filter, first_position, all_positions, out_channels, positions);
#endif
}
