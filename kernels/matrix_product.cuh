// What kernels of matrix products share: where positions lie, copies, and the sums of slices of a block and of blocks of a
// cluster. Constants: those of the kernel that includes this; ELEMENT_BYTES of inputs, filters and outputs: 4, FP32, or 2, half
// precision; and SUMS_PITCH, words from one filter to the next in the sums, which are FP32.
#pragma once

#include "vectors.cuh"

#if ELEMENT_BYTES == 2
using Element = unsigned short; // the bits of a number
#else
using Element = float;
#endif

// Index of a position in a tensor of the given number of channels, at channel 0.
#if ONE_IMAGE
#define FIRST_OF(position, channels) (position)
#else
#define FIRST_OF(position, channels) ((position) / positions * (channels) * positions + (position) % positions)
#endif

template <int ELEMENTS> __device__ __forceinline__ void move(unsigned short *to, const unsigned short *from)
{
    if constexpr (ELEMENTS == 1)
        *to = *from;
    else
        move<ELEMENTS / 2>(reinterpret_cast<float *>(to), reinterpret_cast<const float *>(from));
}

// Starts a copy of neighbouring elements from global to shared memory, or writes zeros where there is nothing to read; a single
// element of two bytes, which no asynchronous copy moves, is there at once. Addresses of shared memory are numbers, and steps in
// global memory products of 64 bits, so that both fit into the copy's own address and one multiply-add.
template <int ELEMENTS, bool WHOLE> __device__ __forceinline__ void copy(const unsigned to, const Element *from, const bool exists)
{
    constexpr int BYTES = ELEMENT_BYTES * ELEMENTS;
    if constexpr (ASYNC_COPY && BYTES >= 4) {
        const unsigned bytes = WHOLE || exists ? BYTES : 0;
        if constexpr (BYTES == 16 && WHOLE)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
        else if constexpr (BYTES == 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
        else if constexpr (WHOLE)
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
        else
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(bytes) : "memory");
    } else {
        alignas(16) Element elements[ELEMENTS] = {};
        if (WHOLE || exists)
            move<ELEMENTS>(elements, from);
        move<ELEMENTS>(static_cast<Element *>(__cvta_shared_to_generic(to)), elements);
    }
}

__device__ __forceinline__ const Element *later(const Element *from, const unsigned count, const unsigned long long elements)
{
    return reinterpret_cast<const Element *>(reinterpret_cast<const char *>(from) + count * (ELEMENT_BYTES * elements));
}

#if ELEMENT_BYTES == 2
// Two sums in half precision, the first in the low half.
__device__ __forceinline__ unsigned pair_of(const float *sums)
{
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(sums[1]), "f"(sums[0]));
    return pair;
}
#endif

// Stores neighbouring sums as elements: one, two or four.
template <int ELEMENTS> __device__ __forceinline__ void store(Element *to, const float *sums)
{
#if ELEMENT_BYTES == 4
    move<ELEMENTS>(to, sums);
#else
    if constexpr (ELEMENTS == 1) {
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(*to) : "f"(sums[0]));
    } else {
        alignas(8) unsigned pairs[ELEMENTS / 2];
#pragma unroll
        for (int pair = 0; pair < ELEMENTS / 2; pair++)
            pairs[pair] = pair_of(sums + 2 * pair);
        move<ELEMENTS / 2>(reinterpret_cast<float *>(to), reinterpret_cast<const float *>(pairs));
    }
#endif
}

// What a block computes: filters and positions of its tile, and its part of the slabs of input channels, all or one of those along z.
struct BlockWork {
    unsigned first_filter, first_position, all_positions, first_slab, end_slab;

    __device__ __forceinline__ BlockWork(const unsigned batch, const unsigned positions, const unsigned in_channels)
        : first_filter(blockIdx.y * FILTER_TILE), first_position(blockIdx.x * POSITION_TILE), all_positions(batch * positions)
    {
        const unsigned slabs = (in_channels + SLAB_CHANNELS - 1) / SLAB_CHANNELS;
        first_slab = CHANNEL_SPLIT == 1 ? 0 : blockIdx.z * slabs / CHANNEL_SPLIT;
        end_slab = CHANNEL_SPLIT == 1 ? slabs : (blockIdx.z + 1) * slabs / CHANNEL_SPLIT;
    }
};

// Waits until all but the given number of slabs on their way are there, and all have read what the next slab overwrites.
template <int AHEAD> __device__ __forceinline__ void wait_for_slab()
{
#if ASYNC_COPY
    asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD) : "memory");
#endif
    __syncthreads();
}

// The slabs of a block on their way to the stages, which begin at that address: each call starts the copies of the next, if any, by
// copies(address of its stage, channels that are left). Groups of copies are counted even where a slab is missing, so that each
// wait leaves as many of them.
template <class Copies> struct SlabFetch {
    const Copies &copies;
    const unsigned end_slab, in_channels, stages_address;
    mutable unsigned fetched, address;

    __device__ __forceinline__ SlabFetch(const Copies &copies, const unsigned first_slab, const unsigned end_slab,
                                         const unsigned in_channels, const unsigned stages_address)
        : copies(copies), end_slab(end_slab), in_channels(in_channels), stages_address(stages_address), fetched(first_slab),
          address(stages_address)
    {
    }

    __device__ __forceinline__ void operator()() const
    {
        if (fetched < end_slab) {
            copies(address, in_channels - fetched * SLAB_CHANNELS);
            fetched++;
            address = address == stages_address + ELEMENT_BYTES * (STAGES - 1) * STAGE ? stages_address : address + ELEMENT_BYTES * STAGE;
        }
#if ASYNC_COPY
        asm volatile("cp.async.commit_group;" ::: "memory");
#endif
    }
};

// Passes slabs through the stages. Work on a slab has STEPS steps, of which UNROLLED, a divisor, are straight-line code. fetch()
// starts the copies of the next slab, if any. read(buffer, stage, step) reads what belongs to a step from the stage that begins at
// that word, while multiply(number in straight-line code) works on what belongs to the step before, beyond the end of a slab too.
template <int STEPS, int UNROLLED, class Fetch, class Read, class Multiply, class Begin, class End>
__device__ __forceinline__ void pass_slabs(const unsigned slabs, const Fetch &fetch, const Read &read, const Multiply &multiply,
                                           const Begin &begin, const End &end)
{
    unsigned stage = 0;
#pragma unroll 1
    for (int ahead = 0; ahead < STAGES; ahead++)
        fetch();
    wait_for_slab<STAGES - 1>();
    read(0, stage, 0);
#pragma unroll 1
    for (unsigned left = slabs; left > 0; left--) {
        begin();
#pragma unroll 1
        for (int step = 0; step < STEPS - UNROLLED; step += UNROLLED) {
#pragma unroll
            for (int i = 0; i < UNROLLED; i++) {
                read((i + 1) % 2, stage, step + i + 1);
                multiply(i);
            }
        }
#pragma unroll
        for (int i = 0; i < UNROLLED; i++) {
            if (i + 1 < UNROLLED) {
                read((i + 1) % 2, stage, STEPS - UNROLLED + i + 1);
            } else if (left > 1) {
                stage = stage == (STAGES - 1) * STAGE ? 0 : stage + STAGE;
                wait_for_slab<(STAGES > 2 ? STAGES - 2 : 0)>();
                fetch();
                read((i + 1) % 2, stage, 0);
            }
            multiply(i);
        }
        end();
    }
}

#if CHANNEL_SPLIT > 1
__device__ __forceinline__ void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}

// Reads words of the shared memory of another block of the cluster, at the place where they would lie in this block's own.
template <int WORDS> __device__ __forceinline__ void read_of(const unsigned rank, float *to, const float *from)
{
    const unsigned own = static_cast<unsigned>(__cvta_generic_to_shared(from));
    unsigned address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(own), "r"(rank));
    if constexpr (WORDS == 4)
        asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                     : "r"(address)
                     : "memory");
    else if constexpr (WORDS == 2)
        asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(to[0]), "=f"(to[1]) : "r"(address) : "memory");
    else
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(to[0]) : "r"(address) : "memory");
}

#define CLUSTER __cluster_dims__(1, 1, CHANNEL_SPLIT)
#else
#define CLUSTER
#endif

// Sums pass through shared memory where several warps or blocks have parts of them, or a thread's do not lie side by side.
#define THROUGH_SHARED (CHANNEL_SLICES > 1 || CHANNEL_SPLIT > 1 || STORE_VECTOR < DIRECT_VECTOR)
#define TILE_OUTPUTS (FILTER_TILE * POSITION_TILE)
#if CHANNELS_LAST
#define TILE_COLUMNS FILTER_TILE
#else
#define CHANNELS_LAST 0
#define TILE_COLUMNS POSITION_TILE
#endif
#define SLICE_SUMS (TILE_OUTPUTS / TILE_COLUMNS * SUMS_PITCH)

#if !CHANNELS_LAST || SHARED_SUMS
// Adds the sums that the slices of all blocks of a cluster have written to shared memory, the tile of each slice one behind the
// other as [filter][position], or [position][filter] where channels lie closest (CHANNELS_LAST), in a fixed order, and stores them;
// each block of a cluster its part of the tile.
__device__ __forceinline__ void store_sums(Element *output, const float *sums, const BlockWork &work, const unsigned out_channels,
                                           const unsigned positions)
{
#if CHANNEL_SPLIT > 1
    cluster_barrier();
    const unsigned begin = blockIdx.z * (TILE_OUTPUTS / STORE_VECTOR) / CHANNEL_SPLIT;
    const unsigned end = (blockIdx.z + 1) * (TILE_OUTPUTS / STORE_VECTOR) / CHANNEL_SPLIT;
#else
    __syncthreads();
    const unsigned begin = 0, end = TILE_OUTPUTS / STORE_VECTOR;
#endif
#pragma unroll 2
    for (unsigned vector = begin + threadIdx.x; vector < end; vector += THREADS) {
        const unsigned row = vector * STORE_VECTOR / TILE_COLUMNS;
        const unsigned column = vector * STORE_VECTOR % TILE_COLUMNS;
        const unsigned index = row * SUMS_PITCH + column;
        const unsigned filter_index = work.first_filter + (CHANNELS_LAST ? column : row);
        const unsigned position = work.first_position + (CHANNELS_LAST ? row : column);
        if (filter_index < out_channels && position < work.all_positions) {
            alignas(16) float total[STORE_VECTOR] = {};
#pragma unroll
            for (int of = 0; of < CHANNEL_SPLIT * CHANNEL_SLICES; of++) {
                alignas(16) float term[STORE_VECTOR];
#if CHANNEL_SPLIT > 1
                read_of<STORE_VECTOR>(of / CHANNEL_SLICES, term, sums + of % CHANNEL_SLICES * SLICE_SUMS + index);
#else
                move<STORE_VECTOR>(term, sums + of * SLICE_SUMS + index);
#endif
#pragma unroll
                for (int word = 0; word < STORE_VECTOR; word++)
                    total[word] += term[word];
            }
#if CHANNELS_LAST
            store<STORE_VECTOR>(output + position * out_channels + filter_index, total);
#else
            store<STORE_VECTOR>(output + FIRST_OF(position, out_channels) + filter_index * positions, total);
#endif
        }
    }
#if CHANNEL_SPLIT > 1
    // A block that ends takes its shared memory with it. All that is read there has been stored, and nobody waits for stores.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}
#endif
