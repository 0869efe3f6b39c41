// C = A * B^T with the tensor cores of Ampere and newer (mma.sync), fed by ldmatrix and cp.async.
//
// A is m x k and B n x k, both row by row in f16; C is m x n in f32. Sizes are multiples of the tile.
// A block of 256 threads computes a tile of 128 x 128, each of its 2 x 4 warps 64 x 32. Tiles of 32 columns of A and B are
// copied two steps ahead into a ring of three stages. Rows of 64 bytes are stored as four pieces of 16 bytes whose
// order changes every second row, so that neither the copies nor ldmatrix have bank conflicts.
#include <cuda_fp16.h>

constexpr int TILE_M = 128, TILE_N = 128, TILE_K = 32, STAGES = 3, THREADS = 256;
constexpr int STAGE_HALVES = (TILE_M + TILE_N) * TILE_K;

__device__ inline unsigned shared_address(const void *pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// place of a piece of 8 halves in a tile
__device__ inline int place(int row, int piece) { return row * TILE_K + (piece ^ (row >> 1 & 3)) * 8; }

__device__ inline void copy_tile(half *tile, const half *source, int k) {
    for (int i = threadIdx.x; i < TILE_M * TILE_K / 8; i += THREADS) {
        const int row = i / (TILE_K / 8), piece = i % (TILE_K / 8);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(tile + place(row, piece))),
                     "l"(source + row * (size_t)k + piece * 8));
    }
}

__device__ inline void load_matrices(unsigned (&fragment)[4], const half *pointer) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(shared_address(pointer)));
}

__device__ inline void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_mma(const half *a, const half *b, float *c, int n, int k) {
    __shared__ alignas(128) half tiles[STAGES * STAGE_HALVES];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / 4 * 64, column = warp % 4 * 32;
    const half *from_a = a + blockIdx.y * TILE_M * (size_t)k, *from_b = b + blockIdx.x * TILE_N * (size_t)k;
    const int steps = k / TILE_K;
    float sum[4][4][4] = {};
    for (int step = 0; step < STAGES - 1; ++step) {
        if (step < steps) {
            copy_tile(tiles + step * STAGE_HALVES, from_a + step * TILE_K, k);
            copy_tile(tiles + step * STAGE_HALVES + TILE_M * TILE_K, from_b + step * TILE_K, k);
        }
        asm volatile("cp.async.commit_group;");
    }
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        const int next = step + STAGES - 1;
        if (next < steps) {
            half *stage = tiles + next % STAGES * STAGE_HALVES;
            copy_tile(stage, from_a + next * TILE_K, k);
            copy_tile(stage + TILE_M * TILE_K, from_b + next * TILE_K, k);
        }
        asm volatile("cp.async.commit_group;");
        const half *tile_a = tiles + step % STAGES * STAGE_HALVES, *tile_b = tile_a + TILE_M * TILE_K;
#pragma unroll
        for (int inner = 0; inner < TILE_K / 16; ++inner) {
            unsigned fragment_a[4][4], fragment_b[2][4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                load_matrices(fragment_a[i], tile_a + place(row + i * 16 + lane % 16, inner * 2 + lane / 16));
#pragma unroll
            for (int j = 0; j < 2; ++j)
                load_matrices(fragment_b[j], tile_b + place(column + j * 16 + lane % 8 + lane / 16 * 8, inner * 2 + lane / 8 % 2));
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    multiply(sum[i][j], fragment_a[i], fragment_b[j / 2][j % 2 * 2], fragment_b[j / 2][j % 2 * 2 + 1]);
        }
    }
    float *target = c + (blockIdx.y * TILE_M + row + lane / 4) * (size_t)n + blockIdx.x * TILE_N + column + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float *piece = target + i * 16 * (size_t)n + j * 8;
            *reinterpret_cast<float2 *>(piece) = make_float2(sum[i][j][0], sum[i][j][1]);
            *reinterpret_cast<float2 *>(piece + 8 * (size_t)n) = make_float2(sum[i][j][2], sum[i][j][3]);
        }
}
