// divergent_walk: lanes of a warp walk through memory for different numbers of steps, with work after each step that only
// some of them do.
//
// Layout:    sums [gridDim.x * blockDim.x]; input [elements]; lengths [gridDim.x * blockDim.x], steps of each thread
// Thread:    element thread, thread + 32, … (mod elements), as many as its length; every odd value is read a second time.
// Measures:  where lanes that left a loop or a branch come together again: PTX does not say, the counters do.

extern "C" __global__ void divergent_walk(float *sums, const int *input, const int *lengths, int elements)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int position = thread % elements;
    float sum = 0.0f;
    for (int step = 0; step < lengths[thread]; step++) {
        const int value = input[position];
        if (value & 1)
            sum += input[(position + value) % elements];
        sum += value;
        position = (position + 32) % elements;
    }
    sums[thread] = sum;
}
