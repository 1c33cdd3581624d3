"""The command line: `python -m nogpu run my.cu`, and the same as a command of others."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path

from nogpu.command import session, shown, sources
from nogpu.command.settings import TELL, Options
from nogpu.errors import ConfigError, TileError


def configure(command: argparse.ArgumentParser) -> None:
    """Arguments of `run`, but for --json."""
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.epilog = (
        f"{TELL}\n\nExit status: 0 clean, 1 findings or wrong results, 2 it cannot run, or "
        "one of the kernels that it launches was not."
    )
    command.add_argument("file", type=Path, help="a .cu file, as it is")
    for option in fields(Options):
        several = option.default is MISSING
        command.add_argument(
            "-D" if option.name == "define" else f"--{option.name}", dest=option.name,
            action="append" if several else "store", default=[] if several else option.default,
            type=str if several or option.default is None else type(option.default),
            **option.metadata,
        )  # fmt: skip
    words = "write a page: the source with counts and faults"
    command.add_argument("--html", type=Path, metavar="FILE", help=words)


def _pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not re.fullmatch(r"\w+", name) or (not sign and option != "define"):
            dashed = "-D" if option == "define" else f"--{option}"
            raise ConfigError(f"{dashed} {text}: give NAME=VALUE. {TELL}")
        pairs[name] = value if sign else "1"
    return pairs


def run(args: argparse.Namespace) -> int:
    """Run the kernels of a .cu file with no GPU: faults by line, counts by ncu's names."""
    given = {f.name: getattr(args, f.name) for f in fields(Options)}
    given |= {name: _pairs(given[name], name) for name in ("arg", "set", "define")}

    def show(facts: shown.Facts) -> None:
        if not args.json:
            print(shown.latest(facts), flush=True)  # a run that is cut off shows what has run

    facts = session.run(sources.read(args.file), Options(**given), show)
    if args.html:
        text = args.file.read_text(encoding="utf-8-sig")
        args.html.write_text(shown.as_html(facts, text), encoding="utf-8")
    if args.json:
        print(json.dumps(facts, indent=1, default=int))
    if facts["status"] == "not followed":
        print(f"error: not every kernel was run: {facts['host']}", file=sys.stderr)
    return {"clean": 0, "findings": 1}.get(facts["status"], 2)


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m nogpu`; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m nogpu", description="CUDA without a GPU.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = commands.add_parser("run", help=run.__doc__, description=run.__doc__)
    configure(command)
    command.add_argument("--json", action="store_true", help="print JSON and nothing else")
    args = parser.parse_args(arguments)
    try:
        status = run(args)
        sys.stdout.flush()
        return status
    except TileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output, `head` say, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
