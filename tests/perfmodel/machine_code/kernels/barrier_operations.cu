// The operations of mbarrier: tokens, counts, drops, pending arrivals, arrivals of asynchronous copies.
extern "C" __global__ void operations(unsigned *out, const unsigned *in) {
    __shared__ alignas(8) unsigned long long barrier[2];
    __shared__ unsigned staged[64];
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier)), thread = threadIdx.x;
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(staged + thread));
    unsigned long long state;
    unsigned pending, over;
    if (thread == 0) asm volatile("mbarrier.init.shared.b64 [%0], 192;" ::"r"(at));
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(in + thread));
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
    asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(at) : "memory");
    asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1;" : "=l"(state) : "r"(at) : "memory");
    __syncthreads();
    asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
    asm("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(state));
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(over) : "r"(at), "l"(state) : "memory");
    } while (!over);
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
    __syncthreads();
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(over) : "r"(at), "l"(state) : "memory");
    out[thread] = staged[thread];
    out[64 + thread] = over;
    out[128 + thread] = pending;
    __syncthreads();
    if (thread == 0) asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(at));
}
