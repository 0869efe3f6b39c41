// copy_patterns: one warp copies asynchronously from global to shared memory, from and to places that a table names lane by lane.
//
// Layout:    sums [32 * WIDTH], what the last copy of each lane brought; source, floats; from_of_lane and to_of_lane [32], the
//            float at which each lane reads and writes, from_of_lane negative where it takes no part
// Thread:    in each step COPIES copies of WIDTH floats, each FROM_APART and TO_APART floats further than the one before;
//            from step to step the source moves on by `advance`, so that nothing is read twice, or by 0.
// Constants: WIDTH 1, 2 or 4, COPIES, FROM_APART, TO_APART (multiples of 32), ZERO_FILL (1: the number of bytes is an operand),
//            CACHED (1: copies of 16 bytes go through L1 too), LOAD (1: loads to registers instead, of which only the last is
//            kept)
// Measures:  wavefronts and sectors of an asynchronous copy (hardware counters), with nothing else beside it.

// Volatile, so that loads whose result nobody needs are made as well.
__device__ __forceinline__ float loaded(const float *from)
{
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(from));
    return value;
}

__device__ __forceinline__ void copy(float *to, const float *from, int bytes)
{
#if __CUDA_ARCH__ < 800
    for (int i = 0; i < WIDTH; i++)
        to[i] = 4 * i < bytes ? from[i] : 0.0f;
#else
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(to));
#if ZERO_FILL && WIDTH == 4 && !CACHED
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from), "r"(bytes) : "memory");
#elif ZERO_FILL
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target), "l"(from), "n"(4 * WIDTH), "r"(bytes) : "memory");
#elif WIDTH == 4 && !CACHED
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(from) : "memory");
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(target), "l"(from), "n"(4 * WIDTH) : "memory");
#endif
#endif
}

// Wait until everything that was started has arrived.
__device__ __forceinline__ void wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
}

extern "C" __global__ void copy_patterns(float *sums, const float *__restrict__ source, const int *from_of_lane,
                                         const int *to_of_lane, int steps, int advance, int bytes)
{
    __shared__ __align__(16) float words[COPIES * TO_APART];
    const int from = from_of_lane[threadIdx.x];
    const int to = to_of_lane[threadIdx.x];
    const float *next = source + (from < 0 ? 0 : from);
#if LOAD
    float value = 0.0f;
#endif
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        if (from >= 0) {
#pragma unroll
            for (int i = 0; i < COPIES; i++)
#if LOAD
                value = loaded(next + i * FROM_APART);
#else
                copy(words + to + i * TO_APART, next + i * FROM_APART, bytes);
#endif
        }
        wait();
        next += advance;
    }
#if LOAD
    sums[threadIdx.x] = value;
    return;
#endif
    __syncwarp();
    for (int i = 0; i < WIDTH; i++)
        sums[threadIdx.x * WIDTH + i] = from < 0 ? 0.0f : words[to + (COPIES - 1) * TO_APART + i];
}
