// copy_steps: every warp copies words to shared memory, waits for them, and copies the next ones.
//
// Layout:    input [words], sums [gridDim.x * blockDim.x]
// Thread:    steps times COPIES asynchronous copies of BYTES bytes, of which the warp waits for all.
// Constants: BYTES (4, 8 or 16), COPIES
// Measures:  latency of asynchronous copies and what L1's data pipe takes for them, by their width.

extern "C" __global__ void copy_steps(float *sums, const float *input, int words, int steps)
{
    extern __shared__ __align__(16) char copied[];
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int each = BYTES / 4;
    const unsigned own = static_cast<unsigned>(__cvta_generic_to_shared(copied)) + threadIdx.x * BYTES;
    int place = thread * each % words;
    float sum = 0.0f;
    for (int step = 0; step < steps; step++) {
#pragma unroll
        for (int copy = 0; copy < COPIES; copy++) {
            const float *from = input + place;
#if BYTES == 16
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(own + copy * blockDim.x * BYTES), "l"(from) : "memory");
#else
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(own + copy * blockDim.x * BYTES), "l"(from), "n"(BYTES)
                         : "memory");
#endif
            place += gridDim.x * blockDim.x * each;
            place = place < words ? place : place - words;
        }
        asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
        sum += *reinterpret_cast<float *>(copied + threadIdx.x * BYTES);
    }
    sums[thread] = sum;
}
