// Functions that are not inlined: arguments by value, by pointer and as a structure, called in divergent code.
struct Body {
    float mass;
    float position[3];
    int kind;
};

__device__ __noinline__ float energy(const Body body, float height, int power)
{
    float result = body.mass * height + body.position[1];
    for (int k = 0; k < power; k++)
        result *= 0.5f;
    return result;
}

__device__ __noinline__ void swap(float *a, float *b)
{
    const float held = *a;
    *a = *b;
    *b = held;
}

extern "C" __global__ void device_functions(float *out, const float *in, Body body, int axis)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float pair[2] = {in[i], body.position[axis]};
    if (i % 2)
        swap(&pair[0], &pair[1]);
    out[i] = i % 3 ? energy(body, pair[0], i % 4) : pair[0] - pair[1] + body.kind;
}
