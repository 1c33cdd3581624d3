"""Drawings of lanes: what they show is what the emulator counted, a wrong map shows otherwise."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from helpers import catalog
from helpers.chapters.ch10 import pictures as ch10
from helpers.chapters.ch11 import pictures as ch11
from helpers.chapters.ch12 import pictures as ch12
from helpers.draw import Figure
from helpers.draw.lane_phases import first_read, phases
from nogpu import emulator
from nogpu.emulator.observe.counts import wide_load

READ = """
extern "C" __global__ void read(const int* first, float* out)
{
    __shared__ __align__(16) float tile[8192];
    for (int i = threadIdx.x; i < 8192; i += 32) tile[i] = i;
    __syncthreads();
    const VECTOR v = *reinterpret_cast<const VECTOR*>(&tile[first[threadIdx.x]]);  // the read
    out[threadIdx.x] = SUM;
}
"""


def shared_read(first, width=16):
    """A warp whose lanes read so many bytes of shared memory, each from its own word on."""
    where, out, n = np.array(first, np.int32), np.zeros(32, np.float32), width // 4
    parts = ["v"] if n == 1 else [f"v.{c}" for c in "xyzw"[:n]]
    defines = {"VECTOR": f"float{n if n > 1 else ''}", "SUM": " + ".join(parts)}
    report = emulator.launch(READ, "read", 1, 32, [where, out], defines=defines, samples=True)
    assert (out == n * where + n * (n - 1) // 2).all()
    return report


def wavefronts(report):
    """Wavefronts of the only line that reads shared memory."""
    [row] = [r for r in report.by_line() if (r.space, r.op) == ("shared", "load")]
    return row.wavefronts


def maps():
    chance = random.Random(3)
    rows = [[4 * (lane // 8) for lane in range(32)], [4 * (lane % 8) for lane in range(32)]]
    squares = [[4 * (lane // 2 % 4) for lane in range(32)], [8 * lane for lane in range(32)]]
    return [*rows, *squares, *([4 * chance.randrange(20) for _ in range(32)] for _ in range(3))]


@pytest.mark.parametrize("words", maps(), ids=range(len(maps())))
def test_phases_add_up_to_what_the_emulator_counts(words):
    served = phases(words)
    assert (
        sum(phase.wavefronts for phase in served)
        == wavefronts(shared_read(words))
        == wide_load(words)
    )
    assert [lane for phase in served for lane in phase.lanes] == list(range(32))


@cache
def warp_tiled(lane_m="", lane_n=""):
    """The kernel of chapter 13, a warp of 32 x 64 with 8x8 a thread, or another lane map."""
    k = catalog["warp_tiled"]
    size = k.params | {"BN": 128, "WM": 32, "TM": 8}
    source = k.source
    for old, new in (
        ("lane / 2 % LANES_M", lane_m),
        ("lane / (2 * LANES_M) * 2 + lane % 2", lane_n),
    ):
        assert f"= {old};" in source
        source = source.replace(f"= {old};", f"= {new or old};")
    A, B, C = (np.ones((128, 128), np.float32) for _ in range(3))
    return emulator.launch(
        source, k.entry, (1, 1, 1), (256, 1, 1), [A, B, C, 128, 128, 128],
        defines={name: str(value) for name, value in size.items()}, samples=True,
    )  # fmt: skip


def test_the_lane_map_is_the_kernels():
    report = warp_tiled()
    rows, columns = first_read(report, "A_tile"), first_read(report, "B_tile")
    assert rows == tuple(4 * (lane // 2 % 4) for lane in range(32))
    assert columns == tuple(4 * (lane // 8 * 2 + lane % 2) for lane in range(32))
    alt = ch12.lane_map(report).alt
    assert "4 rows of thread tiles by 8 columns of them" in alt
    assert "lane 1 row 0, column 4, lane 2 row 4, column 0" in alt
    assert "A read of A takes 2 wavefronts" in alt and "a read of B takes 2 wavefronts" in alt
    by_array = {r.array: r.wavefronts_per_request for r in report.by_line()
                if (r.space, r.op) == ("shared", "load")}  # fmt: skip
    assert by_array == {"A_tile": 2, "B_tile": 2}


def test_another_lane_map_looks_different():
    near, far = warp_tiled(), warp_tiled("lane / LANES_N", "lane % LANES_N")
    figure = ch12.lane_map(far)
    assert "a read of B takes 4 wavefronts (lanes 0–7 8 groups" in figure.alt
    assert "lane 2 row 0, column 8" in figure.alt
    assert figure.svg != ch12.lane_map(near).svg
    alt = ch10.wide_reads({"Squares": near, "Rows": far}).alt
    assert "Squares: lanes 0–15 want 4 groups of four words in banks 0–3, 4–7, 8–11" in alt
    assert "Rows: lanes 0–7 want 8 groups of four words in banks 0–3, 4–7, 8–11" in alt
    assert "the whole read takes 4" in alt and "the whole read takes 2" in alt


def test_cover_is_drawn_to_scale():
    cover = {"none": (0, 512), "half": (256, 512), "all": (1024, 1024)}
    figure = ch11.load_cover(cover, {"DRAM": 500})
    assert "half 256 of 512 multiply-adds, 1,024 clocks" in figure.alt
    assert "about 500 from DRAM" in figure.alt
    for drawn in (figure.svg, figure.narrow):
        assert "256 of 512" in drawn and "1024 of 1024" in drawn
    assert ch11.load_cover({**cover, "half": (128, 512)}, {"DRAM": 500}).svg != figure.svg


FIGURES: dict[str, Callable[[], Figure]] = {
    "lane_map": lambda: ch12.lane_map(warp_tiled()),
    "wide_reads": lambda: ch10.wide_reads({"one": warp_tiled()}),
    "load_cover": lambda: ch11.load_cover({"a": (1, 2), "b": (2, 2)}, {"L2": 2, "DRAM": 4}),
}
