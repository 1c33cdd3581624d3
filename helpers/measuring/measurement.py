"""What a chapter is given: times of kernels at sizes with their provenance, live or replayed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from helpers.errors import ConfigError, DataError, UnknownKernelError, near_matches
from helpers.kernel import Kernel, geometry
from helpers.measuring.gpu import BASELINES
from helpers.measuring.store import Size, shape
from helpers.rungs import catalog

if TYPE_CHECKING:
    import pandas

    from helpers.measuring.sections.timing import Point

DEFAULT_GPU = "h200"
"""The record that is replayed when a chapter does not name one."""

Wanted = tuple[str | Kernel, str, dict[str, int]]
"""A kernel or the name of a baseline, its name, and the tile sizes to run it with."""

COLUMNS = (
    "kernel",
    "m",
    "n",
    "k",
    "ms",
    "q1",
    "q3",
    "gflops",
    "cublas_ratio",
    "baseline",
    "h2d_ms",
    "d2h_ms",
    "first_ms",
    "clock_mhz",
    "power_w",
    "ratio_q1",
    "ratio_q3",
    "warm_ms",
    "total_ms",
)
"""Columns of a Measurement: ms, q1 and q3 are the median and quartiles of the kernel's time in ms;
gflops is in GFLOP/s (Gop/s for int32); cublas_ratio is the median of paired ratios, 1 = as fast."""


@dataclass(frozen=True)
class Measurement:
    """Times of kernels at sizes. rows: one dict a point, in the order asked for, with COLUMNS as keys.

    live: whether they were measured now, on this machine's GPU. gpu: its name; key: its name in
    data/measurements or device.GPUS. label: the provenance, in words. missing: what was asked for
    and is not in the record; those rows hold NaN. recorded: beside a live measurement, what the record
    of DEFAULT_GPU holds of the same kernels and sizes, for charts to draw with it; None where it holds
    nothing, and of a replayed measurement.
    """

    live: bool
    gpu: str
    key: str
    label: str
    rows: tuple[dict[str, Any], ...]
    missing: tuple[str, ...] = ()
    recorded: Measurement | None = None

    @cached_property
    def frame(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame, with COLUMNS as its columns."""
        import pandas as pd

        # named, the columns give the table on a page no empty header over the numbers of the rows
        return pd.DataFrame(list(self.rows), columns=pd.Index(COLUMNS, name="row"))

    def value(self, kernel: str | Kernel, size: int | Size, column: str = "ms") -> float:
        """One number; NaN if only this column is lacking (a clock that could not be read, say).

        Raises DataError, listing what is there, if the kernel was not measured at this size.
        """
        if column not in COLUMNS:
            raise ConfigError(f"no column is called {column!r}. {near_matches(column, COLUMNS)}")
        name, wanted = name_of(kernel), size_of(size)
        for row in self.rows:
            if row["kernel"] == name and (row["m"], row["n"], row["k"]) == wanted:
                if not math.isfinite(row["ms"]):
                    raise DataError(
                        f"there is no time of {name} at {shape(wanted)} ({self.label}): "
                        f"{'; '.join(self.missing)}"
                    )
                return row[column]  # type: ignore[no-any-return]
        raise DataError(
            f"{name} at {shape(wanted)} is not in this measurement. It has: {listing(self.rows)}"
        )

    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels, in the order asked for."""
        return tuple(dict.fromkeys(row["kernel"] for row in self.rows))

    def counters(
        self, kernels: str | Sequence[str] | None = None, size: int | Size | None = None
    ) -> list[dict[str, Any]]:
        """Recorded hardware counters of these kernels; see `reading.counters`."""
        from helpers.measuring import reading

        return reading.counters(
            kernels or self.kernels(), size, gpu=DEFAULT_GPU if self.live else self.key
        )


def name_of(kernel: str | Kernel) -> str:
    return kernel.name if isinstance(kernel, Kernel) else kernel


def size_of(size: int | Sequence[int]) -> Size:
    """(M, N, K) of an edge or of three numbers."""
    given = (size,) * 3 if isinstance(size, int) else tuple(size)
    if len(given) != 3 or any(isinstance(n, bool) or int(n) != n or n < 1 for n in given):
        raise ConfigError(f"{size=}: give an edge such as 1024, or M, N, K as (1024, 1024, 768)")
    return (int(given[0]), int(given[1]), int(given[2]))


def listing(rows: Iterable[Any]) -> str:
    """What a record holds: each kernel with its sizes (an edge alone where the shape is a cube)."""
    found: dict[str, list[str]] = {}
    for row in rows:
        m, n, k = row["m"], row["n"], row["k"]
        found.setdefault(row["kernel"], []).append(str(m) if m == n == k else f"{m}x{n}x{k}")
    texts = (f"{name} at {', '.join(dict.fromkeys(at))}" for name, at in found.items())
    return "; ".join(texts) or "nothing yet"


def wanted_of(
    kernels: str | Kernel | Sequence[str | Kernel], params: dict[str, int]
) -> list[Wanted]:
    """Each kernel or baseline asked for, with its name and the tile sizes that it will run with."""
    given = [kernels] if isinstance(kernels, str | Kernel) else list(kernels)
    result: list[Wanted] = []
    for item in given:
        if isinstance(item, str) and item in BASELINES:
            result.append((item, item, {}))
            continue
        if isinstance(item, str) and item not in catalog:
            names = [*catalog, *BASELINES]
            raise UnknownKernelError(f"no kernel is called {item!r}. {near_matches(item, names)}")
        k = item if isinstance(item, Kernel) else catalog[item]
        result.append((k, k.name, dict(geometry(k, 4096, 4096, 4096, **params).params)))
    return result


def _baseline(name: str) -> str:
    return name if name in BASELINES else catalog[name].baseline if name in catalog else "none"


def _number(value: Any) -> Any:
    return math.nan if value is None else value


def row_of(point: Point) -> dict[str, Any]:
    return {column: _number(point[column]) for column in COLUMNS}


def gap(name: str, size: Size) -> dict[str, Any]:
    """A row of what was not measured: its name and size, NaN for the rest."""
    known = {"kernel": name, **dict(zip("mnk", size, strict=True)), "baseline": _baseline(name)}
    return {column: known.get(column, math.nan) for column in COLUMNS}


@dataclass(frozen=True)
class Rows:
    """Rows of a record that are no kernel times, with their provenance in words."""

    gpu: str
    label: str
    rows: tuple[Any, ...]
    live: bool = False
