// Rows of both images copied ahead into a ring in shared memory by the one warp of a block (v3_0 to v4_z4).
//
// Three ways to copy a row, which differ in what they do with pixels outside of the image, all correct for every size:
// GuardedCopy branches, ClampedCopy and SelectedCopy fill with zeros while the address stays within the image.
// Below compute capability 8.0 there is no asynchronous copy: the same rows are then loaded and stored, guarded.
#pragma once
#include "ssim_pair.cuh"

typedef float RowPair[2][PATCH_WIDTH];

// Where a lane of the block's warp works, and the image it works on.
struct Tile {
    int lane, first_x, first_y, height, width;

    __device__ __forceinline__ Tile(int image_height, int image_width)
        : lane(threadIdx.x), first_x(blockIdx.x * TILE_WIDTH), first_y(blockIdx.y * TILE_HEIGHT), height(image_height),
          width(image_width)
    {
    }
};

// Start the copy of one float; with `bytes` of 0 instead of 4 write a zero and read nothing. The count is one of bytes,
// not a flag.
__device__ __forceinline__ void copy_float(float *shared, const float *global, int bytes)
{
#if __CUDA_ARCH__ >= 800
    const unsigned target = __cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(global), "r"(bytes) : "memory");
#else
    *shared = bytes ? *global : 0.0f;
#endif
}

// Start the copy of one float from an address that is known to be valid.
__device__ __forceinline__ void copy_float(float *shared, const float *global)
{
#if __CUDA_ARCH__ >= 800
    const unsigned target = __cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(target), "l"(global) : "memory");
#else
    *shared = *global;
#endif
}

__device__ __forceinline__ void commit_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Wait until at most PENDING of the last committed groups are under way, and let every lane see the others' copies.
template <int PENDING>
__device__ __forceinline__ void wait_for_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
    __syncwarp();
}

// Every kind of copy has begin(), which is given a channel's planes, and row(), which copies the next row of the patch
// to both halves of a place in the ring. Rows follow one another, so addresses only advance.

// Pixels are tested one by one: inside they are copied, outside a zero is stored.
struct GuardedCopy {
    const float *plane1, *plane2;
    int y;

    __device__ __forceinline__ void begin(const Tile &tile, const float *image1, const float *image2)
    {
        plane1 = image1;
        plane2 = image2;
        y = tile.first_y - RADIUS;
    }

    __device__ __forceinline__ void row(const Tile &tile, RowPair &target)
    {
#pragma unroll
        for (int turn = 0; turn < ROW_TURNS; turn++) {
            const int column = tile.lane + turn * LANES, x = tile.first_x - RADIUS + column;
            if (column < PATCH_WIDTH) {
                if ((unsigned)y < (unsigned)tile.height && (unsigned)x < (unsigned)tile.width) {
                    const size_t pixel = (size_t)y * tile.width + x;
                    copy_float(&target[0][column], plane1 + pixel);
                    copy_float(&target[1][column], plane2 + pixel);
                } else {
                    target[0][column] = 0.0f;
                    target[1][column] = 0.0f;
                }
            }
        }
        y++;
    }
};

// Columns are clamped once for each channel, and rows above and below the image because addresses do not advance there.
// What is left of the tests decides the byte count alone.
struct ClampedCopy {
    const float *pixels[ROW_TURNS];
    ptrdiff_t second;
    int y;

    __device__ __forceinline__ void begin(const Tile &tile, const float *plane1, const float *plane2)
    {
        second = plane2 - plane1;
        y = tile.first_y - RADIUS;
        plane1 += (size_t)max(y, 0) * tile.width;
#pragma unroll
        for (int turn = 0; turn < ROW_TURNS; turn++) {
            const int x = tile.first_x - RADIUS + tile.lane + turn * LANES;
            pixels[turn] = plane1 + min(max(x, 0), tile.width - 1);
        }
    }

    __device__ __forceinline__ void row(const Tile &tile, RowPair &target)
    {
        const bool inside = (unsigned)y < (unsigned)tile.height;
        const int advance = inside && y + 1 < tile.height ? tile.width : 0;
#pragma unroll
        for (int turn = 0; turn < ROW_TURNS; turn++) {
            const int column = tile.lane + turn * LANES, x = tile.first_x - RADIUS + column;
            const int count = inside && (unsigned)x < (unsigned)tile.width ? sizeof(float) : 0;
            if (column < PATCH_WIDTH) {
                copy_float(&target[0][column], pixels[turn], count);
                copy_float(&target[1][column], pixels[turn] + second, count);
            }
            pixels[turn] += advance;
        }
        y++;
    }
};

// Every pixel selects its own address, the plane's first pixel where it lies outside, and its own byte count.
struct SelectedCopy {
    const float *plane1;
    ptrdiff_t second;
    int y;

    __device__ __forceinline__ void begin(const Tile &tile, const float *image1, const float *image2)
    {
        plane1 = image1;
        second = image2 - image1;
        y = tile.first_y - RADIUS;
    }

    __device__ __forceinline__ void row(const Tile &tile, RowPair &target)
    {
        const float *first = plane1 + (ptrdiff_t)y * tile.width;
#pragma unroll
        for (int turn = 0; turn < ROW_TURNS; turn++) {
            const int column = tile.lane + turn * LANES, x = tile.first_x - RADIUS + column;
            const bool inside = (unsigned)y < (unsigned)tile.height && (unsigned)x < (unsigned)tile.width;
            const float *pixel = inside ? first + x : plane1;
            const int count = inside ? sizeof(float) : 0;
            if (column < PATCH_WIDTH) {
                copy_float(&target[0][column], pixel, count);
                copy_float(&target[1][column], pixel + second, count);
            }
        }
        y++;
    }
};

// Horizontal pass of one row: the five maps' weighted sums for the lane's two columns.
__device__ __forceinline__ void filter_row(const RowPair &row, int lane, float (&sums)[COLUMNS][MAPS])
{
    float pixels1[WINDOW + 1], pixels2[WINDOW + 1], products[WINDOW + 1];
    read_pixels(row[0], lane, pixels1);
    read_pixels(row[1], lane, pixels2);
    filter_pair(pixels1, sums[0][0], sums[1][0]);
    filter_pair(pixels2, sums[0][2], sums[1][2]);
#pragma unroll
    for (int i = 0; i <= WINDOW; i++)
        products[i] = __fmul_rn(pixels1[i], pixels1[i]);
    filter_pair(products, sums[0][1], sums[1][1]);
#pragma unroll
    for (int i = 0; i <= WINDOW; i++)
        products[i] = __fmul_rn(pixels2[i], pixels2[i]);
    filter_pair(products, sums[0][3], sums[1][3]);
#pragma unroll
    for (int i = 0; i <= WINDOW; i++)
        products[i] = __fmul_rn(pixels1[i], pixels2[i]);
    filter_pair(products, sums[0][4], sums[1][4]);
}
