// tiled_conv2d: 2-D convolution (cross-correlation) of one image with a shared-memory patch.
//
// Layout:    input  [IMAGE_HEIGHT + FILTER_HEIGHT - 1][IMAGE_WIDTH + FILTER_WIDTH - 1]  padded by the caller
//            output [IMAGE_HEIGHT][IMAGE_WIDTH]
//            filter [FILTER_HEIGHT][FILTER_WIDTH] in constant memory
// Block:     BLOCK_SIZE_X x BLOCK_SIZE_Y threads; (BLOCK_SIZE_X * TILE_SIZE_X) x (BLOCK_SIZE_Y * TILE_SIZE_Y) outputs.
// Thread:    TILE_SIZE_Y x TILE_SIZE_X outputs that lie one block size apart.
// Constants: the problem's and the configuration's fields in capitals, and ROW_LENGTH, the row of the patch with its
//            padding (use_padding has no other effect; the family computes it).
// Without USE_SHMEM the taps come straight from global memory; coordinates past the input are clamped, because what
//            they feed is never stored.

__constant__ float filter[FILTER_HEIGHT * FILTER_WIDTH];

#define INPUT_WIDTH (IMAGE_WIDTH + FILTER_WIDTH - 1)
#define INPUT_HEIGHT (IMAGE_HEIGHT + FILTER_HEIGHT - 1)
#define PATCH_WIDTH (BLOCK_SIZE_X * TILE_SIZE_X + FILTER_WIDTH - 1)
#define PATCH_HEIGHT (BLOCK_SIZE_Y * TILE_SIZE_Y + FILTER_HEIGHT - 1)
#define TILES_DIVIDE_IMAGE \
    (IMAGE_WIDTH % (BLOCK_SIZE_X * TILE_SIZE_X) == 0 && IMAGE_HEIGHT % (BLOCK_SIZE_Y * TILE_SIZE_Y) == 0)

#if READ_ONLY
#define LOAD(pointer) __ldg(pointer)
#else
#define LOAD(pointer) (*(pointer))
#endif

extern "C" __global__ void tiled_conv2d(float *output, const float *input)
{
    const int first_column = blockIdx.x * BLOCK_SIZE_X * TILE_SIZE_X;
    const int first_row = blockIdx.y * BLOCK_SIZE_Y * TILE_SIZE_Y;
    const int column = threadIdx.x;
    const int row = threadIdx.y;

#if USE_SHMEM
    __shared__ float patch[PATCH_HEIGHT][ROW_LENGTH];

#pragma unroll
    for (int i = row; i < PATCH_HEIGHT; i += BLOCK_SIZE_Y) {
#pragma unroll
        for (int j = column; j < PATCH_WIDTH; j += BLOCK_SIZE_X) {
            const int y = first_row + i;
            const int x = first_column + j;
#if TILES_DIVIDE_IMAGE
            patch[i][j] = LOAD(&input[y * INPUT_WIDTH + x]);
#else
            if (y < INPUT_HEIGHT && x < INPUT_WIDTH)
                patch[i][j] = LOAD(&input[y * INPUT_WIDTH + x]);
#endif
        }
    }
    __syncthreads();
#endif

    float sum[TILE_SIZE_Y][TILE_SIZE_X];
#pragma unroll
    for (int ty = 0; ty < TILE_SIZE_Y; ty++)
#pragma unroll
        for (int tx = 0; tx < TILE_SIZE_X; tx++)
            sum[ty][tx] = 0.0f;

#pragma unroll
    for (int i = 0; i < FILTER_HEIGHT; i++) {
#pragma unroll
        for (int j = 0; j < FILTER_WIDTH; j++) {
#pragma unroll
            for (int ty = 0; ty < TILE_SIZE_Y; ty++) {
#pragma unroll
                for (int tx = 0; tx < TILE_SIZE_X; tx++) {
                    const int y = row + ty * BLOCK_SIZE_Y + i;
                    const int x = column + tx * BLOCK_SIZE_X + j;
#if USE_SHMEM
                    sum[ty][tx] += patch[y][x] * filter[i * FILTER_WIDTH + j];
#elif TILES_DIVIDE_IMAGE
                    sum[ty][tx] += LOAD(&input[(first_row + y) * INPUT_WIDTH + first_column + x])
                                   * filter[i * FILTER_WIDTH + j];
#else
                    const int inside_y = min(first_row + y, INPUT_HEIGHT - 1);
                    const int inside_x = min(first_column + x, INPUT_WIDTH - 1);
                    sum[ty][tx] += LOAD(&input[inside_y * INPUT_WIDTH + inside_x]) * filter[i * FILTER_WIDTH + j];
#endif
                }
            }
        }
    }

#pragma unroll
    for (int ty = 0; ty < TILE_SIZE_Y; ty++) {
#pragma unroll
        for (int tx = 0; tx < TILE_SIZE_X; tx++) {
            const int y = first_row + row + ty * BLOCK_SIZE_Y;
            const int x = first_column + column + tx * BLOCK_SIZE_X;
#if TILES_DIVIDE_IMAGE
            output[y * IMAGE_WIDTH + x] = sum[ty][tx];
#else
            if (y < IMAGE_HEIGHT && x < IMAGE_WIDTH)
                output[y * IMAGE_WIDTH + x] = sum[ty][tx];
#endif
        }
    }
}
