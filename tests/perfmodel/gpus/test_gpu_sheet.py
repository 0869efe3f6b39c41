import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.gpus.catalogue import load_gpu, source_of
from perfmodel.gpus.gpu import Gpu, IntegerPorts
from perfmodel.gpus.sheet import FIELD_TYPES

FIELDS = list(FIELD_TYPES)


def value_of(gpu: Gpu, field: str) -> object:
    return getattr(gpu if hasattr(gpu, field) else gpu.architecture, field)


def complete(gpu_id: str) -> dict[str, str]:
    """Every field of a GPU as lines of a file that stands alone."""
    gpu = load_gpu(gpu_id)
    lines = {"name": f'name = "{gpu.name}"'}
    for field in FIELDS:
        value = value_of(gpu, field)
        value = value.value if isinstance(value, IntegerPorts) else value
        text = json.dumps(value)
        lines[field] = f'{field} = {{ value = {text}, source = "{source_of(gpu_id, field)}" }}'
    return lines


@pytest.fixture
def toml(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_a_file_of_ones_own_extends_a_gpu(toml: Callable[[str], str]) -> None:
    path = toml('base = "h200"\nsm_count = { value = 66, source = "half of it" }')
    mine = load_gpu(path)
    assert (mine.id, mine.name, mine.sm_count) == ("mine", load_gpu("h200").name, 66)
    assert mine.l2_bytes == load_gpu("h200").l2_bytes
    assert source_of(path, "sm_count") == "half of it"
    assert source_of(path, "l2_bytes") == source_of("h200", "l2_bytes")


@pytest.mark.parametrize("gpu_id", ["p100-pcie-12gb", "h200"])
def test_a_file_of_ones_own_may_say_everything(toml: Callable[[str], str], gpu_id: str) -> None:
    mine = load_gpu(toml("\n".join(complete(gpu_id).values())))
    assert all(value_of(mine, field) == value_of(load_gpu(gpu_id), field) for field in FIELDS)


@given(st.sets(st.sampled_from(["name", *FIELDS]), min_size=1, max_size=5))
def test_missing_fields_are_named(tmp_path_factory: pytest.TempPathFactory, missing: set[str]) -> None:
    path = tmp_path_factory.mktemp("gpu") / "mine.toml"
    path.write_text("\n".join(line for key, line in complete("t4").items() if key not in missing), encoding="utf-8")
    named = ", ".join(key for key in ("name", *FIELDS) if key in missing)
    with pytest.raises(InputError) as error:
        load_gpu(str(path))
    assert str(error.value) == f"{path}: missing {named}; give them, or a base that has them"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('base = "h20O"', "unknown base 'h20O'; nearest: h200, gh200"),
        ('base = "../gpus/h200"', "unknown base '../gpus/h200'; "),
        ("base = 90", "base = 90 must be a text"),
        ('base = "h200"\nname = 200', "name = 200 must be a text"),
        ('base = "h200"\ndevice_names = "H200"', "device_names = 'H200' must be a list"),
        (
            'base = "h200"\nsm_counts = { value = 1, source = "" }',
            "unknown key 'sm_counts'; nearest: sm_count",
        ),
        ('base = "h200"\nid = "mine"', "unknown key 'id'; accepted: base, name, device_names, aliases, "),
        ('base = "h200"\nsm_count = 66', "sm_count = 66 must be a table of value, source"),
        (
            'base = "h200"\nsm_count = { value = 66 }',
            "sm_count: source is missing",
        ),
        ('base = "h200"\nsm_count = { value = 66, source = " " }', "sm_count.source = ' ' must be a text "),
        ('base = "h200"\nsm_count = { value = 66.0, source = "me" }', "sm_count.value = 66.0 must be an integer"),
        ('base = "h200"\nsm_count = { value = true, source = "me" }', "sm_count.value = True must be an integer"),
        ('base = "h200"\nsm_count = { value = 0, source = "me" }', "sm_count.value = 0 must be an integer >= 1"),
        (
            'base = "h200"\nboost_clock_hz = { value = "fast", source = "me" }',
            "boost_clock_hz.value = 'fast' must be a number",
        ),
        (
            'base = "h200"\ndram_bytes_per_s = { value = inf, source = "me" }',
            "dram_bytes_per_s.value = inf must be a number <= ",
        ),
        (
            'base = "h200"\nlaunch_overhead_s = { value = -1e-6, source = "me" }',
            "launch_overhead_s.value = -1e-06 must be a number >= 0",
        ),
        (
            'base = "h200"\ninteger_ports = { value = "shared", source = "me" }',
            "integer_ports.value = 'shared' must be one of same, separate, half-shared",
        ),
        (
            'base = "h200"\ncompute_capability = { value = [9], source = "me" }',
            "compute_capability.value = [9] must be a list of length 2",
        ),
        (
            'base = "h200"\nshared_carve_outs_bytes = { value = [0, 1.5], source = "me" }',
            "shared_carve_outs_bytes.value[1] = 1.5 must be an integer",
        ),
        (
            'base = "h200"\nshared_carve_outs_bytes = { value = [0, 1024], source = "me" }',
            "shared_carve_outs_bytes = [0, 1024] must ascend to shared_bytes_per_sm = 233472",
        ),
        (
            'base = "h200"\nboost_clock_hz = { value = 1e9, source = "me" }',
            "base_clock_hz = 1.59e+09 must not exceed boost_clock_hz = 1e+09",
        ),
        ("sm_count = 1\nsm_count = 2", "is not TOML: Cannot overwrite a value"),
        ("sm_count =", "is not TOML: Invalid value"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_with_file_and_key(
    toml: Callable[[str], str], text: str, message: str
) -> None:
    path = toml(text)
    with pytest.raises(InputError) as error:
        load_gpu(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: there is no such file$"):
        load_gpu(str(tmp_path / "none.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InputError, match=r"folder\.toml: cannot be read: Is a directory$"):
        load_gpu(str(tmp_path / "folder.toml"))
    (tmp_path / "bytes.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(InputError, match=r"bytes\.toml: is not TOML: 'utf-8' codec can't decode"):
        load_gpu(str(tmp_path / "bytes.toml"))


def test_the_manual_explains_every_field_and_its_example_loads(toml: Callable[[str], str]) -> None:
    manual = (Path(__file__).parents[3] / "docs" / "gpus.md").read_text(encoding="utf-8")
    cells = [
        line.split("|")[1] for line in manual.split("## Fields")[1].split("## Sources")[0].splitlines() if "|" in line
    ]
    assert sorted(" ".join(cells).replace(",", " ").replace("`", " ").split()) == sorted([*FIELDS, "field", "---"])

    example = load_gpu(toml(manual.split("```toml\n")[1].split("```")[0]))
    assert (example.boost_clock_hz, example.sm_count) == (1.755e9, load_gpu("h100-sxm-80gb").sm_count)
