"""The numbers and words inside an object, by dotted names, for glue()."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from helpers.ladder.launch import Trace
from helpers.notebook.pieces import python_value
from helpers.record.measurement import Measurement
from nogpu.errors import ConfigError, TileError

Leaf = bool | int | float | str

COLUMNS = (
    *("ms", "gflops", "cublas_ratio", "clock_mhz", "power_w"),
    *("h2d_ms", "d2h_ms", "first_ms", "warm_ms", "total_ms", "gpu"),
)
"""Columns of a Measurement that a text shows."""


def leaves(thing: Any) -> dict[str, Leaf]:
    """Dotted name and value of each number, word and truth value in an object; empty without one.

    Of a Measurement: `<kernel>.<size>.<column>` (size 4096, or 4096x512x64), the columns of
    COLUMNS, and `tflops` = gflops / 1e3 and `percent` = 100 cublas_ratio; `gpu` and `live` of the
    whole. Of a Trace: `multiply_adds`, `wavefronts`, and by `global` or `shared` or an array's
    name, then `load` or `store`: requests, bytes, sectors (global) or wavefronts (shared), and
    these per request. Of a mapping: its keys, those of a tuple with dots between. Of a dataclass:
    its fields and properties. What is not known (None, NaN) has no leaf. Raises ConfigError for a
    key that no name can hold, and for a value of a mapping that has no leaves.
    """
    if isinstance(thing, Measurement):
        return dict(_of_measurement(thing))
    if isinstance(thing, Trace):
        return dict(_of_trace(thing))
    if isinstance(thing, Mapping):
        return dict(_of_mapping(thing))
    if is_dataclass(thing) and not isinstance(thing, type):
        return dict(_of_dataclass(thing))
    return {}


def _is_leaf(value: Any) -> bool:
    known = not isinstance(value, float) or not math.isnan(value)
    return isinstance(value, (bool, int, float, str)) and known


def _of_measurement(m: Measurement) -> Iterator[tuple[str, Leaf]]:
    yield from (("gpu", m.gpu), ("live", m.live))
    for row in m.rows:
        edges = (row["m"], row["n"], row["k"])
        size = str(edges[0]) if len(set(edges)) == 1 else "x".join(map(str, edges))
        made = {"tflops": row["gflops"] / 1e3, "percent": 100 * row["cublas_ratio"]}
        for column, value in (*((c, python_value(row[c])) for c in COLUMNS), *made.items()):
            if _is_leaf(value) and value != "":
                yield f"{row['kernel']}.{size}.{column}", value


def _of_trace(t: Trace) -> Iterator[tuple[str, Leaf]]:
    yield from (("multiply_adds", t.multiply_adds), ("wavefronts", t.wavefronts))
    groups: dict[tuple[str, str], list[Any]] = {}
    for row in t.by_line():
        for where in dict.fromkeys((row.space, row.array)):
            groups.setdefault((where, row.op), []).append(row)
    for (where, op), rows in groups.items():
        if not re.fullmatch(r"\w+", where):
            continue
        cost = "sectors" if rows[0].space == "global" else "wavefronts"
        names = ("requests", cost, "bytes")
        sums = {name: sum(getattr(row, name) for row in rows) for name in names}
        yield from ((f"{where}.{op}.{name}", value) for name, value in sums.items())
        yield f"{where}.{op}.{cost}_per_request", sums[cost] / max(sums["requests"], 1)


def _of_mapping(thing: Mapping[Any, Any]) -> Iterator[tuple[str, Leaf]]:
    for key, value in thing.items():
        name = ".".join(
            str(python_value(part)) for part in (key if isinstance(key, tuple) else (key,))
        )
        if not re.fullmatch(r"\w+(?:\.\w+)*", name, re.ASCII):
            raise ConfigError(
                f"the key {key!r} cannot be part of a glued name: it takes letters, digits, _ and "
                "dots"
            )
        yield from _below(name, value, strict=True)


def _of_dataclass(thing: Any) -> Iterator[tuple[str, Leaf]]:
    properties = [n for n in dir(type(thing)) if isinstance(getattr(type(thing), n), property)]
    for name in (*(field.name for field in fields(thing)), *properties):
        if name.startswith("_"):
            continue
        try:
            value = getattr(thing, name)
            yield from _below(name, value, strict=False)
        except TileError:  # a property that this object does not have, such as an ideal not counted
            continue


def _below(name: str, value: Any, strict: bool) -> Iterator[tuple[str, Leaf]]:
    value = python_value(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return
    if _is_leaf(value):
        yield name, value
        return
    below = leaves(value)
    if strict and not below:
        raise ConfigError(
            f"{name!r} holds a {type(value).__name__}; only numbers and words are glued"
        )
    yield from ((f"{name}.{path}", leaf) for path, leaf in below.items())
