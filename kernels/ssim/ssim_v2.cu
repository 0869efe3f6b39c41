// ssim_v2: the steps of ssim_v1 on wide, flat tiles with two outputs a thread.
//
// Block:  32 x 8 threads, 64 x 8 outputs; for each channel two patches of 74 x 18 pixels in shared memory.
// Thread: two neighbouring outputs; three rows at most of the horizontal pass.
// Barriers for each channel: 1 load, 5 x (rows, columns), 1 product = 12.
#include "ssim_pair.cuh"

#define ROWS_TURNS ((PATCH_HEIGHT + TILE_HEIGHT - 1) / TILE_HEIGHT)

typedef float Patch[PATCH_HEIGHT][PATCH_WIDTH];
typedef float2 Scratch[PATCH_HEIGHT][LANES];

// All of a thread's loads are under way together.
__device__ __forceinline__ void load_patch(Patch &patch, const float *plane, int height, int width)
{
    float pixels[ROW_TURNS * ROWS_TURNS];
#pragma unroll
    for (int turn = 0; turn < ROW_TURNS * ROWS_TURNS; turn++) {
        const int row = threadIdx.y + turn / ROW_TURNS * TILE_HEIGHT, y = blockIdx.y * TILE_HEIGHT - RADIUS + row;
        const int column = threadIdx.x + turn % ROW_TURNS * LANES, x = blockIdx.x * TILE_WIDTH - RADIUS + column;
        pixels[turn] = 0.0f;
        const bool inside = (unsigned)y < (unsigned)height && (unsigned)x < (unsigned)width;
        if (inside && row < PATCH_HEIGHT && column < PATCH_WIDTH)
            pixels[turn] = plane[(size_t)y * width + x];
    }
#pragma unroll
    for (int turn = 0; turn < ROW_TURNS * ROWS_TURNS; turn++) {
        const int row = threadIdx.y + turn / ROW_TURNS * TILE_HEIGHT;
        const int column = threadIdx.x + turn % ROW_TURNS * LANES;
        if (row < PATCH_HEIGHT && column < PATCH_WIDTH)
            patch[row][column] = pixels[turn];
    }
}

__device__ __forceinline__ void multiply_patch(Patch &patch, const Patch &factor)
{
#pragma unroll
    for (int turn = 0; turn < ROW_TURNS * ROWS_TURNS; turn++) {
        const int row = threadIdx.y + turn / ROW_TURNS * TILE_HEIGHT;
        const int column = threadIdx.x + turn % ROW_TURNS * LANES;
        if (row < PATCH_HEIGHT && column < PATCH_WIDTH)
            patch[row][column] = __fmul_rn(patch[row][column], factor[row][column]);
    }
}

template <bool SQUARE>
__device__ __forceinline__ void filter_rows(const Patch &patch, Scratch &scratch)
{
#pragma unroll
    for (int turn = 0; turn < ROWS_TURNS; turn++) {
        const int row = threadIdx.y + turn * TILE_HEIGHT;
        if (row < PATCH_HEIGHT) {
            float values[WINDOW + 1];
            read_pixels(patch[row], threadIdx.x, values);
            if (SQUARE) {
#pragma unroll
                for (int i = 0; i <= WINDOW; i++)
                    values[i] = __fmul_rn(values[i], values[i]);
            }
            float2 pair;
            filter_pair(values, pair.x, pair.y);
            scratch[row][threadIdx.x] = pair;
        }
    }
}

template <bool SQUARE>
__device__ __forceinline__ void filter(const Patch &patch, Scratch &scratch, float &left, float &right)
{
    filter_rows<SQUARE>(patch, scratch);
    __syncthreads();
    left = right = 0.0f;
#pragma unroll
    for (int tap = 0; tap < WINDOW; tap++) {
        const float2 pair = scratch[threadIdx.y + tap][threadIdx.x];
        left = fmaf(window_tap(tap), pair.x, left);
        right = fmaf(window_tap(tap), pair.y, right);
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(LANES *TILE_HEIGHT, 4) ssim_v2(SSIM_PARAMETERS)
{
    __shared__ __align__(8) Patch patch1, patch2;
    __shared__ Scratch scratch;
    const int x = blockIdx.x * TILE_WIDTH + COLUMNS * threadIdx.x, y = blockIdx.y * TILE_HEIGHT + threadIdx.y;
#pragma unroll 1
    for (int channel = 0; channel < channels; channel++) {
        const size_t plane = plane_offset(channel, channels, height, width);
        float filtered[COLUMNS][MAPS];
        load_patch(patch1, image1 + plane, height, width);
        load_patch(patch2, image2 + plane, height, width);
        __syncthreads();
        filter<false>(patch1, scratch, filtered[0][0], filtered[1][0]);
        filter<true>(patch1, scratch, filtered[0][1], filtered[1][1]);
        filter<false>(patch2, scratch, filtered[0][2], filtered[1][2]);
        filter<true>(patch2, scratch, filtered[0][3], filtered[1][3]);
        multiply_patch(patch1, patch2);
        __syncthreads();
        filter<false>(patch1, scratch, filtered[0][4], filtered[1][4]);
        store_similarity(SSIM_OUTPUTS, plane, filtered, x, y, height, width);
    }
}
