// Kernels that together make the compiler emit most operations of the machine code; they are compiled and decoded, never run.

__constant__ float table[1024];

extern "C" __global__ void special_functions(float *a, const double *d, int n, float *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float x = a[i];
        const double y = d[i];
        out[i] = sinf(x) + expf(x) * rsqrtf(x) + powf(x, 1.7f) / x + (float)(y * y / 3.1 + sqrt(y)) + (float)(i % n)
                 + table[i & 1023] + rintf(x) + fminf(x, 2.0f) + (x > 1.0f ? 1.0f : 2.0f);
    }
}

extern "C" __global__ void halves(const unsigned *a, unsigned *out, int n)
{
    unsigned sum = a[threadIdx.x];
    for (int k = 0; k < n; k++)
        asm volatile("fma.rn.f16x2 %0, %0, %1, %0;" : "+r"(sum) : "r"(a[threadIdx.x + k]));
    asm volatile("add.rn.f16x2 %0, %0, %0;" : "+r"(sum));
    asm volatile("mul.rn.f16x2 %0, %0, %0;" : "+r"(sum));
    out[threadIdx.x] = sum;
}

extern "C" __global__ void atomics(int *a, int *out, int n, float *f, double *d)
{
    __shared__ int bins[64];
    bins[threadIdx.x & 63] = 0;
    __syncthreads();
    atomicAdd(&bins[a[threadIdx.x] & 63], 1);
    __syncthreads();
    const int before = atomicAdd(out, bins[0]);
    atomicMax(out + 1, before);
    atomicCAS(out + 2, before, n);
    atomicAdd(f, 2.0f);
    atomicAdd(d, 2.0);
    atomicCAS(&bins[1], before, n);
    atomicExch(&bins[2], 3);
    out[9] = bins[2];
}

extern "C" __global__ void warp_functions(int *a, int *out)
{
    int x = a[threadIdx.x];
    x += __shfl_down_sync(-1, x, 3);
    x += __shfl_xor_sync(-1, x, 1);
    const unsigned ballot = __ballot_sync(-1, x > 3);
    if (__any_sync(-1, x))
        x += __popc(ballot) + __brev(x) + __clz(x) + __ffs(x);
    out[threadIdx.x] = x + __activemask() + __match_any_sync(-1, x);
#if __CUDA_ARCH__ >= 800
    out[threadIdx.x + 64] = __reduce_add_sync(-1, x) + __reduce_max_sync(-1, (unsigned)a[0]);
#endif
    if (x & 1) {
        x += __shfl_sync(__activemask(), x, 0);
        __syncwarp();
        out[x] = 3;
    }
    out[threadIdx.x + 32] = x;
}

extern "C" __global__ void local_array(float *a, float *out, int n)
{
    float values[64];
    for (int i = 0; i < 64; i++)
        values[i] = a[i * threadIdx.x];
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        sum += values[(i * 7 + threadIdx.x) & 63];
        values[i & 63] = sum;
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void widths(const float4 *a, float2 *out, const double2 *c, unsigned char *bytes, short *shorts, int *generic, int n)
{
    __shared__ float4 patch[128];
    patch[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    const float4 v = patch[threadIdx.x ^ 1];
    out[threadIdx.x] = make_float2(v.x + ((float2 *)patch)[threadIdx.x * 2].y, v.y * bytes[threadIdx.x]);
    const double2 q = c[threadIdx.x];
    shorts[threadIdx.x] = q.x * q.y + shorts[threadIdx.x + 1];
    bytes[threadIdx.x + 9] = 1;
    ((long long *)patch)[threadIdx.x] = 3;
    int *either = n ? generic : (int *)patch;
    either[threadIdx.x] = 3;
    __syncthreads();
    out[1].x = ((float *)patch)[threadIdx.x * 3] + either[2];
    atomicAdd(either, 1);
}

__device__ __noinline__ float descend(float x, int n)
{
    return n <= 0 ? x : descend(x * x + 1.0f, n - 1) + x;
}

extern "C" __global__ void recursion(float *a, int n)
{
    a[threadIdx.x] = descend(a[threadIdx.x], n) + descend(2.0f, 3);
}

extern "C" __global__ void jump_table(int *a, int *out)
{
    const int x = a[threadIdx.x];
    int r = 0;
    switch (a[threadIdx.x + 1]) {
    case 0: r = x * 3; break;
    case 1: r = x / 7; break;
    case 2: r = out[x]; break;
    case 3: out[x + 1] = 4; r = 9; break;
    case 4: r = x << 3; break;
    case 5: r = ~x; out[4] = r; break;
    case 6: r = out[5] * out[6]; break;
    case 7:
        for (int i = 0; i < x; i++)
            r += out[i];
        break;
    default: r = 1;
    }
    out[threadIdx.x] = r;
}

extern "C" __global__ void divergent_loops(const float *a, float *out, int n, int m)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        for (int j = threadIdx.x; j < m; j += blockDim.x)
            sum += a[i * m + j];
        __syncthreads();
        if (sum > 1e9f)
            break;
        out[i] = sum;
    }
    while (sum > 1.0f) {
        sum *= 0.5f;
        if (sum == 3.0f)
            continue;
        out[0] += sum;
    }
    if (threadIdx.x == 3)
        return;
    out[threadIdx.x] = sum;
}

extern "C" __global__ void integers(unsigned *a, long long *b, int n)
{
    unsigned x = a[threadIdx.x];
    long long y = b[threadIdx.x];
    y = y * x + y / (n | 1);
    x = __umulhi(x, n) + __byte_perm(x, n, 0x4321) + (x >> (n & 31)) + max(x, 7u) + abs((int)x) + __sad(1, (int)x, 3u);
    x = __funnelshift_l(x, n, 3);
    b[threadIdx.x] = y % 13;
    a[threadIdx.x] = x % 13 + __dp4a(1, 2, (int)x);
    a[1] = clock();
    a[2] = ((x & n) | (~x ^ 13)) & y;
}

extern "C" __global__ void async_copies(const float4 *a, float4 *out)
{
#if __CUDA_ARCH__ >= 800
    __shared__ float4 stage[2][128];
    for (int i = 0; i < 8; i++) {
        const unsigned to = (unsigned)__cvta_generic_to_shared(&stage[i & 1][threadIdx.x]);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(a + i * 128 + threadIdx.x));
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(a + threadIdx.x));
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(a + threadIdx.x + 8));
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;");
        __syncthreads();
        out[i * 128 + threadIdx.x] = stage[i & 1][threadIdx.x ^ 3];
    }
#endif
}

extern "C" __global__ void matrices(const unsigned *a, float *out)
{
    const unsigned x = a[threadIdx.x], y = a[threadIdx.x + 32], z = a[threadIdx.x + 64];
    float c[4] = {1, 2, 3, 4};
#if __CUDA_ARCH__ >= 750
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(x), "r"(y), "r"(z));
    __shared__ unsigned rows[256];
    rows[threadIdx.x] = x;
    __syncthreads();
    unsigned q;
    const unsigned from = (unsigned)__cvta_generic_to_shared(rows);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0},[%1];" : "=r"(q) : "r"(from));
    c[0] += q;
#endif
    out[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}

extern "C" __global__ void fences(volatile int *a, float *g, const float *__restrict__ r)
{
    a[0] = 1;
    __threadfence();
    g[1] = r[threadIdx.x] + __ldg(r + 5) + __ldcg(r + 9);
    __threadfence_block();
    __threadfence_system();
    if (a[1])
        __trap();
    asm volatile("bar.sync 3, 64;");
    asm volatile("bar.arrive 2, 128;");
    g[2] = __syncthreads_count(a[2]);
    __nanosleep(100);
}

extern "C" __global__ void doubles(double *a, int n)
{
    double sum = a[threadIdx.x];
    for (int i = 0; i < n; i++)
        sum = fma(sum, a[i], fmin(sum, 2.0));
    a[threadIdx.x] = sum > 3.0 ? exp(sum) : floor(sum);
    a[1] = (double)n + (long long)sum + (float)sum;
    a[2] = __longlong_as_double(__double_as_longlong(sum) + 1);
}

extern "C" __global__ void packed(float2 *a, float2 *out)
{
    float2 x = a[threadIdx.x], y = a[threadIdx.x + 1];
#if __CUDA_ARCH__ >= 1000
    x = __fmul2_rn(__fadd2_rn(__ffma2_rn(x, y, y), y), a[3]);
    y.x = fmaxf(fmaxf(x.x, y.x), x.y);
#endif
    out[threadIdx.x] = make_float2(x.x + y.x, x.y);
}

extern "C" __global__ void images(float *out, unsigned long long texture, unsigned long long surface)
{
    float x, y, z, w, at = threadIdx.x * 0.5f;
    unsigned texel, place = 4 * threadIdx.x;
    asm volatile("tex.2d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6}];"
                 : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "l"(texture), "f"(at), "f"(at + 1.0f));
    asm volatile("suld.b.1d.b32.trap %0, [%1, {%2}];" : "=r"(texel) : "l"(surface), "r"(place));
    asm volatile("sust.b.1d.b32.trap [%0, {%1}], %2;" ::"l"(surface), "r"(place), "r"(texel + 1));
    out[threadIdx.x] = x + y + z + w;
}
