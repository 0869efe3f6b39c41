// Atomics on vectors and on 16 bytes, from sm_90 on. All sums are exact, so that their order does not matter.
extern "C" __global__ void k(float4 *vectors, float2 *pairs, unsigned *halves, ulonglong2 *wide, float4 *found) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float4 before;
    asm volatile("atom.global.add.v4.f32 {%0, %1, %2, %3}, [%4], {%5, %6, %7, %8};"
                 : "=f"(before.x), "=f"(before.y), "=f"(before.z), "=f"(before.w)
                 : "l"(vectors + thread), "f"(1.0f), "f"(2.0f), "f"(float(thread)), "f"(0.5f) : "memory");
    found[thread] = before;
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(pairs + (thread & 3)), "f"(1.0f), "f"(0.25f) : "memory");
    asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1, %1, %1, %1};" ::"l"(halves + (thread & 1) * 4), "r"(0x3C003800) : "memory");
    asm volatile("red.global.max.noftz.v2.bf16x2 [%0], {%1, %1};" ::"l"(halves + 8), "r"(thread << 23 | 0x3F80) : "memory");
    asm volatile(
        "{\n.reg .b128 now, next, seen;\n.reg .b64 low, high;\n.reg .pred same;\n"
        "mov.b128 now, {%1, %1};\nmov.b128 next, {%2, %3};\n"
        "atom.global.exch.b128 seen, [%0], next;\n"
        "mov.b128 {low, high}, seen;\nst.global.b64 [%0+16], low;\nst.global.b64 [%0+24], high;\n"
        "atom.global.cas.b128 seen, [%0], next, now;\n}" ::"l"(wide + thread * 2), "l"(7ull), "l"(5ull), "l"(9ull) : "memory");
}
