// line_write: every thread stores to a place of its own again and again.
//
// Layout:    out [gridDim.x * blockDim.x * WIDTH]
// Thread:    steps stores of WIDTH words, none of which waits for another.
// Constants: WIDTH (1, 2 or 4)
// Measures:  what L2 takes of stores by the bytes of a lane, where all of them stay in L2.

extern "C" __global__ void line_write(float *out, float value, int steps)
{
    float *place = out + static_cast<size_t>(blockIdx.x * blockDim.x + threadIdx.x) * WIDTH;
#pragma unroll 4
    for (int step = 0; step < steps; step++) {
        const float next = value + step;
#if WIDTH == 1
        asm volatile("st.global.f32 [%0], %1;" ::"l"(place), "f"(next) : "memory");
#elif WIDTH == 2
        asm volatile("st.global.v2.f32 [%0], {%1, %1};" ::"l"(place), "f"(next) : "memory");
#else
        asm volatile("st.global.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(place), "f"(next) : "memory");
#endif
    }
}
