// Patches of the input of a convolution in slabs of channels: copies, and where in a patch the terms of a position are.
//
// Patch:     channel by channel, CHANNEL_PITCH elements apart: PATCH_ROWS whole rows of the images, one below the other with their padding,
//            ROW_PITCH elements apart. In front of a channel's first row are PATCH_LEAD zeros, behind each row at least PADDING.
// Steps:     for each term of a slab, bytes from a position's place in the patch to what it is multiplied with.
// Constants: those of the kernel that includes this, and PRODUCT_TERMS, terms of a product of tensor cores.
#pragma once

#include "matrix_product.cuh"

#define OUTPUT_HEIGHT ((HEIGHT + 2 * PADDING - FILTER_HEIGHT) / STRIDE + 1)
#define OUTPUT_WIDTH ((WIDTH + 2 * PADDING - FILTER_WIDTH) / STRIDE + 1)
#define PADDED_HEIGHT (HEIGHT + 2 * PADDING)

// Neighbouring threads copy neighbouring vectors of the patch; where there are more threads than vectors, groups of threads
// take every PATCH_GROUPS-th channel.
#define ROW_VECTORS (WIDTH / INPUT_VECTOR)
#define PATCH_VECTORS (PATCH_ROWS * ROW_VECTORS)
#define MOST_GROUPS (THREADS / PATCH_VECTORS < 1 ? 1 : THREADS / PATCH_VECTORS)
#define PATCH_GROUPS (MOST_GROUPS < SLAB_CHANNELS ? MOST_GROUPS : SLAB_CHANNELS)
#define PATCH_PASSES ((PATCH_VECTORS + THREADS - 1) / THREADS)

// Neighbouring terms that a register holds.
#define PAIRED (4 / ELEMENT_BYTES)

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

// Zeros wherever nothing is copied to.
__device__ __forceinline__ void clear_stages(Element *stages)
{
    constexpr unsigned ZEROS_START = SLAB_TERMS < SLAB_PRODUCTS * PRODUCT_TERMS ? 0 : INPUT_START;
    constexpr unsigned VECTOR = 16 / ELEMENT_BYTES;
    for (unsigned stage = 0; stage < STAGES * STAGE; stage += STAGE)
        for (unsigned first = ZEROS_START + VECTOR * threadIdx.x; first < STAGE; first += VECTOR * THREADS)
            *reinterpret_cast<float4 *>(stages + stage + first) = float4{};
}

__device__ __forceinline__ void fill_steps(unsigned *steps)
{
    for (unsigned term = threadIdx.x; term < SLAB_PRODUCTS * PRODUCT_TERMS; term += THREADS) {
        const unsigned known = term < SLAB_TERMS ? term : 0; // factors of terms beyond are zero
        const unsigned tap = known % FILTER_TAPS;
        steps[term] = ELEMENT_BYTES * (INPUT_START + known / FILTER_TAPS * CHANNEL_PITCH + tap / FILTER_WIDTH * ROW_PITCH
                           + tap % FILTER_WIDTH + PATCH_LEAD - PADDING);
    }
}

// Reads the steps of the terms that a register of this lane holds.
__device__ __forceinline__ void read_step(unsigned (&step)[PAIRED], const unsigned from)
{
#if ELEMENT_BYTES == 2
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(step[0]), "=r"(step[1]) : "r"(from) : "memory");
#else
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(step[0]) : "r"(from) : "memory");
#endif
}

// Reads those terms of a position whose place in the patch is given, from the stage that begins at that element.
__device__ __forceinline__ Word read_terms(const unsigned place, const unsigned (&step)[PAIRED], const unsigned stage)
{
    Word terms;
#if ELEMENT_BYTES == 2
    unsigned short low, high;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(low) : "r"(place + (step[0] + ELEMENT_BYTES * stage)) : "memory");
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(high) : "r"(place + (step[1] + ELEMENT_BYTES * stage)) : "memory");
    asm("mov.b32 %0, {%1, %2};" : "=r"(terms) : "h"(low), "h"(high));
#else
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(terms) : "r"(place + (step[0] + ELEMENT_BYTES * stage)) : "memory");
#endif
    return terms;
}
