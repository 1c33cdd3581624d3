"""The instruction that took a tile in another layout is named, and only where its cure is one."""

from __future__ import annotations

import numpy as np
import pytest
from foreign_kernels import cuda
from test_emulator_warpgroups import BITS, multiplied, operand

from nogpu import emulator

FRAGMENTS = cuda("fragments")


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize(
    ("load", "store", "want", "line"),
    [("", "", False, 0), (".trans", "", True, 0), ("", "", True, 3), (".trans", "", False, 3),
     (".trans", ".trans", True, 3)],
)  # fmt: skip
def test_a_missing_trans_is_named_where_it_is_missing(load, store, want, line, schedule):
    x, y = np.arange(64, dtype=np.uint16).reshape(8, 8), np.zeros((8, 8), np.uint16)
    source = FRAGMENTS.replace("LOAD", load).replace("STORE", store)
    expect = {"y": x.T if want else x}
    given = {"arch": "sm_90", "expect": expect, "schedule": schedule}
    report = emulator.launch(source.replace("EXTRA", "0"), "k", 1, 32, [x, y], **given)
    causes = [f for f in report.findings if "would be as expected" in f.message]
    assert [f.line for f in causes] == ([line] if line else [])
    assert f"ldmatrix had {'no ' * bool(load)}.trans here" in str(report) or not line
    assert report.ok is not bool(line)
    assert (y == (x.T if bool(load) != bool(store) else x)).all()  # as the kernel left it
    # A race beside it changes nothing in the order in which warps run here.
    racy = source.replace("EXTRA", "0").replace("r);\n    __syncwarp();", "r);")
    report = emulator.launch(racy, "k", 1, 32, [x, y], **given)
    assert "race" in {f.kind for f in report.findings}
    assert [f.line for f in report.findings if "would be as" in f.message] == [line] * bool(line)
    # What no single instruction explains is blamed on none.
    report = emulator.launch(source.replace("EXTRA", "1"), "k", 1, 32, [x, y], **given)
    assert {f.line for f in report.findings} == {18}


def flipped(meant, given, which):
    """Takes descriptors of one swizzle, and gives those of another, of A and of B."""
    flip = (BITS[meant] ^ BITS[given]) << 62
    return lambda a, b: (a ^ (flip if "A" in which else 0), b ^ (flip if "B" in which else 0))


def strided(stride):
    """Gives B's rows another distance."""
    return lambda a, b: (a, b ^ (stride >> 4 ^ 64 >> 4) << 32)


@pytest.mark.parametrize(
    ("swizzle", "change", "says"),
    [
        (128, flipped(128, 0, "B"), "descriptor of B said a swizzle of 128 bytes here"),
        (128, flipped(128, 32, "A"), "descriptor of A said a swizzle of 128 bytes here"),
        (128, flipped(128, 64, "AB"), "descriptors of A and of B said a swizzle of 128 bytes here"),
        *((row, strided(8 * row), f"B said a stride byte offset of {8 * row} here")
          for row in (128, 64, 32)),
        (0, strided(128), "B said a stride byte offset of 128 here"),
    ],
)  # fmt: skip
def test_a_descriptor_that_disagrees_with_its_tile_is_named(swizzle, change, says):
    kinds = ("f32", "f16", "f16")
    A, B = operand(64, "f16"), operand(32, "f16")
    given = {"left": swizzle, "right": swizzle, "values": (A, B), "extra": 16384}
    want = {"expect": {"D": (A @ B.T + 1).astype("f4")}}
    report, *_ = multiplied(kinds, 32, change=change, **given, **want)
    (cause,) = (f for f in report.findings if "would be as expected" in f.message)
    assert says in cause.message
    assert cause.kind == "wrong-result"
    assert ': "l"(a), "l"(b)' in cause.text
    assert len({f.line for f in report.findings}) == 2  # and the stores of D
    assert multiplied(kinds, 32, **given, **want)[0].ok
    both, *_ = multiplied(kinds, 32, change=change, start=2, **given, **want)
    assert not any("would be as expected" in f.message for f in both.findings)
