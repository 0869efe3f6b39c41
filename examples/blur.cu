// A row filter: each thread computes OUTPUTS neighbouring results of one row. WIDTH, HEIGHT, BLOCK_X, BLOCK_Y and OUTPUTS
// are macros of the tuning space in blur.toml.
constexpr int RADIUS = 4;

__constant__ float weights[2 * RADIUS + 1];

__global__ void blur(const float *in, float *out) {
    int x = (blockIdx.x * BLOCK_X + threadIdx.x) * OUTPUTS;
    int y = blockIdx.y * BLOCK_Y + threadIdx.y;
    if (y >= HEIGHT) return;
    for (int k = 0; k < OUTPUTS; ++k) {
        if (x + k >= WIDTH) return;
        float sum = 0.0f;
        for (int tap = 0; tap <= 2 * RADIUS; ++tap) {
            sum += weights[tap] * in[y * (WIDTH + 2 * RADIUS) + x + k + tap];
        }
        out[y * WIDTH + x + k] = sum;
    }
}
