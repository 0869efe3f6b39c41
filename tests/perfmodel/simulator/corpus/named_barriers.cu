// Producer warps fill what consumer warps read, with one named barrier for full and one for empty.
extern "C" __global__ void named_barriers(int *out, const int *in, int rounds)
{
    __shared__ int slot[64];
    const int t = threadIdx.x % 64;
    if (threadIdx.x < 64) {
        for (int k = 0; k < rounds; k++) {
            slot[t] = in[k * 64 + t] * 2;
            asm volatile("bar.arrive 1, 128;" ::: "memory");
            asm volatile("bar.sync 2, 128;" ::: "memory");
        }
    } else {
        int sum = 0;
        for (int k = 0; k < rounds; k++) {
            asm volatile("bar.sync 1, 128;" ::: "memory");
            sum += slot[63 - t];
            asm volatile("bar.arrive 2, 128;" ::: "memory");
        }
        out[t] = sum;
    }
}
