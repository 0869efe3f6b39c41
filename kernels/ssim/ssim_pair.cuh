// Two neighbouring outputs in each of the 32 lanes of a warp, which so covers a row of 64 (the pipelines in y).
#pragma once
#include "ssim.cuh"

#define COLUMNS 2
#define ROW_TURNS ((PATCH_WIDTH + LANES - 1) / LANES)

// Similarity of two neighbours at x of row y from their filtered maps, stored to every map: at once where every row
// starts at an even element, else one by one. The intrinsics keep the compiler from splitting a pair; they also let the
// caches keep the images rather than the maps.
__device__ __forceinline__ void store_similarity(const Outputs &outputs, size_t plane,
                                                 const float (&filtered)[COLUMNS][MAPS], int x, int y, int height,
                                                 int width)
{
    float result[COLUMNS][OUTPUT_MAPS];
    similarity(filtered[0], result[0]);
    similarity(filtered[1], result[1]);
    const size_t pixel = plane + (size_t)y * width + x;
    if (y < height && x < width) {
        if (width % 2 == 0) {
#pragma unroll
            for (int i = 0; i < OUTPUT_MAPS; i++)
                __stcs(reinterpret_cast<float2 *>(outputs.maps[i] + pixel), make_float2(result[0][i], result[1][i]));
        } else {
#pragma unroll
            for (int i = 0; i < OUTPUT_MAPS; i++) {
                __stcs(outputs.maps[i] + pixel, result[0][i]);
                if (x + 1 < width)
                    __stcs(outputs.maps[i] + pixel + 1, result[1][i]);
            }
        }
    }
}

// The twelve pixels that two neighbouring windows of a row see, read as aligned pairs.
__device__ __forceinline__ void read_pixels(const float *row, int lane, float (&pixels)[WINDOW + 1])
{
#pragma unroll
    for (int i = 0; i <= WINDOW; i += COLUMNS) {
        const float2 pair = *reinterpret_cast<const float2 *>(row + COLUMNS * lane + i);
        pixels[i] = pair.x;
        pixels[i + 1] = pair.y;
    }
}

// Both windows' weighted sums of twelve neighbouring values.
__device__ __forceinline__ void filter_pair(const float (&values)[WINDOW + 1], float &left, float &right)
{
    left = right = 0.0f;
#pragma unroll
    for (int tap = 0; tap < WINDOW; tap++) {
        left = fmaf(window_tap(tap), values[tap], left);
        right = fmaf(window_tap(tap), values[tap + 1], right);
    }
}
