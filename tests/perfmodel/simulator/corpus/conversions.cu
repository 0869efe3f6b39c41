// Conversions with every rounding, saturation and narrow type.
extern "C" __global__ void conversions(int *out, float *floats, const float *in, const double *doubles, const int *integers, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float x = in[i];
    out[i] = __float2int_rn(x);
    out[i + n] = __float2int_rd(x);
    out[i + 2 * n] = __float2int_ru(x);
    out[i + 3 * n] = __float2int_rz(x);
    out[i + 4 * n] = (int)__float2uint_rn(x);
    out[i + 5 * n] = (signed char)integers[i] + (unsigned char)integers[i] + (short)integers[i];
    unsigned saturated;
    asm("cvt.sat.u8.s32 %0, %1;" : "=r"(saturated) : "r"(integers[i]));
    out[i + 6 * n] = saturated;
    floats[i] = __int2float_rz(integers[i]);
    floats[i + n] = __int2float_ru(integers[i]);
    floats[i + 2 * n] = __double2float_rd(doubles[i]);
    floats[i + 3 * n] = (float)doubles[i] + __saturatef(x);
    floats[i + 4 * n] = rintf(x) + floorf(x) + ceilf(x) + truncf(x);
    floats[i + 5 * n] = (float)(long long)(doubles[i] * 1e6) + (float)(unsigned long long)fabs(doubles[i]);
}
