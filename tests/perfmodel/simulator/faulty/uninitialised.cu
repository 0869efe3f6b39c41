// The last element is never written.
extern "C" __global__ void uninitialised(int *out)
{
    __shared__ int row[65];
    row[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = row[threadIdx.x + 1]; // FAULT
}
