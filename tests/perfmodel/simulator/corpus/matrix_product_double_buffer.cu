// One warp for each block walks over rows with a register double buffer.
extern "C" __global__ void matrix_product_double_buffer(float *out, const float *matrix, const float *vector, int n)
{
    const int row = blockIdx.x;
    float sum = 0.0f;
    float next = matrix[row * n + threadIdx.x];
    for (int k = threadIdx.x; k < n; k += 32) {
        const float here = next;
        if (k + 32 < n)
            next = matrix[row * n + k + 32];
        sum = fmaf(here, vector[k], sum);
    }
    for (int distance = 16; distance; distance >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (threadIdx.x == 0)
        out[row] = sum;
}
