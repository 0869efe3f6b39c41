// The second round overwrites what other warps may still read.
extern "C" __global__ void write_after_read(int *out)
{
    __shared__ int row[64];
    int sum = 0;
    for (int k = 0; k < 2; k++) {
        row[threadIdx.x] = threadIdx.x + k; // FAULT
        __syncthreads();
        sum += row[63 - threadIdx.x];
    }
    out[threadIdx.x] = sum;
}
