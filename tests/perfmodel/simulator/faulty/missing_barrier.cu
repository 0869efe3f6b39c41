// Reads a neighbour's element before a barrier.
extern "C" __global__ void missing_barrier(int *out)
{
    __shared__ int row[64];
    row[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = row[(threadIdx.x + 40) % 64]; // FAULT
}
