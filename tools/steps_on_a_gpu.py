"""What each single change is worth on the GPU at hand: data/validation/steps_<gpu>.json.

    python -m tools.steps_on_a_gpu [--out FILE] [--chapter 21]

The steps of kernels/steps/ are compared with float64 over many shapes, and compute-sanitizer
watches them. Then the links of helpers/ladder/chains.py: each takes the best of its tiles, and all
of a chapter are timed in turn, with cuBLAS. On a card of compute capability 10.0 the same is done
with the kernels of kernels/blackwell/ (chapter 25), which run on no other.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers.ladder import rungs
from helpers.ladder.chains import CHAINS, Link, Tile, links
from helpers.ladder.kernel import ROOT, Kernel, geometry
from helpers.ladder.rungs import blackwell, steps
from helpers.record import protocol, stamps, trials
from helpers.record.entries import CHECKS
from helpers.record.gpu import Session
from helpers.record.telemetry import Telemetry
from nogpu.errors import ConfigError, TileError
from tools import beside
from tools.recorder import campaign, sanitizer
from tools.recorder.sections import sanitized, shapes

SIZES = (2048, 4096, 8192)
BESIDE_16 = (1026, 2050, 4100)
"""Sizes for chapter 19, where rows start at 4 and at 8 bytes."""
SHORT: Mapping[int, int] = {1027: 35, 2051: 35, 4099: 35}
"""K by M = N, for chapter 19: odd rows, and K is short."""
TUNED_AT = 4096
"""M = N = K at which a link's best tile is chosen."""
TRY = protocol.Effort(seconds=0.1, max_pairs=20, warm_ms=30.0)
COUNT = 100
"""Shapes that each step is compared at, and again where nothing is aligned."""


def chapters() -> tuple[str, ...]:
    """Chapters that have a chain."""
    return tuple(dict.fromkeys(name.split(",")[0] for name in CHAINS))


def chapters_for(arch: str, chosen: Sequence[str] | None) -> tuple[str, ...]:
    """The chapters of which a GPU of an architecture times the links: those asked for, or all.

    Raises ConfigError for one whose kernels it does not run.
    """
    able = ("25",) if arch.startswith("sm_100") else chapters()
    if wrong := [chapter for chapter in chosen or () if chapter not in able]:
        raise ConfigError(f"--chapter {wrong[0]}: this GPU ({arch}) times {', '.join(able)}")
    return tuple(chosen or able)


def sizes(chapter: str) -> tuple[int, ...]:
    """M = N at which the links of a chapter are timed; K is the same, or that of SHORT."""
    return (*BESIDE_16, *SHORT) if chapter == "19" else SIZES


def compared(k: Kernel) -> dict[str, Any]:
    """How many elements of a step are wrong over COUNT shapes, and over as many that are shifted."""
    task = {"kernel": k.name, "shapes": shapes.shapes(k, COUNT), "seed": shapes.SEED}
    aligned, shifted = (
        shapes.check_shapes({**task, "shifted": shifted}) for shifted in (False, True)
    )
    row = {"kernel": k.name, "source": rungs.fingerprint(k), "shapes": aligned["shapes"]}
    row |= {what: aligned[what] for what in ("worst", "wrong", "wrong_at")}
    return row | {f"shifted_{what}": shifted[what] for what in ("shapes", "worst", "wrong")}


def watched(
    arch: str, chosen: Mapping[str, Kernel]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What each check of compute-sanitizer says of each step, at whole tiles and at others; and of
    kernels with a known fault, without which its silence would say nothing."""
    rows, ends = [], time.monotonic() + 400

    def left() -> float:
        return ends - time.monotonic()

    with tempfile.TemporaryDirectory(prefix="tile-by-tile-") as folder:
        sources = {
            name: sanitized.source(k, k.source, arch, sanitized.watched_params(k))
            for name, k in chosen.items()
        }
        workers = sanitizer.workers(0)
        sources |= sanitized.control_sources(arch)
        cubins = sanitizer.compile_all(sources, Path(folder), workers)
        controls = sanitized.watch_controls(cubins, workers, sanitized.LIMIT, left)
        tasks = []
        for name, k in chosen.items():
            params, at = sanitized.watched_params(k), sanitized.watched_shapes(k)
            for check in CHECKS:
                jobs = tuple(
                    sanitized.launched(name, size, params, cubins[name], check)
                    for size in at.values()
                )
                row = {"kernel": name, "check": check, "launches": len(jobs)}
                tasks.append(sanitizer.Task(f"{name} under {check}", check, jobs, row))
        for task, verdict in sanitizer.side_by_side(
            tasks, workers=workers, limit=sanitized.LIMIT, left=left
        ):
            wrong = sum(report.get("wrong") or 0 for report in verdict.launches)
            rows.append(
                {**task.row, "state": verdict.state, "errors": verdict.errors, "wrong": wrong,
                 "first": verdict.first}
            )  # fmt: skip
            if not sanitized.fine(verdict):
                print(f"{task.what}: {verdict.state}, {verdict.first}", flush=True)
    rows.sort(key=lambda row: (row["kernel"], CHECKS.index(row["check"])))
    return rows, [{"check": c.check, "why": c.why, "errors": c.errors} for c in controls]


def tuned(session: Session, chapter: str, link: Link) -> tuple[Tile, list[dict[str, Any]]]:
    """The tile of a link that is quickest at TUNED_AT, or near it, and what each took."""
    size = (TUNED_AT if chapter != "19" else BESIDE_16[-1],) * 3
    if len(link.tiles) == 1:
        return link.tiles[0], []
    contenders = {
        str(i): trials.of_plan(geometry(link.at(tile), *size), f"{link.label} with {dict(tile)}")
        for i, tile in enumerate(link.tiles)
    }
    took = trials.trial(session, size, contenders, TRY).ms
    best = min(took, key=lambda i: took[i].median)
    tries = [{"tile": dict(tile), "ms": took[str(i)].median} for i, tile in enumerate(link.tiles)]
    return link.tiles[int(best)], tries


def timed(session: Session, chapter: str, telemetry: Telemetry) -> list[dict[str, Any]]:
    """A row a link and size: ms of a launch and quartiles, its time against each other's, clock and
    power meanwhile."""
    chosen: dict[str, tuple[Kernel, Tile, list[dict[str, Any]]]] = {}
    for link in links(chapter):
        tile, tries = tuned(session, chapter, link)
        chosen[link.label] = link.at(tile), {**tile, **link.fixed}, tries
        print(f"{chapter}: {link.label} takes {dict(tile) or 'its own tile'}", flush=True)
    rows = []
    for edge in sizes(chapter):
        size = (edge, edge, SHORT.get(edge, edge))
        plans = {label: geometry(k, *size) for label, (k, *_) in chosen.items()}
        contenders = {label: trials.of_plan(p, label) for label, p in plans.items()}
        contenders |= trials.yardstick(session, next(iter(plans.values())), chapter)
        done = trials.trial(session, size, contenders)
        for label, took in beside.tried(done, telemetry).items():
            k, tile, tries = chosen.get(label, (None, {}, []))
            rate, source = done.rates[label], None if k is None else rungs.fingerprint(k)
            rows.append(
                {"chapter": chapter, "label": label, "size": edge, "k": size[2], "tile": dict(tile),
                 "source": source, "tries": tries, "gflops": rate, **took}
            )  # fmt: skip
            print(f"{edge} {label:45s} {took['ms']:9.4f} ms {rate / 1e3:7.1f}", flush=True)
    return rows


def main(given: Sequence[str] | None = None) -> int:
    """The command line. Status 1 where a step is wrong or watched in vain, 2 where no GPU answers
    or something is refused."""
    parser = argparse.ArgumentParser(prog="python -m tools.steps_on_a_gpu", description=__doc__)
    parser.add_argument("--out", type=Path, help="default: data/validation/steps_GPU.json")
    parser.add_argument("--chapter", choices=(*chapters(), "25"), action="append",
                        help="this one, and its steps, alone; what else the file holds stays")  # fmt: skip
    options = parser.parse_args(given)
    try:
        campaign.require_gpu()
        session = Session()
        gpu = campaign.gpu_key(session.gpu, None)
        out = options.out or ROOT / "data" / "validation" / f"steps_{gpu}.json"
        todo = chapters_for(session.gpu.arch, options.chapter)
        linked = {link.kernel for chapter in todo for link in links(chapter)}
        chosen = {name: k for name, k in {**steps, **blackwell}.items() if name in linked}
        stamp = stamps.stamp(session.versions(), stamps.commit())
        record: dict[str, Any] = {
            "command": "python -m tools.steps_on_a_gpu",
            "gpu": stamps.gpu_facts(session),
            "recorded": stamp,
        }
        if options.chapter and out.exists():
            record = json.loads(out.read_text(encoding="utf-8"))
            record["later"] = record.get("later", {}) | dict.fromkeys(todo, stamp)

        def keep(part: str, rows: list[dict[str, Any]], key: str, new: Collection[str]) -> None:
            """Add rows to a part, in place of those whose key is among the new ones."""
            others = [row for row in record.get(part, []) if row[key] not in new]
            record[part] = others + rows
            out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

        with Telemetry(session.bus_id) as telemetry:
            session.warm_up()
            for chapter in todo:
                keep("times", timed(session, chapter, telemetry), "chapter", {chapter})
        keep("shapes", [compared(k) for k in chosen.values()], "kernel", chosen)
        checks, controls = watched(session.gpu.arch, chosen)
        keep("sanitizer", checks, "kernel", chosen)
        keep("controls", controls, "check", CHECKS)
    except TileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    wrong = faults(record)
    print("\n".join(wrong) or f"{len(record['times'])} times, nothing wrong -> {out}")
    return 1 if wrong else 0


def faults(record: Mapping[str, Any]) -> list[str]:
    """A sentence for each step that is wrong somewhere, or that a check reports."""
    lines = [
        f"{row['kernel']}: {row['wrong']} + {row['shifted_wrong']} elements are wrong"
        for row in record["shapes"]
        if row["wrong"] or row["shifted_wrong"]
    ]
    caught = {row["check"] for row in record["controls"] if row["errors"]}
    lines += [
        f"{check} reports no kernel with a known fault: it says nothing of the steps"
        for check in dict.fromkeys(row["check"] for row in record["sanitizer"])
        if check not in caught
    ]
    return lines + [
        f"{row['kernel']} under {row['check']}: {row['state']}, {row['errors']} errors, "
        f"{row['wrong']} wrong elements"
        for row in record["sanitizer"]
        if row["state"] != "ran" or row["errors"] or row["wrong"]
    ]


if __name__ == "__main__":
    sys.exit(main())
