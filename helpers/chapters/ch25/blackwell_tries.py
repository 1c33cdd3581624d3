"""What the page on Blackwell runs: its kernels as they are, and with something wrong in them."""

from functools import lru_cache
from typing import Any

import numpy as np

from helpers.chapters.ch25 import scaled
from helpers.ladder.hopper import wgmma_descriptor
from helpers.ladder.kernel import geometry
from helpers.ladder.launch import Trace, trace_of
from helpers.ladder.rungs import blackwell, find
from nogpu import device
from nogpu.emulator import Report

FAULTS = (
    ("no wait for the bytes", "tensor_roles", "        barrier_wait(&full[at.stage], at.parity);\n",
     "", "tensor_mma("),
    ("no wait for an empty stage", "tensor_roles",
     "        barrier_wait(&empty[at.stage], at.parity ^ 1);\n", "", "tma_load(stage.A"),
    ("the thread arrives for its products", "tensor_roles", "tensor_commit(&empty[at.stage]);",
     "barrier_arrive(&empty[at.stage]);", "tma_load(stage.A"),
    ("sums are loaded too early", "tensor_roles", "        barrier_wait(&complete, 0);\n", "",
     "tensor_load("),
    ("the last products are not committed", "tensor_roles", "    tensor_commit(complete);",
     "    barrier_arrive(complete);", "tensor_load("),
    ("loads are not waited for", "tensor_roles", "            tensor_load_wait();\n", "",
     "tensor_free<"),
    ("freed while others load", "tensor_roles",
     "    __syncthreads();\n    if (warp == 0) {\n        tensor_free",
     "    if (warp == 0) {\n        tensor_free", "tensor_free<"),
    ("never freed", "tensor_roles", "        tensor_free<BN>(sums);\n", "", "tensor_alloc<"),
    ("half is freed", "tensor_roles", "tensor_free<BN>(sums)", "tensor_free<BN / 2>(sums)",
     "tensor_free<"),
    ("two warps allocate", "tensor_roles", "if (warp == 0) {\n        tensor_alloc",
     "if (warp <= 1) {\n        tensor_alloc", "tensor_alloc<"),
    ("the first product adds", "tensor_roles", "k0 + k > 0", "true", "tensor_mma("),
    ("other columns are loaded", "tensor_roles", "tensor_load(sum, sums + n)",
     "tensor_load(sum, sums - 32 + n)", "tensor_load("),
    ("column 0 taken for granted", "tensor_roles", "tensor_load(sum, sums + n)",
     "tensor_load(sum, n)", "tensor_load("),
    ("half of the rows are multiplied", "tensor_roles", "instruction<T>(BM, BN)",
     "instruction<T>(BM / 2, BN)", "tensor_load("),
    ("too few bytes announced", "tensor_roles", "sizeof(Stage));", "sizeof(Stage) - 128);",
     "barrier_wait(&full"),
    ("too few columns", "tensor_roles", "tensor_alloc<BN>", "tensor_alloc<BN / 2>", "tensor_mma("),
    ("a barrier set up for two", "tensor_roles", "barrier_init(&empty[s], 1);",
     "barrier_init(&empty[s], 2);", "barrier_wait(&empty"),
    ("barriers that the engine cannot see", "tensor_roles", "        barrier_init_fence();\n", "",
     "tma_load(stage.A"),
    ("bytes of one block announced", "tensor_pair", "PAIR * sizeof(Stage)", "sizeof(Stage)",
     "barrier_wait(&full"),
    ("the second block is not told", "tensor_pair", "tensor_commit_pair(&empty[at.stage], BOTH)",
     "tensor_commit_pair(&empty[at.stage], 1)", "barrier_wait(&empty"),
    ("nor that the tile is complete", "tensor_pair", "tensor_commit_pair(complete, BOTH)",
     "tensor_commit_pair(complete, 1)", "barrier_wait(&complete"),
    ("both blocks issue", "tensor_pair", " && rank == 0)", ")", "tensor_mma<PAIR>("),
    ("sums are overwritten", "tensor_persistent",
     "        barrier_wait(&stored[tile.stage], tile.parity ^ 1);\n", "", "tensor_mma<PAIR>("),
    ("asks before the answer was read", "tensor_persistent",
     "            barrier_wait(&queue.taken[at.stage], at.parity ^ 1);\n", "", "ask_for_work("),
    ("reads an answer too early", "tensor_persistent",
     "        barrier_wait(&answered[at.stage], at.parity);\n", "", "work = read_work("),
    ("loads without a fence behind a relaxed wait", "tensor_roles",
     "        barrier_wait(&complete, 0);\n        tensor_fence_after();\n",
     '        asm volatile("{.reg .pred p; T: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64"'
     '" p, [%0], 0; @!p bra T;}" :: "r"(to_shared(&complete)) : "memory");\n',
     "tensor_load("),
    ("hands the sums back without a fence", "tensor_persistent",
     "        tensor_fence_before();\n", "", "tensor_mma<PAIR>("),
    ("multiplies without a fence behind the wait", "tensor_persistent",
     "at.parity);\n            tensor_fence_after();\n", "at.parity);\n", "tensor_mma<PAIR>("),
    ("asks on after a refusal", "tensor_persistent", "while (queue.work.more) {",
     "for (int i = 0; i < 9; ++i) {", "ask_for_work("),
    ("sums are used, then waited for", "tensor_roles",
     "tensor_load_wait();\n            store_sums(C, M, N, m0 + threadIdx.x, n0 + n, sum);",
     "store_sums(C, M, N, m0 + threadIdx.x, n0 + n, sum);\n            tensor_load_wait();",
     "store_sums("),
    ("only the first sums are waited for", "tensor_persistent", "tensor_load_wait();",
     "if (n == 0) tensor_load_wait();", "store_sums("),
)  # fmt: skip
"""A fault, its kernel, what stands there and what instead, and what the line has that is told."""
SHAPE = (257, 130, 200)
"""M, N and K at which each is looked for: a small ring goes round, and a pair takes several tiles.
"""
SMALL = {"BN": 128, "STAGES": 2}
TWO_PAIRS = 4 * 224
"""Threads that run together, so that other clusters wait to be taken."""


def tried(name: str, text: str, **options: Any) -> Trace:
    """A kernel with another text, at SHAPE."""
    p = geometry(blackwell[name].with_source(text), *SHAPE, **SMALL)
    if name == "tensor_persistent":
        options |= {"lanes": TWO_PAIRS // 2}
    return trace_of(p, max_seconds=120.0, **options)


def on_its_line(report: Report, text: str, line: str) -> str:
    """The kind of the first finding that names a line with these words; "" if none does."""
    lines = text.splitlines()
    for f in report.findings:
        for at in (int(f.line), int(f.other_line or 0)):
            if 0 < at <= len(lines) and line in lines[at - 1]:
                return str(f.kind)
    return ""


@lru_cache(maxsize=1)
def found() -> list[dict[str, Any]]:
    """Every third fault: fault, kernel, kind of the finding on its line ("" for none), found."""
    rows = []
    for fault, name, old, new, line in FAULTS[::3]:
        text = find(name).source.replace(old, new)
        kind = on_its_line(tried(name, text).report, text, line)
        rows.append({"fault": fault, "kernel": name, "kind": kind, "found": bool(kind)})
    return rows


def _core(old: str, new: str) -> Trace:
    core = find("tensor_memory_core")
    return trace_of(geometry(core.with_source(core.source.replace(old, new)), 128, 128, 256))


def without_wait() -> tuple[bool, int]:
    """The core without the wait for its products: whether C is right, how many lines are told."""
    t = _core("        barrier_wait(&complete, parity);  // and have read the tiles\n", "")
    return t.wrong == 0, len({f.line for f in t.report.findings})


def without_meeting() -> set[str]:
    """The core without the barrier behind its loop: kinds of findings."""
    t = _core(
        "    __syncthreads();  // one thread knows that the sums are complete; here all do\n", ""
    )
    return {f.kind for f in t.report.findings}


def lapped() -> Report:
    """The first kernel as it was first written: every thread waits for every phase."""
    text = find("tensor_memory").source
    text = text.replace(
        "    if (threadIdx.x == 0) {\n        unsigned parity = 0;\n        for (int k0",
        "    {\n        unsigned parity = 0;\n        for (int k0",
    )
    asks = text.index("            // Global to shared: announce")
    waits = text.index("            // The products have read the tiles")
    parts = text[:asks], "if (threadIdx.x == 0) {\n", text[asks:waits], "}\n", text[waits:]
    text = "".join(parts)
    p = geometry(find("tensor_memory").with_source(text), 256, 256, 192)
    return trace_of(p, schedule="permuted").report


def same_descriptor() -> bool:
    """Whether describe() of tcgen05.cuh and of wgmma.cuh differ in the fixed bit alone."""
    from nogpu.emulator.machine import tcgen05, warpgroup

    operand = warpgroup.Operand("B", 128, "bf16", "MN")
    plain = wgmma_descriptor(1024, 8192, 1024)
    new = plain | tcgen05.FIXED
    same = (warpgroup.addresses(plain, operand) == warpgroup.addresses(new, operand)).all()
    return bool(same) and bin(plain ^ new).count("1") == 1


@lru_cache(maxsize=1)
def taken() -> dict[str, int]:
    """Tiles of tensor_persistent by the pair that computed them, with room for two pairs.

    Of each pair the first block's index along x and y; at M = 600, N = 260.
    """
    name = "tensor_persistent"
    text = find(name).source.replace(
        "        for (int n = 0; n < BN; n += 32) {\n            float sum[32];",
        "        if (threadIdx.x == 0 && queue.rank == 0)\n"
        '            printf("%d %d\\n", int(blockIdx.x), int(blockIdx.y));\n'
        "        for (int n = 0; n < BN; n += 32) {\n            float sum[32];",
    )
    p = geometry(blackwell[name].with_source(text), 600, 260, 64, **SMALL)
    out: dict[str, int] = {}
    for line in trace_of(p, lanes=TWO_PAIRS).report.output.splitlines():
        key = "pair ({}, {})".format(*line.split())
        out[key] = out.get(key, 0) + 1
    return out


@lru_cache(maxsize=1)
def error() -> dict[str, float]:
    """Numbers of the page: error of four and of eight bits in percent of the product, registers of
    an SM, planted faults.
    """
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((256, 1024)), rng.standard_normal((256, 1024))
    four = scaled.quantised(x).values @ scaled.quantised(y).values.T
    eight = scaled.eight_bits(x) @ scaled.eight_bits(y).T
    registers = device.limits("sm_90").registers_per_sm
    percent = {
        name: 100 * float(np.linalg.norm(got - x @ y.T) / np.linalg.norm(x @ y.T))
        for name, got in (("four", four), ("eight", eight))
    }
    return {**percent, "registers": registers, "faults": len(FAULTS)}


def stored() -> dict[str, float]:
    """Sectors that a request of the store of C touches, and how many would do, at whole tiles."""
    t = trace_of(geometry(blackwell["tensor_roles"], 128, 256, 64))
    return {"sectors": t.sectors("store") / t.requests("global", "store"),
            "least": 2 * 128 * 256 / 32 / t.requests("global", "store")}  # fmt: skip
