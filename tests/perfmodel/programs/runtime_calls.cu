// A program that uses each part of the CUDA runtime that the stand-in has, checks what it gets, and says "ok" for each.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            std::printf("line %d: %s\n", __LINE__, #condition); \
            std::exit(1); \
        } \
    } while (0)
#define OK(call) CHECK((call) == cudaSuccess)

struct Transform {
    float factor, offset;
    int pad[3];
};

__constant__ float table[4] = {1, 2, 3, 4};
__device__ unsigned int counter;
__device__ float start = 0.5f;
__device__ float *start_pointer = &start;
__managed__ int managed = 7;

__global__ void scale(const float *in, float *out, Transform t, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * t.factor + t.offset + table[i % 4] + *start_pointer;
    if (threadIdx.x == 0) atomicAdd(&counter, 1u);
}

__global__ void increment(int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
    if (i == 0) managed += 1;
}

__global__ void reverse(int *x)
{
    extern __shared__ int held[];
    held[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

template <int N> __global__ void fill(int *x) { x[threadIdx.x] = N; }

static void launches_and_symbols()
{
    const int n = 1000;
    std::vector<float> in(n), out(n);
    for (int i = 0; i < n; ++i) in[i] = float(i);
    float *d_in, *d_out;
    OK(cudaMalloc(&d_in, n * sizeof(float)));
    OK(cudaMalloc(&d_out, n * sizeof(float)));
    OK(cudaMemcpy(d_in, in.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    float changed[2] = {20, 30};
    OK(cudaMemcpyToSymbol(table, changed, sizeof changed, sizeof(float)));
    scale<<<4, 256>>>(d_in, d_out, Transform{2, 1, {}}, n);
    OK(cudaGetLastError());
    OK(cudaMemcpy(out.data(), d_out, n * sizeof(float), cudaMemcpyDeviceToHost));
    const float tables[4] = {1, 20, 30, 4};
    for (int i = 0; i < n; ++i) CHECK(out[i] == 2 * in[i] + 1 + tables[i % 4] + 0.5f);
    unsigned int calls = 0;
    OK(cudaMemcpyFromSymbol(&calls, counter, sizeof calls));
    CHECK(calls == 4);
    void *address;
    size_t bytes;
    OK(cudaGetSymbolAddress(&address, table));
    OK(cudaGetSymbolSize(&bytes, table));
    CHECK(bytes == 16);
    CHECK(cudaMemcpy(out.data(), d_out, (n + 1) * sizeof(float), cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);
    OK(cudaFree(d_in));
    OK(cudaFree(d_out));
    std::printf("launches and symbols ok\n");
}

static void host_memory()
{
    const int n = 500;
    int *both;
    OK(cudaMallocManaged(&both, n * sizeof(int)));
    for (int i = 0; i < n; ++i) both[i] = i;
    increment<<<2, 256>>>(both, n);
    OK(cudaDeviceSynchronize());
    CHECK(both[0] == 1 && both[n - 1] == n && managed == 8);
    int *pinned, *seen;
    OK(cudaHostAlloc(&pinned, n * sizeof(int), cudaHostAllocMapped));
    std::memset(pinned, 0, n * sizeof(int));
    OK(cudaHostGetDevicePointer(&seen, pinned, 0));
    increment<<<2, 256>>>(seen, n);
    OK(cudaDeviceSynchronize());
    CHECK(pinned[n - 1] == 1);
    std::vector<int> own(5000, 3);
    OK(cudaHostRegister(own.data(), own.size() * sizeof(int), cudaHostRegisterMapped));
    OK(cudaHostGetDevicePointer(&seen, own.data(), 0));
    increment<<<20, 256>>>(seen, 5000);
    OK(cudaDeviceSynchronize());
    OK(cudaHostUnregister(own.data()));
    CHECK(own[0] == 4 && own[4999] == 4);
    cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, both));
    CHECK(attributes.type == cudaMemoryTypeManaged);
    OK(cudaFree(both));
    OK(cudaFreeHost(pinned));
    std::printf("host memory ok\n");
}

static void pitched_copies()
{
    const size_t width = 100, height = 8;
    char *device, in[800], out[800];
    size_t pitch;
    for (int i = 0; i < 800; ++i) in[i] = char(i);
    OK(cudaMallocPitch(&device, &pitch, width, height));
    CHECK(pitch >= width);
    OK(cudaMemset2D(device, pitch, 1, width, height));
    OK(cudaMemcpy2D(device, pitch, in, width, width, height - 1, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(out, width, device, pitch, width, height, cudaMemcpyDeviceToHost));
    CHECK(std::memcmp(in, out, 700) == 0 && out[700] == 1 && out[799] == 1);
    OK(cudaFree(device));
    std::printf("pitched copies ok\n");
}

static void streams_events_graphs()
{
    const int n = 256;
    int *x, host[n];
    cudaStream_t stream, other;
    cudaEvent_t begin, end, fork;
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    OK(cudaMallocAsync(&x, n * sizeof(int), stream));
    OK(cudaMemsetAsync(x, 0, n * sizeof(int), stream));
    OK(cudaEventRecord(begin, stream));
    increment<<<1, n, 0, stream>>>(x, n);
    OK(cudaEventRecord(end, stream));
    OK(cudaEventSynchronize(end));
    float milliseconds = 0;
    OK(cudaEventElapsedTime(&milliseconds, begin, end));
    CHECK(milliseconds > 0 && milliseconds < 1);
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    increment<<<1, n, 0, stream>>>(x, n);
    OK(cudaEventRecord(fork, stream));
    OK(cudaStreamWaitEvent(other, fork, 0));
    increment<<<1, n, 0, other>>>(x, n);
    OK(cudaEventRecord(fork, other));
    OK(cudaStreamWaitEvent(stream, fork, 0));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(host[5] == 1);  // nothing of the graph has run
    OK(cudaGraphInstantiate(&ready, graph, 0));
    for (int k = 0; k < 3; ++k) OK(cudaGraphLaunch(ready, stream));
    OK(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(host[5] == 1 + 3 * 2);
    OK(cudaFreeAsync(x, stream));
    OK(cudaStreamDestroy(stream));
    std::printf("streams, events and graphs ok\n");
}

static void device_and_attributes()
{
    int count, registers, blocks, threads;
    cudaDeviceProp p;
    OK(cudaGetDeviceCount(&count));
    OK(cudaGetDeviceProperties(&p, 0));
    CHECK(count == 1 && p.major == 9 && p.multiProcessorCount == 132 && std::strstr(p.name, "H200"));
    OK(cudaDeviceGetAttribute(&registers, cudaDevAttrMaxRegistersPerBlock, 0));
    CHECK(registers == 65536);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reverse, 1024, 0));
    CHECK(blocks == 2);  // 2,048 threads of an SM
    OK(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, increment, 0, 0));
    CHECK(threads >= 256);
    int *x;
    OK(cudaMalloc(&x, 1024 * sizeof(int)));
    reverse<<<1, 1024, 100 * 1024>>>(x);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);  // more than 48 KiB, not asked for
    OK(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024));
    fill<3><<<1, 1024>>>(x);
    increment<<<1, 1>>>(x, 1);
    reverse<<<1, 1024, 100 * 1024>>>(x);
    OK(cudaGetLastError());
    int last;
    OK(cudaMemcpy(&last, x + 1023, sizeof last, cudaMemcpyDeviceToHost));
    CHECK(last == 4);
    fill<5><<<1, 2048>>>(x);
    CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
    OK(cudaFree(x));
    std::printf("device and attributes ok\n");
}

__global__ void doubled(cudaTextureObject_t from, cudaSurfaceObject_t to)
{
    int x = threadIdx.x % 8, y = threadIdx.x / 8;
    surf2Dwrite(2 * tex2D<float>(from, x + 0.5f, y + 0.5f), to, x * 4, y);
}

static void arrays_and_textures()
{
    float host[4][8], back[4][8], one[2];
    for (int k = 0; k < 32; ++k) host[k / 8][k % 8] = k;
    cudaChannelFormatDesc texels = cudaCreateChannelDesc<float>(), found;
    cudaArray_t from, to, volume;
    OK(cudaMallocArray(&from, &texels, 8, 4));
    OK(cudaMalloc3DArray(&to, &texels, cudaExtent{8, 4, 0}, cudaArraySurfaceLoadStore));
    OK(cudaMalloc3DArray(&volume, &texels, cudaExtent{8, 4, 2}));
    cudaExtent extent;
    unsigned flags;
    OK(cudaArrayGetInfo(&found, &extent, &flags, to));
    CHECK(found.x == 32 && found.f == cudaChannelFormatKindFloat && extent.height == 4 && flags == cudaArraySurfaceLoadStore);
    OK(cudaMemcpy2DToArray(from, 0, 0, host, 32, 32, 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DToArray(from, 4, 1, host, 32, 32, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = from;
    cudaTextureDesc description = {};
    description.filterMode = cudaFilterModeLinear;
    cudaTextureObject_t texture;
    cudaSurfaceObject_t surface;
    OK(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
    cudaTextureDesc kept;
    OK(cudaGetTextureObjectTextureDesc(&kept, texture));
    CHECK(kept.filterMode == cudaFilterModeLinear);
    resource.res.array.array = to;
    OK(cudaCreateSurfaceObject(&surface, &resource));
    doubled<<<1, 32>>>(texture, surface);
    OK(cudaMemcpy2DFromArray(back, 32, to, 0, 0, 32, 4, cudaMemcpyDeviceToHost));
    CHECK(back[0][3] == 6 && back[3][7] == 62);
    cudaMemcpy3DParms copy = {};
    copy.srcArray = to;
    copy.dstArray = volume;
    copy.dstPos = cudaPos{0, 0, 1};
    copy.extent = cudaExtent{8, 4, 1};
    copy.kind = cudaMemcpyDeviceToDevice;
    OK(cudaMemcpy3D(&copy));
    copy = cudaMemcpy3DParms{};
    copy.srcArray = volume;
    copy.srcPos = cudaPos{6, 2, 1};
    copy.dstPtr = make_cudaPitchedPtr(one, 8, 2, 1);
    copy.extent = cudaExtent{2, 1, 1};
    copy.kind = cudaMemcpyDeviceToHost;
    OK(cudaMemcpy3D(&copy));
    CHECK(one[0] == 2 * 22 && one[1] == 2 * 23);
    OK(cudaDestroyTextureObject(texture));
    OK(cudaDestroySurfaceObject(surface));
    OK(cudaFreeArray(from));
    CHECK(cudaFreeArray(from) == cudaErrorInvalidValue);
    std::printf("arrays and textures ok\n");
}

int main(int argc, char **argv)
{
    launches_and_symbols();
    host_memory();
    pitched_copies();
    arrays_and_textures();
    streams_events_graphs();
    device_and_attributes();
    std::printf("%d arguments, the last %s\n", argc - 1, argv[argc - 1]);
    return 0;
}
