// Rate of the tensor cores for products of warpgroups: two warpgroups multiply matrices in shared memory again and again.
// PRODUCT names four wgmma instructions on the descriptors a and b, whose sums are N registers of the type SUM.
extern "C" __global__ void __launch_bounds__(256, 1) warpgroup_throughput(unsigned *cycles, int rounds) {
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
        PRODUCT
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    __syncthreads();
    const unsigned end = clock();
    SUM total = SUM(0);
    for (int i = 0; i < N; ++i) total += sum[i];
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - start + (total == SUM(12345) ? 1 : 0);
}
