"""The command line: python -m helpers info | ladder | trace | run | record | sweep | tune ...

Errors go to stderr as one `error:` line with exit code 2; with --json, stdout is JSON alone.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from helpers.ladder import fitting
from helpers.ladder.kernel import ROOT
from helpers.ladder.rungs import catalog
from helpers.record.selection import parse_size
from helpers.wording import print_json, print_table
from nogpu import device, disk, toolchain
from nogpu.errors import ConfigError, TileError

# -- info ----------------------------------------------------------------------------------------


def gather_info() -> dict[str, Any]:
    """The GPU at hand, its driver, the compiler, the packages, what does not fit, and what is
    recorded."""
    from helpers.record import known_gpus, load, stale

    live = device.current()
    records = {}
    for key in known_gpus():
        record = load(key)
        records[key] = {
            "gpu": record.gpu["name"], "kernels": len({p["kernel"] for p in record.points}),
            "points": len(record.points), "counters": len(record.counters), "label": record.label(),
            "stale": stale(key),
        }  # fmt: skip
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
    ratios = [row["cublas_ratio"] for row in rows]
    percents = [None if ratio is None else 100 * ratio for ratio in ratios]
    shown = [{**row, "percent": p} for row, p in zip(rows, percents, strict=True)]
    print_table(
        shown, {"kernel": "", "ms": ".4g", "gflops": ",.0f", "percent": ".1f", "baseline": ""}
    )
    print("\npercent: of cuBLAS of the same precision (the baseline), the median of paired runs")
    for line in [] if args.live else reading.ladder_notes(rows, size, gpu):
        print(line)
    return 0


# -- trace ---------------------------------------------------------------------------------------


def parse_params(texts: Sequence[str]) -> dict[str, int]:
    """{"BM": 64} of ["BM=64"]."""
    params = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name or not value.isdigit():
            raise ConfigError(f"--param {text!r}: give a tile size as NAME=NUMBER, such as TILE=16")
        params[name] = int(value)
    return params


LINE_FIELDS = (
    "line", "text", "space", "op", "array", "width_bytes", "requests", "sectors",
    "sectors_per_request", "wavefronts", "wavefronts_per_request", "bytes",
)  # fmt: skip


def run_trace(args: argparse.Namespace) -> int:
    """Run a kernel in the emulator and show its memory accesses, line by line."""
    from helpers.ladder.launch import trace

    if args.kernel.endswith((".cu", ".cuh")) or Path(args.kernel).is_file():
        raise ConfigError(
            f"trace {args.kernel}: trace knows the book's kernels by name, and no files. For a file"
            f" type: python -m helpers run {args.kernel}"
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
            f"{p.kernel.name} ({with_tiles}), M={p.M}, N={p.N}, K={p.K}: grid {p.grid}, block"
            f" {p.block}; counts of the PTX, exact, with no cache\n"
        )
        own = {"global": "sectors_per_request", "shared": "wavefronts_per_request"}
        for row in rows:  # the other of the two says nothing about this kind of memory
            row.update({name: None for name in own.values() if name != own.get(str(row["space"]))})
        print_table(
            rows,
            {
                "line": "d", "space": "", "op": "", "array": "", "requests": ",d",
                "sectors_per_request": ".2f", "wavefronts_per_request": ".2f", "text": "",
            },
        )  # fmt: skip
    for finding in t.report.findings:
        print(f"finding: {finding}", file=sys.stderr)
    if t.wrong:
        print(f"finding: {t.wrong} elements of C are wrong", file=sys.stderr)
    return 0 if t.ok else 1


# -- run -----------------------------------------------------------------------------------------


def run_run(args: argparse.Namespace) -> int:
    """Run the kernels of any .cu file with no GPU: faults by line, counts by ncu's names."""
    from nogpu.command.line import run

    return run(args)


def configure_run(command: argparse.ArgumentParser) -> None:
    """Arguments of `run`."""
    from nogpu.command.line import configure

    configure(command)


# -- add-record ----------------------------------------------------------------------------------


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


# -- figures ------------------------------------------------------------------------------------


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


def configure_add_record(command: argparse.ArgumentParser) -> None:
    """Arguments of `add-record`."""
    add = command.add_argument
    add("file", type=Path, help="a file of measurements")
    add("--gpu", help="the record's name (default: that of the GPU that the file names)")
    add("--published", action="store_true", help="change the book's own record, too")


def configure_figures(command: argparse.ArgumentParser) -> None:
    """Arguments of `figures`."""
    command.add_argument("--gpu", default="h200", help="whose record (default: %(default)s)")
    command.add_argument("--size", default="4096", help="edge, or MxNxK (default: %(default)s)")
    command.add_argument("--out", type=Path, default=ROOT / "book" / "figures" / "ladder.svg")


def run_cache(args: argparse.Namespace) -> int:
    """Show where compiled and translated programs are kept between processes, or drop them."""
    if args.clear:
        print(f"{disk.clear()} entries thrown away from {disk.place()}")
        return 0
    contents = disk.contents()
    if args.json:
        print_json({**vars(contents), "folder": str(contents.folder)})
        return 0
    programs = ", ".join(f"{count} {kind}" for kind, count in contents.kinds.items()) or "none"
    print(f"folder:    {contents.folder}")
    print(f"programs:  {programs}")
    print(f"size:      {contents.bytes / 1e6:.1f} of {contents.most / 1e6:g} MB ({disk.LIMIT})")
    if not contents.used:
        print(f"not used:  {disk.SWITCH}=0 is set, or the folder is not this user's alone")
    return 0


def configure_cache(command: argparse.ArgumentParser) -> None:
    """Arguments of `cache`."""
    command.add_argument("--clear", action="store_true", help="throw every program away")


# -- the commands --------------------------------------------------------------------------------

CLASS, RECORDER, NOTEBOOKS = "tilelabs.grading", "tools.recorder", "tools.notebooks"
COMMANDS = (
    ("info", "the GPU at hand, the compiler, and what is recorded", "", True),
    ("ladder", "every kernel's time and share of cuBLAS at one size", "", True),
    ("trace", "a kernel's memory accesses by source line, with no GPU", "", True),
    ("run", "any .cu file with no GPU: faults by line, counts, occupancy", "", True),
    ("record", "measure on this GPU into data/measurements", RECORDER, False),
    ("add-record", "put your own measurements into data/measurements", "", False),
    ("sweep", "time every legal tile of a kernel on this GPU", RECORDER, False),
    ("tune", "a kernel's best tile on this GPU, confirmed", RECORDER, False),
    ("verify", "check every kernel on this GPU into data/validation", RECORDER, False),
    ("notebooks", "make the Colab notebooks from the chapters", NOTEBOOKS, False),
    ("labs", "the labs of a class, and what they are worth", CLASS, True),
    ("check", "a lab's kernel: points by part, without a GPU", CLASS, True),
    ("submit", "a lab's one file to hand in", CLASS, False),
    ("course", "a new course: its secret and its tables", CLASS, False),
    ("handout", "the student's notebook of a lab", CLASS, False),
    ("grade", "judge a folder of submissions, resumable", CLASS, False),
    ("similar", "folders for JPlag and Dolos, which find kernels that are alike", CLASS, False),
    ("report", "marks and feedback of what was judged", CLASS, False),
    ("cache", "the compiled programs kept on disk", "", True),
    ("figures", "draw the README's picture from the record", "", False),
)
"""Name, summary, the package whose `commands` hold `run_` and `configure_` of that name ("": here),
and whether it can print JSON.
"""


def loaded(package: str) -> Any:
    """The module with a command's functions, imported when that command is called.

    Raises ConfigError where it lies in tools/, and tools/ is not beside helpers/.
    """
    if not package:
        return sys.modules[__name__]
    if package.startswith("tools."):
        folder = package.replace(".", "/")
        if not (ROOT / folder).is_dir():
            raise ConfigError(
                f"this command lies in {folder}, which only a checkout of the book's repository"
                " has, and not an installed package. Clone the repository and run it there"
            )
        if str(ROOT) not in sys.path:
            sys.path.insert(0, str(ROOT))
    return import_module(f"{package}.commands")


def make_parser(only: str = "") -> argparse.ArgumentParser:
    """The parser of the whole command line, with the arguments of one command, where it is named.

    So a command imports what it needs itself, and works where what others need is not there.
    """
    parser = argparse.ArgumentParser(
        prog="python -m helpers", description="Tile by Tile: CUDA matrix multiplication, measured."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text, package, has_json in COMMANDS:
        command = commands.add_parser(name, help=text)
        if only == name:
            module, function = loaded(package), name.replace("-", "_")
            run = getattr(module, f"run_{function}")
            command.description = run.__doc__
            command.set_defaults(run=run)
            getattr(module, f"configure_{function}", lambda _: None)(command)
        if has_json:
            command.add_argument("--json", action="store_true", help="print JSON and nothing else")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        named = next((word for word in words if not word.startswith("-")), "")
        args = make_parser(named).parse_args(words)
        status: int = args.run(args)
        sys.stdout.flush()
        return status
    except TileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted; what was finished is kept", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, `head` say, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
