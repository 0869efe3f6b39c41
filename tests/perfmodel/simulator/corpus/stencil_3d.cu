// Seven-point stencil with three-dimensional blocks of an odd size.
extern "C" __global__ void stencil_3d(float *out, const float *in, int nx, int ny, int nz)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz)
        return;
    const int i = (z * ny + y) * nx + x;
    float sum = -6.0f * in[i];
    sum += x > 0 ? in[i - 1] : 0.0f;
    sum += x < nx - 1 ? in[i + 1] : 0.0f;
    sum += y > 0 ? in[i - nx] : 0.0f;
    sum += y < ny - 1 ? in[i + nx] : 0.0f;
    sum += z > 0 ? in[i - nx * ny] : 0.0f;
    sum += z < nz - 1 ? in[i + nx * ny] : 0.0f;
    out[i] = sum;
}
