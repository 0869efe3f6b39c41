// Special registers: indices, lane masks, and a clock that grows.
extern "C" __global__ void special_registers(unsigned *out, int n)
{
    const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const int i = block * blockDim.x * blockDim.y * blockDim.z + thread;
    unsigned lane, warp, below, above, equal;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mov.u32 %0, %%warpid;" : "=r"(warp));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    asm("mov.u32 %0, %%lanemask_ge;" : "=r"(above));
    asm("mov.u32 %0, %%lanemask_eq;" : "=r"(equal));
    const long long start = clock64();
    out[i] = lane + 100 * warp;
    out[i + n] = below ^ equal;
    out[i + 2 * n] = above;
    out[i + 3 * n] = clock64() > start;
}
