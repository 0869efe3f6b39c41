// stack_walk: every thread stores to local memory and loads it, part by part, again and again.
//
// Layout:    out [gridDim.x * blockDim.x], BYTES of local memory of each thread
// Thread:    rounds of `stores` passes that store every part and `loads` passes that load every part.
// Constants: BYTES, STORED and LOADED (types of the parts), STORE_STEP and LOAD_STEP (bytes from one part to the next)
// Measures:  what L1 keeps of local memory, and what L2 sees of stores and loads of words and of parts of words.

extern "C" __global__ void stack_walk(unsigned *out, int stores, int loads, int rounds)
{
    alignas(16) unsigned char stack[BYTES];
    unsigned sum = threadIdx.x;
    for (int round = 0; round < rounds; round++) {
        for (int pass = 0; pass < stores; pass++) {
#pragma unroll 1
            for (int at = 0; at < BYTES; at += STORE_STEP)
                *reinterpret_cast<volatile STORED *>(stack + at) = static_cast<STORED>(sum + at + pass);
        }
        for (int pass = 0; pass < loads; pass++) {
#pragma unroll 1
            for (int at = 0; at < BYTES; at += LOAD_STEP)
                sum += *reinterpret_cast<volatile LOADED *>(stack + at);
        }
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
