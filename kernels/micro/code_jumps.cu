// code_jumps: warps jump from place to place in the code, and run a stretch of straight code at each.
//
// Layout:    floats [gridDim.x * blockDim.x]
// Thread:    steps stretches of BODY fused multiply-adds; after place p comes (p * times + plus) mod PLACES, and warp w begins at
//            w * apart mod PLACES.
// Constants: PLACES (a power of two from 8 to 512), BODY
// Measures:  what jumps cost by the size of the code and by how many places warps are at: in a scheduler's instruction cache, in
//            the SM's, in a GPC's, in L2.

#define JOIN(left, right) left##right
#define JOINED(left, right) JOIN(left, right)
#define PLACE(place)                  \
    case place:                       \
        stretch<place>(f, factor);    \
        break;
#define PLACES_2(place) PLACE(place) PLACE(place + 1)
#define PLACES_4(place) PLACES_2(place) PLACES_2(place + 2)
#define PLACES_8(place) PLACES_4(place) PLACES_4(place + 4)
#define PLACES_16(place) PLACES_8(place) PLACES_8(place + 8)
#define PLACES_32(place) PLACES_16(place) PLACES_16(place + 16)
#define PLACES_64(place) PLACES_32(place) PLACES_32(place + 32)
#define PLACES_128(place) PLACES_64(place) PLACES_64(place + 64)
#define PLACES_256(place) PLACES_128(place) PLACES_128(place + 128)
#define PLACES_512(place) PLACES_256(place) PLACES_256(place + 256)

template <int PLACE>
__device__ __forceinline__ void stretch(float (&f)[4], float factor)
{
#pragma unroll
    for (int i = 0; i < BODY; i++)
        f[i % 4] = fmaf(f[i % 4], factor, PLACE + 0.5f);
}

extern "C" __global__ void code_jumps(float *floats, float factor, int steps, int times, int plus, int apart)
{
    float f[4] = {threadIdx.x + 1.0f, threadIdx.x + 2.0f, threadIdx.x + 3.0f, threadIdx.x + 4.0f};
    int place = threadIdx.x / 32 * apart % PLACES;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        switch (place) {
            JOINED(PLACES_, PLACES)(0)
        }
        place = (place * times + plus) % PLACES;
    }
    floats[blockIdx.x * blockDim.x + threadIdx.x] = (f[0] + f[1]) + (f[2] + f[3]);
}
