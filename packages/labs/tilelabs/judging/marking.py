"""A source that nobody trusts, judged: compiled in one process, run in another, facts and no words
of marks.

    spec = Specification("lab2", transposed="A")
    marked = mark(raw, spec, cases(spec, secret, "lab 2", "student 7", attempt=1))

The cases are derived, never stored: whoever lacks the secret knows neither the shapes nor the
numbers, and another attempt has others. Both schedules of the emulator run, since one of them may
hide a missing barrier. Work is counted in totals, for each 32 multiply-adds that the product needs:
an average a request can be diluted with requests that nobody needs.
"""

from __future__ import annotations

import hmac
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from helpers.ladder.kernel import constants, evaluate
from nogpu import toolchain
from nogpu.device import WARP
from nogpu.errors import ConfigError, SourceError, ToolchainError
from nogpu.text import HEADERS, check_includes, decode
from tilelabs import apart
from tilelabs.apart import Done, Limits
from tilelabs.judging import compiling

COMPILE = Limits(seconds=20, wall=60.0, answer=8 * apart.MB)
RUN = Limits(seconds=60, wall=180.0, answer=8 * apart.MB)
SECTOR = 8
"""Floats of a sector of global memory, 32 bytes: rows that begin with a sector share none with
another row.
"""
MOST_TABLE = 4_000
"""Characters of a table in a comment."""
MAX_THREADS = 1024
"""Of a block, on every GPU from sm_20 on.

Source: CUDA C++ Programming Guide, technical specifications.
"""


@dataclass(frozen=True)
class Specification:
    """What a kernel is asked to be: C = A B, or its variants, row-major.

    transposed: those of "A", "B", "C" that lie as their transpose. scaled: C = alpha A B + beta C.
    dtype: of A and B, float32 or float16; C and all sums are float32. block, grid, shared:
    expressions over M, N, K and the constants. constants: name, least and most of the whole numbers
    that the source itself sets, as `const int BM = 64`. edge: counted shapes end just below
    multiples of these, which every sensible tile divides; aligned: their sizes are multiples of it.
    arch: what it is compiled for. headers: what it may include. seconds: of the processor, for one
    launch in the emulator.
    """

    entry: str
    transposed: str = ""
    scaled: bool = False
    block: tuple[str, ...] = ("16", "16")
    grid: tuple[str, ...] = ("cdiv(N, 16)", "cdiv(M, 16)")
    shared: str = "0"
    dtype: str = "float32"
    constants: tuple[tuple[str, int, int], ...] = ()
    edge: tuple[int, int, int] = (16, 16, 16)
    aligned: int = 1
    arch: str = "sm_75"
    headers: frozenset[str] = HEADERS
    seconds: float = 20.0

    @property
    def types(self) -> list[str]:
        """The parameters of the kernel, as C."""
        scale = ["float alpha", "float beta"] if self.scaled else []
        of = {"float32": "float", "float16": "half"}[self.dtype]
        return [f"const {of}* A", f"const {of}* B", "float* C", "int M", "int N", "int K", *scale]


@dataclass(frozen=True)
class Case:
    """One product: its shape, how its numbers are drawn, of what kind they are, and whether its
    work counts.
    """

    M: int
    N: int
    K: int
    seed: int
    kind: str = "integers"
    counted: bool = False


@dataclass(frozen=True)
class Run:
    """One launch in the emulator.

    wrong: elements of C, of `of`; first: the first of them (row, column, expected, got). changed:
    inputs that the kernel wrote to. findings: (kind, line, message), at most twenty of `found`.
    sectors, requests: of global memory; wavefronts: of shared memory; instructions: of warps,
    `scalar` those that add or multiply floating-point numbers; tensor: multiply-adds of Tensor
    Cores. heaviest: of "sectors" and "wavefronts" the line that makes most of them
    (`running.heaviest`). ended: why it did not end by itself.
    """

    case: Case
    schedule: str
    wrong: int = 0
    of: int = 0
    first: Mapping[str, Any] | None = None
    changed: tuple[str, ...] = ()
    findings: tuple[tuple[str, int, str], ...] = ()
    found: int = 0
    sectors: int = 0
    requests: int = 0
    wavefronts: int = 0
    instructions: int = 0
    scalar: int = 0
    tensor: int = 0
    heaviest: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ended: str = ""

    @property
    def right(self) -> bool:
        """Every element is right, inputs are as they were, and the launch came to its end."""
        return self.of > 0 and not (self.wrong or self.changed or self.ended)

    def a_step(self, what: str, tile: tuple[int, int, int] = (1, 1, 1)) -> float:
        """Of what is counted, "sectors" to "scalar": the total over 32 multiply-adds, which is what
        one instruction of a warp does. Of "tensor": the share of all multiply-adds.

        tile: multiply-adds are those of whole tiles, so that a shape that is ragged asks for no
        more.
        """
        sizes = (self.case.M, self.case.N, self.case.K)
        whole = math.prod(-(-n // t) * t for n, t in zip(sizes, tile, strict=True))
        return float(getattr(self, what)) * (1 if what == "tensor" else WARP) / whole


@dataclass(frozen=True)
class Marked:
    """The facts of one source. refused: why it was not run, in one line, and `stage` where:
    "bytes", "includes", "compile", "head", "run"; log: the compiler's, cut. registers, spills
    (bytes), stack (bytes of local memory, spills among them): of a thread of the kernel. locked:
    whether both processes were locked into their folders. asks: by what it could tell machines
    apart (`running.asks`), which costs no point. table: what stands in its comment `/* table`.
    sizes: of its constants, those that it sets to plain numbers. seconds: by the clock on the wall.
    """

    refused: str = ""
    stage: str = ""
    log: str = ""
    compiler: str = ""
    registers: int = 0
    spills: int = 0
    stack: int = 0
    runs: tuple[Run, ...] = ()
    locked: bool = False
    asks: tuple[str, ...] = ()
    table: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    seconds: float = field(default=0.0, compare=False)

    @property
    def right(self) -> tuple[Case, ...]:
        """The cases that came out right under every schedule."""
        cases = dict.fromkeys(r.case for r in self.runs)
        return tuple(c for c in cases if all(r.right for r in self.runs if r.case == c))

    @property
    def clean(self) -> bool:
        """Every case ran, and no race, no access out of bounds, nothing uninitialised was found."""
        return bool(self.runs) and not any(
            kind != "wrong-result" for run in self.runs for kind, _, _ in run.findings
        )

    def worst(self, what: str, tile: tuple[int, int, int] = (1, 1, 1)) -> float:
        """The largest `Run.a_step` of any counted case, of "tensor" the smallest; 0 without one."""
        steps = [r.a_step(what, tile) for r in self.runs if r.case.counted]
        return (min if what == "tensor" else max)(steps, default=0.0)

    def heaviest(self, what: str) -> Mapping[str, Any]:
        """The line to look at (`running.heaviest`), of the first counted case; empty where nobody
        told.
        """
        counted = (r.heaviest for r in self.runs if r.case.counted)
        return next(counted, {}).get(what, {})


def cases(spec: Specification, secret: bytes, *of: object) -> tuple[Case, ...]:
    """The products that a source is tried on, derived from a secret and from whose they are.

    of: what tells one set from another, such as lab, student, attempt. What is left over beside
    tiles is the same whatever `of`, so that a fault at an edge costs one student what it costs
    another. Two shapes that end just below edges of tiles, in which work is counted; shapes beside
    edges, thin ones, a long K, three of reals, one with more than 2^15 elements, one element, and
    where sizes are aligned, each size off by itself. Raises ConfigError for a secret under 16
    bytes.
    """
    if len(secret) < 16:
        raise ConfigError(f"a secret of {len(secret)} bytes can be guessed: take 16 or more")
    what = "\0".join([spec.entry, spec.transposed, str(spec.scaled), spec.dtype])
    key = "\0".join([what, *map(str, of)])
    rng, edges = (
        Random(hmac.digest(secret, k.encode(), "sha256")) for k in (key, f"{what}\0edges")
    )
    counted: list[Case] = []

    def near(tile: int, most: int) -> int:
        """Beside a multiple of a tile, and no multiple."""
        return tile * rng.randint(2, most) + edges.choice((-3, -1, 1, 5))

    def below(edge: int) -> int:
        """Just below a multiple of an edge, at 33 or more, and of not much more than the edge
        itself.
        """
        least = -(-(WARP + 8) // edge)
        steps = 1 if spec.aligned >= SECTOR else 2  # less than the depth of a step along K
        many = rng.randint(least, max(least, -(-80 // edge)))
        return edge * many - spec.aligned * edges.randint(1, steps)

    for kind in ("integers", "reals"):
        M, N, K = map(below, spec.edge)
        counted.append(Case(M, N, K, rng.getrandbits(32), kind, counted=True))
    shapes = [
        ((near(16, 2), near(16, 3), near(16, 2)), "integers"),
        ((near(32, 3), near(32, 2), near(32, 2)), "reals"),
        ((edges.randint(1, 4), near(16, 4), near(16, 3)), "integers"),
        ((near(8, 4), edges.randint(1, 4), near(16, 3)), "reals"),
        ((near(16, 2), near(16, 2), 16 * rng.randint(13, 18) + edges.randint(0, 15)), "integers"),
        (
            (
                16 * rng.randint(11, 12) + edges.randint(4, 15),
                16 * 12 + edges.randint(0, 9),
                edges.randint(3, 7),
            ),
            "integers",
        ),
        ((1, 1, 1), "integers"),
    ]
    if (
        spec.aligned > 1
    ):  # one size off its alignment, the others on it: a kernel has to ask about each
        for at in range(3):
            sizes = [spec.aligned * rng.randint(4, 6) for _ in range(3)]
            sizes[at] += edges.randint(1, 3)
            shapes.append(((sizes[0], sizes[1], sizes[2]), "integers"))
    return (*counted, *(Case(*shape, rng.getrandbits(32), kind) for shape, kind in shapes))


def mark(
    source: str | bytes,
    spec: Specification,
    todo: Sequence[Case],
    *,
    lock: bool | None = None,
    compile_limits: Limits = COMPILE,
    run_limits: Limits = RUN,
) -> Marked:
    """The facts of a source; whatever it does, it does to two processes that end.

    lock: whether they are locked into their folders (Landlock); default where the kernel can and
    NVRTC compiles: clang is a program of its own, which a lock does not let start. Raises
    ConfigError where a lock is asked for that this machine does not have, ToolchainError where
    nothing compiles here; never for a source.
    """
    began = time.monotonic()
    by_clang = toolchain.uses_clang()
    if lock and by_clang:
        raise ConfigError(
            "clang compiles here, and it cannot be locked into folders: install NVRTC to mark "
            "what nobody trusts, or mark without the lock"
        )
    lock = bool(apart.landlock()) and not by_clang if lock is None else lock
    if by_clang:  # it writes files on its way, and has itself to load
        compile_limits = replace(compile_limits, files=64 * apart.MB, memory=16 * 1024 * apart.MB)
    found = _marked(source, spec, todo, lock, compile_limits, run_limits)
    table, sizes = _said(source, spec)
    spent = time.monotonic() - began
    return replace(found, locked=lock, table=table, sizes=sizes, seconds=spent)


def _said(source: str | bytes, spec: Specification) -> tuple[str, dict[str, int]]:
    """The table in a source's comments, at most `MOST_TABLE` characters, and its own constants."""
    text = source.decode("utf-8", "replace") if isinstance(source, bytes) else source
    head = re.search(r"/\*\s*table\b", text)
    found = constants(text)
    sizes = {name: found[name] for name, _, _ in spec.constants if name in found}
    if head is None:
        return "", sizes
    cut = text[head.end() : head.end() + MOST_TABLE].partition("*/")[0]
    return "\n".join(tidy(line) for line in cut.splitlines()), sizes


def _marked(
    source: str | bytes,
    spec: Specification,
    todo: Sequence[Case],
    lock: bool,
    first: Limits,
    second: Limits,
) -> Marked:
    refused, job = compiled(source, spec, lock, first)
    if refused is not None:
        return refused
    made = job.pop("made")
    job |= {
        "types": spec.types,
        "seconds": spec.seconds,
        "ptx": made["ptx"],
        "compiler": made["compiler"],
        "cases": [vars(c) for c in todo],
    }
    registers, stores, loads, stack, *_ = made["kernels"].get(spec.entry, (0, 0, 0, 0))
    known = Marked(
        compiler=made["compiler"], registers=registers, spills=stores + loads, stack=stack
    )
    done = apart.run(
        "tilelabs.judging.running:run_cases", job, second, readable=_python() if lock else None
    )
    return _told(known, done)


def compiled(
    source: str | bytes,
    spec: Specification,
    lock: bool,
    limits: Limits,
    *,
    arch: str = "",
    cubin: bool = False,
) -> tuple[Marked | None, dict[str, Any]]:
    """Why a source cannot be run, or None; and what running it needs, `made` of the compiler in it.

    arch: in place of what is asked. cubin: machine code, too. Raises ToolchainError where nothing
    compiles.
    """
    try:
        text = decode(source if isinstance(source, bytes) else source.encode(), "the source")
    except SourceError as error:
        return Marked(tidy(str(error)), "bytes"), {}
    except UnicodeEncodeError:
        told = "the source holds characters that are no text (lone surrogates)"
        return Marked(told, "bytes"), {}
    try:
        check_includes(text, spec.headers)
    except SourceError as error:
        return Marked(tidy(str(error)), "includes"), {}
    job: dict[str, Any] = {"source": text, "arch": arch or spec.arch}
    done = apart.run(
        "tilelabs.judging.compiling:compiled", {**job, "cubin": cubin}, limits,
        readable=compiling.readable() if lock else None,
    )  # fmt: skip
    if done.kind == "ToolchainError":  # that is this machine's fault, and nobody's source
        raise ToolchainError(done.fault)
    if done.fault:
        return Marked(f"the compiler did not come to an end: {tidy(done.fault)}", "compile"), {}
    made = done.value
    if "refused" in made:
        log = tidy_log(made["refused"])
        return Marked(f"it does not compile: {_first_error(log)}", "compile", log), {}
    named, odd = _constants(text, spec)
    if odd:
        return Marked(odd, "head", compiler=made["compiler"]), {}
    return None, job | {
        "constants": named,
        "dtype": spec.dtype,
        "entry": spec.entry,
        "block": spec.block,
        "grid": spec.grid,
        "shared": spec.shared,
        "scaled": spec.scaled,
        "transposed": spec.transposed,
        "made": made,
    }


def _constants(text: str, spec: Specification) -> tuple[dict[str, int], str]:
    """The whole numbers that a source sets and its launch needs; or what is wrong with them."""
    found = constants(text)
    for name, least, most in spec.constants:
        if name not in found:
            return (
                {},
                (
                    f"no plain number for {name} is found: write it out, as const int {name} = "
                    f"{least}; the grid is made from it"
                ),
            )
        if not least <= found[name] <= most:
            return {}, f"{name} is {found[name]}, and may be {least} to {most}"
    named = {name: found[name] for name, _, _ in spec.constants}
    threads = math.prod(evaluate(e, {**named, "M": 1, "N": 1, "K": 1}) for e in spec.block)
    if not 1 <= threads <= MAX_THREADS:
        told = ", ".join(f"{name} = {value}" for name, value in named.items())
        return {}, f"a block has {threads} threads with {told}, and may have 1 to {MAX_THREADS}"
    return named, ""


def _code() -> list[Path]:
    found = [find_spec(name) for name in ("nogpu", "tilelabs", "helpers")]
    return [Path(s.origin).parent for s in found if s and s.origin]


CODE = _code()
"""Where the code lies that judges."""


def _python() -> list[Path]:
    """What the locked emulator may read: Python, its packages, and this one."""
    import sys

    import numpy

    folders = [
        sys.prefix,
        sys.base_prefix,
        sys.exec_prefix,
        *(p for p in sys.path if "python" in p),
    ]
    return [*map(Path, dict.fromkeys(folders)), Path(numpy.__file__).parent.parent, *CODE]


def _told(known: Marked, done: Done) -> Marked:
    if done.fault:
        return replace(known, refused=f"it did not come to an end: {tidy(done.fault)}", stage="run")
    if "refused" in done.value:
        return replace(known, refused=tidy(done.value["refused"]), stage="head")
    asks = tuple(map(tidy, done.value["asks"]))
    return replace(known, runs=tuple(map(_run, done.value["runs"])), asks=asks)


def _run(told: Mapping[str, Any]) -> Run:
    values = {
        n: told[n] for n in ("wrong", "of", "first", "found", "sectors", "requests") if n in told
    }
    counts = ("wavefronts", "instructions", "scalar", "tensor")
    values |= {n: told[n] for n in counts if n in told}
    return Run(
        Case(*(told[n] for n in ("M", "N", "K", "seed", "kind", "counted"))),
        told["schedule"],
        changed=tuple(told.get("changed", ())),
        findings=tuple((k, line, tidy(m)) for k, line, m in told.get("findings", ())),
        heaviest={
            what: {**most, "array": tidy(most["array"], 60)}
            for what, most in told.get("heaviest", {}).items()
        },
        ended=tidy(told["ended"]),
        **values,
    )


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def tidy(text: str, most: int = 300) -> str:
    """Somebody's words as one line without control characters, cut at `most`."""
    line = _CONTROL.sub(" ", text).strip()
    return line if len(line) <= most else line[: most - 4] + " ..."


def tidy_log(log: str, most: int = 8000) -> str:
    """A compiler's log: at most so many characters, 300 a line, no control characters."""
    lines: Iterable[str] = (tidy(line) for line in log[: 4 * most].splitlines())
    text = "\n".join(line for line in lines if line)
    return text if len(text) <= most else text[: most - 4] + " ..."


def _first_error(log: str) -> str:
    if found := re.search(r"\((\d+)\): (?:catastrophic |fatal )?error[^:]*: ([^\n]*)", log):
        return f"line {found[1]}: {found[2]}"
    if found := re.search(r"^ptxas (?:fatal|error)\s*: ([^\n]*)", log, re.MULTILINE):
        # more shared memory than a block may have, in hexadecimal
        return re.sub(r"0x[0-9a-fA-F]+", lambda size: f"{int(size[0], 16):,}", found[1])
    return log.split("\n")[0] or "no reason is given"


__all__ = [
    "Case",
    "Marked",
    "Run",
    "Specification",
    "cases",
    "compiled",
    "mark",
    "tidy",
    "tidy_log",
]
