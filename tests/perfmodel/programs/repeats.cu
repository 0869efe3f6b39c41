// Launches that are repeated with equal arguments: on equal memory, and on memory that the host, another launch or the launch itself has changed.
#include <cstdio>

constexpr int N = 4096, BLOCK = 256;
__constant__ float factor;

__global__ void scaled(const float *x, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = factor * x[i];
}

__global__ void incremented(float *x)
{
    x[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

__global__ void told(const float *x)
{
    if (threadIdx.x == 0)
        printf("told %g\n", x[0]);
}

__global__ void timed(long long *ticks)
{
    *ticks = clock64();
}

__global__ void sampled(cudaTextureObject_t texture, float *y)
{
    y[threadIdx.x] = tex1Dfetch<float>(texture, threadIdx.x);
}

static void show(const char *what, const float *from)
{
    float first;
    cudaMemcpy(&first, from, sizeof first, cudaMemcpyDeviceToHost);
    printf("%s %g\n", what, first);
}

static void fill(float *to, float value)
{
    static float all[N];
    for (float &one : all)
        one = value;
    cudaMemcpy(to, all, sizeof all, cudaMemcpyHostToDevice);
}

int main()
{
    float *x, *y, two = 2, three = 3;
    long long *ticks;
    cudaMalloc(&x, N * sizeof *x);
    cudaMalloc(&y, N * sizeof *y);
    cudaMalloc(&ticks, sizeof *ticks);
    cudaMemcpyToSymbol(factor, &two, sizeof two);
    fill(x, 5);
    for (int i = 0; i < 40; ++i)
        scaled<<<N / BLOCK, BLOCK>>>(x, y);
    show("scaled", y);
    fill(y, 0); // what was written is gone
    scaled<<<N / BLOCK, BLOCK>>>(x, y);
    show("scaled again", y);
    fill(x, 7);
    scaled<<<N / BLOCK, BLOCK>>>(x, y);
    show("of others", y);
    cudaMemcpyToSymbol(factor, &three, sizeof three);
    scaled<<<N / BLOCK, BLOCK>>>(x, y);
    show("by another factor", y);
    for (int i = 0; i < 10; ++i)
        incremented<<<N / BLOCK, BLOCK>>>(x);
    scaled<<<N / BLOCK, BLOCK>>>(x, y);
    show("after ten increments", y);
    for (int i = 0; i < 4; ++i)
        told<<<1, 32>>>(x);
    cudaDeviceSynchronize();
    for (int i = 0; i < 4; ++i)
        timed<<<1, 1>>>(ticks);

    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = x;
    resource.res.linear.desc = cudaCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = N * sizeof *x;
    cudaTextureDesc description = {};
    cudaTextureObject_t texture;
    cudaCreateTextureObject(&texture, &resource, &description, nullptr);
    for (int i = 0; i < 5; ++i)
        sampled<<<1, 32>>>(texture, y);
    show("sampled", y);
    fill(x, 1);
    sampled<<<1, 32>>>(texture, y);
    show("sampled of others", y);
}
