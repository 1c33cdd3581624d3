"""The command line: python -m helpers info | ladder | trace | record | sweep | tune | verify ...

Errors go to stderr as one `error:` line with exit code 2; with --json, stdout is JSON alone.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from helpers.ladder import fitting
from helpers.ladder.kernel import ROOT
from helpers.ladder.rungs import catalog
from helpers.wording import print_json
from nogpu import device, disk, toolchain
from nogpu.errors import ConfigError, TileError
from tilelabs.grading import commands as of_a_class

Run = Callable[[argparse.Namespace], int]


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


def gather_info() -> dict[str, Any]:
    """The GPU at hand, its driver, the compiler, the packages, what does not fit, and what is
    recorded.
    """
    from helpers.record import known_gpus, load, stale

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
    tool = toolchain.nvrtc() if toolchain.has_nvrtc() else None
    driver = device.driver_cuda()
    return {
        "gpu": None if live is None else {**vars(live), "key": live.known and live.known.key},
        "backend": "cuda" if live else "emulator",
        "driver_cuda": ".".join(map(str, driver)) if driver else None,
        "nvrtc": ".".join(map(str, tool.version)) if tool else None,
        "nvrtc_path": tool.path if tool else None,
        "nvrtc_why": tool.why if tool else None,
        "compiler": toolchain.compiler() if toolchain.available() else None,
        "cublas": None if live is None else fitting.has_cublas(),
        "python": sys.version.split()[0],
        "numpy": fitting.version("numpy"),
        "cupy": next(iter(fitting.cupy_packages().values()), None),
        "misfits": fitting.misfits(),
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
    driver = (
        f"for CUDA {info['driver_cuda']}" if info["driver_cuda"] else "no NVIDIA driver answers"
    )
    print(f"driver:    {driver}")
    why = f" ({info['nvrtc_why']})" if info["nvrtc_why"] and not toolchain.uses_clang() else ""
    print(f"compiler:  {info['compiler'] or 'not found. ' + toolchain.INSTALL_HINT}{why}")
    if gpu:
        print(f"cuBLAS:    {'found' if info['cublas'] else 'not found'}")
    print(f"Python:    {info['python']}, NumPy {info['numpy']}, CuPy {info['cupy'] or 'none'}")
    for text in info["misfits"]:
        print(f"does not fit: {text}")
    print(f"kernels:   {len(info['kernels'])}: {', '.join(info['kernels'])}")
    for key, record in info["records"].items():
        print(f"record:    {key}: {record['points']} points of {record['kernels']} kernels;")
        print(f"           {record['label']}")
        if stale := sorted({text.split()[0] for text in record["stale"]}):
            print(f"           measured before their code changed: {', '.join(stale)}")
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
    from helpers.record import DEFAULT_GPU, ladder, reading
    from helpers.record.sources import live_ladder

    size, gpu = parse_size(args.size), args.gpu or DEFAULT_GPU
    rows = live_ladder(size) if args.live else ladder(gpu, size)
    if args.json:
        print_json(rows)
        return 0
    print(reading.ladder_title(rows, size, live=args.live) + "\n")
    shown = [
        {**row, "percent": None if row["cublas_ratio"] is None else 100 * row["cublas_ratio"]}
        for row in rows
    ]
    print_table(
        shown, {"kernel": "", "ms": ".4g", "gflops": ",.0f", "percent": ".1f", "baseline": ""}
    )
    print("\npercent: of cuBLAS of the same precision (the baseline), the median of paired runs")
    for line in [] if args.live else reading.ladder_notes(rows, size, gpu):
        print(line)
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
    from helpers.ladder.launch import trace

    if args.kernel.endswith((".cu", ".cuh")):
        raise ConfigError(
            f"trace {args.kernel}: trace knows the book's kernels by name, and no files. For a file of your own: "
            "from helpers.page.workbench import mine; "
            f"mine(open({args.kernel!r}).read(), grid=..., block=..., args=(...))"
        )
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


def fields_of_request() -> dict[str, tuple[Any, Mapping[str, Any]]]:
    """The type, and what the command line says, of each field of a request that it shows."""
    from helpers.record.steps import Request

    hints = get_type_hints(Request)
    return {f.name: (hints[f.name], f.metadata) for f in fields(Request) if f.metadata}


READ_AS: Mapping[Any, Mapping[str, Any]] = {
    bool: {"action": "store_true"},
    int | None: {"type": int},
    float | None: {"type": float},
    Path | None: {"type": Path},
    str | None: {},
    tuple[str, ...]: {"default": ""},
    tuple[tuple[int, int, int], ...]: {"default": ""},
    Mapping[str, int]: {"action": "append", "default": []},
}
"""How argparse reads a field of each type; `requested` makes the field of it."""


def add_fields(command: argparse.ArgumentParser, *names: str, **instead: Mapping[str, Any]) -> None:
    """Arguments for fields of a request, each called as the field. instead: what differs in this
    command, "flag" among it; "" makes it a positional one.
    """
    for name, (kind, said) in fields_of_request().items():
        if name in names:
            how = {**said, **READ_AS[kind], **instead.get(name, {})}
            flag = how.pop("flag", "--" + name.replace("_", "-"))
            command.add_argument(*([flag] if flag else []), dest=name, **how)


def requested(args: argparse.Namespace, **more: Any) -> Any:
    """The request that arguments make. more: fields that are no arguments, or come from several."""
    from helpers.record.steps import Request

    parsers = {"sizes": parse_sizes, "skip_above": parse_skip}
    given: dict[str, Any] = {}
    for name in fields_of_request():
        value = getattr(args, name, None)
        if name == "kernels" and value is not None:
            value = tuple(value) if isinstance(value, list) else parse_names(value)
        elif name in parsers and value is not None:
            value = parsers[name](value)
        if value is not None:
            given[name] = value
    return Request(**given, **more)


def say(line: str) -> None:
    """Show a line of progress at once."""
    print(line, flush=True)


def conclude(outcome: Any, counts: str, again: str = "", kind: str = "refused") -> int:
    """Say what came of a campaign; its exit status."""
    say(f"{counts}, {len(outcome.refused)} refused, {len(outcome.left)} left for want of time")
    for text in (*outcome.faults, *outcome.refused):
        print(f"{kind}: {text}", file=sys.stderr)
    if outcome.left and again:
        say(f"Run the same command again to go on; {again}.")
    return 1 if outcome.faults or outcome.refused else 0


def run_record(args: argparse.Namespace) -> int:
    """Measure on this machine's GPU and merge the points into a measurement file."""
    from helpers.record import campaign, host
    from helpers.record.sections import OPTIONS

    asked = [name for name in OPTIONS if getattr(args, name) or args.all]
    request = requested(
        args,
        sections=(*([] if args.no_points else ["points"]), *asked),
        finish=not (args.kernels or args.sizes or args.host or asked),
    )
    if args.plan:
        return print_plan(campaign.planned(request))
    outcome = campaign.run(request, say)
    if args.host or args.all:
        host.record_host(outcome.path, campaign.commit(args.commit), again=args.again, say=say)
    counts = (
        f"{outcome.path}: {outcome.measured} points measured, {outcome.present} there already, "
        f"{outcome.illegal} not allowed by a rule"
    )
    return conclude(outcome, counts, "what is in the file is not measured twice")


def run_add_record(args: argparse.Namespace) -> int:
    """Check a file of your own measurements and put it into the records of your copy of the book.

    The file is what `python -m helpers record --out FILE` writes on your GPU, or m.save("FILE") in
    a page, where m is what measure(...) returned.
    """
    from helpers.record.adding import add_record

    done = add_record(args.file, args.gpu, published=args.published)
    print(f"{done.path}: {done.new} new, {done.replaced} in place of older ones, of the {done.gpu}")
    if done.stale:
        print(f"The code of {', '.join(done.stale)} has changed since it was measured.")
    print(
        f'See it with: python -m helpers ladder --gpu {done.key}, or measure(..., gpu="{done.key}")'
    )
    return 0


def run_sweep(args: argparse.Namespace) -> int:
    """Time every legal tile of one or more kernels on this machine's GPU."""
    from helpers.ladder.model import merit
    from helpers.record import DEFAULT_GPU, campaign, tiles
    from helpers.record.sections import sweeping

    request = requested(args, sections=("sweep",))
    if args.list:
        table, (size,) = device.gpu(args.gpu or DEFAULT_GPU), request.sizes
        names = tiles.chosen_kernels(request.kernels)
        rows = [
            {"kernel": name, "tile": ", ".join(f"{n}={v}" for n, v in tile.items()),
             "merit": merit(name, size, table, tile)}
            for name, tile in sweeping.order(names, size, table, args.limit)
        ]  # fmt: skip
        print_table(rows, {"kernel": "", "tile": "", "merit": ".3f"})
        return 0
    if args.compile:
        archs = parse_names(args.compile)
        done = tiles.compile_tiles(request.kernels, archs, workers=args.workers or 1)
        print(done, "tiles compiled")
        return 0
    outcome = campaign.run(request, say)
    counts = (
        f"{outcome.path}: {outcome.measured} tiles timed, {outcome.present} there already, "
        f"{outcome.pruned} pruned by their resources"
    )
    return conclude(outcome, counts, "what is in the file is not timed twice")


def run_tune(args: argparse.Namespace) -> int:
    """Find a kernel's best tile on this GPU and confirm it, or measure the choice on ragged shapes."""
    from helpers.record import campaign

    request = requested(args, sections=("ragged",) if args.shapes == "ragged" else ("tuned",))
    outcome = campaign.tune(request, say)
    counts = f"{outcome.path}: {outcome.measured} confirmed, {outcome.present} there already"
    return conclude(outcome, counts)


def run_verify(args: argparse.Namespace) -> int:
    """Check every kernel on this machine's GPU: under compute-sanitizer, and over many shapes."""
    from helpers.record import campaign

    both = args.sanitizer == args.shapes
    chosen = [name for name in ("shapes", "sanitizer") if both or getattr(args, name)]
    request = requested(args, sections=tuple(chosen))
    if args.plan:
        return print_plan(campaign.planned(request))
    outcome = campaign.run(request, say)
    counts = (
        f"{outcome.measured} rows recorded, {outcome.present} there already, "
        f"{len(outcome.faults)} with a fault"
    )
    again = "what is in the files is not run twice"
    return conclude(outcome, counts, again, kind="fault")


# -- notebooks, figures --------------------------------------------------------------------------


def configure_notebooks(command: argparse.ArgumentParser) -> None:
    """Arguments of `notebooks`, from the exporter."""
    from tools.notebooks import commands

    commands.configure(command)


def run_notebooks(args: argparse.Namespace) -> int:
    """Make book/*.ipynb from the chapters."""
    from tools.notebooks import commands

    return commands.run(args)


def run_figures(args: argparse.Namespace) -> int:
    """Draw the README's picture of the ladder from the record."""
    from helpers import draw as plots
    from helpers.record import measure

    rungs = [name for name, k in catalog.items() if k.baseline != "none"]
    size = parse_size(args.size)
    picture = plots.ladder(measure(rungs, size, gpu=args.gpu))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    print(picture.savefig(args.out))
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


RECORDING = ("gpu", "out", "commit", "seconds", "again")
"""What every command that records a GPU is asked."""


def configure_record(command: argparse.ArgumentParser) -> None:
    """Arguments of `record`."""
    from helpers.record.sections import OPTIONS

    add = command.add_argument
    add_fields(command, *RECORDING, "sizes", "kernels", "skip_above")
    add("--no-points", action="store_true", help="no kernel times, only what is asked for below")
    for name, section in OPTIONS.items():
        add(f"--{name.replace('_', '-')}", action="store_true", help=section.option)
    add("--host", action="store_true", help="the CPU loops and NumPy on this machine")
    add("--plan", action="store_true", help="show what would be measured, and for how long; no GPU")
    add("--all", action="store_true", help=f"{', '.join(OPTIONS)} and host")


ONE_SIZE = {
    "flag": "--size",
    "metavar": "SIZE",
    "default": "4096",
    "help": "edge, or MxNxK (default: %(default)s)",
}


def configure_add_record(command: argparse.ArgumentParser) -> None:
    """Arguments of `add-record`."""
    add = command.add_argument
    add("file", type=Path, help="a file of measurements")
    add("--gpu", help="the record's name (default: that of the GPU that the file names)")
    add("--published", action="store_true", help="change the book's own record, too")


def configure_sweep(command: argparse.ArgumentParser) -> None:
    """Arguments of `sweep`."""
    which = "kernels of the catalog (default: those of chapters 06 to 14)"
    kernels = {"flag": "", "nargs": "*", "metavar": "kernel", "default": [], "help": which}
    options = (*RECORDING, "kernels", "sizes", "limit", "workers")
    add_fields(command, *options, kernels=kernels, sizes=ONE_SIZE, limit={"type": int})
    add = command.add_argument
    add(
        "--compile", metavar="ARCHS", help="no timing: registers of every tile into data/tiles.json"
    )
    add("--list", action="store_true", help="show the tiles in their order; needs no GPU")


def configure_tune(command: argparse.ArgumentParser) -> None:
    """Arguments of `tune`."""
    kernel = {"flag": "", "metavar": "kernel", "help": "a kernel of the catalog"}
    limit = {"type": int, "help": "the sweep times at most so many tiles, the best predicted"}
    options = (*RECORDING, "kernels", "sizes", "limit", "workers")
    add_fields(command, *options, kernels=kernel, sizes=ONE_SIZE, limit=limit)
    command.add_argument(
        "--shapes",
        choices=["ragged"],
        help="measure the choice of tile on 20 ragged shapes instead",
    )


def configure_verify(command: argparse.ArgumentParser) -> None:
    """Arguments of `verify`."""
    side = "processes side by side (default: 3/4 of the cores, 12 at most)"
    add_fields(
        command,
        *(*RECORDING, "kernels", "workers", "count", "limit"),
        out={"help": "the folder of the records (default: data/validation)"},
        kernels={"help": "comma-separated names (default: all that the GPU can run)"},
        workers={"help": side},
        limit={"help": "seconds after which one process counts as endless"},
    )
    add = command.add_argument
    add("--sanitizer", action="store_true", help="only compute-sanitizer's four tools")
    add("--shapes", action="store_true", help="only the shapes")
    add("--plan", action="store_true", help="show what would be run, and for how long; no GPU")


def configure_figures(command: argparse.ArgumentParser) -> None:
    """Arguments of `figures`."""
    command.add_argument("--gpu", default="h200", help="whose record (default: %(default)s)")
    command.add_argument("--size", default="4096", help="edge, or MxNxK (default: %(default)s)")
    command.add_argument("--out", type=Path, default=ROOT / "book" / "figures" / "ladder.svg")


def run_cache(args: argparse.Namespace) -> int:
    """Show where compiled and translated programs are kept between processes, or throw them away."""
    if args.clear:
        print(f"{disk.clear()} entries thrown away from {disk.place()}")
        return 0
    held = disk.contents()
    if args.json:
        print_json({**vars(held), "folder": str(held.folder)})
        return 0
    programs = ", ".join(f"{count} {kind}" for kind, count in held.kinds.items()) or "none"
    print(f"folder:    {held.folder}")
    print(f"programs:  {programs}")
    print(f"size:      {held.bytes / 1e6:.1f} of {held.most / 1e6:g} MB ({disk.LIMIT})")
    if not held.used:
        print(f"not used:  {disk.SWITCH}=0 is set, or the folder is not this user's alone")
    return 0


def configure_cache(command: argparse.ArgumentParser) -> None:
    """Arguments of `cache`."""
    command.add_argument("--clear", action="store_true", help="throw every program away")


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
    (
        "add-record",
        "put your own measurements into data/measurements",
        run_add_record,
        configure_add_record,
        False,
    ),
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
    *of_a_class.COMMANDS,
    ("cache", "the compiled programs kept on disk", run_cache, configure_cache, True),
    ("figures", "draw the README's picture from the record", run_figures, configure_figures, False),
)


def make_parser(only: str = "") -> argparse.ArgumentParser:
    """The parser of the whole command line; of one command, where it is named, alone its arguments.

    So a command imports what it needs itself, and works where what others need is not there.
    """
    parser = argparse.ArgumentParser(
        prog="python -m helpers", description="Tile by Tile: CUDA matrix multiplication, measured."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text, run, configure, has_json in COMMANDS:
        command = commands.add_parser(name, help=text, description=(run.__doc__ or text))
        if configure is not None and only in ("", name):
            configure(command)
        if has_json:
            command.add_argument("--json", action="store_true", help="print JSON and nothing else")
        command.set_defaults(run=run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    args = make_parser(given[0] if given else "").parse_args(given)
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
