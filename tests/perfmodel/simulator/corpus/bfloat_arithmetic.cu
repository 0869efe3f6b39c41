// bfloat16: products and sums in packed form, conversion to and from float.
#include <cuda_bf16.h>

extern "C" __global__ void bfloat_arithmetic(__nv_bfloat162 *out, const float2 *a, const float2 *b)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const __nv_bfloat162 x = __float22bfloat162_rn(a[i]), y = __float22bfloat162_rn(b[i]);
    out[i] = __hfma2(x, y, x);
}
