// Two threads of a warp write different values to one place.
extern "C" __global__ void one_place(int *out)
{
    __shared__ int place[4];
    place[threadIdx.x / 8] = threadIdx.x; // FAULT
    __syncthreads();
    out[threadIdx.x] = place[threadIdx.x / 8];
}
