// Quotients and remainders, signed and unsigned, 32 and 64 bits; high products of 64 bits.
extern "C" __global__ void integer_division(int *q, int *r, unsigned *uq, long long *lq, long long *lr,
                                            unsigned long long *high, const int *a, const int *b, const long long *la,
                                            const long long *lb)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    q[i] = a[i] / b[i];
    r[i] = a[i] % b[i];
    uq[i] = (unsigned)a[i] / (unsigned)b[i];
    lq[i] = la[i] / lb[i];
    lr[i] = la[i] % lb[i];
    high[i] = __umul64hi((unsigned long long)la[i], (unsigned long long)lb[i]) + (unsigned long long)__mul64hi(la[i], lb[i]);
}
