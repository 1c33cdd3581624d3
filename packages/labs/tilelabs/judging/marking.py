"""A source that nobody trusts, judged: compiled in one process, run in another, facts and no words
of marks.

    spec = lab("2").specification(variant)
    marked = mark(raw, spec, cases(spec, secret, "lab 2", "student 7", attempt=1))

The cases are derived, never stored: whoever lacks the secret knows neither the shapes nor the
numbers, and another attempt has others. Both schedules of the emulator run, since one of them may
hide a missing barrier. Work is counted in totals, for each 32 of what is asked for, such as
multiply-adds: an average a request can be diluted with requests that nobody needs.
"""

import hmac
import math
import re
import sys
import time
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from helpers.ladder.kernel import cdiv, constants, evaluate, value_of
from nogpu import toolchain
from nogpu.device import WARP
from nogpu.errors import ConfigError, DataError, SourceError, ToolchainError
from nogpu.text import HEADERS, check_includes, decode, without_comments
from tilelabs import apart
from tilelabs.apart import Done, Limits
from tilelabs.judging import compiling

COMPILE = Limits()
RUN = Limits(seconds=60, wall=180.0)
MOST_TABLE = 4_000
"""Characters of a table in a comment."""
MAX_THREADS = 1024
"""Of a block, on every GPU from sm_20 on.

Source: CUDA C++ Programming Guide, technical specifications.
"""


C_TYPES = {"float32": "float", "float16": "half", "float64": "double", "int32": "int"}
"""What an argument may hold, as C."""


@dataclass(frozen=True)
class Argument:
    """A parameter of a kernel, in its order. dtype: of its elements; "": whole numbers by value.

    shape: of an array, expressions over the sizes; () for a number. out: whether the kernel writes
    it, given: whether it holds numbers before the launch, as whatever is no output does. most: of
    the whole numbers in it, scale: of the reals. value: a number's, an expression over the sizes,
    default its own name; pick: or one of these.
    """

    name: str
    dtype: str = "float32"
    shape: tuple[str, ...] = ()
    out: bool = False
    given: bool = False
    most: int = 63
    scale: float = 1.0
    value: str = ""
    pick: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        """As C."""
        if not self.shape:
            return f"{C_TYPES[self.dtype] if self.pick else 'int'} {self.name}"
        return f"{'' if self.out else 'const '}{C_TYPES[self.dtype]}* {self.name}"


@dataclass(frozen=True)
class Specification:
    """What a kernel is asked to be: arrays in, arrays out.

    transposed: those matrices that lie as their transpose. does: the function of `reference`, a
    text of Python, that says what outputs should hold: of float64 arrays and numbers by name, which
    lie as they are written; an array, or one for each output. Beside it may be `magnitude`: what
    the terms of a result come to, by absolute values (default: the result), of which `roundings`,
    an expression, are made. exact: whole numbers have none. block, grid, shared: expressions over
    the sizes and the constants. constants: name, least and most of the whole numbers that the
    source itself sets, as `const int BM = 64`. tile: by size, what `shapes` count in (`cases`).
    work: an expression, what a launch is asked for, in sizes rounded up to whole tiles; counts are
    for each 32 of it. host: `entry` is a host function, which allocates, copies and launches.
    arch: what it is compiled for. headers: what it may include. seconds: of the processor, for one
    launch in the emulator.
    """

    entry: str
    arguments: tuple[Argument, ...]
    tile: Mapping[str, int] = field(hash=False)
    shapes: tuple[Mapping[str, Any], ...] = field(hash=False)
    reference: str
    work: str
    transposed: str = ""
    does: str = "reference"
    roundings: str = "1"
    exact: bool = True
    block: tuple[str, ...] = ("16", "16")
    grid: tuple[str, ...] = ("1",)
    shared: str = "0"
    host: bool = False
    constants: tuple[tuple[str, int, int], ...] = ()
    aligned: int = 1
    arch: str = "sm_75"
    headers: frozenset[str] = HEADERS
    seconds: float = 20.0

    @property
    def types(self) -> list[str]:
        """The parameters of the kernel, as C."""
        return [a.text for a in self.arguments]

    @property
    def as_data(self) -> dict[str, Any]:
        """What the process that runs it is told, as plain data."""
        names = (
            "entry transposed reference does roundings exact block grid shared seconds types host"
        )
        data = {name: getattr(self, name) for name in names.split()}
        return data | {"arguments": [asdict(a) for a in self.arguments]}


@dataclass(frozen=True)
class Case:
    """One problem: its sizes by name, how its numbers are drawn, of what kind they are ("integers"
    or "reals"), and whether its work counts; work: how much of it, in whole tiles.
    """

    sizes: tuple[tuple[str, int], ...]
    seed: int
    kind: str = "integers"
    counted: bool = False
    work: float = 1.0

    def __getitem__(self, name: str) -> int:
        return dict(self.sizes)[name]

    def __str__(self) -> str:
        return " ".join(f"{name}={size}" for name, size in self.sizes)


def case_of(data: Mapping[str, Any]) -> Case:
    """A case from plain data, `asdict` of it."""
    sizes = tuple((str(name), int(size)) for name, size in data["sizes"])
    return Case(**{**data, "sizes": sizes})


@dataclass(frozen=True)
class Run:
    """One launch in the emulator.

    wrong: elements of outputs, of `of`; first: the first of them (array, at, expected, got).
    changed: inputs that the kernel wrote to. findings: (kind, line, message), at most twenty of
    `found`. sectors, requests: of global memory; wavefronts: of shared memory, `conflicts` those
    beyond what its requests need; atomics: requests of both that are atomic; instructions: of
    warps, `scalar` those that add or multiply floating-point numbers, `barriers` those that wait
    for a block; tensor: multiply-adds of Tensor Cores. copied, leaked, streams: what a host
    function did (`hosting.run`). heaviest: of "sectors" and "wavefronts" the line that makes most
    of them (`running.heaviest`). ended: why it did not end by itself.
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
    atomics: int = 0
    wavefronts: int = 0
    conflicts: int = 0
    instructions: int = 0
    scalar: int = 0
    tensor: int = 0
    barriers: int = 0
    copied: int = 0
    leaked: int = 0
    streams: int = 0
    heaviest: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ended: str = ""

    @property
    def right(self) -> bool:
        """Every element is right, inputs are as they were, and the launch came to its end."""
        return self.of > 0 and not (self.wrong or self.changed or self.ended)

    def a_step(self, what: str) -> float:
        """Of what is counted, "sectors" to "atomics": the total for each 32 of the case's work,
        which is what one instruction of a warp does. Of "tensor": the share of all of it; of
        "leaked" and "streams": as many as there are.
        """
        each = {"tensor": 1.0, "leaked": self.case.work, "streams": self.case.work}
        return float(getattr(self, what)) * each.get(what, WARP) / self.case.work


@dataclass(frozen=True)
class Marked:
    """The facts of one source. refused: why it was not run, in one line, and `stage` where:
    "bytes", "includes", "compile", "head", "run"; log: the compiler's, cut. registers, spills
    (bytes), stack (bytes of local memory, spills among them): of a thread of the kernel. locked:
    whether both processes were locked into their folders. asks: by what it could tell machines
    apart (`running.asks`), which costs no point. table: what stands in its comment `/* table`.
    sizes: of its constants, those that it sets to plain numbers. asked: how many cases there are,
    run or not. leans: share of the elements of outputs that change where Tensor Cores answer
    something else; -1 where nobody tried. seconds: by the clock on the wall.
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
    drawn: int = 0
    leans: float = -1.0
    seconds: float = field(default=0.0, compare=False)

    @property
    def tried(self) -> tuple[Case, ...]:
        """The cases that were run."""
        return tuple(dict.fromkeys(r.case for r in self.runs))

    @property
    def all(self) -> int:
        """How many cases there are, those that were not run among them."""
        return max(self.drawn, len(self.tried))

    @property
    def right(self) -> tuple[Case, ...]:
        """The cases that came out right under every schedule."""
        return tuple(c for c in self.tried if all(r.right for r in self.runs if r.case == c))

    @property
    def races(self) -> bool:
        """Whether accesses were found to race."""
        return any(kind == "race" for r in self.runs for kind, _, _ in r.findings)

    def right_in_an_order(self, needs: int) -> tuple[Case, ...]:
        """The cases that came out right, those among them of a kernel that lacks one of its
        barriers: right in an order of its warps, and a race is named.

        needs: barriers of a block, for which alone it has none where it lacks one.
        """
        known = {"race", "uninitialised", "wrong-result"}
        found = {kind for r in self.runs for kind, _, _ in r.findings}
        waits = needs == 1 or any(r.barriers for r in self.runs)
        if not (self.races and found <= known and waits):
            return self.right
        return tuple(c for c in self.tried if any(r.right for r in self.runs if r.case == c))

    @property
    def clean(self) -> bool:
        """Every case ran, and no race, no access out of bounds, nothing uninitialised was found."""
        return bool(self.runs) and not any(
            kind != "wrong-result" for run in self.runs for kind, _, _ in run.findings
        )

    def worst(self, what: str) -> float:
        """The largest `Run.a_step` of any counted case; of what should be much the smallest."""
        steps = [r.a_step(what) for r in self.runs if r.case.counted]
        return (min if what in ("tensor", "streams") else max)(steps, default=0.0)

    def heaviest(self, what: str) -> Mapping[str, Any]:
        """The line to look at (`running.heaviest`), of the first counted case; empty where nobody
        told.
        """
        counted = (r.heaviest for r in self.runs if r.case.counted)
        return next(counted, {}).get(what, {})


def cases(spec: Specification, secret: bytes, *of: object) -> tuple[Case, ...]:
    """The problems that a source is tried on, derived from a secret and from whose they are.

    of: what tells one set from another, such as lab, student, attempt. Each of `spec.shapes` is one
    (left out where its `when` does not hold): sizes, a rule for each; one_of: of these, one by lot
    has this rule instead; kind, counted. In a rule may stand `each(a, b)`, a whole number drawn for
    whose it is, and `same(a, b)`, one drawn for all of a course; `tiles(n, below)`: n tiles of this
    size or more, and 48 at least, less `below`; `beyond(a, b)`: whole tiles beyond a, up to about
    b; `near(t, a, b)`: beside a to b times t, and no multiple; `tile`, `aligned`. What is left over
    beside a t of `near` is the same for a course, so that a fault at an edge costs one student what
    it costs another. Raises ConfigError for a secret under 16 bytes.
    """
    if len(secret) < 16:
        raise ConfigError(f"a secret of {len(secret)} bytes can be guessed: take 16 or more")
    updates = any(a.out and a.given for a in spec.arguments)
    what = "\0".join([spec.entry, spec.transposed, str(updates), spec.arguments[0].dtype])
    key = "\0".join([what, *map(str, of)])
    rng, edges = (
        Random(hmac.digest(secret, k.encode(), "sha256")) for k in (key, f"{what}\0edges")
    )

    def near(tile: int, least: int, most: int) -> int:
        return tile * rng.randint(least, most) + edges.choice((-3, -1, 1, 5))

    def size(rule: str, tile: int) -> int:
        def tiles(least: int, below: int = 0) -> int:
            least = max(least, cdiv(48, tile))
            return tile * rng.randint(least, max(least, 2, 96 // tile)) - below

        def beyond(least: int, most: int) -> int:
            first = least // tile + 1
            return tile * rng.randint(first, max(first, most // tile))

        functions = {"near": near, "tiles": tiles, "beyond": beyond, "each": rng.randint}
        known = {**functions, "same": edges.randint, "tile": tile, "aligned": spec.aligned}
        return evaluate(rule, known)  # type: ignore[arg-type]  # a lab's own rules

    drawn: list[tuple[dict[str, int], Mapping[str, Any]]] = []
    for shape in spec.shapes:
        if evaluate(shape.get("when", "1"), {"aligned": spec.aligned}):
            sizes = {name: size(rule, spec.tile[name]) for name, rule in shape["sizes"].items()}
            if others := list(shape.get("one_of", {})):
                name = others[rng.randrange(len(others))]
                sizes[name] = size(shape["one_of"][name], spec.tile[name])
            drawn.append((sizes, shape))

    def case(sizes: dict[str, int], shape: Mapping[str, Any]) -> Case:
        whole = {name: cdiv(n, spec.tile[name]) * spec.tile[name] for name, n in sizes.items()}
        more = {name: shape[name] for name in ("kind", "counted") if name in shape}
        work = value_of(spec.work, whole)
        return Case(tuple(sizes.items()), rng.getrandbits(32), work=work, **more)

    return tuple(case(*one) for one in drawn)


def mark(
    source: str | bytes,
    spec: Specification,
    todo: Sequence[Case],
    *,
    lock: bool | None = None,
    compile_limits: Limits = COMPILE,
    run_limits: Limits = RUN,
    stop: bool = False,
) -> Marked:
    """The facts of a source; whatever it does, it does to two processes that end.

    stop: at the first case that is wrong.

    lock: whether they are locked into their folders (Landlock); default where the kernel can and
    NVRTC compiles: clang is a program of its own, which a lock does not let start. Raises
    ConfigError where a lock is asked for that this machine does not have, ToolchainError where
    nothing compiles here, DataError for a reference that fails; never for a source.
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
    found = _marked(source, spec, todo, lock, compile_limits, run_limits, stop)
    if found.stage in ("includes", "compile", "head"):
        found = replace(found, refused=tidy(found.refused + _lookalike(source), 450))
    table, sizes = _comments(source, spec)
    spent = time.monotonic() - began
    return replace(found, locked=lock, table=table, sizes=sizes, seconds=spent)


def _lookalike(source: str | bytes) -> str:
    """The first letter of a source's words that only looks like one of ASCII; "" for none."""
    text = source.decode("utf-8", "replace") if isinstance(source, bytes) else source
    for n, line in enumerate(without_comments(text).splitlines(), 1):
        for word in re.findall(r"[#\w]*[^\W\x00-\x7f]\w*", line):
            odd = next(c for c in word if not c.isascii())
            if re.search("[A-Za-z]", word):
                name = unicodedata.name(odd, "a character without a name")
                return f". Line {n} has {name} in {word!r}, which only looks right: type it anew"
    return ""


def _comments(source: str | bytes, spec: Specification) -> tuple[str, dict[str, int]]:
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
    stop: bool,
) -> Marked:
    refused, job = compiled(source, spec, lock, first)
    if refused is not None:
        return refused
    job |= {"cases": [asdict(c) for c in todo], "stop": stop}
    of = job["kernels"]  # of a host function its kernel that takes most
    registers, stores, loads, stack, _ = of.get(spec.entry) or max(of.values(), default=(0,) * 5)
    known = Marked("", "", "", job["compiler"], registers, stores + loads, stack, drawn=len(todo))
    done = apart.run(
        "tilelabs.judging.running:run_cases", job, second, readable=_python() if lock else None
    )
    if done.kind == "DataError":  # that is the lab's reference, and nobody's source
        raise DataError(done.fault)
    return _finished(known, done)


def compiled(
    source: str | bytes,
    spec: Specification,
    lock: bool,
    limits: Limits,
    *,
    arch: str = "",
    cubin: bool = False,
) -> tuple[Marked | None, dict[str, Any]]:
    """Why a source cannot be run, or None; and what running it needs, what the compiler made in it.

    arch: in place of what is asked. cubin: machine code, too. Raises ToolchainError where nothing
    compiles.
    """
    try:
        text = decode(source if isinstance(source, bytes) else source.encode(), "the source")
    except SourceError as error:
        return Marked(tidy(str(error)), "bytes"), {}
    except UnicodeEncodeError:
        message = "the source holds characters that are no text (lone surrogates)"
        return Marked(message, "bytes"), {}
    try:
        check_includes(text, spec.headers)
    except SourceError as error:
        return Marked(tidy(str(error)), "includes"), {}
    job: dict[str, Any] = {"source": text, "arch": arch or spec.arch, "host": spec.host}
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
    return None, job | spec.as_data | made | {"constants": named}


def _constants(text: str, spec: Specification) -> tuple[dict[str, int], str]:
    """The whole numbers that a source sets and its launch needs; or what is wrong with them."""
    found = constants(text)
    for name, least, most in spec.constants:
        if name not in found:
            advice = f"write it out, as const int {name} = {least}; the grid is made from it"
            return {}, f"no plain number for {name} is found: {advice}"
        if not least <= found[name] <= most:
            return {}, f"{name} is {found[name]}, and may be {least} to {most}"
    named = {name: found[name] for name, _, _ in spec.constants}
    threads = math.prod(evaluate(e, {**named, **dict.fromkeys(spec.tile, 1)}) for e in spec.block)
    if not 1 <= threads <= MAX_THREADS:
        values = ", ".join(f"{name} = {value}" for name, value in named.items())
        return {}, f"a block has {threads} threads with {values}, and may have 1 to {MAX_THREADS}"
    return named, ""


_HOMES = map(import_module, ("nogpu", "tilelabs", "helpers"))
CODE = [Path(folder) for home in _HOMES for folder in home.__path__]
"""Where the code lies that judges."""


def _python() -> list[Path]:
    """What the locked emulator may read: Python, its packages, and this one."""
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix]
    folders += [path for path in sys.path if "python" in path]
    return [*map(Path, dict.fromkeys(folders)), Path(np.__file__).parent.parent, *CODE]


def _finished(known: Marked, done: Done) -> Marked:
    if done.fault:
        return replace(known, refused=f"it did not come to an end: {tidy(done.fault)}", stage="run")
    if "refused" in done.value:
        return replace(known, refused=tidy(done.value["refused"]), stage="head")
    asks = tuple(map(tidy, done.value["asks"]))
    runs = tuple(map(run_of, done.value["runs"]))
    return replace(known, runs=runs, asks=asks, leans=float(done.value["leans"]))


def run_of(answer: Mapping[str, Any]) -> Run:
    """A run from plain data: what `running` says of it, or `asdict` of one."""
    heaviest = {
        what: {**most, "array": tidy(most["array"])}
        for what, most in answer.get("heaviest", {}).items()
    }
    more = {
        "case": case_of(answer["case"]),
        "changed": tuple(answer.get("changed", ())),
        "findings": tuple((k, line, tidy(m)) for k, line, m in answer.get("findings", ())),
        "ended": tidy(answer["ended"]),
    }
    return Run(**{**answer, **more, "heaviest": heaviest})


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def tidy(text: str, most: int = 300) -> str:
    """Somebody's words as one line without control characters, cut at `most`."""
    return _cut(_CONTROL.sub(" ", text).strip(), most)


def tidy_log(log: str, most: int = 8000) -> str:
    """A compiler's log: at most so many characters, 300 a line, no control characters."""
    return _cut("\n".join(filter(None, map(tidy, log.splitlines()))), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 4] + " ..."


def _first_error(log: str) -> str:
    if found := re.search(r"\((\d+)\): (?:catastrophic |fatal )?error[^:]*: ([^\n]*)", log):
        return f"line {found[1]}: {found[2]}"
    if found := re.search(r"^ptxas (?:fatal|error)\s*: ([^\n]*)", log, re.MULTILINE):
        # more shared memory than a block may have, in hexadecimal
        return re.sub(r"0x[0-9a-fA-F]+", lambda size: f"{int(size[0], 16):,}", found[1])
    return log.split("\n")[0] or "no reason is given"
