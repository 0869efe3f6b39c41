// Lanes of one warp exchange through shared memory without __syncwarp.
extern "C" __global__ void within_warp(int *out)
{
    __shared__ volatile int row[32];
    row[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = row[31 - threadIdx.x]; // FAULT
}
