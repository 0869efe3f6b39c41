// l1_read: each block reads its own 16 bytes per thread again and again through L1.
//
// Layout:    input [blockDim.x] of float4, the same for all blocks; sums [gridDim.x * blockDim.x]; cycles [gridDim.x]
// Thread:    in pass p the word (thread + 32 p) mod blockDim.x, so that no load can be kept in a register.
// Measures:  bytes per cycle of one SM from L1.

extern "C" __global__ void l1_read(float *sums, long long *cycles, const float4 *input, int passes)
{
    const int mask = blockDim.x - 1;
    float sum = input[threadIdx.x].x;
    __syncthreads();
    const long long start = clock64();
#pragma unroll 8
    for (int pass = 0; pass < passes; pass++) {
        const float4 word = input[(threadIdx.x + 32 * pass) & mask];
        sum += (word.x + word.y) + (word.z + word.w);
    }
    __syncthreads();
    const long long stop = clock64();
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    if (threadIdx.x == 0)
        cycles[blockIdx.x] = stop - start;
}
