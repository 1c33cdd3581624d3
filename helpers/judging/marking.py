"""A source that nobody trusts, judged: compiled in one process, run in another, facts and no words of marks.

    asked = Asked("lab2", transposed="A")
    marked = mark(raw, asked, cases(asked, secret, "lab 2", "student 7", attempt=1))

The cases are derived, never stored: whoever lacks the secret knows neither the shapes nor the numbers, and
another attempt has others. Both schedules of the emulator run, since one of them may hide a missing barrier.
Work is counted in totals, for each 32 multiply-adds that the product needs: an average a request can be
diluted with requests that nobody needs.
"""

from __future__ import annotations

import hmac
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import helpers
from helpers import apart, toolchain
from helpers.apart import Done, Limits
from helpers.device import WARP
from helpers.errors import ConfigError, SourceError, ToolchainError
from helpers.judging import compiling
from helpers.text import HEADERS, check_includes, decode

COMPILE = Limits(seconds=20, wall=60.0, answer=8 * apart.MB)
RUN = Limits(seconds=60, wall=180.0, answer=8 * apart.MB)


@dataclass(frozen=True)
class Asked:
    """What a kernel is asked to be: C = A B, or its variants, in float32 and row-major.

    transposed: the matrices that are given as their transpose. scaled: C = alpha A B + beta C. block, grid,
    shared: expressions over M, N, K. arch: what it is compiled for. headers: what it may include. seconds:
    of one launch in the emulator.
    """

    entry: str
    transposed: str = ""
    scaled: bool = False
    block: tuple[str, ...] = ("16", "16")
    grid: tuple[str, ...] = ("cdiv(N, 16)", "cdiv(M, 16)")
    shared: str = "0"
    arch: str = "sm_75"
    headers: frozenset[str] = HEADERS
    seconds: float = 20.0

    @property
    def types(self) -> list[str]:
        """The parameters of the kernel, as C."""
        scale = ["float alpha", "float beta"] if self.scaled else []
        return ["const float* A", "const float* B", "float* C", "int M", "int N", "int K", *scale]


@dataclass(frozen=True)
class Case:
    """One product: its shape, how its numbers are drawn, and of what kind they are."""

    M: int
    N: int
    K: int
    seed: int
    kind: str = "integers"


@dataclass(frozen=True)
class Run:
    """One launch in the emulator.

    wrong: elements of C, of `of`; first: the first of them (row, column, expected, got). changed: inputs that
    the kernel wrote to. findings: (kind, line, message), at most twenty of `found`. sectors, requests: of
    global memory; wavefronts: of shared memory; instructions: of warps. ended: why it did not end by itself.
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
    ended: str = ""

    @property
    def right(self) -> bool:
        """Every element is right, inputs are as they were, and the launch came to its end."""
        return self.of > 0 and not (self.wrong or self.changed or self.ended)

    def a_step(self, what: str, tile: tuple[int, int, int] = (1, 1, 1)) -> float:
        """Of "sectors", "requests", "wavefronts" or "instructions": the total over 32 multiply-adds.

        tile: multiply-adds are those of whole tiles, so that a shape that is ragged asks for no more.
        """
        sizes = (self.case.M, self.case.N, self.case.K)
        whole = math.prod(-(-n // t) * t for n, t in zip(sizes, tile, strict=True))
        return float(getattr(self, what)) * WARP / whole


@dataclass(frozen=True)
class Marked:
    """The facts of one source. refused: why it was not run, in one line, and `stage` where: "bytes",
    "includes", "compile", "head", "run"; log: the compiler's, cut. registers, spills (bytes): of the kernel.
    locked: whether both processes were locked into their folders. seconds: by the clock on the wall."""

    refused: str = ""
    stage: str = ""
    log: str = ""
    compiler: str = ""
    registers: int = 0
    spills: int = 0
    runs: tuple[Run, ...] = ()
    locked: bool = False
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
        """The largest `Run.a_step` of any case with 32 or more of M, N and K; 0 without a run."""
        large = [r for r in self.runs if min(r.case.M, r.case.N, r.case.K) >= WARP]
        return max((r.a_step(what, tile) for r in large), default=0.0)


def cases(asked: Asked, secret: bytes, *of: object) -> tuple[Case, ...]:
    """The products that a source is tried on, derived from a secret and from whose they are.

    of: what tells one set from another, such as lab, student, attempt. Two shapes beside the edges of
    tiles, a thin one, a long K, two of reals, one with more than 2^15 elements, and one element. Raises
    ConfigError for a secret under 16 bytes.
    """
    if len(secret) < 16:
        raise ConfigError(f"a secret of {len(secret)} bytes can be guessed: take 16 or more")
    key = "\0".join([asked.entry, asked.transposed, str(asked.scaled), *map(str, of)])
    rng = Random(hmac.digest(secret, key.encode(), "sha256"))

    def near(tile: int, most: int) -> int:
        """Beside a multiple of a tile, and no multiple."""
        return tile * rng.randint(2, most) + rng.choice((-3, -1, 1, 5))

    shapes = [
        ((near(16, 3), near(16, 3), near(16, 3)), "integers"),
        ((near(32, 3), near(32, 2), near(32, 2)), "reals"),
        ((rng.randint(1, 4), near(16, 4), near(16, 3)), "integers"),
        ((near(8, 4), rng.randint(1, 4), near(16, 3)), "reals"),
        ((near(16, 2), near(16, 2), rng.randint(200, 300)), "integers"),
        ((rng.randint(180, 200), rng.randint(183, 200), rng.randint(3, 7)), "integers"),
        ((1, 1, 1), "integers"),
    ]
    return tuple(Case(*shape, rng.getrandbits(32), kind) for shape, kind in shapes)


def mark(
    source: str | bytes,
    asked: Asked,
    todo: Sequence[Case],
    *,
    lock: bool | None = None,
    compile_limits: Limits = COMPILE,
    run_limits: Limits = RUN,
) -> Marked:
    """The facts of a source; whatever it does, it does to two processes that end.

    lock: whether they are locked into their folders (Landlock); default where the kernel can and NVRTC
    compiles: clang is a program of its own, which a lock does not let start. Raises ConfigError where a lock
    is asked for that this machine does not have, ToolchainError where nothing compiles here; never for a
    source.
    """
    began = time.monotonic()
    by_clang = toolchain.uses_clang()
    if lock and by_clang:
        raise ConfigError(
            "clang compiles here, and it cannot be locked into folders: install NVRTC to mark what nobody "
            "trusts, or mark without the lock"
        )
    lock = bool(apart.landlock()) and not by_clang if lock is None else lock
    if by_clang:  # it writes files on its way, and has itself to load
        compile_limits = replace(compile_limits, files=64 * apart.MB, memory=16 * 1024 * apart.MB)
    found = _marked(source, asked, todo, lock, compile_limits, run_limits)
    return replace(found, locked=lock, seconds=time.monotonic() - began)


def _marked(
    source: str | bytes,
    asked: Asked,
    todo: Sequence[Case],
    lock: bool,
    first: Limits,
    second: Limits,
) -> Marked:
    try:
        text = decode(source if isinstance(source, bytes) else source.encode(), "the source")
    except SourceError as error:
        return Marked(tidy(str(error)), "bytes")
    except UnicodeEncodeError:
        return Marked("the source holds characters that are no text (lone surrogates)", "bytes")
    try:
        check_includes(text, asked.headers)
    except SourceError as error:
        return Marked(tidy(str(error)), "includes")
    job: dict[str, Any] = {"source": text, "arch": asked.arch}
    done = apart.run(
        "helpers.judging.compiling:compiled", job, first,
        readable=compiling.readable() if lock else None,
    )  # fmt: skip
    if done.kind == "ToolchainError":  # that is this machine's fault, and nobody's source
        raise ToolchainError(done.fault)
    if done.fault:
        return Marked(f"the compiler did not come to an end: {tidy(done.fault)}", "compile")
    made = done.value
    if "refused" in made:
        log = tidy_log(made["refused"])
        return Marked(f"it does not compile: {_first_error(log)}", "compile", log)
    job |= {
        "ptx": made["ptx"], "compiler": made["compiler"], "entry": asked.entry, "types": asked.types,
        "block": asked.block, "grid": asked.grid, "shared": asked.shared, "scaled": asked.scaled,
        "transposed": asked.transposed, "seconds": asked.seconds, "cases": [vars(c) for c in todo],
    }  # fmt: skip
    registers, stores, loads, *_ = made["kernels"].get(asked.entry, (0, 0, 0))
    known = Marked(compiler=made["compiler"], registers=registers, spills=stores + loads)
    done = apart.run(
        "helpers.judging.running:ran", job, second, readable=_python() if lock else None
    )
    return _told(known, done)


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
    return [
        *map(Path, dict.fromkeys(folders)),
        Path(numpy.__file__).parent.parent,
        Path(helpers.__file__).parent,
    ]


def _told(known: Marked, done: Done) -> Marked:
    if done.fault:
        return replace(known, refused=f"it did not come to an end: {tidy(done.fault)}", stage="run")
    if "refused" in done.value:
        return replace(known, refused=tidy(done.value["refused"]), stage="head")
    return replace(known, runs=tuple(map(_run, done.value["runs"])))


def _run(told: Mapping[str, Any]) -> Run:
    values = {
        n: told[n] for n in ("wrong", "of", "first", "found", "sectors", "requests") if n in told
    }
    values |= {n: told[n] for n in ("wavefronts", "instructions") if n in told}
    return Run(
        Case(*(told[n] for n in ("M", "N", "K", "seed", "kind"))),
        told["schedule"],
        changed=tuple(told.get("changed", ())),
        findings=tuple((k, line, tidy(m)) for k, line, m in told.get("findings", ())),
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
    found = re.search(r"\((\d+)\): (?:catastrophic |fatal )?error[^:]*: ([^\n]*)", log)
    return f"line {found[1]}: {found[2]}" if found else (log.split("\n")[0] or "no reason is given")


__all__ = ["Asked", "Case", "Marked", "Run", "cases", "mark", "tidy", "tidy_log"]
