"""What a chapter is given: times of kernels at sizes with their provenance, live or replayed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.ladder.kernel import Kernel
from helpers.ladder.rungs import catalog
from helpers.record import reading, store
from helpers.record.gpu import BASELINES
from helpers.record.protocol import PROTOCOL
from helpers.record.selection import DEFAULT_GPU, listing, name_of, size_of
from helpers.record.store import Size, shape
from helpers.wording import join
from nogpu.errors import ConfigError, DataError, near_matches

if TYPE_CHECKING:
    import pandas

    from helpers.record.entries import Point

COLUMNS = (
    "kernel", "m", "n", "k", "ms", "q1", "q3", "gflops", "cublas_ratio", "baseline", "h2d_ms",
    "d2h_ms", "first_ms", "clock_mhz", "power_w", "ratio_q1", "ratio_q3", "warm_ms", "total_ms",
    "gpu", "live", "record",
)  # fmt: skip
"""Columns of a Measurement: ms, q1 and q3 are the median and quartiles of the kernel's time in ms;
gflops is in GFLOP/s (Gop/s for int32); cublas_ratio is the median of paired ratios, 1 = as fast.
gpu is the name of the GPU that the row was taken on; live says whether that was now, on this
machine; record is the name of the record that it is replayed from ("h200"), "" where it was
measured now. A row of what is neither measured nor recorded has "" for both and NaN for its
numbers."""


@dataclass(frozen=True)
class Measurement:
    """Times of kernels at sizes. rows: one dict a point, in the order asked for, with COLUMNS as
    keys.

    live: whether they were measured now, on this machine's GPU, or some of them: what that GPU
    cannot run is replayed, and each row says which it is (columns gpu, live and record). gpu: the
    name of the GPU, this machine's if live; key: its name in data/measurements or device.GPUS.
    label: the provenance, in words. missing: what was asked for and is neither measured nor in the
    record; those rows hold NaN. recorded: beside a live measurement, what the record of DEFAULT_GPU
    holds of the same kernels and sizes, for charts to draw with it; None where it holds nothing,
    and of a replayed measurement. replayed: of a live measurement, which rows come from the record,
    and why, in words. entries, facts: what `save` writes, the points that were measured now and
    what they say of their GPU.
    """

    live: bool
    gpu: str
    key: str
    label: str
    rows: tuple[dict[str, Any], ...]
    missing: tuple[str, ...] = ()
    recorded: Measurement | None = None
    replayed: tuple[str, ...] = ()
    entries: tuple[Point, ...] = field(default=(), repr=False)
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)

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
        return self._row(kernel, size)[column]  # type: ignore[no-any-return]

    def _row(self, kernel: str | Kernel, size: int | Size) -> Mapping[str, Any]:
        name, wanted = name_of(kernel), size_of(size)
        for row in self.rows:
            if row["kernel"] == name and (row["m"], row["n"], row["k"]) == wanted:
                if not math.isfinite(row["ms"]):
                    raise DataError(
                        f"there is no time of {name} at {shape(wanted)} ({self.label}): "
                        f"{'; '.join(self.missing)}"
                    )
                return row
        raise DataError(
            f"{name} at {shape(wanted)} is not in this measurement. It has:"
            f" {listing(self.rows, [name])}"
        )

    @property
    def gpus(self) -> str:
        """The GPUs that the rows were taken on, for a caption: "Tesla T4 and NVIDIA H200"."""
        return join(
            list(dict.fromkeys(row["gpu"] for row in self.rows if row["gpu"])) or [self.gpu]
        )

    def taken_on(self, kernel: str | Kernel, size: int | Size) -> dict[str, str]:
        """A cell for a table: {"taken on": "NVIDIA H200, recorded"} where rows are of two GPUs,
        else {}."""
        if len({(row["gpu"], row["record"]) for row in self.rows if row["gpu"]}) < 2:
            return {}
        row = self._row(kernel, size)
        return {"taken on": row["gpu"] + ("" if row["live"] else ", recorded")}

    def gain(
        self, new: str | Kernel, old: str | Kernel, size: int | Size, *,
        old_size: int | Size | None = None,
    ) -> float:  # fmt: skip
        """How many times as fast `new` is as `old` at a size, with the GPU's clock cancelled.

        The two were timed one after the other, and a GPU that is warm or short of power runs the
        later one at a lower clock: the quotient of their times holds the quotient of the clocks
        too. So

            gain = cublas_ratio(new) / cublas_ratio(old)

        where both were timed in pairs with the same cuBLAS product: t_cublas / t_kernel of one
        moment does not know the clock, and t_cublas drops out of the quotient. Where there is no
        such pair (int32, two sizes), clocks of the SM take the place of milliseconds:

            gain = ms(old) * clock_mhz(old) / (ms(new) * clock_mhz(new))

        and where no clock was read either, ms(old) / ms(new) is all there is. A kernel that draws
        more power may run at a lower clock for that: it is in its rate, and not in this gain.
        old_size: the size of `old`, if it is another one; the gain is of times, not of rates.
        Raises DataError if one of them was not measured, ConfigError if they were taken on two
        GPUs: that is no gain.
        """
        at, before = size_of(size), size_of(size if old_size is None else old_size)
        mine, other = self._row(new, at), self._row(old, before)
        if (mine["gpu"], mine["record"]) != (other["gpu"], other["record"]):
            raise ConfigError(
                f"{name_of(new)} was timed on {_where(mine)} and {name_of(old)} on"
                f" {_where(other)}: "
                "times of two GPUs make no gain. Take both from one record, as in "
                f'measure([...], gpu="{mine["record"] or other["record"]}").gain(...)'
            )
        if at == before and _paired(new, mine, old, other):
            return float(mine["cublas_ratio"] / other["cublas_ratio"])
        clocks = (other["clock_mhz"], mine["clock_mhz"])
        known = all(math.isfinite(mhz) and mhz > 0 for mhz in clocks)
        factor = clocks[0] / clocks[1] if known else 1.0
        return float(other["ms"] / mine["ms"] * factor)

    def save(self, path: str | Path) -> Path:
        """Write what was measured here into a file, whole or not at all; its path.

        It is the form of data/measurements: `python -m helpers add-record FILE` takes it, and so
        does `helpers.record.store.read`. A file of the same GPU that is there already is added to,
        a newer time of the same kernel, tile and size taking the place of the older. Replayed rows
        are left out: they are in a record. Raises ConfigError if nothing was measured here, or if
        the file holds another GPU's times; DataError if it is damaged.
        """
        entries = [e for e in self.entries if e.kernel in catalog or e.kernel in BASELINES]
        if not entries:
            own = " but text of your own, which no record holds" if self.entries else ""
            raise ConfigError(
                f"nothing of the book's kernels was measured here{own} ({self.label}): save()"
                " writes times of this machine's GPU. Every row, whatever it is, goes into a table"
                ' with m.frame.to_csv("m.csv")'
            )
        path = Path(path)
        if path.resolve().parent == store.FOLDER.resolve():
            raise ConfigError(
                f"{path} lies among the records, which take only what is checked: save under"
                f" another name, then run: python -m helpers add-record {path.name}"
            )
        record = store.read(path) if path.exists() else store.empty(path, self.facts, PROTOCOL)
        if record.gpu["name"] != self.gpu:
            raise ConfigError(
                f"{path} holds times of a {record.gpu['name']}, and these are of a {self.gpu}: give"
                " another file"
            )
        for entry in entries:
            record.merge(entry)
        record.write()
        return path

    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels, in the order asked for."""
        return tuple(dict.fromkeys(row["kernel"] for row in self.rows))

    def counters(
        self, kernels: str | Sequence[str] | None = None, size: int | Size | None = None
    ) -> list[dict[str, Any]]:
        """Recorded hardware counters of these kernels; see `reading.counters`."""
        return reading.counters(
            kernels or self.kernels(), size, gpu=DEFAULT_GPU if self.live else self.key
        )


def provenance_of(*measurements: Any) -> str:
    """Where the numbers of measurements come from, live or replayed: a sentence for each, "" for
    none.

    A live one says which of its rows are replayed, and why, and brings the sentence of the recorded
    points that charts draw beside it.
    """
    sentences = []
    beside = [m.recorded for m in measurements if getattr(m, "recorded", None) is not None]
    for m in (*measurements, *beside):
        how = "Measured here, now" if m.live else "Replayed from a record, not measured here"
        sentences.append(f"{how}: {str(m.label).strip().rstrip('.')}.")
        missing = tuple(getattr(m, "missing", ()))
        if missing:
            where = "Neither measured here nor in the record" if m.live else "Not in the record"
            sentences.append(f"{where}: {'; '.join(missing)}.")
    return " ".join(dict.fromkeys(sentences))


def _baseline(name: str) -> str:
    return name if name in BASELINES else catalog[name].baseline if name in catalog else "none"


def _number(value: Any) -> Any:
    return math.nan if value is None else value


def row_of(point: Point, gpu: str, record: str = "") -> dict[str, Any]:
    """A row of a point. gpu: the name of its GPU; record: where it is replayed from, "" if not."""
    source = {"gpu": gpu, "live": not record, "record": record}
    return {c: source[c] if c in source else _number(point[c]) for c in COLUMNS}


def gap(name: str, size: Size) -> dict[str, Any]:
    """A row of what was not measured: its name and size, NaN for the rest."""
    known = {"kernel": name, **dict(zip("mnk", size, strict=True)), "baseline": _baseline(name)}
    known |= {"gpu": "", "live": False, "record": ""}
    return {column: known.get(column, math.nan) for column in COLUMNS}


def _where(row: Mapping[str, Any]) -> str:
    return f"{row['gpu']} ({'here, now' if row['live'] else 'recorded'})"


def _output(kernel: str | Kernel) -> str:
    """The type of C that a kernel writes: cuBLAS beside it writes the same."""
    if isinstance(kernel, Kernel):
        return kernel.out_dtype
    return catalog[kernel].out_dtype if kernel in catalog else "float32"


def _paired(
    new: str | Kernel, mine: Mapping[str, Any], old: str | Kernel, other: Mapping[str, Any]
) -> bool:
    """Whether two rows were timed in pairs with the same product of cuBLAS."""
    ratios = (mine["cublas_ratio"], other["cublas_ratio"])
    same = mine["baseline"] == other["baseline"] and _output(new) == _output(old)
    return same and all(math.isfinite(ratio) and ratio > 0 for ratio in ratios)
