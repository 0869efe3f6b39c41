// cuda::barrier with asynchronous copies.
#include <cuda/barrier>

extern "C" __global__ void copies(const float4 *in, float4 *out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ float4 staged[128];
    const int thread = threadIdx.x, first = blockIdx.x * 128;
    if (thread == 0) init(&barrier, blockDim.x);
    __syncthreads();
    for (int round = 0; round < 3; ++round) {
        cuda::memcpy_async(&staged[thread], in + (round * gridDim.x * 128 + first + thread), cuda::aligned_size_t<16>(16), barrier);
        barrier.arrive_and_wait();
        out[round * gridDim.x * 128 + first + thread] = staged[thread ^ 1];
        auto token = barrier.arrive();
        barrier.wait(std::move(token));
    }
}
