// Bits: counting, reversing, fields, permutes, funnel shifts, dot products.
extern "C" __global__ void bit_operations(unsigned *out, const unsigned *a, const unsigned *b, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned x = a[i], y = b[i];
    const unsigned shift = y % 40;
    out[i] = __popc(x) + 100 * __clz(x) + 10000 * __ffs(x);
    out[i + n] = __brev(x) ^ __byte_perm(x, y, 0x6240);
    out[i + 2 * n] = __funnelshift_l(x, y, shift) + __funnelshift_rc(x, y, shift);
    out[i + 3 * n] = __dp4a((int)x, (int)y, 7) + __dp4a(x, y, 9u);
    out[i + 4 * n] = __umulhi(x, y) + __mulhi((int)x, (int)y) + __usad(x, y, 3u) + __umul24(x, y);
    unsigned field, inserted;
    int signed_field;
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(field) : "r"(x), "r"(y % 32), "r"(x % 33));
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(signed_field) : "r"((int)x), "r"(y % 32), "r"(x % 33));
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(inserted) : "r"(x), "r"(y), "r"(x % 32), "r"(y % 33));
    out[i + 5 * n] = field;
    out[i + 6 * n] = signed_field;
    out[i + 7 * n] = inserted;
    out[i + 8 * n] = (x << shift) + (y >> shift) + ((int)x >> (x % 40));
    const unsigned long long wide = ((unsigned long long)x << 32) | y;
    out[i + 9 * n] = __popcll(wide) + 100 * __clzll(wide) + (unsigned)(__brevll(wide) >> 17) + __ffsll(wide);
    unsigned leading, nth;
    asm("bfind.s32 %0, %1;" : "=r"(leading) : "r"((int)x));
    asm("fns.b32 %0, %1, %2, %3;" : "=r"(nth) : "r"(x), "r"(y % 32), "r"((int)(x % 9) - 4));
    out[i + 10 * n] = leading;
    out[i + 11 * n] = nth;
}
