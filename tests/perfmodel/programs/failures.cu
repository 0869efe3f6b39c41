// A program that asks for a mipmapped array, which the stand-in runtime lacks, and writes past the end of a buffer, near to it and far away.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void good(float *x) { x[threadIdx.x] = 1.0f; }
__global__ void past_the_end(float *x, long long by) { x[threadIdx.x + by] = 2.0f; }

int main()
{
    cudaMipmappedArray_t levels;
    cudaChannelFormatDesc texels = cudaCreateChannelDesc<float>();
    std::printf("mipmaps: %s\n", cudaGetErrorName(cudaMallocMipmappedArray(&levels, &texels, cudaExtent{8, 8, 0}, 2, 0)));
    cudaGetLastError();
    float *x;
    cudaMalloc(&x, 64 * sizeof(float));
    for (int k = 0; k < 3; ++k) good<<<1, 64>>>(x);
    std::printf("good: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    float seen = 0;
    cudaMemcpy(&seen, x, sizeof seen, cudaMemcpyDeviceToHost);
    std::printf("x[0] is %g\n", seen);
    past_the_end<<<1, 64>>>(x, 1);
    std::printf("one past the end: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    past_the_end<<<1, 64>>>(x, 1 << 20);
    std::printf("past the end: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    std::printf("afterwards: %s\n", cudaGetErrorString(cudaMalloc(&x, 64)));
    return 0;
}
