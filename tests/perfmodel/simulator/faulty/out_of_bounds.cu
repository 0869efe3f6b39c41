// Reads one element past the end.
extern "C" __global__ void out_of_bounds(int *out, const int *in)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i + 1]; // FAULT
}
