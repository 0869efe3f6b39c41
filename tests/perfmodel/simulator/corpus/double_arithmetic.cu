// Double precision: fused products, quotients, roots, and functions of the mathematics library.
extern "C" __global__ void double_arithmetic(double *out, const double *a, const double *b, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const double x = a[i], y = b[i];
    out[i] = fma(x, y, 1.0 / 3.0);
    out[i + n] = x / y + sqrt(fabs(x));
    out[i + 2 * n] = exp(x) + log(fabs(y) + 1.0) + sin(x) * cos(y);
    out[i + 3 * n] = fmin(x, y) + fmax(x, 0.5) + floor(y) + rint(x) + pow(fabs(x), 1.5);
}
