"""Mutants of the Hopper kernels: one fault each in copies, products, clusters or the hand-over, and
who notices it.

`nice python -m tools.mutants_hopper --out data/validation/mutants_hopper.json` makes them by text
rules on the .cu files (with their headers put into the text where the place lies in one), runs each
in the emulator on a ragged shape and on one of whole tiles, in both orders of the warps, until
memory or barriers give a finding, and writes what was found. What compute-sanitizer and an H200 say
of the same is not recorded: it takes such a GPU.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from helpers.ladder import launch
from helpers.ladder.kernel import KERNELS, Geometry, Kernel
from helpers.ladder.rungs import catalog, fingerprint
from nogpu.emulator.observe import oracle
from nogpu.errors import EmulationError

FILE = KERNELS.parent / "data" / "validation" / "mutants_hopper.json"
RAGGED, WHOLE = (200, 312, 330), (256, 512, 320)
"""M, N, K: edges and rows that fit nothing, and whole tiles; both with more steps than a ring has
slots."""
RUNS = ((RAGGED, "ascending"), (WHOLE, "ascending"), (RAGGED, "permuted"), (WHOLE, "permuted"))
LONG = (128, 128, 3072), (100, 120, 3016)
"""For stream-K: few tiles with so many steps that they are cut along k; whole, and with edges."""
CUT = {"BM": 128, "BN": 128, "STAGES": 2, "CLUSTER_M": 1, "SMS": 4}
"""Its tile there: so that the emulator holds all blocks that wait for each other."""
FEW = {"SMS": 2}
"""For blocks that stay: so few of them that each has several tiles."""
KERNELS_OF = ("mma_tma", "hopper_1", "hopper_2", "hopper_3", "hopper_4", "hopper_5", "hopper_6")
MOST_STEPS = 400_000
INCLUDE = r'#include "common/([\w.]+)"'
SHARED = ("cluster_tiles.cuh", "leaving_tile.cuh", "box_store.cuh")
"""Headers of kernels/common with what the files of several rungs share: text of each of them."""


@dataclass(frozen=True)
class Rule:
    """A fault: what is replaced by what, a regular expression and its replacement. header: of
    kernels/common, where it lies there and not in the kernel's file, nor in what it shares with
    other rungs (SHARED). only: kernels that have it.
    equivalent: why it changes nothing, where it does not."""

    fault: str
    old: str
    new: str
    header: str = ""
    only: tuple[str, ...] = KERNELS_OF
    equivalent: str = ""


RULES = (
    Rule("no wait for a filled slot", r"\n *barrier_wait\(&(full|landed)[^;]*;", ""),
    Rule("no wait for an empty slot", r"\n *barrier_wait\(&empty[^;]*;", ""),
    Rule("parity of the other phase", r"(barrier_wait\(&empty\[\w+\.stage\], \w+\.parity) \^ 1\)", r"\1)"),
    Rule("parity of the other phase", r"(barrier_wait\(&full\[\w+\.stage\], \w+\.parity)\)", r"\1 ^ 1)"),
    Rule("parity of the other phase", r"\n *parity \^= 1;", ""),
    Rule("the ring does not go on", r"\n *(at|place)\.advance\(\);", ""),
    Rule("fewer bytes announced", r"(barrier_arrive_expect\([^;]*(sizeof\(S\w+\)|TILE_BYTES))\)", r"\1 - 8192)"),
    Rule("more bytes announced", r"(barrier_arrive_expect\([^;]*(sizeof\(S\w+\)|TILE_BYTES))\)", r"\1 + 16)"),
    Rule("a barrier set up for one arrival more", r"(barrier_init\(&\w+(\[\w+\])?, [^;]*)\);", r"\1 + 1);"),
    Rule("slots are not handed back", r"\n *(barrier_arrive\((&empty\[\w+(\.stage)?\]|in_use)\)|place\.arrive_at_peers\([^;]*\));", ";"),
    Rule("no fence before the products", r"\n *wgmma_fence\(\);", "", only=("hopper_1", "hopper_2")),
    Rule("a group that is not closed", r"\n *wgmma_commit\(\);", "", only=("hopper_1", "hopper_2")),
    Rule("no wait for the products", r"\n *wgmma_finish\(sum\);", ""),
    Rule("no wait for the products", r"\n *wgmma_wait<1>\(\);", ""),
    Rule("a wait for one group fewer", r"wgmma_wait<1>\(\)", "wgmma_wait<2>()"),
    Rule("coordinates swapped", r"m0 \+ m, k0\b", "k0, m0 + m"),
    Rule("coordinates swapped", r"k0, n0 \+ n\b", "n0 + n, k0"),
    Rule("a descriptor that does not go on", r"(describe_b\([\w.]*B_tile) \+ k \* BOX\)", r"\1)"),
    Rule("a descriptor that does not go on", r"(describe_a\([\w.]*A_tile \+ i \* MMA_M \* BK) \+ k\)", r"\1)"),
    Rule("a descriptor with another stride", r"describe\(start, 16, SWIZZLE_BYTES\)", "describe(start, 16, 512)",
         "wgmma.cuh", ("hopper_1", "hopper_3")),
    Rule("a descriptor with another stride", r"describe\(start, BOX_BYTES, SWIZZLE_BYTES\)",
         "describe(start, SWIZZLE_BYTES, BOX_BYTES)", "wgmma.cuh", ("hopper_1", "hopper_3")),
    Rule("a descriptor without its swizzle", r"SWIZZLE_128 = 1ull << 62", "SWIZZLE_128 = 0", "wgmma.cuh",
         ("hopper_1", "hopper_3")),
    Rule("no fence before the products", r"\n *wgmma_fence\(\);\n    #pragma", "\n    #pragma", "wgmma.cuh",
         ("hopper_3", "hopper_5")),
    Rule("a group that is not closed", r"\n    wgmma_commit\(\);\n\}", "\n}", "wgmma.cuh", ("hopper_3", "hopper_4")),
    Rule("no fence before the engine reads", r"\n *tma_store_fence\(\);", "", only=("hopper_5", "hopper_6")),
    Rule("no wait for the engine's reads", r"\n *tma_store_wait_read<[^;]*;", "", only=("hopper_5",)),
    Rule("a store that is not closed", r"\n *tma_store_commit\(\);", "", only=("hopper_5",)),
    Rule("the cluster does not meet first", r"\n *cluster_sync\(\);(?=  // no block copies)", "\n    __syncthreads();",
         only=("hopper_4", "hopper_5")),
    Rule("the cluster does not meet last", r"\n *cluster_sync\(\);(?=  // no block leaves)", "",
         only=("hopper_4", "hopper_5")),
    Rule("a copy to the wrong blocks", r"place\.same_col\)", "place.same_row)", only=("hopper_4", "hopper_5")),
    Rule("an arrival at the wrong block", r'"r"\(block\)', '"r"(0 * block)', "mbarrier.cuh", ("hopper_4", "hopper_5")),
    Rule("sums counted before they are left", r"\n    __threadfence\(\);  // the sums[^\n]*", "", "hand_over.cuh",
         ("hopper_6",)),
    Rule("sums read before they are counted", r"\n *while \(atomicAdd\(arrived, 0\)[^}]*\}", "", "hand_over.cuh",
         ("hopper_6",)),
    Rule("no fence after the count", r"\n        __threadfence\(\);\n    \}", "\n    }", "hand_over.cuh", ("hopper_6",),
         "the first lane's atomics and the barrier of the warpgroup order it where no cache of an SM holds older sums"),
    Rule("no fence after barriers are set up", r"\n *barrier_init_fence\(\);", ""),
)  # fmt: skip

EQUIVALENT = {
    "hopper_6/9.1": (
        "each block has one part of a tile in these runs: nobody waits for the slots after it"
    )
}
"""Mutants of which a place alone changes nothing, and why."""


@dataclass(frozen=True)
class Mutant:
    """One kernel with one fault: the place is the `nth` that the rule fits."""

    name: str
    fault: str
    kernel: str
    nth: int
    text: str
    equivalent: str


@cache
def mutants() -> tuple[Mutant, ...]:
    """All of them, kernel by kernel."""
    return tuple(m for name in KERNELS_OF for m in _of(name))


def _of(name: str) -> Iterator[Mutant]:
    for number, rule in enumerate(RULES):
        if name not in rule.only:
            continue
        source = catalog[name].source
        text = flat(source) if rule.header else flat(source, SHARED)
        for nth, found in enumerate(re.finditer(rule.old, text)):
            changed = text[: found.start()] + found.expand(rule.new) + text[found.end() :]
            if changed != text:
                own = f"{name}/{number}.{nth}"
                equal = EQUIVALENT.get(own, rule.equivalent)
                yield Mutant(own, rule.fault, name, nth, changed, equal)


def flat(text: str, headers: Collection[str] = ()) -> str:
    """The text with each header of kernels/common in place of the first line that includes it.

    headers: these alone; none: all.
    """
    seen: set[str] = set()

    def put(found: re.Match[str]) -> str:
        name = found.group(1)
        if headers and name not in headers:
            return found.group()
        if name in seen:
            return ""
        seen.add(name)
        header = (KERNELS / "common" / name).read_text(encoding="utf-8").replace("#pragma once", "")
        return re.sub(INCLUDE, put, header)

    return re.sub(INCLUDE, put, text)


def kernel_of(mutant: Mutant) -> Kernel:
    """The kernel with the fault."""
    return catalog[mutant.kernel].with_source(mutant.text)


def cuts_tiles(kernel: Kernel) -> bool:
    """Whether it is stream-K, whatever its text has become."""
    return kernel.entry == catalog["hopper_6"].entry


def planned(kernel: Kernel, shape: tuple[int, int, int]) -> Geometry:
    """A launch of a kernel; of one whose blocks stay, several tiles a block; of stream-K, cut."""
    if cuts_tiles(kernel):
        return launch.lay_out(kernel, *shape, **CUT)
    return launch.lay_out(kernel, *shape, **(FEW if "SMS" in kernel.params else {}))


def sizes(kernel: Kernel) -> tuple[tuple[int, int, int], ...]:
    """The shapes that a kernel is tried on, the ragged one first."""
    return tuple(reversed(LONG)) if cuts_tiles(kernel) else (RAGGED, WHOLE)


def runs(kernel: Kernel) -> tuple[tuple[tuple[int, int, int], str], ...]:
    """Shapes and orders of the warps that a kernel is tried on."""
    if not cuts_tiles(kernel):
        return RUNS
    return tuple((shape, schedule) for schedule in ("ascending", "permuted") for shape in LONG)


def run(mutant: Mutant) -> dict[str, Any]:
    """Who notices: kinds and lines of findings of memory and barriers, whether elements were wrong,
    errors."""
    kinds: set[str] = set()
    wrong, errors, launches = False, set[str](), 0
    for shape, schedule in runs(catalog[mutant.kernel]):
        launches += 1
        try:
            found = launch.trace_of(
                planned(kernel_of(mutant), shape), schedule=schedule, max_steps=MOST_STEPS
            )
        except EmulationError as error:
            errors.add(str(error).split("\n", 1)[0][:200])
            break
        wrong = wrong or found.wrong > 0
        kinds |= {f.kind for f in found.report.findings} - {oracle.KIND}
        if kinds:
            break
    return {
        "name": mutant.name, "fault": mutant.fault, "kernel": mutant.kernel, "state": "ran",
        "found": bool(kinds or errors), "kinds": sorted(kinds), "wrong": wrong,
        "errors": sorted(errors), "runs": launches, "equivalent": mutant.equivalent,
    }  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By fault: how many mutants, and who caught them."""
    out: dict[str, dict[str, Any]] = {}
    for row in rows:
        none = dict.fromkeys(("mutants", "emulator", "with_oracle", "equivalent"), 0)
        one = out.setdefault(row["fault"], {"fault": row["fault"], **none})
        one["mutants"] += 1
        one["emulator"] += row["found"]
        one["with_oracle"] += row["found"] or row["wrong"]
        one["equivalent"] += bool(row["equivalent"])
    return list(out.values())


def identity() -> dict[str, Any]:
    """What the record is about: the kernels' code, and the mutants by name and fault."""
    rules: list[dict[str, Any]] = json.loads(json.dumps([asdict(r) for r in RULES]))
    return {
        "code": {name: fingerprint(name) for name in KERNELS_OF},
        "made": {m.name: m.fault for m in mutants()},
        "rules": rules,
    }


def current_rows(path: Path | None) -> dict[str, dict[str, Any]]:
    """Rows of a record, by name, that are about the kernels and rules as they are now."""
    if not path or not path.exists():
        return {}
    record, now = json.loads(path.read_text(encoding="utf-8")), identity()
    if record["rules"] != now["rules"]:
        return {}
    same = {name for name in KERNELS_OF if record["code"].get(name) == now["code"][name]}
    return {r["name"]: r for r in record["mutants"] if r["kernel"] in same}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--out",
        type=Path,
        help=(
            "where the record goes, and where rows of unchanged kernels are taken from; default: it"
            " is printed"
        ),
    )
    parser.add_argument("--again", action="store_true", help="run those of unchanged kernels too")
    options = parser.parse_args()
    rows, old = [], {} if options.again else current_rows(options.out)
    for i, mutant in enumerate(mutants(), 1):
        rows.append(old.get(mutant.name) or run(mutant))
        r = rows[-1]
        outcome = ", ".join((*r["kinds"], *r["errors"])) or ("wrong" if r["wrong"] else "-")
        print(
            f"{i}/{len(mutants())} {r['name']} {r['fault']}: {outcome}", file=sys.stderr, flush=True
        )
    record = {**identity(), "date": str(date.today()), "classes": summary(rows), "mutants": rows}
    text = json.dumps(record, indent=1) + "\n"
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
