// uneven_blocks: blocks that have different amounts of work.
//
// Layout:    out [gridDim.x * blockDim.x]
// Block:     steps, and more steps in every period-th block, and rise more steps than the block before.
// Thread:    a chain of multiply-adds.
// Measures:  how the longest block and the last wave decide the time of a launch.

extern "C" __global__ void uneven_blocks(float *out, int steps, int more, int period, int rise)
{
    const int block = blockIdx.x;
    const int count = steps + (block % period == period - 1 ? more : 0) + block * rise;
    float value = static_cast<float>(threadIdx.x);
    for (int step = 0; step < count; step++)
        value = value * 0.5f + 1.0f;
    out[block * blockDim.x + threadIdx.x] = value;
}
