// ldmatrix in all its sizes, and what sm_90 adds: stmatrix and movmatrix.
#ifndef ROW
#define ROW places[lane]
#endif

extern "C" __global__ void k(const unsigned *in, const unsigned *places, unsigned *out) {
    __shared__ alignas(16) unsigned s[256];
    const int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) s[i] = in[i];
    __syncwarp();
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(s)) + ROW * 16;
    unsigned r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(at));
    out[lane] = r[0];
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at));
    for (int i = 0; i < 2; ++i) out[32 + i * 32 + lane] = r[i];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    for (int i = 0; i < 4; ++i) out[96 + i * 32 + lane] = r[i];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    for (int i = 0; i < 4; ++i) out[224 + i * 32 + lane] = r[i];
    unsigned turned = r[0];
#if __CUDA_ARCH__ >= 750
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(r[0]));
#endif
    out[352 + lane] = turned;
#if __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
    __syncwarp();
    for (int i = lane; i < 128; i += 32) out[384 + i] = s[i];
    __syncwarp();
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(at), "r"(r[2]), "r"(r[3]));
    __syncwarp();
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(at), "r"(r[1]));
    __syncwarp();
    for (int i = lane; i < 128; i += 32) out[512 + i] = s[i];
#endif
}
