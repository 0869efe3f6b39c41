// What a warp does that multiplies matrices on tensor cores: its factors, their parts, its sums.
//
// Warp:      WARP_FILTERS x WARP_POSITIONS outputs, in tiles of 16 x 8; each product adds PRODUCT_TERMS terms of each, 32 bytes.
// Precision: each factor is the sum of two TF32 numbers, and all products of them but that of both small ones are added. Tensor cores
//            cut sums off instead of rounding them, so sums of a slab are added outside of them. The error is that of FP32 (Ootomo and Yokota, "Recovering single
//            precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance", 2022).
// Stage:     begins with the filters, FILTER_PITCH elements apart, which are read as matrices.
// Constants: those of the kernel that includes this.
#pragma once

#define FILTER_TILE (FILTER_WARPS * WARP_FILTERS)
#define POSITION_TILE (POSITION_WARPS * WARP_POSITIONS)
#define SLICE_WARPS (FILTER_WARPS * POSITION_WARPS)
#define THREADS (32 * SLICE_WARPS * CHANNEL_SLICES)
#define ROWS (WARP_FILTERS / 16)
#define COLUMNS (WARP_POSITIONS / 8)
#define PRODUCT_TERMS 8

#include "matrix_product.cuh"

// A factor of a product: its leading part, which is a TF32 number, and what that leaves of it.
struct Parts {
    unsigned large;
    unsigned small;
};

__device__ __forceinline__ Parts parts_of(const float value)
{
    const unsigned large = __float_as_uint(value) & 0xffffe000;
    return {large, __float_as_uint(value - __uint_as_float(large))};
}

__device__ __forceinline__ void add_product(float *sum, const unsigned *a, const unsigned *b)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A warp's place in its block. It computes, in a tile of 16 x 8, rows lane / 4 and eight more, and columns 2 * (lane % 4) and one more.
struct WarpPlace {
    unsigned lane;
    unsigned slice;
    unsigned filter;   // first of the warp
    unsigned position; // first of the warp

    __device__ __forceinline__ WarpPlace()
        : lane(threadIdx.x % 32), slice(threadIdx.x / 32 / SLICE_WARPS),
          filter(threadIdx.x / 32 % SLICE_WARPS / POSITION_WARPS * WARP_FILTERS),
          position(threadIdx.x / 32 % POSITION_WARPS * WARP_POSITIONS)
    {
    }
};

// Factors of two products, of which one is read while the other is multiplied, and sums.
struct WarpProduct {
    float sum[ROWS][COLUMNS][4] = {};
    unsigned a[2][ROWS][4];
    float b[2][COLUMNS][2];
    float part[ROWS][COLUMNS][4];

    // Reads filters from the address of the first word of this lane's row.
    __device__ __forceinline__ void read_filters(const int buffer, const unsigned from)
    {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            unsigned *const to = a[buffer][r];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                         : "r"(from + ELEMENT_BYTES * r * 16 * FILTER_PITCH)
                         : "memory");
        }
    }

    __device__ __forceinline__ void read_position(const int buffer, const int column, const int half, const unsigned from)
    {
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(b[buffer][column][half]) : "r"(from) : "memory");
    }

    __device__ __forceinline__ void begin_slab()
    {
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS * 4; i++)
            part[i / 4 / COLUMNS][i / 4 % COLUMNS][i % 4] = 0.0f;
    }

    __device__ __forceinline__ void end_slab()
    {
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS * 4; i++)
            sum[i / 4 / COLUMNS][i / 4 % COLUMNS][i % 4] += part[i / 4 / COLUMNS][i / 4 % COLUMNS][i % 4];
    }

    // What has been read last, to where the next product looks for it.
    __device__ __forceinline__ void exchange_buffers()
    {
#pragma unroll
        for (int i = 0; i < ROWS * 4; i++)
            a[0][i / 4][i % 4] = a[1][i / 4][i % 4];
#pragma unroll
        for (int i = 0; i < COLUMNS * 2; i++)
            b[0][i / 2][i % 2] = b[1][i / 2][i % 2];
    }

    __device__ __forceinline__ void multiply(const int buffer)
    {
        unsigned rows_large[ROWS][4], columns_large[COLUMNS][2];
        unsigned rows_small[ROWS][4], columns_small[COLUMNS][2];
#pragma unroll
        for (int i = 0; i < 4 * ROWS; i++) {
            const Parts of = parts_of(__uint_as_float(a[buffer][i / 4][i % 4]));
            rows_large[i / 4][i % 4] = of.large;
            rows_small[i / 4][i % 4] = of.small;
        }
#pragma unroll
        for (int i = 0; i < 2 * COLUMNS; i++) {
            const Parts of = parts_of(b[buffer][i / 2][i % 2]);
            columns_large[i / 2][i % 2] = of.large;
            columns_small[i / 2][i % 2] = of.small;
        }
#pragma unroll
        for (int product = 0; product < 3; product++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) {
                    if (product == 0)
                        add_product(part[r][c], rows_small[r], columns_large[c]);
                    else if (product == 1)
                        add_product(part[r][c], rows_large[r], columns_small[c]);
                    else
                        add_product(part[r][c], rows_large[r], columns_large[c]);
                }
    }

    // Stores the sums, or hands them to store_sums by way of shared memory.
    __device__ __forceinline__ void store(const WarpPlace &place, Element *output, float *stages, const BlockWork &work,
                                          const unsigned out_channels, const unsigned positions)
    {
        const unsigned tile_filter = place.filter + place.lane / 4;
#if THROUGH_SHARED
        __syncthreads();
#elif !ONE_IMAGE
        // One division finds the image of the first column. The others lie 8 positions apart, and further where images end between them.
        const unsigned first_column = place.position + place.lane % 4 * 2;
        unsigned position = work.first_position + first_column;
        const Element *to = output + FIRST_OF(position, out_channels) + (work.first_filter + tile_filter) * positions;
        unsigned of_image = position % positions;
        const unsigned other_channels = (out_channels - 1) * positions;
#endif
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
#if THROUGH_SHARED || ONE_IMAGE
            const unsigned tile_position = place.position + c * 8 + place.lane % 4 * 2;
#endif
#if !THROUGH_SHARED && ONE_IMAGE
            const unsigned position = work.first_position + tile_position;
            const Element *const to = output + position + (work.first_filter + tile_filter) * positions;
#endif
#pragma unroll
            for (int r = 0; r < 2 * ROWS; r++) {
                alignas(8) const float neighbours[2] = {sum[r / 2][c][r % 2 * 2], sum[r / 2][c][r % 2 * 2 + 1]};
#if THROUGH_SHARED
                move<2>(stages + place.slice * SLICE_SUMS + (tile_filter + r * 8) * SUMS_PITCH + tile_position, neighbours);
#else
                if (position < work.all_positions && (!FILTER_TAIL || work.first_filter + tile_filter + r * 8 < out_channels))
                    ::store<2>(const_cast<Element *>(later(to, 8 * r, positions)), neighbours);
#endif
            }
#if !THROUGH_SHARED && !ONE_IMAGE
            position += 8;
            to += 8;
            for (of_image += 8; of_image >= positions; of_image -= positions)
                to += other_channels;
#endif
        }
#if THROUGH_SHARED
        store_sums(output, stages, work, out_channels, positions);
#endif
    }
};

// Who copies filters: FILTER_LANES neighbouring threads the terms of one that belong to a slab.
#define SLAB_TERMS (SLAB_CHANNELS * FILTER_TAPS)
#define FILTER_LANES (SLAB_TERMS / FILTER_VECTOR)
#define FILTER_STEP (THREADS / FILTER_LANES)

// What a thread copies of each slab of the filters. Terms and filters beyond the last are zeros: filters that repeat the last would all
// be read from one slice of L2, by all blocks at once.
struct FilterCopies {
    const Element *from;
    unsigned term;
    unsigned row;
    unsigned to; // bytes from the start of a stage

    __device__ __forceinline__ FilterCopies(const Element *filter, const BlockWork &work, const unsigned terms)
        : term(threadIdx.x % FILTER_LANES * FILTER_VECTOR), row(threadIdx.x / FILTER_LANES)
    {
        from = later(filter, work.first_filter + row, terms) + work.first_slab * SLAB_TERMS + term;
        to = ELEMENT_BYTES * (row * FILTER_PITCH + term);
    }

    // Starts the copies of the next slab to the stage at that address; there are so many terms left.
    __device__ __forceinline__ void fetch(const Element *filter, const unsigned stage, const unsigned first_filter,
                                          const unsigned out_channels, const unsigned terms, const unsigned terms_left)
    {
        constexpr bool WHOLE = !CHANNEL_TAIL && !FILTER_TAIL;
#pragma unroll
        for (int first = 0; first < FILTER_TILE; first += FILTER_STEP) {
            if ((THREADS % FILTER_LANES == 0 || row < FILTER_STEP)
                && (first + FILTER_STEP <= FILTER_TILE || row + first < FILTER_TILE)) {
                const bool exists = (!CHANNEL_TAIL || term < terms_left) && (!FILTER_TAIL || first_filter + row + first < out_channels);
                copy<FILTER_VECTOR, WHOLE>(stage + to + ELEMENT_BYTES * first * FILTER_PITCH, exists ? later(from, terms, first) : filter, exists);
            }
        }
        from += SLAB_TERMS;
    }
};

// Products of a slice in a slab, and how many of them are straight-line code: one for each buffer, or all.
#define PRODUCTS (SLAB_PRODUCTS / CHANNEL_SLICES)
#define UNROLLED_PRODUCTS (PRODUCTS % 2 == 0 ? 2 : PRODUCTS)

// Multiplies slabs with the factors that read(buffer, stage, number) reads for a product of a slab.
template <class Fetch, class Read>
__device__ __forceinline__ void multiply_slabs(WarpProduct &product, const unsigned slabs, const Fetch &fetch, const Read &read)
{
    pass_slabs<PRODUCTS, UNROLLED_PRODUCTS>(
        slabs, fetch, read, [&](const int number) { product.multiply(number % 2); }, [&]() { product.begin_slab(); },
        [&]() {
            product.end_slab();
            if (PRODUCTS % 2 == 1)
                product.exchange_buffers();
        });
}
