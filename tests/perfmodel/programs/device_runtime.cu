// Kernels whose blocks wait for one another, print, allocate, exchange shared memory within a cluster, and assert.
#include <cassert>
#include <cooperative_groups.h>
#include <cstdio>

namespace cg = cooperative_groups;

__device__ unsigned arrived;

__global__ void neighbours(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 3; ++k) {
        float next = i + 1 < n ? x[i + 1] : 0.0f;
        cg::this_grid().sync();
        x[i] += next;
        cg::this_grid().sync();
    }
}

__global__ void own_barrier(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = i;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&arrived, 1u);
        while (*(volatile unsigned *)&arrived < gridDim.x) {}
    }
    __syncthreads();
    x[i] += x[(i + blockDim.x) % n];
}

__global__ void print(const float *x)
{
    printf("block %d thread %u: %6.2f %s %c %lld %x\n", blockIdx.x, threadIdx.x, 1.5 * threadIdx.x, "text", 'c', -5LL, -1);
    if (threadIdx.x == 1) printf("100%%\n");
}

__global__ void allocate(int **held, int *x)
{
    held[threadIdx.x] = static_cast<int *>(malloc(2 * sizeof(int)));
    held[threadIdx.x][1] = threadIdx.x;
    x[threadIdx.x] = held[threadIdx.x][1];
    free(held[threadIdx.x]);
}

__global__ void __cluster_dims__(2, 1, 1) exchange(int *x)
{
    __shared__ int own;
    if (threadIdx.x == 0) own = blockIdx.x;
    cg::this_cluster().sync();
    x[blockIdx.x] = *cg::this_cluster().map_shared_rank(&own, 1 - cg::this_cluster().block_rank());
    cg::this_cluster().sync();
}

__global__ void small(const int *x) { assert(x[threadIdx.x] < 100); }

int main()
{
    int n = 512, **held, *y;
    float *x;
    cudaMallocManaged(&x, 64 * 128 * sizeof(float));
    cudaMallocManaged(&y, 64 * sizeof(int));
    cudaMalloc(&held, 64 * sizeof(int *));
    for (int i = 0; i < n; ++i) x[i] = 1;
    void *arguments[] = {&x, &n};
    cudaLaunchCooperativeKernel((void *)neighbours, 4, 128, arguments, 0, 0);
    cudaDeviceSynchronize();
    printf("grid.sync: x[0] is %g, x[510] is %g\n", x[0], x[510]);
    printf("40000 blocks at once: %s\n",
           cudaGetErrorName(cudaLaunchCooperativeKernel((void *)neighbours, 40000, 128, arguments, 0, 0)));
    own_barrier<<<64, 128>>>(x, 64 * 128);
    cudaDeviceSynchronize();
    printf("own barrier: x[0] is %g\n", x[0]);
    print<<<2, 2>>>(x);
    printf("before the host waits\n");
    cudaDeviceSynchronize();
    allocate<<<1, 64>>>(held, y);
    cudaDeviceSynchronize();
    printf("heap: %d\n", y[63]);
    exchange<<<4, 32>>>(y);
    cudaDeviceSynchronize();
    printf("clusters: %d %d %d %d\n", y[0], y[1], y[2], y[3]);
    y[7] = 200;
    small<<<1, 32>>>(y);
    printf("assertion: %s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
