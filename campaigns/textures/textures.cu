// Textures and surfaces of every kind: writes what each kernel computes, as 32-bit words, to the file of its first argument.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cstdlib>
#include <vector>

#define CHECK(call) do { cudaError_t e_ = (call); if (e_ != cudaSuccess) { std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_)); std::exit(1); } } while (0)

constexpr int N = 512;   // samples of a case
static uint32_t state = 12345;
static uint32_t drawn() { state = state * 1664525u + 1013904223u; return state >> 8; }
static float unit() { return float(drawn()) / 16777216.0f; }

__device__ void put(float *o, int i, float v) { o[i] = v; }
__device__ void put(float *o, int i, float4 v) { o[i] = v.x; o[N + i] = v.y; o[2 * N + i] = v.z; o[3 * N + i] = v.w; }
__device__ void put(float *o, int i, float2 v) { o[i] = v.x; o[N + i] = v.y; }
__device__ void put(float *o, int i, int v) { o[i] = __int_as_float(v); }
__device__ void put(float *o, int i, unsigned v) { o[i] = __uint_as_float(v); }
__device__ void put(float *o, int i, unsigned char v) { put(o, i, unsigned(v)); }
__device__ void put(float *o, int i, short v) { put(o, i, int(v)); }
__device__ void put(float *o, int i, ushort4 v) { put(o, i, make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w))); }
__device__ void put(float *o, int i, uchar4 v) { put(o, i, make_ushort4(v.x, v.y, v.z, v.w)); }
#define I int i = blockIdx.x * blockDim.x + threadIdx.x

template <class T> __global__ void fetch_1d(cudaTextureObject_t t, const float *x, float *o) { I; put(o, i, tex1Dfetch<T>(t, int(x[i]))); }
template <class T> __global__ void read_1d(cudaTextureObject_t t, const float *x, float *o) { I; put(o, i, tex1D<T>(t, x[i])); }
template <class T> __global__ void read_2d(cudaTextureObject_t t, const float *x, const float *y, float *o) { I; put(o, i, tex2D<T>(t, x[i], y[i])); }
template <class T> __global__ void read_3d(cudaTextureObject_t t, const float *x, const float *y, const float *z, float *o) { I; put(o, i, tex3D<T>(t, x[i], y[i], z[i])); }
template <class T> __global__ void read_1d_layered(cudaTextureObject_t t, const float *x, const float *z, float *o) { I; put(o, i, tex1DLayered<T>(t, x[i], int(z[i]))); }
template <class T> __global__ void read_2d_layered(cudaTextureObject_t t, const float *x, const float *y, const float *z, float *o) { I; put(o, i, tex2DLayered<T>(t, x[i], y[i], int(z[i]))); }
template <class T> __global__ void read_cube(cudaTextureObject_t t, const float *x, const float *y, const float *z, float *o) { I; put(o, i, texCubemap<T>(t, x[i], y[i], z[i])); }
template <class T> __global__ void read_cube_layered(cudaTextureObject_t t, const float *x, const float *y, const float *z, float *o) { I; put(o, i, texCubemapLayered<T>(t, x[i], y[i], z[i], i % 2)); }
template <int C> __global__ void gather(cudaTextureObject_t t, const float *x, const float *y, float *o) { I; put(o, i, tex2Dgather<float4>(t, x[i], y[i], C)); }
__global__ void read_lod(cudaTextureObject_t t, const float *x, const float *y, float *o) { I; put(o, i, tex2DLod<float>(t, x[i], y[i], float(i % 3))); }
__global__ void read_gradient(cudaTextureObject_t t, const float *x, const float *y, float *o) { I; put(o, i, tex2DGrad<float>(t, x[i], y[i], make_float2(0.5f, 0.25f), make_float2(0.125f, 2.0f))); }
// objects that differ from lane to lane
__global__ void read_chosen(cudaTextureObject_t a, cudaTextureObject_t b, const float *x, const float *y, float *o) { I; put(o, i, tex2D<float>(i % 3 ? a : b, x[i], y[i])); }
__global__ void read_listed(const cudaTextureObject_t *list, const float *x, const float *y, float *o) { I; put(o, i, tex2D<float>(list[i % 2], x[i], y[i])); }
struct Pair { cudaTextureObject_t first; int factor; cudaTextureObject_t second; };
__global__ void read_member(Pair p, const float *x, const float *y, float *o) { I; put(o, i, tex2D<float>(p.second, x[i], y[i]) * p.factor); }

template <class T, cudaSurfaceBoundaryMode M> __global__ void load_1d(cudaSurfaceObject_t s, const float *x, float *o) { I; put(o, i, surf1Dread<T>(s, int(x[i]) * int(sizeof(T)), M)); }
template <class T, cudaSurfaceBoundaryMode M> __global__ void load_2d(cudaSurfaceObject_t s, const float *x, const float *y, float *o) { I; put(o, i, surf2Dread<T>(s, int(x[i]) * int(sizeof(T)), int(y[i]), M)); }
template <class T, cudaSurfaceBoundaryMode M> __global__ void load_3d(cudaSurfaceObject_t s, const float *x, const float *y, const float *z, float *o) { I; put(o, i, surf3Dread<T>(s, int(x[i]) * int(sizeof(T)), int(y[i]), int(z[i]), M)); }
template <class T, cudaSurfaceBoundaryMode M> __global__ void load_2d_layered(cudaSurfaceObject_t s, const float *x, const float *y, const float *z, float *o) { I; put(o, i, surf2DLayeredread<T>(s, int(x[i]) * int(sizeof(T)), int(y[i]), int(z[i]), M)); }
__global__ void store_2d(cudaSurfaceObject_t s) { int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y; surf2Dwrite(float(100 * y + x), s, (x - 2) * 4, y - 1, cudaBoundaryModeZero); }
__global__ void store_2d_clamped(cudaSurfaceObject_t s) { int x = threadIdx.x; if (x < 2) surf2Dwrite(float(7 + x), s, (x ? 1000 : -5) * 4, x ? -3 : 1000, cudaBoundaryModeClamp); }
__global__ void store_bytes(cudaSurfaceObject_t s) { int x = threadIdx.x, y = blockIdx.x; surf2Dwrite(make_uchar4(x, y, x + y, x * y), s, x * 4, y); }
__global__ void store_3d(cudaSurfaceObject_t s) { int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x; surf3Dwrite(float(x + 10 * y + 100 * z), s, x * 4, y, z); }
__global__ void store_1d(cudaSurfaceObject_t s) { int x = threadIdx.x; surf1Dwrite(make_float2(x, -x), s, x * 8); }
__global__ void store_2d_layered(cudaSurfaceObject_t s) { int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x; surf2DLayeredwrite(make_float4(x, y, z, 1), s, x * 16, y, z); }

// ---- patterns of accesses, to be counted
__global__ void p_fetch(cudaTextureObject_t t, float *o, int step) { I; o[i] = tex1Dfetch<float>(t, i * step); }
__global__ void p_fetch4(cudaTextureObject_t t, float *o, int step) { I; float4 v = tex1Dfetch<float4>(t, i * step); o[i] = v.x + v.y + v.z + v.w; }
__global__ void p_plane(cudaTextureObject_t t, float *o, float sx, float sy, float off, int w) { int x = threadIdx.x % w, y = threadIdx.x / w + blockIdx.x * (32 / w); o[blockIdx.x * 32 + threadIdx.x] = tex2D<float>(t, (x + off) * sx, (y + off) * sy); }
__global__ void p_plane4(cudaTextureObject_t t, float *o, float off, int w) { int x = threadIdx.x % w, y = threadIdx.x / w; float4 v = tex2D<float4>(t, x + off, y + off); o[threadIdx.x] = v.x + v.y + v.z + v.w; }
__global__ void p_space(cudaTextureObject_t t, float *o, float off, int w) { int x = threadIdx.x % w, y = threadIdx.x / w % w, z = threadIdx.x / w / w; o[threadIdx.x] = tex3D<float>(t, x + off, y + off, z + off); }
__global__ void p_surface_load(cudaSurfaceObject_t s, float *o, int w) { int x = threadIdx.x % w, y = threadIdx.x / w; o[threadIdx.x] = surf2Dread<float>(s, x * 4, y); }
__global__ void p_surface_load4(cudaSurfaceObject_t s, float *o, int w) { int x = threadIdx.x % w, y = threadIdx.x / w; float4 v = surf2Dread<float4>(s, x * 16, y); o[threadIdx.x] = v.x + v.y + v.z + v.w; }
__global__ void p_surface_store(cudaSurfaceObject_t s, float *o, int w) { int x = threadIdx.x % w, y = threadIdx.x / w; surf2Dwrite(float(x), s, x * 4, y); o[threadIdx.x] = x; }
__global__ void p_surface_store4(cudaSurfaceObject_t s, float *o, int w) { int x = threadIdx.x % w, y = threadIdx.x / w; surf2Dwrite(make_float4(x, y, 0, 1), s, x * 16, y); o[threadIdx.x] = x; }
template <class T> __global__ void p_cycles(cudaTextureObject_t t, float *o, float off, int w, int rounds) {
    int x = threadIdx.x % 32 % w, y = threadIdx.x / 32 * (32 / w) + threadIdx.x % 32 / w;
    float a = 0, b = 0, c = 0, d = 0;
    long long begin = clock64();
    for (int r = 0; r < rounds; ++r) {
        T v0 = tex2D<T>(t, x + off, y + off), v1 = tex2D<T>(t, x + off + 1, y + off), v2 = tex2D<T>(t, x + off, y + off + 1), v3 = tex2D<T>(t, x + off + 1, y + off + 1);
        a += *(float *)&v0; b += *(float *)&v1; c += *(float *)&v2; d += *(float *)&v3; off += 1.0f; if (off > 8.0f) off -= 8.0f;
    }
    long long end = clock64();
    o[blockIdx.x * blockDim.x + threadIdx.x + 8] = a + b + c + d;
    if (threadIdx.x == 0 && blockIdx.x == 0) o[0] = float(end - begin) / (rounds * 4);
}
__global__ void p_latency(cudaTextureObject_t t, float *o, int rounds) {
    float x = 0.5f; long long begin = clock64();
    for (int r = 0; r < rounds; ++r) x = tex2D<float>(t, x, 0.5f) + 0.5f;
    long long end = clock64(); o[0] = float(end - begin) / rounds; o[1] = x;
}
__global__ void p_latency_1d(cudaTextureObject_t t, float *o, int rounds) {
    int x = 0; long long begin = clock64();
    for (int r = 0; r < rounds; ++r) x = int(tex1Dfetch<float>(t, x));
    long long end = clock64(); o[0] = float(end - begin) / rounds; o[1] = x;
}

static FILE *file;
static float *out, *dx, *dy, *dz;
static int cases = 0;
static void done(const char *name, int words) {
    cudaError_t e = cudaDeviceSynchronize();
    if (e != cudaSuccess) { std::fprintf(stderr, "case %s: %s\n", name, cudaGetErrorString(e)); std::exit(1); }
    std::vector<uint32_t> host(words);
    CHECK(cudaMemcpy(host.data(), out, words * 4, cudaMemcpyDeviceToHost));
    char head[48] = {}; std::snprintf(head, sizeof head, "%s", name);
    std::fwrite(head, 1, 48, file); std::fwrite(&words, 4, 1, file); std::fwrite(host.data(), 4, words, file);
    CHECK(cudaMemset(out, 0xCD, 1 << 20)); ++cases;
}
static void coordinates(float lx, float hx, float ly, float hy, float lz, float hz) {
    std::vector<float> v(N);
    float *where[3] = {dx, dy, dz}; float low[3] = {lx, ly, lz}, high[3] = {hx, hy, hz};
    for (int k = 0; k < 3; ++k) {
        for (int i = 0; i < N; ++i) v[i] = low[k] + (high[k] - low[k]) * unit();
        if (k < 2) for (int i = 0; i < N; i += 4) v[i] = float(int(v[i] * 8)) / 8;  // places between texels
        CHECK(cudaMemcpy(where[k], v.data(), N * 4, cudaMemcpyHostToDevice));
    }
}
template <class T> T value();
template <> float value<float>() { return unit() * 2 - 1; }
template <> float2 value<float2>() { return {unit(), unit() * 100}; }
template <> float4 value<float4>() { return {unit(), unit(), -unit(), unit() * 10}; }
template <> unsigned char value<unsigned char>() { return drawn(); }
template <> short value<short>() { return drawn(); }
template <> unsigned short value<unsigned short>() { return drawn(); }
template <> int value<int>() { return drawn() * 77; }
template <> char value<char>() { return drawn(); }
template <> uchar4 value<uchar4>() { unsigned char a = drawn(), b = drawn(), c = drawn(), d = drawn(); return {a, b, c, d}; }
template <> ushort4 value<ushort4>() { unsigned short a = drawn(), b = drawn(), c = drawn(), d = drawn(); return {a, b, c, d}; }
template <> __half value<__half>() { return __float2half(unit() * 2 - 1); }
template <class T> std::vector<T> values(size_t n) { std::vector<T> v; for (size_t i = 0; i < n; ++i) v.push_back(value<T>()); return v; }

template <class T> cudaChannelFormatDesc channels() { return cudaCreateChannelDesc<T>(); }
template <> cudaChannelFormatDesc channels<__half>() { return cudaCreateChannelDescHalf(); }
template <class T> cudaArray_t array_1d(int w) {
    cudaChannelFormatDesc d = channels<T>(); cudaArray_t a; CHECK(cudaMallocArray(&a, &d, w, 0, cudaArraySurfaceLoadStore));
    auto v = values<T>(w); CHECK(cudaMemcpy2DToArray(a, 0, 0, v.data(), w * sizeof(T), w * sizeof(T), 1, cudaMemcpyHostToDevice)); return a;
}
template <class T> cudaArray_t array_2d(int w, int h, unsigned flags = cudaArraySurfaceLoadStore) {
    cudaChannelFormatDesc d = channels<T>(); cudaArray_t a; CHECK(cudaMallocArray(&a, &d, w, h, flags));
    auto v = values<T>(size_t(w) * h); CHECK(cudaMemcpy2DToArray(a, 0, 0, v.data(), w * sizeof(T), w * sizeof(T), h, cudaMemcpyHostToDevice)); return a;
}
template <class T> cudaArray_t array_3d(int w, int h, int d, unsigned flags) {
    cudaChannelFormatDesc f = cudaCreateChannelDesc<T>(); cudaArray_t a; CHECK(cudaMalloc3DArray(&a, &f, make_cudaExtent(w, h, d), flags));
    int rows = h ? h : 1; auto v = values<T>(size_t(w) * rows * d);
    cudaMemcpy3DParms p = {}; p.srcPtr = make_cudaPitchedPtr(v.data(), w * sizeof(T), w, rows); p.dstArray = a; p.extent = make_cudaExtent(w, rows, d); p.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&p)); return a;
}
static cudaTextureDesc sampler(bool linear, bool normalized, cudaTextureAddressMode mode, bool as_float = false) {
    cudaTextureDesc d; std::memset(&d, 0, sizeof d);
    for (auto &m : d.addressMode) m = mode;
    d.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint; d.normalizedCoords = normalized;
    d.readMode = as_float ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
    d.borderColor[0] = 0.75f; d.borderColor[1] = 0.5f; d.borderColor[2] = 0.25f; d.borderColor[3] = 1.0f; return d;
}
static cudaTextureObject_t texture(cudaArray_t a, cudaTextureDesc d) {
    cudaResourceDesc r; std::memset(&r, 0, sizeof r); r.resType = cudaResourceTypeArray; r.res.array.array = a;
    cudaTextureObject_t t; CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr)); return t;
}
template <class T> cudaTextureObject_t linear_texture(T *data, int n, cudaTextureDesc d) {
    cudaResourceDesc r; std::memset(&r, 0, sizeof r); r.resType = cudaResourceTypeLinear; r.res.linear.devPtr = data; r.res.linear.desc = cudaCreateChannelDesc<T>(); r.res.linear.sizeInBytes = n * sizeof(T);
    cudaTextureObject_t t; CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr)); return t;
}
template <class T> cudaTextureObject_t pitched_texture(T *data, int w, int h, size_t pitch, cudaTextureDesc d) {
    cudaResourceDesc r; std::memset(&r, 0, sizeof r); r.resType = cudaResourceTypePitch2D; r.res.pitch2D.devPtr = data; r.res.pitch2D.desc = cudaCreateChannelDesc<T>(); r.res.pitch2D.width = w; r.res.pitch2D.height = h; r.res.pitch2D.pitchInBytes = pitch;
    cudaTextureObject_t t; CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr)); return t;
}
static cudaSurfaceObject_t surface(cudaArray_t a) {
    cudaResourceDesc r; std::memset(&r, 0, sizeof r); r.resType = cudaResourceTypeArray; r.res.array.array = a;
    cudaSurfaceObject_t s; CHECK(cudaCreateSurfaceObject(&s, &r)); return s;
}
template <class T> T *device(int n) { auto v = values<T>(n); T *p; CHECK(cudaMalloc(&p, n * sizeof(T))); CHECK(cudaMemcpy(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice)); return p; }

static const cudaTextureAddressMode MODES[4] = {cudaAddressModeClamp, cudaAddressModeBorder, cudaAddressModeWrap, cudaAddressModeMirror};
static const char *const NAMES[4] = {"clamp", "border", "wrap", "mirror"};
#define GO <<<N / 128, 128>>>
#define TAG(...) (std::snprintf(tag, sizeof tag, __VA_ARGS__), tag)

static void outputs() {
    char tag[64];
    cudaTextureDesc plain = sampler(false, false, cudaAddressModeClamp);
    { // linear memory
        auto a = linear_texture(device<float>(200), 200, plain); coordinates(-20, 230, 0, 0, 0, 0); fetch_1d<float>GO(a, dx, out); done("fetch_1d f32", N);
        auto b = linear_texture(device<float4>(200), 200, plain); fetch_1d<float4>GO(b, dx, out); done("fetch_1d f32x4", 4 * N);
        auto c = linear_texture(device<unsigned char>(200), 200, sampler(false, false, cudaAddressModeClamp, true)); fetch_1d<float>GO(c, dx, out); done("fetch_1d u8 normalized float", N);
        auto d = linear_texture(device<short>(200), 200, plain); fetch_1d<short>GO(d, dx, out); done("fetch_1d i16", N);
        auto e = linear_texture(device<int>(200), 200, plain); fetch_1d<int>GO(e, dx, out); done("fetch_1d i32", N);
        auto f = linear_texture(device<uchar4>(200), 200, plain); fetch_1d<uchar4>GO(f, dx, out); done("fetch_1d u8x4", 4 * N);
    }
    for (int linear = 0; linear < 2; ++linear)
        for (int normalized = 0; normalized < 2; ++normalized)
            for (int m = 0; m < (normalized ? 4 : 2); ++m) {
                cudaTextureDesc d = sampler(linear, normalized, MODES[m]);
                float w = normalized ? 1 : 37, h = normalized ? 1 : 21, e = normalized ? 1 : 9;
                const char *how = linear ? "linear" : "point", *unit_ = normalized ? "normalized" : "texels";
                coordinates(-1.7f * w, 2.6f * w, -1.7f * h, 2.6f * h, -1.7f * e, 2.6f * e);
                auto a = texture(array_1d<float>(37), d); read_1d<float>GO(a, dx, out); done(TAG("1d f32 %s %s %s", how, unit_, NAMES[m]), N);
                auto b = texture(array_2d<float>(37, 21), d); read_2d<float>GO(b, dx, dy, out); done(TAG("2d f32 %s %s %s", how, unit_, NAMES[m]), N);
                auto c = texture(array_3d<float>(37, 21, 9, 0), d); read_3d<float>GO(c, dx, dy, dz, out); done(TAG("3d f32 %s %s %s", how, unit_, NAMES[m]), N);
            }
    coordinates(-3, 40, -3, 24, -2.5f, 7.5f);
    for (int linear = 0; linear < 2; ++linear) {
        cudaTextureDesc d = sampler(linear, false, cudaAddressModeClamp), f = sampler(linear, false, cudaAddressModeClamp, true);
        const char *how = linear ? "linear" : "point";
        auto a = texture(array_3d<float>(37, 21, 5, cudaArrayLayered), d); read_2d_layered<float>GO(a, dx, dy, dz, out); done(TAG("2d layered f32 %s", how), N);
        auto b = texture(array_3d<float>(37, 0, 5, cudaArrayLayered), d); read_1d_layered<float>GO(b, dx, dz, out); done(TAG("1d layered f32 %s", how), N);
        read_2d<float>GO(texture(array_2d<unsigned char>(37, 21), f), dx, dy, out); done(TAG("2d u8 normalized float %s", how), N);
        read_2d<float>GO(texture(array_2d<char>(37, 21), f), dx, dy, out); done(TAG("2d i8 normalized float %s", how), N);
        read_2d<float>GO(texture(array_2d<unsigned short>(37, 21), f), dx, dy, out); done(TAG("2d u16 normalized float %s", how), N);
        read_2d<float>GO(texture(array_2d<short>(37, 21), f), dx, dy, out); done(TAG("2d i16 normalized float %s", how), N);
        read_2d<float4>GO(texture(array_2d<uchar4>(37, 21), f), dx, dy, out); done(TAG("2d u8x4 normalized float %s", how), 4 * N);
        read_2d<float>GO(texture(array_2d<__half>(37, 21), d), dx, dy, out); done(TAG("2d f16 %s", how), N);
        read_2d<float4>GO(texture(array_2d<float4>(37, 21), d), dx, dy, out); done(TAG("2d f32x4 %s", how), 4 * N);
        read_2d<float2>GO(texture(array_2d<float2>(37, 21), d), dx, dy, out); done(TAG("2d f32x2 %s", how), 2 * N);
        read_lod GO(texture(array_2d<float>(37, 21), d), dx, dy, out); done(TAG("2d lod %s", how), N);
        read_gradient GO(texture(array_2d<float>(37, 21), d), dx, dy, out); done(TAG("2d gradient %s", how), N);
        float *p; size_t pitch; CHECK(cudaMallocPitch(&p, &pitch, 37 * 4, 21)); auto v = values<float>(37 * 21);
        CHECK(cudaMemcpy2D(p, pitch, v.data(), 37 * 4, 37 * 4, 21, cudaMemcpyHostToDevice));
        read_2d<float>GO(pitched_texture(p, 37, 21, pitch, d), dx, dy, out); done(TAG("2d pitch f32 %s", how), N);
    }
    read_2d<ushort4>GO(texture(array_2d<ushort4>(37, 21), plain), dx, dy, out); done("2d u16x4 point", 4 * N);
    read_2d<int>GO(texture(array_2d<int>(37, 21), plain), dx, dy, out); done("2d i32 point", N);
    read_2d<unsigned char>GO(texture(array_2d<unsigned char>(37, 21), plain), dx, dy, out); done("2d u8 point", N);
    { auto g = texture(array_2d<float>(37, 21, cudaArrayTextureGather), plain); gather<0>GO(g, dx, dy, out); done("gather f32 0", 4 * N);
      auto g4 = texture(array_2d<float4>(37, 21, cudaArrayTextureGather), plain); gather<2>GO(g4, dx, dy, out); done("gather f32x4 2", 4 * N);
      auto gb = texture(array_2d<float>(37, 21, cudaArrayTextureGather), sampler(false, false, cudaAddressModeBorder)); gather<0>GO(gb, dx, dy, out); done("gather border", 4 * N); }
    { auto a = texture(array_2d<float>(37, 21), plain), b = texture(array_2d<float>(37, 21), sampler(true, false, cudaAddressModeClamp));
      read_chosen GO(a, b, dx, dy, out); done("objects by lane", N);
      cudaTextureObject_t list[2] = {a, b}, *dl; CHECK(cudaMalloc(&dl, 16)); CHECK(cudaMemcpy(dl, list, 16, cudaMemcpyHostToDevice));
      read_listed GO(dl, dx, dy, out); done("objects of a list", N);
      Pair pair{a, 3, b}; read_member GO(pair, dx, dy, out); done("object of a structure", N); }
    coordinates(-1, 1, -1, 1, -1, 1);
    for (int linear = 0; linear < 2; ++linear) {
        cudaTextureDesc d = sampler(linear, true, cudaAddressModeClamp);
        read_cube<float>GO(texture(array_3d<float>(16, 16, 6, cudaArrayCubemap), d), dx, dy, dz, out); done(linear ? "cube linear" : "cube point", N);
        read_cube_layered<float>GO(texture(array_3d<float>(16, 16, 12, cudaArrayCubemap | cudaArrayLayered), d), dx, dy, dz, out); done(linear ? "cube layered linear" : "cube layered point", N);
    }
    // surfaces
    coordinates(-8, 45, -5, 26, -2, 11);
    load_1d<float, cudaBoundaryModeZero>GO(surface(array_1d<float>(37)), dx, out); done("surface 1d zero", N);
    load_1d<float2, cudaBoundaryModeClamp>GO(surface(array_1d<float2>(37)), dx, out); done("surface 1d f32x2 clamp", 2 * N);
    load_2d<float, cudaBoundaryModeZero>GO(surface(array_2d<float>(37, 21)), dx, dy, out); done("surface 2d zero", N);
    load_2d<float, cudaBoundaryModeClamp>GO(surface(array_2d<float>(37, 21)), dx, dy, out); done("surface 2d clamp", N);
    load_2d<float4, cudaBoundaryModeClamp>GO(surface(array_2d<float4>(37, 21)), dx, dy, out); done("surface 2d f32x4 clamp", 4 * N);
    load_2d<unsigned char, cudaBoundaryModeZero>GO(surface(array_2d<unsigned char>(37, 21)), dx, dy, out); done("surface 2d u8 zero", N);
    load_2d<short, cudaBoundaryModeClamp>GO(surface(array_2d<short>(37, 21)), dx, dy, out); done("surface 2d i16 clamp", N);
    load_3d<float, cudaBoundaryModeZero>GO(surface(array_3d<float>(37, 21, 9, cudaArraySurfaceLoadStore)), dx, dy, dz, out); done("surface 3d zero", N);
    load_3d<float, cudaBoundaryModeClamp>GO(surface(array_3d<float>(37, 21, 9, cudaArraySurfaceLoadStore)), dx, dy, dz, out); done("surface 3d clamp", N);
    load_2d_layered<float, cudaBoundaryModeZero>GO(surface(array_3d<float>(37, 21, 5, cudaArraySurfaceLoadStore | cudaArrayLayered)), dx, dy, dz, out); done("surface 2d layered zero", N);
    load_2d_layered<float, cudaBoundaryModeClamp>GO(surface(array_3d<float>(37, 21, 5, cudaArraySurfaceLoadStore | cudaArrayLayered)), dx, dy, dz, out); done("surface 2d layered clamp", N);
    auto back = [](cudaArray_t a, int width_bytes, int h) { CHECK(cudaMemcpy2DFromArray(out, width_bytes, a, 0, 0, width_bytes, h, cudaMemcpyDeviceToDevice)); };
    { auto a = array_2d<float>(37, 21); store_2d<<<dim3(2, 25), 24>>>(surface(a)); back(a, 37 * 4, 21); done("surface store 2d zero", 37 * 21); }
    { auto a = array_2d<float>(37, 21); store_2d_clamped<<<1, 32>>>(surface(a)); back(a, 37 * 4, 21); done("surface store 2d clamp", 37 * 21); }
    { auto a = array_2d<uchar4>(37, 21); store_bytes<<<21, 37>>>(surface(a)); back(a, 37 * 4, 21); done("surface store u8x4", 37 * 21); }
    { auto a = array_1d<float2>(37); store_1d<<<1, 37>>>(surface(a)); back(a, 37 * 8, 1); done("surface store 1d f32x2", 37 * 2); }
    auto cube_back = [](cudaArray_t a, int w, int element, int h, int d) {
        cudaMemcpy3DParms p = {}; p.srcArray = a; p.dstPtr = make_cudaPitchedPtr(out, w * element, w, h); p.extent = make_cudaExtent(w, h, d); p.kind = cudaMemcpyDeviceToDevice; CHECK(cudaMemcpy3D(&p)); };
    { auto a = array_3d<float>(16, 8, 5, cudaArraySurfaceLoadStore); store_3d<<<5, dim3(16, 8)>>>(surface(a)); cube_back(a, 16, 4, 8, 5); done("surface store 3d", 16 * 8 * 5); }
    { auto a = array_3d<float4>(16, 8, 5, cudaArraySurfaceLoadStore | cudaArrayLayered); store_2d_layered<<<5, dim3(16, 8)>>>(surface(a)); cube_back(a, 16, 16, 8, 5); done("surface store 2d layered f32x4", 4 * 16 * 8 * 5); }
}

static void patterns() {
    cudaTextureDesc plain = sampler(false, false, cudaAddressModeClamp), smooth = sampler(true, false, cudaAddressModeClamp);
    auto line = linear_texture(device<float>(65536), 65536, plain); auto line4 = linear_texture(device<float4>(65536), 65536, plain);
    for (int step : {1, 2, 4, 8, 16, 32}) p_fetch<<<1, 32>>>(line, out, step);
    for (int step : {1, 2, 8}) p_fetch4<<<1, 32>>>(line4, out, step);
    auto plane = texture(array_2d<float>(256, 256), plain), smooth_plane = texture(array_2d<float>(256, 256), smooth);
    auto bytes = texture(array_2d<unsigned char>(256, 256), sampler(false, false, cudaAddressModeClamp, true));
    for (int w : {32, 16, 8, 4, 2, 1}) p_plane<<<1, 32>>>(plane, out, 1, 1, 0.5f, w);
    for (int w : {32, 8, 1}) p_plane<<<1, 32>>>(smooth_plane, out, 1, 1, 0.5f, w);   // on texels
    for (int w : {32, 8, 1}) p_plane<<<1, 32>>>(smooth_plane, out, 1, 1, 0.75f, w);  // between texels
    p_plane<<<1, 32>>>(plane, out, 2, 1, 0.5f, 32); p_plane<<<1, 32>>>(plane, out, 8, 1, 0.5f, 32); p_plane<<<1, 32>>>(plane, out, 8, 8, 0.5f, 8); p_plane<<<1, 32>>>(smooth_plane, out, 8, 8, 0.75f, 8);
    for (int w : {32, 8}) p_plane<<<1, 32>>>(bytes, out, 1, 1, 0.5f, w);
    auto plane4 = texture(array_2d<float4>(256, 256), plain), smooth4 = texture(array_2d<float4>(256, 256), smooth);
    for (int w : {32, 8, 1}) p_plane4<<<1, 32>>>(plane4, out, 0.5f, w);
    for (int w : {32, 8}) p_plane4<<<1, 32>>>(smooth4, out, 0.75f, w);
    auto pitched = [&] { float *p; size_t pitch; CHECK(cudaMallocPitch(&p, &pitch, 256 * 4, 256)); return pitched_texture(p, 256, 256, pitch, plain); }();
    for (int w : {32, 8, 1}) p_plane<<<1, 32>>>(pitched, out, 1, 1, 0.5f, w);
    auto space = texture(array_3d<float>(64, 64, 64, 0), plain), smooth_space = texture(array_3d<float>(64, 64, 64, 0), smooth);
    for (int w : {32, 8, 4, 2}) p_space<<<1, 32>>>(space, out, 0.5f, w);
    for (int w : {32, 4}) p_space<<<1, 32>>>(smooth_space, out, 0.75f, w);
    auto s = surface(array_2d<float>(256, 256)); auto s4 = surface(array_2d<float4>(256, 256));
    for (int w : {32, 8, 1}) { p_surface_load<<<1, 32>>>(s, out, w); p_surface_store<<<1, 32>>>(s, out, w); p_surface_load4<<<1, 32>>>(s4, out, w); p_surface_store4<<<1, 32>>>(s4, out, w); }
    CHECK(cudaDeviceSynchronize());
}
static void rates() {
    cudaTextureDesc plain = sampler(false, false, cudaAddressModeClamp), smooth = sampler(true, false, cudaAddressModeClamp);
    auto show = [](const char *name) { CHECK(cudaDeviceSynchronize()); float v; CHECK(cudaMemcpy(&v, out, 4, cudaMemcpyDeviceToHost)); std::printf("%s: %.2f cycles\n", name, v); };
    auto plane = texture(array_2d<float>(64, 64), plain), smooth_plane = texture(array_2d<float>(64, 64), smooth), plane4 = texture(array_2d<float4>(64, 64), plain), smooth4 = texture(array_2d<float4>(64, 64), smooth);
    auto plane2 = texture(array_2d<float2>(64, 64), plain), smooth2 = texture(array_2d<float2>(64, 64), smooth);
    auto byte4 = texture(array_2d<uchar4>(64, 64), sampler(true, false, cudaAddressModeClamp, true));
    for (int k = 0; k < 2; ++k)
        for (int w : {32, 8}) {
            std::printf("width %d, 32 warps of one SM, cycles of SM for a warp's instruction = value / 32\n", w);
            p_cycles<float><<<1, 1024>>>(plane, out, 0.5f, w, 64); show("point f32");
            p_cycles<float2><<<1, 1024>>>(plane2, out, 0.5f, w, 64); show("point f32x2");
            p_cycles<float4><<<1, 1024>>>(plane4, out, 0.5f, w, 64); show("point f32x4");
            p_cycles<float><<<1, 1024>>>(smooth_plane, out, 0.75f, w, 64); show("linear f32");
            p_cycles<float2><<<1, 1024>>>(smooth2, out, 0.75f, w, 64); show("linear f32x2");
            p_cycles<float4><<<1, 1024>>>(smooth4, out, 0.75f, w, 64); show("linear f32x4");
            p_cycles<float4><<<1, 1024>>>(byte4, out, 0.75f, w, 64); show("linear u8x4 as float");
        }
    p_latency<<<1, 1>>>(plane, out, 1000); show("latency point 2d"); p_latency<<<1, 1>>>(smooth_plane, out, 1000); show("latency linear 2d");
    auto zeros = device<float>(64); CHECK(cudaMemset(zeros, 0, 256)); p_latency_1d<<<1, 1>>>(linear_texture(zeros, 64, plain), out, 1000); show("latency fetch 1d");
}
int main(int count, char **words) {
    CHECK(cudaMalloc(&out, 1 << 20)); CHECK(cudaMalloc(&dx, N * 4)); CHECK(cudaMalloc(&dy, N * 4)); CHECK(cudaMalloc(&dz, N * 4));
    CHECK(cudaMemset(out, 0xCD, 1 << 20));
    if (count > 2 && !std::strcmp(words[2], "patterns")) { patterns(); return 0; }
    if (count > 2 && !std::strcmp(words[2], "rates")) { rates(); return 0; }
    file = std::fopen(count > 1 ? words[1] : "textures.bin", "wb");
    outputs(); std::fclose(file); std::printf("%d cases\n", cases); return 0;
}
