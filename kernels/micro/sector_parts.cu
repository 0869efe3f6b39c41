// sector_parts: the whole grid reads or writes sectors, a part of each with one request and the next part with the next.
//
// Layout:    words [groups * ROWS * pitch], rows of pitch floats; sums [gridDim.x * blockDim.x]
// Thread:    a warp takes ROWS rows at once, WORDS neighbouring words of each, until it has gone over a sector of each row (a line
//            where WORDS is 32); then the sectors that its number plus the warps of the grid names.
// Constants: WORDS (1, 2, 4, 8 or 32), STORE (1: the number of the pass is written; 0: words are read and summed)
// Measures:  what L2 takes and gives where requests are scattered over rows: sectors a second.

#define ROWS (32 / WORDS)
#define RUN (WORDS < 8 ? 8 : WORDS)

extern "C" __global__ void sector_parts(float *sums, float *words, int groups, int runs, int passes)
{
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    const int warps = gridDim.x * blockDim.x / 32;
    const int pitch = runs * RUN;
    const int lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int pass = 1; pass <= passes; pass++) {
        for (int i = first / 32; i < groups * runs; i += warps) {
            float *at = words + (i / runs * ROWS + lane / WORDS) * pitch + i % runs * RUN + lane % WORDS;
#pragma unroll
            for (int part = 0; part < RUN; part += WORDS) {
#if STORE
                at[part] = static_cast<float>(pass);
#else
                sum += at[part];
#endif
            }
        }
    }
    sums[first] = sum;
}
