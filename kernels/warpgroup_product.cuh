// What a warpgroup does that multiplies matrices on tensor cores (wgmma, compute capability 9.0): its factors, its sums.
//
// Warpgroup: four warps, 64 positions x FILTER_TILE outputs. Positions are the rows of its products and lie in registers, filters are
//            the columns and are read from shared memory; each product adds PRODUCT_TERMS terms, 32 bytes.
// Precision: ELEMENT_BYTES = 4: positions are rounded to TF32, of filters the bits behind are ignored; 2: half precision.
// Stage:     begins with the filters in chunks of 16 bytes, those of all filters of a tile one behind the other: CHUNK_PITCH bytes for
//            each CHUNK_TERMS terms.
// Constants: those of the kernel that includes this.
#pragma once

#define POSITION_TILE (16 * POSITION_WARPS)
#define THREADS (32 * POSITION_WARPS)
#define PRODUCT_TERMS (32 / ELEMENT_BYTES)
#define CHUNK_TERMS (16 / ELEMENT_BYTES)
#define CHANNEL_SLICES 1
#define CHANNEL_SPLIT 1

#include "matrix_product.cuh"

#define FILTER_PLACE(row, term) ((term) / CHUNK_TERMS * CHUNK_PITCH + (row) * 16 + (term) % CHUNK_TERMS * ELEMENT_BYTES)
#define FILTER_ROW 16

#include "filter_copies.cuh"

// Registers of a thread that hold the sums of its warpgroup: of 64 x FILTER_TILE.
#define SUMS (FILTER_TILE / 2)
// Products whose factors of positions are read together; BATCHES of them make up a slab.
#define BATCHES (SLAB_PRODUCTS / BATCH)

#if ELEMENT_BYTES == 2
#define PRODUCT_TYPES "k16.f32.f16.f16"
#define PRODUCT_FLAGS "1, 1, 1, 0"
#else
#define PRODUCT_TYPES "k8.f32.tf32.tf32"
#define PRODUCT_FLAGS "1, 1, 1"
#endif

#define SUMS_OF_16(i)                                                                                                              \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]), "+f"(sum[i + 6]),      \
        "+f"(sum[i + 7]), "+f"(sum[i + 8]), "+f"(sum[i + 9]), "+f"(sum[i + 10]), "+f"(sum[i + 11]), "+f"(sum[i + 12]),             \
        "+f"(sum[i + 13]), "+f"(sum[i + 14]), "+f"(sum[i + 15])
#define FIRST_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define SECOND_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define THIRD_16 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define FOURTH_16 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// sum += a, 64 positions of a warpgroup, times filters that begin at an address of shared memory.
__device__ __forceinline__ void add_product(float (&sum)[SUMS], const unsigned (&a)[4], const unsigned filters)
{
    const unsigned long long matrix = (filters & 0x3ffff) >> 4 | (CHUNK_PITCH >> 4) << 16 | (8ull * FILTER_ROW >> 4) << 32;
#if FILTER_TILE == 32
    asm volatile("wgmma.mma_async.sync.aligned.m64n32" PRODUCT_TYPES " {" FIRST_16 "}, {%16, %17, %18, %19}, %20, " PRODUCT_FLAGS ";"
                 : SUMS_OF_16(0)
#elif FILTER_TILE == 64
    asm volatile("wgmma.mma_async.sync.aligned.m64n64" PRODUCT_TYPES " {" FIRST_16 SECOND_16
                 "}, {%32, %33, %34, %35}, %36, " PRODUCT_FLAGS ";"
                 : SUMS_OF_16(0), SUMS_OF_16(16)
#elif FILTER_TILE == 96
    asm volatile("wgmma.mma_async.sync.aligned.m64n96" PRODUCT_TYPES " {" FIRST_16 SECOND_16 THIRD_16
                 "}, {%48, %49, %50, %51}, %52, " PRODUCT_FLAGS ";"
                 : SUMS_OF_16(0), SUMS_OF_16(16), SUMS_OF_16(32)
#elif FILTER_TILE == 128
    asm volatile("wgmma.mma_async.sync.aligned.m64n128" PRODUCT_TYPES " {" FIRST_16 SECOND_16 THIRD_16 FOURTH_16
                 "}, {%64, %65, %66, %67}, %68, " PRODUCT_FLAGS ";"
                 : SUMS_OF_16(0), SUMS_OF_16(16), SUMS_OF_16(32), SUMS_OF_16(48)
#endif
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(matrix));
}

// A factor as tensor cores take it: of FP32 they ignore the last 13 bits.
__device__ __forceinline__ unsigned rounded(const Word factor)
{
#if ELEMENT_BYTES == 2
    return factor;
#else
    return __float_as_uint(factor) + 0x1000;
#endif
}

// Passes slabs through the stages; read(a, stage, product) reads the factors of positions.
template <class Fetch, class Read>
__device__ __forceinline__ void multiply_slabs(float (&sum)[SUMS], const unsigned slabs, const unsigned stages_address, const Fetch &fetch,
                                               const Read &read)
{
    unsigned a[2][BATCH][4];
    unsigned stage = 0;
#pragma unroll 1
    for (int ahead = 0; ahead < STAGES - 1; ahead++)
        fetch();
#pragma unroll 1
    for (unsigned left = slabs; left > 0; left--) {
        // What this thread has copied is there, for tensor cores, too; all have multiplied the slab before, which is overwritten.
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        fetch();
#pragma unroll
        for (int product = 0; product < BATCH; product++)
            read(a[0][product], stage, product);
#pragma unroll
        for (int batch = 0; batch < BATCHES; batch++) {
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int product = 0; product < BATCH; product++)
                add_product(sum, a[batch % 2][product], stages_address + ELEMENT_BYTES * stage + (batch * BATCH + product) * 2 * CHUNK_PITCH);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            if (batch + 1 < BATCHES) {
#pragma unroll
                for (int product = 0; product < BATCH; product++)
                    read(a[(batch + 1) % 2][product], stage, (batch + 1) * BATCH + product);
            }
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        }
        stage = stage == (STAGES - 1) * STAGE ? 0 : stage + STAGE;
    }
}

// Stores the sums: a warp has 16 positions, a thread lane / 4 and eight more, and filters 2 * (lane % 4) and one more of each eight.
__device__ __forceinline__ void store_positions(const float (&sum)[SUMS], Element *output, const unsigned first_filter,
                                                const unsigned first_position, const unsigned all_positions,
                                                const unsigned out_channels, const unsigned positions)
{
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const unsigned position = first_position + threadIdx.x / 32 * 16 + half * 8 + lane / 4;
        if (position >= all_positions)
            continue;
        const unsigned filter = first_filter + lane % 4 * 2;
        const Element *const to = output + FIRST_OF(position, out_channels) + filter * positions;
#pragma unroll
        for (int i = 0; i < SUMS / 2; i++) {
            const int behind = i / 2 * 8 + i % 2;
            if (!FILTER_TAIL || filter + behind < out_channels)
                ::store<1>(const_cast<Element *>(later(to, behind, positions)), &sum[i / 2 * 4 + half * 2 + i % 2]);
        }
    }
}
