// Barriers that count and join predicates.
extern "C" __global__ void barrier_reductions(int *out, const int *in)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int count = __syncthreads_count(in[i] > 10);
    const int every = __syncthreads_and(in[i] > -100);
    const int some = __syncthreads_or(in[i] > 95);
    out[i] = count * 4 + (every != 0) * 2 + (some != 0);
}
