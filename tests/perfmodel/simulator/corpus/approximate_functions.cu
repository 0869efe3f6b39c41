// The hardware's approximate functions, one column each.
extern "C" __global__ void approximate_functions(float *out, const float *in, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float x = in[i];
    out[i] = __sinf(x);
    out[i + n] = __cosf(x);
    out[i + 2 * n] = __expf(x);
    out[i + 3 * n] = __logf(x);
    out[i + 4 * n] = rsqrtf(x);
    out[i + 5 * n] = __fdividef(1.0f, x);
    out[i + 6 * n] = __log2f(x);
    out[i + 7 * n] = sqrtf(x);
    out[i + 8 * n] = expf(x) + logf(x) + sinf(x) + tanhf(x) + powf(x, 0.3f) + erff(x) + cbrtf(x);
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    out[i + 9 * n] = r;
}
