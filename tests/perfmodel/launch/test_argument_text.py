import re
from pathlib import Path

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.launch.argument_spec import BufferSpec, ScalarSpec, TextureSpec
from perfmodel.launch.argument_text import parse_argument
from perfmodel.launch.argument_values import RANDOM_PERIOD, buffer_contents, scalar_value, seen_texture
from perfmodel.launch.arguments import KernelParameter, Signature, kernel_call
from perfmodel.launch.element_type import ElementType
from perfmodel.launch.texture import AddressMode, Extent, TexelKind, Texture


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("texture=f32[64]", {"extent": Extent.LINEAR, "width": 64}),
        ("texture=f32[64]:array", {"extent": Extent.LINE, "width": 64}),
        ("texture=f32[8,64]:memory", {"extent": Extent.PLANE, "width": 64, "height": 8, "pitch_bytes": 256}),
        ("texture=i16[3,8,64]", {"extent": Extent.SPACE, "depth": 3, "kind": TexelKind.SIGNED, "channel_bits": 16}),
        ("texture=f32[3,8,64]:layers", {"extent": Extent.LAYERED_PLANE, "layers": 3, "height": 8}),
        ("texture=f32[12,16,16]:cube", {"extent": Extent.CUBE, "layers": 12, "width": 16}),
        ("texture=u8[8,64]=0..255:channels=4:float:linear", {"texel_bytes": 4, "as_float": True, "linear": True}),
        ("texture=f32[8,64]:normalized:wrap", {"normalized": True, "address_modes": (AddressMode.WRAP,) * 3}),
        ("surface=f32[64]:channels=2", {"extent": Extent.LINE, "texel_bytes": 8}),
    ],
)
def test_textures_see_their_arrays_as_the_options_say(text: str, expected: dict[str, object]) -> None:
    spec = parse_argument(text)
    assert isinstance(spec, TextureSpec)
    texture = seen_texture(spec, {})
    assert {name: getattr(texture, name) for name in expected} == expected
    assert np.asarray(buffer_contents(spec.buffer, np.random.default_rng(0), {})).nbytes == texture.size_bytes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("texture=f32", "a texture object needs its array, as in texture=f32"),
        ("texture=f32[8]:smooth", r"options \['smooth'\] are not understood; accepted are channels=1|2|4, array"),
        ("texture=f32[8]:cube", "1 axes given, a cube has 3 or 4"),
        ("texture=f64[8]", "texels of f64 are not known to textures"),
        ("texture=u8[8,8]:linear", "only floating-point values are filtered: add :float"),
        ("texture=f32[8,8]:wrap", "wrap or mirror only where they are normalized: add :normalized"),
        ("texture=f32[5,8,8]:cube", "a cube has square faces, six for each layer, not 5"),
        ("surface=f32[8,8]:linear", "options"),
    ],
)
def test_textures_that_cuda_would_not_make_are_refused(text: str, message: str) -> None:
    def made() -> Texture:
        spec = parse_argument(text)
        assert isinstance(spec, TextureSpec)
        return seen_texture(spec, {})

    with pytest.raises(InputError, match=message):
        made()


def contents(text: str, seed: int = 0) -> np.ndarray:
    spec = parse_argument(text)
    assert isinstance(spec, BufferSpec)
    return np.asarray(buffer_contents(spec, np.random.default_rng(seed), {}))


def scalar(text: str) -> np.generic:
    spec = parse_argument(text)
    assert isinstance(spec, ScalarSpec)
    assert spec.element is not None
    return scalar_value(spec, spec.element, {})


@pytest.mark.parametrize("element", list(ElementType))
def test_every_type_makes_buffers_and_scalars_of_its_own_width(element: ElementType) -> None:
    bits = re.findall(r"\d+", element.value)  # bool states none
    assert contents(f"{element.value}[7]").dtype == element.dtype
    assert contents(f"{element.value}[7]").shape == (7,)
    assert contents(f"{element.value}[7]").nbytes == 7 * int(bits[0] if bits else 8) // 8
    assert scalar(f"{element.value}=1").dtype == element.dtype


def test_contents_are_as_asked_for() -> None:
    assert contents("f32[4]=0").tolist() == [0, 0, 0, 0]
    assert contents("f64[2]=1.5").tolist() == [1.5, 1.5]
    assert contents("i32[5]=arange").tolist() == [0, 1, 2, 3, 4]
    bounded = contents("i32[1000]=0..9")
    assert set(bounded.tolist()) == set(range(10))  # both bounds occur
    negative = contents("i8[1000]=-3..-1")
    assert set(negative.tolist()) == {-3, -2, -1}
    floats = contents("f32[1000]=2..3")
    assert 2 <= floats.min() < 2.1
    assert 2.9 < floats.max() <= 3
    random = contents("f32[1000]")
    assert -1 <= random.min() < -0.9
    assert 0.9 < random.max() <= 1


@pytest.mark.parametrize(("element", "bound"), [("f16", 6e4), ("f32", 3e38), ("f64", 1.7e308)])
def test_bounds_may_be_as_far_apart_as_the_type_reaches(element: str, bound: float) -> None:
    with np.errstate(over="raise", invalid="raise"):
        found = contents(f"{element}[1000]={-bound:g}..{bound:g}")
    assert np.isfinite(found).all()
    assert found.min() < -0.9 * bound
    assert found.max() > 0.9 * bound


@pytest.mark.parametrize("element", [one for one in ElementType if not one.is_float])
def test_the_bounds_of_integers_are_exact(element: ElementType) -> None:
    lowest, highest = (int(bound) for bound in element.limits)
    assert contents(f"{element.value}[2]={highest}").tolist() == [highest] * 2
    drawn = contents(f"{element.value}[1000]={lowest}..{highest}")
    assert drawn.min() <= lowest + (highest - lowest) // 8
    assert drawn.max() >= highest - (highest - lowest) // 8
    with pytest.raises(InputError, match=f"{highest + 1} does not fit {element.value}"):
        contents(f"{element.value}[2]={highest + 1}")


def test_sizes_and_values_may_be_expressions() -> None:
    assert contents("f32[4 * 8]").size == 32
    assert scalar("i32=2 ** 10 - 1") == 1023


def test_random_contents_follow_the_seed() -> None:
    assert (contents("f32[100]", 1) == contents("f32[100]", 1)).all()
    assert (contents("f32[100]", 1) != contents("f32[100]", 2)).any()


def test_random_contents_repeat_after_a_prime_number_of_elements() -> None:
    long = contents("f32[3000000]")
    assert (long[:RANDOM_PERIOD] == long[RANDOM_PERIOD : 2 * RANDOM_PERIOD]).all()
    assert all(RANDOM_PERIOD % divisor for divisor in range(2, 1025))


def test_a_file_is_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "weights.npy"
    np.save(path, np.arange(6, dtype=np.float32).reshape(2, 3))
    assert contents(f"f32[6]=@{path}").ravel().tolist() == [0, 1, 2, 3, 4, 5]
    assert contents(f"f32[]=@{path}").shape == (2, 3)
    with pytest.raises(InputError, match="holds 6 elements, not 5"):
        contents(f"f32[5]=@{path}")
    with pytest.raises(InputError, match="holds float32, not float64"):
        contents(f"f64[6]=@{path}")
    with pytest.raises(InputError, match="cannot be read"):
        contents(f"f32[6]=@{tmp_path / 'none.npy'}")
    np.savez(tmp_path / "two.npz", a=np.zeros(2))
    with pytest.raises(InputError, match="holds several arrays"):
        contents(f"f32[2]=@{tmp_path / 'two.npz'}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f33[4]",
        "float[4]",
        "f32",
        "f32=",
        "f32[]",
        "f32[]=0",
        "f32[4]=",
        "f32[4]=zeros",
        "i32[4]=1.5",
        "u8[4]=0..256",
        "i32[4]=9..3",
        "i32[4]=@",
        "f32[4",
        "f32 4]",
        "i32=x y",
        "u8[4]=-1",
    ],
)
def test_a_bad_spec_is_named(text: str) -> None:
    with pytest.raises(InputError, match="argument") as caught:
        parse_argument(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["f32[0]", "f32[-4]", "f32[2 ** 40]", "f32[1 / 3]", "f32[N]"])
def test_a_size_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        contents(text)


@pytest.mark.parametrize("text", ["u8=256", "i8=-129", "u32=-1", "i32=0.5", "i32=N"])
def test_a_scalar_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        scalar(text)


@pytest.mark.parametrize("name", ["cut.npz", "huge.npy"])
def test_a_damaged_array_file_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "cut.npz":
        np.savez(path, a=np.zeros(4, np.float32))
        path.write_bytes(path.read_bytes()[:60])
    else:
        np.save(path, np.zeros(4, np.float32))
        path.write_bytes(path.read_bytes().replace(b"(4,), }" + b" " * 15, b"(444444444444444444,), }"[:22]))
    with pytest.raises(InputError, match="cannot be read"):
        buffer_contents(parse_argument(f"f32[4]=@{path}"), np.random.default_rng(0), {})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("f32[4]=1e300", "largest f32"),
        ("f16[4]=-70000", "largest f16"),
        ("f32[4]=-1e300..1e300", "largest f32"),
        ("f32[4]=nan..1", "finite ends"),
        ("f32[4]=0..inf", "finite ends"),
    ],
)
def test_values_that_a_type_does_not_hold_are_refused(text: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        contents(text)


def test_a_negative_zero_keeps_its_sign() -> None:
    assert np.signbit(contents("f32[4]=-0.0")).all()


@pytest.mark.parametrize(
    ("cpp_type", "spec", "taken"),
    [
        ("int4 const*", "f16[64]", True),  # eight halves at once
        ("uint2*", "f32[64]", True),
        ("int*", "f16[64]", False),
        ("float4 const*", "i32[64]", False),
    ],
)
def test_vectors_of_integers_point_to_elements_of_any_type(cpp_type: str, spec: str, taken: bool) -> None:
    parameter = KernelParameter(name="a", ptx_type="u64", size_bytes=8, cpp_type=cpp_type)
    signature = Signature(name="copy", parameters=(parameter,))
    if taken:
        assert kernel_call(signature, [spec], {}, np.random.default_rng(0)).buffers
        return
    with pytest.raises(InputError, match="takes a buffer of"):
        kernel_call(signature, [spec], {}, np.random.default_rng(0))
