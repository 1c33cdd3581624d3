"""What a kernel runs with: from options, the file's `//!` lines, its launches, and guesses.

The first that says it is taken, and each value goes with the words that say where it is from. A
value is written the same in an option and in a `//!` line: see `TELL`.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nogpu.bfloat16 import from_bfloat16, to_bfloat16
from nogpu.command.host import Program
from nogpu.command.syntax import NotReadError
from nogpu.command.values import (
    SIZES,
    WHOLE,
    Array,
    Assigned,
    Cell,
    Filled,
    Launched,
    Map,
    Pointer,
    Record,
    Scope,
    Unknown,
    guesses,
    plain,
    triple,
)  # fmt: skip
from nogpu.emulator import TensorMap
from nogpu.emulator.launching.declarations import C_TYPES, Formal
from nogpu.errors import ConfigError, near_matches

TELL = """\
--grid and --block take one to three numbers (4, 16x16, "(n+255)/256"), --arg NAME=VALUE an
argument: a number (n=1000), an array by its size (a=1000, a=64x48, a=n*4), or by how it is filled
(a=zeros:1000, ones:, arange:, empty: for what is never set, FILE.npy), or a tensor map
(tm=map:A,box=64x64,swizzle=128). --set NAME=VALUE gives a variable of the host code its value. The
same words may stand in the file: //! grid=4 block=256 n=1000 a=n b=empty:n"""

MOST_BYTES = 2 << 30
"""Of all arrays of a run."""
_FILLS = {"random": "random", "zeros": 0, "ones": "ones", "arange": "arange", "empty": "empty"}
_POINTERS = re.compile(r"\*\W*(?:(?:const|__restrict__)\W*)*\*|(?<!\()\*[^*]*\[")
_LAUNCH = ("grid", "block", "shared", "cluster")
Numbers = np.ndarray[Any, np.dtype[Any]]


def _option(default: Any, metavar: str, words: str) -> Any:
    """An option: NAME=... in its metavar: it may be given several times."""
    about = {"metavar": metavar, "help": words}
    if metavar.startswith("NAME"):
        return field(default_factory=dict, metadata=about)
    return field(default=default, metadata=about)


_NUMBERS = "one to three numbers: 4, 16x16, '(n+255)/256'"


@dataclass
class Options:
    """What the command line says. Texts, as they were typed; None: nothing."""

    kernel: str = _option("", "KERNEL", "run this kernel alone, or this instance: 'tile<16>'")
    grid: str | None = _option(None, "N", _NUMBERS)
    block: str | None = _option(None, "N", _NUMBERS)
    cluster: str | None = _option(None, "N", _NUMBERS)
    shared: str | None = _option(None, "BYTES", "dynamic shared memory of a block")
    arg: Mapping[str, str] = _option(None, "NAME=VALUE", "an argument of the kernel")
    set: Mapping[str, str] = _option(None, "NAME=NUMBER", "a variable of the host code")
    define: Mapping[str, str] = _option(None, "NAME[=VALUE]", "a macro")
    arch: str = _option("", "ARCH", "such as sm_90a (default: sm_80, or as the file needs it)")
    expect: str = _option("", "FILE.py:FUNCTION", "gets arrays by name, gives what is right")
    blocks: str = _option("", "N|all", "of a launch that run (default: all, or a sample of many)")
    launches: int = _option(16, "N", "that are run at most (default: 16)")
    seconds: float = _option(60.0, "SECONDS", "of the processor, for a launch (default: 60)")
    seed: int = _option(0, "SEED", "of the random operands")


@dataclass(frozen=True)
class Argument:
    """One argument: what the emulator is given, in words, and where that is from."""

    formal: Formal
    value: Any
    words: str
    source: str
    kind: str = ""  # C type of an array's elements
    unset: bool = False  # an array that nobody has set

    @property
    def plain(self) -> Any:
        """The value as functions of the user's get it: bfloat16 as float32, of maps the array."""
        value = self.value.array if isinstance(self.value, TensorMap) else self.value
        if not isinstance(value, np.ndarray):
            return value
        bf16 = C_TYPES.get(self.kind, ("",))[0] == "bfloat16" and value.dtype == np.uint16
        return from_bfloat16(value) if bf16 else value.copy()

    @property
    def drawn(self) -> bool:
        """Whether it is an array of random whole numbers."""
        whole = isinstance(self.value, np.ndarray) and self.value.dtype.kind in "iu"
        bf16 = C_TYPES.get(self.kind, ("",))[0] == "bfloat16"  # their bits
        return whole and not bf16 and self.words.endswith(", random")

    @property
    def output(self) -> bool:
        """Whether a kernel may write it: an array that its parameter does not call const."""
        return isinstance(self.value, np.ndarray) and not re.search(
            r"\bconst\b", self.formal.text.split("*")[0]
        )


@dataclass
class Setting:
    """One launch, all of it known. Its arrays are those of `Memory`, which later ones share."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    cluster: tuple[int, int, int] | None
    line: int
    guessed: bool
    arguments: list[Argument]
    sources: dict[str, str]  # of grid, block, shared and cluster
    cooperative: bool = False


@dataclass
class Memory:
    """Gives arrays their contents, at random where nothing else is said."""

    rng: np.random.Generator
    bytes: int = 0

    def of(self, array: Array, kind: str, fill: Any) -> Numbers:
        """The contents of an array, made when they are first wanted, as elements of a C type.

        fill: as of `Array`. Raises ConfigError for a size that is not known, or too large.
        """
        if isinstance(fill, np.ndarray):
            return fill
        element = C_TYPES.get(kind, ("float32",))
        bf16 = element[0] == "bfloat16"
        dtype = np.dtype("float32" if bf16 else element[0])
        kept = np.dtype("uint16") if bf16 else dtype
        if array.contents is None:
            if not isinstance(array.bytes, int):
                raise ConfigError(f"the size of {array.name} is not known: {_why(array.bytes)}")
            if array.bytes <= 0:
                raise ConfigError(f"{array.name} has {array.bytes} bytes: give it some")
            count = -(-array.bytes // kept.itemsize)
            self.bytes += count * dtype.itemsize
            if self.bytes > MOST_BYTES:
                raise ConfigError(
                    f"the arrays of this program have more than {MOST_BYTES >> 30} GiB: give it "
                    "a smaller size, by --set NAME=NUMBER for a variable of the host code, or --arg"
                )
            if fill == "random" and dtype.kind == "f":
                made = self.rng.standard_normal(count, np.float32).astype(dtype)
            elif fill == "random":
                made = self.rng.integers(0, 2 if dtype.kind == "b" else 10, count).astype(dtype)
            elif fill == "empty":  # so that what nobody writes is seen
                made = np.full(count, np.nan if dtype.kind == "f" else 85).astype(dtype)
            else:
                made = (np.arange(count) if fill == "arange" else np.zeros(count)).astype(dtype)
                made += fill == "ones"
            array.contents = to_bfloat16(made) if bf16 else made
            if isinstance(fill, int):
                array.contents.view(np.uint8)[:] = fill
        return array.contents.view(kept)  # type: ignore[no-any-return]


def fill(event: Filled) -> None:
    """Do what the host does to an array between launches, if the array has contents."""
    to, source = event.array.contents, getattr(event.source, "contents", None)
    if to is not None and source is not None:
        raw = source.view(np.uint8)[: to.nbytes]
        to.view(np.uint8)[: raw.size] = raw
    elif to is not None and isinstance(event.source, int):
        to.view(np.uint8)[:] = event.source


def assign(
    program: Program, memory: Memory, event: Assigned, variables: dict[str, Numbers]
) -> None:
    """Do what cudaMemcpyToSymbol does to the variables that launches find."""
    made = _Values(program, memory, {}, program.globals.inner()).assigned(event)
    start = event.offset if isinstance(event.offset, int) else 0
    size = event.bytes if isinstance(event.bytes, int) else made.nbytes
    raw = made.view(np.uint8)[:size]
    before = variables.get(event.name, np.zeros(0, made.dtype))
    whole = np.zeros(max(before.nbytes, start + raw.size), np.uint8)
    whole[: before.nbytes] = before.view(np.uint8)
    whole[start : start + raw.size] = raw
    variables[event.name] = whole.view(made.dtype if whole.size % made.itemsize == 0 else "u1")


def _why(value: Any) -> str:
    return value.why if isinstance(value, Unknown) else f"it is {value!r}"


def _unknown(value: Any) -> str:
    why = _why(value)
    return f"because {why}" if why.startswith("it ") else f"for {why}"


def directives(text: str) -> list[tuple[str, dict[str, str], int]]:
    """Kernel ("" for all), values by name, and line of each `//!` line that begins NAME=VALUE.

    Raises ConfigError for a word in one that is something else.
    """
    out = []
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r"\s*//!\s*(?:(\w+)\s*:(?!:)\s+)?(\w+=.*)", line)
        if not match:
            continue
        try:
            words = [word.partition("=") for word in shlex.split(match[2])]
        except ValueError as error:
            raise ConfigError(f"line {number}: //! {match[2]}: {error}. {TELL}") from None
        for name, sign, _ in words:
            if not sign or not re.fullmatch(r"\w+", name):
                raise ConfigError(f"line {number}: //! {name!r} is no NAME=VALUE. {TELL}")
        out.append((match[1] or "", {name: value for name, _, value in words}, number))
    return out


def _described(options: Options, text: str, kernel: str) -> dict[str, tuple[str, str]]:
    """Text and source by name: options first, then `//!` lines that name this kernel or none."""
    words = {
        key: (value, f"//! in line {line}")
        for name, values, line in directives(text) if name in ("", kernel)
        for key, value in values.items()
    }  # fmt: skip
    given = {name: getattr(options, name) for name in _LAUNCH}
    words |= {name: (value, f"--{name}") for name, value in given.items() if value is not None}
    return words | {name: (value, "--arg") for name, value in options.arg.items()}


@dataclass
class _Values:
    """Makes values for a launch: of texts, which name constants and arguments, and of host code."""

    program: Program
    memory: Memory
    words: Mapping[str, tuple[str, str]]  # text and source of what is described, by name
    scope: Scope

    def number(self, text: str, what: str) -> int | float:
        """The value of a C expression. Raises ConfigError."""
        reader = self.program.reader(text)
        try:
            value, rest = self.program.value(reader.expression(), self.scope), reader.peek()
        except (NotReadError, AttributeError, TypeError):
            value, rest = Unknown("it is not understood"), ""
        if rest or not isinstance(value, int | float):
            why = f"{rest!r} is left over" if rest else _why(value)
            raise ConfigError(f"{what}={text}: {why}. {TELL}")
        return value

    def numbers(self, text: str, what: str) -> tuple[int, ...]:
        """Numbers between commas or the letter x."""
        parts = re.split(r",|(?<=[\d)])(?<!\b0)\s*x\s*(?=[\w(])|(?<=\w) x (?=\w)", text)
        return tuple(int(self.number(part, what)) for part in parts)

    def described(self, formal: Formal, text: str) -> Any:
        """A value of a text: what the host code would pass."""
        name, kind, fill = formal.name, formal.type, "random"
        if text.startswith("map:"):
            return self.map(text, name)
        if not formal.pointers:
            return self.number(text, name)
        *how, last = text.split(":")
        for part in how:
            if part in _FILLS:
                fill = part
            elif part in C_TYPES:
                kind = part
            else:
                raise ConfigError(f"{name}={text}: {part!r} is no way to fill an array. {TELL}")
        if last.endswith(".npy"):
            try:
                return Pointer(Array(last, 0, kind, True, np.ascontiguousarray(np.load(last))))
            except (OSError, ValueError) as error:
                raise ConfigError(f"{name}={text}: {error}") from None
        shape = self.numbers(last, name)
        if any(n < 1 for n in shape):
            raise ConfigError(f"{name}={text}: an array of {shape} has no element")
        size = math.prod(shape) * SIZES.get(kind, 4)
        return Pointer(Array(name, size, kind, True, _FILLS[fill], shape), 0, kind)

    def map(self, text: str, name: str) -> Map:
        """A tensor map of its description."""
        array, *rest = text.removeprefix("map:").split(",")
        given = dict(part.partition("=")[::2] for part in rest)
        known = "box" in given and set(given) <= {"box", "swizzle", "shape"}
        if array not in self.words or not known:
            raise ConfigError(
                f"{name}={text}: a map is map:ARRAY,box=ROWSxCOLUMNS[,swizzle=128][,shape=...], "
                f"and ARRAY is given beside it with its type: {array}=__nv_bfloat16:128x128. {TELL}"
            )
        inner = Formal(array, "float", 1, f"float* {array}")
        pointer = self.described(inner, self.words[array][0])
        box = self.numbers(given["box"], name)[::-1]
        swizzle = int(self.number(given.get("swizzle", "0"), name))
        whole = self.memory.of(pointer.array, pointer.kind, pointer.array.fill)
        whole = whole.reshape(pointer.array.shape or whole.shape)
        shape = self.numbers(given["shape"], name) if "shape" in given else whole.shape
        strides = whole.strides[-2::-1]
        return Map(pointer, pointer.kind, shape[::-1], strides, box, swizzle)

    def argument(self, formal: Formal, value: Any, fill: Any, source: str) -> Argument:
        """An argument of a value of the host code. Raises ConfigError where it is not known.

        fill: of an array, when it is passed.
        """
        name, value = formal.name, plain(value)
        if isinstance(value, Pointer) and isinstance(value.array.fill, Map):
            value = value.array.fill
        if isinstance(value, Map):
            made, words = self.tensor_map(value)
            unset = fill == "empty"
            words += ", never set" * unset
            return Argument(formal, made, words, source, value.kind, unset)
        if isinstance(value, Pointer) or (isinstance(value, list) and formal.pointers):
            self._reached(name, value)
        if isinstance(value, Pointer):
            array, known = value.array, formal.type in C_TYPES
            kind = array.kind if array.shape else formal.type if known else value.kind or array.kind
            inside = None if known else self.program.layout(formal.type, self.scope)
            nested = any(m.stars for m in inside[0]) if inside else array.kind.endswith("*")
            if nested or _POINTERS.search(formal.text):
                raise ConfigError(
                    f"{formal.text!r} has elements that hold pointers, which are not followed in "
                    "memory: pass each array to the kernel as an argument"
                )
            whole = self.memory.of(array, kind, fill)
            if not isinstance(value.offset, int):
                raise ConfigError(f"{name} is not known: {_why(value.offset)}")
            at = value.offset // whole.itemsize
            whole = whole[at:].reshape(array.shape or whole[at:].shape)
            how = f"bytes {fill}" if isinstance(fill, int) else f"{fill}"
            how = {"empty": "never set", "bytes 0": "zeros"}.get(how, how)
            words = f"{_shape(whole)}, {how}" + (f", from element {at} on" if at else "")
            if isinstance(fill, np.ndarray):
                words = f"{_shape(whole)} of {array.name}"
            return Argument(formal, whole, words, source, kind, how == "never set")
        if isinstance(value, Record | list):
            words = f"a {formal.type} of the host's"
            return Argument(formal, self.structure(formal.type, value, name), words, source)
        if value is None or isinstance(value, int | float):
            value = int(value) if isinstance(value, float) and WHOLE.match(formal.type) else value
            words = f"{value:g}" if isinstance(value, float) else str(int(value or 0))
            return Argument(formal, value, "null" if value is None else words, source)
        what = type(value).__name__.lower()
        raise ConfigError(f"{name} is {what}, which is not understood")

    def _reached(self, name: str, value: Any) -> None:
        """Raises ConfigError for memory of the host, an array of the stack among it."""
        array = value.array if isinstance(value, Pointer) else Array("an array", 0, device=False)
        if not (array.device or array.pinned):
            raise ConfigError(
                f"{name} is passed memory of the host ({array.name}), which a kernel cannot "
                "reach: allocate it by cudaMalloc and copy, or by cudaMallocManaged"
            )

    def structure(self, kind: str, value: Any, name: str) -> tuple[Any, ...]:
        """A structure by value as the emulator takes it: its members, and what lies between."""
        made, at = list[Any](), 0
        for place, piece in self._pieces(kind, 0, value, 0, name):
            made += [np.uint8(0)] * (place - at) + [piece]
            at = place + (8 if isinstance(piece, np.ndarray) else piece.nbytes)
        size = self.program.size_of(kind, self.scope)
        return (*made, *[np.uint8(0)] * (size - at if isinstance(size, int) else 0))

    def _pieces(
        self, kind: str, stars: int, value: Any, at: int, name: str
    ) -> Iterator[tuple[int, Any]]:
        """First byte and contents of each number or array in a value of a C type."""
        value, size = plain(value), SIZES.get(kind, 4)
        layout = None if stars or kind in C_TYPES else self.program.layout(kind, self.scope)
        if stars and isinstance(value, Pointer | list):
            self._reached(name, value)
        if stars and isinstance(value, Pointer):
            yield at, self.memory.of(value.array, value.kind or value.array.kind, value.array.fill)
        elif value is None or (isinstance(value, int | float) and (stars or kind in C_TYPES)):
            made = np.array(value or 0).astype("u8" if stars else C_TYPES[kind][0])
            yield at, made[()]
        elif isinstance(value, list) and kind[-1] in "1234" and size % len(value) == 0:
            each = kind.rstrip("1234")  # float4
            for i, part in enumerate(value):
                yield from self._pieces(each, 0, part, at + i * (size // len(value)), name)
        elif isinstance(value, Record | list) and layout and isinstance(layout[1], int):
            for i, m in enumerate(layout[0]):
                inner = value[m.name] if isinstance(value, Record) else (*value, *[0] * 99)[i]
                parts = plain(inner) if m.many else [inner]
                for j, part in enumerate(parts if isinstance(parts, list) else [inner]):
                    place = at + m.at + j * m.size
                    yield from self._pieces(m.kind, m.stars, part, place, f"{name}.{m.name}")
        else:
            value = layout[1] if layout and isinstance(layout[1], Unknown) else value
            raise ConfigError(
                f"{name} is not known: {_why(value)}. --set NAME=NUMBER gives a variable of the "
                "host code, or a member, its value"
            )

    def assigned(self, event: Assigned) -> Numbers:
        """What the host puts into a __device__ or __constant__ variable."""
        value, kind = plain(event.value), self.program.base(event.kind, self.scope)
        if kind.endswith("*"):
            raise ConfigError(
                f"{event.name} is a pointer in the device's memory, which is not followed: pass "
                "the array to the kernel as an argument"
            )
        cells = value if isinstance(value, list) and kind in SIZES else [value]
        size = self.program.size_of(kind, self.scope)
        known = isinstance(size, int)
        if not known or any(isinstance(plain(c), Unknown | Pointer) for c in cells):
            array = value.array if isinstance(value, Pointer) else None
            if array is None or not isinstance(array.bytes, int):
                array = Array(event.name, event.bytes, kind, False, "random")
            return self.memory.of(array, kind if kind in C_TYPES else "uint8_t", array.fill)
        raw = b"".join(
            piece.tobytes() for c in cells for piece in self.structure(kind, c, event.name)
        )
        return np.frombuffer(raw, C_TYPES[kind][0] if kind in C_TYPES else "u1").copy()

    def tensor_map(self, given: Map) -> tuple[TensorMap, str]:
        """A tensor map as the emulator takes it, of a view, slowest axis first; and in words."""
        assert given.pointer is not None
        array = given.pointer.array
        whole = self.memory.of(array, given.kind, array.fill)
        start, shape = int(given.pointer.offset), given.sizes[::-1]
        strides = (*given.strides[::-1], whole.itemsize)
        end = start + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + whole.itemsize
        if end > whole.nbytes or start < 0:
            raise ConfigError(
                f"the tensor map of {array.name} reaches to byte {end}, and the array has "
                f"{whole.nbytes}: give cuTensorMapEncodeTiled sizes and strides that fit it"
            )
        view = np.ndarray(shape, whole.dtype, whole, start, strides)
        sizes, box = ("x".join(map(str, n[::-1])) for n in (given.sizes, given.box))
        words = f"tensor map of {array.name}: {sizes}, boxes of {box}, swizzle {given.swizzle}"
        return TensorMap(view, given.box[::-1], given.swizzle, fill=given.fill), words


def _shape(array: Numbers) -> str:
    return f"{'x'.join(map(str, array.shape))} {array.dtype}"


def _guessed_shape(
    block: Sequence[int] | None, text: str, whole: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """Grid and block for whole numbers of a guess, by the axes that the kernel's text asks for."""
    flat = "threadIdx.y" not in text and "blockIdx.y" not in text
    bound = re.search(r"__launch_bounds__\s*\(\s*(\d+)", text)
    if block is None:
        block = (int(bound[1]) if bound else 256, 1, 1) if flat else (16, 16, 1)
    if flat:
        return (-(-math.prod(whole[:2]) // block[0]), 1, 1), block
    rows, columns = (*whole, 1, 1)[:2]
    return (-(-columns // block[0]), -(-rows // block[1]), 1), block


def settle(program: Program, launched: Launched, options: Options, memory: Memory) -> Setting:
    """Everything that one launch needs.

    Raises ConfigError, with what to type, for what nothing says.
    """
    entry = launched.entry
    where = f"the launch in line {launched.line}"
    kernel, formals = program.formals(entry)
    words = _described(options, program.source, kernel.name)
    names = [f.name for f in formals]
    for name, text in options.arg.items():
        maps = any(f":{name}," in t for t, _ in words.values())
        if name not in (*names, *_LAUNCH) and not maps:
            raise ConfigError(
                f"--arg {name}={text}: {kernel.name} has no parameter {name}. "
                f"{near_matches(name, names)} A variable of the host code is set by --set"
            )
    needed = sum("=" not in f.text for f in formals)
    if launched.line and not needed <= len(launched.args) <= len(formals):
        raise ConfigError(
            f"line {launched.line} launches {entry} with {len(launched.args)} argument(s), and it "
            f"takes {len(formals)}: {', '.join(f.text for f in formals)}"
        )
    values = _Values(program, memory, words, program.globals.inner())
    missing = len(formals) - len(launched.args)
    passed = [*zip(launched.args, launched.fills, strict=True), *[(Unknown(""), None)] * missing]
    guess = guesses(formals) if any(isinstance(value, Unknown) for value, _ in passed) else {}
    made: dict[int, Argument] = {}
    for i in sorted(range(len(formals)), key=lambda i: bool(formals[i].pointers)):  # numbers first
        formal, (value, fill), source = formals[i], passed[i], where
        if formal.name in words:
            text, source = words[formal.name]
            value, fill = values.described(formal, text), None
        elif isinstance(value, Unknown) or not _sized(value):
            if formal.name not in guess:
                raise ConfigError(_ask(entry, formal, value))
            value, fill, source = guess[formal.name], None, "a guess"
        if isinstance(value, Pointer) and fill is None:
            fill = value.array.fill
        made[i] = values.argument(formal, value, fill, source)
        if not formal.pointers and isinstance(made[i].value, int | float):
            values.scope[formal.name] = Cell(made[i].value)
    arguments = [made[i] for i in range(len(formals))]
    guessed = any(a.source == "a guess" for a in arguments)
    shape: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for what in _LAUNCH:
        value = getattr(launched, what)
        if what in words:
            shape[what], sources[what] = values.numbers(words[what][0], what), words[what][1]
        elif not isinstance(value, Unknown):
            shape[what], sources[what] = value, where
        elif what == "shared" or (launched.args and not guessed):
            of = "dynamic shared memory" if what == "shared" else what
            raise ConfigError(
                f"the {of} of {entry} in line {launched.line} is not known, {_unknown(value)}. "
                f"Give --{what}. {TELL}"
            )
    if not {"grid", "block"} <= set(shape):
        numbers = [a.value for a in arguments if not a.formal.pointers and isinstance(a.value, int)]
        if not numbers and "grid" not in shape:
            raise ConfigError(f"{entry} is launched nowhere: give --grid and --block. {TELL}")
        block = triple(shape["block"]) if "block" in shape else None
        pair = _guessed_shape(block, kernel.head + kernel.body, numbers)
        for what, value in zip(("grid", "block"), pair, strict=True):
            if what not in shape:
                shape[what], sources[what] = value, "a guess"
        guessed = True
    return Setting(
        entry, triple(shape["grid"]), triple(shape["block"]), triple(shape["shared"])[0],
        triple(shape["cluster"]) if shape["cluster"] else None, launched.line, guessed,
        arguments, sources, launched.cooperative,
    )  # fmt: skip


def _sized(value: Any) -> bool:
    """Whether the size of what a pointer names is known; of anything else it is."""
    array = value.array if isinstance(value, Pointer) else None
    return array is None or isinstance(array.fill, Map) or isinstance(array.bytes, int)


def _ask(entry: str, formal: Formal, value: Any) -> str:
    """What to type for an argument that nothing says."""
    value = value.array.bytes if isinstance(value, Pointer) else value
    why = f", {_unknown(value)}" if isinstance(value, Unknown) and value.why else ""
    if why and not formal.pointers and formal.type not in SIZES:  # a function's address, say
        return (
            f"{formal.text!r} of {entry} is not known{why}, and no option gives a value of its "
            "type: --kernel runs another kernel alone"
        )
    return (
        f"{formal.text!r} of {entry} is not known{why}. Give --arg "
        f"{formal.name}={1000 if formal.pointers else 64}"
        f"{', or --set for the variable that it is made of' if why else ''}. {TELL}"
    )
