"""Measurements of the tiled convolution from small files written by hand, so that every expected value is visible."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.families.tiled_conv2d import FAMILY
from perfmodel.records.measurements import read_measurements
from perfmodel.records.tuning_cache import write_kernel_tuner_cache

HEADER = (
    "gpu,width,height,filter_width,filter_height,"
    "block_size_x,block_size_y,tile_size_x,tile_size_y,use_padding,read_only,time_ms,dram__bytes_read.sum"
)
ROWS = (
    "rtx-3090,4096,2048,15,5,32,4,2,1,0,1,1.5,100",
    "rtx-3090,4096,2048,15,5,64,2,1,8,0,0,2.25,200",
    "rtx-3090,512,512,3,3,16,16,1,1,1,0,,300",
)


def write(folder: Path, *lines: str) -> Path:
    path = folder / "measured.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def cache_document() -> dict[str, object]:
    parameters = {"block_size_x": 32, "block_size_y": 4, "filter_width": 15, "filter_height": 5}
    parameters |= {"tile_size_x": 2, "tile_size_y": 1, "use_padding": 0, "read_only": 1}
    return {
        "device_name": "NVIDIA GeForce RTX 3090",
        "kernel_name": "convolution_kernel",
        "problem_size": [4096, 2048],
        "tune_params_keys": list(parameters),
        "tune_params": {name: [value] for name, value in parameters.items()},
        "objective": "time",
        "cache": {
            "a": {**parameters, "time": 1.5, "times": [1.4, 1.5, 1.6]},
            "b": {**parameters, "tile_size_x": 8, "time": "CompilationFailedConfig"},
            "c": {**parameters, "tile_size_x": 7, "time": 1e20},
            "d": {**parameters, "tile_size_x": 6, "__error__": "InvalidConfig"},
        },
    }


def test_csv_gives_problems_configurations_times_and_raw_columns(tmp_path: Path) -> None:
    measured = read_measurements(write(tmp_path, HEADER, *ROWS), FAMILY)
    assert measured.gpu == "rtx-3090"
    assert [(p.height, p.width, p.filter_height, p.filter_width) for p in measured.problems] == [
        (2048, 4096, 5, 15),
        (512, 512, 3, 3),
    ]
    assert measured.problem_index.tolist() == [0, 0, 1]
    assert measured.batch["block_size_x"].tolist() == [32, 64, 16]
    assert measured.batch["use_shmem"].tolist() == [1, 1, 1]  # measured before the field existed
    np.testing.assert_allclose(measured.time_s[:2], [1.5e-3, 2.25e-3])
    assert measured.ran.tolist() == [True, True, False]
    assert measured.columns["dram__bytes_read.sum"].tolist() == [100, 200, 300]


def test_padding_that_has_no_effect_may_have_a_value(tmp_path: Path) -> None:
    document = cache_document()
    document["tune_params"] = {"use_shmem": [0, 1], **document["tune_params"]}  # type: ignore[dict-item]
    document["cache"] = {
        str(flag): {**document["cache"]["a"], "use_shmem": flag}  # type: ignore[index]
        for flag in (0, 1)
    }
    path = tmp_path / "cache.json"
    path.write_text(json.dumps(document))
    measured = read_measurements(path, FAMILY)
    assert [measured.batch.configuration(row).use_padding for row in (0, 1)] == [None, 0]


def test_csv_may_be_packed_and_may_carry_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "measured.bin"
    path.write_bytes(gzip.compress(("\ufeff" + "\r\n".join([HEADER, *ROWS])).encode()))
    assert len(read_measurements(path, FAMILY)) == 3


def test_query_keeps_the_rows_it_holds_for_and_only_their_problems(tmp_path: Path) -> None:
    measured = read_measurements(write(tmp_path, HEADER, *ROWS), FAMILY)
    kept = measured.where("tile_size_x * tile_size_y < 8 and width < 1000")
    assert len(kept) == 1
    assert [p.filter_width for p in kept.problems] == [3]
    assert kept.problem_index.tolist() == [0]
    assert kept.columns["block_size_y"].tolist() == [16]


@pytest.mark.parametrize(
    "query",
    [
        "no_such_column > 1",
        "9**9**9**9 > time_ms",
        "1 +",
        "tile_size_x",
        "@x > 1",
        "__import__('os').getpid() > 0",
        "time_ms.nothing()",
    ],
)
def test_bad_query_is_named(tmp_path: Path, query: str) -> None:
    measured = read_measurements(write(tmp_path, HEADER, *ROWS), FAMILY)
    with pytest.raises(InputError, match="--filter") as raised:
        measured.where(query)
    assert query in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((HEADER.replace("tile_size_y", "tile_y"), *ROWS), r"line 1: column 'tile_size_y' is missing"),
        ((HEADER.replace("time_ms", "time"), *ROWS), r"line 1: column 'time_ms' is missing"),
        ((HEADER.replace("time_ms", "gpu"), *ROWS), r"line 1: column 'gpu' stands twice"),
        ((HEADER,), r"line 1: no measurement follows"),
        ((HEADER, ROWS[0], ROWS[1][:30]), r"line 3: 8 cells where the header has 13 columns"),
        ((HEADER, ROWS[0], ROWS[1].replace("64", "wide")), r"line 3: column 'block_size_x': 'wide' is not a number"),
        ((HEADER, ROWS[0].replace(",32,", ",32.5,")), r"line 2: column 'block_size_x': '32.5' is not a whole number"),
        ((HEADER, ROWS[0].replace(",32,", ",-32,")), r"line 2: column 'block_size_x': '-32' is not a whole number"),
        ((HEADER, ROWS[0].replace(",32,", ",9999999999,")), r"line 2: column 'block_size_x': '9999999999'"),
        ((HEADER, ROWS[0].replace(",32,", ",,")), r"line 2: column 'block_size_x': ''"),
        ((HEADER, ROWS[0].replace("1.5", "fast")), r"line 2: column 'time_ms': 'fast' is not a positive number"),
        ((HEADER, ROWS[0].replace("1.5", "-1.5")), r"line 2: column 'time_ms': '-1.5' is not a positive number"),
        ((HEADER, ROWS[0].replace("1.5", "inf")), r"line 2: column 'time_ms': 'inf' is not a positive number"),
        ((HEADER, ROWS[0].replace("1.5", "1e-320")), r"'1e-320' is not a positive number of milliseconds \(1e-06 …"),
        ((HEADER, ROWS[0].replace("rtx-3090", '"rtx')), r"line \d: not CSV"),
        ((HEADER, ROWS[0], ROWS[1].replace("rtx-3090", "t4")), r"several GPUs \(rtx-3090, t4\)"),
        ((HEADER, "", ROWS[0], ROWS[1].replace("4096", "0")), r"line 4: .*0"),
        (("",), r"empty file"),
    ],
)
def test_faulty_csv_is_refused_in_one_line_with_file_and_line(
    tmp_path: Path, lines: tuple[str, ...], message: str
) -> None:
    path = write(tmp_path, *lines)
    with pytest.raises(InputError, match=message) as raised:
        read_measurements(path, FAMILY)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_kernel_tuner_cache_gives_times_and_failures(tmp_path: Path) -> None:
    path = tmp_path / "cache.json.gz"
    path.write_bytes(gzip.compress(json.dumps(cache_document()).encode()))
    measured = read_measurements(path, FAMILY)
    assert measured.gpu == "NVIDIA GeForce RTX 3090"
    assert (measured.problems[0].width, measured.problems[0].height) == (4096, 2048)  # x first
    assert measured.batch["tile_size_x"].tolist() == [2, 8, 7, 6]
    np.testing.assert_allclose(measured.time_s, [1.5e-3, np.nan, np.nan, np.nan])
    assert measured.columns["failure"].tolist()[1::2] == ["CompilationFailedConfig", "InvalidConfig"]


@pytest.mark.parametrize("end", ["}", "},", "},\n"])
def test_kernel_tuner_cache_of_a_broken_off_run_lacks_only_its_last_braces(tmp_path: Path, end: str) -> None:
    text = json.dumps(cache_document())
    assert text.endswith("}}}")
    path = tmp_path / "cache.json"
    path.write_text(text[:-3] + end)
    assert len(read_measurements(path, FAMILY)) == 4


def test_kernel_tuner_cache_cut_anywhere_else_is_refused_and_never_a_traceback(tmp_path: Path) -> None:
    text = json.dumps(cache_document())
    path = tmp_path / "cache.json"
    for length in range(1, len(text) - 3, 7):
        path.write_text(text[:length])
        between_entries = length > text.index('"cache"') and text[:length].rstrip(", ").endswith("}")
        if between_entries:  # as if broken off there
            assert len(read_measurements(path, FAMILY)) < 4
            continue
        with pytest.raises(InputError, match=r"cache\.json") as raised:
            read_measurements(path, FAMILY)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cache": {}}, "holds no configuration"),
        ({"cache": {"a": 5}}, "entry 'a': no object with a time"),
        ({"cache": {"a": {"time": 1.0}}}, "entry 'a': column 'filter_height' is missing"),
        ({"problem_size": [4096]}, "'problem_size'"),
        ({"tune_params": 3}, "'tune_params' is no object"),
    ],
)
def test_faulty_kernel_tuner_cache_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "cache.json"
    path.write_text(json.dumps(cache_document() | change))
    with pytest.raises(InputError, match=message):
        read_measurements(path, FAMILY)


def test_files_that_cannot_be_unpacked_or_decoded_are_named(tmp_path: Path) -> None:
    whole = gzip.compress(b"x" * 10_000)
    cases = {
        "cut.gz": (whole[: len(whole) // 2], "damaged gzip"),
        "flipped.gz": (whole[:20] + bytes([whole[20] ^ 0xFF]) + whole[21:], "damaged gzip"),
        "latin1.csv": ("größe".encode("latin-1"), "not UTF-8"),
        "damaged.json": (b'{"device_name": ,}', "line 1, column 17: damaged JSON"),
        "deep.json": (b"[" * 100_000, "damaged JSON"),
        "array.json": (b"[1, 2]", "outermost value is no object"),
    }
    for name, (data, message) in cases.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(InputError, match=message):
            read_measurements(path, FAMILY)
    with pytest.raises(InputError, match=r"absent\.csv: cannot be read"):
        read_measurements(tmp_path / "absent.csv", FAMILY)
    with pytest.raises(InputError, match="cannot be read"):
        read_measurements(tmp_path, FAMILY)


def test_kernel_tuner_cache_round_trip(tmp_path: Path) -> None:
    first = read_measurements(write(tmp_path, HEADER, *ROWS[:2], ROWS[0].replace("1.5", "").replace("32", "8")), FAMILY)
    path = tmp_path / "cache.json.gz"
    write_kernel_tuner_cache(path, first, FAMILY)
    second = read_measurements(path, FAMILY)
    assert second.problems == first.problems
    np.testing.assert_allclose(second.time_s, first.time_s)
    for name in first.batch.columns:
        assert second.batch[name].tolist() == first.batch[name].tolist()


def test_kernel_tuner_cache_holds_one_problem_size(tmp_path: Path) -> None:
    measured = read_measurements(write(tmp_path, HEADER, *ROWS), FAMILY)
    with pytest.raises(InputError, match="one problem size, not 2"):
        write_kernel_tuner_cache(tmp_path / "cache.json", measured, FAMILY)


@pytest.mark.data
def test_published_files_are_read_whole(published_data: Path) -> None:
    folder = published_data / "tiled_conv2d"
    sizes = {
        "rtx-2080-ti.counters.csv": (2640, 2640),
        "rtx-3090.csv": (2620, 2620),
        "a100-pcie-40gb.csv": (5776, 5776),
        "rtx-3090.kernel-tuner-cache.json.gz": (6768, 5220),  # 1,426 did not compile, 122 did not run
    }
    for name, (rows, ran) in sizes.items():
        measured = read_measurements(folder / name, FAMILY)
        assert (len(measured), int(measured.ran.sum())) == (rows, ran)
        assert [(p.height, p.filter_width) for p in measured.problems] == [(4096, 15)]
