"""Do the tests hold? One-line mutants, drawn by seed, against the tests nearest to them.

`python -m tools.mutation --seed 1 --count 60` writes each verdict to `_build/mutation.jsonl` and
ends with 1 where fewer than 90 % of the mutants that change anything are killed. Called again it
goes on: a verdict counts as long as neither the mutated file nor its tests change. Mutants live in
copies under a temporary folder. Each meets the push ring of the tests nearest to it, and where it
lives through that the day ring of the same.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RINGS = ("push", "day")
"""Of the tests: what lives through the first is tried in the next."""
LEAST = 0.9
PACKAGES = (".", "packages/nogpu", "packages/labs")
"""Where Python finds the project's packages, before those that are installed."""
_EMULATOR = (
    "ptx_syntax emulator_machine emulator_faults emulator_findings emulator_instructions emulator_warps"
    " emulator_waits emulator_mbarriers emulator_calls emulator_bulk emulator_cluster"
    " emulator_tensor emulator_warpgroups emulator_tensor_memory emulator_loading"
    " emulator_counts engine_steps emulator_requests emulator_unset emulator_causes emulator"
    " emulator_oracle emulator_link run_command foreign_kernels foreign_waits foreign_hopper"
    " fresh_kernels header_kernels emulator_headers emulator_random emulator_alone shared_base"
    " ptx_given ir refusals turing joins fp8 sums"
)
Areas = Mapping[tuple[str, ...], tuple[str, ...]]
"""Files or folders, and the test files nearest to them, the fastest first; mutants come from each
in turn."""


def _tests(words: str) -> tuple[str, ...]:
    """The files of these names, in whichever package's tests they lie."""
    folders = ("tests", "packages/nogpu/tests", "packages/labs/tests")
    found = ([f"{d}/test_{w}.py" for d in folders] for w in words.split())
    return tuple(next(f for f in files if (ROOT / f).exists()) for files in found)


AREAS: Areas = {
    **{
        (f"packages/nogpu/nogpu/emulator/{room}",): _tests(_EMULATOR)
        for room in ["ptx", "machine", "observe", "launching"]
    },
    ("packages/labs/tilelabs/judging",): _tests(
        "facts running hosting timing points apart lab_folders"
    ),
    tuple(
        f"helpers/record/{name}.py"
        for name in ["store", "protocol", "trials", "reading", "turns", "measurement"]
    ): _tests("replayed trials store measure sections overlap verify readers_numbers"),
    ("helpers/record/costs", "helpers/ladder/model.py", "helpers/ladder/cuts.py"): _tests("model cuts mma_sliced costs choosing"),
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One changed line of a file. lineno: from 1; line: its text; mutation: `old -> new`, the part
    that changed."""

    file: str
    lineno: int
    line: str
    mutation: str
    changed: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What names it wherever its file may move."""
        return Path(self.file).name, self.line.strip(), self.mutation


_PAIRS: tuple[tuple[type[ast.AST], type[ast.AST]], ...] = (
    (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn), (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv),  # codespell:ignore notin
    (ast.BitAnd, ast.BitOr), (ast.LShift, ast.RShift), (ast.And, ast.Or),
)  # fmt: skip
SWAPS: Mapping[type[ast.AST], type[ast.AST]] = {
    ast.Div: ast.Mult, **{a: b for pair in _PAIRS for a, b in (pair, pair[::-1])},
}  # fmt: skip
ENDS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


def _swapped(operator: ast.AST) -> ast.AST | None:
    return SWAPS[type(operator)]() if type(operator) in SWAPS else None


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """What a node may become, one fault each.

    The node stays as it is; below it nothing is copied: Python shares the nodes of operators and
    contexts between all trees, and a debugger may have hung whole trees on them.
    """
    new = copy.copy(node)
    if isinstance(new, ast.Compare) and (other := _swapped(new.ops[0])):
        new.ops = [other, *new.ops[1:]]  # type: ignore[list-item]
        yield new
    elif isinstance(new, (ast.BinOp, ast.BoolOp, ast.AugAssign)) and (other := _swapped(new.op)):
        new.op = other  # type: ignore[assignment]
        yield new
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, (ast.Not, ast.Invert)):
        yield new.operand
    elif isinstance(new, ast.Constant) and isinstance(new.value, bool):
        yield ast.Constant(not new.value)
    elif isinstance(new, ast.Constant) and isinstance(new.value, int):
        yield ast.Constant(new.value + 1)
        yield ast.Constant(new.value - 1)
    elif isinstance(new, ast.Name) and new.id in ENDS:
        yield ast.Name(ENDS[new.id])
    elif isinstance(new, ast.Attribute) and new.attr in ENDS:
        yield ast.Attribute(new.value, ENDS[new.attr])
    elif isinstance(new, ast.Slice):
        for bound in ("lower", "upper"):
            if getattr(new, bound) is not None:
                yield ast.Slice(**{**vars(new), bound: None})
    elif isinstance(new, ast.Return) and new.value is not None:
        if not (isinstance(new.value, ast.Constant) and new.value.value is None):
            yield ast.Return(ast.Constant(None))
    elif (isinstance(new, ast.Expr) and isinstance(new.value, ast.Call)) or (
        isinstance(new, ast.Assign) and isinstance(new.targets[0], (ast.Attribute, ast.Subscript))
    ):
        yield ast.Pass()


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run; no annotation, none of a message, which is for people to judge, and not
    whether `zip` is strict, which says what holds anyway."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if (
                isinstance(child, (ast.JoinedStr, ast.Raise))
                or getattr(child, "arg", "") == "strict"
            ):
                continue
            if isinstance(child, ast.AST):
                yield from _nodes(child)


def mutants(file: str, source: str) -> list[Mutant]:
    """All one-line mutants of a file, in the order of its text."""
    lines, found = source.splitlines(), {}
    for node in _nodes(ast.parse(source)):
        at = getattr(node, "lineno", None)
        if at is None or at != node.end_lineno:  # type: ignore[attr-defined]
            continue
        raw = lines[at - 1].encode()
        start, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        for new in changes(node):
            text = ast.unparse(ast.fix_missing_locations(new))
            bare = isinstance(new, (ast.stmt, ast.Slice, ast.Constant, ast.Name, ast.Attribute))
            text = text if bare else f"({text})"
            line = (raw[:start] + text.encode() + raw[end:]).decode()
            mutation = f"{raw[start:end].decode()} -> {text}"
            found[at, start, mutation] = Mutant(file, at, lines[at - 1], mutation, line)
    return [found[place] for place in sorted(found)]


def draw(root: Path, areas: Areas, seed: int, count: int) -> list[tuple[Mutant, tuple[str, ...]]]:
    """`count` mutants and their tests, from each area in turn; the same for the same seed and
    sources.

    Raises ValueError if an area has no mutant: its folder moved, or nothing is in it.
    """
    rng, pools = random.Random(seed), []
    for places, tests in areas.items():
        trees = [(root / p).rglob("*.py") if (root / p).is_dir() else [root / p] for p in places]
        files = sorted({f for tree in trees for f in tree})
        missing = [name for name in (*places, *tests) if not (root / name).exists()]
        texts = [
            (f.relative_to(root).as_posix(), f.read_text("utf-8")) for f in files if not missing
        ]
        pool = [m for text in texts for m in mutants(*text)]
        if not pool:
            raise ValueError(
                f"{places}: no mutant can be drawn ({missing or 'no code'}); mend AREAS in"
                f" {__file__}"
            )
        rng.shuffle(pool)
        pools.append([(mutant, tests) for mutant in pool])
    turns = (pool[i] for i in range(max(map(len, pools))) for pool in pools if i < len(pool))
    return list(itertools.islice((one for one in turns if compiles(root, one[0])), count))


def changed(text: str, mutant: Mutant) -> str:
    """The text of a file with the mutant's line in it."""
    lines = text.splitlines()
    lines[mutant.lineno - 1] = mutant.changed
    return "\n".join(lines) + "\n"


def compiles(root: Path, mutant: Mutant) -> bool:
    """Whether Python reads the mutant at all."""
    try:
        ast.parse(changed((root / mutant.file).read_text("utf-8"), mutant))
    except SyntaxError:
        return False
    return True


def copied(root: Path, areas: Areas, to: Path) -> Path:
    """A copy of what is mutated and of its tests; the rest is linked."""
    own = {Path(name).parts[0] for places, tests in areas.items() for name in (*places, *tests)}
    for entry in root.iterdir():
        if entry.name in own:
            shutil.copytree(entry, to / entry.name, symlinks=True)
        elif not entry.name.startswith((".", "_build")):
            (to / entry.name).symlink_to(entry)
    return to


def passes(where: Path, tests: Sequence[str], ring: str, limit: float) -> bool | None:
    """Whether a ring of the tests passes in a copy, in child processes, too; None: it ran past
    `limit` seconds."""
    command = [sys.executable, "-m", "pytest", "-xq", "-p", "no:cacheprovider", "-n", "0"]
    command += ["--ring", ring]
    path = os.pathsep.join(str(where / folder) for folder in PACKAGES)
    env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        [*command, *tests], cwd=where, env=env, stdout=quiet, stderr=quiet, start_new_session=True
    ) as job:
        try:
            return job.wait(limit) == 0
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            return None


def nearest_first(where: Path, mutant: Mutant, tests: Sequence[str]) -> list[str]:
    """The tests, those first that name the mutated module most often."""
    name = re.compile(rf"\b{Path(mutant.file).stem}\b")
    return sorted(tests, key=lambda t: -len(name.findall((where / t).read_text("utf-8"))))


def verdict(where: Path, mutant: Mutant, tests: Sequence[str], ring: str, limit: float) -> str:
    """killed, timeout or survived; the copy is whole again afterwards."""
    path = where / mutant.file
    whole = path.read_bytes()
    for stale in path.parent.glob(f"__pycache__/{path.stem}.*"):
        stale.unlink()
    try:
        path.write_text(changed(whole.decode(), mutant), "utf-8")
        passed = passes(where, tests, ring, limit)
        return {True: "survived", False: "killed", None: "timeout"}[passed]
    finally:
        path.write_bytes(whole)


def gate(root: Path, areas: Areas, seed: int, count: int, record: Path, same: Path) -> float:
    """Judge mutants, report, and return the part that was killed of those that change anything.

    Raises RuntimeError if the tests fail on the code as it is.
    """
    equivalent = {
        (e["file"], e["line"], e["mutation"]) for e in json.loads(same.read_text("utf-8"))
    }
    drawn = draw(root, areas, seed, count)
    kept = record.read_text("utf-8").splitlines() if record.exists() else []
    before = {e["id"]: e["verdict"] for e in map(json.loads, kept)}
    record.parent.mkdir(parents=True, exist_ok=True)

    def identity(mutant: Mutant, tests: Sequence[str]) -> str:
        texts = b"".join((root / name).read_bytes() for name in (mutant.file, *tests))
        return hashlib.sha256(repr(mutant).encode() + texts).hexdigest()[:20]

    with tempfile.TemporaryDirectory() as folder:
        where = copied(root, areas, Path(folder))
        limits: dict[tuple[Sequence[str], str], float] = {}

        def limit(tests: tuple[str, ...], ring: str) -> float:
            """Seconds for a ring of the tests: they run once on the code as it is."""
            if (tests, ring) not in limits:
                start = time.monotonic()
                if not passes(where, tests, ring, 3600):
                    raise RuntimeError(f"these tests fail before any mutation: {ring} of {tests}")
                limits[tests, ring] = 60 + 3 * (time.monotonic() - start)
            return limits[tests, ring]

        def judge(mutant: Mutant, tests: tuple[str, ...]) -> str:
            name = identity(mutant, tests)
            if mutant.key in equivalent:
                return "equivalent"
            if name in before:
                return before[name]
            ordered = nearest_first(where, mutant, tests)
            for ring in RINGS:
                found = verdict(where, mutant, ordered, ring, limit(tests, ring))
                if found != "survived":
                    break
            with record.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"id": name, "verdict": found, **asdict(mutant)}) + "\n")
            print(f"{found:9} {mutant.file}:{mutant.lineno}  {mutant.mutation}", flush=True)
            return found

        found = [judge(mutant, tests) for mutant, tests in drawn]
    for (mutant, _), result in zip(drawn, found, strict=True):
        if result == "survived":
            print(
                f"survived: {mutant.file}:{mutant.lineno}\n  - {mutant.line}\n  + {mutant.changed}"
            )
    counts = {name: found.count(name) for name in ("killed", "timeout", "survived", "equivalent")}
    part = (counts["killed"] + counts["timeout"]) / max(
        1, count_of := len(found) - counts["equivalent"]
    )
    print(f"{counts}: {part:.0%} of {count_of} killed; {LEAST:.0%} are needed")
    return part


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--record", type=Path, default=ROOT / "_build" / "mutation.jsonl")
    options = parser.parse_args()
    same = Path(__file__).with_name("equivalent.json")
    return int(gate(ROOT, AREAS, options.seed, options.count, options.record, same) < LEAST)


if __name__ == "__main__":
    raise SystemExit(main())
