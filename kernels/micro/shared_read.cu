// shared_read: every warp reads shared memory with a chosen conflict degree and width.
//
// Layout:    sums [gridDim.x * blockDim.x]; cycles [gridDim.x]; zero is 0, which the compiler cannot know
// Thread:    READS words of WIDTH floats in each step, at lane * STRIDE * WIDTH floats and 32 * WIDTH floats further each time.
// Constants: STRIDE (lanes lie that many words apart: conflict degree STRIDE for powers of two and WIDTH 1), WIDTH 1, 2 or 4
// Measures:  cycles of a shared load per instruction and per wavefront, as the slope over STRIDE 1, 2, 4, … 32.

#define READS 16
#define WORDS (31 * STRIDE + 32 * (READS - 1) + 1)

#if WIDTH == 1
typedef float Word;
__device__ float total(Word word) { return word; }
__device__ Word filled(float value) { return value; }
#elif WIDTH == 2
typedef float2 Word;
__device__ float total(Word word) { return word.x + word.y; }
__device__ Word filled(float value) { return make_float2(value, value); }
#else
typedef float4 Word;
__device__ float total(Word word) { return (word.x + word.y) + (word.z + word.w); }
__device__ Word filled(float value) { return make_float4(value, value, value, value); }
#endif

extern "C" __global__ void shared_read(float *sums, long long *cycles, int steps, int zero)
{
    __shared__ Word words[WORDS];
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x)
        words[i] = filled(1.0f);
    int first = (threadIdx.x & 31) * STRIDE;
    float sum = 0.0f;
    __syncthreads();
    const long long start = clock64();
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
#pragma unroll
        for (int read = 0; read < READS; read++)
            sum += total(words[first + 32 * read]);
        first += zero;
    }
    __syncthreads();
    const long long stop = clock64();
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    if (threadIdx.x == 0)
        cycles[blockIdx.x] = stop - start;
}
