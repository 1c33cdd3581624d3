"""Rename a rung: python -m tools.rename OLD NEW [--plan].

Its name, its kernel's entry and file, its core, and its name in pages, tests, labs and data.
Records and compiled programs move to the keys of the renamed source; no number changes. All of it
is tried in a copy first, and nothing is written unless the catalog there is the old one but for the
names. A name that is also a word of the pages' prose changes only where it stands alone in quotes
or code. What a person must look at is listed. Generated files stay: it says
what is next."""

from __future__ import annotations

import argparse
import json
import keyword
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from helpers.ladder.kernel import ROOT
from nogpu.errors import ConfigError, TileError, UnknownKernelError, near_matches

KINDS = (".py", ".md", ".cu", ".cuh", ".cpp", ".toml", ".json", ".csv", ".yml", ".js", ".cl", ".xz")
LEFT_OUT = ("_build", "mine", "node_modules", "__pycache__", "*.egg-info", "*.ipynb", ".*")
GENERATED = ("book/runs.json",)
COMPILED = "data/compiled/"
CPP = """auto bool case char class const default delete do double else enum extern float for goto if
inline int long new private public return short signed sizeof static struct switch template this
typedef union unsigned void volatile while""".split()  # noqa: SIM905
CODE = re.compile(r"(?ms)^(```|:::).*?^\1|\A---\n.*?^---$|`[^`\n]*`|\$[^$\n]*\$")
"""What is no prose in a page."""
Files = dict[str, bytes]


def contents(root: Path) -> Files:
    """What people and recorders write below a root, by path."""
    left_out, found = shutil.ignore_patterns(*LEFT_OUT), {}
    for folder, below, names in os.walk(root):
        below[:] = sorted(set(below) - left_out(folder, below))
        for name in sorted(names):
            path = Path(folder, name).relative_to(root).as_posix()
            if path.endswith(KINDS) and path not in GENERATED:
                found[path] = (root / path).read_bytes()
    return found


def describe(stale: Mapping[str, Iterable[str]] | None = None) -> dict[str, Any]:
    """File, entry and fingerprint of this tree's kernels, and keys of programs that no source has.

    stale: where given, all other programs move to the keys that their sources have now.
    """
    from helpers.ladder.rungs import catalog, cores, fingerprint
    from tools import compiled as store

    folder = ROOT / COMPILED
    stored = store.read(folder)
    if stale is not None:
        for name, keys in store.keys_now(stored).items():
            keys = {k: now for k, now in keys.items() if now and k not in stale.get(name, ())}
            one = stored[name]
            one.rows = {keys.get(k, k): row for k, row in one.rows.items()}
            one.programs = {keys.get(k, k): program for k, program in one.programs.items()}
        store.save(stored, folder, store.compiled.compiler())
    kernels = (*catalog.values(), *cores.values())
    return {
        "kernels": {k.name: (k.file, k.entry, fingerprint(k)) for k in kernels},
        "stale": {name: sorted(keys) for name, keys in store.stale(stored).items()},
    }


def described(root: Path, argument: str = "") -> dict[str, Any]:
    """`describe` of another tree, by another process. Raises ConfigError if it does not load."""
    call = f"import json; from tools.rename import *; print(json.dumps(describe({argument})))"
    paths = os.pathsep.join(str(root / p) for p in (".", "packages/nogpu", "packages/labs"))
    done = subprocess.run(
        [sys.executable, "-c", call], cwd=root, env=os.environ | {"PYTHONPATH": paths},
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise ConfigError(f"nothing was changed, since the book did not load: {done.stderr[-600:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def patterns(old: str, kernels: Mapping[str, Any], word: bool) -> tuple[re.Pattern[str], ...]:
    """What the name is found by: in texts, and in PTX and machine code.

    word: it is a word of the prose, too, and in texts changes only alone in quotes or in code.
    """
    text = [rf"(?<!\w){old}(?!\w)"]
    if word:
        text = [rf"(?<=[\"'`]){old}(?=[\"'`]|[:.+(][^\s\"'`]*[\"'`])", rf"(?<=,){old}(?=,)"]
        text += [rf"(?<={before}){old}(?!\w)" for before in ("%%cuda ", r"\{kernel\} ", ":since: ")]
        text += [rf"(?<=\bat ){old}(?=\+0x)", rf"(?m:^){old}(?=\(const )", rf"(?m:^)\({old}(?=\)=)"]
    longer = "|".join(name for name in kernels if old in name and name not in (old, f"{old}_core"))
    others = rf"(?!\w*?(?:{longer}))" if longer else ""
    text += [
        rf"(?<=glue:text\}}`){others}(?:[a-z]+[._])?{old}(?![a-z])",
        rf"(?<!\w){old}_core(?!\w)",
    ]
    file = [rf"(?<=\d_){old}(?=\.cu\b)"] if kernels[old][1] == old else []
    code = [rf"(?<!\w){old}(?=(?:_core)?(?:_param_\d|\W))", rf"(?<!\d)(\d+){old}(?=(?:_core)?E)"]
    return re.compile("|".join(text + file)), re.compile("|".join(code + file))


def exchange(pattern: re.Pattern[str], text: str, old: str, new: str) -> str:
    """The text with the name exchanged, also in mangled names, as in "4nameE"."""

    def exchanged(found: re.Match[str]) -> str:
        size = found[1] if found.re.groups and found[1] else ""
        longer = str(int(size) + len(new) - len(old)) if size else ""
        return longer + found[0].removeprefix(size).replace(old, new)

    return pattern.sub(exchanged, text) if old in text else text


def check(files: Files, old: str, new: str, kernels: Mapping[str, Any]) -> None:
    """Raises UnknownKernelError for a name of no rung, ConfigError for one that is not free."""
    if old not in kernels or old.endswith("_core"):
        raise UnknownKernelError(f"no rung is called {old!r}. {near_matches(old, kernels)}")
    if not re.fullmatch("[a-z][a-z0-9_]*", new) or keyword.iskeyword(new) or new in CPP:
        raise ConfigError(f"{new!r} names no kernel: small letters, digits and _, and no keyword")
    taken = re.compile(rf"(?<!\w)(?:{new}(?:_core)?(?!\w)|\d\d_{new}\.cu\b)".encode())
    for path, raw in files.items():
        if not path.endswith(".xz") and (found := taken.search(raw)):
            line = raw.count(b"\n", 0, found.start()) + 1
            raise ConfigError(f"{new!r} is taken: {path}, line {line}. Choose a name that is free")


def rename(root: Path, old: str, new: str) -> tuple[dict[str, bytes | None], list[str]]:
    """What renaming a rung changes, tried in a copy: contents by path (None: the file goes), and
    what a person must look at. Nothing is written below the root.

    Raises
    ------
    UnknownKernelError : no rung has the old name.
    ConfigError : the new one is taken or no name, or the renamed book is not the same.
    """
    before, files = described(root), contents(root)
    kernels = before["kernels"]
    check(files, old, new, kernels)
    texts = {path: raw.decode() for path, raw in files.items() if not path.endswith(".xz")}
    prose = (CODE.sub(" ", text) for path, text in texts.items() if path.startswith("book/"))
    word = any(re.search(rf"(?<!\w){old}(?!\w)", text) for text in prose)
    in_text, in_code = patterns(old, kernels, word)
    own = kernels[old][1] == old  # its entry and its files are called so, too
    stems = rf"(?<={COMPILED}){old}(?=(_core)?\.)|(?<=/\d\d_){old}(?=\.cu$)|^{old}(?=(_core)?$)"

    def moved(name: str) -> str:
        return re.sub(stems, new, name) if own or "/" not in name else name

    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "copy"
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        for path, raw in files.items():
            if path in texts:
                made = exchange(in_text, texts[path], old, new).encode()
            else:
                text = lzma.decompress(raw).decode() if own else ""
                other = exchange(in_code, text, old, new)
                made = raw if other == text else lzma.compress(other.encode(), preset=9)
            (copy / path).unlink()
            (copy / moved(path)).write_bytes(made)
        after = described(copy, repr(before["stale"]))
        now = {moved(name): (moved(entry), sum_) for name, (_, entry, sum_) in kernels.items()}
        if after["stale"] != {moved(name): keys for name, keys in before["stale"].items()} or {
            name: entry for name, (_, entry, _) in after["kernels"].items()
        } != {name: entry for name, (entry, _) in now.items()}:
            raise ConfigError(
                f"nothing was changed: kernels or programs would not be the same. Where rungs.py "
                f"puts {old!r} together, or others begin with it, rename by hand"
            )
        sums = {was: after["kernels"][name][2] for name, (_, was) in now.items()}
        renamed = contents(copy)
    for path, raw in renamed.items():
        if path.startswith(("data/", "tools/")) and path.endswith(".json"):
            text = re.sub(r"\b[0-9a-f]{12}\b", lambda m: sums.get(m[0], m[0]), raw.decode())
            renamed[path] = text.encode()
    paths = sorted(files.keys() | renamed.keys())
    changed = {p: renamed.get(p) for p in paths if files.get(p) != renamed.get(p)}
    return changed, remarks(texts, in_text, old, kernels)


def remarks(
    texts: Mapping[str, str], pattern: re.Pattern[str], old: str, kernels: Mapping[str, Any]
) -> list[str]:
    """Places that keep the name: as a word, and within a longer name that is no other rung's."""
    found: dict[str, list[str]] = {}
    for path, text in texts.items():
        if path.startswith("data/") or old not in text.lower():
            continue
        for number, line in enumerate(pattern.sub("", text).split("\n"), 1):
            for name in re.findall(rf"(?i)\w*{old}\w*", line):
                if name == old or name not in kernels:
                    found.setdefault(name, []).append(f"{path}:{number}")
    return [f"{name}: {', '.join(dict.fromkeys(places))}" for name, places in sorted(found.items())]


def write(root: Path, files: Mapping[str, bytes | None]) -> None:
    """Write files below a root, or delete them; where one fails, all is as it was before."""
    before = {p: (root / p).read_bytes() if (root / p).is_file() else None for p in files}
    try:
        for path, content in files.items():
            if content is None:
                (root / path).unlink(missing_ok=True)
            else:
                (root / path).write_bytes(content)
    except OSError:
        if before != files:
            write(root, before)
        raise


def too_long(files: Mapping[str, bytes | None], old: str, new: str) -> list[str]:
    """Lines that the new name takes past the columns that they may have; tests and tools have
    no limit."""
    limits, more = {".py": 100, ".cu": 84, ".cuh": 84}, len(new) - len(old)
    return [
        f"{path}:{number}: {len(line)} columns, at most {limit}"
        for path, raw in files.items()
        if raw is not None and not path.startswith(("tests/", "tools/"))
        if (limit := limits.get(Path(path).suffix))
        for number, line in enumerate(raw.decode().splitlines(), 1)
        if len(line) > limit >= len(line) - more * line.count(new)
    ]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.rename", description=__doc__)
    parser.add_argument("old", help="a rung of the catalog")
    parser.add_argument("new", help="a name that stands nowhere yet")
    parser.add_argument("--plan", action="store_true", help="say what would change, write nothing")
    options = parser.parse_args()
    try:
        files, places = rename(ROOT, options.old, options.new)
        if not options.plan:
            write(ROOT, files)
    except (TileError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    gone, new = ("goes", "changes") if options.plan else ("gone", "written")
    print(*(f"{path}: {gone if raw is None else new}" for path, raw in files.items()), sep="\n")
    print("To be looked at, before what comes next:", *places,
          *too_long(files, options.old, options.new), sep="\n  ")  # fmt: skip
    print("Next: .venv/bin/ruff format . && make figures notebooks lint")
    return 0


if __name__ == "__main__":
    sys.exit(main())
