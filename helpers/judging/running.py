"""The second of the two processes in which a source that nobody trusts is marked: the emulator's.

PTX comes in, facts go out; no native code of anybody runs. Expected results never lie where a kernel could
read them: they are computed here, in Python, and the kernel's arena holds its arguments alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers import emulator, toolchain
from helpers.emulator.launching.declarations import signature
from helpers.errors import TileError
from helpers.judging.compiling import NAME
from helpers.kernel import evaluate
from helpers.numbers import UNIT_ROUNDOFF

SCHEDULES = ("ascending", "permuted")
ENDLESS = frozenset({"step-budget", "deadlock"})
MOST_FINDINGS = 20

Array = np.ndarray[Any, Any]


def ran(job: dict[str, Any]) -> dict[str, Any]:
    """Runs of job["cases"] under both schedules, up to one that does not end.

    job: source, ptx, compiler, arch, entry, types (of the parameters, as C), block, grid, shared (expressions
    over M, N, K), transposed ("", "A", "B" or "AB"), scaled, seconds (of one launch). A case: M, N, K, seed,
    kind ("integers", compared exactly, or "reals"). Or "refused": what is wrong with the kernel's head.
    """
    made = toolchain.Compiled(job["arch"], job["ptx"], b"", "", {}, {}, job["compiler"], "")
    toolchain.hand(job["source"], made)
    if refused := head(job["source"], job["ptx"], job["entry"], job["types"]):
        return {"refused": refused}
    runs = []
    for case in job["cases"]:
        for schedule in SCHEDULES:
            run = _run(job, case, schedule)
            runs.append(run)
            if run["ended"]:
                return {"runs": runs}
    return {"runs": runs}


def head(source: str, ptx: str, entry: str, types: list[str]) -> str:
    """What differs between a kernel's head and what is asked for; "" if nothing does."""
    asked = f'extern "C" __global__ void {entry}({", ".join(types)})'
    if f".entry {entry}(" not in ptx:
        if entry in ptx:
            return f'{entry} is not extern "C": write {asked}'
        return f"there is no kernel called {entry}: write {asked}"
    formals = signature(source, entry, {})
    if formals is None:
        return f"the head of {entry} cannot be read: write it without macros, {asked}"
    got = [f"{f.type}{'*' * f.pointers}" for f in formals]
    wanted = [" ".join(t.replace("const ", "").rsplit(" ", 1)[0].split()) for t in types]
    if got == wanted:
        return ""
    if len(got) != len(wanted):
        return f"{entry} has {len(got)} parameters and is called with {len(wanted)}: write {asked}"
    at = next(i for i, (g, w) in enumerate(zip(got, wanted, strict=True)) if g != w)
    return f"parameter {at + 1} of {entry} is {formals[at].text!r}: write {asked}"


def operands(case: dict[str, Any], transposed: str, scaled: bool) -> dict[str, Any]:
    """A, B and C before the launch, alpha and beta; what C should hold, and how far it may be off.

    The bound for reals is Higham's for any order of summation (Accuracy and Stability of Numerical
    Algorithms, section 3.1), with two roundings more for alpha and beta; integers are exact.
    """
    rng = np.random.default_rng(case["seed"])
    M, N, K = case["M"], case["N"], case["K"]
    whole = case["kind"] == "integers"

    def drawn(*shape: int) -> Array:
        x = rng.integers(-63, 64, shape) if whole else rng.standard_normal(shape)
        return x.astype(np.float32)

    A, B = drawn(M, K), drawn(K, N)
    if scaled:
        C = drawn(M, N)
        alpha, beta = (np.float32(x) for x in rng.choice([-3, -2, 2, 3], 2, replace=False))
    else:
        C, alpha, beta = np.full((M, N), np.nan, np.float32), np.float32(1), np.float32(0)
    product = A.astype(float) @ B.astype(float)
    before = C.astype(float) if scaled else np.zeros((M, N))
    want = float(alpha) * product + float(beta) * before
    n, u = K + 3, UNIT_ROUNDOFF["float32"]
    magnitude = np.abs(alpha) * (np.abs(A).astype(float) @ np.abs(B)) + np.abs(beta * before)
    bound = np.zeros((M, N)) if whole else n * u / (1 - n * u) * magnitude
    given = {"A": A.T if "A" in transposed else A, "B": B.T if "B" in transposed else B, "C": C}
    arrays = {name: np.ascontiguousarray(x) for name, x in given.items()}
    return {**arrays, "alpha": alpha, "beta": beta, "want": want, "bound": bound}


def _run(job: dict[str, Any], case: dict[str, Any], schedule: str) -> dict[str, Any]:
    """One launch: what is wrong, what was found, what it asked of memory."""
    given = operands(case, job["transposed"], job["scaled"])
    sizes = {name: case[name] for name in "MNK"}
    kept = {name: given[name].copy() for name in "AB"}
    args = [given["A"], given["B"], given["C"], *sizes.values()]
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
        "ended": next((f.message[:600] for f in findings if f.kind in ENDLESS), ""),
    }


def _first(off: Array, given: dict[str, Any]) -> dict[str, Any] | None:
    """The first wrong element: row, column, what it should be, what it is."""
    at = np.argwhere(off)
    if not len(at):
        return None
    i, j = map(int, at[0])
    return {
        "row": i, "column": j, "expected": float(given["want"][i, j]), "got": repr(float(given["C"][i, j])),
    }  # fmt: skip
