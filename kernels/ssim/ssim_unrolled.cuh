// The pipeline in y with every index written out (v3, v3_1): filtered rows stay in registers because the code of a loop
// turn names each of them, at the price of a loop body beyond the instruction caches.
#pragma once
#include "ssim_rows.cuh"

#define STAGES 8       // rows of both images in shared memory, copied STAGES - 1 rows ahead
#define RING_ROWS 12   // filtered rows in registers: the window's 11, and a 12th because 12 divides the tile's rows
#define TURN_ROWS 24   // least common multiple of the two rings: after so many rows every index repeats

static_assert(TURN_ROWS % STAGES == 0 && TURN_ROWS % RING_ROWS == 0, "a turn must pass both rings in whole circles");
static_assert(TILE_HEIGHT % TURN_ROWS == 0, "the tile must be a whole number of loop turns");

// Make the row ROW of the patch ready, start the copy of the one STAGES - 1 further down, filter the row into the ring.
// `above` is a multiple of TURN_ROWS that the loop adds to ROW, so that ROW alone decides the places in both rings.
template <int ROW, class Copy>
__device__ __forceinline__ void filter_next(const Tile &tile, Copy &copy, RowPair (&stages)[STAGES],
                                            float (&ring)[RING_ROWS][COLUMNS][MAPS], int above)
{
    wait_for_copies<STAGES - 2>();
    if (above + ROW + STAGES - 1 < PATCH_HEIGHT)
        copy.row(tile, stages[(ROW + STAGES - 1) % STAGES]);
    commit_copies();
    filter_row(stages[ROW % STAGES], tile.lane, ring[ROW % RING_ROWS]);
}

template <int FIRST>
__device__ __forceinline__ void filter_columns(const float (&ring)[RING_ROWS][COLUMNS][MAPS],
                                               float (&filtered)[COLUMNS][MAPS])
{
#pragma unroll
    for (int i = 0; i < COLUMNS * MAPS; i++) {
        float sum = 0.0f;
#pragma unroll
        for (int tap = 0; tap < WINDOW; tap++)
            sum = fmaf(window_tap(tap), ring[(FIRST + tap) % RING_ROWS][i / MAPS][i % MAPS], sum);
        filtered[i / MAPS][i % MAPS] = sum;
    }
}

// Compile-time loop: STEP counts the rows of the patch that precede the first output, then those of a loop turn.
template <int STEP, int END>
struct Steps {
    template <class Copy>
    static __device__ __forceinline__ void fill(const Tile &tile, Copy &copy, RowPair (&stages)[STAGES],
                                                float (&ring)[RING_ROWS][COLUMNS][MAPS])
    {
        filter_next<STEP>(tile, copy, stages, ring, 0);
        Steps<STEP + 1, END>::fill(tile, copy, stages, ring);
    }

    template <class Copy>
    static __device__ __forceinline__ void turn(const Tile &tile, Copy &copy, RowPair (&stages)[STAGES],
                                                float (&ring)[RING_ROWS][COLUMNS][MAPS], const Outputs &outputs,
                                                size_t plane, int above)
    {
        float filtered[COLUMNS][MAPS];
        filter_next<STEP + WINDOW - 1>(tile, copy, stages, ring, above);
        filter_columns<STEP>(ring, filtered);
        store_similarity(outputs, plane, filtered, tile.first_x + COLUMNS * tile.lane, tile.first_y + above + STEP,
                         tile.height, tile.width);
        Steps<STEP + 1, END>::turn(tile, copy, stages, ring, outputs, plane, above);
    }
};

template <int END>
struct Steps<END, END> {
    template <class... Arguments>
    static __device__ __forceinline__ void fill(Arguments &&...)
    {
    }
    template <class... Arguments>
    static __device__ __forceinline__ void turn(Arguments &&...)
    {
    }
};

template <class Copy>
__device__ __forceinline__ void unrolled_similarity(const Outputs &outputs, const float *image1, const float *image2,
                                                    int channels, int height, int width)
{
    __shared__ __align__(8) RowPair stages[STAGES];
    const Tile tile(height, width);
    Copy copy;
#pragma unroll 1
    for (int channel = 0; channel < channels; channel++) {
        const size_t plane = plane_offset(channel, channels, height, width);
        float ring[RING_ROWS][COLUMNS][MAPS];
        __syncwarp();
        copy.begin(tile, image1 + plane, image2 + plane);
#pragma unroll
        for (int row = 0; row < STAGES - 1; row++) {
            copy.row(tile, stages[row]);
            commit_copies();
        }
        Steps<0, WINDOW - 1>::fill(tile, copy, stages, ring);
#pragma unroll 1
        for (int above = 0; above < TILE_HEIGHT; above += TURN_ROWS)
            Steps<0, TURN_ROWS>::turn(tile, copy, stages, ring, outputs, plane, above);
    }
}
