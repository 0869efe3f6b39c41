// Transpose of a square matrix through a tile in shared memory. PAD 0: every column of the tile lies in one bank.
#ifndef PAD
#define PAD 0
#endif

constexpr int TILE = 32;
constexpr int ROWS = 8;  // rows of threads; each thread moves TILE / ROWS elements

__global__ void transpose(const float *in, float *out, int width) {
    __shared__ float tile[TILE][TILE + PAD];
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += ROWS) {
        tile[threadIdx.y + row][threadIdx.x] = in[(y + row) * width + x];
    }
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += ROWS) {
        out[(y + row) * width + x] = tile[threadIdx.x][threadIdx.y + row];
    }
}
