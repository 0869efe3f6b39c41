"""Sources as people write them compile: host code beside kernels, templates, the headers of CUDA and of the C++ library."""

from pathlib import Path

import pytest

from perfmodel.compiler import compiled as compiling
from perfmodel.compiler import device_part, nvcc, nvcc_run
from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.compiler.toolchain import run_compiler
from perfmodel.compiler.user_kernel import (
    compile_with_signature,
    described_signature,
    dynamic_shared_array,
    signature_of,
    user_request,
)
from perfmodel.errors import CompileError, InputError, PerfmodelError
from perfmodel.prediction.analyze import analyze
from perfmodel.sources.kernel_source import SourceKind, read_kernel_source

pytestmark = pytest.mark.compiler

HOST_AND_DEVICE = r"""
#include <cuda_bf16.h>
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#define CHECK(call) \
    do { cudaError_t e = (call); if (e != cudaSuccess) { printf("%s", cudaGetErrorString(e)); exit(1); } } while (0)

namespace filters {
struct Matrix {
    int width;
    float *data;
    Matrix(int w) : width(w) { CHECK(cudaMalloc(&data, w * sizeof(float))); }
    __device__ float at(int i) const { return data[i]; }
    std::vector<float> copy() const { return std::vector<float>(width); }
};
constexpr int taps(int r) { return 2 * r + 1; }
Matrix &operator+=(Matrix &a, const Matrix &b) { a.width += b.width; return a; }
template <typename T, uint N> __global__ void unused(T *x, std::size_t n) { if (n < N) x[n] = std::max(x[0], T(M_PI)); }
static __global__ void bits(const __nv_bfloat16 *in, unsigned char *out, bool inverted)
#if __CUDA_ARCH__ >= 800
{
    out[0] = __bfloat162float(in[0]) > FLT_MAX != inverted;
#else
{
#endif
}
extern "C" __global__ void plain(const float *__restrict__ in, int *out, unsigned int n)
{
    extern __shared__ float dynamic[];
    dynamic[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = dynamic[n];
}
template <int R> __global__ void blur(Matrix in, float *out)
{
    float sum = 0;
    for (int i = 0; i < taps(R); ++i)
        sum += in.at(blockIdx.x * blockDim.x + threadIdx.x + i);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum == 0 ? -INFINITY : sum;
}
}

static void run(const std::vector<float> &data) { filters::blur<2><<<1, 32>>>(filters::Matrix(36), nullptr); }

int main(int argc, char **argv)
{
    std::vector<float> data(36);
    std::sort(data.begin(), data.end(), [](float a, float b) { return a < b; });
    run(data);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("user") / "whole.cu"
    path.write_text(HOST_AND_DEVICE)
    return path


def compiled(source: str | Path, kernel: str, architecture: str = "sm_80", **defines: str | int) -> CompiledKernel:
    return compile_kernel(user_request(read_kernel_source(source), kernel, defines), architecture)


def test_a_file_with_host_code_compiles_and_names_its_own_lines(file: Path) -> None:
    kernel = compiled(file, "blur<2>")
    line = next(i for i, text in enumerate(HOST_AND_DEVICE.split("\n"), 1) if "sum == 0" in text)
    assert f".loc\t1 {line} " in kernel.ptx
    assert '"whole.cu"' in kernel.ptx
    assert kernel.ptx.count(".entry") == 1


@pytest.mark.parametrize(
    ("kernel", "mangled"),
    [
        ("blur<2>", "_ZN7filters4blurILi2EEEvNS_6MatrixEPf"),
        ("filters::blur<2>", "_ZN7filters4blurILi2EEEvNS_6MatrixEPf"),
        ("blur", "_ZN7filters4blurILi2EEEvNS_6MatrixEPf"),
        ("_ZN7filters4blurILi2EEEvNS_6MatrixEPf", "_ZN7filters4blurILi2EEEvNS_6MatrixEPf"),
        ("plain", "plain"),
        ("filters::unused<double, 4>", "_ZN7filters6unusedIdLj4EEEvPT_m"),  # nothing in the file instantiates it
        ("filters::bits", "_ZN7filters4bitsEPK13__nv_bfloat16Phb"),  # static, and nothing refers to it
    ],
)
def test_a_kernel_is_named_as_people_name_it(file: Path, kernel: str, mangled: str) -> None:
    assert compiled(file, kernel).kernel_name == mangled


def test_an_unknown_kernel_lists_those_that_there_are(file: Path) -> None:
    with pytest.raises(
        InputError, match=r"no kernel 'blurr'; its kernels: .*filters::blur<2>\(filters::Matrix, float\*\)"
    ):
        compiled(file, "blurr")
    with pytest.raises(InputError, match=r'no kernel .filters::blur<x>.; its kernels: .*\(identifier "x" is undefined'):
        compiled(file, "filters::blur<x>")
    ambiguous = "namespace a { __global__ void k() { } }\nnamespace b { __global__ void k() { } }\n"
    with pytest.raises(InputError, match=r"several kernels 'k'; name one in full: a::k\(\); b::k\(\)"):
        compiled(ambiguous, "k")
    assert compiled(ambiguous, "a::k").kernel_name == "_ZN1a1kEv"


def test_parameters_have_the_names_and_types_of_the_source(file: Path) -> None:
    request = user_request(read_kernel_source(file), "plain", {})
    kernel = compile_kernel(request, "sm_80")
    named = [parameter.text for parameter in described_signature(kernel, request).parameters]
    assert named == ["const float *in", "int *out", "unsigned int n"]
    assert [p.text for p in signature_of(kernel).parameters] == [".u64 arg0", ".u64 arg1", ".u32 arg2"]
    (matrix, out) = signature_of(compiled(file, "blur<2>")).parameters
    assert (matrix.cpp_type, matrix.size_bytes) == ("filters::Matrix", 16)  # an int, padding and a pointer
    assert (out.text, out.is_pointer, out.is_written) == ("float *arg1", True, True)


def test_dynamic_shared_memory_is_known(file: Path) -> None:
    assert dynamic_shared_array(compiled(file, "plain")) == "dynamic"
    assert dynamic_shared_array(compiled(file, "blur<2>")) is None
    named = "extern __shared__ float shared[]; __global__ void a(float *x) { *x = shared[0]; }\n"
    own = "__global__ void b(float *x) { __shared__ float y[32]; y[threadIdx.x] = *x; __syncthreads(); *x = y[0]; }\n"
    assert dynamic_shared_array(compiled(named + own, "b")) is None
    assert dynamic_shared_array(compiled(named + own, "a")) == "shared"


@pytest.mark.parametrize("architecture", ["sm_60", "sm_70", "sm_75", "sm_90", "sm_120"])
def test_the_source_sees_the_architecture_that_is_asked_about(architecture: str) -> None:
    source = "#include <vector>\n__global__ void k(int *x) { *x = __CUDA_ARCH__; }\n"
    kernel = compiled(source, "k", architecture)
    assert f", {10 * int(architecture[3:])};" in kernel.ptx
    assert f".target {architecture}" in kernel.ptx


def test_macros_and_headers_beside_the_file_are_used_and_part_of_the_key(tmp_path: Path) -> None:
    header, source = tmp_path / "value.cuh", tmp_path / "k.cu"
    source.write_text('#include "value.cuh"\n__global__ void k(float *x) { x[0] = VALUE + MORE; }\n')
    header.write_text("#define VALUE 6\n")
    first = compiled(source, "k", MORE=1)
    assert str(0x40E00000) in first.ptx  # the bits of 7.0f
    header.write_text("#define VALUE 5\n")
    second = compiled(source, "k", MORE=1)
    assert str(0x40C00000) in second.ptx  # 6.0f
    assert first.key != second.key


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "template <int R, typename T> __global__ void k(U *o) { o[0] = R; }\n",
            'source.cu:1: identifier "U" is undefined (and 3 more errors)',
        ),
        (
            "__global__ void k(float *x) {\n    x[0] = y;\n    x[1] = z;\n}\n",
            'source.cu:2: identifier "y" is undefined (and 1 more error)',
        ),
        (
            "#include <absent/host.h>\n#include <nccl.h>\n__global__ void k(ncclResult_t *x) { }\nabsent::Type host;\n",
            "source.cu:1: not installed: absent/host.h, nccl.h (install nvidia-nccl-cu13 with pip); name their folders with "
            "--include DIR; without them device code does not compile "
            '(source.cu:3: identifier "ncclResult_t" is undefined (and 3 more errors))',
        ),
        (
            '#include "mine.h"\n__global__ void k(float *x) { x[0] = MINE; }\n',
            "source.cu:1: not installed: mine.h; name its folder with --include DIR; without it device code does not compile "
            '(source.cu:2: identifier "MINE" is undefined)',
        ),
        (
            "#include <absent.h>\ntexture<float, 2> image;\n__global__ void k(float *x) { x[0] = tex2D(image, 0, 0); }\n",
            "source.cu:2: texture is not a template: CUDA 12 removed texture references; hand a texture object "
            "(cudaTextureObject_t) to the kernel instead (and 1 more error)",
        ),
        (
            "#ifdef WITH_STATE\nstruct State { int n; };\n#endif\n__global__ void k(State *x) { }\n",
            'source.cu:4: identifier "State" is undefined (and 3 more errors); macros that the source asks for and nothing sets: '
            "WITH_STATE (--define sets one)",
        ),
        (
            "__global__ void k(float *x) { x[0] = TILE_X; }\n",
            'source.cu:1: identifier "TILE_X" is undefined; macros that the source asks for and nothing sets: TILE_X '
            "(--define sets one)",
        ),
        (
            "#include <absent.h>\n#ifdef WITH_STATE\n#endif\n__global__ void k(float *x) { x[0] = ABSENT; }\n",
            "source.cu:1: not installed: absent.h; name its folder with --include DIR; without it device code does not compile "
            '(source.cu:4: identifier "ABSENT" is undefined)',
        ),
    ],
)
def test_an_error_of_the_source_is_one_line_with_file_and_line(source: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(source, "k")
    assert str(caught.value) == message


def test_a_macro_may_say_how_far_a_loop_is_unrolled() -> None:
    """The preprocessor leaves macros in pragmas as they are, and nvcc then knows no such name."""
    loop = "#pragma unroll N // four\nfor (int i = 0; i < n; ++i) x[i] = i;"
    source = f"#define N 4\n__global__ void k(float *x, int n) {{\n{loop}\n}}"
    kernel = compiled(source, "k")
    assert kernel.ptx.count("st.global") >= 4
    assert kernel.note == ""


def test_options_are_the_compilers() -> None:
    source = "__global__ void k(float *x) { x[0] = x[0] / x[1]; }"
    request = user_request(read_kernel_source(source), "k", {}, ["--use_fast_math", "-Xptxas=-O1", "--maxrregcount=16"])
    assert "div.approx" in compile_kernel(request, "sm_80").ptx
    with pytest.raises(InputError, match=r"refuses an option: .*no-such"):
        compile_kernel(user_request(read_kernel_source(source), "k", {}, ["--no-such"]), "sm_80")


def test_a_template_is_named_in_code_that_can_be_linked() -> None:
    source = read_kernel_source("template <int N> __global__ void k(int *x) { *x = N; }")
    assert compile_kernel(user_request(source, "k<3>", {}, ["-rdc=true"]), "sm_80").kernel_name == "_Z1kILi3EEvPi"


def test_headers_that_are_not_installed_are_named_at_once(tmp_path: Path) -> None:
    """Fifty headers, one in the other's place: each would be a compilation of its own."""
    headers = [f"absent/h{number}.h" for number in range(50)]
    source = "".join(f"#include <{header}>\n" for header in headers)
    kernel = compiled(f"{source}__global__ void k(int *x) {{ *x = 1; }}\nint run() {{ return none; }}\n", "k")
    assert kernel.note.endswith(f"(not installed: {', '.join(headers)})")


def test_without_a_host_compiler_device_code_goes_to_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "nvcc_available", lambda: False)
    source = "#include <cuda_fp16.h>\ntemplate <int N> __global__ void k(half *x) { x[0] = N; }\n"
    kernel = compiled(source, "k<3>")
    assert ".loc" in kernel.ptx
    assert signature_of(kernel).parameters[0].text == "__half *arg0"
    with pytest.raises(PerfmodelError, match=r"source.cu:1: the header vector is not installed.*install g\+\+"):
        compiled("#include <vector>\n__global__ void k() { }", "k")


PTX = """
.version {version}
.target {target}
.address_size 64
.visible .entry _Z5scalePff(.param .u64 x, .param .f32 by)
{{
    ret;
}}
"""


def test_ptx_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text("// made by hand" + PTX.format(version="8.0", target="sm_75"))
    assert read_kernel_source(path).kind is SourceKind.PTX
    kernel = compiled(path, "scale")
    assert [p.text for p in signature_of(kernel).parameters] == ["float *arg0", "float arg1"]
    assert compiled(PTX.format(version="9.2", target="sm_75"), "scale").cubin  # newer than 12.9
    with pytest.raises(InputError, match=r"kernel.ptx has no kernel 'other'; its kernels: scale\(float\*, float\)"):
        compiled(path, "other")
    with pytest.raises(CompileError, match="the PTX is for a newer GPU than sm_80"):
        compiled(PTX.format(version="8.0", target="sm_90"), "scale")


def test_files_and_folders_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.cu"):
        read_kernel_source(tmp_path / "none.cu")
    with pytest.raises(InputError, match="include folder"):
        read_kernel_source("__global__ void k() { }", [tmp_path / "none"])


def test_thrust_and_cub_come_with_the_compiler() -> None:
    source = """
#include <cub/block/block_reduce.cuh>
#include <thrust/pair.h>
__global__ void k(float *x)
{
    __shared__ typename cub::BlockReduce<float, 64>::TempStorage storage;
    x[0] = cub::BlockReduce<float, 64>(storage).Sum(thrust::make_pair(x[1], x[2]).first);
}
"""
    assert compiled(source, "k").ptx.count(".entry") == 1


def test_host_code_that_does_not_compile_is_left_out(tmp_path: Path) -> None:
    """Neither library is installed; the header of the program's own uses one, too."""
    (tmp_path / "common.h").write_text(
        "#pragma once\n#include <cublas_v2.h>\nvoid check(cublasStatus_t status) { }\ntypedef __nv_bfloat16 value_t;\n"
        "template <typename T> struct Pair {\n    T a, b;\n    void print(std::ostream &to) { to << nothing; }\n};\n"
    )
    source = tmp_path / "program.cu"
    source.write_text(
        """#include <torch/extension.h>
#include "common.h"
cublasHandle_t handle;
torch::Tensor run(torch::Tensor x) { return x; }
template <int N> __global__ void k(value_t *x, Pair<float> by)
{
    x[threadIdx.x] = N * by.b;
}
int main()
{
    check(cublasCreate(&handle));
    k<2><<<1, 32>>>(nullptr, {});
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""
    )
    request = user_request(read_kernel_source(source), "k<3>", {})
    kernel = compile_kernel(request, "sm_80")
    assert kernel.note == "host code that does not compile is left out (not installed: torch/extension.h, cublas_v2.h)"
    assert ".loc\t1 7 " in kernel.ptx
    named = [parameter.text for parameter in described_signature(kernel, request).parameters]
    assert named == ["__nv_bfloat16 *x", "Pair<float> by"]


def test_a_kernel_with_inline_assembly_leaves_with_its_whole_body() -> None:
    """The closing brace of the assembly stands where that of a kernel would."""
    braces = r"""asm("{.reg .f32 y;\n add.f32 y, %0, %0;\n mov.f32 %0, y;\n}\n" : "+f"(x));"""
    source = f"__global__ void a(float *p) {{ float x = *p; {braces} *p = x; }}\n"
    kernel = compiled(source + source.replace("void a", "void b"), "b")
    assert kernel.ptx.count("add.f32 y") == 1
    assert kernel.cubin


def test_a_part_of_a_program_is_compiled_as_the_file_that_includes_it(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    part = tmp_path / "parts" / "kernel.cu"
    part.write_text("__global__ void k(real *x) { x[0] = SIZE; }\n")
    with pytest.raises(CompileError, match=r'kernel.cu:1: identifier "real" is undefined'):
        compiled(part, "k")
    main = tmp_path / "main.cu"
    main.write_text(
        '#define SIZE 8\ntypedef float real;\n#include "parts/kernel.cu"\nint main() { k<<<1, 1>>>(nullptr); }\n'
    )
    kernel = compiled(part, "k")
    assert kernel.note == "compiled as part of main.cu, which includes this file"
    assert '"kernel.cu"' in kernel.ptx
    request = user_request(read_kernel_source(part), "k", {})
    assert [p.text for p in described_signature(kernel, request).parameters] == ["float *x"]
    main.write_text(main.read_text().replace("8", "9"))
    assert compiled(part, "k").key != kernel.key
    (tmp_path / ".git").mkdir()
    (tmp_path / "include" / "sizes").mkdir(parents=True)
    (tmp_path / "include" / "sizes" / "all.h").write_text("#define SIZE 8\n")
    main.write_text(main.read_text().replace("#define SIZE 9", '#include "sizes/all.h"'))
    assert compiled(part, "k").note == kernel.note  # a folder of the project that only the other file needs


def test_a_kernel_behind_a_macro_of_the_file_that_includes_it_is_found_there(tmp_path: Path) -> None:
    part, main = tmp_path / "kernels.cu", tmp_path / "main.cu"
    part.write_text("#ifdef SIMULATION\n__global__ void step(int *x) { *x = 1; }\n#endif\n")
    with pytest.raises(InputError, match=r"no kernel 'step'.*nothing sets: SIMULATION \(--define sets one\)"):
        compiled(part, "step")
    main.write_text('#define SIMULATION\n#include "kernels.cu"\nint main() { step<<<1, 1>>>(nullptr); }\n')
    assert compiled(part, "step").note == "compiled as part of main.cu, which includes this file"
    with pytest.raises(InputError, match=r"no kernel 'other'; its kernels: "):
        compiled(part, "other")


def test_a_header_that_the_build_makes_is_told_by_its_template(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "config.h.in").write_text("#define N @N@\n")
    (tmp_path / "src").mkdir()
    source = tmp_path / "src" / "k.cu"
    source.write_text('#include "config.h"\n__global__ void k(int *x) { *x = N; }\n')
    with pytest.raises(
        CompileError, match=r"config\.h \(the project's build makes it from \.\./config\.h\.in\); name its"
    ):
        compiled(source, "k")


def test_kernels_of_one_file_are_compiled_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path))
    runs = []
    monkeypatch.setattr(nvcc_run, "run_compiler", lambda *call: runs.append(call) or run_compiler(*call))
    source = "__global__ void one(float *a) { a[0] = 1; } __global__ void two(int *b) { b[0] = 2; }"
    requests = [user_request(read_kernel_source(source), kernel, {}) for kernel in ("one", "two")]
    found = [compile_with_signature(request, "sm_90") for request in requests]
    assert [signature.parameters[0].name for _, signature in found] == ["a", "b"]
    assert [kernel.kernel_name for kernel, _ in found] == ["_Z3onePf", "_Z3twoPi"]
    assert len(runs) == 2  # with and without debug information


def test_a_crash_of_the_compiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc_run, "run_compiler", lambda *_: (139, "Segmentation fault\n"))
    with pytest.raises(CompileError, match=r"source.cu: nvcc crashes on this file \(Segmentation fault\), outside"):
        compiled("__global__ void crash() { }", "crash")


def test_host_code_is_left_out_in_a_folder_with_a_blank_in_its_name(tmp_path: Path) -> None:
    source = tmp_path / "day 1" / "k.cu"
    source.parent.mkdir()
    (source.parent / "own.h").write_text("#define N 3\n")
    source.write_text(
        '#include "own.h"\n__global__ void k(int *x) { *x = N; }\nvoid host();\nvoid run() { host<<<1, 1>>>(); }\n'
    )
    assert compiled(source, "k").kernel_name == "_Z1kPi"


def test_of_errors_in_host_and_device_code_that_of_device_code_is_named() -> None:
    source = "void run() { undeclared(1); }\n__global__ void k(int *x) { *x = 1 + nothing; }\n"
    with pytest.raises(CompileError, match=r'^source\.cu:2: identifier "nothing" is undefined$'):
        compiled(source, "k")


def test_operators_that_cub_had_until_cuda_12_are_there() -> None:
    source = """#include <cub/cub.cuh>
__global__ void k(float *x) {
    __shared__ cub::BlockReduce<float, 32>::TempStorage storage;
    const float most = cub::BlockReduce<float, 32>(storage).Reduce(x[threadIdx.x], cub::Max());
    if (threadIdx.x == 0) *x = most + cub::Sum()(1.0f, 2.0f);
}"""
    assert compiled(source, "k").kernel_name == "_Z1kPf"


def test_an_undeclared_variable_of_many_launches_goes_with_their_function() -> None:
    """The compiler names it at its first use only."""
    cases = "\n".join(f"case {n}: k\n<<<1, {n}, 0, stream>>>(x); break;" for n in range(1, 11))
    head = "#include <none.h>\n__global__ void k(int *x) { *x = 1; }\n"
    source = f"{head}void run(int n, int *x) {{ switch (n) {{\n{cases}\n}} }}"
    assert compiled(source, "k").kernel_name == "_Z1kPi"


def test_a_file_whose_kernels_stand_behind_a_macro_names_it() -> None:
    source = "#ifdef USE_CUDA\n__global__ void k(float *x) { *x = 0; }\n#endif\nint main() { return 0; }\n"
    with pytest.raises(InputError, match=r"no kernel 'k'.*and nothing sets: USE_CUDA \(--define sets one\)"):
        compiled(source, "k")


def test_a_template_of_host_code_that_does_not_compile_asks_for_its_arguments() -> None:
    kernel = "template <typename T> __global__ void k(T *x) { *x = 0; }\n"
    used = "void run(float *x) {\ncublasCreate(nullptr);\nif (x)\ncublasCreate(nullptr);\nk<<<1, 1>>>(x);\n}"
    assert compiled(f"#include <cublas_v2.h>\n{kernel}{used}", "k").kernel_name == "_Z1kIfEvPT_"  # statements have gone
    source = f"#include <cublas_v2.h>\n{kernel}void run() {{ k<<<1, 1>>>(none); }}"
    with pytest.raises(InputError, match=r"'k' is a template, and the host code .* nvidia-cublas .* as in 'k<float>'"):
        compiled(source, "k")
    with pytest.raises(
        InputError, match=r"has no kernel but templates \(k\): name one .* 'k<float>'; .* nvidia-cublas"
    ):
        compiled(source, "")
    assert compiled(source, "k<float>").note
    inside = source.replace(kernel, f"namespace a {{ namespace b {{\n{kernel}}} }}\n")
    assert compiled(inside, "k<float>").kernel_name == "_ZN1a1b1kIfEEvPT_"
    listed = compiled(f"{source}\ntemplate __global__ void k(int *);", "k<int>(int*)")  # as messages list it
    assert listed.kernel_name == "_Z1kIiEvPT_"
    with pytest.raises(InputError, match=r"no kernel 'k<int, int>'.*cannot determine which instance"):
        compiled(source, "k<int, int>")


def test_templates_of_a_header_are_named_where_host_code_that_uses_them_has_gone(tmp_path: Path) -> None:
    (tmp_path / "k.cuh").write_text("template <int N> __global__ void k(int *x) { *x = N; }\n")
    source = tmp_path / "run.cu"
    source.write_text('#include <absent.h>\n#include "k.cuh"\nvoid run(Tensor x) { k<4><<<1, 1>>>(x.data()); }\n')
    with pytest.raises(
        InputError, match=r"run.cu has no kernel but templates \(k\): name one .*run.cu:1: the header absent.h is not"
    ):
        compiled(source, "")
    assert compiled(source, "k<3>").kernel_name == "_Z1kILi3EEvPi"


def test_a_kernel_beside_one_that_launches_kernels_is_compiled() -> None:
    source = "__global__ void child(int *x) { *x = 2; }\n__global__ void parent(int *x) { child<<<1, 32>>>(x); }\n"
    assert compiled(source, "child").cubin
    with pytest.raises(
        CompileError, match=r"^source.cu:2: kernel 'parent' launches kernels itself .* analyse the launched kernels"
    ):
        compiled(source, "parent")


def test_a_function_of_another_file_and_texture_references_are_named() -> None:
    elsewhere = "extern __device__ float f(float);\n__global__ void k(float *x) { *x = f(*x); }\n"
    with pytest.raises(
        CompileError, match=r"calls f\(float\), whose body is in another file: analyse the linked program"
    ):
        compiled(elsewhere, "k")
    with pytest.raises(CompileError, match=r"source.cu:1: .*CUDA 12 removed texture references"):
        compiled("texture<float, 1> t;\n__global__ void k(float *x) { *x = tex1Dfetch(t, 1); }\n", "k")


def test_flags_of_the_project_are_taken_and_named(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text("__global__ void k(int *x) { x[threadIdx.x] = N; }\n")
    (tmp_path / "Makefile").write_text("SIZE = 4\nk: k.cu\n\tnvcc -DN=$(SIZE) $<\n")
    found = analyze(file, grid=1, block=32, args=["i32[32]=0"], gpu="h200")
    assert "flags of Makefile: -DN=4" in found.prediction.notes
    assert set(found.outputs["x"]) == {4}
    own = analyze(file, grid=1, block=32, args=["i32[32]=0"], gpu="h200", defines={"N": 3})
    assert set(own.outputs["x"]) == {3}


def test_a_file_without_kernels_says_what_was_left_out() -> None:
    """Host code made its only kernel of a macro of a library."""
    lost = "#include <library.hpp>\nLIBRARY_KERNEL(k)\n"
    with pytest.raises(
        InputError, match=r"has no kernel 'k'; its kernels: none \(host code .* \(not installed: library\.hpp\)"
    ):
        compiled(lost, "k")
    declared = "__global__ void k(float *x);\nvoid run(float *x) { k<<<1, 1>>>(x); }\n"
    with pytest.raises(
        InputError, match=r"has no kernel 'k'; its kernels: none \(k is declared there and defined in another"
    ):
        compiled(declared, "k")


def test_a_header_named_like_one_of_the_system_hides_none_where_host_code_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "time.h").write_text("#pragma once\n#define SCALE 3\n")
    source = tmp_path / "k.cu"
    source.write_text(
        '#include <ctime>\n#include "time.h"\n__global__ void k(float *x) { *x *= SCALE; }\nvoid run() { none(time(0)); }\n'
    )
    assert compiled(source, "k").note.startswith("host code that does not compile is left out")


def test_macros_may_hold_commas() -> None:
    source = """
        #define STEP(place, value) x[place] = value;
        extern "C" __global__ void k(int *x) { PLAN }
    """
    steps = {"PLAN": "STEP(1,7) STEP(2,3)"}
    found = analyze(source, grid=1, block=32, args=["i32[4]"], gpu="h200", defines=steps)
    assert found.prediction.counts.global_store_requests == 2


def test_a_header_that_is_absent_is_sought_in_one_including_file_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them includes it, too; a library of templates has dozens."""
    (tmp_path / "k.cuh").write_text("#include <absent.h>\n__global__ void k(absent::Type *x) { *x = 1; }\n")
    for name in "abc":
        (tmp_path / f"{name}.cu").write_text('#include "k.cuh"\n')
    tried = set[str]()

    class Recorded(nvcc_run.NvccRun):
        def ptx(self, expression: str, *more: str) -> str:
            tried.add(self.request.file_name)
            return super().ptx(expression, *more)

    monkeypatch.setattr(nvcc, "NvccRun", Recorded)
    monkeypatch.setattr(device_part, "NvccRun", Recorded)
    with pytest.raises(
        CompileError, match=r"k\.cuh:1: not installed: absent\.h; .* without it device code does not compile"
    ):
        compiled(tmp_path / "k.cuh", "k")
    assert tried == {"k.cuh", "a.cu"}


def test_a_template_whose_users_do_not_compile_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "t.cuh").write_text("template <typename T> __global__ void k(T *x) { *x = 1; }\n")
    for name in "ab":
        (tmp_path / f"{name}.cu").write_text('#include "t.cuh"\nvoid f() { none(); k<float><<<1, 1>>>(nullptr); }\n')
    with pytest.raises(InputError) as caught:
        compiled(tmp_path / "t.cuh", "")
    assert str(caught.value) == (
        "t.cuh has no kernel but templates (k): name one with its arguments, as in 'k<float>'; the host code that uses it does "
        'not compile (a.cu:2: identifier "none" is undefined)'
    )


def test_a_texture_reference_of_ptx_is_named_where_the_kernel_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(
        ".version 8.0\n.target sm_75\n.address_size 64\n/* read\nby k */ .global .texref tex;\n"
        ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<5>;\n"
        "tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [tex, {%r0}];\nret;\n}\n.visible .entry l()\n{\nret;\n}\n"
    )
    with pytest.raises(
        CompileError, match=r"^k\.ptx:5: reference tex: CUDA 12 removed texture references; hand a texture"
    ):
        compiled(path, "k")
    assert compiled(path, "l").kernel_name == "l"


def test_a_condition_with_a_macro_of_an_absent_header_is_false(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        "#include <matrices/Core>\n#if !MATRICES_AT_LEAST(3, 4) || \\\n  defined(OLD)\n#include <matrices/Vector>\n#endif\n"
        "matrices::Vector host(); __global__ void k(float *x) { *x = __LINE__; }\n"
    )
    kernel = compiled(source, "k")
    assert kernel.note == "host code that does not compile is left out (not installed: matrices/Core)"
    assert ".loc\t1 6 " in kernel.ptx


def test_folders_of_headers_may_be_named_as_windows_does(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "scale.cuh").write_text("#define SCALE 3\n")
    source = tmp_path / "src" / "k.cu"
    source.write_text('#include "..\\common\\scale.cuh"\n__global__ void k(float *x) { *x *= SCALE; }\n')
    assert "0f40400000" in compiled(source, "k").ptx  # 3.0
    source.write_text('#include "..\\common\\scale.cuh"\n__global__ void k(float *x) { *x *= none; }\n')
    with pytest.raises(CompileError, match=r'k\.cu:2: identifier "none" is undefined'):
        compiled(source, "k")


def test_bodies_in_other_files_of_the_project_are_compiled_with_the_kernel(tmp_path: Path) -> None:
    source, sort, other = (tmp_path / name for name in ("k.cu", "sort.cu", "other.cu"))
    source.write_text(
        "__device__ float sorted(float x);\n__global__ void k(float *x) { *x = sorted(*x); }\n"
        "__global__ void own(float *x) { *x = 1; }\n"
    )
    with pytest.raises(CompileError, match=r"calls sorted\(float\), whose body is in another file"):
        compiled(source, "k")
    sort.write_text('#include "half.cuh"\n__device__ float sorted(float x) { return half_of(x); }\n')
    (tmp_path / "half.cuh").write_text("__device__ inline float half_of(float x) { return 0.5f * x; }\n")
    first = compiled(source, "k")
    assert first.note == "compiled as one with sort.cu, which the kernel's functions are taken from"
    assert compiled(source, "own").note == ""
    (tmp_path / "half.cuh").write_text("__device__ inline float half_of(float x) { return 0.25f * x; }\n")
    assert compiled(source, "k").code_digest != first.code_digest
    other.write_text(sort.read_text())  # two bodies: the user chooses
    with pytest.raises(CompileError, match="whose body is in another file"):
        compiled(source, "k")


def test_the_folder_of_a_file_with_asserts_does_not_change_the_hash_of_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for number, (folder, bound) in enumerate((("here", 0), ("elsewhere", 0), ("here", 1))):
        monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / f"cache{number}"))
        source = tmp_path / folder / "k.cu"
        header = source.parent / "checks" / "checked.cuh"
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(f"#include <cassert>\n__device__ void check(float x) {{ assert(x > {bound}); }}\n")
        source.write_text('#include "checks/checked.cuh"\n__global__ void k(float *x) { check(*x); }\n')
        found.append(compiled(source, "k"))
    here, elsewhere, other = found
    assert b"/elsewhere/checks/checked.cuh\0" in elsewhere.cubin
    assert here.code_digest == elsewhere.code_digest != other.code_digest


def test_names_that_cub_and_thrust_had_until_cuda_12(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        "#include <cub/cub.cuh>\n#include <thrust/functional.h>\n"
        "struct Square : public thrust::unary_function<float, float>\n"
        "{ __device__ float operator()(float x) const { return x * x; } };\n"
        "__global__ void k(const float *x, float *y)\n{\n"
        "    cub::TransformInputIterator<float, Square, const float *> squares(x, Square());\n"
        "    cub::CountingInputIterator<int> numbers(3);\n"
        "    *y = cub::Max()(squares[2], float(numbers[4])) + thrust::identity<float>()(x[1]);\n}\n"
    )
    assert compiled(source, "k").note == ""
