// shared_patterns: one warp accesses shared memory 2 or 4 floats a lane, at places that a table names lane by lane.
//
// Layout:    sums [32]; word_of_lane [32], the word of WIDTH floats at which each lane begins, negative where it takes no part;
//            zero is 0, which the compiler cannot know
// Thread:    in each step ACCESSES accesses at its word and APART words further each time, which lie in the same banks;
//            what STORE stored is read back once, after the last step.
// Constants: WIDTH 2 or 4, STORE (0 loads, 1 stores), ACCESSES, APART (more than any word; a multiple of 128 bytes)
// Measures:  wavefronts of a shared access (hardware counters), with nothing else that could use the data pipe beside it.

#define WORDS (ACCESSES * APART)

#if WIDTH == 2
typedef float2 Word;
__device__ float total(Word word) { return word.x + word.y; }
__device__ Word filled(float value) { return make_float2(value, value); }
#else
typedef float4 Word;
__device__ float total(Word word) { return (word.x + word.y) + (word.z + word.w); }
__device__ Word filled(float value) { return make_float4(value, value, value, value); }
#endif

extern "C" __global__ void shared_patterns(float *sums, const int *word_of_lane, int steps, int zero)
{
    __shared__ Word words[WORDS];
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x)
        words[i] = filled(1.0f);
    int word = word_of_lane[threadIdx.x];
    float sum = 0.0f;
    __syncthreads();
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        if (word >= 0) {
#pragma unroll
            for (int access = 0; access < ACCESSES; access++) {
                if (STORE)
                    words[word + APART * access] = filled(step + access);
                else
                    sum += total(words[word + APART * access]);
            }
        }
        word += zero;
        __syncwarp();
    }
#if STORE
    __syncthreads();
    if (word >= 0)
        sum = total(words[word + APART * (ACCESSES - 1)]);
#endif
    sums[threadIdx.x] = sum;
}
