// softmax(Q * K^T / sqrt(64)) * V for heads of 64 columns, one pass over K and V (flash attention, forward), with mma.sync.
//
// q, k, v and out are heads x length x 64 in f16; length is a multiple of 64. A block of 128 threads computes 64 rows of
// one head, each of its warps 16: it goes over K and V in tiles of 64 rows, keeps the largest score and the sum of the
// weights of each row, and rescales what it has summed where a larger score appears. The scores never leave registers:
// as accumulators of the first product they lie as the second one wants its left factor.
#include <cuda_fp16.h>

constexpr int WIDTH = 64, ROWS = 64, THREADS = 128;

__device__ inline unsigned shared_address(const void *pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// rows of 128 bytes as eight pieces of 16 bytes whose order changes with the row
__device__ inline int place(int row, int piece) { return row * WIDTH + (piece ^ (row & 7)) * 8; }

__device__ inline void copy_tile(half *tile, const half *source) {
    for (int i = threadIdx.x; i < ROWS * WIDTH / 8; i += THREADS) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(tile + place(i / 8, i % 8))),
                     "l"(source + i * 8));
    }
}

__device__ inline void load_matrices(unsigned (&fragment)[4], const half *pointer) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(shared_address(pointer)));
}

__device__ inline void load_transposed(unsigned (&fragment)[4], const half *pointer) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(shared_address(pointer)));
}

__device__ inline void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline unsigned packed(float low, float high) {
    const half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned *>(&both);
}

extern "C" __global__ void __launch_bounds__(THREADS)
attention_mma(const half *q, const half *k, const half *v, half *out, int length) {
    __shared__ alignas(128) half tile_q[ROWS * WIDTH], tile_k[ROWS * WIDTH], tile_v[ROWS * WIDTH];
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16;
    const size_t head = blockIdx.y * (size_t)length * WIDTH, first = head + blockIdx.x * (size_t)ROWS * WIDTH;
    const float scale = 0.125f * 1.44269504f;  // of base 2
    copy_tile(tile_q, q + first);
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    unsigned query[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) load_matrices(query[i], tile_q + place(row + lane % 16, i * 2 + lane / 16));
    float sum[8][4] = {}, largest[2] = {-INFINITY, -INFINITY}, weight[2] = {};
    for (int tile = 0; tile < length / ROWS; ++tile) {
        __syncthreads();
        copy_tile(tile_k, k + head + tile * (size_t)ROWS * WIDTH);
        copy_tile(tile_v, v + head + tile * (size_t)ROWS * WIDTH);
        asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        float score[8][4] = {};
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                unsigned key[4];
                load_matrices(key, tile_k + place(j * 16 + lane % 8 + lane / 16 * 8, i * 2 + lane / 8 % 2));
                multiply(score[j * 2], query[i], key[0], key[1]);
                multiply(score[j * 2 + 1], query[i], key[2], key[3]);
            }
#pragma unroll
        for (int half_rows = 0; half_rows < 2; ++half_rows) {
            float top = largest[half_rows];
#pragma unroll
            for (int j = 0; j < 8; ++j)
                top = fmaxf(top, fmaxf(score[j][half_rows * 2], score[j][half_rows * 2 + 1]));
            top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
            const float correction = exp2f((largest[half_rows] - top) * scale);
            largest[half_rows] = top;
            weight[half_rows] *= correction;
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                sum[j][half_rows * 2] *= correction;
                sum[j][half_rows * 2 + 1] *= correction;
#pragma unroll
                for (int e = half_rows * 2; e < half_rows * 2 + 2; ++e) {
                    score[j][e] = exp2f((score[j][e] - top) * scale);
                    weight[half_rows] += score[j][e];
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const unsigned probability[4] = {packed(score[2 * i][0], score[2 * i][1]), packed(score[2 * i][2], score[2 * i][3]),
                                             packed(score[2 * i + 1][0], score[2 * i + 1][1]),
                                             packed(score[2 * i + 1][2], score[2 * i + 1][3])};
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                unsigned value[4];
                load_transposed(value, tile_v + place(i * 16 + lane % 16, j * 2 + lane / 16));
                multiply(sum[j * 2], probability, value[0], value[1]);
                multiply(sum[j * 2 + 1], probability, value[2], value[3]);
            }
        }
    }
#pragma unroll
    for (int half_rows = 0; half_rows < 2; ++half_rows) {
        weight[half_rows] += __shfl_xor_sync(0xffffffff, weight[half_rows], 1);
        weight[half_rows] += __shfl_xor_sync(0xffffffff, weight[half_rows], 2);
        half *target = out + first + (row + lane / 4 + half_rows * 8) * WIDTH + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < 8; ++j)
            *reinterpret_cast<half2 *>(target + j * 8) =
                __floats2half2_rn(sum[j][half_rows * 2] / weight[half_rows], sum[j][half_rows * 2 + 1] / weight[half_rows]);
    }
}
