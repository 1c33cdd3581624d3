"""What clang's PTX gives beside NVRTC's: kernels, mutants and exercises; each difference by its
line.

    nice python -m tools.clang_against_nvrtc                    what the record lacks
    nice python -m tools.clang_against_nvrtc --only mutants
    nice python -m tools.clang_against_nvrtc --by-ir    the route of the page, with the cores

Needs both compilers. Every row says of which code it is; rows of other code, of other compilers or
of another emulator's findings are made anew. The file is written after each row, so that a run that
was stopped goes on. About ten minutes on one core.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from helpers import plan
from helpers.ladder import launch
from helpers.ladder.kernel import ROOT, geometry
from helpers.ladder.rungs import catalog, cores, find, fingerprint
from helpers.page import exercises
from helpers.record import stamps
from nogpu import disk, toolchain
from nogpu.emulator.observe import oracle
from tests import test_exercises
from tools import compilers, mutants

FILE = ROOT / "data" / "validation" / "clang.json"
FILE_BY_IR = FILE.with_name("clang_ir.json")
Row = dict[str, Any]


def versions(other: str = "clang") -> dict[str, str]:
    """The two compilers of this machine, in words."""
    by_compiler = {}
    for compiler in ("nvrtc", other):
        with compilers.using(compiler):
            by_compiler[compiler] = toolchain.compiler()
    return by_compiler


# -- kernels ---------------------------------------------------------------------------------------


def launches(name: str) -> list[tuple[tuple[int, int, int], Mapping[str, int]]]:
    """Shapes and tiles: four shapes with a kernel's own, and those of its mutants with theirs."""
    small = mutants.TILES.get(name)
    shapes = [mutants.SHAPES[s] for s in mutants.shapes(name)] if small else []
    own: Mapping[str, int] = {}
    if name in cores:
        (m, n), k = plan(name, 4096).tile, cores[name].params.get("BK", 64)
        return [((m, 2 * n, 2 * k), own)]
    return [*((s, own) for s in compilers.shapes(name)), *((s, small or own) for s in shapes)]


def kernel_identity(name: str) -> Row:
    """What a kernel's row is about: the code, its architecture, its shapes and its macros."""
    k, todo = find(name), launches(name)
    return {
        "kernel": name,
        "code": fingerprint(k),
        "arch": launch.emulator_arch(k),
        "shapes": ["x".join(map(str, shape)) for shape, _ in todo],
        "defines": [dict(geometry(k, *shape, **tiles).defines) for shape, tiles in todo],
    }


def kernel_row(
    name: str, todo: Sequence[tuple[Any, Mapping[str, int]]] | None = None, other: str = "clang"
) -> Row:
    """A kernel or a core by both compilers: bits, and counts by line.

    todo: other launches than `launches`. bits, right: launches whose C is the same to the bit; that
    are right and clean by both. lines, counts: how many lines with memory accesses and how many
    counts were compared. differences: every count that is not equal, with both numbers.
    """
    row: Row = {"launches": 0, "bits": 0, "right": 0, "lines": 0, "counts": 0, "differences": []}
    for shape, tiles in launches(name) if todo is None else todo:
        pair = compilers.both(name, shape, other, **tiles)
        assert pair is not None, f"{name} refuses {shape}"
        row["launches"] += 1
        row["bits"] += pair[0].C == pair[1].C
        row["right"] += pair[0].ok and pair[1].ok
        row["lines"] += len({line for line, *_ in pair[0].counts if line})
        row["counts"] += len({*pair[0].counts, *pair[1].counts})
        at = {"shape": "x".join(map(str, shape)), **({"tiles": dict(tiles)} if tiles else {})}
        for found in compilers.unequal(*pair):
            numbers = {"nvrtc": found.pop("one"), other: found.pop("other")}
            row["differences"].append({**at, **found, **numbers})
    return kernel_identity(name) | row


# -- mutants ---------------------------------------------------------------------------------------


def mutant_identity(mutant: mutants.Mutant) -> Row:
    """What a mutant's row is about: the kernel's code with the fault in it, and its tiles."""
    code = fingerprint(catalog[mutant.kernel].with_source(mutant.source))
    tiles = json.dumps(dict(mutants.TILES[mutant.kernel]), sort_keys=True)
    short = hashlib.sha256(f"{code} {tiles}".encode()).hexdigest()[:12]
    return {"mutant": mutant.name, "fault": mutant.fault, "code": short}


def judged(mutant: mutants.Mutant) -> tuple[Row, dict[str, list[str]]]:
    """By the compiler of the moment: the judgements, and the findings of each launch by kind and
    line.

    "race 42/48": between the statements that begin in lines 42 and 48, for compilers differ in
    which line of a longer one they name. A line of a header stands behind the header's name.
    """
    seen: dict[str, list[str]] = {}
    own = Path(catalog[mutant.kernel].file).name  # a changed text is called your_ and this
    starts = compilers.statements(mutant.source)

    def see(shape: str, schedule: str, trace: launch.Trace) -> None:
        by_compiler = set()
        for f in trace.report.findings:
            here = Path(f.file).name.removeprefix("your_") == own
            where, first = ("", starts) if here else (f"{f.file}:", {})
            apart = f.other_line if f.kind != oracle.KIND else 0
            other = f"/{first.get(apart, apart)}" if apart else ""
            by_compiler.add(f"{f.kind} {where}{first.get(f.line, f.line)}{other}")
        seen[f"{shape} {schedule}"] = sorted(by_compiler)

    row = mutants.run(mutant, see)
    return {what: row[what] for what in (*mutants.JUDGED, "wrong")}, seen


def mutant_row(mutant: mutants.Mutant, other: str = "clang") -> Row:
    """A mutant by both compilers: what is found, by kind and line.

    findings: of each launch, by NVRTC. differences: what clang's gives otherwise, both written out.
    wrong elements are no judgement: in a race they hang on the order in which loads and stores
    stand.
    """
    by_compiler = {}
    for compiler in ("nvrtc", other):
        with compilers.using(compiler):
            by_compiler[compiler] = judged(mutant)
    (ours, found), (theirs, also) = by_compiler["nvrtc"], by_compiler[other]
    apart = [what for what in mutants.JUDGED if ours[what] != theirs[what]]
    differences = [{"what": what, "nvrtc": ours[what], other: theirs[what]} for what in apart]
    differences += [
        {"what": f"findings, {one}", "nvrtc": found.get(one), other: also.get(one)}
        for one in sorted({*found, *also})
        if found.get(one) != also.get(one)
    ]
    return mutant_identity(mutant) | {
        "state": ours["state"],
        "wrong_elements_equal": ours["wrong"] == theirs["wrong"],
        "findings": found,
        "differences": differences,
    }


# -- exercises -------------------------------------------------------------------------------------


@cache
def answers() -> Mapping[str, tuple[str, str, str]]:
    """Of each exercise its chapter's first cell, the starter and the solution, by "NN.k"."""
    found = {}
    for path in sorted((ROOT / "book").glob("*[0-9][0-9]_*.md")):
        text = path.read_text(encoding="utf-8")
        for section in test_exercises.sections(text):
            for cell in section.cells:
                for name in test_exercises.CALL.findall(cell):
                    first = test_exercises.preamble(text)
                    found[name] = (first, cell, section.solutions[0])
    return found


def exercise_identity(name: str) -> Row:
    """What an exercise's row is about: the text of its starter and of its solution."""
    text = "\n".join(answers()[name])
    return {"exercise": name, "code": hashlib.sha256(text.encode()).hexdigest()[:12]}


def exercise_row(name: str, other: str = "clang") -> Row:
    """Starter and solution as they are judged by both compilers; every line of the verdict is
    compared."""
    row: Row = {"kind": exercises.find(name).kind, "lines": 0, "differences": []}
    first, *cells = answers()[name]
    for what, cell in zip(("starter", "solution"), cells, strict=True):
        by_compiler = {}
        for compiler in ("nvrtc", other):
            with compilers.using(compiler):
                names: Row = {"__name__": "__main__"}
                exec(compile(first, "<chapter>", "exec"), names)
                result = test_exercises.value_of(cell, names)
            by_compiler[compiler] = repr(result).splitlines()
            row[what] = {**row.get(what, {}), compiler: result.passed}
        row["lines"] += len(by_compiler["nvrtc"])
        for ours, theirs in zip_longest(by_compiler["nvrtc"], by_compiler[other], fillvalue=""):
            if ours != theirs:
                row["differences"].append({"of": what, "nvrtc": ours, other: theirs})
    return exercise_identity(name) | row


# -- the file --------------------------------------------------------------------------------------

Todo = tuple[Row, Callable[[], Row]]


def todo(other: str = "clang") -> dict[str, list[Todo]]:
    """By section of the file: what each row is about, and how it is made."""

    def launched(names: Iterable[str]) -> list[Todo]:
        return [(kernel_identity(k), partial(kernel_row, k, other=other)) for k in names]

    return {
        **({"cores": launched(cores)} if other == "ir" else {}),
        "kernels": launched(compilers.KERNELS),
        "exercises": [
            (exercise_identity(e), partial(exercise_row, e, other=other)) for e in answers()
        ],
        "mutants": [
            (mutant_identity(m), partial(mutant_row, m, other=other)) for m in mutants.mutants()
        ],
    }


def stale(record: Mapping[str, Any], other: str = "clang") -> list[str]:
    """What of a record is missing, or is not of today's kernels, mutants and exercises."""
    faults = []
    for section, wanted in todo(other).items():
        stored = {str(next(iter(row.values()))): row for row in record.get(section, ())}
        for identity, _ in wanted:
            name = str(next(iter(identity.values())))
            row = stored.pop(name, None)
            if row is None:
                faults.append(f"{section}: {name} is not in the record")
                continue
            moved = [what for what, value in identity.items() if row[what] != value]
            faults += [f"{section}: {name}: its {what} changed" for what in moved]
        faults += [f"{section}: there is no {name}" for name in stored]
    return faults


def current_row(record: Mapping[str, Any], section: str, identity: Row) -> Row | None:
    """The row of a record that is about this, if there is one."""
    return next((r for r in record.get(section, ()) if identity.items() <= r.items()), None)


def write(path: Path, record: Row, wanted: Mapping[str, list[Todo]]) -> None:
    """The record with its rows in order and those of other code left out."""
    rows = {s: [current_row(record, s, identity) for identity, _ in wanted[s]] for s in wanted}
    whole = {**record, **{s: [r for r in rows[s] if r is not None] for s in rows}}
    disk.replace_file(path, json.dumps(whole, indent=1) + "\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.clang_against_nvrtc",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--by-ir", action="store_true", help="PTX made of clang's LLVM IR")
    parser.add_argument("--out", type=Path)
    sections = ("cores", "kernels", "exercises", "mutants")
    parser.add_argument("--only", choices=sections, action="append")
    parser.add_argument("--anew", action="store_true", help="keep no row of an earlier run")
    options = parser.parse_args()
    other = "ir" if options.by_ir else "clang"
    options.out = options.out or (FILE_BY_IR if options.by_ir else FILE)
    record: Row = {}
    if options.out.is_file() and not options.anew:
        record = json.loads(options.out.read_text(encoding="utf-8"))
    if record.get("versions") != versions(other):
        record = {}
    record |= {**stamps.stamp({}, stamps.commit()), "versions": versions(other)}
    wanted = todo(other)
    for section in options.only or wanted:
        for number, (identity, make) in enumerate(wanted[section], 1):
            if current_row(record, section, identity):
                continue
            row = make()
            record.setdefault(section, []).append(row)
            write(options.out, record, wanted)
            name = next(iter(identity.values()))
            print(f"{section} {number}/{len(wanted[section])} {name}", flush=True)
            for found in row["differences"]:
                print(f"    {found}", flush=True)
    write(options.out, record, wanted)
    for section in record:
        if section in wanted:
            rows = (current_row(record, section, identity) for identity, _ in wanted[section])
            todays = [row for row in rows if row]
            unlike = sum(bool(row["differences"]) for row in todays)
            print(f"{section}: {len(todays)} of {len(wanted[section])}, {unlike} with differences")


if __name__ == "__main__":
    main()
