// Transpose of 32 x 32 tiles through shared memory with ROW words in a row: 32 conflicts, 33 does not.
extern "C" __global__ void transpose(float *out, const float *in, int n)
{
    __shared__ float tile[32][ROW];
    const int x = blockIdx.x * 32 + threadIdx.x;
    const int y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    const int tx = blockIdx.y * 32 + threadIdx.x;
    const int ty = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        out[(ty + j) * n + tx] = tile[threadIdx.x][threadIdx.y + j];
}
