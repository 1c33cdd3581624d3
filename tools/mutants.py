"""Mutants: kernels of the catalog with one fault each, and who notices the fault.

`python -m tools.mutants --out data/validation/mutants.json` makes them by text rules on the .cu
files, runs each in the emulator on a shape that the tiles divide and on one that they do not, under
both schedules, and writes what was found. The same sources give the same file.
What another compiler makes of them, `tools.clang_against_nvrtc` compares.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from helpers.ladder import launch
from helpers.ladder.kernel import defines, geometry
from helpers.ladder.rungs import catalog
from nogpu import toolchain
from nogpu.emulator.observe import oracle
from nogpu.errors import CompileError, EmulationError

ALIGNED, RAGGED = (64, 128, 96), (45, 83, 75)
"""M, N, K: whole tiles and aligned rows; and neither."""
SHAPES: Mapping[str, tuple[int, int, int]] = {"aligned": ALIGNED, "ragged": RAGGED}
SCHEDULES = ("ascending", "permuted")

_SQUARE = {"BM": 32, "BN": 32, "BK": 8, "TM": 4, "TN": 4}
_WARPS = {"BM": 32, "BN": 64, "BK": 8, "WM": 32, "WN": 32, "TM": 4, "TN": 8}
_MMA = {"BM": 32, "BN": 64, "BK": 32, "WM": 16, "WN": 32}
TILES: Mapping[str, Mapping[str, int]] = {
    "naive": {"BX": 16, "BY": 8},
    "coalesced": {"BX": 16, "BY": 8},
    "unrolled": {"BX": 16, "BY": 8},
    "coarsened": {"BX": 8, "BY": 8},
    "tiled_16": {},
    "tiled_rect": {},
    "tiled_padded": {"TILE": 16},
    "block_1d": {"BM": 32, "BN": 32, "BK": 8, "TM": 4},
    "privatised_2": {},
    "block_2d": {**_SQUARE, "TN": 2},
    "vectorised": _SQUARE,
    "prefetch": _SQUARE,
    "double_buffer": _SQUARE,
    "cp_async": {**_SQUARE, "STAGES": 3},
    "lane_map": _SQUARE,
    "warp_tiled": _WARPS,
    "fp32_best": _WARPS,
    "fp32_sliced": {**_WARPS, "SLICES": 3},
    "wmma": {},
    "wmma_shared": _MMA,
    "wmma_tiled": {**_MMA, "BK": 64},  # an even number of steps: its last tile lies where C is put
    "mma_ldmatrix": _MMA,
    "mma_swizzle": _MMA,
    "mma_pipelined": _MMA,
}
"""The kernels that are changed, with tiles small enough for several blocks and steps of k."""

ONE_ELEMENT = ("naive", "coalesced", "unrolled", "coarsened")
TILED = ("tiled_16", "tiled_rect", "tiled_padded")
REGISTERS = ("block_1d", "privatised_2", "block_2d")
FOURS = ("vectorised", "prefetch", "double_buffer", "cp_async")
TENSOR = ("wmma", "wmma_shared", "wmma_tiled", "mma_ldmatrix", "mma_swizzle", "mma_pipelined")
SHARED = (*TILED, *REGISTERS, *FOURS, "warp_tiled", "fp32_best", *TENSOR)


@dataclass(frozen=True)
class Rule:
    """A fault: what to look for in a kernel's text, and what to put there, once at each place."""

    fault: str
    name: str
    pattern: str
    new: str
    kernels: tuple[str, ...] = tuple(TILES)
    but_not: str = r"^\s*static_assert|^#"
    """Lines that are left alone."""


_BARRIER = r"[ \t]*__syncthreads\(\);[^\n]*\n"
_TEST = (
    r"\b([A-Za-z_]\w*(?: [+*] \w+)*) {} (M|N|K|a_end|b_end|a_rows|a_cols|b_rows|b_cols|rows_left)\b"
)

RULES: tuple[Rule, ...] = (
    Rule("barrier dropped", "no-barrier", r"__syncthreads\(\);", ";", SHARED),
    Rule("barrier dropped", "no-warp-barrier", r"__syncwarp\(\);", ";", TENSOR),
    Rule("barrier moved", "early", rf"([^\n{{}}/]+;[^\n]*\n)({_BARRIER})", r"\2\1", SHARED, r"load_chunks"),
    Rule("barrier moved", "out-of-loop", rf"({_BARRIER})([ \t]*\}}\n)", r"\2\1",
         (*REGISTERS, *FOURS[:2])),
    Rule(
        "barrier in a branch", "some-threads", r"__syncthreads\(\);",
        "if ((threadIdx.x + threadIdx.y) % 2 == 0) __syncthreads();",
        ("tiled_16", "block_2d", "vectorised", "cp_async", "mma_ldmatrix"),
    ),
    Rule(
        "barrier in a branch", "early-return", r"(?m)^    (?=(?:T|float) sum(?:\[REG_TILE\])? = )",
        "    if (row >= M || col >= N) return;\n    ", ("tiled_16", "tiled_rect", "privatised_2"),
    ),
    Rule("bound dropped", "no-bound", _TEST.format("<"), "true",
         ("tiled_16", "block_2d", "vectorised", "cp_async", "fp32_best", "wmma"), r"for \(|if \((?:stage|k_next)|in_C"),
    Rule("bound dropped", "no-bound", _TEST.format(">="), "false", ("naive", "coarsened")),
    Rule("bound dropped", "whole-vector", r"(load4|store4)<ALIGNED>", r"\1<true>", ("vectorised", "double_buffer")),
    Rule("bound off by one", "one-more", _TEST.format("<"), r"\1 <= \2", ("tiled_rect", "privatised_2", "wmma"), r"for \(|in_C"),
    Rule("bound off by one", "one-more", _TEST.format(">="), r"\1 > \2", ("coalesced", "unrolled")),
    Rule("bound off by one", "one-more", r"\b([MNK]) - \((m0 \+ a_row|n0 \+ b_col|k0 \+ a_col)\)",
         r"\1 + 1 - (\2)", ("vectorised", "cp_async", "warp_tiled", "fp32_best")),
    Rule("loop wrong", "one-step-more", r"\bk < (K|TILE|BK|TILE_COLS); \+\+k", r"k <= \1; ++k",
         (*ONE_ELEMENT, *TILED, *REGISTERS)),
    Rule("loop wrong", "no-tail", r"k0 < K; k0 \+= (\w+)\)", r"k0 + \1 <= K; k0 += \1)",
         ("tiled_16", "block_1d", "vectorised", "cp_async", "warp_tiled", "fp32_best")),
    Rule("loop wrong", "tail-in-fours", r"k <= K - UNROLL", "k < K", ("unrolled",)),
    Rule("indices swapped", "transposed", r"([AB]_tile)\[(\w+)\]\[(\w+)\](?! [;\n])", r"\1[\3][\2]",
         ("tiled_16", "tiled_rect", "block_1d"), r"__shared__"),
    Rule("indices swapped", "transposed", r"\b(C|A|B)( \+ |\[)size_t\((\w+)\) \* (\w+) \+ (\w+)", r"\1\2size_t(\5) * \4 + \3",
         ("naive", "unrolled", "tiled_16", "privatised_2")),
    Rule("indices swapped", "grid-swapped", r"blockIdx\.y \* (BM|TILE|TILE_ROWS)\b", r"blockIdx.x * \1",
         ("tiled_16", "block_1d", "vectorised", "warp_tiled", "mma_ldmatrix")),
    Rule("leading dimension wrong", "columns-of-the-other", r"(A \+ size_t\([^()]+\)) \* K", r"\1 * N",
         ("naive", "coarsened", "tiled_16", "vectorised")),
    Rule("leading dimension wrong", "rows-for-columns", r"(C(?: \+ |\[)size_t\(\w+\)) \* N", r"\1 * M",
         ("coalesced", "tiled_16", "block_1d", "vectorised", "fp32_best")),
    Rule("leading dimension wrong", "shared-row", r"row_major<A_LD>", "row_major<BK>", ("wmma_tiled",)),
    Rule("tile too small", "row-short", r"__shared__ (T|float) ([AB])_tile\[(\w+)\]\[(\w+)\];",
         r"__shared__ \1 \2_tile[\3][\4 - 1];", ("tiled_16", "tiled_rect", *REGISTERS)),
    Rule("tile too small", "buffer-short", r"([AB])_tile\[(2|STAGES)\];", r"\1_tile[\2 - 1];", ("double_buffer", "lane_map", "cp_async", "warp_tiled")),
    Rule("tile too small", "no-pad", r"T A_tile\[BM\]\[A_LD\]", "T A_tile[BM][BK]", ("wmma_tiled",)),
    Rule("vector off alignment", "test-dropped", r"if \(rows_aligned[^{\n]*\) \{", "if (true) {",
         (*FOURS, "warp_tiled", "fp32_best", *TENSOR[1:])),
    Rule("vector off alignment", "column-plus-one", r"% \(BN / (VEC|TN)\) \* VEC;", r"% (BN / \1) * VEC + 1;", FOURS[:2]),
    Rule("vector off alignment", "odd-pad", r"A_PAD = VEC", "A_PAD = 1", ("vectorised", "warp_tiled", "fp32_best")),
    Rule("tile not initialised", "no-zeros", r"(?m)^(\s*)([AB]_tile\[[^=\n]+\]) = ([^?\n]+) \? ([^\n]+) : (?:0\.0f|T\(0\));",
         r"\1if (\3) \2 = \4;", ("tiled_16", "tiled_rect", *REGISTERS)),
    Rule("tile not initialised", "no-store", r"(?m)^\s*vec4\(&B_tile\[[^=\n]+\) = [^\n]+;", "        ;", FOURS[:3]),
    Rule("tile not initialised", "no-first-tile", r"(?m)^    put_down\(0\);", "    ;", ("double_buffer", "lane_map", "warp_tiled")),
    Rule("tile not initialised", "no-copy", r"(?m)^\s+(?:store_chunks|gather_tile)<BK[^;]*;", "        ;",
         ("wmma_shared", "wmma_tiled", "mma_ldmatrix", "mma_swizzle")),
    Rule("tile not initialised", "no-copy", r"(?m)^\s+stage\(B_staged[^;]*;", "        ;", ("wmma",)),
    Rule("asynchronous wait dropped", "no-wait", r"wait_groups<STAGES - 2>\(\);", ";", ("cp_async", "fp32_best", "mma_pipelined")),
    Rule("asynchronous wait dropped", "one-group-less", r"wait_groups<STAGES - 2>\(\);", "wait_groups<STAGES - 1>();",
         ("cp_async", "fp32_best", "mma_pipelined")),
    Rule("asynchronous wait dropped", "no-commit", r"(?<=\n)(\s*)commit_group\(\);", r"\1;", ("cp_async", "fp32_best", "mma_pipelined")),
)  # fmt: skip

ARITHMETIC = frozenset({"loop wrong", "indices swapped"})
"""Classes of which some mutants stay within every array: wrong arithmetic, and nothing else."""


@dataclass(frozen=True)
class Mutant:
    """A kernel's source with one fault in it. line: where; old and new: the text there."""

    name: str
    fault: str
    kernel: str
    line: int
    old: str
    new: str
    source: str = field(repr=False)


@cache
def mutants() -> tuple[Mutant, ...]:
    """Every mutant, in the order of the rules; no two have the same source."""
    return tuple(_made())


def _made() -> Iterator[Mutant]:
    seen = {catalog[k].source for k in TILES}
    for rule in RULES:
        for kernel in rule.kernels:
            text = catalog[kernel].source
            for match in re.finditer(rule.pattern, text):
                start = match.start() + len(match[0]) - len(match[0].lstrip())
                line = text.count("\n", 0, start) + 1
                shown = text.split("\n")[line - 1]
                before = text[text.rfind("\n", 0, start) + 1 : start]
                if "//" in before or re.search(rule.but_not, shown):
                    continue
                new = match.expand(rule.new)
                source = text[: match.start()] + new + text[match.end() :]
                if source in seen:
                    continue
                seen.add(source)
                place = f"{line}" if not before.strip() else f"{line}.{len(before)}"
                yield Mutant(
                    f"{kernel}:{place}:{rule.name}", rule.fault, kernel, line, _short(match[0]),
                    _short(new), source,
                )  # fmt: skip


def _short(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", text)).strip()


# -- running them ----------------------------------------------------------------------------------


def _code(source: str, kernel: str) -> str:
    """PTX without what only names lines: equal for two sources that compile to the same."""
    k = catalog[kernel]
    macros = defines(k, {**k.params, **TILES[kernel]})
    text = toolchain.ptx(source, name=k.file, arch=launch.emulator_arch(k), defines=macros)
    return re.sub(r"(?m)^\s*(?:\.loc|\.file|//).*\n", "", text)


@cache
def _clean_code(kernel: str, compiler: str) -> str:
    return _code(catalog[kernel].source, kernel)


def _counts(trace: launch.Trace) -> list[Any]:
    """What a launch did, as numbers: to tell whether a fault changed it."""
    rows = [
        (r.space, r.op, r.width_bytes, r.requests, r.sectors, r.wavefronts, r.bytes)
        for r in trace.by_line()
    ]
    return [sorted(rows), dict(trace.report.instructions)]


def clean(kernel: str, shape: str, schedule: str) -> launch.Trace:
    """The kernel as it stands in the catalog, on the shape and with the tiles of its mutants."""
    return _clean(kernel, shape, schedule, toolchain.compiler())


@cache
def _clean(kernel: str, shape: str, schedule: str, compiler: str) -> launch.Trace:
    return launch.trace(kernel, *SHAPES[shape], schedule=schedule, **TILES[kernel])


def shapes(kernel: str) -> tuple[str, ...]:
    """The shapes that a kernel takes."""
    return ("aligned",) if kernel == "tiled_padded" else tuple(SHAPES)


def run(
    mutant: Mutant, see: Callable[[str, str, launch.Trace], None] | None = None
) -> dict[str, Any]:
    """One row of the record: what the emulator finds, what its oracle and the result check find.

    findings: kinds by shape, those of both schedules together, of memory and barriers alone.
    oracle: the source lines that the oracle of results names, given float64 NumPy's product; 0: a
    line of another file. wrong: wrong elements of C by shape and schedule. found, wrong_result:
    whether there are any findings, any wrong elements. executed: whether anything that was counted,
    found or computed differs from the clean kernel. state: "equivalent" (the same PTX), "does not
    compile", or "ran". see: is handed the shape, the schedule and the trace of each launch.
    """
    row: dict[str, Any] = {n: v for n, v in asdict(mutant).items() if n != "source"}
    row |= {
        "state": "ran", "findings": {}, "oracle": [], "wrong": {}, "executed": False, "error": "",
        "found": False, "wrong_result": False,
    }  # fmt: skip
    try:
        if _code(mutant.source, mutant.kernel) == _clean_code(mutant.kernel, toolchain.compiler()):
            return row | {"state": "equivalent"}
    except CompileError as error:
        return row | {"state": "does not compile", "error": error.log.split("\n")[0]}
    k = catalog[mutant.kernel]
    twin = k.with_source(mutant.source)
    for shape in shapes(mutant.kernel):
        kinds: set[str] = set()
        wrong: dict[str, int] = {}
        for schedule in SCHEDULES:
            try:
                trace = launch.trace(twin, *SHAPES[shape], schedule=schedule, **TILES[k.name])
            except EmulationError as error:
                kinds.add("refused")
                row["error"] = str(error).split("\n")[0]
                continue
            if see is not None:
                see(shape, schedule, trace)
            blamed = {f.line for f in trace.report.findings if f.kind == oracle.KIND}
            row["oracle"] = sorted({*row["oracle"], *blamed})
            kinds |= {f.kind for f in trace.report.findings} - {oracle.KIND}
            wrong[schedule] = trace.wrong
            if schedule == "ascending" and _counts(trace) != _counts(
                clean(k.name, shape, schedule)
            ):
                row["executed"] = True
        row["findings"][shape] = sorted(kinds)
        row["wrong"][shape] = wrong
        row["found"] |= bool(kinds)
        row["wrong_result"] |= any(wrong.values())
    row["executed"] |= row["found"] or row["wrong_result"]
    return row


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By class, in the order of the rules: how many, and how many were caught by whom.

    Mutants that compile to the same PTX, or not at all, are left out.
    """
    out = []
    for fault in dict.fromkeys(r["fault"] for r in rows):
        ran = [r for r in rows if r["fault"] == fault and r["state"] == "ran"]
        out.append(
            {
                "fault": fault,
                "mutants": len(ran),
                "emulator": sum(r["found"] for r in ran),
                "with_oracle": sum(r["found"] or bool(r["oracle"]) for r in ran),
                "result_check": sum(r["wrong_result"] for r in ran),
            }
        )
    return out


def record(progress: bool = False) -> dict[str, Any]:
    """The whole record: about three minutes on one core."""
    rows = []
    for i, mutant in enumerate(mutants()):
        rows.append(run(mutant))
        if progress:
            print(f"\r{i + 1}/{len(mutants())}", end="", file=sys.stderr)
    return {
        "shapes": {n: list(s) for n, s in SHAPES.items()},
        "schedules": list(SCHEDULES),
        "tiles": {n: dict(geometry(catalog[n], *ALIGNED, **p).params) for n, p in TILES.items()},
        "equivalent": sum(r["state"] == "equivalent" for r in rows),
        "does_not_compile": sum(r["state"] == "does not compile" for r in rows),
        "classes": summary(rows),
        "mutants": rows,
    }


JUDGED = ("state", "findings", "oracle", "wrong_result", "found", "executed")
"""What must not depend on the compiler; how many elements are wrong may, in a race."""


def differing(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[str]:
    """Mutants of which two records say different things, and what."""
    known = {row["name"]: row for row in others}
    return [
        f"{row['name']}: {what} {row[what]}, and not {known[row['name']][what]}"
        for row in rows
        for what in JUDGED
        if row[what] != known[row["name"]][what]
    ]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--out", type=Path, help="the record (JSON); else mutants are named alone")
    options = parser.parse_args()
    if not options.out:
        for m in mutants():
            print(f"{m.fault:26} {m.name:44} {m.old}  ->  {m.new}")
        return
    made = record(progress=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    for row in made["classes"]:
        print(row)


if __name__ == "__main__":
    main()
