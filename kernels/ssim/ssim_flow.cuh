// The pipeline in y with partial sums that flow through registers (v4_1, v4, v4_z4): each filtered row is added to the
// sums of the ten outputs that still wait for rows, and the fused multiply-add that adds it also moves the sum to its
// neighbour. So a loop turn is a single row, and its code fits the instruction caches.
#pragma once
#include "ssim_rows.cuh"

#define STAGES 4              // rows of both images in shared memory, copied STAGES - 1 rows ahead
#define WAITING (WINDOW - 1)  // outputs that still wait for rows

// Sums of the outputs whose windows have begun; the next one to be complete stands first.
typedef float Partial[WAITING][COLUMNS][MAPS];

// Make one row of the patch ready, start the copy of the one STAGES - 1 further down, and filter the row.
template <class Copy>
__device__ __forceinline__ void filter_next(const Tile &tile, Copy &copy, RowPair (&stages)[STAGES], int row,
                                            float (&sums)[COLUMNS][MAPS])
{
    wait_for_copies<STAGES - 2>();
    const int next = row + STAGES - 1;
    if (next < PATCH_HEIGHT)
        copy.row(tile, stages[next % STAGES]);
    commit_copies();
    filter_row(stages[row % STAGES], tile.lane, sums);
}

// Add a row to the outputs waiting at places `first` to `last`: each sum moves there from the place behind, and the
// last place's begins. With the bounds 0 and WAITING - 1 no test is left.
__device__ __forceinline__ void advance(Partial &partial, const float (&row)[COLUMNS][MAPS], int first, int last)
{
#pragma unroll
    for (int place = 0; place < WAITING; place++) {
        if (first <= place && place <= last) {
#pragma unroll
            for (int i = 0; i < COLUMNS * MAPS; i++)
                partial[place][i / MAPS][i % MAPS] =
                    fmaf(window_tap(WAITING - 1 - place), row[i / MAPS][i % MAPS],
                         place + 1 < WAITING ? partial[(place + 1) % WAITING][i / MAPS][i % MAPS] : 0.0f);
        }
    }
}

// The output that this row completes.
__device__ __forceinline__ void complete(const Partial &partial, const float (&row)[COLUMNS][MAPS],
                                         float (&filtered)[COLUMNS][MAPS])
{
#pragma unroll
    for (int i = 0; i < COLUMNS * MAPS; i++)
        filtered[i / MAPS][i % MAPS] =
            fmaf(window_tap(WINDOW - 1), row[i / MAPS][i % MAPS], partial[0][i / MAPS][i % MAPS]);
}

// Three loops over the patch's rows: the first WAITING only begin outputs, the last WAITING only complete them.
template <class Copy>
__device__ __forceinline__ void flowing_similarity(const Outputs &outputs, const float *image1, const float *image2,
                                                   int channels, int height, int width)
{
    __shared__ __align__(8) RowPair stages[STAGES];
    const Tile tile(height, width);
    Copy copy;
    const int x = tile.first_x + COLUMNS * tile.lane;
#pragma unroll 1
    for (int channel = 0; channel < channels; channel++) {
        const size_t plane = plane_offset(channel, channels, height, width);
        Partial partial = {};
        float sums[COLUMNS][MAPS], filtered[COLUMNS][MAPS];
        __syncwarp();
        copy.begin(tile, image1 + plane, image2 + plane);
#pragma unroll
        for (int row = 0; row < STAGES - 1; row++) {
            copy.row(tile, stages[row]);
            commit_copies();
        }
#pragma unroll 1
        for (int row = 0; row < WAITING; row++) {
            filter_next(tile, copy, stages, row, sums);
            advance(partial, sums, WAITING - 1 - row, WAITING - 1);
        }
#pragma unroll 1
        for (int row = WAITING; row < TILE_HEIGHT; row++) {
            filter_next(tile, copy, stages, row, sums);
            complete(partial, sums, filtered);
            advance(partial, sums, 0, WAITING - 1);
            store_similarity(outputs, plane, filtered, x, tile.first_y + row - WAITING, height, width);
        }
#pragma unroll 1
        for (int row = TILE_HEIGHT; row < PATCH_HEIGHT; row++) {
            filter_next(tile, copy, stages, row, sums);
            complete(partial, sums, filtered);
            advance(partial, sums, 0, PATCH_HEIGHT - 2 - row);
            store_similarity(outputs, plane, filtered, x, tile.first_y + row - WAITING, height, width);
        }
    }
}
