// Loads and stores with cache operators and through the read-only path.
extern "C" __global__ void cache_operators(float *out, const float *in)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = __ldg(&in[i]) + __ldcg(&in[i + 1]) + __ldcs(&in[i + 2]) + __ldca(&in[i + 3]);
    sum += *(const volatile float *)&in[i + 4];
    __stcs(&out[i], sum);
    __threadfence_block();
}
