// Copies of filters into slabs of channels. Constants: those of the kernel that includes this; FILTER_PLACE(row, term), bytes from the
// start of a stage to an element; and FILTER_ROW, bytes from one filter to the next.
#pragma once

#include "matrix_product.cuh"

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

    __device__ __forceinline__ FilterCopies(const Element *filter, const unsigned first_filter, const unsigned first_slab,
                                            const unsigned terms)
        : term(threadIdx.x % FILTER_LANES * FILTER_VECTOR), row(threadIdx.x / FILTER_LANES)
    {
        from = later(filter, first_filter + row, terms) + first_slab * SLAB_TERMS + term;
        to = FILTER_PLACE(row, term);
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
                copy<FILTER_VECTOR, WHOLE>(stage + to + first * FILTER_ROW, exists ? later(from, terms, first) : filter, exists);
            }
        }
        from += SLAB_TERMS;
    }
};
