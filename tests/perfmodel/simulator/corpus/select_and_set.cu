// Selections, comparisons with NaN, signs, extrema.
extern "C" __global__ void select_and_set(float *out, int *flags, const float *a, const float *b, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float x = a[i], y = b[i];
    out[i] = x > y ? x : y * 2.0f;
    out[i + n] = fminf(x, y) + fmaxf(y, 0.0f);
    out[i + 2 * n] = copysignf(x, y);
    int set, chosen;
    asm("set.ltu.s32.f32 %0, %1, %2;" : "=r"(set) : "f"(x), "f"(y));
    asm("slct.s32.f32 %0, %1, %2, %3;" : "=r"(chosen) : "r"(i), "r"(-i), "f"(x));
    flags[i] = set + 2 * chosen;
    flags[i + n] = (x < y) + 2 * (x <= y) + 4 * (x == y) + 8 * (x != y) + 16 * !(x < y) + 32 * isnan(x) + 64 * isinf(y);
    flags[i + 2 * n] = (x > 0.0f && y > 0.0f) ^ (x < y || x == 1.0f);
}
