"""Steps between rungs: right in the emulator, one change each, and what an H100 said of them."""

from __future__ import annotations

import json
from random import Random

import pytest

from helpers.chapters import steps as single
from helpers.ladder import chains
from helpers.ladder.kernel import KERNELS, geometry
from helpers.ladder.launch import trace
from helpers.ladder.rungs import catalog, find, fingerprint, steps
from helpers.record.plans import plan
from nogpu.errors import ConfigError
from tools import steps_on_a_gpu as tool

SHAPES = 100


def few_sms(k):
    """So few SMs that blocks take several tiles."""
    return {"SMS": 2} if "SMS" in k.params else {}


def drawn(name, case):
    """The shape of one of SHAPES cases: the first are edges, one in five has whole tiles."""
    k, rng = find(name), Random(f"{name} {case}")
    edges = ((1, 1, 1), (1, 129, 65), (257, 1, 64), (129, 257, 1))
    if case < len(edges):
        return edges[case]
    if case % 5 == 0:
        rows, cols = geometry(k, 512, 512, 512).tile
        return rows * rng.randint(1, 2), cols * rng.randint(1, 2), 64 * rng.randint(1, 7)
    return rng.randint(1, 300), rng.randint(1, 520), rng.randint(1, 450)


@pytest.mark.parametrize("case", range(SHAPES))
@pytest.mark.parametrize("name", steps)
def test_right_over_many_shapes_and_nothing_found(name, case):
    schedule = ("ascending", "permuted")[case % 2]
    found = trace(name, *drawn(name, case), schedule=schedule, **few_sms(find(name)))
    assert found.ok, found.report


WIDER = (
    (KERNELS / "common" / "piece_rows.cuh")
    .read_text(encoding="utf-8")
    .replace("#pragma once", "")
    .replace('"shifted_rows', '"common/shifted_rows')
    .replace("pitch % 4 == 0 ? 4 : 2", "4")
)
"""Pieces of 8 bytes where rows start at 4."""
WRONG = {
    "wide_loads": ("__syncthreads();  // both tiles are complete", "", (128, 128, 16)),
    "mma_pieces": ('#include "common/piece_rows.cuh"', WIDER, (70, 66, 130)),
    "mma_short": (
        "__syncthreads();  // the tiles are complete, and everyone has read the others",
        "",
        (70, 67, 130),
    ),
    "mma_one_asks": (
        "        // The slot's last values are in everyone's registers.\n        __syncthreads();\n",
        "",
        (128, 256, 640),
    ),
    "mma_producer": ("barrier_init(&empty[stage], WARPS);", "barrier_init(&empty[stage], 1);",
                     (128, 256, 640)),
    "in_flight": ("wgmma_wait<1>();", "wgmma_wait<2>();", (128, 128, 640)),
    "two_consumers": ("barrier_init(&empty[s], CONSUMERS);", "barrier_init(&empty[s], 1);",
                      (128, 256, 640)),
    "ping_pong": ("            barrier_wait(&turn[consumer], turn_parity);\n", "",
                  (512, 256, 1024)),
    "box_store": ("            tma_store_wait_read<C_BUFFERS - 1>();\n", "", (128, 256, 64)),
    "even_shares": ("        tma_store_commit();  // a group a buffer, with or without a box\n",
                    "        if (box * C_ROWS < c.rows) { tma_store_commit(); }\n",
                    (700, 300, 65)),
}  # fmt: skip
"""By step: what its new part cannot do without, what stands there instead, and M, N, K."""


@pytest.mark.parametrize("name", steps)
def test_what_is_new_is_needed(name):
    old, new, shape = WRONG[name]
    k = steps[name]
    assert k.source.count(old) == 1
    p = plan(k, *shape, **few_sms(k))
    assert p.trace().ok and not p.with_source(k.source.replace(old, new)).trace().ok


def test_every_file_is_a_step_and_stands_in_a_chain():
    assert {k.file for k in steps.values()} == {
        path.relative_to(KERNELS).as_posix() for path in (KERNELS / "steps").glob("*.cu")
    }
    linked = {link.kernel for chain in chains.CHAINS.values() for link in chain}
    assert set(steps) <= linked <= {*catalog, *steps}


@pytest.mark.parametrize("name", chains.CHAINS)
def test_links_can_be_launched_and_each_says_what_it_changes(name):
    chain = chains.CHAINS[name]
    assert [bool(link.change) for link in chain] == [False] + [True] * (len(chain) - 1)
    types = set()
    for link in chain:
        for tile in link.tiles:
            p = geometry(link.at(tile), 4096, 4096, 4096)
            assert all(p.params[size] == value for size, value in link.fixed.items())
            types.add((p.kernel.dtype, p.kernel.out_dtype))
    assert len(types) == 1
    labels = [link.label for link in chains.links(name.split(",")[0])]
    assert len(set(labels)) == len(labels) and {link.label for link in chain} <= set(labels)


def test_a_chapter_without_a_chain_and_a_size_that_a_kernel_lacks():
    with pytest.raises(KeyError, match="has no chain"):
        chains.links("9")
    with pytest.raises(ConfigError, match="no tile parameter"):
        chains.links("21")[0].at({"SMS": 2})


def test_faults_are_told():
    good = {"kernel": "a", "wrong": 0, "shifted_wrong": 0}
    check = {"kernel": "a", "check": "memcheck", "state": "ran", "errors": 0, "wrong": 0}
    control = {"check": "memcheck", "errors": 1}
    record = {"shapes": [good], "sanitizer": [check], "controls": [control]}
    assert not tool.faults(record)
    for part, row in (
        ("shapes", {**good, "shifted_wrong": 3}),
        ("sanitizer", {**check, "errors": 1}),
        ("sanitizer", {**check, "state": "not finished"}),
        ("controls", {**control, "errors": 0}),
    ):
        assert len(tool.faults({**record, part: [row]})) == 1


# -- what was recorded -----------------------------------------------------------------------------


def test_the_record_is_of_the_code_as_it_is_and_faultless():
    record = json.loads(single.RECORD.read_text(encoding="utf-8"))
    assert not tool.faults(record)
    compared, times, checks = (record[part] for part in ("shapes", "times", "sanitizer"))
    assert sorted(row["kernel"] for row in compared) == sorted(steps)
    assert all(row["shapes"] == row["shifted_shapes"] == tool.COUNT for row in compared)
    assert len(checks) == 4 * len(steps)
    for row in compared:
        assert row["source"] == fingerprint(row["kernel"]), row["kernel"]
    for chapter in tool.chapters():
        for size in tool.sizes(chapter):
            labels = [r["label"] for r in times if (r["chapter"], r["size"]) == (chapter, size)]
            links = (link.label for link in chains.links(chapter))
            assert sorted(labels) == sorted(["baseline", *links])
