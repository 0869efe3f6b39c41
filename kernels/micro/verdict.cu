// verdict: kernels whose counts the program and its data fix, and kernels whose counts time, races or the hardware decide.
//
// Layout:    out [gridDim.x * blockDim.x + 64], all zero; in [gridDim.x * blockDim.x], random integers from 0 to 31.
// Kernels:   parted_… lanes of a warp part and meet again; fixed_… nothing else decides; loose_… something else does.
// Constants: none.
// Measures:  whether counts that are called exact are what the hardware counts.

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)
#define KERNEL(name) extern "C" __global__ void name(int *out, const int *in, int n)
// An instruction that the compiler can neither move nor turn into a predicated one.
#define STEP(x) asm volatile("{ .reg .pred p; setp.ne.s32 p, %0, -7; @p mad.lo.s32 %0, %0, 5, 3; }" : "+r"(x))
#define WORK(x) do { STEP(x); STEP(x); STEP(x); STEP(x); STEP(x); STEP(x); } while (0)

// ---- lanes part: of each warp as many lanes as its block's number says go the one way

KERNEL(parted_if)
{
    int x = in[THREAD];
    if (threadIdx.x % 32 < blockIdx.x % 32) { WORK(x); WORK(x); WORK(x); WORK(x); __threadfence_block(); }
    out[THREAD] = x;
}

KERNEL(parted_if_else)
{
    int x = in[THREAD];
    if (threadIdx.x % 32 < blockIdx.x % 32) { WORK(x); WORK(x); WORK(x); __threadfence_block(); }
    else { STEP(x); WORK(x); WORK(x); WORK(x); WORK(x); __threadfence_block(); }
    out[THREAD] = x;
}

KERNEL(parted_if_load)
{
    int x = in[THREAD];
    if (threadIdx.x % 32 < blockIdx.x % 32) { WORK(x); x += in[(x ^ THREAD) & (n - 1)]; WORK(x); __threadfence_block(); }
    out[THREAD] = x;
}

KERNEL(parted_loop)
{
    int x = THREAD;
    const int trips = in[THREAD];
#pragma unroll 1
    for (int k = 0; k < trips; k++) WORK(x);
    out[THREAD] = x;
}

KERNEL(parted_loop_load)
{
    int x = THREAD;
    const int trips = in[THREAD];
#pragma unroll 1
    for (int k = 0; k < trips; k++) x += in[(x * 7 + k) & (n - 1)];
    out[THREAD] = x;
}

KERNEL(parted_break)
{
    int found = -1;
    const int wanted = in[THREAD];
#pragma unroll 1
    for (int k = 0; k < n; k++)
        if (in[k] >= wanted) { found = k; break; }
    out[THREAD] = found;
}

KERNEL(parted_tree)
{
    int x = in[THREAD];
    const int way = x;
    if (way & 1) {
        WORK(x);
        if (way & 2) { WORK(x); if (way & 4) { WORK(x); STEP(x); } else WORK(x); } else { WORK(x); STEP(x); }
    } else {
        STEP(x); WORK(x);
        if (way & 2) { WORK(x); WORK(x); } else { WORK(x); STEP(x); STEP(x); }
    }
    out[THREAD] = x;
}

KERNEL(parted_loops)
{
    int x = THREAD;
    const int trips = in[THREAD];
#pragma unroll 1
    for (int k = 0; k < (trips & 7); k++) {
        STEP(x);
#pragma unroll 1
        for (int j = 0; j < ((trips >> 3) & 3) + (x & 1); j++) WORK(x);
    }
    out[THREAD] = x;
}

KERNEL(parted_return)
{
    int x = in[THREAD];
    if (x < 16) { WORK(x); if (x & 1) return; WORK(x); }
    out[THREAD] = x;
}

__device__ __noinline__ int called(int x, int trips)
{
#pragma unroll 1
    for (int k = 0; k < trips; k++) WORK(x);
    return x;
}

KERNEL(parted_calls)
{
    int x = in[THREAD];
    if (x & 1) x = called(x, x & 6) + 1;
    else x = called(x + 2, x & 4);
    out[THREAD] = x;
}

KERNEL(parted_division)
{
    const float a = in[THREAD] == 5 ? 1e-39f : 3.0f + THREAD, b = in[THREAD] == 7 ? 3e38f : in[THREAD] + 1.5f;
    out[THREAD] = __float_as_int(a / b);
}

KERNEL(parted_then_synced)
{
    int x = in[THREAD];
    switch (x & 7) {
    case 0: WORK(x); __syncwarp(); break;
    case 1: WORK(x); STEP(x); __syncwarp(); break;
    case 2: STEP(x); STEP(x); __syncwarp(); break;
    case 3: WORK(x); WORK(x); __syncwarp(); break;
    default: STEP(x); __syncwarp(); break;
    }
    out[THREAD] = x;
}

KERNEL(parted_tiles)
{
    int x = in[THREAD];
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    if (tile.meta_group_rank() % 3 == 1) { for (int k = 4; k; k /= 2) x += tile.shfl_down(x, k); }
    else x = tile.all(x > 3) ? x : 7;
    out[THREAD] = x;
}

KERNEL(parted_coalesced)
{
    int x = in[THREAD];
    if (x & 1) {
        auto active = cg::coalesced_threads();
        for (int k = active.size() / 2; k; k /= 2) x += active.shfl_down(x, k);
    }
    out[THREAD] = x;
}

KERNEL(parted_binary)
{
    int x = in[THREAD];
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    auto half = cg::binary_partition(tile, x < 20);
    out[THREAD] = half.size() + half.shfl(x, 0);
}

KERNEL(parted_match)
{
    const int x = in[THREAD] & 7;
    const unsigned peers = __match_any_sync(~0u, x);
    int sum = 0;
    for (unsigned rest = peers; rest; rest &= rest - 1) sum += __ffs(rest);
    out[THREAD] = sum;
}

// ---- nothing but the program and its data decides

KERNEL(fixed_barrier)
{
    __shared__ int trips[256];
    trips[threadIdx.x] = in[THREAD];
    __syncthreads();
    int x = 0;
    for (int k = 0; k < trips[(threadIdx.x & ~31) ^ 32]; k++) STEP(x);
    out[THREAD] = x;
}

KERNEL(fixed_own_writes)
{
    out[THREAD] = in[THREAD & ~31];
    __syncthreads();
    int x = 0;
    const int trips = out[THREAD ^ 32];
    for (int k = 0; k < trips; k++) STEP(x);
    __syncthreads();
    out[THREAD] = x;
}

KERNEL(fixed_reduction) { atomicAdd(&out[in[THREAD]], 1); }

KERNEL(fixed_ticket_value) { out[64 + THREAD] = atomicAdd(&out[0], in[THREAD]); }

// ---- something else decides

KERNEL(loose_clock)
{
    const long long start = clock64();
    int x = 0;
    while (clock64() - start < 500 + 16 * in[0]) x++;
    out[THREAD] = x;
}

KERNEL(loose_timer)
{
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    int x = 0;
    do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); x++; } while (now - start < 2000);
    out[THREAD] = x;
}

KERNEL(loose_sm)
{
    unsigned sm;
    asm("mov.u32 %0, %smid;" : "=r"(sm));
    int x = 0;
    for (unsigned k = 0; k < sm; k++) STEP(x);
    out[THREAD] = x;
}

KERNEL(loose_sm_count)
{
    unsigned sms;
    asm("mov.u32 %0, %nsmid;" : "=r"(sms));
    int x = 0;
    for (unsigned k = 0; k < sms; k++) STEP(x);
    out[THREAD] = x;
}

KERNEL(loose_warp_slot)
{
    unsigned slot;
    asm volatile("mov.u32 %0, %warpid;" : "=r"(slot));
    int x = 0;
    for (unsigned k = 0; k < slot; k++) STEP(x);
    out[THREAD] = x;
}

KERNEL(loose_lock)
{
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(&out[0], 0, 1)) __nanosleep(20);
        out[1] += 1;
        __threadfence();
        atomicExch(&out[0], 0);
    }
}

KERNEL(loose_last_block)
{
    __shared__ bool last;
    out[64 + THREAD] = in[THREAD];
    __threadfence();
    if (threadIdx.x == 0) last = atomicAdd(&out[0], 1) == gridDim.x - 1;
    __syncthreads();
    if (last) for (int k = 0; k < n / 8; k += blockDim.x) atomicAdd(&out[1], out[64 + k + threadIdx.x]);
}

KERNEL(loose_queue)
{
    int slot = 0;
    if (in[THREAD] & 1) {
        auto active = cg::coalesced_threads();
        if (active.thread_rank() == 0) slot = atomicAdd(&out[0], (int)active.size());
        slot = active.shfl(slot, 0) + active.thread_rank();
        out[64 + slot] = THREAD;
    }
}

KERNEL(loose_shared_ticket)
{
    __shared__ int ticket;
    if (threadIdx.x == 0) ticket = 0;
    __syncthreads();
    int x = 0;
    for (int k = atomicAdd(&ticket, 1); k < 300; k += 32) STEP(x);
    out[THREAD] = x;
}

KERNEL(loose_shared_race)
{
    __shared__ int trips[256];
    trips[threadIdx.x] = in[THREAD];
    int x = 0;
    const int seen = trips[threadIdx.x ^ 32];
    for (int k = 0; k < seen; k++) STEP(x);
    out[THREAD] = x;
}

KERNEL(loose_global_race)
{
    out[THREAD] = in[THREAD & ~31];
    int x = 0;
    const int trips = *(const volatile int *)&out[THREAD ^ 32];
    for (int k = 0; k < trips; k++) STEP(x);
    out[THREAD] = x;
}

KERNEL(loose_plain_race)
{
    out[THREAD] = in[THREAD & ~31];
    int x = 0;
    for (int k = 0; k < out[THREAD ^ 32]; k++) STEP(x);
    __syncthreads();
    out[THREAD] = x;
}

KERNEL(loose_unwritten)
{
    __shared__ int trips[256];
    if (in[THREAD] > 100) trips[threadIdx.x] = 1;
    __syncthreads();
    int x = 0;
    for (int k = 0; k < (trips[threadIdx.x] & 63); k++) STEP(x);
    out[THREAD] = x;
}

KERNEL(loose_active_mask)
{
    int x = in[THREAD];
    if (x & 1) WORK(x);
    if (x & 2) STEP(x);
    const int together = __popc(__activemask());
    for (int k = 0; k < together; k++) STEP(x);
    out[THREAD] = x;
}

KERNEL(loose_compare_and_swap)
{
    unsigned *const place = (unsigned *)&out[in[THREAD] & 3];
    unsigned seen = *place, before;
    do { before = seen; seen = atomicCAS(place, before, before + 2); } while (seen != before);
}

KERNEL(loose_wait)
{
    __shared__ unsigned long long barrier;
    const unsigned place = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(place), "r"(blockDim.x));
    __syncthreads();
    int x = 0;
    for (int k = 0; k < (threadIdx.x / 32) * 1000; k++) STEP(x);
    unsigned long long token;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(token) : "r"(place) : "memory");
    unsigned done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(place), "l"(token) : "memory");
    while (!done);
    out[THREAD] = x;
}

KERNEL(loose_approximation)
{
    // the last bit of the special-function unit decides
    int x = 0;
    for (int k = 0; k < (__float_as_int(__expf(in[THREAD] * 0.37f + THREAD * 1e-3f)) & 15); k++) STEP(x);
    out[THREAD] = x;
}
