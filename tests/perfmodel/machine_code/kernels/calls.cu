// Calls through pointers and of virtual functions: the lanes of a warp go different ways.
typedef int (*Function)(int);
__device__ int triple(int x) { return x * 3; }
__device__ int shifted(int x) { return x + 7; }
__device__ Function functions[2] = {triple, shifted};
struct Base { __device__ virtual int value(int x) { return x; } };
struct Five : Base { __device__ int value(int x) override { return x * 5; } };
struct Less : Base { __device__ int value(int x) override { return x - 9; } };

extern "C" __global__ void k(int *out, int offset) {
    const int thread = threadIdx.x, odd = (thread + offset) & 1;
    Five five;
    Less less;
    Base *object = odd ? static_cast<Base *>(&five) : static_cast<Base *>(&less);
    out[thread] = functions[odd](thread);
    out[blockDim.x + thread] = object->value(thread);
}
