// bulk_product: products of matrices on the tensor cores of Hopper, whose factors bulk tensor copies (TMA) bring to shared memory.
//
// Layout:    input  [all_positions][in_channels]      channels lie closest; 16 bytes divide a row
//            filter [out_channels][in_channels]
//            output [all_positions][out_channels]
// Tiles:     POSITION_TILE positions times FILTER_TILE filters; tiles of the same filters follow each other. Block i computes tiles i,
//            i + gridDim.x and so on.
// Block:     POSITION_WARPS warps that multiply, in warpgroups of four, and one more whose first lane starts all copies.
// Slab:      SLAB_CHANNELS channels, 128 bytes, of the positions and filters of a tile; zeros where there are none. Chunks of 16 bytes are
//            exchanged as wgmma knows it (swizzle). Slabs pass through STAGES stages; for each of these one barrier says that it is
//            full, and one that all warpgroups have multiplied it. Copies run ahead into the next tile.
// Warpgroup: ROWS times 64 positions times FILTER_TILE filters (wgmma); both factors are read from shared memory. Sums are FP32.
// End:       the outputs of a warp pass through its own part of shared memory, so that whole lines are stored.
// Constants: fields of the configuration in capitals; what else is derived has its one home in the family.

#define ROWS (WARP_POSITIONS / 16)
#define POSITION_TILE (POSITION_WARPS * WARP_POSITIONS)
#define FILTER_TILE WARP_FILTERS
#define GROUPS (POSITION_WARPS / 4)
#define GROUP_THREADS 128
#define THREADS (32 * POSITION_WARPS + 32)
#define SLAB_BYTES 128
#define SLAB_CHANNELS (SLAB_BYTES / ELEMENT_BYTES)
#define PRODUCT_BYTES 32
#define STAGE_BYTES ((POSITION_TILE + FILTER_TILE) * SLAB_BYTES)
#define SUMS (FILTER_TILE / 2)
#define PART (WARP_POSITIONS * TILE_PITCH)

#include "vectors.cuh"
#include "warpgroup_sums.cuh"

#if ELEMENT_BYTES == 2
using Element = unsigned short; // the bits of a number
#define PRODUCT(columns) "m64n" columns "k16.f32.f16.f16 {"
#define NOT_TURNED ", 0, 0"
#else
using Element = float;
#define PRODUCT(columns) "m64n" columns "k8.f32.tf32.tf32 {"
#define NOT_TURNED ""
#endif

// What the driver calls CUtensorMap.
struct __align__(64) TensorMap {
    unsigned char bytes[128];
};

__device__ __forceinline__ void wait_for(const unsigned barrier, const unsigned parity)
{
    asm volatile("{\n\t.reg .pred done;\n"
                 "again:\n\tmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n\t@done bra over;\n\tbra again;\nover:\n\t}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

__device__ __forceinline__ void start_copy(const unsigned to, const TensorMap &from, const unsigned channel, const unsigned row,
                                           const unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(&from), "r"(channel), "r"(row), "r"(barrier)
                 : "memory");
}

// Eight rows of 128 bytes are 1,024 bytes apart; the first lies at an address that 1,024 divides.
__device__ __forceinline__ unsigned long long matrix_at(const unsigned address)
{
    return (address & 0x3ffff) >> 4 | 1ull << 16 | static_cast<unsigned long long>(8 * SLAB_BYTES >> 4) << 32 | 1ull << 62;
}

// sum = [sum +] 64 positions times FILTER_TILE filters.
__device__ __forceinline__ void add_product(float *sum, const unsigned positions, const unsigned filters, const int add)
{
#define OPERANDS(positions, filters, add)                                                                                          \
    "}, %" positions ", %" filters ", adds, 1, 1" NOT_TURNED ";\n\t}"
#define BEGIN(add) "{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %" add ", 0;\n\twgmma.mma_async.sync.aligned."
#if FILTER_TILE == 32
    asm volatile(BEGIN("18") PRODUCT("32") FIRST_16 OPERANDS("16", "17", "18")
                 : SUMS_OF_16(0)
#elif FILTER_TILE == 48
    asm volatile(BEGIN("26") PRODUCT("48") FIRST_16 FIRST_8_OF_SECOND_16 OPERANDS("24", "25", "26")
                 : SUMS_OF_16(0), SUMS_OF_8(16)
#elif FILTER_TILE == 64
    asm volatile(BEGIN("34") PRODUCT("64") FIRST_16 SECOND_16 OPERANDS("32", "33", "34")
                 : SUMS_OF_16(0), SUMS_OF_16(16)
#elif FILTER_TILE == 96
    asm volatile(BEGIN("50") PRODUCT("96") FIRST_16 SECOND_16 THIRD_16 OPERANDS("48", "49", "50")
                 : SUMS_OF_16(0), SUMS_OF_16(16), SUMS_OF_16(32)
#elif FILTER_TILE == 128
    asm volatile(BEGIN("66") PRODUCT("128") FIRST_16 SECOND_16 THIRD_16 FOURTH_16 OPERANDS("64", "65", "66")
                 : SUMS_OF_16(0), SUMS_OF_16(16), SUMS_OF_16(32), SUMS_OF_16(48)
#endif
                 : "l"(matrix_at(positions)), "l"(matrix_at(filters)), "r"(add));
}

// Two neighbouring sums as elements.
__device__ __forceinline__ void keep_pair(Element *to, const float first, const float second)
{
#if ELEMENT_BYTES == 2
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    *reinterpret_cast<unsigned *>(to) = pair;
#else
    *reinterpret_cast<float2 *>(to) = float2{first, second};
#endif
}

__device__ __forceinline__ void store_vector(Element *to, const Element *from)
{
    constexpr int BYTES = STORE_VECTOR * ELEMENT_BYTES;
    if constexpr (BYTES == 2)
        *to = *from;
    else
        move<BYTES / 4>(reinterpret_cast<float *>(to), reinterpret_cast<const float *>(from));
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    bulk_product(Element *__restrict__ output, const __grid_constant__ TensorMap input, const __grid_constant__ TensorMap filter,
                 const unsigned in_channels, const unsigned out_channels, const unsigned all_positions)
{
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    Element *const parts = reinterpret_cast<Element *>(shared_memory + STAGES * STAGE_BYTES);
    const unsigned stages = static_cast<unsigned>(__cvta_generic_to_shared(shared_memory));
    const unsigned full = stages + STAGES * STAGE_BYTES + ELEMENT_BYTES * POSITION_WARPS * PART, multiplied = full + 8 * STAGES;
    const unsigned slabs = (in_channels + SLAB_CHANNELS - 1) / SLAB_CHANNELS;
    const unsigned across = (all_positions + POSITION_TILE - 1) / POSITION_TILE;
    const unsigned tiles = across * ((out_channels + FILTER_TILE - 1) / FILTER_TILE);
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(full + 8 * stage) : "memory");
            asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(multiplied + 8 * stage), "n"(GROUPS) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    unsigned stage = 0, parity = 0; // of the barriers' phase that is waited for
    if (warp == POSITION_WARPS) {
        if (lane == 0)
            for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x)
                for (unsigned slab = 0; slab < slabs; slab++) {
                    const unsigned barrier = full + 8 * stage, to = stages + stage * STAGE_BYTES;
                    wait_for(multiplied + 8 * stage, parity ^ 1);
                    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "n"(STAGE_BYTES) : "memory");
                    start_copy(to, input, slab * SLAB_CHANNELS, tile % across * POSITION_TILE, barrier);
                    start_copy(to + POSITION_TILE * SLAB_BYTES, filter, slab * SLAB_CHANNELS, tile / across * FILTER_TILE, barrier);
                    stage = stage + 1 == STAGES ? 0 : stage + 1;
                    parity ^= stage == 0;
                }
        return;
    }

    const unsigned group = warp / 4;
    Element *const part = parts + warp * PART;
    for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        float sum[ROWS][SUMS]; // the first product does not add to it
        unsigned before = STAGES;
        const auto release = [&]() {
            if (threadIdx.x % GROUP_THREADS == 0)
                asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(multiplied + 8 * before) : "memory");
        };
        for (unsigned slab = 0; slab < slabs; slab++) {
            wait_for(full + 8 * stage, parity);
            const unsigned positions = stages + stage * STAGE_BYTES + group * ROWS * 64 * SLAB_BYTES;
            const unsigned filters = stages + stage * STAGE_BYTES + POSITION_TILE * SLAB_BYTES;
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int first = 0; first < SLAB_BYTES; first += PRODUCT_BYTES)
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    add_product(sum[r], positions + r * 64 * SLAB_BYTES + first, filters + first, slab | first);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (before < STAGES)
                release();
            before = stage;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            parity ^= stage == 0;
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        release();

        __syncwarp();
#pragma unroll
        for (int r = 0; r < 2 * ROWS; r++)
#pragma unroll
            for (int c = 0; c < FILTER_TILE / 8; c++)
                keep_pair(part + (r * 8 + lane / 4) * TILE_PITCH + c * 8 + lane % 4 * 2, sum[r / 2][c * 4 + r % 2 * 2],
                          sum[r / 2][c * 4 + r % 2 * 2 + 1]);
        __syncwarp();
        const unsigned first_filter = tile / across * FILTER_TILE;
        const unsigned first_position = tile % across * POSITION_TILE + group * ROWS * 64 + warp % 4 * 16;
#pragma unroll 4
        for (unsigned vector = lane; vector < WARP_POSITIONS * FILTER_TILE / STORE_VECTOR; vector += 32) {
            const unsigned row = vector / (FILTER_TILE / STORE_VECTOR), column = vector % (FILTER_TILE / STORE_VECTOR) * STORE_VECTOR;
            const unsigned position = first_position + row / 16 * 64 + row % 16, filter_index = first_filter + column;
            if (position < all_positions && (!FILTER_TAIL || filter_index < out_channels))
                store_vector(output + position * out_channels + filter_index, part + row * TILE_PITCH + column);
        }
    }
}
