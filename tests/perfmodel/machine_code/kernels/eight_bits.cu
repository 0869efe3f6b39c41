// Conversions of 8-bit floats and to tf32, from sm_89 on.
extern "C" __global__ void k(const float2 *in, const unsigned *packed, unsigned *out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    unsigned short r;
    unsigned h;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(in[i].y), "f"(in[i].x));
    out[i] = r;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(in[i].y), "f"(in[i].x));
    out[n + i] = r;
    asm("cvt.rn.satfinite.relu.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(in[i].y), "f"(in[i].x));
    out[2 * n + i] = r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(h) : "h"((unsigned short)packed[i]));
    out[3 * n + i] = h;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(h) : "h"((unsigned short)(packed[i] >> 16)));
    out[4 * n + i] = h;
    asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(r) : "r"(packed[i]));
    out[5 * n + i] = r;
#if __CUDA_ARCH__ >= 900
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(h) : "f"(in[i].x));
    out[6 * n + i] = h;
#endif
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(h) : "f"(in[i].x));
    out[7 * n + i] = h;
}
