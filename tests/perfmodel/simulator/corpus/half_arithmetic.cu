// Half precision, packed and not: sums, products, comparisons, conversions.
#include <cuda_fp16.h>

extern "C" __global__ void half_arithmetic(__half2 *out, const __half2 *a, const __half2 *b, __half *single)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const __half2 x = a[i], y = b[i];
    __half2 r = __hfma2(x, y, __hadd2(x, y));
    r = __hsub2(r, __hmul2(x, __float2half2_rn(0.5f)));
    r = __hmax2(r, __hneg2(y));
    out[i] = r;
    const __half low = __low2half(x), high = __high2half(y);
    single[i] = __hgt(low, high) ? __hadd(low, high) : __hdiv(low, __hadd(__habs(high), __float2half(1.0f)));
}
