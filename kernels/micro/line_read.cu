// line_read: the lanes of a warp read words that lie a stride apart, again and again, so that L1 has them.
//
// Layout:    input [32 * stride], all 0; out [gridDim.x * blockDim.x]
// Thread:    steps of CHAINS chains of dependent loads of one word.
// Constants: CHAINS.
// Measures:  passes of L1's data pipe by the lines and banks that a request touches; latency of such a request.

extern "C" __global__ void line_read(int *out, const int *input, int stride, int steps)
{
    const int *place = input + (threadIdx.x & 31) * stride;
    int words[CHAINS];
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        words[chain] = 0;
    for (int step = 0; step < steps; step++) {
#pragma unroll
        for (int chain = 0; chain < CHAINS; chain++)
            words[chain] = place[words[chain]];
    }
    int sum = 0;
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        sum += words[chain];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
