// Rate of the tensor cores: every warp of a block multiplies registers again and again, four A with two B at a time.
// PRODUCT names the mma instruction of a[row], b[column] and sum[row][column]; A, B and C are its registers of the types FACTOR and
// SUM; BESIDE is what else is done for each product, on other[place]. Cycles of each block are written. Factors are data, so
// that they are read from registers of their own.
#ifndef BESIDE
#define BESIDE
#endif

extern "C" __global__ void tensor_throughput(unsigned *cycles, const FACTOR *data, int rounds) {
    FACTOR a[4][A], b[2][B];
    SUM sum[4][2][C] = {};
    float other[8];
#pragma unroll
    for (int i = 0; i < 4 * A; ++i) a[i / A][i % A] = data[threadIdx.x + i * 1024];
#pragma unroll
    for (int i = 0; i < 2 * B; ++i) b[i / B][i % B] = data[threadIdx.x + 17 + i * 1024];
#pragma unroll
    for (int i = 0; i < 8; ++i) other[i] = threadIdx.x + i;
    __syncthreads();
    const unsigned start = clock();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int place = 0; place < 8; ++place) {
            const int row = place / 2, column = place % 2;
            PRODUCT
            BESIDE
        }
    }
    __syncthreads();
    const unsigned end = clock();
    SUM total = SUM(0);
    float rest = 0.0f;
    for (int i = 0; i < 8 * C; ++i) total += sum[i / C / 2][i / C % 2][i % C];
    for (int i = 0; i < 8; ++i) rest += other[i];
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - start + (total == SUM(12345) ? 1 : 0) + (rest == 12345.0f ? 1 : 0);
}
