// Rate of the tensor cores: every warp of a block multiplies registers again and again, four products at a time.
// PRODUCT names the mma instruction, A, B and C its registers of the types FACTOR and SUM; cycles of each block are written.
extern "C" __global__ void tensor_throughput(unsigned *cycles, int rounds) {
    FACTOR a[A] = {}, b[B] = {};
    SUM sum[4][C] = {};
    __syncthreads();
    const unsigned start = clock();
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int chain = 0; chain < 4; ++chain) PRODUCT
    }
    __syncthreads();
    const unsigned end = clock();
    SUM total = SUM(0);
    for (int chain = 0; chain < 4; ++chain)
        for (int i = 0; i < C; ++i) total += sum[chain][i];
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - start + (total == SUM(12345) ? 1 : 0);
}
