"""Kernels of Triton, Torch's Inductor, Numba, CuPy and cuda.core, with the libraries themselves and without a GPU."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.cli.app import run
from perfmodel.errors import CompileError, InputError, PerfmodelError

pytestmark = pytest.mark.compiler

EXAMPLES = Path(__file__).parents[3] / "examples"
INDUCTOR = Path(__file__).parent / "inductor_output.py"
N = 4992
"""A multiple of 16, as Triton looks at sizes."""


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def add() -> Any:
    return example("triton_add").add


@pytest.fixture(scope="module")
def transpose() -> Any:
    return example("numba_transpose").transpose


def test_a_triton_kernel_states_its_block_and_its_grid_is_a_function(add: Any) -> None:
    x, y = np.arange(N, dtype=np.float32), np.ones(N, np.float32)
    found = pm.analyze(
        add,
        args=[x, y, f"f32[{N}]", N],
        defines={"BLOCK": 1024, "num_warps": 8},
        grid=lambda values: (-(-values["n"] // values["BLOCK"]),),
        gpu="rtx-3090",
    )
    assert found.configuration.grid == (5, 1, 1)  # 4992 / 1024, rounded up
    assert found.configuration.block == (256, 1, 1)  # 8 warps
    assert found.prediction.kernel == "add"
    assert np.array_equal(found.outputs["out"], x + 1)
    assert found.prediction.counts.global_load_sectors == 2 * N * 4 / 32
    assert found.prediction.counts.global_load_requests == 2 * 39  # 39 warps of 128 elements, 16 bytes a lane


def test_triton_sees_what_it_sees_at_a_launch(add: Any) -> None:
    """Of 5,000 elements, no multiple of 16, it does not know where four of a lane end: each is loaded alone, 16 bytes apart."""
    found = pm.analyze(add, args=["f32[5000]", "f32[5000]", "f32[5000]", 5000, 1024], grid=5, gpu="rtx-3090")
    assert found.prediction.counts.global_load_sectors == 2 * 5000 * 4 / 32 * 4


def test_a_compiled_triton_kernel_is_taken_for_its_architecture_alone(add: Any) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler import compile as compile_for

    types = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(add, signature=types, constexprs={(4,): 512})
    kernel = compile_for(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "enable_fp_fusion": True})
    launch: Any = {"args": ["f32[512]", "f32[512]", "f32[512]", 512], "grid": 1}
    assert pm.analyze(kernel, **launch, gpu="h200").configuration.block == (128, 1, 1)
    with pytest.raises(
        InputError, match=r"add is compiled for sm_90 alone, not for sm_86: pass the @triton\.jit function"
    ):
        pm.analyze(kernel, **launch, gpu="rtx-3090")
    with pytest.raises(InputError, match=r"argument 1 \(float \*x\) takes a buffer of f32 or u32, not of f64"):
        pm.analyze(kernel, args=["f64[512]", "f32[512]", "f32[512]", 512], grid=1, gpu="h200")


def test_configurations_of_autotune_are_ranked(add: Any) -> None:
    import triton

    tuned = triton.autotune([triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 1000})], key=["n"])(add)
    launch: Any = {"args": [f"f32[{N}]", f"f32[{N}]", f"f32[{N}]", N], "gpu": "rtx-3090"}
    ranked = pm.rank_configurations(tuned, grid=lambda values: -(-N // values["BLOCK"]), **launch)
    assert ranked.best.configuration.defines["BLOCK"] == 64
    assert ranked.best.configuration.block == (64, 1, 1)
    assert [values["BLOCK"] for values, _ in ranked.rejected] == [1000]
    assert "power of 2" in ranked.rejected[0][1]
    with pytest.raises(
        InputError, match=r"add has 2 configurations: choose one by --define .* as in BLOCK=64, num_warps=2"
    ):
        pm.analyze(tuned, grid=1, **launch)


def test_triton_keeps_its_own_driver(add: Any) -> None:
    from triton.runtime import driver

    before = dict(vars(driver))
    with pytest.raises(CompileError):
        pm.analyze(add, args=["f32[8]", "f32[8]", "f32[8]", 8], defines={"BLOCK": 3}, grid=1, gpu="h200")
    assert vars(driver) == before


def test_a_kernel_that_inductor_wrote_is_read_without_torch(capsys: pytest.CaptureFixture[str]) -> None:
    """A pointwise kernel by the command line: the grid is Inductor's own, 100,000 elements in blocks of 512."""
    assert "torch" not in sys.modules
    words = [
        "analyze",
        str(INDUCTOR),
        "--kernel",
        "triton_poi_fused_add_relu_0",
        "--gpu",
        "h200",
        "--define",
        "XBLOCK=512",
    ]
    for spec in ("f32[100000]", "f32[100000]", "f32[100000]", "100000"):
        words += ["--arg", spec]
    assert run(words) == 0
    assert "grid 196x1x1, block 128x1x1" in capsys.readouterr().out
    assert "torch" not in sys.modules


def test_the_bindings_of_triton_print_nothing_as_the_program_ends() -> None:
    words = ["perfmodel", "analyze", str(INDUCTOR), "--gpu", "h200"]
    ended = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1, ended.stderr


def test_a_reduction_that_inductor_wrote_computes_a_softmax() -> None:
    x = np.random.default_rng(0).standard_normal((1000, 128)).astype(np.float16)
    found = pm.analyze(
        INDUCTOR,
        kernel="triton_per_fused_softmax_1",
        args=[x, np.zeros_like(x), 1000, 128],
        defines={"XBLOCK": 8},
        gpu="h200",
    )
    exact = np.exp(x.astype(np.float64))
    assert (
        np.abs(found.outputs["out_ptr2"] - exact / exact.sum(axis=1, keepdims=True)).max() < 2e-4
    )  # half of 2^-11 is 2.4e-4
    assert found.configuration.grid == (125, 1, 1)


OLDER_INDUCTOR = """
import triton
import triton.language as tl
from triton.compiler.compiler import AttrsDescriptor
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties

@triton_heuristics.pointwise(
    size_hints=[4096], filename=__file__,
    triton_meta={"configs": [AttrsDescriptor(divisible_by_16=(0, 1), equal_to_1=())], "device": DeviceProperties(cc=86)},
    inductor_meta={"kernel_name": "triton_poi_fused_add_0"}, min_elem_per_thread=0,
)
@triton.jit
def triton_(in_out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    xmask = xindex < xnumel
    tl.store(in_out_ptr0 + xindex, 1 + tl.load(in_out_ptr0 + xindex, xmask), xmask)
"""


def test_a_kernel_of_an_older_inductor_is_read_without_its_triton(tmp_path: Path) -> None:
    """It imports what Triton has no longer, and states how many elements it has, not its grid: 4,000 in blocks of 512."""
    file = tmp_path / "own.py"
    file.write_text(OLDER_INDUCTOR)
    found = pm.analyze(file, args=["f32[4000]=2", 4000], defines={"XBLOCK": 512}, gpu="h200")
    assert set(found.outputs["in_out_ptr0"]) == {3}
    assert found.configuration.grid == (8, 1, 1)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_numba_kernel_gets_arrays_with_their_strides(transpose: Any, transposed: bool) -> None:
    image = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    given = np.asfortranarray(image) if transposed else image
    found = pm.analyze(transpose, args=[given, np.zeros((32, 64), np.float32)], grid=(1, 2), block=(32, 32), gpu="h200")
    assert found.prediction.kernel == "transpose"
    assert np.array_equal(found.outputs["result"], image.T)
    assert found.prediction.counts.global_load_requests == 64  # a warp for each row
    assert found.prediction.counts.global_load_sectors == 64 * (32 if transposed else 4)
    assert found.prediction.counts.shared_bank_conflicts == 64 * 31


def test_a_numba_kernel_with_its_launch() -> None:
    from numba import cuda

    @cuda.jit
    def scale(x, factor):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= factor

    found = pm.analyze(scale[200, 128], args=["f32[20000]=2", np.float32(3.0)], gpu="h200")
    assert (found.configuration.grid, found.configuration.block) == ((200, 1, 1), (128, 1, 1))
    assert np.array_equal(found.outputs["x"], np.full(20000, 6, np.float32))


class Tensor:
    """An array of another library, on the host or on a device."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.array is None:
            raise TypeError("can't convert cuda:0 device type tensor to numpy.")
        return self.array


def test_arrays_of_other_libraries_are_taken_from_the_host() -> None:
    code = "__global__ void twice(float *x) { x[threadIdx.x] *= 2.0f; }"
    launch: Any = {"kernel": "twice", "grid": 1, "block": 32, "gpu": "h200"}
    found = pm.analyze(code, args=[Tensor(np.ones(32, np.float32))], **launch)
    assert found.outputs["x"].tolist() == [2.0] * 32
    assert refusal(code, **launch, args=[Tensor(None)]) == (
        "argument 1 of type Tensor is no array of the host: can't convert cuda:0 device type tensor to numpy."
    )


def refusal(*arguments: Any, **launch: Any) -> str:
    with pytest.raises(PerfmodelError) as caught:
        pm.analyze(*arguments, **{"args": [], "grid": 1, "gpu": "h200", **launch})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_does_not_fit_a_triton_kernel_is_named(add: Any) -> None:
    given: Any = {"args": ["f32[8]", "f32[8]", "f32[8]", 8]}
    assert refusal(add, **given) == (
        "constexpr BLOCK of add has no value: give defines={'BLOCK': ...} (--define BLOCK=...)"
    )
    assert "num_warp was specified but unrecognised: it is neither a parameter of add (x, y, out, n, BLOCK)" in refusal(
        add, **given, defines={"BLOCK": 8, "num_warp": 4}
    )
    assert refusal(add, args=[1, 2], defines={"BLOCK": 8}) == "2 arguments given, add takes 4: x, y, out, n"
    assert refusal(add) == "0 arguments given, add takes 4: x, y, out, n; by --define (defines in Python): BLOCK"
    assert refusal(add, args=[1] * 6) == "6 arguments given, add takes 5: x, y, out, n, BLOCK"
    assert refusal(add, **given, grid=None, defines={"BLOCK": 8}).startswith("grid is missing: add does not state")
    assert "block=32 is not accepted: Triton chooses it" in refusal(add, **given, block=32, defines={"BLOCK": 8})
    assert refusal(add, **given, defines={"BLOCK": 8}, grid=lambda values: values["m"]) == "grid fails: KeyError: 'm'"
    assert "arange's range must be a power of 2 (triton_add.py:10: " in refusal(add, **given, defines={"BLOCK": 7})


def test_what_does_not_fit_a_numba_kernel_is_named(transpose: Any) -> None:
    assert refusal(transpose) == "0 arguments given, transpose takes 2: image, result"
    assert refusal(transpose, args=[1, 2]) == (
        "block is missing: the Numba kernel transpose does not state how many threads a block has; give --block (block in Python)"
    )
    assert "takes none; its globals are constants" in refusal(transpose, defines={"N": 1})
    assert "argument image='null': a Numba kernel takes arrays and numbers" in refusal(
        transpose, args=["null", 1], block=1
    )
    typing = refusal(transpose, args=[1.0, 2.0], block=32)
    assert typing.startswith("Numba does not compile transpose: ")
    assert "\x1b" not in typing


def test_what_is_no_kernel_is_told_what_is() -> None:
    import cupy

    code = 'extern "C" __global__ void k(float *x) { x[0] = 1.0f; }'
    assert refusal(3) == (
        "source of type int is no kernel; accepted are the path of a file, the source itself, a Triton kernel (@triton.jit), "
        "a Numba kernel (@numba.cuda.jit), a CuPy RawKernel or RawModule, or a cuda.core ObjectCode"
    )
    assert refusal(refusal).endswith("a Python function becomes a kernel by @triton.jit or @numba.cuda.jit")
    assert refusal(cupy.RawModule(code=code)).startswith("kernel is missing: this RawModule holds k; give")
    assert refusal(cupy.RawKernel(code, "k"), args=["f32[1]"]).startswith("block is missing: the CuPy kernel k")
    assert refusal(cupy.RawKernel(code, "k"), grid=lambda values: 1, block=1).startswith(
        "grid is a function, which only Triton"
    )
    assert "has several kernels; name one by --kernel" in refusal(code + code.replace(" k(", " l("), block=1)


def test_a_kernel_of_an_object_code_is_named_as_in_the_source() -> None:
    from cuda.core import ObjectCode

    ptx = b".version 8.0\n.target sm_60\n.address_size 64\n.visible .entry _Z1kPf(.param .u64 p)\n{\n\tret;\n}\n"
    code = ObjectCode.from_ptx(ptx, name="two.ptx", symbol_mapping={"k<1>": "_Z1kPf"})
    found = pm.analyze(code, args=["f32[1]"], grid=1, block=32, gpu="h200")
    assert found.prediction.kernel == "k<1>"
    assert refusal(code, kernel="other", block=1) == "two.ptx has no kernel 'other'; its kernels: k(float*)"
    assert refusal(ObjectCode.from_ptx(ptx), block=1).startswith("kernel is missing: give the name of one as kernel=")
    assert refusal(ObjectCode.from_ltoir(b"x"), kernel="k", block=1) == (
        "an ObjectCode of ltoir holds no kernel yet: compile it to cubin or ptx"
    )


def test_a_file_names_kernels_of_modules_by_the_module(tmp_path: Path) -> None:
    """The name of an object in the file is not the one that its source gives the kernel."""
    file = tmp_path / "raw.py"
    code = 'extern "C" __global__ void k(float *x) { x[0] = 1.0f; } extern "C" __global__ void l(float *x) { x[1] = 2.0f; }'
    file.write_text(
        f"import cupy\ncode = {code!r}\nfirst = cupy.RawKernel(code, 'k')\nboth = cupy.RawModule(code=code)\n"
    )
    for name, meant in (("first", "k"), ("both.l", "l")):
        found = pm.analyze(file, kernel=name, args=["f32[2]"], grid=1, block=32, gpu="h200")
        assert found.prediction.kernel == meant
    assert "of an object in a file by --kernel OBJECT.NAME" in refusal(file, kernel="both", block=1)
    assert refusal(file, kernel="none.l").endswith("raw.py has no kernel 'none.l'; kernels of raw.py: first, both")


SCRIPT = """from __future__ import annotations
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from library.decorators import contiguous
from .scaling import scaled
from model import once

WIDE = 128 if torch.cuda.get_device_capability()[0] >= 9 else 64
PROPERTIES = triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"]

@triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def scale(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, once(scaled(tl.load(x + i, mask=i < n))), mask=i < n)

class Scale(torch.autograd.Function):
    @staticmethod
    @contiguous
    def forward(ctx, x: torch.Tensor | None):
        scale[(1,)](x, x.numel())
        return x

x = torch.ones(512, device="cuda")
print("result", Scale.apply(x) + 1)
torch.testing.assert_close(x, 2 * torch.ones(512), rtol=1e-3)
assert x.sum() > 3
"""
"""What users write around a kernel: their own modules, libraries that are not installed, and its use, which needs a GPU."""


def test_a_script_is_read_without_its_libraries_and_its_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = tmp_path / "model" / "ops"
    package.mkdir(parents=True)
    function = "import triton\n\n@triton.jit\ndef {}(x):\n    return {} * x\n"
    (tmp_path / "model" / "__init__.py").write_text("raise RuntimeError('no GPU')\nfrom .once import once\n")
    (tmp_path / "model" / "once.py").write_text(function.format("once", 1))
    (package / "__init__.py").write_text("")
    (package / "scaling.py").write_text(
        "import torch\nassert torch.cuda.is_available()\n" + function.format("scaled", 3)
    )
    (package / "scale.py").write_text(SCRIPT)
    modules = set(sys.modules)
    found = pm.analyze(package / "scale.py", args=[np.ones(512, np.float32), 512], grid=8, gpu="h200", kernel="scale")
    assert set(found.outputs["x"]) == {3}
    assert "not installed, and not needed by the kernel: torch, library; left out of scale.py, because it fails " in (
        " ".join(found.prediction.notes)
    )
    assert not [name for name in set(sys.modules) - modules if name.startswith(("torch", "library", "model"))]
    assert capsys.readouterr().out == ""


def test_a_script_with_classes_of_data_is_read(tmp_path: Path) -> None:
    script = tmp_path / "sized.py"
    script.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "import triton\nimport triton.language as tl\n\n"
        "@dataclass\nclass Sizes:\n    width: int\n\n"
        "WIDTH = tl.constexpr(Sizes(64).width)\n\n"
        "@triton.jit\ndef fill(x):\n    tl.store(x + tl.arange(0, WIDTH), 1.0)\n"
    )
    found = pm.analyze(script, args=[np.zeros(64, np.float32)], grid=1, gpu="h200")
    assert set(found.outputs["x"]) == {1}
    assert not any("left out" in note for note in found.prediction.notes)
    assert "sized" not in sys.modules


def test_a_numba_script_with_signatures_is_read_without_a_gpu(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "import numpy as np\nfrom numba import cuda, float32\n\n"
        "@cuda.jit('float32(float32)', device=True)\ndef double(x):\n    return 2 * x\n\n"
        "@cuda.jit('void(float32[:,:], int32)')\ndef twice(x, n):\n    i, j = cuda.grid(2)\n    x[i, j] = double(x[i, j])\n\n"
        "x = cuda.to_device(np.ones((8, 8), np.float32))\ntwice[1, (8, 8)](x, 8)\n"
    )
    assert refusal(file) == "0 arguments given, twice takes 2: float32[:,:] x, int32 n"
    found = pm.analyze(file, args=["f32[8,8]=1", "i32=8"], grid=1, block=(8, 8), gpu="h200")
    assert set(found.outputs["x"].reshape(-1)) == {2}
    assert "left out of own.py, because it fails without a GPU: line 13, 14" in " ".join(found.prediction.notes)


def test_blocks_wait_where_numba_synchronises_a_grid() -> None:
    from numba import cuda

    @cuda.jit
    def turn(x: Any, y: Any) -> None:
        place = cuda.grid(1)
        x[place] = place
        cuda.cg.this_grid().sync()
        y[place] = x[x.size - 1 - place]

    found = pm.analyze(turn, args=["f32[512]=0", "f32[512]=0"], grid=8, block=64, gpu="h200")
    assert found.outputs["y"].tolist() == list(range(511, -1, -1))


def test_a_package_that_asks_numba_for_a_gpu_is_told_that_one_is_there(tmp_path: Path) -> None:
    """Its ``__init__`` puts something else in the place of a device function where there is none."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from numba import cuda\nfrom . import core\n"
        "if not cuda.is_available():\n    core.half = lambda: print('no driver')\nNAME = 'package'\n"
    )
    (package / "core.py").write_text(
        "from numba import cuda\nfrom package import NAME\n@cuda.jit(device=True)\ndef half(x):\n    return x * 0.5\n"
    )
    file = package / "own.py"
    file.write_text(
        "from numba import cuda\nfrom . import core\n"
        "@cuda.jit\ndef halve(x):\n    i = cuda.grid(1)\n    x[i] = core.half(x[i])\n"
    )
    found = pm.analyze(file, args=["f32[32]=3"], grid=1, block=32, gpu="h200")
    assert set(found.outputs["x"]) == {1.5}


def test_a_constexpr_may_be_a_type_of_triton(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "import triton\nimport triton.language as tl\n\n@triton.jit\n"
        "def cast(x, y, TYPE: tl.constexpr):\n    i = tl.arange(0, 32)\n"
        "    tl.store(y + i, tl.load(x + i).to(TYPE).to(tl.float32))\n"
    )
    for kind, value in (("tl.float32", 0.1), ("tl.float16", np.float16(0.1))):
        found = pm.analyze(file, args=["f32[32]=0.1", "f32[32]"], defines={"TYPE": kind}, grid=1, gpu="h200")
        assert set(found.outputs["y"]) == {np.float32(value)}


def test_raw_kernels_that_functions_make_are_found(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    code = 'extern "C" __global__ void {}(float *x) {{ x[0] = {}; }}'
    file.write_text(
        f"import cupy\nfirst = {code.format('one', 1)!r}\n"
        f"def run(name):\n    kernel = cupy.RawKernel(first, 'one')\n    other = cupy.RawKernel(code_of(name), name)\n"
        f"    module = cupy.RawModule(code={code.format('two', 2)!r}, name_expressions=names_of(name))\n"
    )
    for name, value in (("one", 1), ("module.two", 2)):
        assert pm.analyze(file, kernel=name, args=["f32[1]"], grid=1, block=1, gpu="h200").outputs["x"][0] == value
    assert refusal(file, block=1) == (
        "kernel is missing; kernels of own.py: one, module (line 5: what is compiled is known only when its function runs "
        "(NameError: name 'code_of' is not defined): give name by --define NAME=VALUE, or write it to a .cu file)"
    )


def test_parameters_that_decide_what_is_compiled_are_given(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    code = 'extern "C" __global__ void k(float *x) { int order = 1; x[0] = order * %d; }'
    file.write_text(
        f"def has_gpu():\n    return False\nif has_gpu():\n    import cupy as cp\n\n"
        f"def maker(order, like, scale=2):\n    return cp.RawKernel({code!r} % (scale * order * like.shape[1]), 'k')\n"
    )
    given: Any = {"args": ["f32[1]"], "block": 1}
    assert "give order, like by --define NAME=VALUE, or write it to a .cu file" in refusal(file, **given)
    values: Any = {"order": 3, "like": "f32[8,5]"}
    found = pm.analyze(file, defines=values, grid=1, gpu="h200", **given)
    assert found.outputs["x"][0] == 3 * 5 * 2  # order is no macro: `int order` compiles
    found = pm.analyze(file, defines={**values, "scale": 4}, grid=1, gpu="h200", **given)
    assert found.outputs["x"][0] == 3 * 5 * 4


MADE = '''
import cupy
from numba import cuda
import triton
import triton.language as tl
from torch.utils.cpp_extension import load_inline
from pycuda.compiler import SourceModule
from cuda.core import Program

def module(scaled=True, name="features"):
    size = 4 if scaled else 5
    data = cuda.to_device([1])  # fails without a GPU, and no kernel needs it
    return cupy.RawModule(code=f"extern \\"C\\" __global__ void {name}(float *x) {{ x[0] = {size}; }}")

TEXT = """template <typename T> __global__ void fill(T *x, int n) { x[threadIdx.x] = n; }"""
extension = load_inline(name="own", cpp_sources="", cuda_sources=[TEXT.replace("fill", "inline_fill")], functions=["f"])

def main():
    program = Program(TEXT, code_type="c++")
    launch(program.compile("cubin"))

class Old:
    def run(self):
        return SourceModule("__global__ void old(float *x) { x[0] = 7; }").get_function("old")

def make():
    WIDE = 8

    @cuda.jit
    def nested(x):
        x[cuda.threadIdx.x] = WIDE

    return nested

@triton.jit
def part(x):
    return 2 * x

@triton.jit
def stored(x, value):
    tl.store(x + tl.arange(0, 4), value)

@triton.jit
def whole(x):
    stored(x, part(tl.load(x + tl.arange(0, 4))))
'''


def test_kernels_that_functions_make_are_found_by_their_own_names(tmp_path: Path) -> None:
    """Of the function only what its kernel needs is run; a text for a compiler counts as a file does."""
    file = tmp_path / "own.py"
    file.write_text(MADE)
    for kernel, value, more in (
        ("features", 4, []),
        ("inline_fill<float>", 3, ["3"]),
        ("fill<float>", 5, ["5"]),
        ("old", 7, []),
        ("nested", 8, []),
    ):
        found = pm.analyze(file, kernel=kernel, args=["f32[32]", *more], grid=1, block=1, gpu="h200")
        assert found.outputs["x"][0] == value
    assert refusal(file, kernel="none", block=1).startswith(
        "own.py has no kernel 'none'; kernels of own.py: whole, module, extension, program, run, nested ("
    )


def test_a_kernel_under_a_decorator_of_the_users_own_and_with_names_of_triton_2(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "import triton\nimport triton.language as tl\n\n"
        "class Tuned(triton.runtime.KernelInterface):\n"
        "    def __init__(self, fn):\n        self.fn = fn\n\n"
        "@Tuned\n@triton.jit\ndef root(x):\n    i = tl.arange(0, 32)\n"
        "    tl.store(x + i, tl.math.pow(tl.load(x + i), 0.5))\n\n"
        "class Ops:\n    @staticmethod\n    @triton.jit\n    def halve(x):\n        tl.store(x, 0.5 * tl.load(x))\n\n"
        "@tuner_of(torch.cuda.get_device_name())\n@triton.jit\ndef tuned(x):\n    tl.store(x, tl.load(x) / 3)\n\n"
        "@triton.jit\ndef newer(x):\n    tl.store(x, tl.something_of_another_version(1))\n"
    )
    found = pm.analyze(file, kernel="root", args=["f32[32]=9"], grid=1, gpu="h200")
    assert pm.analyze(file, kernel="tuned", args=["f32[1]=9"], grid=1, gpu="h200").outputs["x"][0] == 3
    assert np.allclose(found.outputs["x"], 3, rtol=1e-6)
    assert pm.analyze(file, kernel="Ops.halve", args=["f32[1]=9"], grid=1, gpu="h200").outputs["x"][0] == 4.5
    with pytest.raises(CompileError, match=r"own\.py:27: .*Triton \S+ is installed: install the version that"):
        pm.analyze(file, kernel="newer", args=["f32[32]"], grid=1, gpu="h200")


QUANTISED = """
import triton
import triton.language as tl

@triton.jit
def quantised(x, y, scale, most):
    i = tl.arange(0, 128)
    row = tl.load(x + 192 * tl.program_id(0) + i)
    rest = tl.load(x + 192 * tl.program_id(0) + 128 + tl.arange(0, 64))
    largest = tl.maximum(tl.maximum(tl.max(tl.abs(row), axis=0), tl.max(tl.abs(rest), axis=0)), 1e-12)
    tl.store(scale + tl.program_id(0), largest)
    tl.store(y + 128 * tl.program_id(0) + i, tl.clamp(8 * row.to(tl.float32) / largest, min=-7.5, max=7.5))
"""
"""Largest of bfloat16 (``VHMNMX``) and numbers between bounds (``FMNMX.XORSIGN``), as kernels that quantise have them."""


def test_bounds_and_largest_numbers_of_a_quantisation(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(QUANTISED)
    bits = np.random.default_rng(0).standard_normal((16, 192)).astype(np.float32).view(np.uint32) >> 16
    np.save(tmp_path / "x.npy", bits.astype(np.uint16))
    arguments = [f"bf16[]=@{tmp_path / 'x.npy'}", "f32[2048]", "bf16[16]", 1]
    found = pm.analyze(file, args=arguments, grid=16, gpu="h200", defines={"num_warps": 1})
    x = (bits << 16).view(np.float32)
    largest = np.abs(x).max(axis=1)
    assert np.array_equal((found.outputs["scale"].astype(np.uint32) << 16).view(np.float32), largest)
    exact = np.clip(8 * x[:, :128] / largest[:, None], -7.5, 7.5)
    assert np.allclose(found.outputs["y"].reshape(16, 128), exact, rtol=1e-6)


def test_a_triton_kernel_takes_buffers_of_8_bit_numbers(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef widen(x, y, m):\n    i = tl.arange(0, 32)\n"
        "    tl.store(y + i, tl.where(tl.load(m + i), tl.load(x + i).to(tl.float32), 0.0))\n"
    )
    for kind in ("f8e4m3", "f8e5m2"):
        found = pm.analyze(file, args=[f"{kind}[32]=-1.7", "f32[32]", "bool[32]=1"], grid=1, gpu="h200")
        assert set(found.outputs["y"]) == {-1.75}  # the nearest with 3 and with 2 bits of mantissa


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nimport nothing_of_the_kind\n", r"kernels of own\.py: none \(not installed: nothing_of_the_kind\)"),
        (
            "x = 1\nx.none()\n",
            r"kernels of own\.py: none \(line 2: AttributeError: 'int' object has no attribute 'none'\)",
        ),
        (
            "x = 1\nTEXT = '__global__ void k($REAL *x) { }'\n",
            r"kernels of own\.py: none \(line 2: the text is compiled elsewhere: save what the program compiles as a \.cu file\)",
        ),
        ("def k(): pass\n", r"own\.py has no kernel 'k'; kernels of own\.py: none"),
        ("from torch._inductor import x\n", r"own\.py has no kernel 'k'; its kernels: none"),
        ("import torch._inductor\nx = = 1\n", r"own\.py line 2: invalid syntax"),
    ],
)
def test_a_python_file_without_the_kernel_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "own.py"
    file.write_text(text)
    assert re.search(message, refusal(file, kernel="k"))
