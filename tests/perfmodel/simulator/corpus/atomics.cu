// Every atomic operation on 32 and 64 bits, in global and shared memory, with and without a result.
extern "C" __global__ void atomics(int *words, unsigned long long *wide, float *real, double *exact, int *old)
{
    __shared__ unsigned shared[4];
    const int t = threadIdx.x;
    if (t < 4)
        shared[t] = 0;
    __syncthreads();
    atomicAdd(&words[0], t);
    atomicSub(&words[1], t);
    atomicMin(&words[2], -t);
    atomicMax(&words[3], t);
    atomicAnd(&words[4], ~(1 << (t % 32)));
    atomicOr(&words[5], 1 << (t % 32));
    atomicXor(&words[6], t);
    old[t] = atomicExch(&words[7], t);
    atomicInc((unsigned *)&words[8], 10);
    atomicDec((unsigned *)&words[9], 10);
    atomicCAS(&words[10], t, t + 1);
    atomicAdd(&wide[0], (unsigned long long)t << 33);
    atomicMax(&wide[1], (unsigned long long)t * t);
    atomicAdd(real, 0.5f);
    unsigned long long seen = *(unsigned long long *)exact, assumed;
    do {
        assumed = seen;
        seen = atomicCAS((unsigned long long *)exact, assumed, __double_as_longlong(__longlong_as_double(assumed) + t));
    } while (assumed != seen);
    atomicAdd(&shared[t % 4], t);
    __syncthreads();
    if (t < 4)
        atomicAdd(&words[11 + t], shared[t]);
}
