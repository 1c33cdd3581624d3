"""Times for a chapter: measured now where there is a GPU, replayed from the record where there is none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from helpers import device
from helpers.errors import (
    ConfigError,
    DataError,
    UnknownKernelError,
    UnknownNameError,
    near_matches,
)
from helpers.kernel import Kernel, geometry
from helpers.measuring import point as points
from helpers.measuring import protocol, schema
from helpers.measuring.gpu import BASELINES
from helpers.measuring.ncu import WAITS
from helpers.measuring.schema import Point, Record, Size
from helpers.rungs import catalog, find
from helpers.toolchain import arch_number

if TYPE_CHECKING:
    import pandas

    from helpers.measuring.gpu import Session

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
        """The rows as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(list(self.rows), columns=list(COLUMNS))

    def value(self, kernel: str | Kernel, size: int | Size, column: str = "ms") -> float:
        """One number; NaN if only this column is lacking (a clock that could not be read, say).

        Raises DataError, listing what is there, if the kernel was not measured at this size.
        """
        if column not in COLUMNS:
            raise ConfigError(f"no column is called {column!r}. {near_matches(column, COLUMNS)}")
        name, wanted = _name(kernel), _size(size)
        for row in self.rows:
            if row["kernel"] == name and (row["m"], row["n"], row["k"]) == wanted:
                if not math.isfinite(row["ms"]):
                    raise DataError(
                        f"there is no time of {name} at {_shape(wanted)} ({self.label}): "
                        f"{'; '.join(self.missing)}"
                    )
                return row[column]  # type: ignore[no-any-return]
        raise DataError(
            f"{name} at {_shape(wanted)} is not in this measurement. It has: {_listing(self.rows)}"
        )

    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels, in the order asked for."""
        return tuple(dict.fromkeys(row["kernel"] for row in self.rows))

    def counters(
        self, kernels: str | Sequence[str] | None = None, size: int | Size | None = None
    ) -> list[dict[str, Any]]:
        """Recorded hardware counters of these kernels; see the function `counters`."""
        return counters(kernels or self.kernels(), size, gpu=DEFAULT_GPU if self.live else self.key)


def _name(kernel: str | Kernel) -> str:
    return kernel.name if isinstance(kernel, Kernel) else kernel


def _size(size: int | Sequence[int]) -> Size:
    """(M, N, K) of an edge or of three numbers."""
    given = (size,) * 3 if isinstance(size, int) else tuple(size)
    if len(given) != 3 or any(isinstance(n, bool) or int(n) != n or n < 1 for n in given):
        raise ConfigError(f"{size=}: give an edge such as 1024, or M, N, K as (1024, 1024, 768)")
    return (int(given[0]), int(given[1]), int(given[2]))


def _shape(size: Size) -> str:
    return "x".join(str(n) for n in size)


def _listing(rows: Iterable[Point]) -> str:
    """What a record holds: each kernel with its sizes (an edge alone where the shape is a cube)."""
    found: dict[str, list[str]] = {}
    for row in rows:
        m, n, k = row["m"], row["n"], row["k"]
        found.setdefault(row["kernel"], []).append(str(m) if m == n == k else f"{m}x{n}x{k}")
    texts = (f"{name} at {', '.join(dict.fromkeys(at))}" for name, at in found.items())
    return "; ".join(texts) or "nothing yet"


def _wanted(kernels: str | Kernel | Sequence[str | Kernel], params: dict[str, int]) -> list[Wanted]:
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


def measure(
    kernels: str | Kernel | Sequence[str | Kernel],
    sizes: int | Size | list[int] | list[Size] | list[int | Size],
    *,
    gpu: str | None = None,
    **params: int,
) -> Measurement:
    """Times of one or more kernels at one or more sizes.

    With a GPU on this machine they are measured now; elsewhere, or when gpu names a record such as
    "h200", they are replayed. Where this GPU is too old for one of the kernels, all of them are
    replayed, so that figures set side by side come from one GPU, and the label says so. kernels: names of the catalog, Kernels, or baselines such as
    "cublas_fp32". sizes: edges, or (M, N, K). params override tile sizes. What the record lacks, or
    does not fit this GPU, is a row of NaN and named in `missing`.
    Raises UnknownKernelError, ConfigError, UnknownNameError (gpu), DataError if the record has none
    of what was asked for.
    """
    wanted = _wanted(kernels, params)
    shapes = [_size(s) for s in sizes] if isinstance(sizes, list) else [_size(sizes)]
    if not wanted or not shapes:
        raise ConfigError("measure needs at least one kernel and one size")
    live = device.current() if gpu is None else None
    if live is None:
        return replay(schema.load(gpu or DEFAULT_GPU), wanted, shapes)
    lacking = [f"{name} (needs {arch})" for name, arch in _too_new(wanted, live.arch)]
    if not lacking:
        return _live(wanted, shapes)
    recorded = replay(schema.load(DEFAULT_GPU), wanted, shapes)
    why = f"this {live.name} ({live.arch}) cannot run {', '.join(lacking)}"
    return replace(recorded, label=f"{recorded.label}; {why}")


def _too_new(wanted: Sequence[Wanted], arch: str) -> list[tuple[str, str]]:
    """Kernels and baselines that need a newer architecture than this, with the one they need."""
    here = arch_number(arch)
    needs = [
        (name, BASELINES[name].min_arch if name in BASELINES else find(k).min_arch)
        for k, name, _ in wanted
    ]
    return [(name, needed) for name, needed in needs if arch_number(needed) > here]


def replay(
    record: Record,
    wanted: Sequence[Wanted],
    shapes: Sequence[Size],
) -> Measurement:
    """The recorded points of these kernels (each with its name and tile sizes) at these shapes."""
    rows, used, missing = [], [], []
    for _, name, tiles in wanted:
        for m, n, k in shapes:
            found = record.find("points", kernel=name, params=tiles, m=m, n=n, k=k)
            if found:
                used.append(found[0])
                rows.append(_row(found[0]))
                continue
            skipped = record.find("skipped", kernel=name, params=tiles, m=m, n=n, k=k)
            why = f" ({skipped[0]['reason']})" if skipped else ""
            with_tiles = ", ".join(f"{key}={value}" for key, value in tiles.items())
            missing.append(
                f"{name} at {_shape((m, n, k))}"
                + (f" with {with_tiles}" if with_tiles else "")
                + why
            )
            rows.append(_gap(name, (m, n, k)))
    if not used:
        names = ",".join(dict.fromkeys(name for _, name, _ in wanted))
        edges = ",".join(dict.fromkeys(str(m) for m, _, _ in shapes))
        raise DataError(
            f"{record.path.name} has no measurement of {'; '.join(missing)}. It has: "
            f"{_listing(record.points)}. Record it on that GPU with: python -m helpers record "
            f"--gpu {record.key} --kernels {names} --sizes {edges}"
        )
    label = record.label(used)
    changed = [e["kernel"] for e in used if _changed(e)]
    if changed:
        label += f"; the code of {', '.join(dict.fromkeys(changed))} has changed since"
    return Measurement(False, record.gpu["name"], record.key, label, tuple(rows), tuple(missing))


def _changed(entry: Point) -> bool:
    """Whether a kernel's code is another now than when this entry was measured."""
    name = entry["kernel"]
    return name in catalog and entry["source"] != points.fingerprint(catalog[name])


def _baseline(name: str) -> str:
    return name if name in BASELINES else catalog[name].baseline if name in catalog else "none"


def _number(value: Any) -> Any:
    return math.nan if value is None else value


@cache
def _session() -> Session:
    """The GPU of this machine, opened and warmed up once a process. Raises NoGPUError."""
    from helpers.measuring.gpu import Session

    session = Session()
    session.warm_up()
    return session


def _measure_points(
    session: Session, wanted: Sequence[Wanted], shapes: Sequence[Size]
) -> tuple[list[Point], list[str]]:
    """Points measured now, kernel by kernel, each at every shape, and what this GPU cannot run.

    Raises ConfigError if it can run none of it, ImplausibleError if a result is wrong.
    """
    from helpers.measuring.telemetry import Telemetry

    recorded = points.stamp(session.versions(), points.commit())
    found: dict[tuple[str, Size], Point] = {}
    cannot: list[str] = []
    fault: ConfigError | None = None
    with Telemetry(session.bus_id) as telemetry:
        for shape in shapes:  # sizes outside: the operands of a size serve every kernel
            for kernel, name, tiles in wanted:
                try:
                    found[name, shape] = points.point(
                        session,
                        telemetry,
                        kernel,
                        *shape,
                        effort=protocol.LIVE,
                        recorded=recorded,
                        params=tiles,
                    )
                except (
                    ConfigError
                ) as refusal:  # a newer GPU's instruction, or too large for this one
                    fault = refusal
                    cannot.append(f"{name} at {_shape(shape)} ({refusal})")
    if fault is not None and not found:
        raise fault
    keys = [(name, shape) for _, name, _ in wanted for shape in shapes]
    return [found[key] for key in keys if key in found], cannot


def _live(wanted: Sequence[Wanted], shapes: Sequence[Size]) -> Measurement:
    session = _session()
    measured, cannot = _measure_points(session, wanted, shapes)
    by_key = {(p["kernel"], p["m"], p["n"], p["k"]): p for p in measured}
    rows = []
    for _, name, _ in wanted:
        for shape in shapes:
            point = by_key.get((name, *shape))
            rows.append(_gap(name, shape) if point is None else _row(point))
    return Measurement(
        True,
        session.gpu.name,
        session.gpu.known.key if session.gpu.known else session.gpu.name,
        schema.label(session.gpu.name, measured, verb="measured now on"),
        tuple(rows),
        tuple(cannot),
        _recorded(wanted, shapes),
    )


def _recorded(wanted: Sequence[Wanted], shapes: Sequence[Size]) -> Measurement | None:
    """What the record holds of the same; None where it holds nothing of it."""
    try:
        return replay(schema.load(DEFAULT_GPU), wanted, shapes)
    except (DataError, UnknownNameError):  # none of it, or no record at all
        return None


def _row(point: Point) -> dict[str, Any]:
    return {column: _number(point[column]) for column in COLUMNS}


def _gap(name: str, shape: Size) -> dict[str, Any]:
    """A row of what was not measured: its name and size, NaN for the rest."""
    known = {"kernel": name, **dict(zip("mnk", shape, strict=True)), "baseline": _baseline(name)}
    return {column: known.get(column, math.nan) for column in COLUMNS}


def _rung(gpu_name: str, found: Point) -> dict[str, Any]:
    m, n, k = found["m"], found["n"], found["k"]
    return {
        "kernel": found["kernel"],
        "size": m if m == n == k else [m, n, k],
        "ms": found["ms"],
        "gflops": found["gflops"],
        "cublas_ratio": found["cublas_ratio"],
        "baseline": found["baseline"],
        "recorded": {"gpu": gpu_name, **found["recorded"]},
    }


def ladder(gpu: str = DEFAULT_GPU, size: int | Size = 4096) -> list[dict[str, Any]]:
    """The recorded ladder of a GPU at one size: every kernel of the catalog with its default tiles,
    in the catalog's order, then cuBLAS.

    Keys kernel, size, ms, gflops, cublas_ratio (paired, against `baseline`, cuBLAS of the same
    precision; None where baseline is "none": cuBLAS has no int32 product), baseline, recorded.
    Raises UnknownNameError for an unknown gpu, DataError listing the recorded sizes for a size that
    was not measured.
    """
    record, shape = schema.load(gpu), _size(size)
    m, n, k = shape
    tiles = {name: dict(kernel.params) for name, kernel in catalog.items()}
    tiles |= {name: {} for name in BASELINES}
    rows = [
        _rung(record.gpu["name"], found)
        for name, params in tiles.items()
        for found in record.find("points", kernel=name, params=params, m=m, n=n, k=k)
    ]
    if not rows:
        sizes = dict.fromkeys(_shape((p["m"], p["n"], p["k"])) for p in record.points)
        raise DataError(
            f"{record.path.name} has no times at {_shape(shape)}. It has times at: "
            f"{', '.join(sizes) or 'no size yet'}"
        )
    return rows


def live_ladder(size: int | Size) -> list[dict[str, Any]]:
    """The ladder measured now on this machine's GPU; the rows of `ladder`. Raises NoGPUError."""
    from helpers.measuring.record import names

    session = _session()
    wanted: list[Wanted] = [
        (catalog[name] if name in catalog else name, name, {})
        for name in names(session.supports, ())
    ]
    wanted.sort(key=lambda w: isinstance(w[0], str))  # the catalog first, then cuBLAS
    measured, _ = _measure_points(session, wanted, [_size(size)])
    return [_rung(session.gpu.name, p) for p in measured]


def skipped(gpu: str, size: int | Size) -> list[str]:
    """Kernels that were left out of a GPU's record at a size, each with the reason."""
    m, n, k = _size(size)
    found = schema.load(gpu).find("skipped", m=m, n=n, k=k)
    return [f"{entry['kernel']}: {entry['reason']}" for entry in found]


def stale(gpu: str) -> list[str]:
    """Recorded points of kernels whose code has changed since, or which the catalog no longer has."""
    found = []
    for entry in schema.load(gpu).points:
        name = entry["kernel"]
        if name in BASELINES:
            continue
        if name not in catalog:
            found.append(f"{name}: not in the catalog any more")
        elif _changed(entry):
            found.append(
                f"{name} at {_shape((entry['m'], entry['n'], entry['k']))}: code has changed"
            )
    return found


def counters(
    kernels: str | Kernel | Sequence[str | Kernel],
    size: int | Size | None = None,
    *,
    gpu: str = DEFAULT_GPU,
) -> list[dict[str, Any]]:
    """Recorded hardware counters (ncu) of kernels with their default tiles: one dict a launch.

    size: one recorded shape; None: the largest that is recorded of each kernel. Keys kernel, m, n, k,
    those of `helpers.measuring.ncu.METRICS` (warp-level counts, bytes, percent), and sectors or
    wavefronts a request. Raises UnknownNameError for gpu, DataError listing what was counted.
    """
    record, rows = schema.load(gpu), []
    for _, name, tiles in _wanted(kernels, {}):
        found = record.find("counters", kernel=name, params=tiles)
        if size is not None:
            m, n, k = _size(size)
            found = [e for e in found if (e["m"], e["n"], e["k"]) == (m, n, k)]
        if not found:
            raise DataError(
                f"{record.path.name} has no counters of {name}"
                + (f" at {_shape(_size(size))}" if size is not None else "")
                + f". It has: {_listing(record.counters)}. Record them on that GPU with: python -m "
                f"helpers record --counters --kernels {name}"
            )
        entry = max(found, key=lambda e: e["m"] * e["n"] * e["k"])
        rows.append({n: entry[n] for n in ("kernel", "m", "n", "k")} | _ratios(entry["values"]))
    return rows


def stalls(
    kernels: str | Kernel | Sequence[str | Kernel], *, gpu: str = DEFAULT_GPU
) -> list[dict[str, Any]]:
    """What the warps of a kernel do with their time, by ncu: one dict a kernel, those not recorded, or
    recorded of other code, left out.

    Keys kernel, m, n, k; issue_percent, the clocks in which a scheduler issues, and warps, how many it
    holds; and waits, the percent of a warp's time by `helpers.measuring.ncu.WAITS`, and "issues". ncu
    counts waiting warps in the clocks that issue; all of them together hold warps / issue clocks.
    eligible, tensor_percent, fma_percent and shared_percent stand there where the GPU counts them. Raises
    UnknownNameError for gpu.
    """
    record, rows = schema.load(gpu), []
    for _, name, tiles in _wanted(kernels, {}):
        for entry in record.find("stalls", kernel=name, params=tiles):
            values = dict(entry["values"])
            if _changed(entry) or not values["warps"]:
                continue
            each = values["issue_percent"] / values["warps"]
            waits = {reason: each * values.pop(reason) for reason in WAITS if reason in values}
            head = {n: entry[n] for n in ("kernel", "m", "n", "k")}
            rows.append(head | values | {"waits": {"issues": each} | waits})
    return rows


def _ratios(values: Mapping[str, float]) -> dict[str, float]:
    """Counters, and next to them what one request or instruction of each kind costs."""
    result = dict(values)
    for kind in ("load", "store"):
        pairs = {
            f"{kind}_sectors_per_request": (f"global_{kind}_sectors", f"global_{kind}_requests"),
            f"{kind}_wavefronts_per_request": (
                f"shared_{kind}_wavefronts",
                f"shared_{kind}_instructions",
            ),
        }
        for name, (above, below) in pairs.items():
            if values.get(below):
                result[name] = values[above] / values[below]
    wavefronts = values.get("shared_load_wavefronts", 0) + values.get("shared_store_wavefronts", 0)
    multiply_adds = values.get("ffma_thread_instructions", 0) / 32
    if wavefronts and multiply_adds:
        result["multiply_adds_per_wavefront"] = multiply_adds / wavefronts
    return result


@dataclass(frozen=True)
class Recorded:
    """Rows of a record that are no kernel times, with their provenance in words."""

    gpu: str
    label: str
    rows: tuple[dict[str, Any], ...]
    live: bool = False


def flags(gpu: str = DEFAULT_GPU) -> Recorded:
    """Recorded builds of a kernel with other compiler flags: rows with kernel, build, m, n, k, ms, q1,
    q3, gflops, and speedup (paired, over the default build).

    Raises UnknownNameError for gpu, DataError if none was recorded.
    """
    record = schema.load(gpu)
    if not record.flags:
        raise DataError(
            f"{record.path.name} has no builds with other compiler flags. Record them on that GPU "
            "with: python -m helpers record --no-points --flags"
        )
    return Recorded(record.gpu["name"], record.label(record.flags), tuple(record.flags))


def overlap(
    kernels: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    *,
    gpu: str | None = None,
) -> Recorded:
    """Products from host arrays to host result, serial and in row panels over several streams.

    With a GPU on this machine they are measured now (kernels: default streams.KERNELS; sizes: edges,
    default 2048); elsewhere, or when gpu names a record such as "h200", they are replayed, by default
    all of them. Rows with kernel, how, memory, panels, streams (see streams.Variant), m, n, k, ms,
    q1, q3, speedup (over the serial run from pageable memory, paired), pin_ms, and timeline (see
    streams.operations). Raises UnknownNameError for gpu, DataError if none was recorded.
    """
    from helpers.measuring import streams

    if gpu is None and device.current() is not None:
        session = _session()
        stamp = points.stamp(session.versions(), points.commit())
        measured = [
            row
            for n in sizes or (2048,)
            for name in kernels or streams.KERNELS
            for row in streams.entries(session, name, n, n, n, recorded=stamp, effort=streams.LIVE)
        ]
        label = schema.label(session.gpu.name, measured, verb="measured now on")
        return Recorded(session.gpu.name, label, tuple(measured), live=True)
    record = schema.load(gpu or DEFAULT_GPU)
    rows = [
        e
        for e in record.data["overlap"]
        if (kernels is None or e["kernel"] in kernels) and (sizes is None or e["m"] in sizes)
    ]
    if not rows:
        raise DataError(
            f"{record.path.name} has no overlapped copies of {kernels=} at {sizes=}. It has: "
            f"{_listing(record.data['overlap'])}. Record them on that GPU with: python -m helpers "
            f"record --gpu {record.key} --no-points --overlap"
        )
    label = record.label(rows)
    changed = dict.fromkeys(e["kernel"] for e in rows if _changed(e))
    if changed:
        label += f"; the code of {', '.join(changed)} has changed since"
    return Recorded(record.gpu["name"], label, tuple(rows))


def transfers(gpu: str = DEFAULT_GPU) -> list[dict[str, Any]]:
    """Recorded copies between host and device: direction, memory ("pageable", "pinned"), bytes, ms,
    q1, q3, gbs (GB/s). Raises UnknownNameError for gpu.
    """
    return list(schema.load(gpu).transfers)


def accuracy(gpu: str = DEFAULT_GPU) -> list[dict[str, Any]]:
    """Recorded errors of each cuBLAS precision against float64, on N(0, 1) matrices: max_error
    (absolute) and frobenius (relative), of the float32 inputs; and ..._rounded_inputs, of the inputs
    as rounded for the Tensor Cores, None where cuBLAS chooses how to round.
    Raises UnknownNameError for gpu.
    """
    return list(schema.load(gpu).accuracy)
