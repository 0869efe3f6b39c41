// Two halves of a block meet at barriers that stand at different places of the code; each fills what the other reads next.
extern "C" __global__ void alternating_barriers(int *out, const int *in, int rounds)
{
    __shared__ int slot[2][64];
    const int t = threadIdx.x % 64;
    int sum = 0;
    if (threadIdx.x < 64) {
        for (int k = 0; k < rounds; k++) {
            slot[0][t] = in[k * 64 + t];
            __syncthreads();
            sum += slot[1][63 - t];
            __syncthreads();
        }
    } else {
        for (int k = 0; k < rounds; k++) {
            slot[1][t] = in[k * 64 + t] * 3;
            __syncthreads();
            sum -= slot[0][63 - t];
            __syncthreads();
        }
    }
    if (threadIdx.x < 96)
        asm volatile("bar.sync 1, 96;" ::: "memory");
    out[threadIdx.x] = sum;
}
