// C = A * B for n x n matrices: 32 x 32 tiles, float4 loads and stores, four columns for each of 8 x 32 threads.
extern "C" __global__ void sgemm(float *c, const float *a, const float *b, int n)
{
    __shared__ float4 of_a[32][8];
    __shared__ float4 of_b[32][8];
    const int row = blockIdx.y * 32 + threadIdx.y;
    const int column = blockIdx.x * 32 + threadIdx.x * 4;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int k = 0; k < n; k += 32) {
        of_a[threadIdx.y][threadIdx.x] = *(const float4 *)&a[row * n + k + threadIdx.x * 4];
        of_b[threadIdx.y][threadIdx.x] = *(const float4 *)&b[(k + threadIdx.y) * n + column];
        __syncthreads();
        const float *left = (const float *)of_a[threadIdx.y];
        for (int j = 0; j < 32; j++) {
            const float4 right = of_b[j][threadIdx.x];
            sum.x += left[j] * right.x;
            sum.y += left[j] * right.y;
            sum.z += left[j] * right.z;
            sum.w += left[j] * right.w;
        }
        __syncthreads();
    }
    *(float4 *)&c[row * n + column] = sum;
}
