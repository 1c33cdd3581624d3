"""What a launch asks for, checked before anything is compiled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nogpu.device import limits
from nogpu.emulator.observe import oracle
from nogpu.errors import ConfigError, EmulationError

Triple = tuple[int, int, int]
Array = np.ndarray[Any, np.dtype[Any]]

SCHEDULES = ("ascending", "permuted")
_CALL = "emulator.launch(source, entry, grid, block, [a, b, n], ...)"
_MACRO_NAME = re.compile(r"[A-Za-z_]\w*(\([\w\s,.]*\))?")


@dataclass(frozen=True, kw_only=True)
class Request:
    """A launch as it was asked for, each value checked by a function below: see `launch`."""

    source: str
    entry: str
    name: str
    arch: str
    defines: Mapping[str, str]
    grid: Triple
    block: Triple
    args: Sequence[Any]
    shared_bytes: int  # dynamic
    cluster: Triple | None  # None: as the kernel says
    blocks: list[Triple] | None  # None: all
    uninitialised: Sequence[str]
    symbols: Mapping[str, Array]
    variables: dict[str, Array]
    expect: Mapping[str, oracle.Expectation]
    schedule: str
    seed: int
    lanes: int
    max_steps: int
    max_seconds: float
    analyse: bool | Literal["counts"]
    samples: bool
    sass: bool
    engines: bool
    cooperative: bool

    def __post_init__(self) -> None:
        """Check what no value shows alone. Raises ConfigError."""
        check_texts(self.source, self.entry, self.name, self.arch)
        if self.expect and self.blocks is not None:
            raise ConfigError("expect needs the whole grid: leave sample_blocks out")
        if self.cooperative and self.blocks is not None:
            raise ConfigError("cooperative=True runs the whole grid: leave sample_blocks out")
        if self.samples and not self.analyse:
            raise ConfigError("samples=True needs counts: leave analyse=False out")


def _shown(value: Any) -> str:
    text = repr(value)
    kind = type(value).__name__
    return f"{text} (of type {kind})" if len(text) < 60 else f"a value of type {kind}"


def whole(what: str, value: Any, least: int) -> int:
    """A whole number; numbers of NumPy, but no bools. Raises ConfigError for anything else."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise ConfigError(f"{what} is {_shown(value)}; give a whole number, {least} or more")
    if value < least:
        raise ConfigError(f"{what}={value}: give {least} or more")
    return int(value)


def check_texts(source: Any, entry: Any, name: Any, arch: Any) -> None:
    """Raise ConfigError for what is no text, UnknownNameError for an `arch` that is not known."""
    for what, value, remedy in (
        ("source", source, "the text of a CUDA C++ file: Path(...).read_text()"),
        ("entry", entry, "the kernel's name"),
        ("name", name, "the name that findings show for the file"),
        ("arch", arch, "an architecture such as 'sm_75'"),
    ):
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(f"{what} is {_shown(value)}; give {remedy}")
    if re.fullmatch(r"[^\n;{}]+\.(cu|cuh|ptx)", source.strip()):
        raise ConfigError(f"{source=} is the name of a file; give its text: Path(...).read_text()")
    limits(arch)


def macros(defines: Any) -> dict[str, str]:
    """-D macros as texts. Raises ConfigError for what is no macro."""
    if defines is None:
        return {}
    if not isinstance(defines, Mapping):
        raise ConfigError(
            f"defines is {_shown(defines)}; give a dictionary such as {{'TILE': 16}}. The kernel's "
            f"own arguments go into one list: {_CALL}"
        )
    chosen = {}
    for key, value in defines.items():
        if not isinstance(key, str) or not _MACRO_NAME.fullmatch(key):
            raise ConfigError(
                f"defines: {_shown(key)} is no name of a macro; give one such as 'TILE'"
            )
        if not isinstance(value, str | int | float | np.number | np.bool_):
            raise ConfigError(
                f"defines[{key!r}] is {_shown(value)}; give a text or a number ('' for a macro "
                "without a value)"
            )
        chosen[key] = str(int(value)) if isinstance(value, bool | np.bool_) else str(value)
    return chosen


def arguments(args: Any) -> list[Any]:
    """The kernel's arguments as a list. Raises EmulationError where there is no list of them."""
    if isinstance(args, np.ndarray):
        shown = f"one array of shape {args.shape}"
    elif isinstance(args, Mapping | str | bytes) or not isinstance(args, Iterable):
        shown = _shown(args)
    else:
        return list(args)
    raise EmulationError(
        f"args is {shown}; give all arguments of the kernel in one list, in their order: {_CALL}"
    )


def names(what: str, value: Any) -> Sequence[str]:
    """Names of array parameters. Raises ConfigError for anything else."""
    every = [value] if isinstance(value, str) else value
    if isinstance(every, Sequence | set | frozenset) and all(isinstance(n, str) for n in every):
        return list(every)
    raise ConfigError(f"{what} is {_shown(value)}; give the names of array parameters: ('C',)")


def _by_name(what: str, value: Any) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise ConfigError(
            f"{what} is {_shown(value)}; give a dictionary of arrays by name: {{'C': array}}"
        )
    return value or {}


def symbols(value: Any) -> Mapping[str, Array]:
    """Contents of variables of the module, by name. Raises ConfigError for anything else."""
    contents = _by_name("symbols", value)
    for name, array in contents.items():
        kind = np.asarray(array).dtype
        if kind.kind not in "biufcV" or not kind.isnative:
            raise ConfigError(f"symbols[{name!r}] is {_shown(array)}; give an array of numbers")
    return contents


def expectations(value: Any) -> Mapping[str, oracle.Expectation]:
    """What arrays should hold afterwards, by name. Raises ConfigError for anything else."""
    expect = _by_name("expect", value)
    for name, one in expect.items():
        if not all(p.dtype.kind in "biufcV" for p in oracle.parts(one) if p is not None):
            raise ConfigError(
                f"expect[{name!r}] is {_shown(one)}; give an array of numbers, or a pair of it and "
                "a bound"
            )
    return expect


def schedule(value: Any) -> str:
    """One of SCHEDULES. Raises ConfigError for anything else."""
    if value not in SCHEDULES:
        raise ConfigError(f"schedule={value!r}: choose one of {', '.join(SCHEDULES)}")
    return str(value)


def seconds(what: str, value: Any) -> float:
    """More than 0 seconds. Raises ConfigError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ConfigError(f"{what} is {_shown(value)}; give a number of seconds")
    if not value > 0:
        raise ConfigError(f"{what}={value!r}: give more than 0 seconds")
    return float(value)


def switch(what: str, value: Any) -> bool:
    """True or False. Raises ConfigError for anything else."""
    if not isinstance(value, bool):
        raise ConfigError(f"{what} is {_shown(value)}; give True or False")
    return value


def geometry(what: str, value: Any) -> Triple:
    """A grid or a block as three numbers. Raises ConfigError."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    numbers = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if not 1 <= len(numbers) <= 3 or not all(
        isinstance(n, int | np.integer) and not isinstance(n, bool | np.bool_) for n in numbers
    ):
        raise ConfigError(f"{what}={value!r}: give one to three whole numbers")
    if any(n < 1 for n in numbers):
        raise ConfigError(f"{what}={value!r}: each dimension is at least 1")
    x, y, z = (*map(int, numbers), 1, 1)[:3]
    return x, y, z


def sample(grid: Triple, value: Any) -> list[Triple] | None:
    """The blocks that are to run; None: all. Raises ConfigError."""
    if value is None:
        return None
    gx, gy, gz = grid
    total = gx * gy * gz
    if isinstance(value, int | np.integer):
        if whole("sample_blocks", value, 1) >= total:
            return None
        # Corners first: ragged edges are where bounds matter.
        numbers = np.unique(np.linspace(0, total - 1, int(value)).astype(np.int64))
        return [(int(n % gx), int(n // gx % gy), int(n // (gx * gy))) for n in numbers]
    if isinstance(value, str) or not isinstance(value, Iterable) or not (blocks := list(value)):
        raise ConfigError(
            f"sample_blocks is {_shown(value)}; give how many, or a list of blocks: [(0, 0, 0)]"
        )
    out = []
    for b in blocks:
        one = list(b) if isinstance(b, Sequence | np.ndarray) and not isinstance(b, str) else [b]
        if not 1 <= len(one) <= 3 or not all(isinstance(i, int | np.integer) for i in one):
            raise ConfigError(f"sample_blocks: {_shown(b)} is no block; give one to three numbers")
        x, y, z = (*map(int, one), 0, 0)[:3]
        if not all(0 <= i < n for i, n in zip((x, y, z), grid, strict=True)):
            raise ConfigError(f"sample_blocks: block {(x, y, z)} is outside the grid {grid}")
        out.append((x, y, z))
    return out
