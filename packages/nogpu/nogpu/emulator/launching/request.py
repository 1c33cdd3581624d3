"""What a launch asks for, checked before anything is compiled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nogpu.device import limits
from nogpu.emulator.observe import oracle
from nogpu.errors import ConfigError, EmulationError

Triple = tuple[int, int, int]
Array = np.ndarray[Any, np.dtype[Any]]

SCHEDULES = ("ascending", "permuted")
_CALL = "emulator.launch(source, entry, grid, block, [a, b, n], ...)"
_MACRO_NAME = re.compile(r"[A-Za-z_]\w*(\([\w\s,.]*\))?")


def _said(value: Any) -> str:
    text = repr(value)
    kind = type(value).__name__
    return f"{text} (of type {kind})" if len(text) < 60 else f"a value of type {kind}"


def whole(what: str, value: Any, least: int) -> int:
    """A whole number; numbers of NumPy, but no bools. Raises ConfigError for anything else."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise ConfigError(f"{what} is {_said(value)}; give a whole number, {least} or more")
    if value < least:
        raise ConfigError(f"{what}={value}: give {least} or more")
    return int(value)


def words(source: Any, entry: Any, name: Any, arch: Any) -> None:
    """The texts of a launch. Raises ConfigError for other types, UnknownNameError for `arch`."""
    for what, value, wanted in (
        ("source", source, "the text of a CUDA C++ file: Path(...).read_text()"),
        ("entry", entry, "the kernel's name"),
        ("name", name, "the name that findings show for the file"),
        ("arch", arch, "an architecture such as 'sm_75'"),
    ):
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(f"{what} is {_said(value)}; give {wanted}")
    if re.fullmatch(r"[^\n;{}]+\.(cu|cuh|ptx)", source.strip()):
        raise ConfigError(f"{source=} is the name of a file; give its text: Path(...).read_text()")
    limits(arch)


def macros(defines: Any) -> dict[str, str]:
    """-D macros as texts. Raises ConfigError for what is no macro."""
    if defines is None:
        return {}
    if not isinstance(defines, Mapping):
        raise ConfigError(
            f"defines is {_said(defines)}; give a dictionary such as {{'TILE': 16}}. The kernel's own "
            f"arguments go into one list: {_CALL}"
        )
    chosen = {}
    for key, value in defines.items():
        if not isinstance(key, str) or not _MACRO_NAME.fullmatch(key):
            raise ConfigError(
                f"defines: {_said(key)} is no name of a macro; give one such as 'TILE'"
            )
        if not isinstance(value, str | int | float | np.number | np.bool_):
            raise ConfigError(
                f"defines[{key!r}] is {_said(value)}; give a text or a number ('' for a macro without "
                "a value)"
            )
        chosen[key] = str(int(value)) if isinstance(value, bool | np.bool_) else str(value)
    return chosen


def arguments(args: Any) -> list[Any]:
    """The kernel's arguments as a list. Raises EmulationError where there is no list of them."""
    if isinstance(args, np.ndarray):
        given = f"one array of shape {args.shape}"
    elif isinstance(args, Mapping | str | bytes) or not isinstance(args, Iterable):
        given = _said(args)
    else:
        return list(args)
    raise EmulationError(
        f"args is {given}; give all arguments of the kernel in one list, in their order: {_CALL}"
    )


def options(
    uninitialised: Any,
    symbols: Any,
    expect: Any,
    schedule: Any,
    seed: Any,
    lanes: Any,
    max_steps: Any,
    max_seconds: Any,
) -> None:
    """The options of a launch. Raises ConfigError."""
    names = [uninitialised] if isinstance(uninitialised, str) else uninitialised
    if not isinstance(names, Sequence | set | frozenset) or not all(
        isinstance(n, str) for n in names
    ):
        raise ConfigError(
            f"uninitialised is {_said(uninitialised)}; give the names of array parameters: ('C',)"
        )
    for what, value in (("symbols", symbols), ("expect", expect)):
        if value is not None and not isinstance(value, Mapping):
            raise ConfigError(
                f"{what} is {_said(value)}; give a dictionary of arrays by name: {{'C': array}}"
            )
    for name, value in (symbols or {}).items():
        kind = np.asarray(value).dtype
        if kind.kind not in "biufcV" or not kind.isnative:
            raise ConfigError(f"symbols[{name!r}] is {_said(value)}; give an array of numbers")
    for name, value in (expect or {}).items():
        if not all(p.dtype.kind in "biufcV" for p in oracle.parts(value) if p is not None):
            raise ConfigError(
                f"expect[{name!r}] is {_said(value)}; give an array of numbers, or a pair of it and a "
                "bound"
            )
    if schedule not in SCHEDULES:
        raise ConfigError(f"{schedule=}: choose one of {', '.join(SCHEDULES)}")
    whole("seed", seed, 0)
    whole("lanes", lanes, 1)
    whole("max_steps", max_steps, 1)
    if isinstance(max_seconds, bool) or not isinstance(max_seconds, int | float | np.number):
        raise ConfigError(f"max_seconds is {_said(max_seconds)}; give a number of seconds")
    if not max_seconds > 0:
        raise ConfigError(f"{max_seconds=}: give more than 0 seconds")


def switch(what: str, value: Any) -> None:
    """True or False. Raises ConfigError for anything else."""
    if not isinstance(value, bool):
        raise ConfigError(f"{what} is {_said(value)}; give True or False")


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


def sample(grid: Triple, wanted: Any) -> list[Triple] | None:
    """The blocks that are to run; None: all. Raises ConfigError."""
    if wanted is None:
        return None
    gx, gy, gz = grid
    total = gx * gy * gz
    if isinstance(wanted, int | np.integer):
        if whole("sample_blocks", wanted, 1) >= total:
            return None
        # Corners first: ragged edges are where bounds matter.
        numbers = np.unique(np.linspace(0, total - 1, int(wanted)).astype(np.int64))
        return [(int(n % gx), int(n // gx % gy), int(n // (gx * gy))) for n in numbers]
    if isinstance(wanted, str) or not isinstance(wanted, Iterable) or not (chosen := list(wanted)):
        raise ConfigError(
            f"sample_blocks is {_said(wanted)}; give how many, or a list of blocks: [(0, 0, 0)]"
        )
    out = []
    for b in chosen:
        one = list(b) if isinstance(b, Sequence | np.ndarray) and not isinstance(b, str) else [b]
        if not 1 <= len(one) <= 3 or not all(isinstance(i, int | np.integer) for i in one):
            raise ConfigError(f"sample_blocks: {_said(b)} is no block; give one to three numbers")
        x, y, z = (*map(int, one), 0, 0)[:3]
        if not all(0 <= i < n for i, n in zip((x, y, z), grid, strict=True)):
            raise ConfigError(f"sample_blocks: block {(x, y, z)} is outside the grid {grid}")
        out.append((x, y, z))
    return out
