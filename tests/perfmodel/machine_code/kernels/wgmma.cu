// One product of a warpgroup on matrices that lie in shared memory as the descriptors say; compile for sm_90a.
// INSTRUCTION, COLUMNS, SUMS (registers), SUM_TYPE, A_REGISTERS and TAIL (scale-d and what follows) come from the test.
extern "C" __global__ void __launch_bounds__(128)
k(SUM_TYPE *sums, const uint4 *shared, const unsigned *fragments, unsigned long long a, unsigned long long b, int adds) {
    __shared__ alignas(1024) uint4 matrices[2048];
    for (int i = threadIdx.x; i < 2048; i += 128) matrices[i] = shared[i];
    const unsigned long long base = (static_cast<unsigned>(__cvta_generic_to_shared(matrices)) & 0x3FFFF) >> 4;
    SUM_TYPE s[SUMS];
    for (int i = 0; i < SUMS; ++i) s[i] = sums[threadIdx.x * SUMS + i];
    unsigned r[4];
    for (int i = 0; i < 4; ++i) r[i] = fragments[threadIdx.x * 4 + i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    PRODUCT
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < SUMS; ++i) sums[threadIdx.x * SUMS + i] = s[i];
}
