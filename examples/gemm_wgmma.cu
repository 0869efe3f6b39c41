// C = A * B^T with the asynchronous matrix products of Hopper (wgmma), fed by TMA; compile for sm_90a.
//
// A is m x k and B n x k, both row by row in f16; C is m x n in f32. Sizes are multiples of the tile.
// A block computes a tile of 128 x 128: one warp of the first warpgroup loads tiles of A and B by TMA into a ring of
// stages; each of two further warpgroups multiplies 64 x 128. Each stage has two mbarriers: "full" completes when both
// tiles have arrived, "empty" when both warpgroups have read them.
#include <cuda.h>
#include <cuda_fp16.h>

constexpr int TILE_M = 128, TILE_N = 128, TILE_K = 64, STAGES = 4, THREADS = 384;
constexpr int A_BYTES = TILE_M * TILE_K * 2, B_BYTES = TILE_N * TILE_K * 2, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int SHARED_BYTES = STAGES * STAGE_BYTES + 1024;  // tiles swizzled by 128 bytes begin at multiples of 1024

__device__ inline unsigned shared_address(const void *pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ inline void barrier_init(unsigned barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ inline void barrier_wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(barrier), "r"(parity)
        : "memory");
}

__device__ inline void barrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ inline void barrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ inline void load_tile(unsigned target, const CUtensorMap *map, int column, int row, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(target),
        "l"(map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
}

// rows of 128 bytes, swizzled by 128 bytes; eight rows are 1024 bytes
__device__ inline unsigned long long descriptor(unsigned address) {
    return (address & 0x3FFFFu) >> 4 | 1ull << 16 | (1024ull >> 4) << 32 | 1ull << 62;
}

__device__ inline void multiply(float (&sum)[64], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1, 0, 0;"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]), "+f"(sum[7]),
          "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]),
          "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
          "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31]),
          "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]), "+f"(sum[35]), "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]),
          "+f"(sum[40]), "+f"(sum[41]), "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47]),
          "+f"(sum[48]), "+f"(sum[49]), "+f"(sum[50]), "+f"(sum[51]), "+f"(sum[52]), "+f"(sum[53]), "+f"(sum[54]), "+f"(sum[55]),
          "+f"(sum[56]), "+f"(sum[57]), "+f"(sum[58]), "+f"(sum[59]), "+f"(sum[60]), "+f"(sum[61]), "+f"(sum[62]), "+f"(sum[63])
        : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm_wgmma(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float *c, int n, int k) {
    extern __shared__ unsigned char dynamic[];
    __shared__ alignas(8) unsigned long long full[STAGES], empty[STAGES];
    const unsigned tiles = (shared_address(dynamic) + 1023) & ~1023u;
    const int row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N, group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(shared_address(&full[stage]), 1);
            barrier_init(shared_address(&empty[stage]), 2);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            for (int step = 0; step < k / TILE_K; ++step) {
                const int stage = step % STAGES, turn = step / STAGES;
                const unsigned target = tiles + stage * STAGE_BYTES, barrier = shared_address(&full[stage]);
                barrier_wait(shared_address(&empty[stage]), (turn & 1) ^ 1);
                barrier_expect(barrier, STAGE_BYTES);
                load_tile(target, &a, step * TILE_K, row, barrier);
                load_tile(target + A_BYTES, &b, step * TILE_K, column, barrier);
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float sum[64] = {};
    for (int step = 0; step < k / TILE_K; ++step) {
        const int stage = step % STAGES, turn = step / STAGES;
        const unsigned source = tiles + stage * STAGE_BYTES;
        barrier_wait(shared_address(&full[stage]), turn & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int inner = 0; inner < TILE_K / 16; ++inner)
            multiply(sum, descriptor(source + (group - 1) * A_BYTES / 2 + inner * 32), descriptor(source + A_BYTES + inner * 32));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (threadIdx.x % 128 == 0) barrier_arrive(shared_address(&empty[stage]));
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    float *target = c + (row + (group - 1) * 64 + warp * 16 + lane / 4) * (size_t)n + column + lane % 4 * 2;
    for (int piece = 0; piece < TILE_N / 8; ++piece) {
        *reinterpret_cast<float2 *>(target + piece * 8) = make_float2(sum[piece * 4], sum[piece * 4 + 1]);
        *reinterpret_cast<float2 *>(target + 8 * (size_t)n + piece * 8) = make_float2(sum[piece * 4 + 2], sum[piece * 4 + 3]);
    }
}
