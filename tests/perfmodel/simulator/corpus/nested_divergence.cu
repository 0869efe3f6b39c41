// Loops in branches in loops, with break and continue.
extern "C" __global__ void nested_divergence(int *out, const int *in)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0;
    for (int j = 0; j < in[i]; j++) {
        if ((j + i) % 3 == 0)
            continue;
        for (int k = 0; k < j; k++) {
            if (k * i > 40)
                break;
            sum += k ^ i;
        }
        if (sum > 500)
            break;
    }
    out[i] = sum;
}
