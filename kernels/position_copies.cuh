// Copies of the input of a 1x1 convolution into slabs of channels. Constants: those of the kernel that includes this, and INPUT_PITCH,
// elements from one channel to the next in a stage.
#pragma once

#include "matrix_product.cuh"

// Who copies the input: POSITION_LANES neighbouring threads one channel, or all threads in POSITION_PASSES.
#define POSITION_VECTORS (POSITION_TILE / INPUT_VECTOR)
#define POSITION_LANES (POSITION_VECTORS < THREADS ? POSITION_VECTORS : THREADS)
#define POSITION_PASSES ((POSITION_VECTORS + THREADS - 1) / THREADS)
#define CHANNEL_STEP (THREADS / POSITION_LANES)

// What is copied for a position beyond the last, for sums that are not stored: the last, or, where copies pass through L1, another
// one in the same bank, because a bank gives a word to one lane after the other.
__device__ __forceinline__ unsigned known_position(const unsigned wanted, const unsigned last)
{
    if constexpr (INPUT_VECTOR * ELEMENT_BYTES == 16)
        return min(wanted, last);
    const unsigned back = (wanted - min(wanted, last) + 31) / 32 * 32; // words of all banks
    return back <= wanted ? wanted - back : last;
}

// What a thread copies of each slab of the input. Channels beyond the last are zeros.
struct InputCopies {
    const Element *from[POSITION_PASSES];
    unsigned vector;
    unsigned channel;
    unsigned to; // bytes from the start of a stage's input

    __device__ __forceinline__ InputCopies(const Element *input, const BlockWork &work, const unsigned in_channels, const unsigned positions)
        : vector(threadIdx.x % POSITION_LANES), channel(threadIdx.x / POSITION_LANES)
    {
#pragma unroll
        for (int pass = 0; pass < POSITION_PASSES; pass++) {
            const unsigned wanted = work.first_position + (vector + pass * THREADS) * INPUT_VECTOR;
            const unsigned position = known_position(wanted, work.all_positions - INPUT_VECTOR);
            from[pass] = input + FIRST_OF(position, in_channels) + (work.first_slab * SLAB_CHANNELS + channel) * positions;
        }
        to = ELEMENT_BYTES * (channel * INPUT_PITCH + vector * INPUT_VECTOR);
    }

    // Starts the copies of the next slab to the stage whose input begins at that address; there are so many channels left.
    __device__ __forceinline__ void fetch(const Element *input, const unsigned stage_input, const unsigned channels_left,
                                          const unsigned positions)
    {
#pragma unroll
        for (int pass = 0; pass < POSITION_PASSES; pass++) {
            constexpr int PASS_ELEMENTS = THREADS * INPUT_VECTOR;
            if ((THREADS % POSITION_LANES == 0 || channel < CHANNEL_STEP)
                && ((pass + 1) * THREADS <= POSITION_VECTORS || POSITION_PASSES == 1
                    || vector + pass * THREADS < POSITION_VECTORS)) {
#pragma unroll
                for (int first = 0; first < SLAB_CHANNELS; first += CHANNEL_STEP) {
                    const bool exists = !CHANNEL_TAIL || channel + first < channels_left;
                    if (first + CHANNEL_STEP <= SLAB_CHANNELS || channel + first < SLAB_CHANNELS)
                        copy<INPUT_VECTOR, !CHANNEL_TAIL>(stage_input + to + ELEMENT_BYTES * (first * INPUT_PITCH + pass * PASS_ELEMENTS),
                                                          exists ? later(from[pass], positions, first) : input, exists);
                }
            }
            from[pass] = later(from[pass], positions, SLAB_CHANNELS);
        }
    }
};
