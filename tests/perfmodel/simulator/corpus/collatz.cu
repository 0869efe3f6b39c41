// Divergent loops: steps until 1.
extern "C" __global__ void collatz(int *steps, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int count = 0;
    for (unsigned value = i + 1; value != 1; count++)
        value = value % 2 ? 3 * value + 1 : value / 2;
    steps[i] = count;
}
