// Blocks of a cluster of 2 x 2 read, write and count in each other's shared memory, and signal each other's mbarriers.
#include <cooperative_groups.h>
struct alignas(64) CUtensorMap { unsigned char bytes[128]; };
namespace cg = cooperative_groups;

__device__ inline unsigned shared_address(const void *pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ inline void wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done bra "
        "again;\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

extern "C" __global__ void __cluster_dims__(2, 2, 1) exchange(float *out, const float *in, unsigned *identities, int distance) {
    __shared__ float own[256];
    __shared__ alignas(8) unsigned long long barrier;
    const cg::cluster_group cluster = cg::this_cluster();
    const int thread = threadIdx.x, block = blockIdx.x + blockIdx.y * gridDim.x;
    own[thread] = in[block * 256 + thread];
    if (thread == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 256;" ::"r"(shared_address(&barrier)));
    cluster.sync();
    const unsigned other = (cluster.block_rank() + distance) % cluster.num_blocks();
    float *remote = cluster.map_shared_rank(own, other);
    const float value = remote[thread ^ 1];
    cluster.sync();
    remote[thread] = value + 1.0f;
    cluster.sync();
    atomicAdd(remote + (thread & 7), 1.0f);
    atomicAdd(reinterpret_cast<int *>(remote + 8 + (thread & 7)), 1);
    cluster.sync();
    unsigned there, rank;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(&barrier)), "r"(other));
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
    wait(shared_address(&barrier), 0);
    out[block * 256 + thread] = own[thread];
    asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank) : "r"(there));
    unsigned found[8] = {0, 0, 0, 0, 0, 0, 0, rank};
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(found[0]));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(found[1]));
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(found[2]));
    asm("mov.u32 %0, %%clusterid.y;" : "=r"(found[3]));
    asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(found[4]));
    asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(found[5]));
    asm("mov.u32 %0, %%nclusterid.x;" : "=r"(found[6]));
    for (int i = 0; i < 8; ++i)
        if (thread == i) identities[block * 8 + i] = found[i];
    cluster.sync();
}

// the first block of each cluster gets a box for all; each passes a word on by st.async and 64 bytes by a bulk copy
extern "C" __global__ void __cluster_dims__(2, 1, 1)
share(const __grid_constant__ CUtensorMap map, unsigned *out) {
    __shared__ alignas(128) unsigned box[128], passed[16], word[4];
    __shared__ alignas(8) unsigned long long barrier[2];
    const unsigned full = shared_address(&barrier[0]), done = shared_address(&barrier[1]);
    unsigned rank, there, there_done, there_word, there_passed;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there_done) : "r"(done), "r"(rank ^ 1));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there_word) : "r"(shared_address(word)), "r"(rank ^ 1));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there_passed) : "r"(shared_address(passed)), "r"(rank ^ 1));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nmbarrier.init.shared::cta.b64 [%1], 1;" ::"r"(full), "r"(done));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(full) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 68;" ::"r"(done) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
    }
    cg::this_cluster().sync();
    if (threadIdx.x == 0 && rank == 0)
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], "
            "[%4], %5;" ::"r"(shared_address(box)),
            "l"(&map), "r"(0), "r"(blockIdx.x * 4), "r"(full), "h"((short)3)
            : "memory");
    wait(full, 0);
    if (threadIdx.x == 0) {
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(there_word),
                     "r"(box[5] + rank), "r"(there_done)
                     : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 64, [%2];" ::"r"(there_passed),
            "r"(shared_address(box) + 128 * rank), "r"(there_done)
            : "memory");
    }
    wait(done, 0);
    out[blockIdx.x * 160 + threadIdx.x] = box[threadIdx.x];
    if (threadIdx.x < 16) out[blockIdx.x * 160 + 128 + threadIdx.x] = passed[threadIdx.x];
    if (threadIdx.x == 16) out[blockIdx.x * 160 + 144] = word[0];
    cg::this_cluster().sync();
}
