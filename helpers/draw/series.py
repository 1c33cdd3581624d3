"""What the charts draw: one Point for each bar or marker, from a Measurement, a table or dicts."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from helpers.colours import BLUE, GREEN, VERMILION
from helpers.record.measurement import Measurement, provenance_of
from helpers.record.selection import Rows
from nogpu import device
from nogpu.errors import DataError

MEASURED, RECORDED, PUBLISHED = "measured", "recorded", "published"


@dataclass(frozen=True)
class Look:
    """How points of one origin are drawn: colour, marker and hatch all differ."""

    colour: str
    marker: str
    hatch: str | None


LOOKS: Mapping[str, Look] = {
    MEASURED: Look(VERMILION, "o", None),
    RECORDED: Look(BLUE, "s", None),
    PUBLISHED: Look(GREEN, "^", "////"),
}

EXTRA_HATCH = ("\\\\\\\\", "xxxx", "----")  # dots would take a thousand curves each


@dataclass(frozen=True)
class Point:
    """One kernel at one size from one source; values holds the numbers by column name.

    gpu: the key in device.GPUS of the GPU that it was measured on, where that is known.
    """

    kernel: str
    m: int
    n: int
    k: int
    origin: str
    legend: str
    values: Mapping[str, float] = field(default_factory=dict)
    baseline: str = ""
    gpu: str = ""

    @property
    def size(self) -> tuple[int, int, int]:
        """(M, N, K)."""
        return self.m, self.n, self.k

    def get(self, column: str) -> float:
        """A number, or NaN where there is none."""
        return self.values.get(column, math.nan)


Size = int | tuple[int, int, int]


def _is_measurement(data: Any) -> bool:
    return hasattr(data, "live") and hasattr(data, "rows")


def legend_of(measurement: Any) -> str:
    """ "measured here, Tesla T4" or "recorded on NVIDIA H200, 2026-11-20"."""
    parts = [part.strip() for part in str(measurement.label).split(",")]
    if measurement.live:
        gpu = getattr(measurement, "gpu", "") or re.sub(
            r"^measured (here |now )?(on )?", "", parts[0]
        )
        return f"measured here, {gpu}"
    return ", ".join(parts[:2])


def _shape(row: Mapping[str, Any]) -> tuple[int, int, int]:
    size = row.get("size")
    if isinstance(size, Sequence) and not isinstance(size, str):
        m, n, k = size
    elif size is not None:
        m = n = k = size
    else:
        try:
            m, n, k = row["m"], row["n"], row["k"]
        except KeyError:
            raise DataError(
                f"a row to plot has no size: {dict(row)}. Give `size`, or `m`, `n` and `k`"
            ) from None
    return int(m), int(n), int(k)


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    numbers = {}
    for name, value in row.items():
        if isinstance(value, (bool, str)):
            continue
        try:
            numbers[str(name)] = float(value)
        except (TypeError, ValueError):
            continue
    return numbers


def _key(name: str) -> str:
    """The key in device.GPUS of a GPU by the name that its driver gives; "" where it has none."""
    gpu = device.named(name)
    return gpu.key if gpu else ""


def _point(row: Mapping[str, Any], origin: str, legend: str, gpu: str = "") -> Point:
    if "kernel" not in row:
        raise DataError(f"a row to plot has no `kernel`: {dict(row)}")
    origin = str(row.get("origin", origin))
    gpu_name = str(row.get("gpu") or "")
    if gpu_name and not legend and "live" in row:  # a row of Measurement.frame tells it itself
        origin = MEASURED if row["live"] else RECORDED
        legend = f"measured here, {gpu_name}" if row["live"] else f"recorded on {gpu_name}"
        gpu = gpu or _key(gpu_name)
    if origin not in LOOKS:
        raise DataError(f"{origin=} of a row to plot is not one of {', '.join(LOOKS)}")
    source = str(row.get("source") or "")
    if len(source) > 60:  # a whole provenance line: the legend says where and when
        source = ", ".join(part.strip() for part in source.split(",")[:2])
    if source:
        legend = source if origin in source else f"{origin}, {source}"
    elif not legend:
        legend = origin
    values = _numbers(row)
    m, n, k = _shape(row)
    if "ms" in values and "gflops" not in values:
        values["gflops"] = 2 * m * n * k / (values["ms"] * 1e6)
    return Point(
        str(row["kernel"]), m, n, k, origin, legend, values, str(row.get("baseline") or ""), gpu
    )


def points(data: Any) -> list[Point]:
    """Points of a Measurement, a DataFrame, a list of dicts, or a list of any of these.

    A live Measurement brings the recorded points of the same kernels and sizes, which it carries,
    unless a recorded one stands in the list already. Points of one origin and GPU that stand there
    twice, as rows that are replayed beside measured ones may, are drawn once.
    """
    parts = list(_parts(data))
    stored = [part for part in parts if _is_measurement(part) and not part.live]
    recorded = {getattr(part, "key", ""): part for part in stored}  # times of a CPU have no key
    drawn: list[Point] = []
    for part in parts:
        drawn += _points(part)
        beside = getattr(part, "recorded", None)
        if _is_measurement(part) and part.live and beside is not None:
            in_list = recorded.get(beside.key)
            legend = legend_of(in_list or beside)
            wanted = {(r["kernel"], _shape(r)) for r in part.rows if _replayed(r)}
            beside_ = (
                p for p in _points(beside) if in_list is None or (p.kernel, p.size) in wanted
            )
            drawn += [replace(p, legend=legend) for p in beside_]
    once = {(p.kernel, p.size, p.legend, p.gpu, tuple(p.values.items())): p for p in drawn}
    return list(once.values())


def source_of(data: Any) -> str:
    """Where the numbers of the measurements in these data come from, in words; "" for none."""
    return provenance_of(*(part for part in _parts(data) if isinstance(part, Measurement | Rows)))


def _replayed(row: Mapping[str, Any]) -> bool:
    """Whether a row of a live Measurement comes from the record that it carries."""
    return bool(row.get("record"))


def _parts(data: Any) -> Iterator[Any]:
    """What is drawn together, one by one: lists of lists are flattened."""
    single = _is_measurement(data) or isinstance(data, Mapping) or hasattr(data, "to_dict")
    if single or not isinstance(data, Iterable) or isinstance(data, str):
        yield data
        return
    for part in data:
        yield from _parts(part)


def _points(data: Any) -> list[Point]:
    if _is_measurement(data):
        origin = MEASURED if data.live else RECORDED
        legend = legend_of(data)
        key = str(getattr(data, "key", ""))
        rows = (row for row in data.rows if not (data.live and _replayed(row)))
        return [_point(row, origin, legend, key) for row in rows]
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        return [_point(row, RECORDED, "") for row in data.to_dict("records")]
    if isinstance(data, Mapping):
        return [_point(data, RECORDED, "")]
    raise DataError(
        f"cannot plot a {type(data).__name__}: give what measure(...) returns, a DataFrame, or a "
        "list of rows with kernel, size and the value"
    )


def point_name(p: Point, others: Sequence[Point]) -> str:
    """A point's name in a sentence: with its source where several are drawn."""
    return p.kernel if len({q.legend for q in others}) < 2 else f"{p.kernel} ({p.legend})"


def select(
    data: Any, value: str, kernels: Sequence[str] | None = None, sizes: Sequence[Size] | None = None
) -> list[Point]:
    """The points that have a finite `value`, of these kernels and sizes, in the order given.

    Raises DataError, saying what there is, if none is left.
    """
    every = points(data)
    selected = [p for p in every if math.isfinite(p.get(value))]
    if sizes is not None:
        wanted = [(s, s, s) if isinstance(s, int) else tuple(s) for s in sizes]
        selected = [p for p in selected if p.size in wanted]
    if kernels is not None:
        order = {name: i for i, name in enumerate(kernels)}
        selected = sorted((p for p in selected if p.kernel in order), key=lambda p: order[p.kernel])
    if not selected:
        have = sorted({p.kernel for p in every})
        at = sorted({p.size for p in every})
        raise DataError(
            f"nothing to plot: no row has {value!r} for {kernels=} and {sizes=}. "
            f"There are kernels {have} at sizes {[s[0] if len(set(s)) == 1 else s for s in at]}"
        )
    return selected


def chosen_size(points: Sequence[Point], size: Size | None) -> tuple[int, int, int]:
    """The one size of a chart: the one asked for, or the largest.

    Raises DataError if it is not there.
    """
    if size is not None:
        wanted = (size, size, size) if isinstance(size, int) else tuple(size)
        if all(p.size != wanted for p in points):
            have = sorted({p.size for p in points})
            raise DataError(f"no measurement at {size=}; there are {have}")
        return wanted  # type: ignore[return-value]
    return max((p.size for p in points), key=lambda s: s[0] * s[1] * s[2])


def unique(items: Iterable[Any]) -> list[Any]:
    """Items once each, in order of first appearance."""
    return list(dict.fromkeys(items))


def looks(points: Sequence[Point]) -> dict[str, Look]:
    """A look for each legend entry; a second source of one origin gets another hatch."""
    result: dict[str, Look] = {}
    used: dict[str, int] = {}
    for p in points:
        if p.legend in result:
            continue
        seen = used.get(p.origin, 0)
        base = LOOKS[p.origin]
        hatch = base.hatch if seen == 0 else EXTRA_HATCH[(seen - 1) % len(EXTRA_HATCH)]
        result[p.legend] = Look(base.colour, base.marker, hatch)
        used[p.origin] = seen + 1
    return result
