"""What the records say, for chapters: ladders, counters, stalls, builds, copies, tiles.

Nothing is measured.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from helpers.ladder import rungs
from helpers.ladder.kernel import Kernel
from helpers.ladder.rungs import catalog, find
from helpers.record import shape_sets, store
from helpers.record.entries import (
    WAITS,
    Accuracy,
    Build,
    Counted,
    L2Rate,
    LaunchCost,
    LeftOut,
    Overlapped,
    Point,
    Skipped,
    Stalled,
    Transfer,
    Tuned,
)
from helpers.record.gpu import BASELINES
from helpers.record.selection import DEFAULT_GPU, Rows, listing, select, size_of
from helpers.record.shape_sets import (
    Everywhere,
    Ragged,
    current_entry,
    describe_tile,
    ragged_result,
)
from helpers.record.store import Size, shape
from nogpu.errors import DataError, UnknownNameError


def outdated(entry: Point | Counted | Overlapped | LaunchCost) -> bool:
    """Whether a kernel's code is another now than when this entry was measured."""
    return entry.kernel in catalog and entry.source != rungs.fingerprint(entry.kernel)


def rung(gpu_name: str, point: Point) -> dict[str, Any]:
    """A row of the ladder."""
    m, n, k = point.m, point.n, point.k
    return {
        "kernel": point.kernel,
        "size": m if m == n == k else [m, n, k],
        "ms": point.ms,
        "gflops": point.gflops,
        "cublas_ratio": point.cublas_ratio,
        "baseline": point.baseline,
        "recorded": {"gpu": gpu_name, **point.recorded},
    }


def ladder(gpu: str = DEFAULT_GPU, size: int | Size = 4096) -> list[dict[str, Any]]:
    """The recorded ladder of a GPU at one size: every kernel of the catalog with its default tiles,
    in the catalog's order, then cuBLAS.

    Keys kernel, size, ms, gflops, cublas_ratio (paired, against `baseline`, cuBLAS of the same
    precision; None where baseline is "none": cuBLAS has no int32 product), baseline, recorded.
    Raises UnknownNameError for an unknown gpu, DataError listing the recorded sizes for a size that
    was not measured.
    """
    record, (m, n, k) = store.load(gpu), size_of(size)
    tiles = {name: dict(kernel.params) for name, kernel in catalog.items()}
    tiles |= {name: {} for name in BASELINES}
    rows = [
        rung(record.gpu["name"], point)
        for name, params in tiles.items()
        for point in record.of(Point, kernel=name, params=params, m=m, n=n, k=k)
    ]
    if not rows:
        sizes = dict.fromkeys(shape(p.size) for p in record.of(Point))
        raise DataError(
            f"{record.path.name} has no times at {shape((m, n, k))}. It has times at: "
            f"{', '.join(sizes) or 'no size yet'}"
        )
    return rows


def skipped(gpu: str, size: int | Size) -> list[str]:
    """Kernels that were left out of a GPU's record at a size, each with the reason."""
    m, n, k = size_of(size)
    entries = store.load(gpu).of(Skipped, m=m, n=n, k=k)
    return [f"{entry.kernel}: {entry.reason}" for entry in entries]


def stale(gpu: str) -> list[str]:
    """Recorded points of kernels whose code has changed since, or which the catalog no longer has.

    Left out are those in whose place the record has a newer one, of another tile.
    """
    points = [e for e in store.load(gpu).of(Point) if e.kernel not in BASELINES]
    renewed = {(e.kernel, e.size) for e in points if not outdated(e)}
    lines = []
    for entry in points:
        name = entry.kernel
        if name not in catalog:
            lines.append(f"{name}: not in the catalog any more")
        elif outdated(entry) and (name, entry.size) not in renewed:
            lines.append(f"{name} at {shape(entry.size)}: code has changed")
    return lines


def counters(
    kernels: str | Kernel | Sequence[str | Kernel],
    size: int | Size | None = None,
    *,
    gpu: str = DEFAULT_GPU,
) -> list[dict[str, Any]]:
    """Recorded hardware counters (ncu) of kernels with their default tiles: one dict a launch.

    size: one recorded shape; None: the largest that is recorded of each kernel. Keys kernel, m, n,
    k, those of `helpers.record.ncu.METRICS` (warp-level counts, bytes, percent), and sectors or
    wavefronts a request. Raises UnknownNameError for gpu, DataError listing what was counted.
    """
    record, rows = store.load(gpu), []
    for _, name, tiles in select(kernels, {}):
        counted = record.of(Counted, kernel=name, params=tiles)
        if size is not None:
            counted = [e for e in counted if e.size == size_of(size)]
        if not counted:
            raise DataError(
                f"{record.path.name} has no counters of {name}"
                + (f" at {shape(size_of(size))}" if size is not None else "")
                + f". It has: {listing(record.of(Counted))}. Record them on that GPU with:"
                " python -m "
                f"helpers record --counters --kernels {name}"
            )
        entry = max(counted, key=lambda e: e.m * e.n * e.k)
        rows.append({n: entry[n] for n in ("kernel", "m", "n", "k")} | _ratios(entry.values))
    return rows


def stalls(
    kernels: str | Kernel | Sequence[str | Kernel], *, gpu: str = DEFAULT_GPU
) -> list[dict[str, Any]]:
    """What the warps of a kernel do with their time, by ncu: one dict a kernel, those not recorded,
    or recorded of other code, left out.

    Keys kernel, m, n, k; issue_percent, the clocks in which a scheduler issues, and warps, how many
    it holds; and waits, the percent of a warp's time by `entries.WAITS`, and "issues".
    ncu counts waiting warps in the clocks that issue; all of them together hold warps / issue
    clocks. eligible, tensor_percent, fma_percent and shared_percent stand there where the GPU
    counts them. Raises UnknownNameError for gpu.
    """
    record, rows = store.load(gpu), []
    for _, name, tiles in select(kernels, {}):
        for entry in record.of(Stalled, kernel=name, params=tiles):
            values = dict(entry.values)
            if outdated(entry) or not values["warps"]:
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


def flags(gpu: str = DEFAULT_GPU) -> Rows:
    """Recorded builds of a kernel with other compiler flags: rows with kernel, build, m, n, k, ms,
    q1, q3, gflops, and speedup (paired, over the default build).

    Raises UnknownNameError for gpu, DataError if none was recorded.
    """
    record = store.load(gpu)
    builds = record.of(Build)
    if not builds:
        raise DataError(
            f"{record.path.name} has no builds with other compiler flags. Record them on that GPU "
            "with: python -m helpers record --no-points --flags"
        )
    return Rows(record.gpu["name"], record.label(builds), tuple(builds))


def left_out(kernel: Kernel | str, gpu: str = DEFAULT_GPU) -> Rows:
    """Recorded builds of a kernel without one of its parts: rows with kernel, without, m, n, k,
    params, ms, q1, q3, gflops, and share (paired) of the rate of the whole kernel, whose `without`
    is "all".

    Rows of older code are left out. Raises UnknownNameError for gpu, UnknownKernelError, DataError
    if none was recorded of the code as it is now.
    """
    record, k = store.load(gpu), find(kernel)
    builds = [
        e for e in record.of(LeftOut) if e.kernel == k.name and e.source == rungs.fingerprint(k)
    ]
    if not builds:
        raise DataError(
            f"{record.path.name} has no {k.name} without its parts, of today's code. Record them on"
            " that GPU with: python -m helpers record --no-points --left-out"
        )
    return Rows(record.gpu["name"], record.label(builds), tuple(builds))


def launches(gpu: str = DEFAULT_GPU) -> Rows:
    """Recorded costs of one launch: rows with kernel, m, n, k, way ("matmul", "run", "cupy",
    "bound", "graph"), and us, q1, q3, microseconds of the host a product; see `sections.asking`.

    Those of older code are left out; there may be none. Raises UnknownNameError for gpu.
    """
    record = store.load(gpu)
    costs = [e for e in record.of(LaunchCost) if not outdated(e)]
    return Rows(record.gpu["name"], record.label(costs), tuple(costs))


def transfers(gpu: str = DEFAULT_GPU) -> list[Transfer]:
    """Recorded copies between host and device: direction, memory ("pageable", "pinned"), bytes, ms,
    q1, q3, gbs (GB/s). Raises UnknownNameError for gpu."""
    return store.load(gpu).of(Transfer)


def supplies(gpu: str = DEFAULT_GPU) -> list[L2Rate]:
    """What L2 delivered to the SMs, by way, by how many share and how far apart they are.

    bytes a clock and SM (per_clock), GB/s in all (gbs). None for a GPU without a record.
    """
    return store.load(gpu).of(L2Rate) if gpu in store.known_gpus() else []


def accuracy(gpu: str = DEFAULT_GPU) -> list[Accuracy]:
    """Recorded errors of each cuBLAS precision against float64, on N(0, 1) matrices: max_error
    (absolute) and frobenius (relative), of the float32 inputs; and ..._rounded_inputs, of the
    inputs as rounded for the Tensor Cores, None where cuBLAS chooses how to round. Raises
    UnknownNameError for gpu."""
    return store.load(gpu).of(Accuracy)


def tuned(kernel: Kernel | str, size: int | Size = 4096, gpu: str = DEFAULT_GPU) -> Tuned | None:
    """The confirmed best tile of a kernel at a size on a GPU, or None where none is recorded.

    Keys as in section "tuned": params (complete, for `matmul` or `measure`), default, ms, gain,
    cublas_ratio and so on. What was found with other code or another default does not count.
    """
    k = find(kernel)
    try:
        record = store.load(gpu)
    except UnknownNameError:
        return None
    entry = current_entry(record, Tuned, k, (size, size, size) if isinstance(size, int) else size)
    return entry if entry and entry.default == dict(k.params) else None


def ragged(kernel: str = "fp32_best", gpu: str = DEFAULT_GPU) -> Ragged | None:
    """The recorded choice of tile over the ragged set on a GPU, or None where incomplete."""
    try:
        return ragged_result(store.load(gpu), kernel)
    except UnknownNameError:
        return None


def everywhere(
    dtype: str = "float32", gpu: str = DEFAULT_GPU, seed: int = shape_sets.DRAWN_SEED
) -> Everywhere | None:
    """The recorded picks of `choosing.best` over a set of drawn shapes, or None where they are not
    complete.
    """
    try:
        return shape_sets.everywhere(store.load(gpu), dtype, seed)
    except UnknownNameError:
        return None


# -- the ladder in words ---------------------------------------------------------------------------


def ladder_title(rows: Sequence[Mapping[str, Any]], size: Size, *, live: bool = False) -> str:
    """Where the rows of `ladder` come from, in a line: GPU, dates, and versions of the latest."""
    notes = [row["recorded"] for row in rows]
    dates = sorted({note["date"] for note in notes})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    last = max(notes, key=lambda note: note["date"])
    how = "measured now on" if live else "recorded on"
    return (
        f"M x N x K = {' x '.join(map(str, size))}, {how} {last['gpu']}, {when}, driver "
        f"{last['driver']}, CUDA {last['cuda']}, cuBLAS {last['cublas']}, commit {last['commit']}"
    )


def ladder_notes(rows: Sequence[Mapping[str, Any]], size: Size, gpu: str) -> list[str]:
    """What else the record says of a ladder: what was left out and why, and tiles found."""
    lines = [f"not measured here: {reason}" for reason in skipped(gpu, size)]
    for row in rows:
        best = tuned(row["kernel"], size, gpu) if row["kernel"] in catalog else None
        if best:
            lines.append(f"tuned: {row['kernel']}: {describe_tile(best)}")
    overall = (ragged(name, gpu) for name, k in catalog.items() if k.candidates)
    lines += [f"tile chosen by shape: {result}" for result in overall if result]
    return [*lines, f"recorded GPUs: {', '.join(store.known_gpus())}"]
