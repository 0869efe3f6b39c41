// Half of a warp meets at one barrier, the other half at another.
extern "C" __global__ void divergent_barrier(int *out)
{
    __shared__ int value;
    if (threadIdx.x % 2) {
        if (threadIdx.x == 1)
            value = 7;
        __syncthreads(); // FAULT
        out[threadIdx.x] = value;
    } else {
        __syncthreads();
        out[threadIdx.x] = -value;
    }
}
