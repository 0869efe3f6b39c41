// cluster: blocks of a cluster wait for one another, or read each other's shared memory.
//
// Layout:    words [gridDim.x * blockDim.x]
// Thread:    WORK 0: nothing; 1: steps barriers of the cluster that order memory; 2: such that order none; 3: steps reads of one
//            word, each of which says where the next one lies; 4: steps reads of 16 bytes that do not depend on each other.
// Block:     reads the memory of the block that is hop ranks further on, its own with hop 0.
// Constants: CLUSTER blocks of a cluster along x, WORK.
// Measures:  what a launch of clusters costs, cycles of a barrier, latency and throughput of distributed shared memory.

#define SHARED_WORDS 4096

#if __CUDA_ARCH__ < 900
#error "clusters begin with compute capability 9.0"
#endif

__device__ __forceinline__ void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) cluster(int *words, int hop, int steps)
{
    int sum = 0;
#if WORK > 0
    __shared__ alignas(16) int shared[SHARED_WORDS];
    for (int i = threadIdx.x; i < SHARED_WORDS; i += blockDim.x)
        shared[i] = i;
    const unsigned own = (unsigned)__cvta_generic_to_shared(shared);
    unsigned other;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(own), "r"((blockIdx.x + hop) % CLUSTER));
    cluster_barrier();
#if WORK == 1
#pragma unroll 4
    for (int step = 0; step < steps; step++)
        cluster_barrier();
#elif WORK == 2
#pragma unroll 4
    for (int step = 0; step < steps; step++)
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
#elif WORK == 3
    int place = threadIdx.x;
    for (int step = 0; step < steps; step++)
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(place) : "r"(other + 4 * place));
    sum = place;
#else
#pragma unroll 8
    for (int step = 0; step < steps; step++) {
        int part[4];
        const unsigned place = (step * blockDim.x + threadIdx.x) % (SHARED_WORDS / 4);
        asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(part[0]), "=r"(part[1]), "=r"(part[2]), "=r"(part[3])
                     : "r"(other + 16 * place));
        sum += part[0] + part[1] + part[2] + part[3];
    }
#endif
    cluster_barrier(); // a block that ends takes its shared memory with it
#endif
    words[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
