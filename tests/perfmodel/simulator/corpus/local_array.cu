// A stack array that is indexed at run time.
extern "C" __global__ void local_array(float *out, const float *in, const int *order)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float held[12];
    for (int k = 0; k < 12; k++)
        held[k] = in[i] + k;
    float sum = 0.0f;
    for (int k = 0; k < 12; k++) {
        const int from = order[(i + k) % 12];
        sum += held[from] * k;
        held[from] = sum;
    }
    out[i] = sum;
}
