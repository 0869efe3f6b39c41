// One output for each thread: a patch of both images in shared memory, filtered map by map (naive, v1).
#pragma once
#include "ssim.cuh"

// Turns in which the threads of a tile's edge cover a patch's edge.
#define TURNS_X ((PATCH_WIDTH + TILE_WIDTH - 1) / TILE_WIDTH)
#define TURNS_Y ((PATCH_HEIGHT + TILE_HEIGHT - 1) / TILE_HEIGHT)

typedef float Patch[PATCH_HEIGHT][PATCH_WIDTH];
typedef float Scratch[PATCH_HEIGHT][TILE_WIDTH];

// A warp loads whole rows of the patch, zero outside of the image; all of a thread's loads are under way together.
__device__ __forceinline__ void load_patch(Patch &patch, const float *plane, int height, int width)
{
    float pixels[TURNS_X * TURNS_Y];
#pragma unroll
    for (int turn = 0; turn < TURNS_X * TURNS_Y; turn++) {
        const int row = threadIdx.y + turn / TURNS_X * TILE_HEIGHT, y = blockIdx.y * TILE_HEIGHT - RADIUS + row;
        const int column = threadIdx.x + turn % TURNS_X * TILE_WIDTH, x = blockIdx.x * TILE_WIDTH - RADIUS + column;
        pixels[turn] = 0.0f;
        const bool inside = (unsigned)y < (unsigned)height && (unsigned)x < (unsigned)width;
        if (inside && row < PATCH_HEIGHT && column < PATCH_WIDTH)
            pixels[turn] = plane[(size_t)y * width + x];
    }
#pragma unroll
    for (int turn = 0; turn < TURNS_X * TURNS_Y; turn++) {
        const int row = threadIdx.y + turn / TURNS_X * TILE_HEIGHT;
        const int column = threadIdx.x + turn % TURNS_X * TILE_WIDTH;
        if (row < PATCH_HEIGHT && column < PATCH_WIDTH)
            patch[row][column] = pixels[turn];
    }
}

__device__ __forceinline__ void multiply_patch(Patch &patch, const Patch &factor)
{
#pragma unroll
    for (int turn = 0; turn < TURNS_X * TURNS_Y; turn++) {
        const int row = threadIdx.y + turn / TURNS_X * TILE_HEIGHT;
        const int column = threadIdx.x + turn % TURNS_X * TILE_WIDTH;
        if (row < PATCH_HEIGHT && column < PATCH_WIDTH)
            patch[row][column] = __fmul_rn(patch[row][column], factor[row][column]);
    }
}

template <bool SQUARE>
__device__ __forceinline__ void filter_rows(const Patch &patch, Scratch &scratch)
{
#pragma unroll
    for (int turn = 0; turn < TURNS_Y; turn++) {
        const int row = threadIdx.y + turn * TILE_HEIGHT;
        if (row < PATCH_HEIGHT) {
            float sum = 0.0f;
#pragma unroll
            for (int tap = 0; tap < WINDOW; tap++) {
                const float pixel = patch[row][threadIdx.x + tap];
                sum = fmaf(window_tap(tap), SQUARE ? __fmul_rn(pixel, pixel) : pixel, sum);
            }
            scratch[row][threadIdx.x] = sum;
        }
    }
}

__device__ __forceinline__ float filter_columns(const Scratch &scratch)
{
    float sum = 0.0f;
#pragma unroll
    for (int tap = 0; tap < WINDOW; tap++)
        sum = fmaf(window_tap(tap), scratch[threadIdx.y + tap][threadIdx.x], sum);
    return sum;
}

__device__ __forceinline__ void store_pixel(const Outputs &outputs, size_t plane, const float (&filtered)[MAPS],
                                            int height, int width)
{
    const int x = blockIdx.x * TILE_WIDTH + threadIdx.x, y = blockIdx.y * TILE_HEIGHT + threadIdx.y;
    float result[OUTPUT_MAPS];
    similarity(filtered, result);
    if (y < height && x < width) {
#pragma unroll
        for (int i = 0; i < OUTPUT_MAPS; i++)
            outputs.maps[i][plane + (size_t)y * width + x] = result[i];
    }
}
