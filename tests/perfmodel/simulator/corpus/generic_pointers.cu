// Pointers that lead to shared, global or local memory, as each thread chooses.
extern "C" __global__ void generic_pointers(int *out, int *global, int choice)
{
    __shared__ int shared[64];
    int local[4];
    const int t = threadIdx.x;
    shared[t] = 1000 + t;
    for (int k = 0; k < 4; k++)
        local[k] = 2000 + 10 * t + k;
    __syncthreads();
    int *from = t % 3 == 0 ? &shared[t ^ 1] : t % 3 == 1 ? &global[t] : &local[(t + choice) % 4];
    *from += choice;
    atomicAdd(t % 2 ? &shared[0] : &global[0], 1);
    __syncthreads();
    out[t] = *from + local[t % 4] + shared[t];
}
