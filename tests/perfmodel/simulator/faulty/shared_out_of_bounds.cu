// Writes past the end of dynamic shared memory.
extern "C" __global__ void shared_out_of_bounds(int *out)
{
    extern __shared__ int row[];
    row[threadIdx.x * 2] = 1; // FAULT
    __syncthreads();
    out[threadIdx.x] = row[0];
}
