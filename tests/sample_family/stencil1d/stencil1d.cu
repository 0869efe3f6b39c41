// stencil1d: moving average of 2 * RADIUS + 1 neighbours.
//
// Layout:    input [LENGTH + 2 * RADIUS], output [LENGTH]
// Block:     BLOCK_X threads, BLOCK_X * PER_THREAD consecutive outputs
// Thread:    PER_THREAD outputs, BLOCK_X apart, so that a warp reads consecutive words

#define TAPS (2 * RADIUS + 1)

extern "C" __global__ void __launch_bounds__(BLOCK_X) stencil1d(float *__restrict__ output, const float *__restrict__ input)
{
    #pragma unroll
    for (int part = 0; part < PER_THREAD; part++) {
        const int i = (blockIdx.x * PER_THREAD + part) * BLOCK_X + threadIdx.x;
        if (i < LENGTH) {
            float sum = 0.0f;
            #pragma unroll
            for (int tap = 0; tap < TAPS; tap++)
                sum = fmaf(input[i + tap], 1.0f / TAPS, sum);
            output[i] = sum;
        }
    }
}
