"""The second of the two processes in which a source that nobody trusts is marked: the emulator's.

PTX comes in, facts go out; no native code of anybody runs. Expected results never lie where a
kernel could read them: they are computed here, in Python, and the kernel's arena holds its
arguments alone.
"""

import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from helpers.ladder.kernel import evaluate
from helpers.ladder.numbers import UNIT_ROUNDOFF, poison
from nogpu import emulator, toolchain
from nogpu.emulator.launching.declarations import signature
from nogpu.emulator.launching.report import LineAccess, Report
from nogpu.emulator.machine import sums
from nogpu.emulator.machine.specials import IDENTIFYING
from nogpu.errors import DataError, TileError
from nogpu.text import without_comments
from tilelabs.judging.compiling import NAME

SCHEDULES = ("ascending", "permuted")
ENDS = frozenset({"step-budget", "deadlock", "trap", "assert"})
MOST_FINDINGS = 20
MOST_WORDS = 2000
"""Characters of a message."""
TINY = 2.0**-126
"""Below the least normal number of float32 results may be flushed to zero."""

Array = np.ndarray[Any, Any]


def run_cases(job: dict[str, Any]) -> dict[str, Any]:
    """Runs of job["cases"] under both schedules, up to one that does not end, or, with job["stop"],
    to a case that is wrong.

    job: source, device (what of it was compiled), ptx, compiler, arch, constants (name to value),
    cases, and what `marking.Specification.as_data` says. Beside them "asks": what the kernel asks
    about the machine, and "leans" (`leans`). Or "refused": what is wrong with its head.
    """
    made = toolchain.Compiled(job["arch"], job["ptx"], b"", "", {}, {}, job["compiler"], "")
    if refused := head(job["source"], job["ptx"], job["entry"], job["types"], job["host"]):
        return {"refused": refused}
    with toolchain.use_compiled(job["device"], made):
        return _runs(job)


def _runs(job: dict[str, Any]) -> dict[str, Any]:
    runs: list[dict[str, Any]] = []
    answer = {"runs": runs, "asks": asks(job["source"], job["ptx"]), "leans": -1.0}
    for case in job["cases"]:
        for schedule in SCHEDULES:
            run = _run(job, case, schedule)
            runs.append(run)
            if run["ended"]:
                return answer
        if job.get("stop") and any(r.get("wrong") or r.get("changed") for r in runs):
            return answer
    if any(run["tensor"] for run in runs):
        answer["leans"] = leans(job, job["cases"][0])
    return answer


def leans(job: dict[str, Any], case: dict[str, Any]) -> float:
    """The share of the elements of outputs that change where Tensor Cores answer something else: 1
    of what is made by them, 0 of what was made by threads beside them.

    Products with a constant matrix are answered as they are, so that a kernel that tries the
    machine out by one learns nothing.
    """
    own = sums.accumulate

    def odd(a: Array, b: Array, c: Array, kinds: tuple[str, str], **more: Any) -> Array:
        varied = (a != a[..., :1, :1]).any(axis=(-2, -1))
        return own(a, b, c, kinds, **more) + varied[..., None, None].astype(float)

    with mock.patch.object(sums, "accumulate", odd):
        run = _run(job, case, "ascending")
    return float(run["wrong"] / run["of"]) if run.get("of") else 0.0


def asks(source: str, ptx: str) -> list[str]:
    """By what a kernel could tell machines apart: special registers that no product needs, and
    macros that differ with what it is compiled for. For a person to look at; nothing is marked by
    words.
    """
    plain = without_comments(source)
    macros = [m for m in ("__CUDA_ARCH__", "__CUDACC_VER_MAJOR__") if m in plain]
    return sorted(set(_REGISTER.findall(without_comments(ptx))) & IDENTIFYING) + macros


def head(source: str, ptx: str, entry: str, types: list[str], host: bool = False) -> str:
    """What differs between a kernel's head, or a host function's, and what is asked for; "" if
    nothing does.
    """
    expected = f"void {entry}({', '.join(types)})"
    if host:  # read as a kernel's
        source = re.sub(rf"\bvoid\s+{entry}\b", r"__global__ \g<0>", source)
        if not re.search(rf"__global__ void\s+{entry}\b", source):
            return f"there is no host function called {entry}: write {expected}"
    else:
        expected = f'extern "C" __global__ {expected}'
    if not host and f".entry {entry}(" not in ptx:
        if entry in ptx:
            return f'{entry} is not extern "C": write {expected}'
        named = ", ".join(re.findall(r"\.entry (\w{1,60})\(", ptx)[:3])
        there = f" (there is {named})" if named else ""
        return f"there is no kernel called {entry}{there}: write {expected}"
    formals = signature(source, entry, {})
    if formals is None:
        return f"the head of {entry} cannot be read: write it without macros, {expected}"
    got = [f"{f.type}{'*' * f.pointers}".replace("__half", "half") for f in formals]
    wanted = [" ".join(t.replace("const ", "").rsplit(" ", 1)[0].split()) for t in types]
    if got == wanted:
        return ""
    if len(got) != len(wanted):
        counts = f"{len(got)} parameters and is called with {len(wanted)}"
        return f"{entry} has {counts}: write {expected}"
    at = next(i for i, (g, w) in enumerate(zip(got, wanted, strict=True)) if g != w)
    return f"parameter {at + 1} of {entry} is {formals[at].text!r}: write {expected}"


def operands(
    job: Mapping[str, Any], case: Mapping[str, Any], place: Callable[[Array], Any] = lambda x: x
) -> dict[str, Any]:
    """What a launch is given, and what should come of it: "given", by name what the kernel gets,
    arrays as they lie; "want" and "bound", by output as it is written: float64, and how far off.

    The bound for reals is that of `roundings` roundings, n u / (1 - n u) of the result's magnitude
    (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1); whole numbers are exact
    where the lab says so. place: puts float64 arrays where the reference shall compute. Raises
    DataError for a reference that fails, or gives another shape or what is no number.
    """
    rng, sizes = np.random.default_rng(case["seed"]), dict(case["sizes"])
    whole = case["kind"] == "integers"
    given: dict[str, Any] = {}
    known: dict[str, Any] = dict(sizes)
    shapes = {a["name"]: [evaluate(e, sizes) for e in a["shape"]] for a in job["arguments"]}
    for a in job["arguments"]:
        name, dtype = a["name"], np.dtype(a["dtype"])
        if not a["shape"]:
            picked = dtype.type(rng.choice(a["pick"])) if a["pick"] else None
            given[name] = evaluate(a["value"] or name, sizes) if picked is None else picked
            known[name] = float(given[name])
            continue
        if a["out"] and not a["given"]:
            x = np.full(shapes[name], poison(a["dtype"]), dtype)
        elif whole or dtype.kind == "i":
            x = rng.integers(-a["most"], a["most"] + 1, shapes[name]).astype(dtype)
        else:
            x = (a["scale"] * rng.standard_normal(shapes[name])).astype(dtype)
        if a["given"] or not a["out"]:
            known[name] = place(x.astype(float))
        given[name] = np.ascontiguousarray(x.T if name in job["transposed"] else x)
    n = evaluate(job["roundings"], sizes) * UNIT_ROUNDOFF["float32"]
    try:
        names: dict[str, Any] = {"np": np}
        exec(compile(job["reference"], "reference.py", "exec"), names)  # the lab's own
        want = _results(job, names[job["does"]], known, shapes)
        terms = _results(job, names.get("magnitude", names[job["does"]]), known, shapes)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        raise DataError(f"{job['does']} of {job['entry']}'s reference.py: {message}") from error
    none = whole and job["exact"]
    bound = {m: 0 * x if none else n / (1 - n) * abs(x) + TINY for m, x in terms.items()}
    return {"given": given, "want": want, "bound": bound}


def _results(
    job: Mapping[str, Any], function: Callable[..., Any], known: Mapping[str, Any], shapes: Any
) -> dict[str, Any]:
    """What a function of a reference says, by output. Raises ValueError for what cannot be that."""
    formals = inspect.signature(function).parameters
    outputs = [a["name"] for a in job["arguments"] if a["out"]]
    result = function(**{name: value for name, value in known.items() if name in formals})
    found = dict(zip(outputs, result if isinstance(result, tuple) else (result,), strict=True))
    for name, x in found.items():
        if list(x.shape) != shapes[name] or not bool((abs(x) < math.inf).all()):
            raise ValueError(f"{name} should be {shapes[name]} finite numbers, and is {x.shape}")
    return found


def _run(job: dict[str, Any], case: dict[str, Any], schedule: str) -> dict[str, Any]:
    """One launch: what is wrong, what was found, what it asked of memory."""
    made = operands(job, case)
    given, sizes = made["given"], dict(case["sizes"]) | job["constants"]
    outputs = [a["name"] for a in job["arguments"] if a["out"]]
    kept = {a["name"]: given[a["name"]].copy() for a in job["arguments"]
            if a["shape"] and not a["out"]}  # fmt: skip
    outcome: dict[str, Any] = {"case": case, "schedule": schedule, "ended": ""}
    launch = partial(
        emulator.launch,
        job["device"],
        arch=job["arch"],
        name=NAME,
        schedule=schedule,
        seed=case["seed"],
        max_seconds=job["seconds"],
    )
    try:
        if job["host"]:
            from tilelabs.judging import hosting

            reports, found, counts = hosting.run(job["source"], job["entry"], given, launch)
        else:
            unset = [a["name"] for a in job["arguments"] if a["out"] and not a["given"]]
            grid, block = ([evaluate(e, sizes) for e in job[n]] for n in ("grid", "block"))
            shared = evaluate(job["shared"], sizes)
            arguments = list(given.values())
            one = launch(job["entry"], grid, block, arguments, shared, uninitialised=unset)
            reports, found, counts = [one], [], {}
    except TileError as error:
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__ from None
        return outcome | {"ended": _plain(str(error))}
    got = {n: given[n].T if n in job["transposed"] else given[n] for n in outputs}
    off = {n: ~(np.abs(got[n] - made["want"][n]) <= made["bound"][n]) for n in outputs}
    found += [(f.kind, f.line, f.message) for report in reports for f in report.findings]
    accesses = [row for report in reports for row in report.accesses]
    return outcome | {
        "wrong": sum(int(x.sum()) for x in off.values()),
        "of": sum(x.size for x in off.values()),
        "first": _first(off, made["want"], got),
        "changed": [n for n in kept if not np.array_equal(kept[n], given[n])],
        "findings": [[kind, line, _plain(m)] for kind, line, m in found[:MOST_FINDINGS]],
        "found": len(found),
        **counts,
        **counted(reports),
        "heaviest": heaviest(accesses),
        "ended": next((_plain(m) for kind, _, m in found if kind in ENDS), ""),
    }


def counted(reports: Sequence[Report]) -> dict[str, int]:
    """What launches asked for, under the names of `marking.Run`."""
    rows = [r for one in reports for r in one.accesses if r.space in ("global", "shared")]
    instructions = sum((Counter(one.instructions) for one in reports), Counter[str]())
    return {
        "sectors": sum(r.sectors for r in rows if r.space == "global"),
        "requests": sum(r.requests for r in rows if r.space == "global"),
        "atomics": sum(r.requests for r in rows if r.op == "atomic"),
        "wavefronts": sum(r.wavefronts for r in rows if r.space == "shared"),
        "conflicts": sum(map(_lost, rows)),
        "instructions": instructions.total(),
        **arithmetic(instructions),
    }


def _lost(row: LineAccess) -> int:
    """Wavefronts beyond those that requests need: one for each four bytes of a lane at most."""
    needs = row.requests * max(1, row.width_bytes // 4)
    return max(0, row.wavefronts - needs) if row.space == "shared" else 0


def _plain(words: str) -> str:
    """The emulator's words, cut, without advice on its own arguments, which no student can give."""
    return " ".join(s for s in re.split(r"(?<=\.)\s+", words[:MOST_WORDS]) if "max_" not in s)


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
                over[place] += _lost(row)
        if total := sums.total():
            meets = max(over.values()) >= LOST * total
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
    numbers, `barriers`, those that wait for a block, and `tensor`, the multiply-adds of Tensor
    Cores, M N K of each wmma.mma or mma (PTX ISA, 9.7.15).
    """
    scalar = sum(n for name, n in instructions.items() if _FLOATING.match(name))
    barriers = sum(
        n
        for name, n in instructions.items()
        if name.startswith(("bar.", "barrier.")) and not name.startswith("bar.warp")
    )
    shapes = ((_TENSOR.match(name), n) for name, n in instructions.items())
    tensor = sum(math.prod(map(int, found.groups())) * n for found, n in shapes if found)
    return {"scalar": scalar, "tensor": tensor, "barriers": barriers}


def _first(
    off: Mapping[str, Array], want: Mapping[str, Array], got: Mapping[str, Array]
) -> dict[str, Any] | None:
    """The first wrong element: array, indices, what it should be, what it is."""
    for name, wrong in off.items():
        if len(at := np.argwhere(wrong)):
            i = tuple(map(int, at[0]))
            x = got[name][i]
            found = "nan" if x == poison(str(x.dtype)) else repr(float(x))
            return {"array": name, "at": list(i), "expected": float(want[name][i]), "got": found}
    return None
