"""One product in four languages: the PTX as it is stored, in the emulator; what is stored of it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.chapters.ch23 import languages
from nogpu.errors import ShapeError, ToolchainError
from tools import languages as tool
from tools import languages_on_a_gpu as on_a_gpu

SHAPES = ((1, 8, 8), (129, 120, 72), (150, 136, 328))
TWINS = {"triton": r"^\s*cp\.async\.wait_group.*\n"}
TWINS |= dict.fromkeys(("tilelang", "cute", "cutile"), r"^\s*wgmma\.wait_group.*\n")
"""What is taken out: nobody waits for copies, or for products, before a stage is filled again."""


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", languages.NAMES)
def test_stored_ptx_is_right(name, shape, schedule):
    A, B = languages.operands(*shape)
    C, report = languages.emulated(name, A, B, schedule=schedule)
    assert languages.wrong(A, B, C) == 0 and not report.findings


@pytest.mark.parametrize("pattern", ["its wait", r"^\s*bar\.sync.*\n"])
@pytest.mark.parametrize("name", languages.NAMES)
def test_without_a_wait_or_a_barrier_it_is_found(name, pattern):
    gone = TWINS[name] if pattern == "its wait" else pattern
    source, count = re.subn(gone, "", languages.ptx(name), flags=re.MULTILINE)
    A, B = languages.operands(*SHAPES[2])
    _, report = languages.emulated(name, A, B, source=source)
    assert count and "race" in {f.kind for f in report.findings}


def test_a_wrong_element_is_counted():
    A, B = languages.operands(9, 8, 16)
    C, _ = languages.emulated("cute", A, B)
    assert languages.wrong(A, B, C ^ np.eye(9, 8, dtype=np.uint16) * 2) == 8


def test_whole_warps_store_boxes_as_cutile_writes_them():
    A, B = languages.operands(*SHAPES[1])
    source = languages.ptx("cutile", elect=False)
    C, report = languages.emulated("cutile", A, B, source=source)
    assert languages.wrong(A, B, C) == 0 and {f.kind for f in report.findings} == {"race"}


@pytest.mark.parametrize("shape", [(5, 9, 8), (5, 8, 12), (0, 8, 8)])
def test_rows_that_do_not_start_at_16_bytes_are_refused(shape):
    with pytest.raises(ShapeError, match="16 bytes"):
        languages.grid(*shape)


@pytest.mark.parametrize("name", languages.NAMES)
def test_no_path_and_no_debug_information_is_stored(name):
    text = languages.ptx(name)
    assert "/" not in text and ".section" not in text and text.count(".entry matmul(") == 1
    assert tool.stored(text)[0] == tool.stored(tool.stored(text)[0])[0]


def test_what_is_stored_of_ptx():
    given = (
        '.version 9.4\n.target sm_90a\n.file 1 "/x/a.py"\n.file 2 "/y.h"\n.visible .entry k_0'
        "(.param .u64 k_0_param_0)\n{ // x\n.loc 2 3 4, function_name $L1, inlined_at 1 7 5\n"
        ".loc 2 8 1\nret;\n}\n.section .debug_str\n{\n.b8 1\n}\n"
    )
    assert tool.stored(given) == (
        '.version 8.6\n.target sm_90a\n.file 1 "matmul"\n.visible .entry matmul'
        "(.param .u64 matmul_param_0)\n{\n.loc 1 7 5\nret;\n}\n",
        0,
    )


def test_a_language_that_is_not_there_is_told_of(tmp_path):
    missing = tmp_path / "python"
    missing.write_text("#!/bin/sh\necho no module >&2\nexit 1\n")
    missing.chmod(0o755)
    with pytest.raises(ToolchainError, match=r"triton.*no module"):
        tool.built("triton", str(missing))


def test_structures_are_their_bytes():
    members = on_a_gpu.structure([np.int32(1), np.int32(2), np.int64(3)])
    assert members.tobytes() == b"\1\0\0\0\2\0\0\0\3\0\0\0\0\0\0\0" and members.shape == (1,)


def test_what_the_table_counts():
    rows = languages.counted()
    steps, tiles = -(-languages.SHAPE[2] // 64), 4
    for row in rows:
        assert row["wrong"] == row["findings"] == row["spilled"] == 0
        assert row["wgmma"] == tiles * steps * 4 * 2 * 4  # k, halves of 64 rows, warps


# -- what was recorded -----------------------------------------------------------------------------


def unsound(record):
    """What the record lacks, and what is wrong in it."""
    wrong = (row for row in record["shapes"] if row["wrong"] or row["again"] or row["differ"])
    found = [f"{row['name']} at {row['m']}x{row['n']}x{row['k']}" for row in wrong]
    timed = {(row["name"], row["size"]) for row in record["times"]}
    names = (*languages.TITLES, *on_a_gpu.BESIDE, "baseline")
    wanted = {(name, size) for name in names for size in on_a_gpu.SIZES}
    found += [f"{name} at {size} has no time" for name, size in sorted(wanted - timed)]
    compared = {(row["name"], row["m"], row["n"], row["k"]) for row in record["shapes"]}
    every = {(name, *shape) for name in languages.TITLES for shape in on_a_gpu.SHAPES}
    return found + [f"{case} was not compared" for case in sorted(every - compared)]


def test_the_record_is_whole_and_each_element_has_the_emulators_bits():
    record = languages.record()
    assert unsound(record) == []
    first, *rest = record["shapes"]
    assert len(unsound({**record, "shapes": [{**first, "differ": 1}, *rest]})) == 1
    assert len(unsound({**record, "shapes": rest})) == 1
    assert len(unsound({**record, "times": record["times"][1:]})) == 1
