// Accesses of a thread to neighbouring words: one of one, two or four words each. ASYNC_COPY: the architecture has cp.async.
#pragma once

template <int WORDS> struct Vector;
template <> struct Vector<1> {
    using type = float;
};
template <> struct Vector<2> {
    using type = float2;
};
template <> struct Vector<4> {
    using type = float4;
};

template <int WORDS> __device__ __forceinline__ void move(float *to, const float *from)
{
    using Type = typename Vector<WORDS>::type;
    *reinterpret_cast<Type *>(to) = *reinterpret_cast<const Type *>(from);
}

// Starts a copy from global to shared memory; four words go past L1.
template <int WORDS> __device__ __forceinline__ void copy(float *to, const float *from)
{
#if ASYNC_COPY
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (WORDS == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(4 * WORDS) : "memory");
#else
    move<WORDS>(to, from);
#endif
}
