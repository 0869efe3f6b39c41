// Rate of the tensor cores: every warp of a block multiplies registers again and again, four products at a time.
// PRODUCT names the mma instruction, A, B and C its registers, SUM the type of C; cycles of each block are written.
// With WARPGROUP it is a wgmma on shared memory whose sums are N registers.
#ifdef WARPGROUP
extern "C" __global__ void __launch_bounds__(256, 1) tensor_throughput(unsigned *cycles, int rounds) {
    __shared__ alignas(1024) unsigned matrices[10240];
    for (int i = threadIdx.x; i < 10240; i += blockDim.x) matrices[i] = 0;
    const unsigned long long at = (static_cast<unsigned>(__cvta_generic_to_shared(matrices)) & 0x3FFFF) >> 4;
    const unsigned long long a = at | 1ull << 16 | 64ull << 32 | 1ull << 62, b = a + (8192 >> 4);
    SUM sum[N];
    for (int i = 0; i < N; ++i) sum[i] = SUM(0);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const unsigned start = clock();
    for (int round = 0; round < rounds; ++round) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        PRODUCT PRODUCT PRODUCT PRODUCT
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    __syncthreads();
    const unsigned end = clock();
    SUM total = SUM(0);
    for (int i = 0; i < N; ++i) total += sum[i];
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - start + (total == SUM(12345) ? 1 : 0);
}
#else
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
#endif
