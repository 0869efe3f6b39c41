// One instruction reductions of a warp (compute capability 8.0).
extern "C" __global__ void warp_reductions(int *out, const int *in, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned all = 0xffffffffu;
    out[i] = __reduce_add_sync(all, in[i]);
    out[i + n] = __reduce_min_sync(all, in[i]);
    out[i + 2 * n] = __reduce_max_sync(all, (unsigned)in[i]);
    out[i + 3 * n] = __reduce_and_sync(all, (unsigned)in[i]);
    out[i + 4 * n] = __reduce_xor_sync(all, (unsigned)in[i]) ^ __reduce_or_sync(all, (unsigned)in[i]);
}
