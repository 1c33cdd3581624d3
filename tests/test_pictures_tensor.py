"""Figures of chapters 17 to 22: what they draw is what the kernels and the catalog say."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from helpers import draw as plots
from helpers import plan, trace
from helpers.chapters import notes as tuning
from helpers.chapters.ch17 import pictures as ch17
from helpers.chapters.ch20 import pictures as ch20
from helpers.chapters.ch20 import tries as tries20
from helpers.chapters.ch21 import pictures as ch21
from helpers.chapters.ch21 import tries as tries21
from helpers.chapters.ch22 import pictures as ch22
from helpers.chapters.ch22 import tries as tries22
from helpers.draw import Figure, hopper_blocks
from helpers.ladder import cuts, hopper
from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import catalog
from nogpu import emulator
from nogpu.errors import ConfigError, DataError, EmulationError
from tests.test_pictures_lanes import shared_read

LANE = np.arange(32)
STEPS = [f"hopper_{i}" for i in range(1, 7)]


def texts(svg):
    """The texts of a drawing, in the order in which they were drawn."""
    for node in ET.fromstring(svg).iter():
        if node.tag.endswith("text"):
            yield "".join(node.itertext()).strip()


FIGURES: dict[str, Callable[[], Figure]] = {
    "a warp's fragments": lambda: ch17.warp_fragments("wmma_shared"),
    **{
        f"block of {name}": lambda name=name, before=before: plots.hopper_block(name, since=before)
        for before, name in zip(["", *STEPS], STEPS, strict=False)
    },
    "block of mma_tma": lambda: plots.hopper_block("mma_tma"),
    "turns of a ring": lambda: ch20.turns(trace("mma_tma", M=100, N=200, K=400, engines=True)),
    "turns of one stage": lambda: ch20.turns(trace("hopper_1", M=60, N=60, K=200, engines=True)),
    "box": ch20.box,
    "box, first chunk": lambda: ch20.box(0),
    "bits of an address": ch20.address_bits,
    "bits of the last element": lambda: ch20.address_bits(63, 63),
    "two ways": ch20.two_ways,
    "sums": ch21.accumulator,
    "core matrices": ch21.core_matrices,
    "sums of a narrow one": lambda: ch21.accumulator(63, 7, n=8),
    "tiles leave": ch22.leaving,
    "tiles leave, none to overlap": lambda: ch22.leaving(1, store=1.0),
}


# -- fragments -----------------------------------------------------------------------------------


def test_a_warp_uses_each_fragment_with_all_of_the_other_operand():
    p = catalog["wmma_shared"].params
    down, across = p["WM"] // 16, p["WN"] // 16
    words = list(texts(ch17.warp_fragments("wmma_shared").svg))
    assert {f"A{i}·B{j}" for i in range(down) for j in range(across)} <= set(words)
    assert sum("·" in word for word in words) == down * across
    narrow = replace(catalog["wmma_shared"], params={**p, "WM": 32})
    assert f"2 + {across} loads, {2 * across} products" in ch17.warp_fragments(narrow).caption
    for kernel in ("tiled_32", replace(catalog["wmma_shared"], params={**p, "WN": 24})):
        with pytest.raises(ConfigError, match="warp tile"):
            ch17.warp_fragments(kernel)


# -- the ring --------------------------------------------------------------------------------------


def test_the_turns_of_a_ring_are_those_of_the_run():
    figure = ch20.turns(trace("hopper_2", M=100, N=100, K=500, engines=True))
    assert "stage 0 by fills 0, 3 and 6" in figure.alt
    assert "3 copies are asked for before the first stage is read. No stage is asked" in figure.alt
    text = catalog["hopper_2"].source.replace("        wgmma_finish(sum);\n", "")
    late = ch20.turns(plan("hopper_2", 100, 100, 500).with_source(text).trace(engines=True))
    assert "No stage is asked" not in late.alt and "asked for again before the reads" in late.alt
    with pytest.raises(DataError, match="choose a TMA kernel"):
        ch20.turns(trace("naive", M=8, N=8, K=8, engines=True))
    with pytest.raises(EmulationError, match="engines=True"):
        ch20.turns(trace("hopper_1", M=8, N=8, K=8))


# -- a block -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mma_tma", *STEPS])
def test_a_block_is_the_catalogs(name):
    kernel = catalog[name]
    p = geometry(kernel, 4096, 4096, 4096)
    b = hopper_blocks._block(name)
    in_flight = b.stages * (b.a_bytes + b.b_bytes) + b.c_bytes
    assert in_flight == p.shared_bytes - 1024, "1024 bytes are for the start of the first buffer"
    assert b.warps * 32 == p.block[0] and b.consumers * 4 <= b.warps
    arrivals = re.search(r"barrier_init\(&empty\[\w+\], ([^)]+)\)", kernel.source)
    figure = plots.hopper_block(name)
    assert f"{b.warps} warps" in figure.alt
    if arrivals:
        peers = kernel.params.get("CLUSTER_M", 1)
        sizes = {"CONSUMERS": cuts.CONSUMERS, "PEERS": peers, "WARPS": 8}
        count = int(eval(arrivals[1], sizes))
        assert f"empty after {count} arrival{'s' * (count > 1)}." in figure.alt
        assert list(texts(figure.svg)).count("empty") == b.stages * b.cluster
    else:
        assert "landed" in set(texts(figure.svg)) and "empty" not in figure.alt


def test_what_is_new_is_what_differs():
    assert "New since" not in plots.hopper_block("hopper_3", since="hopper_3").alt
    alt = plots.hopper_block("hopper_4", since="hopper_3").alt
    new = alt.split("New since hopper_3: ")[1]
    assert "multicast" in new and "ring" not in new
    alt = plots.hopper_block("hopper_2", since="hopper_1").alt
    assert "ring of 3 stages" in alt.split("New")[1]


# -- the descriptor ------------------------------------------------------------------------------

DESCRIBE = """
#include "common/wgmma.cuh"

extern "C" __global__ void tell(const int* strides, unsigned long long* out)
{
    __shared__ __align__(1024) unsigned char shared[3072];
    out[0] = to_shared(shared + 1024);
    out[1] = describe(shared + 1024, strides[0], strides[1]);
    out[2] = describe_b(shared + 2048);
}
"""


def test_the_descriptor_is_the_kernels():
    out = np.zeros(3, np.uint64)
    strides = np.array([4096, 512], np.int32)
    emulator.launch(DESCRIBE, "tell", 1, 1, [strides, out], arch="sm_80")
    address = int(out[0])
    assert int(out[1]) == hopper.wgmma_descriptor(address, 4096, 512)
    expected = hopper.wgmma_descriptor(address + 1024, hopper.BOX_BYTES, hopper.SWIZZLE_BYTES)
    assert int(out[2]) == expected
    assert int(out[1]) != hopper.wgmma_descriptor(address, 512, 4096)


def test_fields_of_a_descriptor_are_read_as_they_are_written():
    word = hopper.wgmma_descriptor(0x4400, 16, 1024)
    assert [f.of(word) * (f.unit or 1) for f in hopper.DESCRIPTOR] == [0x4400, 16, 1024, 0, 1]


# -- a box in shared memory ----------------------------------------------------------------------

LANDED = """
#include "common/tma.cuh"
extern "C" __global__ void land(const __grid_constant__ TensorMap map, unsigned short* y) {
    __shared__ __align__(1024) unsigned short box[8 * BOX];
    __shared__ Barrier full;
    if (threadIdx.x == 0) {
        barrier_init(&full, 1);
        barrier_init_fence();
        barrier_arrive_expect(&full, sizeof(box));
        tma_load(box, &map, &full, 0, 0);
    }
    __syncthreads();
    barrier_wait(&full, 0);
    for (int i = threadIdx.x; i < 8 * BOX; i += 32) y[i] = box[i];
}
"""


@pytest.mark.parametrize("swizzle", [0, 128])
def test_a_box_lies_as_the_copy_engine_puts_it(swizzle):
    chunks = np.tile(np.arange(64, dtype=np.uint16) // 8, (8, 1))
    y = np.full(8 * 64, 99, np.uint16)
    given = [emulator.TensorMap(chunks, (8, 64), swizzle), y]
    assert emulator.launch(LANDED, "land", 1, 32, given, arch="sm_90").ok
    drawn = [int(w) for w in texts(ch20.box(2).svg) if re.fullmatch("[0-7]", w)]
    rows = y.reshape(8, 64)[:, ::8].tolist()
    # behind a row's chunks stands its own number, before the first row numbers of banks
    numbers = [c for r, row in enumerate(rows) for c in [*row, r]]
    starts = [i for i in range(len(drawn)) if drawn[i : i + len(numbers)] == numbers]
    assert len(starts) == 1, (drawn, numbers)
    for chunk in range(8) if swizzle else ():
        *places, last = (row.index(chunk) for row in rows)
        told_in_words = f"positions {', '.join(map(str, places))} and {last}"
        figure = ch20.box(chunk)
        assert f"at {told_in_words}" in figure.alt
        assert f"{told_in_words}, in all 32" in figure.caption
        assert list(texts(figure.svg)).count(str(chunk)) >= 16, "eight of each grid"


@pytest.mark.parametrize(("row", "col"), [(0, 0), (5, 20), (7, 63), (62, 9)])
def test_bits_lead_to_where_the_chunk_lies(row, col):
    figure = ch20.address_bits(row, col)
    place = 128 * row + 16 * (col // 8 ^ row % 8) + 2 * (col % 8)
    assert f"byte {128 * row + 2 * col} in plain rows and byte {place} swizzled" in figure.alt
    drawn = [w for w in texts(figure.svg) if w in ("0", "1")]
    words = ["".join(drawn[i : i + ch20.BITS]) for i in range(len(drawn))]
    for value in (128 * row + 2 * col, place):  # from bit 0 on
        assert f"{value:013b}"[::-1] in words
    with pytest.raises(DataError, match="rows 0 to 63"):
        ch20.address_bits(64, 0)


# -- the core matrices of a wgmma ------------------------------------------------------------------


def test_an_instruction_reads_whole_core_matrices():
    assert ch21.core_matrices_read("A") == [(group, k) for group in range(8) for k in range(2)]
    assert ch21.core_matrices_read("B") == [(group, n) for group in range(2) for n in range(16)]


# -- the sums of a wgmma -------------------------------------------------------------------------

STORED = """
#include "common/wgmma.cuh"

extern "C" __global__ void tell(half* out, int N)
{
    float acc[128];
    for (int i = 0; i < 128; ++i) acc[i] = INDEX;
    wgmma_store(out, 64, N, 0, 0, acc);
}
"""


def test_a_sum_is_where_the_kernels_store_it():
    outputs = [np.full((64, 256), -1, np.float16) for _ in range(2)]
    for index, out in zip(("threadIdx.x", "i"), outputs, strict=True):
        defines = {"INDEX": index}
        emulator.launch(STORED, "tell", 1, 128, [out, 256], defines=defines, arch="sm_80")
    for row, col in np.ndindex(64, 256):
        assert ch21.holder(row, col) == (outputs[0][row, col], outputs[1][row, col])
    alt = ch21.accumulator(26, 43).alt
    assert "sum[23] of lane 9 of warp 1" in alt and "sum[20]: row 18, column 42" in alt


# -- when a tile leaves --------------------------------------------------------------------------


def test_a_tile_that_leaves_later_costs_its_store_once():
    apart, during = (ch22._leaving(4, 0.25, way) for way in (False, True))
    assert [t[2] for t in apart] == [1.25, 2.5, 3.75, 5.0]
    assert [t[:2] for t in during] == [(0, 1), (1, 2), (2, 3), (3, 4)] and during[-1][2] == 4.25
    assert ch22._leaving(1, 0.25, True) == ch22._leaving(1, 0.25, False)
    assert "4 tiles take 5, " in ch22.leaving(4, store=0.25).alt
    for given in ((0, 0.1), (4, -0.1), (4, 1.5)):
        with pytest.raises(DataError, match="give at least a tile"):
            ch22.leaving(given[0], store=given[1])


# -- what the notes say --------------------------------------------------------------------------


def test_what_is_told_of_the_notes_stands_in_them():
    assert tries20.noted()["within"] < 5 < tries20.noted()["percent"]
    second = tries21.noted()
    assert second["four_4096"] < second["first_4096"] and second["least"] < second["most"]
    notes, steps = tries22.noted(), tries22.predicted()
    assert notes["ideal"] / notes["counted"] == pytest.approx(notes["busy"] / 100, abs=0.002)
    assert notes["at_once"] < notes["deferred"] and steps.keys() == {4, 5, 6}
    with pytest.raises(DataError, match=r"data/tries/hopper\.md has nothing like"):
        tuning.numbers("hopper.md", r"no such words (\d+)")
    with pytest.raises(DataError, match=r"no nothing\.md"):
        tuning.read("nothing.md")


# -- wide reads of shared memory -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "words", "waves", "merged"),
    [
        (32 * LANE, "the busiest bank holds 8 of them in a turn", 32, False),
        (8 * LANE, "the busiest bank holds 2 of them in a turn", 8, False),
        (4 * LANE, "no bank is asked for two in a turn", 4, False),
        (LANE // 2 * 4, "", 2, True),  # neighbours agree: two quarters are one phase
    ],
)
def test_a_bank_map_counts_the_turns_of_a_wide_read(first, words, waves, merged):
    report = shared_read(first)
    figure = plots.access_map(report, "// the read", space="shared")
    assert words in figure.caption and ("turn" in figure.caption) is not merged
    assert merged or "served in 4 turns of 8 lanes" in figure.caption
    assert waves == 4 or f"takes {waves} wavefronts a request" in figure.caption
    assert ("several words in a turn" in figure.svg) is ("busiest" in words)
