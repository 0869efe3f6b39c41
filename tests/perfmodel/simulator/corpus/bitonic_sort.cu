// Sorts 256 integers of each block in shared memory.
extern "C" __global__ void bitonic_sort(int *data)
{
    __shared__ int keys[256];
    const int t = threadIdx.x;
    keys[t] = data[blockIdx.x * 256 + t];
    __syncthreads();
    for (int size = 2; size <= 256; size *= 2)
        for (int distance = size / 2; distance > 0; distance /= 2) {
            const int partner = t ^ distance;
            if (partner > t) {
                const bool up = (t & size) == 0;
                if ((keys[t] > keys[partner]) == up) {
                    const int swap = keys[t];
                    keys[t] = keys[partner];
                    keys[partner] = swap;
                }
            }
            __syncthreads();
        }
    data[blockIdx.x * 256 + t] = keys[t];
}
