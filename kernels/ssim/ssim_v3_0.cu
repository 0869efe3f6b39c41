// ssim_v3_0: the pipeline in y, one warp walking down the rows of its tile, with the filtered rows in an array.
//
// Block:  32 threads, 64 x 32 outputs; a ring of 4 rows of both images in shared memory, copied 3 rows ahead.
// Thread: two neighbouring columns; the last 11 filtered rows of 2 columns and 5 maps: 11 * 2 * 5 * 4 = 440 bytes.
//
// All rows of the tile are written out. But the ring goes on from one channel to the next, so its indices are known at run
// time only: the array stays in local memory, and the code has grown for nothing. The registers that the array does not
// take let 32 blocks share an SM, whose rings together exceed the L1 cache.
#include "ssim_rows.cuh"

#define STAGES 4

typedef float Ring[WINDOW][COLUMNS][MAPS];

__device__ __forceinline__ void filter_columns(const Ring &ring, int oldest, float (&filtered)[COLUMNS][MAPS])
{
#pragma unroll
    for (int i = 0; i < COLUMNS * MAPS; i++)
        filtered[i / MAPS][i % MAPS] = 0.0f;
#pragma unroll
    for (int tap = 0; tap < WINDOW; tap++) {
#pragma unroll
        for (int i = 0; i < COLUMNS * MAPS; i++)
            filtered[i / MAPS][i % MAPS] =
                fmaf(window_tap(tap), ring[oldest][i / MAPS][i % MAPS], filtered[i / MAPS][i % MAPS]);
        oldest = oldest + 1 < WINDOW ? oldest + 1 : 0;
    }
}

extern "C" __global__ void __launch_bounds__(LANES, 32) ssim_v3_0(SSIM_PARAMETERS)
{
    __shared__ __align__(8) RowPair stages[STAGES];
    const Tile tile(height, width);
    GuardedCopy copy;
    Ring ring;
    int newest = 0;
#pragma unroll 1
    for (int channel = 0; channel < channels; channel++) {
        const size_t plane = plane_offset(channel, channels, height, width);
        __syncwarp();
        copy.begin(tile, image1 + plane, image2 + plane);
#pragma unroll
        for (int row = 0; row < STAGES - 1; row++) {
            copy.row(tile, stages[row]);
            commit_copies();
        }
#pragma unroll
        for (int row = 0; row < PATCH_HEIGHT; row++) {
            wait_for_copies<STAGES - 2>();
            if (row + STAGES - 1 < PATCH_HEIGHT)
                copy.row(tile, stages[(row + STAGES - 1) % STAGES]);
            commit_copies();
            filter_row(stages[row % STAGES], tile.lane, ring[newest]);
            newest = newest + 1 < WINDOW ? newest + 1 : 0;
            if (row >= WINDOW - 1) {
                float filtered[COLUMNS][MAPS];
                filter_columns(ring, newest, filtered);
                store_similarity(SSIM_OUTPUTS, plane, filtered, tile.first_x + COLUMNS * tile.lane,
                                 tile.first_y + row - (WINDOW - 1), height, width);
            }
        }
    }
}
