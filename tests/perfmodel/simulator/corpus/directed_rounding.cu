// Sums, products, quotients and roots rounded down, up and towards zero.
extern "C" __global__ void directed_rounding(float *out, double *wide, const float *a, const float *b, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float x = a[i], y = b[i];
    out[i] = __fadd_rz(x, y);
    out[i + n] = __fadd_rd(x, y);
    out[i + 2 * n] = __fmul_ru(x, y);
    out[i + 3 * n] = __fmaf_rz(x, y, 0.1f);
    out[i + 4 * n] = __fdiv_rd(x, y);
    out[i + 5 * n] = __fsqrt_ru(fabsf(x));
    out[i + 6 * n] = __frcp_rz(y);
    wide[i] = __dadd_ru((double)x, 1e-20);
    wide[i + n] = __dmul_rd((double)x, 0.1);
}
