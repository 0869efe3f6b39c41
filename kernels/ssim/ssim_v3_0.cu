// ssim_v3_0: one warp walks down the rows of its tile and keeps the filtered rows in an array used as a ring.
//
// Block:  32 threads, 64 x 32 outputs; a ring of 4 rows of both images in shared memory, copied 3 rows ahead.
// Thread: two neighbouring columns; the last 11 filtered rows of 2 columns and 5 maps: 11 * 2 * 5 * 4 = 440 bytes,
//         kept in local memory by an index that is known at run time only.
#include "ssim_rows.cuh"

#define STAGES 4

extern "C" __global__ void __launch_bounds__(LANES) ssim_v3_0(SSIM_PARAMETERS)
{
    __shared__ __align__(8) RowPair stages[STAGES];
    const Tile tile(height, width);
    GuardedCopy copy;
#pragma unroll 1
    for (int channel = 0; channel < channels; channel++) {
        const size_t plane = plane_offset(channel, channels, height, width);
        float ring[WINDOW][COLUMNS][MAPS];
        int newest = 0;
        __syncwarp();
        copy.begin(tile, image1 + plane, image2 + plane);
#pragma unroll
        for (int row = 0; row < STAGES - 1; row++) {
            copy.row(tile, stages[row]);
            commit_copies();
        }
#pragma unroll 1
        for (int row = 0; row < PATCH_HEIGHT; row++) {
            wait_for_copies<STAGES - 2>();
            if (row + STAGES - 1 < PATCH_HEIGHT)
                copy.row(tile, stages[(row + STAGES - 1) % STAGES]);
            commit_copies();
            filter_row(stages[row % STAGES], tile.lane, ring[newest]);
            newest = newest + 1 < WINDOW ? newest + 1 : 0;
            if (row >= WINDOW - 1) {
                float filtered[COLUMNS][MAPS] = {};
                int slot = newest;
#pragma unroll
                for (int tap = 0; tap < WINDOW; tap++) {
#pragma unroll
                    for (int i = 0; i < COLUMNS * MAPS; i++)
                        filtered[i / MAPS][i % MAPS] =
                            fmaf(window_tap(tap), ring[slot][i / MAPS][i % MAPS], filtered[i / MAPS][i % MAPS]);
                    slot = slot + 1 < WINDOW ? slot + 1 : 0;
                }
                store_similarity(SSIM_OUTPUTS, plane, filtered, tile.first_x + COLUMNS * tile.lane,
                                 tile.first_y + row - (WINDOW - 1), height, width);
            }
        }
    }
}
