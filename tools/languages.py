"""What four compilers of tiles make of kernels/languages/: PTX and facts in data/languages/.

    python -m tools.languages [--python NAME=PATH ...]

Runs each file's built() in a Python of its own (default: this one; PATH where its package is
installed), without a GPU, keeps the PTX without paths and debug information, has ptxas assemble it
and counts what stands in the machine code. A language whose package is missing is left as it is.
Needs ptxas and nvdisasm; TileLang needs nvcc.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers.chapters.ch23.languages import FOLDER, NAMES
from helpers.ladder.kernel import KERNELS, ROOT
from nogpu import toolchain
from nogpu.errors import ToolchainError

ISA = (8, 6)
"""PTX is stored as this version, which drivers since CUDA 12.7 take; none of it needs a later."""
RUN = "import json, runpy, sys; print(json.dumps(runpy.run_path(sys.argv[1])['built']()))"
SETTINGS = {"CUTE_DSL_ARCH": "sm_90a", "CUTE_DSL_KEEP": "ptx", "CUTE_DSL_LINEINFO": "1",
            "CUTE_DSL_NO_CACHE": "1", "TRITON_DEFAULT_FP_FUSION": "1"}  # fmt: skip
COUNTED = ("HGMMA", "UTMALDG", "UTMASTG", "LDGSTS", "LDSM", "STSM", "STS", "STG", "BAR", "SYNCS",
           "WARPGROUP", "USETMAXREG")  # fmt: skip
"""Instructions of the machine code that are counted, by the first word of their names."""


def built(name: str, python: str) -> dict[str, Any]:
    """What a language's built() gives, from a process of that Python. Raises ToolchainError."""
    with tempfile.TemporaryDirectory() as folder:
        homes = {
            "CUTE_DSL_DUMP_DIR": folder,
            "TRITON_CACHE_DIR": folder,
            "TILELANG_CACHE_DIR": folder,
        }
        done = subprocess.run(
            [python, "-c", RUN, str(KERNELS / "languages" / f"matmul_{name}.py")],
            env={**os.environ, **SETTINGS, **homes}, cwd=folder, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    if done.returncode:
        raise ToolchainError(f"{name} with {python}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def stored(ptx: str) -> tuple[str, int]:
    """PTX as it is kept, with the entry's name `matmul`, and bytes of shared memory that it asked
    for statically, which become dynamic: more than 48 KB a launch has to ask for.

    What goes: debug information, comments, paths, the words that say that a tile compiler wrote it.
    """
    (entry,) = re.findall(r"\.entry\s+(\w+)", ptx)
    ptx = re.sub(rf"\b{re.escape(entry)}(?=\b|_param)", "matmul", ptx)
    version = tuple(map(int, re.search(r"\.version (\d+)\.(\d+)", ptx).groups()))  # type: ignore[union-attr]
    ptx = re.sub(r"\.version \S+", ".version {}.{}".format(*min(version, ISA)), ptx)
    ptx = re.sub(r"^\s*\.section.*?^\s*\}\s*$", "", ptx, flags=re.DOTALL | re.MULTILINE)
    ptx = re.sub(r"^\s*\.section\s+\.debug_macinfo.*$", "", ptx, flags=re.MULTILINE)
    ptx = re.sub(r'\.file\s+(\d+)\s+"[^"]*".*', _file, ptx)
    inlined = r"\.loc\s+\d+ \d+ \d+, function_name [^,]*, inlined_at (\d+ \d+ \d+)"
    ptx = re.sub(inlined, r".loc \1", ptx)
    ptx = re.sub(r"^\s*\.loc\s+(?!1 )\d+ .*\n", "", ptx, flags=re.MULTILINE)
    ptx = re.sub(r"//.*", "", ptx).replace(".hidden", "").replace(".language 7", "")
    shared = re.search(r"\.shared \.align \d+ \.b8 (global_smem_\w+)\[(\d+)\];", ptx)
    if shared:
        outside = f".extern .shared .align 1024 .b8 {shared[1]}[];\n.visible .entry"
        ptx = ptx.replace(shared[0], "").replace(".visible .entry", outside)
    lines = (line.rstrip() for line in ptx.splitlines())
    return "\n".join(line for line in lines if line) + "\n", int(shared[2]) if shared else 0


def _file(line: re.Match[str]) -> str:
    return '.file 1 "matmul"' if line[1] == "1" else ""


def assembled(ptx: str) -> dict[str, Any]:
    """Registers, bytes spilled, and what stands in the machine code for an H100, by ptxas."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "m.ptx"), Path(folder, "m.cubin")
        source.write_text(ptx)
        done = subprocess.run(
            ["ptxas", "-arch=sm_90a", "-v", str(source), "-o", str(cubin)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise ToolchainError(f"ptxas refuses: {done.stderr.strip()}")
        instructions, _ = toolchain.sass_instructions(cubin.read_bytes(), "matmul")
    (registers,) = re.findall(r"Used (\d+) registers", done.stderr)
    spills = re.findall(r"(\d+) bytes spill", done.stderr)
    counts = Counter(i.opcode.split(".")[0] for i in instructions)
    return {
        "registers": int(registers),
        "spilled": sum(map(int, spills)),
        "sass": {word: counts[word] for word in COUNTED if counts[word]},
        "instructions": len(instructions),
    }


def row(name: str, found: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The PTX to keep, and what FOLDER's languages.json says of it."""
    ptx, shared = stored(found["ptx"])
    facts = {"version": found["version"], "block": found["block"],
             "shared": found.get("shared", shared), "args": found["args"]}  # fmt: skip
    return ptx, {"name": name, **facts, **assembled(ptx)}


def main(given: Sequence[str] | None = None) -> int:
    """The command line. Status 1 where a language does not compile."""
    parser = argparse.ArgumentParser(prog="python -m tools.languages", description=__doc__)
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    options = parser.parse_args(given)
    pythons = dict(pair.split("=", 1) for pair in options.python)
    if unknown := set(pythons) - set(NAMES):
        parser.error(f"--python {unknown}: the languages are {', '.join(NAMES)}")
    index, failed = FOLDER / "languages.json", 0
    FOLDER.mkdir(exist_ok=True)
    rows = {r["name"]: r for r in json.loads(index.read_text())} if index.is_file() else {}
    for name in NAMES:
        try:
            ptx, rows[name] = row(name, built(name, pythons.get(name, sys.executable)))
        except ToolchainError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = 1
            continue
        (FOLDER / f"{name}.ptx").write_text(ptx, encoding="utf-8")
        print(f"{name} {rows[name]['version']} -> {(FOLDER / name).relative_to(ROOT)}.ptx")
    lines = ",\n".join(json.dumps(rows[n]) for n in NAMES if n in rows)
    index.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return failed


if __name__ == "__main__":
    sys.exit(main())
