"""The command line: python -m helpers info | ladder | trace | record | sweep | tune | verify ...

Errors go to stderr as one `error:` line with exit code 2; with --json, stdout is JSON alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers import device, toolchain
from helpers.errors import ConfigError, TileError
from helpers.kernel import ROOT
from helpers.rungs import catalog

Run = Callable[[argparse.Namespace], int]


def _plain(value: Any) -> Any:
    """The same data as JSON can hold it: NumPy numbers plain, NaN and infinities null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_json(data: Any) -> None:
    """Write data to stdout as JSON."""
    print(json.dumps(_plain(data), indent=2, allow_nan=False))


def print_table(rows: Sequence[Mapping[str, Any]], formats: Mapping[str, str]) -> None:
    """Write rows to stdout as columns; formats names the columns and how each is formatted."""

    def cell(row: Mapping[str, Any], name: str) -> str:
        value = row.get(name)
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return "-"
        return format(value, formats[name])

    lines = [list(formats)] + [[cell(row, name) for name in formats] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(formats))]
    numeric = [bool(f) for f in formats.values()]
    for line in lines:
        cells = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        )
        print("  ".join(cells).rstrip())


# -- info ----------------------------------------------------------------------------------------


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cupy_version() -> str | None:
    return next(
        filter(None, (_version(name) for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"))), None
    )


def gather_info() -> dict[str, Any]:
    """The GPU at hand, the compiler, the packages, and what is recorded."""
    from helpers.measuring import known_gpus, load, stale

    live = device.current()
    records = {}
    for key in known_gpus():
        record = load(key)
        records[key] = {
            "gpu": record.gpu["name"],
            "kernels": len({p["kernel"] for p in record.points}),
            "points": len(record.points),
            "counters": len(record.counters),
            "label": record.label(),
            "stale": stale(key),
        }
    version = toolchain.nvrtc().version if toolchain.has_nvrtc() else None
    return {
        "gpu": None if live is None else {**vars(live), "key": live.known and live.known.key},
        "backend": "cuda" if live else "emulator",
        "nvrtc": ".".join(map(str, version)) if version else None,
        "compiler": toolchain.compiler() if toolchain.available() else None,
        "python": sys.version.split()[0],
        "numpy": _version("numpy"),
        "cupy": _cupy_version(),
        "kernels": list(catalog),
        "records": records,
    }


def run_info(args: argparse.Namespace) -> int:
    """Show what this machine has and what the book holds."""
    info = gather_info()
    if args.json:
        print_json(info)
        return 0
    gpu = info["gpu"]
    if gpu:
        print(
            f"GPU:       {gpu['name']} ({gpu['arch']}), {gpu['sms']} SMs, "
            f"{gpu['memory_bytes'] / 2**30:.0f} GiB, driver for CUDA {gpu['driver_cuda']}"
        )
        print("backend:   cuda (kernels run and are timed on this GPU)")
    else:
        print("GPU:       none answers (no GPU, no driver, or no CuPy)")
        print("backend:   emulator (kernels run in the emulator; times are replayed)")
    print(f"compiler:  {info['compiler'] or 'not found. ' + toolchain.INSTALL_HINT}")
    print(f"Python:    {info['python']}, NumPy {info['numpy']}, CuPy {info['cupy'] or 'none'}")
    print(f"kernels:   {len(info['kernels'])}: {', '.join(info['kernels'])}")
    for key, record in info["records"].items():
        print(f"record:    {key}: {record['points']} points of {record['kernels']} kernels;")
        print(f"           {record['label']}")
        for text in record["stale"]:
            print(f"           to be recorded again: {text}")
    if not info["records"]:
        print("record:    none in data/measurements")
    return 0


# -- ladder --------------------------------------------------------------------------------------


def parse_size(text: str) -> tuple[int, int, int]:
    """(M, N, K) of "1024" or "1024x1024x768"."""
    parts = text.strip().lower().split("x")
    if len(parts) not in (1, 3) or not all(p.isdigit() and int(p) > 0 for p in parts):
        raise ConfigError(f"size {text!r}: give an edge such as 1024, or MxNxK as 1024x1024x768")
    numbers = [int(p) for p in parts]
    m, n, k = numbers * 3 if len(numbers) == 1 else numbers
    return m, n, k


def run_ladder(args: argparse.Namespace) -> int:
    """Show the recorded ladder of a GPU at one size, or measure it here."""
    from helpers.measuring import DEFAULT_GPU, known_gpus, ladder, ragged, skipped, tuned
    from helpers.measuring.replay import live_ladder
    from helpers.measuring.tune import describe

    size = parse_size(args.size)
    if args.live:
        rows, left_out = live_ladder(size), []
    else:
        gpu = args.gpu or DEFAULT_GPU
        rows, left_out = ladder(gpu, size), skipped(gpu, size)
    if args.json:
        print_json(rows)
        return 0
    shown = [
        {**row, "percent": None if row["cublas_ratio"] is None else 100 * row["cublas_ratio"]}
        for row in rows
    ]
    m, n, k = size
    notes = [row["recorded"] for row in rows]
    dates = sorted({note["date"] for note in notes})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    last = max(notes, key=lambda note: note["date"])
    how = "measured now on" if args.live else "recorded on"
    print(
        f"M x N x K = {m} x {n} x {k}, {how} {last['gpu']}, {when}, driver {last['driver']}, "
        f"CUDA {last['cuda']}, cuBLAS {last['cublas']}, commit {last['commit']}\n"
    )
    print_table(
        shown, {"kernel": "", "ms": ".4g", "gflops": ",.0f", "percent": ".1f", "baseline": ""}
    )
    print("\npercent: of cuBLAS of the same precision (the baseline), the median of paired runs")
    for reason in left_out:
        print(f"not measured here: {reason}")
    if not args.live:
        for row in rows:
            best = tuned(row["kernel"], size, gpu) if row["kernel"] in catalog else None
            if best:
                print(f"tuned: {row['kernel']}: {describe(best)}")
        for over in filter(
            None, (ragged(name, gpu) for name, k in catalog.items() if k.candidates)
        ):
            print(f"tile chosen by shape: {over}")
        print(f"recorded GPUs: {', '.join(known_gpus())}")
    return 0


# -- trace ---------------------------------------------------------------------------------------


def parse_params(given: Sequence[str]) -> dict[str, int]:
    """{"BM": 64} of ["BM=64"]."""
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name or not value.isdigit():
            raise ConfigError(f"--param {text!r}: give a tile size as NAME=NUMBER, such as TILE=16")
        found[name] = int(value)
    return found


LINE_FIELDS = (
    "line",
    "text",
    "space",
    "op",
    "array",
    "width_bytes",
    "requests",
    "sectors",
    "sectors_per_request",
    "wavefronts",
    "wavefronts_per_request",
    "bytes",
)


def run_trace(args: argparse.Namespace) -> int:
    """Run a kernel in the emulator and show its memory accesses, line by line."""
    from helpers.launch import trace

    tiles: dict[str, Any] = {**parse_params(args.param)}
    t = trace(args.kernel, args.m, args.n, args.k, seed=args.seed, **tiles)
    rows = [{name: getattr(line, name, None) for name in LINE_FIELDS} for line in t.by_line()]
    if args.json:
        print_json(rows)
    else:
        p = t.plan
        with_tiles = ", ".join(f"{name}={value}" for name, value in p.params.items())
        print(
            f"{p.kernel.name} ({with_tiles}), M={p.M}, N={p.N}, K={p.K}: grid {p.grid}, block {p.block}; "
            "counts of the PTX, exact, with no cache\n"
        )
        own = {"global": "sectors_per_request", "shared": "wavefronts_per_request"}
        for row in rows:  # the other of the two says nothing about this kind of memory
            row.update({name: None for name in own.values() if name != own.get(str(row["space"]))})
        print_table(
            rows,
            {
                "line": "d",
                "space": "",
                "op": "",
                "array": "",
                "requests": ",d",
                "sectors_per_request": ".2f",
                "wavefronts_per_request": ".2f",
                "text": "",
            },
        )
    for finding in t.report.findings:
        print(f"finding: {finding}", file=sys.stderr)
    if t.wrong:
        print(f"finding: {t.wrong} elements of C are wrong", file=sys.stderr)
    return 0 if t.ok else 1


# -- record --------------------------------------------------------------------------------------


def parse_sizes(text: str) -> tuple[tuple[int, int, int], ...]:
    """Sizes separated by commas."""
    return tuple(dict.fromkeys(parse_size(part) for part in text.split(",") if part.strip()))


def parse_names(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_skip(given: Sequence[str]) -> dict[str, int]:
    """{"naive": 4096} of ["naive:4096"]."""
    found = {}
    for text in given:
        name, sign, edge = text.partition(":")
        if not sign or not edge.isdigit() or int(edge) < 1:
            raise ConfigError(f"--skip-above {text!r}: give KERNEL:EDGE, such as naive:4096")
        if name not in catalog:
            catalog[name]  # raises UnknownKernelError with near matches
        found[name] = int(edge)
    return found


def print_plan(steps: Sequence[tuple[str, float]]) -> int:
    """Show what a command would do, with an estimate of its seconds."""
    for what, seconds in steps:
        print(f"{seconds:7.1f} s  {what}")
    print(f"{sum(seconds for _, seconds in steps):7.1f} s  in all, by estimate")
    return 0


def recording(args: argparse.Namespace) -> dict[str, Any]:
    """What every command that records is asked, as fields of its request."""
    return {name: getattr(args, name) for name in ("gpu", "out", "commit", "seconds", "again")}


def run_record(args: argparse.Namespace) -> int:
    """Measure on this machine's GPU and merge the points into a measurement file."""
    from helpers import host
    from helpers.measuring import point
    from helpers.measuring.record import COUNTER_SHAPES, SECTIONS, SIZES, Request, planned, record

    asked = {name: getattr(args, name) or args.all for name in SECTIONS}
    given = parse_sizes(args.sizes) if args.sizes else None
    request = Request(
        sizes=given or SIZES,
        counter_shapes=given if given and args.no_points else COUNTER_SHAPES,
        kernels=parse_names(args.kernels),
        skip_above=parse_skip(args.skip_above),
        with_points=not args.no_points,
        **{f"with_{name}": wanted for name, wanted in asked.items()},
        finish=not (args.kernels or args.sizes or args.host or any(asked.values())),
        **recording(args),
    )
    if args.plan:
        return print_plan(planned(request))

    def say(line: str) -> None:
        print(line, flush=True)

    outcome = record(request, say)
    if args.host or args.all:
        host.record_host(outcome.path, point.commit(args.commit), again=args.again, say=say)
    say(
        f"{outcome.path}: {outcome.measured} points measured, {outcome.present} there already, "
        f"{outcome.illegal} not allowed by a rule, {len(outcome.refused)} refused, {len(outcome.left)} left for want of time"
    )
    for text in outcome.refused:
        print(f"refused: {text}", file=sys.stderr)
    if outcome.left:
        say("Run the same command again to go on; what is in the file is not measured twice.")
    return 1 if outcome.refused else 0


# -- sweep ---------------------------------------------------------------------------------------


def run_sweep(args: argparse.Namespace) -> int:
    """Time every legal tile of one or more kernels on this machine's GPU."""
    from helpers.measuring import DEFAULT_GPU, sweep

    size = parse_size(args.size)
    if args.list:
        table = device.gpu(args.gpu or DEFAULT_GPU)
        names = sweep.chosen_kernels(args.kernel)
        rows = [
            {"kernel": name, "tile": ", ".join(f"{n}={v}" for n, v in tile.items()),
             "merit": sweep.merit(name, size, table, tile)}
            for name, tile in sweep.order(names, size, table, args.limit)
        ]  # fmt: skip
        print_table(rows, {"kernel": "", "tile": "", "merit": ".3f"})
        return 0
    if args.compile:
        from helpers.measuring import tiles

        archs = parse_names(args.compile)
        workers = args.workers or 1
        print(tiles.compile_tiles(args.kernel, archs, workers=workers), "tiles compiled")
        return 0
    request = sweep.Request(
        kernels=tuple(args.kernel),
        size=size,
        limit=args.limit,
        workers=args.workers,
        **recording(args),
    )
    outcome = sweep.sweep(request, lambda line: print(line, flush=True))
    print(
        f"{outcome.path}: {outcome.measured} tiles timed, {outcome.present} there already, "
        f"{outcome.pruned} pruned by their resources, {len(outcome.refused)} refused, "
        f"{outcome.left} left for want of time"
    )
    for text in outcome.refused:
        print(f"refused: {text}", file=sys.stderr)
    if outcome.left:
        print("Run the same command again to go on; what is in the file is not timed twice.")
    return 1 if outcome.refused else 0


# -- tune ----------------------------------------------------------------------------------------


def run_tune(args: argparse.Namespace) -> int:
    """Find a kernel's best tile on this GPU and confirm it, or measure the choice on ragged shapes."""
    from helpers.measuring import tune

    request = tune.Request(
        kernel=args.kernel,
        size=parse_size(args.size),
        ragged=args.shapes == "ragged",
        limit=args.limit,
        workers=args.workers,
        **recording(args),
    )
    outcome = tune.tune(request, lambda line: print(line, flush=True))
    print(
        f"{outcome.path}: {outcome.recorded} confirmed, {outcome.present} there already, "
        f"{len(outcome.refused)} refused, {outcome.left} left for want of time"
    )
    for text in outcome.refused:
        print(f"refused: {text}", file=sys.stderr)
    return 1 if outcome.refused else 0


# -- verify --------------------------------------------------------------------------------------


def run_verify(args: argparse.Namespace) -> int:
    """Check every kernel on this machine's GPU: under compute-sanitizer, and over many shapes."""
    from helpers.measuring import DEFAULT_GPU, verify

    both = args.sanitizer == args.shapes
    request = verify.Request(
        kernels=parse_names(args.kernels),
        workers=args.workers,
        with_sanitizer=args.sanitizer or both,
        with_shapes=args.shapes or both,
        count=args.count or verify.SHAPES,
        limit=args.limit or verify.LIMIT,
        **recording(args),
    )
    if args.plan:
        return print_plan(verify.planned(request, args.gpu or DEFAULT_GPU))
    outcome = verify.verify(request, lambda line: print(line, flush=True))
    print(
        f"{outcome.done} rows recorded, {outcome.present} there already, {len(outcome.faults)} with "
        f"a fault, {len(outcome.refused)} refused, {outcome.left} left for want of time"
    )
    for text in (*outcome.faults, *outcome.refused):
        print(f"fault: {text}", file=sys.stderr)
    if outcome.left:
        print("Run the same command again to go on; what is in the files is not run twice.")
    return 1 if outcome.faults or outcome.refused else 0


# -- notebooks, figures --------------------------------------------------------------------------


def configure_notebooks(command: argparse.ArgumentParser) -> None:
    """Arguments of `notebooks`, from the exporter."""
    from helpers import notebooks

    notebooks.configure(command)


def run_notebooks(args: argparse.Namespace) -> int:
    """Make book/*.ipynb from the chapters."""
    from helpers import notebooks

    return notebooks.run(args)


def run_figures(args: argparse.Namespace) -> int:
    """Draw the README's picture of the ladder from the record."""
    from helpers import plots
    from helpers.measuring import measure

    rungs = [name for name, k in catalog.items() if k.baseline != "none"]
    size = parse_size(args.size)
    picture = plots.ladder(measure(rungs, size, gpu=args.gpu))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    print(picture.save(args.out))
    return 0


# -- arguments -----------------------------------------------------------------------------------


def configure_ladder(command: argparse.ArgumentParser) -> None:
    """Arguments of `ladder`."""
    command.add_argument("--gpu", help="whose record to show (default: h200)")
    command.add_argument("--size", default="4096", help="edge, or MxNxK (default: %(default)s)")
    command.add_argument("--live", action="store_true", help="measure here, on this machine's GPU")


def configure_trace(command: argparse.ArgumentParser) -> None:
    """Arguments of `trace`."""
    command.add_argument("kernel", help="a kernel of the catalog; `info` lists them")
    for letter, what in (("m", "rows of A and C"), ("n", "columns of B and C"), ("k", "inner")):
        command.add_argument(f"-{letter}", type=int, default=64, help=f"{what} (default: 64)")
    command.add_argument(
        "--param", action="append", default=[], metavar="NAME=NUMBER", help="a tile size"
    )
    command.add_argument("--seed", type=int, default=0, help="of the random operands")


def configure_recording(
    command: argparse.ArgumentParser, out: str = "the file (default: data/measurements/GPU.json)"
) -> None:
    """Arguments of every command that records a GPU."""
    add = command.add_argument
    add("--gpu", help="the record's name (default: this GPU's)")
    add("--out", type=Path, help=out)
    add("--commit", help="what to note as the commit (default: TILE_COMMIT, or git's)")
    add("--seconds", type=float, help="stop cleanly before this much time is spent")
    add("--again", action="store_true", help="do what is recorded already, too")


def configure_record(command: argparse.ArgumentParser) -> None:
    """Arguments of `record`."""
    add = command.add_argument
    configure_recording(command)
    add(
        "--sizes",
        help="comma-separated edges or MxNxK (default: 512,1024,1025,2048,4096,8192); with --no-points "
        "those of --counters",
    )
    add("--kernels", default="", help="comma-separated names, cublas_fp32 and the like included")
    add(
        "--skip-above",
        action="append",
        default=[],
        metavar="KERNEL:EDGE",
        help="leave a slow one out",
    )
    add("--no-points", action="store_true", help="no kernel times, only what is asked for below")
    add("--counters", action="store_true", help="hardware counters, by ncu")
    add("--stalls", action="store_true", help="what warps wait for, by ncu")
    add("--transfers", action="store_true", help="bandwidth of copies, pinned and pageable")
    add("--accuracy", action="store_true", help="errors of each cuBLAS precision against float64")
    add("--flags", action="store_true", help="a kernel built with other compiler flags")
    add("--overlap", action="store_true", help="copies overlapped with compute, over streams")
    add("--host", action="store_true", help="the CPU loops and NumPy on this machine")
    add("--plan", action="store_true", help="show what would be measured, and for how long; no GPU")
    add(
        "--all",
        action="store_true",
        help="counters, stalls, transfers, accuracy, flags, overlap and host",
    )


def configure_sweep(command: argparse.ArgumentParser) -> None:
    """Arguments of `sweep`."""
    add = command.add_argument
    configure_recording(command)
    add("kernel", nargs="*", help="kernels of the catalog (default: those of chapters 06 to 12)")
    add("--size", default="4096", help="edge, or MxNxK (default: %(default)s)")
    add("--limit", type=int, help="at most so many tiles a kernel, the best predicted")
    add("--workers", type=int, help="compiling processes (default: cores less one, at most 15)")
    add(
        "--compile", metavar="ARCHS", help="no timing: registers of every tile into data/tiles.json"
    )
    add("--list", action="store_true", help="show the tiles in their order; needs no GPU")


def configure_tune(command: argparse.ArgumentParser) -> None:
    """Arguments of `tune`."""
    add = command.add_argument
    configure_recording(command)
    add("kernel", help="a kernel of the catalog")
    add("--size", default="4096", help="edge, or MxNxK (default: %(default)s)")
    add(
        "--shapes",
        choices=["ragged"],
        help="measure the choice of tile on 20 ragged shapes instead",
    )
    add("--limit", type=int, help="the sweep times at most so many tiles, the best predicted")
    add("--workers", type=int, help="compiling processes (default: cores less one, at most 15)")


def configure_verify(command: argparse.ArgumentParser) -> None:
    """Arguments of `verify`."""
    add = command.add_argument
    configure_recording(command, out="the folder of the records (default: data/validation)")
    add("--sanitizer", action="store_true", help="only compute-sanitizer's four tools")
    add("--shapes", action="store_true", help="only the shapes")
    add("--kernels", default="", help="comma-separated names (default: all that the GPU can run)")
    add(
        "--workers", type=int, help="processes side by side (default: 3/4 of the cores, 12 at most)"
    )
    add("--count", type=int, help="shapes for each kernel")
    add("--limit", type=float, help="seconds after which one process counts as endless")
    add("--plan", action="store_true", help="show what would be run, and for how long; no GPU")


def configure_figures(command: argparse.ArgumentParser) -> None:
    """Arguments of `figures`."""
    command.add_argument("--gpu", default="h200", help="whose record (default: %(default)s)")
    command.add_argument("--size", default="4096", help="edge, or MxNxK (default: %(default)s)")
    command.add_argument("--out", type=Path, default=ROOT / "book" / "figures" / "ladder.svg")


COMMANDS: tuple[
    tuple[str, str, Run, Callable[[argparse.ArgumentParser], None] | None, bool], ...
] = (
    ("info", "the GPU at hand, the compiler, and what is recorded", run_info, None, True),
    (
        "ladder",
        "every kernel's time and share of cuBLAS at one size",
        run_ladder,
        configure_ladder,
        True,
    ),
    (
        "trace",
        "a kernel's memory accesses by source line, with no GPU",
        run_trace,
        configure_trace,
        True,
    ),
    ("record", "measure on this GPU into data/measurements", run_record, configure_record, False),
    ("sweep", "time every legal tile of a kernel on this GPU", run_sweep, configure_sweep, False),
    ("tune", "a kernel's best tile on this GPU, confirmed", run_tune, configure_tune, False),
    (
        "verify",
        "check every kernel on this GPU into data/validation",
        run_verify,
        configure_verify,
        False,
    ),
    (
        "notebooks",
        "make the Colab notebooks from the chapters",
        run_notebooks,
        configure_notebooks,
        False,
    ),
    ("figures", "draw the README's picture from the record", run_figures, configure_figures, False),
)


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="python -m helpers", description="Tile by Tile: CUDA matrix multiplication, measured."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text, run, configure, has_json in COMMANDS:
        command = commands.add_parser(name, help=text, description=(run.__doc__ or text))
        if configure is not None:
            configure(command)
        if has_json:
            command.add_argument("--json", action="store_true", help="print JSON and nothing else")
        command.set_defaults(run=run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    args = make_parser().parse_args(arguments)
    try:
        status: int = args.run(args)
        sys.stdout.flush()
        return status
    except TileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted; what was recorded so far is in the file", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, `head` say, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
