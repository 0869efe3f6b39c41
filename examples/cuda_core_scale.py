"""Object code of cuda.core on a GPU that is not here: its machine code is executed as it stands."""

from cuda.core import Program, ProgramOptions

import perfmodel as pm

SOURCE = r"""
template <typename T>
__global__ void scale(T *x, T factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= factor;
}
"""

program = Program(SOURCE, "c++", ProgramOptions(arch="sm_90"))
code = program.compile("cubin", name_expressions=("scale<float>", "scale<double>"))
for name, kind in (("scale<float>", "f32"), ("scale<double>", "f64")):
    found = pm.analyze(code, kernel=name, args=[f"{kind}[1000000]", 3.0, 1_000_000], grid=3907, block=256, gpu="h200")
    print(f"{name}: {found.prediction.time.predicted_s * 1e6:.1f} µs, limited by {found.prediction.time.limiter}")
