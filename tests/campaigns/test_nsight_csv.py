"""Counter files as Nsight Compute prints them, in both layouts."""
# ruff: noqa: E501 - lines as the profiler prints them

from pathlib import Path

import pytest

from campaigns.nsight_csv import ProfiledLaunch, parse_nsight_csv
from perfmodel.errors import InputError

FIXED = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC"'
LONG = f"""==PROF== Connected to process 4711
hello from the program
{FIXED},"Section Name","Metric Name","Metric Unit","Metric Value"
"0","1","python","host","tiled_conv2d","1","7","(32, 4, 1)","(2, 2, 1)","0","9.0","Command line profiler metrics","dram__bytes_read.sum","Mbyte","1,002.50"
"0","1","python","host","tiled_conv2d","1","7","(32, 4, 1)","(2, 2, 1)","0","9.0","Command line profiler metrics","smsp__inst_executed.sum","inst","12,345"
"1","1","python","host","conv<5, 2>(float *)","1","7","(32, 4, 1)","(2, 2, 1)","0","9.0","Command line profiler metrics","smsp__inst_executed.sum","inst","7"
"1","1","python","host","conv<5, 2>(float *)","1","7","(32, 4, 1)","(2, 2, 1)","0","9.0","Command line profiler metrics","device__attribute_display_name","","NVIDIA H200"
==PROF== Disconnected from process 4711
"""
WIDE = f"""==PROF== Connected to process 4711
{FIXED},"dram__bytes_read.sum","smsp__inst_executed.sum","device__attribute_display_name"
"","","","","","","","","","","","Kbyte","inst",""
"0","1","python","host","tiled_conv2d","1","7","(32, 4, 1)","(2, 2, 1)","0","9.0","1,002,500","12,345","NVIDIA H200"
"1","1","python","host","conv<5, 2>(float *)","1","7","(32, 4, 1)","(2, 2, 1)","0","9.0","n/a","7","NVIDIA H200"
"""
EXPECTED = (
    ProfiledLaunch(
        launch_id=0,
        kernel="tiled_conv2d",
        metrics={"dram__bytes_read.sum": 1_002_500_000.0, "smsp__inst_executed.sum": 12_345.0},
    ),
    ProfiledLaunch(launch_id=1, kernel="conv<5, 2>(float *)", metrics={"smsp__inst_executed.sum": 7.0}),
)


@pytest.mark.parametrize("text", [LONG, WIDE])
def test_both_layouts_give_the_same_launches(text: str) -> None:
    assert parse_nsight_csv(Path("counters.csv"), text) == EXPECTED


def test_values_by_instance_stand_beside_the_total() -> None:
    text = f"""{FIXED},"sass__inst_executed_per_opcode"
"","","","","","","","","","","","inst"
"0","1","python","host","k","1","7","(32, 4, 1)","(2, 2, 1)","0","9.0","1,234 (FFMA: 1,000; BRA: 234)"
"""
    (launch,) = parse_nsight_csv(Path("counters.csv"), text)
    name = "sass__inst_executed_per_opcode"
    assert launch.metrics == {name: 1234.0, f"{name}.FFMA": 1000.0, f"{name}.BRA": 234.0}


def test_the_instances_of_long_machine_code_fill_one_cell() -> None:
    places = 20_000
    cell = f"{places} ({'; '.join(f'0x{number:04x}: 1' for number in range(places))})"
    assert len(cell) > 200_000  # the standard library reads 131,072 characters where nothing else is asked for
    text = f"""{FIXED},"smsp__inst_executed"
"","","","","","","","","","","","inst"
"0","1","python","host","k","1","7","(32, 4, 1)","(2, 2, 1)","0","9.0","{cell}"
"""
    (launch,) = parse_nsight_csv(Path("counters.csv"), text)
    assert launch.metrics["smsp__inst_executed"] == places
    assert len(launch.metrics) == 1 + places


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no line starts with the column 'ID'"),
        ("==ERROR== permission denied\n", "no line starts with the column 'ID'"),
        (LONG.split('"0","1"')[0], "no profiled launch"),
        (LONG[:-250], "cells, 15 are needed"),
        (WIDE.replace('"","","","","","","","","","","","Kbyte","inst",""\n', ""), "no line of units"),
        (WIDE[:-60], "cells, 14 are needed"),
        (LONG.replace('"1","1"', '"one","1"'), "'one' in column 'ID' is no number"),
        (LONG.replace('"Kernel Name",', ""), "column 'Kernel Name' is missing"),
    ],
)
def test_faulty_file_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        parse_nsight_csv(Path("counters.csv"), text)
    assert str(raised.value).startswith("counters.csv: ")
    assert "\n" not in str(raised.value)
