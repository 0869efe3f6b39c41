// shared_contention: some warps access shared memory without bank conflicts while others access something else beside them.
//
// Layout:    sums [blockDim.x]; written [BESIDE_WARPS][32][32]; source, floats; dynamic shared memory, of which each warp has
//            128 words from FIRST on
// Warp:      the first ACCESSING warps make 16 accesses of 4 bytes a lane in each of `steps` steps; the others 4 accesses of
//            the kind BESIDE in each of `beside_steps`.
// Constants: FIRST (a multiple of 32), ACCESSING, BESIDE_WARPS, STORE (0: the first warps load, 1: they store), BESIDE
//            (0 nothing, 1 loads of 64 lines again and again, 2 loads of lines that nobody read, 3 stores of whole lines,
//            4 stores of one word in each of 32 lines, 5 copies of 4 bytes, 6 copies of 16 bytes past L1, 7 shared stores)
// Measures:  wavefronts of shared accesses beyond those that they need by themselves (hardware counters), by what runs beside
//            them and by where in shared memory they lie.

#define LANES 32
#define OWN_WORDS 128
#define ACCESSES 16
#define BESIDE_ACCESSES 4
#define AREA (LANES * LANES)
#define HELD_LINES 64

// Volatile, so that what was loaded before is loaded again. A load whose result nobody needs is not made even so.
__device__ __forceinline__ float loaded(const float *from)
{
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(from));
    return value;
}

__device__ __forceinline__ void copy(volatile float *to, const float *from)
{
#if __CUDA_ARCH__ < 800
    for (int i = 0; i < (BESIDE == 6 ? 4 : 1); i++)
        to[i] = from[i];
#else
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(const_cast<float *>(to)));
#if BESIDE == 6
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(from) : "memory");
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(target), "l"(from) : "memory");
#endif
#endif
}

// Wait until everything that was copied has arrived.
__device__ __forceinline__ void wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
}

// The shared accesses that are counted; what was loaded or, at the end, stands there.
__device__ __forceinline__ float accessed(volatile float *own, int steps)
{
    float sum = 0.0f;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
#pragma unroll
        for (int i = 0; i < ACCESSES; i++) {
            if (STORE)
                own[LANES * (i % 4)] = step + i;
            else
                sum += own[LANES * (i % 4)];
        }
    }
    if (STORE)
        return own[0];
    return sum;
}

// What runs beside them; the largest that was loaded, or the last that was copied or stored, by lane.
__device__ __forceinline__ float beside(volatile float *own, volatile float *written, const float *source, int warp, int lane,
                                        int steps)
{
    float last[BESIDE_ACCESSES] = {};
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
#pragma unroll
        for (int i = 0; i < BESIDE_ACCESSES; i++) {
            const int number = step * BESIDE_ACCESSES + i;
            const int fresh = number * BESIDE_WARPS + warp;
            float &largest = last[BESIDE_ACCESSES - 1];
            if (BESIDE == 1)
                largest = fmaxf(largest, loaded(source + fresh % HELD_LINES * LANES + lane));
            else if (BESIDE == 2)
                largest = fmaxf(largest, loaded(source + fresh * LANES + lane));
            else if (BESIDE == 3)
                written[number % LANES * LANES + lane] = last[i] = number;
            else if (BESIDE == 4)
                written[lane * LANES + number % LANES] = last[i] = number;
            else if (BESIDE == 5)
                copy(own + LANES * i, source + fresh * LANES + lane);
            else if (BESIDE == 6)
                copy(own + 3 * lane, source + (fresh * LANES + lane) * 4);
            else if (BESIDE == 7)
                own[LANES * i] = last[i] = number;
        }
        if (BESIDE == 5 || BESIDE == 6)
            wait();
    }
    if (BESIDE == 5)
        return own[LANES * (BESIDE_ACCESSES - 1)];
    if (BESIDE == 6)
        return own[3 * lane];
    return last[BESIDE_ACCESSES - 1];
}

extern "C" __global__ void shared_contention(float *sums, float *written, const float *source, int steps, int beside_steps)
{
    extern __shared__ __align__(16) float memory[];
    const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    float *const own = memory + FIRST + warp * OWN_WORDS + lane;
    for (int i = 0; i < OWN_WORDS; i += LANES)
        own[i] = 1.0f;
    __syncthreads();
    if (warp < ACCESSING)
        sums[threadIdx.x] = accessed(own, steps);
    else
        sums[threadIdx.x] = beside(own, written + (warp - ACCESSING) * AREA, source, warp - ACCESSING, lane, beside_steps);
}
