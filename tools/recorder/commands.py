"""The commands `record`, `sweep`, `tune` and `verify` of `python -m helpers`.

Of each, `configure_` adds its arguments and `run_` carries it out and returns the exit status.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers.ladder.model import merit
from helpers.ladder.rungs import catalog
from helpers.record.selection import DEFAULT_GPU, parse_size
from helpers.wording import print_table
from nogpu import device
from nogpu.errors import ConfigError
from tools.recorder import campaign, cpu_times, tile_builds
from tools.recorder.sections import OPTIONS, sweep
from tools.recorder.steps import Outcome, Request


def parse_sizes(text: str) -> tuple[tuple[int, int, int], ...]:
    """Sizes separated by commas."""
    return tuple(dict.fromkeys(parse_size(part) for part in text.split(",") if part.strip()))


def parse_names(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_skip(texts: Sequence[str]) -> dict[str, int]:
    """{"naive": 4096} of ["naive:4096"]."""
    edges = {}
    for text in texts:
        name, sign, edge = text.partition(":")
        if not sign or not edge.isdigit() or int(edge) < 1:
            raise ConfigError(f"--skip-above {text!r}: give KERNEL:EDGE, such as naive:4096")
        if name not in catalog:
            catalog[name]  # raises UnknownKernelError with near matches
        edges[name] = int(edge)
    return edges


def print_plan(steps: Sequence[tuple[str, float]]) -> int:
    """Show what a command would do, with an estimate of its seconds."""
    for what, seconds in steps:
        print(f"{seconds:7.1f} s  {what}")
    print(f"{sum(seconds for _, seconds in steps):7.1f} s  in all, by estimate")
    return 0


FIELDS: Mapping[str, Mapping[str, Any]] = {
    "gpu": {"help": "the record's name (default: this GPU's)"},
    "out": {"type": Path, "help": "the file (default: data/measurements/GPU.json)"},
    "commit": {"help": "what to note as the commit (default: TILE_COMMIT, or git's)"},
    "seconds": {"type": float, "help": "stop cleanly before this much time is spent"},
    "again": {"action": "store_true", "help": "do what is recorded already, too"},
    "sizes": {
        "default": "",
        "help": "comma-separated edges or MxNxK (default: 512,1024,1025,2048,4096,8192); with "
        "--no-points those of --counters",
    },
    "kernels": {
        "default": "", "help": "comma-separated names, cublas_fp32 and the like included",
    },
    "skip_above": {
        "action": "append", "default": [], "metavar": "KERNEL:EDGE", "help": "leave a slow one out",
    },
    "workers": {
        "type": int, "help": "compiling processes (default: cores less one, at most 15)",
    },
    "limit": {"type": float, "help": "at most so many tiles a kernel, the best predicted"},
    "count": {"type": int, "help": "shapes for each kernel"},
}  # fmt: skip
"""The fields of a request that the command line shows, as argparse reads them."""
PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "sizes": parse_sizes, "skip_above": parse_skip,
    "kernels": lambda given: tuple(given) if isinstance(given, list) else parse_names(given),
}  # fmt: skip
"""What makes a field of what was read."""


def add_fields(command: argparse.ArgumentParser, *names: str, **instead: Mapping[str, Any]) -> None:
    """Arguments for fields of a request, each called as the field. instead: what differs in this
    command, "flag" among it; "" makes it a positional one."""
    for name, options in FIELDS.items():
        if name in names:
            how = {**options, **instead.get(name, {})}
            flag = how.pop("flag", "--" + name.replace("_", "-"))
            command.add_argument(*([flag] if flag else []), dest=name, **how)


def requested(args: argparse.Namespace, **more: Any) -> Request:
    """The request that arguments make. more: fields that are no arguments, or come from several."""
    given = {name: getattr(args, name, None) for name in FIELDS}
    made = {n: PARSERS[n](v) if n in PARSERS else v for n, v in given.items() if v is not None}
    return Request(**made, **more)


def say(line: str) -> None:
    """Show a line of progress at once."""
    print(line, flush=True)


def conclude(outcome: Outcome, counts: str, again: str = "", kind: str = "refused") -> int:
    """Say what came of a campaign; its exit status."""
    say(f"{counts}, {len(outcome.refused)} refused, {len(outcome.left)} left for want of time")
    for text in (*outcome.faults, *outcome.refused):
        print(f"{kind}: {text}", file=sys.stderr)
    if outcome.left and again:
        say(f"Run the same command again to go on; {again}.")
    return 1 if outcome.faults or outcome.refused else 0


def run_record(args: argparse.Namespace) -> int:
    """Measure on this machine's GPU and merge the points into a measurement file."""
    sections = [name for name in OPTIONS if getattr(args, name) or args.all]
    request = requested(
        args,
        sections=(*([] if args.no_points else ["points"]), *sections),
        finish=not (args.kernels or args.sizes or args.host or sections),
    )
    if args.plan:
        return print_plan(campaign.planned(request))
    outcome = campaign.run(request, say)
    if args.host or args.all:
        cpu_times.record_host(outcome.path, campaign.commit(args.commit), again=args.again, say=say)
    counts = (
        f"{outcome.path}: {outcome.measured} points measured, {outcome.present} there already, "
        f"{outcome.illegal} not allowed by a rule"
    )
    return conclude(outcome, counts, "what is in the file is not measured twice")


def run_sweep(args: argparse.Namespace) -> int:
    """Time every legal tile of one or more kernels on this machine's GPU."""
    request = requested(args, sections=("sweep",))
    if args.list:
        table, (size,) = device.gpu(args.gpu or DEFAULT_GPU), request.sizes
        names = tile_builds.chosen_kernels(request.kernels)
        rows = [
            {"kernel": name, "tile": ", ".join(f"{n}={v}" for n, v in tile.items()),
             "merit": merit(name, size, table, tile)}
            for name, tile in sweep.order(names, size, table, args.limit)
        ]  # fmt: skip
        print_table(rows, {"kernel": "", "tile": "", "merit": ".3f"})
        return 0
    if args.compile:
        archs = parse_names(args.compile)
        done = tile_builds.compile_tiles(request.kernels, archs, workers=args.workers or 1)
        print(done, "tiles compiled")
        return 0
    outcome = campaign.run(request, say)
    counts = (
        f"{outcome.path}: {outcome.measured} tiles timed, {outcome.present} there already, "
        f"{outcome.pruned} pruned by their resources"
    )
    return conclude(outcome, counts, "what is in the file is not timed twice")


def run_tune(args: argparse.Namespace) -> int:
    """Find a kernel's best tile on this GPU and confirm it, or time the choice on ragged shapes."""
    request = requested(args, sections=("ragged",) if args.shapes == "ragged" else ("tuned",))
    outcome = campaign.tune(request, say)
    counts = f"{outcome.path}: {outcome.measured} confirmed, {outcome.present} there already"
    return conclude(outcome, counts)


def run_verify(args: argparse.Namespace) -> int:
    """Check every kernel on this machine's GPU: under compute-sanitizer, and over many shapes."""
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


RECORDING = ("gpu", "out", "commit", "seconds", "again")
"""What every command that records a GPU is asked."""


def configure_record(command: argparse.ArgumentParser) -> None:
    """Arguments of `record`."""
    add = command.add_argument
    add_fields(command, *RECORDING, "sizes", "kernels", "skip_above")
    add("--no-points", action="store_true", help="no kernel times, only what is asked for below")
    for name, section in OPTIONS.items():
        add(f"--{name.replace('_', '-')}", action="store_true", help=section.option)
    add("--host", action="store_true", help="the CPU loops and NumPy on this machine")
    add("--plan", action="store_true", help="show what would be measured, and for how long; no GPU")
    add("--all", action="store_true", help=f"{', '.join(OPTIONS)} and host")


ONE_SIZE = {"flag": "--size", "metavar": "SIZE", "default": "4096"}
ONE_SIZE["help"] = "edge, or MxNxK (default: %(default)s)"


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
