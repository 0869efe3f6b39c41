// A patch of both images in shared memory, filtered map by map (naive, v1, v2). A warp works on a row: a lane has one
// output, or several that lie 32 columns apart.
#pragma once
#include "ssim.cuh"

#define COLUMNS (TILE_WIDTH / LANES)
// Turns in which the warps of a block cover the rows of a patch, and in which a warp covers a row of it.
#define ROW_TURNS ((PATCH_HEIGHT + TILE_HEIGHT - 1) / TILE_HEIGHT)
#define SEGMENTS ((PATCH_WIDTH + LANES - 1) / LANES)

typedef float Patch[PATCH_HEIGHT][PATCH_WIDTH];
typedef float Scratch[PATCH_HEIGHT][TILE_WIDTH];

// Zero outside of the image. All of a thread's loads are under way together.
__device__ __forceinline__ void load_patch(Patch &patch, const float *plane, int height, int width)
{
    float pixels[ROW_TURNS * SEGMENTS];
#pragma unroll
    for (int turn = 0; turn < ROW_TURNS * SEGMENTS; turn++) {
        const int row = threadIdx.y + turn / SEGMENTS * TILE_HEIGHT, y = blockIdx.y * TILE_HEIGHT - RADIUS + row;
        const int column = threadIdx.x + turn % SEGMENTS * LANES, x = blockIdx.x * TILE_WIDTH - RADIUS + column;
        const bool inside = (unsigned)y < (unsigned)height && (unsigned)x < (unsigned)width;
        pixels[turn] = 0.0f;
        if (inside && row < PATCH_HEIGHT && column < PATCH_WIDTH)
            pixels[turn] = plane[(size_t)y * width + x];
    }
#pragma unroll
    for (int turn = 0; turn < ROW_TURNS * SEGMENTS; turn++) {
        const int row = threadIdx.y + turn / SEGMENTS * TILE_HEIGHT;
        const int column = threadIdx.x + turn % SEGMENTS * LANES;
        if (row < PATCH_HEIGHT && column < PATCH_WIDTH)
            patch[row][column] = pixels[turn];
    }
}

__device__ __forceinline__ void multiply_patch(Patch &patch, const Patch &factor)
{
#pragma unroll
    for (int turn = 0; turn < ROW_TURNS * SEGMENTS; turn++) {
        const int row = threadIdx.y + turn / SEGMENTS * TILE_HEIGHT;
        const int column = threadIdx.x + turn % SEGMENTS * LANES;
        if (row < PATCH_HEIGHT && column < PATCH_WIDTH)
            patch[row][column] = __fmul_rn(patch[row][column], factor[row][column]);
    }
}

template <bool SQUARE>
__device__ __forceinline__ void filter_rows(const Patch &patch, Scratch &scratch)
{
#pragma unroll
    for (int turn = 0; turn < ROW_TURNS; turn++) {
        const int row = threadIdx.y + turn * TILE_HEIGHT;
        if (row < PATCH_HEIGHT) {
#pragma unroll
            for (int i = 0; i < COLUMNS; i++) {
                const int column = threadIdx.x + i * LANES;
                float sum = 0.0f;
#pragma unroll
                for (int tap = 0; tap < WINDOW; tap++) {
                    const float pixel = patch[row][column + tap];
                    sum = fmaf(window_tap(tap), SQUARE ? __fmul_rn(pixel, pixel) : pixel, sum);
                }
                scratch[row][column] = sum;
            }
        }
    }
}

// Vertical pass of one map: the outputs of the thread's columns.
template <int MAP>
__device__ __forceinline__ void filter_columns(const Scratch &scratch, float (&filtered)[COLUMNS][MAPS])
{
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        float sum = 0.0f;
#pragma unroll
        for (int tap = 0; tap < WINDOW; tap++)
            sum = fmaf(window_tap(tap), scratch[threadIdx.y + tap][threadIdx.x + i * LANES], sum);
        filtered[i][MAP] = sum;
    }
}

__device__ __forceinline__ void store_similarity(const Outputs &outputs, size_t plane,
                                                 const float (&filtered)[COLUMNS][MAPS], int height, int width)
{
    const int y = blockIdx.y * TILE_HEIGHT + threadIdx.y;
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        const int x = blockIdx.x * TILE_WIDTH + threadIdx.x + i * LANES;
        float result[OUTPUT_MAPS];
        similarity(filtered[i], result);
        if (y < height && x < width) {
#pragma unroll
            for (int map = 0; map < OUTPUT_MAPS; map++)
                outputs.maps[map][plane + (size_t)y * width + x] = result[map];
        }
    }
}
