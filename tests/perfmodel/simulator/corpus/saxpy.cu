// y += a * x over n elements; the last block is partly idle.
extern "C" __global__ void saxpy(float *y, const float *x, float a, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
