// Inclusive scan of each block: two buffers in shared memory.
extern "C" __global__ void scan(int *out, const int *in)
{
    __shared__ int buffer[2][128];
    int from = 0;
    buffer[0][threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    for (int distance = 1; distance < 128; distance *= 2) {
        int value = buffer[from][threadIdx.x];
        if (threadIdx.x >= distance)
            value += buffer[from][threadIdx.x - distance];
        buffer[1 - from][threadIdx.x] = value;
        from = 1 - from;
        __syncthreads();
    }
    out[blockIdx.x * 128 + threadIdx.x] = buffer[from][threadIdx.x];
}
