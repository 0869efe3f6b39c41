// plane_conv2d: depthwise 2-D convolution (cross-correlation) with zero padding of small images, whole planes in shared memory.
//
// Layout:    input  [batch][channels][HEIGHT][WIDTH]
//            filter [channels][FILTER_HEIGHT][FILTER_WIDTH]
//            output [batch][channels][OUTPUT_HEIGHT][OUTPUT_WIDTH]
// Grid:      x = groups of PLANES planes, counted through channels and images.
// Block:     BLOCK_X threads. The planes of a group, one run of memory, and their filters are copied to shared memory; the outputs
//            leave by way of shared memory, so that global memory sees whole vectors only, and no edge of an image.
// Thread:    ROWS_PER_THREAD x COLUMNS_PER_THREAD neighbouring outputs of one plane. Neighbouring threads have tiles side by side,
//            then one below the other, then of the next plane.
// Edges:     sizes are compile-time constants, so that taps outside of the image cost nothing where a tile is as wide, or as high,
//            as the plane; elsewhere what they would read is zero.
// Constants: fields of problem and configuration in capitals; vectors and pitches have their one home in the family.

#include "vectors.cuh"

#define FILTER_TAPS (FILTER_HEIGHT * FILTER_WIDTH)
#define TILES_ACROSS ((OUTPUT_WIDTH + COLUMNS_PER_THREAD - 1) / COLUMNS_PER_THREAD)
#define TILES_DOWN ((OUTPUT_HEIGHT + ROWS_PER_THREAD - 1) / ROWS_PER_THREAD)
#define TILES (TILES_ACROSS * TILES_DOWN)
#define INPUT_PLANE (HEIGHT * WIDTH)
#define OUTPUT_PLANE (OUTPUT_HEIGHT * OUTPUT_WIDTH)
#define TILE_ROWS ((ROWS_PER_THREAD - 1) * STRIDE + FILTER_HEIGHT)
#define TILE_COLUMNS ((COLUMNS_PER_THREAD - 1) * STRIDE + FILTER_WIDTH)

// Words of shared memory: input planes, the outputs, and the filters, each of which starts at a whole vector.
#define WHOLE(words) (((words) + 3) / 4 * 4)
#define OUTPUT_START WHOLE(PLANES * INPUT_PLANE)
#define FILTER_START (OUTPUT_START + WHOLE(PLANES * OUTPUT_PLANE))
#define FILTER_PITCH WHOLE(FILTER_TAPS)

extern "C" __global__ void __launch_bounds__(BLOCK_X)
    plane_conv2d(float *__restrict__ output, const float *__restrict__ input, const float *__restrict__ filter,
                 const unsigned planes, const unsigned channels)
{
    extern __shared__ float4 shared_memory[];
    float *const shared = reinterpret_cast<float *>(shared_memory);
    const unsigned first_plane = blockIdx.x * PLANES;
    const unsigned own_planes = min(planes - first_plane, PLANES);

    const float *const from = input + (unsigned long long)first_plane * INPUT_PLANE;
#pragma unroll
    for (int word = threadIdx.x * INPUT_VECTOR; word < PLANES * INPUT_PLANE; word += BLOCK_X * INPUT_VECTOR)
        if (word < own_planes * INPUT_PLANE)
            copy<INPUT_VECTOR>(shared + word, from + word);
    const unsigned first_channel = first_plane % channels;
#pragma unroll
    for (int tap = threadIdx.x; tap < PLANES * FILTER_TAPS; tap += BLOCK_X) {
        const unsigned plane = tap / FILTER_TAPS;
        unsigned channel = first_channel + plane;
        while (channel >= channels)
            channel -= channels;
        if (plane < own_planes)
            copy<1>(shared + FILTER_START + plane * FILTER_PITCH + tap % FILTER_TAPS,
                    filter + channel * FILTER_TAPS + tap % FILTER_TAPS);
    }
#if ASYNC_COPY
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncthreads();

    const unsigned plane = threadIdx.x / TILES;
    const unsigned tile = threadIdx.x % TILES;
    if (plane < own_planes) {
        const int output_row = TILES_DOWN == 1 ? 0 : tile / TILES_ACROSS * ROWS_PER_THREAD;
        const int output_column = TILES_ACROSS == 1 ? 0 : tile % TILES_ACROSS * COLUMNS_PER_THREAD;
        const int first_row = output_row * STRIDE - PADDING;
        const int first_column = output_column * STRIDE - PADDING;
        const float *const image = shared + plane * INPUT_PLANE + first_row * WIDTH + first_column;
        const float *const taps = shared + FILTER_START + plane * FILTER_PITCH;

        alignas(16) float tap[FILTER_PITCH];
#pragma unroll
        for (int i = 0; i < FILTER_PITCH; i += 4)
            move<4>(tap + i, taps + i);

        float sum[ROWS_PER_THREAD][COLUMNS_PER_THREAD] = {};
#pragma unroll
        for (int r = 0; r < TILE_ROWS; r++) {
            if (TILES_DOWN == 1 && (r < PADDING || r - PADDING >= HEIGHT))
                continue;
            const bool row_inside = TILES_DOWN == 1 || (unsigned)(first_row + r) < HEIGHT;
            alignas(16) float x[TILE_COLUMNS];
#if TILES_ACROSS == 1
            alignas(16) float whole_row[WIDTH];
#pragma unroll
            for (int c = 0; c < WIDTH; c += READ_VECTOR) {
                if (row_inside) {
                    move<READ_VECTOR>(whole_row + c, image + r * WIDTH + PADDING + c);
                } else {
#pragma unroll
                    for (int word = 0; word < READ_VECTOR; word++)
                        whole_row[c + word] = 0.0f;
                }
            }
#pragma unroll
            for (int c = PADDING; c < TILE_COLUMNS && c - PADDING < WIDTH; c++)
                x[c] = whole_row[c - PADDING];
#else
#pragma unroll
            for (int c = 0; c < TILE_COLUMNS; c++) {
                const bool edge = c < PADDING || c >= WIDTH + PADDING - (TILES_ACROSS - 1) * COLUMNS_PER_THREAD * STRIDE;
                const bool inside = row_inside && (!edge || (unsigned)(first_column + c) < WIDTH);
                x[c] = inside ? image[r * WIDTH + c] : 0.0f;
            }
#endif
#pragma unroll
            for (int o = 0; o < ROWS_PER_THREAD; o++) {
                const int k = r - o * STRIDE;
                if (k < 0 || k >= FILTER_HEIGHT)
                    continue;
#pragma unroll
                for (int p = 0; p < COLUMNS_PER_THREAD; p++)
#pragma unroll
                    for (int s = 0; s < FILTER_WIDTH; s++) {
                        const int c = p * STRIDE + s;
                        if (TILES_ACROSS > 1 || (c >= PADDING && c - PADDING < WIDTH))
                            sum[o][p] = fmaf(x[c], tap[k * FILTER_WIDTH + s], sum[o][p]);
                    }
            }
        }

        float *const to = shared + OUTPUT_START + plane * OUTPUT_PLANE + output_row * OUTPUT_WIDTH + output_column;
#pragma unroll
        for (int o = 0; o < ROWS_PER_THREAD; o++)
#pragma unroll
            for (int p = 0; p < COLUMNS_PER_THREAD; p++)
                if ((OUTPUT_HEIGHT % ROWS_PER_THREAD == 0 || output_row + o < OUTPUT_HEIGHT)
                    && (OUTPUT_WIDTH % COLUMNS_PER_THREAD == 0 || output_column + p < OUTPUT_WIDTH))
                    to[o * OUTPUT_WIDTH + p] = sum[o][p];
    }
    __syncthreads();

    float *const to = output + (unsigned long long)first_plane * OUTPUT_PLANE;
#pragma unroll
    for (int word = threadIdx.x * OUTPUT_VECTOR; word < PLANES * OUTPUT_PLANE; word += BLOCK_X * OUTPUT_VECTOR)
        if (word < own_planes * OUTPUT_PLANE)
            move<OUTPUT_VECTOR>(to + word, shared + OUTPUT_START + word);
}
