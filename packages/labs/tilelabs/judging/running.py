"""The second of the two processes in which a source that nobody trusts is marked: the emulator's.

PTX comes in, facts go out; no native code of anybody runs. Expected results never lie where a
kernel could read them: they are computed here, in Python, and the kernel's arena holds its
arguments alone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from helpers.ladder.kernel import evaluate
from helpers.ladder.numbers import STORAGE, UNIT_ROUNDOFF
from nogpu import emulator, toolchain
from nogpu.emulator.launching.declarations import signature
from nogpu.emulator.launching.report import LineAccess
from nogpu.emulator.machine.specials import IDENTIFYING
from nogpu.errors import TileError
from nogpu.text import without_comments
from tilelabs.judging.compiling import NAME

SCHEDULES = ("ascending", "permuted")
ENDLESS = frozenset({"step-budget", "deadlock"})
MOST_FINDINGS = 20

Array = np.ndarray[Any, Any]


def run_cases(job: dict[str, Any]) -> dict[str, Any]:
    """Runs of job["cases"] under both schedules, up to one that does not end.

    job: source, ptx, compiler, arch, entry, types (of the parameters, as C), block, grid, shared
    (expressions over M, N, K and constants), constants (name to value), dtype, transposed (of "A",
    "B", "C"), scaled, seconds (of one launch). A case: M, N, K, seed, counted, kind ("integers",
    compared exactly, or "reals"). Beside them "asks": what the kernel asks about the machine. Or
    "refused": what is wrong with its head.
    """
    made = toolchain.Compiled(job["arch"], job["ptx"], b"", "", {}, {}, job["compiler"], "")
    if refused := head(job["source"], job["ptx"], job["entry"], job["types"]):
        return {"refused": refused}
    with toolchain.use_compiled(job["source"], made):
        return _runs(job)


def _runs(job: dict[str, Any]) -> dict[str, Any]:
    runs: list[dict[str, Any]] = []
    told = {"runs": runs, "asks": asks(job["source"], job["ptx"])}
    for case in job["cases"]:
        for schedule in SCHEDULES:
            run = _run(job, case, schedule)
            runs.append(run)
            if run["ended"]:
                return told
    return told


def asks(source: str, ptx: str) -> list[str]:
    """By what a kernel could tell machines apart: special registers that no product needs, and
    macros that differ with what it is compiled for. For a person to look at; nothing is marked by
    words.
    """
    plain = without_comments(source)
    macros = [m for m in ("__CUDA_ARCH__", "__CUDACC_VER_MAJOR__") if m in plain]
    return sorted(set(_REGISTER.findall(without_comments(ptx))) & IDENTIFYING) + macros


def head(source: str, ptx: str, entry: str, types: list[str]) -> str:
    """What differs between a kernel's head and what is asked for; "" if nothing does."""
    asked = f'extern "C" __global__ void {entry}({", ".join(types)})'
    if f".entry {entry}(" not in ptx:
        if entry in ptx:
            return f'{entry} is not extern "C": write {asked}'
        named = ", ".join(re.findall(r"\.entry (\w{1,60})\(", ptx)[:3])
        there = f" (there is {named})" if named else ""
        return f"there is no kernel called {entry}{there}: write {asked}"
    formals = signature(source, entry, {})
    if formals is None:
        return f"the head of {entry} cannot be read: write it without macros, {asked}"
    got = [f"{f.type}{'*' * f.pointers}".replace("__half", "half") for f in formals]
    wanted = [" ".join(t.replace("const ", "").rsplit(" ", 1)[0].split()) for t in types]
    if got == wanted:
        return ""
    if len(got) != len(wanted):
        return f"{entry} has {len(got)} parameters and is called with {len(wanted)}: write {asked}"
    at = next(i for i, (g, w) in enumerate(zip(got, wanted, strict=True)) if g != w)
    return f"parameter {at + 1} of {entry} is {formals[at].text!r}: write {asked}"


def operands(
    case: dict[str, Any],
    transposed: str,
    scaled: bool,
    dtype: str = "float32",
    product: Callable[[Array, Array], Array] = np.matmul,
) -> dict[str, Any]:
    """A, B and C before the launch, alpha and beta; what C should hold, and how far it may be off.

    The bound for reals is Higham's for any order of summation (Accuracy and Stability of Numerical
    Algorithms, section 3.1), with two roundings more for alpha and beta, and four times that for
    Tensor Cores, which truncate, as in `numbers.error_bound`; integers are exact. want, bound: M x
    N. product: of two float64 matrices, where there is a faster one.
    """
    rng = np.random.default_rng(case["seed"])
    M, N, K = case["M"], case["N"], case["K"]
    whole = case["kind"] == "integers"

    def drawn(*shape: int) -> Array:
        x = rng.integers(-63, 64, shape) if whole else rng.standard_normal(shape)
        return x.astype(np.float32)

    A, B = (drawn(*shape).astype(STORAGE[dtype]) for shape in ((M, K), (K, N)))
    if scaled:
        C = drawn(M, N)
        alpha, beta = (np.float32(x) for x in rng.choice([-3, -2, 2, 3], 2, replace=False))
    else:
        C, alpha, beta = np.full((M, N), np.nan, np.float32), np.float32(1), np.float32(0)
    exact = product(A.astype(float), B.astype(float))
    before = C.astype(float) if scaled else np.zeros((M, N))
    want = float(alpha) * exact + float(beta) * before
    n, u = K + 3, UNIT_ROUNDOFF["float32"] * (1 if dtype == "float32" else 4)
    sizes = product(np.abs(A).astype(float), np.abs(B).astype(float))
    magnitude = np.abs(alpha) * sizes + np.abs(beta * before)
    bound = np.zeros((M, N)) if whole else n * u / (1 - n * u) * magnitude
    given = {"A": A, "B": B, "C": C}
    arrays = {n: np.ascontiguousarray(x.T if n in transposed else x) for n, x in given.items()}
    return {**arrays, "alpha": alpha, "beta": beta, "want": want, "bound": bound}


def _run(job: dict[str, Any], case: dict[str, Any], schedule: str) -> dict[str, Any]:
    """One launch: what is wrong, what was found, what it asked of memory."""
    given = operands(case, job["transposed"], job["scaled"], job["dtype"])
    sizes = {name: case[name] for name in "MNK"} | job["constants"]
    kept = {name: given[name].copy() for name in "AB"}
    args = [given["A"], given["B"], given["C"], case["M"], case["N"], case["K"]]
    if job["scaled"]:
        args += [given["alpha"], given["beta"]]
    told: dict[str, Any] = {**case, "schedule": schedule, "ended": ""}
    try:
        report = emulator.launch(
            job["source"],
            job["entry"],
            [evaluate(e, sizes) for e in job["grid"]],
            [evaluate(e, sizes) for e in job["block"]],
            args,
            evaluate(job["shared"], sizes),
            arch=job["arch"],
            name=NAME,
            uninitialised=() if job["scaled"] else ("C",),
            schedule=schedule,
            seed=case["seed"] % 1000,
            max_seconds=job["seconds"],
        )
    except TileError as error:
        return told | {"ended": str(error)[:2000]}
    if "C" in job["transposed"]:
        given["C"] = given["C"].T
    off = ~(np.abs(given["C"] - given["want"]) <= given["bound"])
    findings = report.findings
    rows = [r for r in report.accesses if r.space in ("global", "shared")]
    return told | {
        "wrong": int(off.sum()),
        "of": int(off.size),
        "first": _first(off, given),
        "changed": [n for n in "AB" if not np.array_equal(kept[n], given[n])],
        "findings": [[f.kind, f.line, f.message[:600]] for f in findings[:MOST_FINDINGS]],
        "found": len(findings),
        "sectors": sum(r.sectors for r in rows if r.space == "global"),
        "requests": sum(r.requests for r in rows if r.space == "global"),
        "wavefronts": sum(r.wavefronts for r in rows if r.space == "shared"),
        "instructions": int(sum(report.instructions.values())),
        **arithmetic(report.instructions),
        "heaviest": heaviest(report.accesses),
        "ended": next((f.message[:600] for f in findings if f.kind in ENDLESS), ""),
    }


def heaviest(accesses: Iterable[LineAccess]) -> dict[str, dict[str, Any]]:
    """Of "sectors" of global memory and "wavefronts" of shared memory the line to look at: line,
    array, op ("load", "store", "atomic"), its share of all, and how many a request of it makes.

    It is the line that makes most; of wavefronts the one whose lanes lose most where they meet in
    banks, if that is as much as `LOST` of all. over: that loss, as a share.
    """
    found = {}
    for what, space in (("sectors", "global"), ("wavefronts", "shared")):
        sums, over, requests = (Counter[tuple[int, str, str]]() for _ in range(3))
        for row in accesses:
            if row.space == space:
                place, made = (row.line, row.op, row.array), getattr(row, what)
                sums[place] += made
                requests[place] += row.requests
                if (
                    what == "wavefronts"
                ):  # one for each four bytes of a lane is what a request needs at most
                    over[place] += max(0, made - row.requests * max(1, row.width_bytes // 4))
        if total := sums.total():
            meets = bool(over) and max(over.values()) >= LOST * total
            [(place, _)] = (over if meets else sums).most_common(1)
            line, op, array = place
            found[what] = {
                "line": line,
                "op": op,
                "array": array,
                "share": sums[place] / total,
                "each": sums[place] / requests[place],
                "meets": meets,
            }
    return found


LOST = 0.1
"""Of all wavefronts: from this share on that one line loses, banks are what to look at."""
_REGISTER = re.compile(r"%([a-z_]+[a-z0-9_]*)")
_FLOATING = re.compile(r"(?:fma|mad|mul|add|sub)\.(?:[a-z]+\.)*(?:f32|f64|f16|f16x2|bf16|bf16x2)$")
_TENSOR = re.compile(r"(?:wmma\.)?mma\..*?\bm(\d+)n(\d+)k(\d+)\b")


def arithmetic(instructions: Mapping[str, int]) -> dict[str, int]:
    """Of executed PTX instructions: `scalar`, those of warps that multiply or add floating-point
    numbers, and `tensor`, the multiply-adds of Tensor Cores, M N K of each wmma.mma or mma (PTX
    ISA, 9.7.15).
    """
    scalar = sum(n for name, n in instructions.items() if _FLOATING.match(name))
    shapes = ((_TENSOR.match(name), n) for name, n in instructions.items())
    tensor = sum(math.prod(map(int, found.groups())) * n for found, n in shapes if found)
    return {"scalar": scalar, "tensor": tensor}


def _first(off: Array, given: dict[str, Any]) -> dict[str, Any] | None:
    """The first wrong element: row, column, what it should be, what it is."""
    at = np.argwhere(off)
    if not len(at):
        return None
    i, j = map(int, at[0])
    return {
        "row": i,
        "column": j,
        "expected": float(given["want"][i, j]),
        "got": repr(float(given["C"][i, j])),
    }
