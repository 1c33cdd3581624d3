"""The explorers: what the page shows is what Python computes, in a real browser, network off."""

from __future__ import annotations

import itertools
import math
import random
import re
import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe

from helpers import matmul, plan, trace
from helpers.ladder import hopper, model
from helpers.ladder.jobs import duties
from helpers.ladder.kernel import broken_rules
from helpers.ladder.rungs import catalog, find
from helpers.page import explorers
from helpers.page.explorers import _banks as bank_room
from helpers.page.explorers import _coalescing as sector_room
from helpers.page.explorers import _descriptor as bit_room
from helpers.page.explorers import _march as march_room
from helpers.page.explorers import _pipeline as pipeline_room
from helpers.page.explorers import _request as request_room
from helpers.page.explorers import _ring as ring_room
from helpers.page.explorers import _stepper as step_room
from helpers.page.explorers import _stream_k as stream_room
from helpers.page.explorers import _tile as tile_room
from helpers.page.explorers.core import Explorer, script
from helpers.record import costs, load, store
from helpers.record.entries import Swept
from helpers.wording import number
from nogpu import device, emulator
from nogpu.errors import ConfigError, EmulationError
from nogpu.text import without_comments
from tests.common import ROOT
from tests.pages_check import FIND_CRAMPED
from tests.test_pictures_lanes import shared_read, wavefronts

STEPPED = (
    "tiled_32_core", "warp_tiled_core", "block_1d_core", "block_2d_core", "vectorised_core",
    "cp_async_core",
)  # fmt: skip
LANES = "WM WN TM TN"
"""Sizes that the 32 lanes of a warp tie."""
MAKE: dict[str, Callable[[], Explorer]] = {
    "coalescing": explorers.coalescing,
    "request": explorers.request,
    "banks": explorers.banks,
    "occupancy": explorers.occupancy,
    "tile_tiled": lambda: explorers.tile("tiled_32"),
    "tile_1d": lambda: explorers.tile("block_1d"),
    "tile_2d": lambda: explorers.tile("block_2d"),
    "tile_warp": lambda: explorers.tile("warp_tiled", together=LANES),
    "tile_column": lambda: explorers.tile("block_1d", together="BM BN BK TM"),
    "roofline": explorers.roofline,
    "ladder": explorers.ladder,
    "hierarchy": explorers.hierarchy,
    "fragments": explorers.fragments,
    "swizzle": explorers.swizzle,
    "ldmatrix": explorers.ldmatrix,
    "descriptor": explorers.descriptor,
    "scorecard": explorers.scorecard,
    "stream_k": explorers.stream_k,
    "pipeline": explorers.pipeline,
    "march": explorers.march,
    "ring": explorers.ring,
    "ring_groups": partial(explorers.ring, barriers=False),
    **{f"stepper_{name}": partial(explorers.stepper, name) for name in STEPPED},
}


@cache
def made(name):
    """An explorer, made once for all tests."""
    return MAKE[name]()


def states(explorer, most=2000):
    """Every state, or a random sample that holds the default and each control at both its ends."""
    names, each = explorer.default, [c.values for c in explorer.controls]
    if math.prod(map(len, each)) <= most:
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*each)]
    rng = random.Random(5)
    found = [explorer.default]
    for c in explorer.controls:
        found += [{**explorer.default, c.name: v} for v in c.values]
    while len(found) < most:
        found.append({c.name: rng.choice(c.values) for c in explorer.controls})
    return found


PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Explorers</title>
<style>:root{{color-scheme:light dark}}
body{{font-family:sans-serif;background:Canvas;color:CanvasText;margin:0 auto;padding:0 12px;max-width:760px}}
</style></head><body><main><h1>Explorers</h1>{body}</main></body></html>"""


# -- Python alone ---------------------------------------------------------------------------------


READ = """
extern "C" __global__ void read(const TYPE* x, const int* where, TYPE* out)
{
    const int i = threadIdx.x;
    const int at = where[i];
    out[i] = x[at];
}
"""


@pytest.mark.parametrize("size,name", [(1, "char"), (2, "short"), (4, "int"), (8, "double")])
def test_sectors_are_those_that_the_emulator_counts(size, name):
    dtype = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.float64}[size]
    columns = (("column", *at) for at in ((1, 0), (1, 1), (7, 3)))
    for follows, stride, offset in (*columns, ("row", 1, 0), ("row", 32, 32), ("none", 4, 9)):
        where = sector_room.lanes(follows, stride, offset).astype(np.int32)
        x, out = np.zeros(int(where.max()) + 1, dtype), np.zeros(32, dtype)
        report = emulator.launch(READ, "read", 1, 32, [x, where, out], defines={"TYPE": name})
        counted = next(row.sectors for row in report.by_line() if row.array == "x")
        state = {"follows": follows, "stride": stride, "offset": offset, "size": size}
        shown = made("coalescing").read(**state)
        assert int(shown.text["sectors"]) == counted


@pytest.mark.parametrize("name", request_room.KERNELS)
def test_the_requests_are_those_of_the_kernels(name):
    """All requests of the first warp, where rows of A and of B differ in length; and their cost."""
    K, N = 32, 96
    t = trace(f"{name}_core", M=32, N=N, K=K, samples=True)
    seen: dict[str, set[tuple[int, ...]]] = {"A": set(), "B": set()}
    for (_, _, op), samples in t.report.samples.items():
        for array, size, offsets in samples if op == "load" else ():
            seen[array].add(tuple(int(at) // size for at in offsets[0]))  # of the first warp
    own = request_room.loads(name, K)
    for array, step in (("A", 1), ("B", N)):
        of_warp = {tuple(int(e) + k * step for e in own[array]) for k in range(K)}
        assert of_warp == seen[array]
    other = request_room.loads(next(k for k in request_room.KERNELS if k != name), K)
    assert tuple(other["A"]) not in seen["A"] and tuple(other["B"]) not in seen["B"]
    cost = {row.array: row.sectors_per_request for row in t.by_line() if row.op == "load"}
    for array in "AB":
        assert made("request").read(loads=array).text[name].startswith(f"{cost[array]:.0f} sector")


@pytest.mark.parametrize("width", [4, 8, 16])
def test_wavefronts_are_those_that_the_emulator_counts(width):
    walks = [(32, pad, "column", 1) for pad in (0, 1, 4)] + [(64, 8, "column", 2)]
    walks += [(32, 0, "row", 2), (8, 0, "row", 1), (32, 0, "same", 1)]
    for columns, pad, walk, stride in walks:
        state = {"columns": columns, "pad": pad, "walk": walk, "width": width, "stride": stride}
        state["op"] = "load"
        where = bank_room.first_words(state).astype(np.int32)
        shown = made("banks").read(**state)
        if (where % (width // 4)).any():
            assert shown.say == "misaligned"
            continue
        if where.max() + width // 4 > 8192:
            continue
        counted = wavefronts(shared_read(where, width))
        assert int(shown.text["wavefronts"]) == counted, state


def test_tiles_are_legal_as_the_catalog_says():
    explorer = made("tile_2d")
    for state in states(explorer, 300):
        tile = {n: v for n, v in state.items() if n != "gpu"}
        broken = broken_rules(catalog["block_2d"], **tile)
        shown = explorer.read(**state)
        assert (shown.say == "illegal") == bool(broken)
        if broken:
            rule = f"is not legal: {broken[0].reason} (the rule is {broken[0].expr})."
            assert explorer.sentence(**state).endswith(rule)
        else:
            intensity = model.arithmetic_intensity("block_2d", 4096, 4096, 4096, **tile)
            assert float(shown.text["intensity"]) == pytest.approx(intensity, abs=0.006)


@pytest.mark.parametrize(
    ("name", "opens"),
    [("tile_tiled", True), ("tile_2d", True), ("tile_warp", True), ("tile_column", True),
     ("tile_1d", False)],
)  # fmt: skip
def test_a_page_opens_where_half_of_the_steps_are_legal(name, opens):
    """One step of one slider; not where each of the sizes that a rule ties moves alone."""
    explorer = made(name)
    legal = [
        explorer.read(**{c.name: c.values[at]}).say != "illegal"
        for c in explorer.controls
        if c.name != "gpu"
        for at in (c.values.index(c.value) - 1, c.values.index(c.value) + 1)
        if 0 <= at < len(c.values)
    ]
    assert (2 * sum(legal) >= len(legal) > 0) is opens, legal
    assert explorer.read().say != "illegal"


@pytest.mark.parametrize(
    ("page", "name"), [("13_loop_registers", "tile_warp"), ("deeper_08_block_1d", "tile_column")]
)
def test_the_pages_ask_for_sizes_that_move_together(page, name):
    text = (ROOT / "book" / f"{page}.md").read_text(encoding="utf-8")
    [call] = re.findall(r"(?m)^explorers\.tile\(.*\)$", text)
    explorer = eval(call, {"explorers": explorers})
    assert [c.name for c in explorer.controls] == [c.name for c in made(name).controls]


def test_one_slider_has_every_set_of_sizes_that_is_legal_somewhere():
    tied, alone = made("tile_warp"), explorers.tile("warp_tiled")
    names = LANES.split()
    [slider] = [c for c in tied.controls if c.name == tile_room.TOGETHER]
    legal = {tuple(tile[n] for n in names) for tile in tile_room.table("warp_tiled").tiles}
    assert {tuple(map(int, value.split(", "))) for value in slider.values} == legal
    assert slider.label == "WM, WN, TM, TN"
    for state in states(tied, 200):
        sizes = dict(zip(names, map(int, state.pop(tile_room.TOGETHER).split(", ")), strict=True))
        both = tied.read(**state, together=", ".join(map(str, sizes.values())))
        assert both == alone.read(**state, **sizes)


def test_the_tile_says_what_was_not_timed_and_takes_up_a_sweep(monkeypatch, tmp_path):
    record = store.read(store.FOLDER / "h200.json")
    other = {"BM": 32, "BN": 32, "BK": 4, "TM": 8}
    [swept] = record.of(Swept, kernel="block_1d", params=other)
    record.data["sweep"] = []
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    record.path = tmp_path / "h200.json"
    record.write()
    before = explorers.tile("block_1d")
    assert before.read().say == "timed"
    assert before.read(**other).say == "legal"
    assert before.read(**other).text["time"] == tile_room.NO_TIME
    assert "were not recorded" in before.note

    record.merge(swept)
    record.write()
    after = explorers.tile("block_1d")
    assert after.read(**other).text["time"] == f"{swept.ms:.3f} ms"
    assert after.note.startswith("Times of every tile")
    record.merge(replace(swept, source="older"))
    record.write()
    assert explorers.tile("block_1d").read(**other).say == "legal"


def test_a_tile_is_drawn_under_the_roof_of_its_precision():
    for name, precision in (("block_1d", "fp32"), ("wmma_tiled", "fp16"), ("hopper_2", "bf16")):
        for key, roof in tile_room.roofs(catalog[name]).items():
            assert roof["peak"] == pytest.approx(device.gpu(key).peak_gflops(precision), abs=0.1)


def test_one_code_shares_the_times_of_its_tiles_and_no_other_code_does():
    timed = tile_room.times(catalog["tiled_32"], "h200").ms
    record, cube = load("h200"), {"m": 4096, "n": 4096, "k": 4096}
    recorded = {p["kernel"]: p["ms"] for p in record.find("points", **cube)}
    expected = {(t,): recorded[f"tiled_{t}"] for t in (8, 16, 32)}
    for section in ("sweep", "tuned"):  # a sweep's time replaces a point's, a confirmed one both
        found = record.find(section, kernel="tiled_32", **cube)
        expected |= {(e["params"]["TILE"],): e["ms"] for e in found}
    assert timed == expected
    integers = tile_room.times(catalog["tiled_int_32"], "h200").ms
    assert integers == {(32,): recorded["tiled_int_32"]}
    assert timed[32,] != integers[32,]


@pytest.mark.parametrize("name", STEPPED)
def test_the_stepper_ends_with_what_the_kernel_computes(name):
    d = duties(name)
    A, B = step_room.example(d)
    C = matmul(name, A.astype(np.float32), B.astype(np.float32), backend="emulator")
    explorer = made(f"stepper_{name}")
    *_, last = explorer.controls[0].values
    for thread in explorer.controls[1].values:
        shown = explorer.read(step=last, thread=thread).text["sums"]
        sums = [int(x) for x in shown.replace(";", "").split()]
        assert sums == [C[at] for at in d.computes[thread]]
        assert sums != [(A @ (B + 1))[at] for at in d.computes[thread]]


def test_the_stepper_says_what_its_thread_copies_and_reads():
    explorer = explorers.stepper("vectorised_core")
    copy, first = explorer.read(step=9), explorer.read(step=1)
    assert copy.say == "copy" and copy.text["k0"] == "8"
    assert copy.text["a"] == "A[18, 12–15] into rows 4–7, column 18 of A_tile"
    assert copy.text["b"] == "B[9, 20–23] into row 1, columns 20–23 of B_tile"
    assert copy.text["sums"] == explorer.read(step=8).text["sums"] != first.text["sums"]
    a, b = ([int(x) for x in first.text[n].split()] for n in "ab")
    assert first.text["sums"] == "; ".join(" ".join(str(x * y) for y in b) for x in a)
    assert first.text["reuse"] == "4.00" and first.text["madds"] == "64"
    assert explorers.stepper("tiled_32_core").read().text["reuse"] == "0.500"
    with pytest.raises(ConfigError, match="threads 0 to 255"):
        explorers.stepper("vectorised_core", thread=256)


def test_the_march_multiplies_behind_both_barriers_and_without_them_does_not():
    """Against NumPy; one row in time by luck is the reason for more than one late warp."""
    explorer, (A, B, *left) = made("march"), march_room.example()
    for state in states(explorer):
        if state["at"] < march_room.LAST:
            continue
        shown = explorer.read(**state)
        sums = np.array([row.split() for row in shown.text["sums"].split("; ")], int)
        lucky = state["barriers"] == "2" and state["late"] == 3
        assert (sums == A @ B).all() == (state["barriers"] == "12" or lucky), state
        assert shown.text["right"] == f"{(sums == A @ B).sum()} of 16"
        assert (shown.say == "end_wrong") == (shown.text["wrong"] != "0") == (sums != A @ B).any()
        assert (shown.say == "lucky") == lucky
    tiles = B[:, 0].reshape(march_room.STEPS, march_room.TILE)
    assert all(len(set(column)) == march_room.STEPS for column in tiles.T)  # a wrong row is seen
    assert max(A.max(), B.max()) < 5 <= min(x.min() for x in left)


def test_the_march_names_its_first_wrong_read():
    explorer, (A, B, _, left) = made("march"), march_room.example()
    wrong = explorer.read(at=march_room.LAST, barriers="2").text
    assert (wrong["warp"], wrong["k"], wrong["got"]) == ("0", "2", str(left[2, 0]))
    assert wrong["want"] == str(B[2, 0]) and wrong["true"] == str(A[0, :3] @ B[:3, 0])
    assert int(wrong["sum"]) == int(wrong["true"]) + A[0, 2] * (left[2, 0] - B[2, 0])
    assert "because warp 2 has yet to store that row" in explorer.sentence(at=9, barriers="2")
    assert "warp 3 has already stored a later row" in explorer.sentence(at=30, barriers="1")
    for late in range(march_room.TILE):  # nobody passes a barrier before the last has come to it
        rows = march_room.schedule("12", late)
        for barrier in "12":
            ends = [[m.end() for m in re.finditer(rf"{barrier}+", row)] for row in rows]
            assert len(set(map(tuple, ends))) == 1 and len(ends[0]) == march_room.STEPS


def lit_lines(explorer, core):
    """The lines that each kind of step lights, by its name; all lines of code are the core's."""
    text = " ".join(without_comments(find(core).source).split())
    assert [line for line in explorer.code if " ".join(line.split()) not in text] == []
    return {n: [explorer.code[i] for i in at] for n, at in explorer.data["lines"].items()}


@pytest.mark.parametrize("name", STEPPED)
def test_the_lines_that_a_step_lights_are_those_of_the_core(name):
    lit = {n: " ".join(at) for n, at in lit_lines(made(f"stepper_{name}"), name).items()}
    assert "sum" in lit["step"] and ("_tile" in lit["step"] or "read_frags" in lit["step"])
    assert "__syncthreads" in lit["copy"] and "sum" not in lit["copy"]
    assert "_tile" in lit["copy"] or "copy(" in lit["copy"]


def test_the_lines_that_the_march_lights_are_those_of_the_core():
    lit, at = lit_lines(made("march"), "tiled_32_core"), made("march").data["lines"]
    assert [line.split("[")[0].strip() for line in lit["c"]] == ["A_tile", "B_tile"]
    assert lit["1"] == lit["2"] and at["1"] < at["2"]
    assert "sum +=" in lit["k"][1] and lit["C"] == ["C[row * N + col] = sum;"]


ONE_MMA = """
#include "common/mma.cuh"

extern "C" __global__ void one_mma(const unsigned* a, const unsigned* b, float* c)
{
    const int lane = threadIdx.x;
    float sum[4] = {0, 0, 0, 0};
    mma_m16n8k16<__half>(sum, a + lane * 4, b + lane * 2);
    for (int i = 0; i < 4; ++i) c[lane * 4 + i] = sum[i];
}
"""


@pytest.mark.parametrize("wrong", ["", "A", "B", "C"])
def test_fragments_are_those_that_the_emulator_multiplies(wrong):
    """Filled and read as the explorer says; with two lanes of an operand exchanged it must fail."""
    explorer, rng = made("fragments"), np.random.default_rng(18)
    A, B = rng.integers(-9, 10, (16, 16)), rng.integers(-9, 10, (16, 8))
    a, b, c = np.zeros((32, 8), "f2"), np.zeros((32, 4), "f2"), np.zeros((32, 4), "f4")
    found = np.zeros((16, 8))

    def elements(name):
        """Lane, place in its registers, and element, of an operand."""
        for state in states(explorer):
            text = explorer.read(**state).text
            of, row, col = re.findall(r"\w+", text["element"])
            if of == name:
                lane = state["lane"] ^ (of == wrong)
                upper = 0 if name == "C" else text["half"] == "upper"
                place = int(text["register"]) * (1 if name == "C" else 2) + upper
                yield lane, place, (int(row), int(col))

    for lane, place, at in elements("A"):
        a[lane, place] = A[at]
    for lane, place, at in elements("B"):
        b[lane, place] = B[at]
    given = [a.view(np.uint32), b.view(np.uint32), c]
    emulator.launch(ONE_MMA, "one_mma", 1, 32, given, arch="sm_80")
    for lane, place, at in elements("C"):
        found[at] = c[lane, place]
    assert (found == A @ B).all() == (not wrong)


def test_a_lane_holds_what_its_elements_say():
    explorer = made("fragments")
    wanted = {
        "A": "r0 [2, 2–3], r1 [10, 2–3], r2 [2, 10–11], r3 [10, 10–11]",
        "B": "r0 [2–3, 2], r1 [10–11, 2]",
        "C": "r0 [2, 2], r1 [2, 3], r2 [10, 2], r3 [10, 3]",
    }
    shown = {name: explorer.read(lane=9).text[name] for name in wanted}
    unbroken = {name: words.replace("\u2060", "") for name, words in shown.items()}
    assert {name: words.replace("\xa0", " ") for name, words in unbroken.items()} == wanted
    assert shown["B"] == "r0\xa0[2–\u20603,\xa02], r1\xa0[10–\u206011,\xa02]"
    assert explorer.sentence(lane=31, slot=15).startswith("C[15, 7] fills register 3 of lane 31,")


FETCH = """
#include "common/ldmatrix.cuh"
#include "common/swizzle.cuh"

extern "C" __global__ void fetch(const int* where, unsigned* out, int* book)
{
    __shared__ __align__(128) unsigned short tile[9 * 64];
    const int lane = threadIdx.x;
    for (int i = lane; i < 9 * 64; i += 32) tile[i] = i;
    __syncthreads();
    const unsigned row = shared_address(&tile[where[lane % 8]]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(out[lane]) : "r"(row));
    book[lane] = swizzled<64>(lane % 8, lane / 8 * 8);
    book[lane + 32] = swizzled<64>(lane % 8, lane / 8 * 8 + 32);
}
"""


@pytest.mark.parametrize("layout", ["plain", "swizzled", "padded"])
def test_an_ldmatrix_takes_the_wavefronts_that_the_emulator_counts(layout):
    explorer, book = made("swizzle"), np.zeros(64, np.int32)
    places: list[int] = []
    for chunk in range(8):
        shown = [explorer.read(layout=layout, chunk=chunk, row=row).text for row in range(8)]
        where = np.array([int(s["address"].replace(",", "")) // 2 for s in shown], np.int32)
        out = np.zeros(32, np.uint32)
        report = emulator.launch(FETCH, "fetch", 1, 32, [where, out, book])
        [read] = [r for r in report.by_line() if (r.space, r.op) == ("shared", "load")]
        assert {s["wavefronts"] for s in shown} == {f"{read.wavefronts:.0f}"}
        assert (out[::4] & 0xFFFF == where).all()
        assert [s["banks"] for s in shown] == [f"{w // 2 % 32} to {w // 2 % 32 + 3}" for w in where]
        places += where.tolist()
    assert (places == book.tolist()) == (layout == "swizzled")
    assert len({*places}) == 64 and max(places) < int(shown[0]["bytes"].replace(",", "")) // 2


RECEIVE = """
#include "common/ldmatrix.cuh"

extern "C" __global__ void receive(const int* where, unsigned* out)
{
    __shared__ __align__(16) unsigned short tile[16 * 16];
    const int lane = threadIdx.x;
    for (int i = lane; i < 16 * 16; i += 32) tile[i] = i;
    __syncthreads();
    unsigned r[4];
    FETCH(r, shared_address(&tile[where[lane]]));
    for (int i = 0; i < 4; ++i) out[lane * 4 + i] = r[i];
}
"""


@pytest.mark.parametrize("way,fetch", [("plain", "ldmatrix_x4"), ("trans", "ldmatrix_x4_trans")])
def test_an_ldmatrix_gives_each_lane_what_the_emulator_does(way, fetch):
    """From the addresses that the figure says; with those of two lanes exchanged it does not."""
    shown = [made("ldmatrix").read(way=way, lane=lane).text for lane in range(32)]
    where = []
    for s in shown:
        row, first, last = map(int, re.findall(r"\d+", s["gives"]))
        where.append(16 * row + first)
        assert last == first + 7
    elements, takers = [], [set[int]() for _ in range(16 * 2)]
    for lane, s in enumerate(shown):
        for register in s["gets"].split(", r"):
            rows, cols = (
                [int(n) for n in re.findall(r"\d+", part)] for part in register.split(",")[:2]
            )
            taken = rows[-2:] if way == "trans" else rows[-1:]
            pair = [16 * row + col for row in taken for col in cols]
            assert len(pair) == 2
            elements += pair
            for element in pair:
                takers[element // 8].add(lane)
    for s, start in zip(shown, where, strict=True):
        ends = [int(n) for n in re.findall(r"\d+", s["to"])]
        assert takers[start // 8] == ({*range(ends[0], ends[1] + 1)} if way == "plain" else {*ends})
    for wrong in (False, True):
        out = np.zeros((32, 4), np.uint32)
        given = np.array([where[1], where[0], *where[2:]] if wrong else where, np.int32)
        emulator.launch(RECEIVE, "receive", 1, 32, [given, out], defines={"FETCH": fetch})
        assert (out.view(np.uint16).reshape(-1).tolist() == elements) is not wrong


MULTIPLY = """
#include "common/wgmma.cuh"

extern "C" __global__ void multiply(const unsigned* x, unsigned long long a, unsigned long long b,
                                    int bytes, float* out)
{
    extern __shared__ __align__(1024) unsigned tile[];
    for (int i = threadIdx.x; i < bytes / 4; i += WARPGROUP) tile[i] = x[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    float sum[1][64];
    wgmma_fence();
    wgmma<half>(sum[0], a, b, false);
    wgmma_commit();
    wgmma_finish(sum);
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 64; ++i)
        out[(16 * warp + g + i / 2 % 2 * 8) * 128 + i / 4 * 8 + 2 * t + i % 2] = sum[0][i];
}
"""


def bytes_that_wgmma_reads(operand, code, size, *, alone=False):
    """Address of each element of an operand of one wgmma, by its values in the emulator.

    The tile of `size` bytes holds its elements' numbers, in two runs of parts that FP16 has room
    for; behind it lie ones on a diagonal, without a swizzle, as the other operand. alone: nothing
    lies behind the tile. Raises EmulationError for a finding.
    """
    other = np.zeros((64, 16) if operand == "B" else (16, 128), np.float16)
    numbers = np.arange(size // 2)
    np.fill_diagonal(other, 1)
    if operand == "B":  # rows of 16 k, in pieces of 8: eight rows, the next eight, then the next k
        ones, strides = other.reshape(8, 8, 2, 8).transpose(2, 0, 1, 3), (1024, 128)
    else:
        ones, strides = other.reshape(2, 8, 16, 8).transpose(0, 2, 1, 3), (2048, 128)
    begin = bit_room.BEGIN + (0 if alone else size)
    plain = begin >> 4 | strides[0] >> 4 << 16 | strides[1] >> 4 << 32
    found = np.zeros((16, 128) if operand == "B" else (64, 16))
    for part, weight in ((numbers % 64, 1), (numbers // 64, 64)):
        x = np.concatenate([part.astype(np.float16), ones.reshape(-1)[: 0 if alone else None]])
        out = np.zeros((64, 128), np.float32)
        words = (code, plain) if operand == "A" else (plain, code)
        report = emulator.launch(
            MULTIPLY, "multiply", 1, 128, [x.view("u4"), *map(np.uint64, words), x.nbytes, out],
            arch="sm_90a", shared_bytes=x.nbytes,
        )  # fmt: skip
        for finding in report.findings:
            raise EmulationError(str(finding))
        found += weight * out[: found.shape[0], : found.shape[1]]
    return [int(at) for at in (bit_room.BEGIN + 2 * found).reshape(-1)]


@pytest.mark.parametrize("operand", bit_room.OPERANDS)
def test_a_descriptor_names_the_bytes_that_wgmma_reads(operand):
    """Each that the emulator takes, beside one with another stride; what it refuses, the figure says."""
    explorer, size = made("descriptor"), bit_room.BOXES * bit_room.BOX_BYTES
    seen = []
    for change in range(len(bit_room.CHANGES)):
        state = {"operand": operand, "change": change}
        shown, code = explorer.read(**state), int(explorer.read(**state).text["word"], 16)
        if shown.say in ("middle", "outside"):
            refused = {"middle": "begins in the middle of it", "outside": "past its end"}[shown.say]
            with pytest.raises(EmulationError, match=refused):
                bytes_that_wgmma_reads(operand, code, size, alone=shown.say == "outside")
            continue
        named = [int(a) + 2 * e for a in bit_room.pieces(state) for e in range(8)]
        assert bytes_that_wgmma_reads(operand, code, size) == named, state
        assert int(shown.text["bytes"].replace(",", "")) == 2 * len(set(named))
        seen.append(named)
    assert any(one != seen[0] for one in seen)


def test_the_descriptor_opens_as_the_kernels_fill_it():
    """And all pieces of an operand are its own then; with a wrong stride some are not."""
    for operand in bit_room.OPERANDS:
        start, leading, stride, _, _ = bit_room.kernels(operand)
        code = hopper.wgmma_descriptor(start, leading, stride)
        text = f"describe(start, {'BOX_BYTES' if operand == 'B' else 16}, SWIZZLE_BYTES)"
        assert text in (ROOT / "kernels/common/wgmma.cuh").read_text(encoding="utf-8")
        for field, value in enumerate(bit_room.kernels(operand)):
            state = {"operand": operand, "change": bit_room.CHANGES.index((field, value))}
            own, of = made("descriptor").read(**state).text["right"].split(" of ")
            assert bit_room.word(state) == code and own == of
        wrong = bit_room.CHANGES.index((bit_room.STRIDE, 512))
        own, of = made("descriptor").read(operand=operand, change=wrong).text["right"].split(" of ")
        assert int(own) < int(of)


def test_the_scorecard_is_that_of_the_cost_model():
    """Rung by rung: bars, time, and the name of the longest, which changes where the figure says."""
    explorer, was = made("scorecard"), None
    for name in explorer.controls[1].values:
        b, shown = costs.bounds(name, 4096, gpu="h200"), explorer.read(rung=name)
        assert shown.text["all"] == "; ".join(f"{n} {number(b[n].ms)} ms" for n in b)
        assert [ms for _, ms, *_ in explorer.data["rungs"][name]["bars"]] == [b[n].ms for n in b]
        longest, shortest = (of(b, key=lambda n: b[n].ms) for of in (max, min))
        assert shown.text["binding"] == longest != shortest
        assert shown.text["share"] == f"{100 * b.ms / (b.measured or 0):.0f}"
        assert shown.say == ("first" if was is None else "same" if was == b.binding else "changes")
        assert b.binding in explorer.sentence(rung=name)
        was = b.binding


def test_stream_k_says_what_its_bars_show():
    """Every step of every tile is done once, and idle is what the bars leave open."""
    explorer = made("stream_k")
    for state in states(explorer):
        shown = explorer.read(**state).text
        sms, tiles, steps = (state[n] for n in ("sms", "tiles", "steps"))
        for way, spread in zip(("whole", "cut"), stream_room.both(state), strict=True):
            done = [
                (p.tile, k) for own in spread.pieces for p in own for k in range(p.begin, p.end)
            ]
            assert sorted(done) == [(t, k) for t in range(tiles) for k in range(steps)]
            longest = max(sum(p.end - p.begin for p in own) for own in spread.pieces)
            idle = 100 - 100 * len(done) / (longest * sms)
            share = shown["idle" if way == "whole" else "idle_cut"]
            assert float(share) == pytest.approx(idle, abs=0.051)
            assert float(shown[way]) == pytest.approx(longest / steps, abs=0.0051)
        assert float(shown["cut"]) <= float(shown["whole"])
        owners = [{sm for sm, own in enumerate(spread.pieces) for p in own if p.tile == tile}
                  for tile in range(tiles)]  # fmt: skip
        assert int(shown["shared"]) == sum(len(those) > 1 for those in owners)
    assert explorer.read(tiles=5, sms=4, steps=32).text["shared"] == "3"
    assert explorer.read(tiles=8, sms=4).say == "even"
    assert explorer.read(tiles=2, sms=6, steps=8).say == "thin"


def by_barriers(stages, copy, compute, flip):
    """What both sides do at each clock, and the barriers: mma_tma's loops, clock by clock.

    full, empty: phases of each mbarrier that have ended; by the PTX manual one ends with its
    arrivals and bytes. A wait for a parity goes on while the phase that runs has it. A tile's stage
    and parity are those that RingPlace of kernels/common/mbarrier.cuh comes to.
    """
    full, empty, copies = [0] * stages, [0] * stages, [(-1, 0)]
    asks = asks_since = reads = reads_since = 0  # tiles, and since when they are waited for
    until = 0  # when the products end, if some run
    for now in ring_room.CLOCKS:
        for _, at in (one for one in copies if one[0] == now):
            full[at] += 1
        tiles = []
        if until and until == now:
            empty[reads % stages] += 1
            reads, until, reads_since = reads + 1, 0, now
        while empty[asks % stages] % 2 != (parity := asks // stages % 2 ^ flip):
            copies.append((now + copy, asks % stages))
            tiles.append(asks)
            asks, asks_since = asks + 1, now
        if not until and full[reads % stages] % 2 != reads // stages % 2:
            until = now + compute
        first = f"waits for empty[{asks % stages}], parity {parity}, since clock {asks_since:,}"
        if tiles:
            first = f"asks for tile{f's {tiles[0]} to' if tiles[1:] else ''} {tiles[-1]}"
        second = f"multiply tile {reads}, until clock {until:,}"
        if not until:
            wait = f"parity {reads // stages % 2}, since clock {reads_since:,}"
            second = f"wait for full[{reads % stages}], {wait}"
        both = zip(full, empty, strict=True)
        digits = (f"full {f % 2}, empty {e % 2}" for f, e in both)
        yield first, second, *digits


def by_groups(stages, copy, compute):
    """The same of mma_pipelined_core: a thread's groups, in order, and the tile in each stage."""
    groups = [copy] * (stages - 1)  # when each has landed
    ring: list[int | None] = [*range(stages - 1), None]
    tile = until = since = 0
    for now in ring_room.CLOCKS:
        if until and until == now:
            ring[tile % stages] = None
            tile, until, since = tile + 1, 0, now
        pending = sum(landed > now for landed in groups)
        if not until and pending <= stages - 2:  # wait_groups<STAGES - 2>
            assert groups[tile] <= now and ring[tile % stages] == tile
            until, newest = now + compute, len(groups)
            assert ring[newest % stages] is None
            ring[newest % stages] = newest
            groups.append(now + copy)
        doing = f"multiply tile {tile}, until clock {until:,}"
        yield "", doing if until else f"wait for group {tile}, since clock {since:,}"


@pytest.mark.parametrize("name", ["ring", "wrong", "ring_groups"])
def test_the_ring_is_that_of_a_state_machine(name):
    """Who waits for which phase since when, and the parities, at every clock."""
    explorer = made(name.replace("wrong", "ring"))
    fixed = {"parity": ring_room.WRONG} if name == "wrong" else {}
    times = [(600, 200), (600, 300), (100, 1000), (1000, 100), (300, 300), (700, 400)]
    for n, (copy, compute) in itertools.product(explorer.controls[0].values, times):
        state = {"stages": n, "copy": copy, "compute": compute}
        played = by_groups if name == "ring_groups" else partial(by_barriers, flip=name == "ring")
        waited = 0
        for clock, (first, second, *digits) in zip(
            ring_room.CLOCKS, played(n, copy, compute), strict=True
        ):
            shown = explorer.read(clock=clock, **state, **fixed)
            assert shown.text["second"] == second, (state, clock)
            assert shown.text["first"] == first or not first, (state, clock)
            of_stages = shown.text["held"].split("; ")
            assert len(of_stages) == n
            assert all(one.endswith(d) for one, d in zip(of_stages, digits, strict=False))
            assert shown.text["waited"] == f"{waited:,}"
            assert (shown.say == "stuck") == (name == "wrong")
            waited += 50 * second.startswith("wait")


def test_the_ring_in_the_long_run():
    """As the pipeline wherever a copy is hidden, never later with barriers; and the mean wait."""
    for n, copy, compute in itertools.product(range(2, 6), *[ring_room.LENGTHS[::3]] * 2):
        ways = [ring_room.run(400, n, copy, compute, barriers=b) for b in (True, False)]
        with_barriers, in_groups = ways
        pairs = list(zip(with_barriers.start, in_groups.start, strict=True))
        assert all(one <= other for one, other in pairs)
        state = {"stages": n, "copy": copy, "compute": compute}
        for name, way in zip(("ring", "ring_groups"), ways, strict=True):
            shown = made(name).read(**state)
            period = (way.start[360] - way.start[60]) / 300  # 300 tiles are whole rounds of 2 to 5
            assert float(shown.text["ever"]) == pytest.approx(
                100 * (1 - compute / period), abs=0.051
            )
            hidden = not shown.say.endswith("_short")
            assert hidden == (int(shown.text["need"]) <= n) == (period == compute)
            assert not hidden or with_barriers.start == in_groups.start
    alone = (ring_room.run(9, 1, 600, 200, barriers=True), pipeline_room.run(9, 1, 600, 200))
    assert alone[0] == alone[1]


def test_the_ring_speaks_the_kernels_words():
    """And the kernel with the wrong phase waits where the figure says, in the emulator."""
    source, roles = catalog["mma_tma"].source, ring_room.ROLES
    wait = f"{roles[1]} {roles[2].strip()}"
    assert all(line in source for line in (wait, roles[4], roles[7], roles[9]))
    for core in ("fp32_best_core", "mma_pipelined_core"):
        assert all(line in plan(core, 128, 256, 32).kernel.source for line in ring_room.LOOP[:5])
    assert source.count(ring_room.RIGHT) == 1
    wrong = source.replace(ring_room.RIGHT, ring_room.WRONG)
    run = plan("mma_tma", 64, 64, 128)
    assert not run.trace().report.findings
    findings = "".join(str(f) for f in run.with_source(wrong).trace().report.findings)
    for barrier in ("empty[0]", "full[0]"):
        assert f"waits at {barrier} for a phase that never completes" in findings
        assert barrier in made("ring").sentence(parity=ring_room.WRONG)


@pytest.mark.parametrize("name", MAKE)
def test_an_explorer_is_light_and_has_words_for_every_state(name):
    explorer = made(name)
    assert len(explorer.payload().encode()) <= 150_000  # two on a page, 300 KB together
    scripts = script("core") + script(explorer.kind)
    assert 3 * len(scripts.encode()) <= 63_000
    markup = explorer._repr_html_()
    assert "src=" not in scripts and "http" not in scripts
    assert markup.count("<script") == markup.count("</script>") == 2
    for sentence in (explorer.sentence(**state) for state in states(explorer, 400)):
        assert sentence and "{" not in sentence
    assert explorer.caption and explorer.title and explorer.sentence() in repr(explorer)


PLACES = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("*.md")}
PLACES = {page: text for page, text in PLACES.items() if re.search(r"(?m)^explorers\.", text)}


@pytest.mark.parametrize("chapter", PLACES)
def test_each_stands_behind_a_question(chapter):
    """And the explorers of a page together keep to 60 KB of script and 300 KB of data."""
    cells = re.findall(
        r"\n([^\n]+)\n\n```\{code-cell\}[^\n]*\n:tags: \[remove-input\]\n"
        r"(?:from helpers import explorers\n\n)?(explorers\.\w+\([^)]*\))\n```",
        PLACES[chapter],
    )
    assert len(cells) == len(re.findall(r"(?m)^explorers\.", PLACES[chapter]))
    assert all("?" in question for question, _ in cells)
    shown = [eval(call, {"explorers": explorers}) for _, call in cells]
    assert sum(len((script("core") + script(e.kind)).encode()) for e in shown) <= 60_000
    assert sum(len(e.payload().encode()) for e in shown) <= 300_000


def test_each_stands_on_a_page():
    on_pages = set(re.findall(r"(?m)^explorers\.(\w+)", "\n".join(PLACES.values())))
    assert on_pages == {e.kind for e in map(made, MAKE)}


# -- in a browser ----------------------------------------------------------------------------------


@pytest.fixture
def opened(browser):
    """Opens a page of one explorer, of "all", or of another body.

    Nothing can be fetched, and at the end no page may have told an error.
    """
    faults: list[str] = []
    pages: list[Any] = []

    def route(handler):
        faults.append(f"asks for {handler.request.url}")
        handler.abort()

    def open_one(name="", body=None, **context):
        if body is None:
            names = MAKE if name == "all" else [name]
            body = "\n".join(made(one)._repr_html_() for one in names)
        page = browser.new_page(**{"viewport": {"width": 1200, "height": 900}, **context})
        page.context.route(re.compile("^(?!data:)"), route)
        page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.set_content(PAGE.format(body=body))
        pages.append(page)
        return page

    yield open_one
    for page in pages:
        page.context.close()
    assert faults == []


EXPLORER = "document.querySelector('.tile-explorer')"
SAID = f"{EXPLORER}.shadowRoot.querySelector('.say').textContent"


MOVE = """
(states) => {
  const host = document.querySelector('.tile-explorer'), root = host.shadowRoot;
  const inputs = [...root.querySelectorAll('input, select')], controls = host.data.controls;
  const times = [], shown = [];
  for (const state of states) {
    const began = performance.now();
    inputs.forEach((input, i) => { input.value = controls[i].values.indexOf(state[controls[i].name]); });
    inputs[0].dispatchEvent(new Event('input', {bubbles: true, composed: true}));
    root.querySelector('svg').getBoundingClientRect();
    times.push(performance.now() - began);
    const cells = Object.fromEntries([...root.querySelectorAll('dd')].map(c => [c.dataset.name, c.textContent]));
    shown.push([root.querySelector('.say').textContent, cells, root.querySelector('svg').getAttribute('aria-label'),
      /NaN|undefined|Infinity/.test(root.querySelector('.drawing').innerHTML)]);
  }
  return {times, shown};
}
"""


@pytest.mark.parametrize("name", MAKE)
def test_the_page_shows_what_python_computes(opened, name):
    explorer = made(name)
    page = opened(name)
    chosen = states(explorer)
    result = page.evaluate(MOVE, chosen)
    quick = [statistics.quantiles(result["times"], n=4)[0]]  # a busy machine delays some
    while quick[-1] > 16 and len(quick) < 5:  # or all, for a while
        quick.append(statistics.quantiles(page.evaluate(MOVE, chosen)["times"], n=4)[0])
    for state, (sentence, cells, alt, bad) in zip(chosen, result["shown"], strict=True):
        wanted = explorer.read(**state).text
        assert sentence == explorer.sentence(**state) == alt, state
        assert cells == {n: wanted.get(n, "–") for n in explorer.labels}, state
        assert not bad, state
    print(f"{name}: {len(chosen)} states, a quarter redrawn within {min(quick):.2f} ms")
    assert min(quick) <= 16


TWINS = {
    "coalescing": ("* s.size / 32)", "* s.size / 31)"),
    "request": ("e * 4 / 32", "e * 4 / 36"),
    "ring": ("(s.copy + s.compute) / n", "s.copy / (n - 1)"),
    "march": ("at + 1), 's')", "at), 's')"),  # reads before it stores
}


@pytest.mark.parametrize("name", TWINS)
def test_a_page_that_shows_another_value_is_found(opened, name):
    """The wrong twin: a formula of the script that is off by a little must not pass."""
    right = made(name)._repr_html_()
    body = right.replace(*TWINS[name])
    assert body != right
    chosen = states(made(name), 100)
    shown = opened(body=body).evaluate(MOVE, chosen)["shown"]
    wanted = [(made(name).sentence(**s), made(name).read(**s).text) for s in chosen]
    assert any(
        sentence != right or any(cells[n] != text.get(n, "–") for n in cells)
        for (sentence, cells, *_), (right, text) in zip(shown, wanted, strict=True)
    )


@pytest.mark.parametrize("name", MAKE)
def test_the_keyboard_reaches_and_moves_every_control(opened, name):
    explorer = made(name)
    page = opened(name)
    for i, c in enumerate(explorer.controls):
        page.keyboard.press("Tab")
        focused = page.evaluate(f"{EXPLORER}.shadowRoot.activeElement?.dataset.name")
        assert focused == c.name
        at = c.values.index(c.value)
        if len(c.values) > 1:
            page.keyboard.press("ArrowRight" if at + 1 < len(c.values) else "ArrowLeft")
            moved = c.values[at + 1 if at + 1 < len(c.values) else at - 1]
            state = page.evaluate(f"{EXPLORER}.state()")
            assert state[c.name] == moved
            expected = explorer.sentence(**state)
            assert page.evaluate(SAID) == expected
        if c.kind == "range":
            inputs = f"{EXPLORER}.shadowRoot.querySelectorAll('input, select')"
            assert page.evaluate(f"{inputs}[{i}].getAttribute('aria-valuetext')") in c.labels
        if c.plays:  # its button comes next
            page.keyboard.press("Tab")
            assert page.evaluate(f"{EXPLORER}.shadowRoot.activeElement.className") == "play"
    page.wait_for_timeout(400)  # the words are said once the reader rests
    aloud = page.evaluate(f"{EXPLORER}.shadowRoot.querySelector('[aria-live=polite]').textContent")
    assert aloud == page.evaluate(SAID)
    outline = page.evaluate(f"getComputedStyle({EXPLORER}.shadowRoot.activeElement).outlineStyle")
    assert outline == "solid"


WIDE = """
() => {
  const room = document.documentElement.clientWidth, found = [];
  if (document.documentElement.scrollWidth > room) found.push('the page scrolls');
  for (const host of document.querySelectorAll('.tile-explorer'))
    for (const node of (host.shadowRoot || host).querySelectorAll('p, dl, dd, svg, input, select, label'))
      if (node.getBoundingClientRect().right > room + 1) found.push(`${host.tagName} ${node.tagName}`);
  return found;
}
"""


def test_nothing_overflows_on_a_phone(opened):
    page = opened("all", viewport={"width": 360, "height": 740})
    assert page.evaluate(WIDE) == []


@pytest.mark.parametrize("name", MAKE)
def test_words_in_a_drawing_can_be_read_on_a_phone(opened, name):
    page = opened(name, viewport={"width": 360, "height": 740})
    for state in states(made(name), 40):
        page.evaluate(MOVE, [state])
        assert page.evaluate(FIND_CRAMPED) == [], state


def test_a_drawing_follows_its_width(opened):
    """It is drawn again when the page grows narrow; one that is only scaled has words too small."""
    whole = made("tile_2d")._repr_html_()
    stiff = whole.replace("new ResizeObserver(", "((_) => ({observe() {}}))(")
    assert stiff != whole
    for name, body in (("follows", whole), ("stiff", stiff)):
        page = opened(body=body)
        assert page.evaluate(FIND_CRAMPED) == []
        page.set_viewport_size({"width": 360, "height": 740})
        page.wait_for_timeout(100)
        assert (page.evaluate(FIND_CRAMPED) == []) is (name == "follows")


@pytest.mark.parametrize("width", [360, 1200])
def test_without_script_a_picture_and_a_table_remain(opened, width):
    page = opened("all", java_script_enabled=False, viewport={"width": width, "height": 740})
    for i, name in enumerate(MAKE):
        host = page.locator(".tile-explorer").nth(i)
        picture = host.locator("svg[role=img]:visible")
        assert picture.count() == 1, name
        assert host.locator("table").is_visible(), name
        assert made(name).sentence() in host.inner_text()
        assert picture.bounding_box()["width"] <= width
    assert page.evaluate(FIND_CRAMPED) == []


def test_it_works_when_inserted_late_as_jupyterlab_does(opened):
    """Output arrives by innerHTML, and its scripts are run again one by one."""
    page, given = opened(body=""), (made("banks"), explorers.banks(pad=1), made("pipeline"))
    for explorer in given:
        page.evaluate(
            """html => {
              const box = document.createElement('div');
              box.innerHTML = html;
              document.body.append(box);
              for (const old of box.querySelectorAll('script')) {
                const fresh = document.createElement('script');
                for (const a of old.attributes) fresh.setAttribute(a.name, a.value);
                fresh.textContent = old.textContent;
                old.replaceWith(fresh);
              }
            }""",
            explorer._repr_html_(),
        )
    sentences = page.evaluate(
        "[...document.querySelectorAll('.tile-explorer')].map(e =>"
        " e.shadowRoot?.querySelector('.say').textContent)"
    )
    assert sentences == [e.sentence() for e in given]


def test_controls_follow_the_theme(opened):
    for scheme in ("light", "dark"):
        page = opened("banks", color_scheme=scheme)
        assert page.evaluate(f"{EXPLORER}.style.colorScheme") == scheme
        page.evaluate("document.body.style.color = '#fff'")  # the book's own switch
        page.wait_for_timeout(50)
        assert page.evaluate(f"{EXPLORER}.style.colorScheme") == "dark"


def test_nothing_moves_by_itself():
    """Reduced motion is kept: there are no animations to reduce, and what plays was asked to."""
    for kind in ("core", *{e.kind for e in map(made, MAKE)}):
        assert not re.search(r"animat|transition|requestAnimationFrame", script(kind))
        assert script(kind).count("setInterval") == (kind == "core")  # in play(), below


MOVED = """
kept => {
  const host = document.querySelector('.tile-explorer'), root = host.shadowRoot;
  const input = root.querySelector('input:has(+ .play)'), tops = new Set();
  const at = () => root.querySelector('.drawing').getBoundingClientRect().top.toFixed(0);
  if (kept) { host.play(); host.stop(); }
  for (input.value = 0; ; input.value = +input.value + 1) {
    host.show();
    tops.add(at());
    if (+input.value === +input.max) return tops.size;
  }
}
"""


def test_a_drawing_stays_where_it_is_while_it_plays(opened):
    """Room is kept for the longest sentence; without it the drawings move on a phone."""
    players = [name for name in MAKE if any(c.plays for c in made(name).controls)]
    moved = {}
    for name in players:
        page = opened(name, viewport={"width": 360, "height": 740})
        moved[name] = page.evaluate(MOVED, False) > 1
        assert page.evaluate(MOVED, True) == 1, name
    assert any(moved.values()), moved


@pytest.mark.parametrize("width", [360, 1200])
def test_controls_stand_beside_a_drawing_where_there_is_room(opened, width):
    page = opened("ring", viewport={"width": width, "height": 740})
    right, left = page.evaluate("""() => {
      const root = document.querySelector('.tile-explorer').shadowRoot;
      const box = name => root.querySelector(name).getBoundingClientRect();
      return [box('.controls').right, box('.drawing').left]; }""")
    assert (right < left) == (width == 1200)


CHOSEN = {
    "fragments": ("lane=20 slot=13", {"lane": 20, "slot": 13}),
    "swizzle": ("row=6 chunk=1", {"row": 6, "chunk": 1}),
    "descriptor": ("change=11", {"change": 11}),
}
"""A shape of a drawing, and what it chooses."""


@pytest.mark.parametrize("name", CHOSEN)
@pytest.mark.parametrize("touch", [False, True])
def test_a_shape_that_is_chosen_sets_its_controls(opened, name, touch):
    page = opened(name, has_touch=touch)
    shape, state = CHOSEN[name]
    field = page.locator(f".tile-explorer svg [data-set='{shape}']").first
    field.tap() if touch else field.click()
    assert page.evaluate(f"{EXPLORER}.state()").items() >= state.items()
    sentence = page.locator(".tile-explorer .say").inner_text()
    assert sentence == made(name).sentence(**state)


@pytest.mark.parametrize("wrong", [False, True])
def test_pieces_are_drawn_where_the_descriptor_finds_them(opened, wrong):
    """Line and column of each, from the corner of its box; a script with other lines is found."""
    body = made("descriptor")._repr_html_()
    page = opened(body=body.replace(">> 7 & 63", ">> 8 & 63") if wrong else body)
    found = """() => {
      const svg = document.querySelector('.tile-explorer').shadowRoot.querySelector('svg');
      const at = node => ['x', 'y', 'width'].map(name => +node.getAttribute(name));
      const boxes = [...svg.querySelectorAll('rect[height="320"]')].map(at);
      return [...svg.querySelectorAll('g')].map(g => {
        const [x, y] = at(g.querySelector('rect')), box = boxes[1][0] > x + 1 ? 0 : 1;
        return [g.textContent, 8192 * box + 128 * Math.round((y - boxes[0][1]) / 5)
          + 16 * Math.round((x - boxes[box][0]) / boxes[box][2] * 8)];
      });
    }"""
    differ = 0
    for state in states(made("descriptor")):
        page.evaluate(MOVE, [state])
        drawn = page.evaluate(found)
        end = bit_room.BOXES * bit_room.BOX_BYTES
        inside = [at for a in bit_room.pieces(state) if (at := int(a) - bit_room.BEGIN) < end]
        assert len(drawn) == len(inside)
        assert [int(words.split()[-1]) for words, _ in drawn] == [
            bit_room.BEGIN + at for at in inside
        ]
        differ += [at for _, at in drawn] != inside
    assert bool(differ) is wrong


@pytest.mark.parametrize("touch", [False, True])
def test_what_a_mouse_points_at_is_shown_and_not_chosen(opened, touch):
    """A finger points at nothing: by touch the same events choose, and what they choose stays."""
    page = opened("ldmatrix", has_touch=touch)
    sentence = page.locator(".tile-explorer .say")
    field = page.locator("svg [data-set='lane=20']").first
    field.tap() if touch else field.hover()
    assert sentence.inner_text() == made("ldmatrix").sentence(lane=20)
    chosen = f"{EXPLORER}.state().lane"
    assert page.evaluate(chosen) == (20 if touch else made("ldmatrix").default["lane"])
    page.mouse.move(1, 1)
    assert sentence.inner_text() == made("ldmatrix").sentence(lane=page.evaluate(chosen))
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert sentence.inner_text() == made("ldmatrix").sentence(lane=0)


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
@pytest.mark.parametrize(
    ("name", "first", "touched"),
    [("request", "lanes", 20), ("march", "at", 6), ("stepper_block_2d_core", "step", 6)],
)
def test_steps_play_when_asked(opened, name, first, touched, motion):
    """By a key, and from its end anew; with less motion a press is one step. A moment of the
    drawing can be touched."""
    page = opened(name, reduced_motion=motion, has_touch=True)
    at = f"{EXPLORER}.state().{first}"
    [played] = [c for c in made(name).controls if c.plays]
    button = page.locator(".tile-explorer .play")
    page.wait_for_timeout(900)
    assert page.evaluate(at) == played.value
    begin = -1 if played.value == played.values[-1] else played.value
    steps = 1 if motion == "reduce" else 2
    button.press("Enter")
    assert button.inner_text() == ("Next step" if motion == "reduce" else "Pause")
    if motion != "reduce":
        page.wait_for_function(f"{at} === {begin + steps}")
        button.press("Enter")
    stood = page.evaluate(at)
    page.wait_for_timeout(900)
    assert page.evaluate(at) == stood == begin + steps
    page.locator(f".tile-explorer svg [data-set='{first}={touched}']").last.tap()
    assert page.evaluate(at) == touched
    sentence = page.locator(".tile-explorer .say").inner_text()
    assert sentence == made(name).sentence(**{first: touched})


def test_the_march_lights_the_line_of_each_warp(opened):
    """And strikes out the barriers that are taken away; none stands struck where they are kept."""
    page = opened("march")
    shown = """() => [...document.querySelector('.tile-explorer').shadowRoot.querySelectorAll('.code span')]
      .map(row => [row.className, row.dataset.at])"""
    code, lines = made("march").code, made("march").data["lines"]
    for barriers in march_room.KEPT:
        page.evaluate(MOVE, [{"at": 3, "barriers": barriers, "late": 2}])
        rows = page.evaluate(shown)
        struck = [i for i, (name, _) in enumerate(rows) if "gone" in name]
        assert struck == [lines[b][0] for b in "12" if b not in barriers]
        for i, (name, who) in enumerate(rows):
            at = [w for w, row in enumerate(march_room.schedule(barriers, 2))
                  if i in lines[row[3]]]  # fmt: skip
            assert ("lit" in name) == bool(at), (barriers, code[i])
            assert re.findall(r"\d", who) in ([str(w) for w in at], [])


def test_a_stage_of_the_ring_leads_to_what_happens_next(opened):
    """By a touch; with the wrong phase nothing ever happens."""
    page = opened("ring", has_touch=True, viewport={"width": 360, "height": 740})
    clock = f"{EXPLORER}.state().clock"
    for stage, then in ((0, 1400), (1, 1600), (2, 1800), (2, 2000)):
        stages = page.locator(".tile-explorer svg g[data-set]")
        stages.nth(stage).locator("text").first.tap()
        assert page.evaluate(clock) == then
    page.locator(".tile-explorer select").select_option(index=1)
    assert page.locator(".tile-explorer svg g[data-set]").count() == 0
    lit = page.locator(".tile-explorer .lit").all_inner_texts()
    assert lit[1].strip() == "place.parity);  // wrong"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(opened, scheme):
    found = Axe().run(opened("all", color_scheme=scheme))
    violations = found.response["violations"]
    assert not violations, [(v["id"], [n["target"] for n in v["nodes"]][:3]) for v in violations]
