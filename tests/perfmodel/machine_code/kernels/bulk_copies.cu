// Every kind of bulk copy once: boxes of tensors in and out, sums into tensors, plain bytes in and out.
struct alignas(64) CUtensorMap { unsigned char bytes[128]; };

__device__ inline unsigned shared_address(const void *pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ inline void wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

// in: boxes as they lie in shared memory; out: what is stored again from there
extern "C" __global__ void tensors(const __grid_constant__ CUtensorMap plane, const __grid_constant__ CUtensorMap volume,
                                   const __grid_constant__ CUtensorMap copy, const __grid_constant__ CUtensorMap total,
                                   unsigned *boxes, int column, int row) {
    __shared__ alignas(1024) unsigned box[3072];
    __shared__ alignas(8) unsigned long long barrier;
    const unsigned at = shared_address(box), full = shared_address(&barrier);
    for (int i = threadIdx.x; i < 3072; i += blockDim.x) box[i] = 0x5A5A5A5A;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(PLANE_BYTES + VOLUME_BYTES) : "memory");
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(at),
            "l"(&plane), "r"(column), "r"(row), "r"(full)
            : "memory");
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
                at + 8192),
            "l"(&volume), "r"(4), "r"(2), "r"(-1), "r"(full)
            : "memory");
    }
    wait(full, 0);
    for (int i = threadIdx.x; i < 3072; i += blockDim.x) boxes[i] = box[i];
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&copy), "r"(column),
                     "r"(row), "r"(at)
                     : "memory");
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&total),
                     "r"(column), "r"(row), "r"(at)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// 256 bytes of each block there and back, and added to a sum that all blocks share
extern "C" __global__ void plain(const float *in, float *out, float *sum) {
    __shared__ alignas(128) float piece[64];
    __shared__ alignas(8) unsigned long long barrier;
    const unsigned at = shared_address(piece), full = shared_address(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full));
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(full) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(at),
                     "l"(in + blockIdx.x * 64), "r"(full)
                     : "memory");
    }
    __syncthreads();
    wait(full, 0);
    piece[threadIdx.x] *= 2.0f;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" ::"l"(out + blockIdx.x * 64), "r"(at) : "memory");
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 256;" ::"l"(sum), "r"(at) : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}
