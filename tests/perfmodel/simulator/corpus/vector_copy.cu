// Copies with 8- and 16-byte accesses.
extern "C" __global__ void vector_copy(float4 *wide, const float4 *in, double2 *pairs, const double2 *in_pairs, short4 *small,
                                       const short4 *in_small)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    wide[i] = in[i];
    pairs[i] = in_pairs[i];
    small[i] = in_small[i];
}
