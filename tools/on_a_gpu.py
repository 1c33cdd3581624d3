"""Run the notebooks, and the loop of a reader's kernel, in real Jupyter kernels on a machine with a
GPU.

    python -m tools.on_a_gpu --out data/validation/live_h100.json [--seconds 540] [--only loop 06]

Every notebook runs from top to bottom, one after the other, since they time; then a session in
which somebody writes a right, a slow, a racy and a crashing kernel, moves a slider and runs a
program of their own. What is written: seconds, errors, what was said, versions, date, commit. It
stops before `--seconds` and goes on where the file ends. Needs nbclient, ipykernel and ipywidgets.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

SECONDS = 540.0
SET_UP = """\
import os, sys
sys.path.insert(0, os.path.abspath(".."))
import numpy as np
from helpers import catalog, live, plan
from helpers.notebook import start
from helpers.page.workbench import mine
start()
a = np.arange(1 << 20, dtype=np.float32); c = np.zeros_like(a)"""
ADD = """\
%%cuda double_it grid=4096 block=256 args=(a, c, a.size) expect={"c": 2 * a}
#include <cstdio>
__global__ void double_it(const float* a, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + a[i];
}
int main() { double_it<<<1, 1>>>(nullptr, nullptr, 0); std::printf("done\\n"); }"""
SLIDER = """\
box = live.tile("tiled_32", 1024)
sliders = [w for w in box.children if type(w).__name__ == "SelectionSlider"]
(button,) = [w for w in box.children if type(w).__name__ == "Button"]
sliders[0].value = 16
button.click()
box.runner.wait(120)
import re
print(re.sub("<[^>]*>", " ", box.children[-2].value + box.children[-1].value)[:600])"""
OWN = """\
m = plan("tiled_32", 1024).with_source(catalog["tiled_32"].source + "// mine").measure()
print(m.live, m.gpu, m.label)"""

EXERCISE = """\
from helpers.page.exercises import KernelTask, check_kernel_source
task = KernelTask("tiled", block=(32, 32), grid=("cdiv(N, 32)", "cdiv(M, 32)"))
for found in check_kernel_source(catalog["tiled_32"].source, task):
    print(found)"""


def steps() -> dict[str, str]:
    """The session, cell by cell."""
    from helpers.ladder.rungs import catalog

    tiled = catalog["tiled_32"].source
    racy = tiled.replace("__syncthreads();  // both tiles are complete", "")
    slow = tiled.replace("B_tile[ty][tx] =", "B_tile[tx][ty] =").replace(
        "B_tile[k][tx]", "B_tile[tx][k]"
    )
    crash = tiled.replace("C[size_t(row) * N + col]", "C[(size_t(1) << 40) + col]")
    assert len({tiled, racy, slow, crash}) == 4
    return {
        "set up": SET_UP,
        "right": f"%%cuda tiled_32\n{tiled}",
        "slow": f"%%cuda tiled_32\n{slow}",
        "racy": f"%%cuda tiled_32\n{racy}",
        "wrong line": f"%%cuda tiled_32\n{tiled.replace('col] = sum', 'col] = summe')}",
        "a tile of its own": f"%%cuda tiled_32 TILE=16 size=2048\n{tiled}",
        "any program": ADD,
        "slider": SLIDER,
        "measured": OWN,
        "an exercise": EXERCISE,
        "crash, kept away": f"%%cuda tiled_32\n{crash}",
        "crash, asked for": f'%%cuda tiled_32 backend="cuda"\n{crash}',
        "after the crash": f"%%cuda tiled_32\n{tiled}",
    }


def run(cells: list[str], timeout: float) -> list[dict[str, Any]]:
    """Run cells in a fresh kernel: seconds, what was shown, the error of each; stops at none."""
    import nbformat
    from jupyter_client.manager import KernelManager
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    manager = KernelManager()
    manager.kernel_spec.argv[0] = sys.executable
    client = NotebookClient(
        notebook, km=manager, timeout=max(30, int(timeout)), allow_errors=True,
        resources={"metadata": {"path": str(ROOT / "book")}},
    )  # fmt: skip
    done = []
    with client.setup_kernel():
        for number, cell in enumerate(notebook.cells):
            began = time.perf_counter()
            client.execute_cell(cell, number)
            spent = time.perf_counter() - began
            done.append({"seconds": round(spent, 3), **shown_by(cell.outputs)})
    return done


def shown_by(outputs: list[Any]) -> dict[str, Any]:
    """What a cell showed as text, and its error and standard error, if any."""
    shown, error, stderr = [], "", ""
    for out in outputs:
        if out.output_type == "error":
            error = f"{out.ename}: {out.evalue}"
        elif out.output_type == "stream":
            if out.name == "stderr":
                stderr += out.text
            else:
                shown.append(out.text)
        else:
            data = out.data
            shown.append(
                str(data.get("text/plain") or re.sub("<[^>]*>", " ", data.get("text/html", "")))
            )
    return {"said": "\n".join(shown).strip(), "error": error, "stderr": stderr}


def notebook(path: Path, timeout: float) -> dict[str, Any]:
    """What running a notebook gave: cells, seconds, errors with their cells."""
    every = json.loads(path.read_text(encoding="utf-8"))["cells"]
    cells = ["".join(c["source"]) for c in every if c["cell_type"] == "code"]
    done = run(cells, timeout)
    errors = ((i, d["error"] or d["stderr"][:500]) for i, d in enumerate(done))
    faults = [{"cell": i, "error": error} for i, error in errors if error]
    return {
        "notebook": path.stem,
        "cells": len(cells),
        "seconds": round(sum(d["seconds"] for d in done), 1),
        "slowest": round(max(d["seconds"] for d in done), 1),
        "faults": faults,
    }


def machine() -> dict[str, Any]:
    """What this ran on."""
    from helpers.record.stamps import commit
    from nogpu import device, toolchain

    gpu = device.current()
    packages = {}
    for name in (
        "ipykernel", "ipywidgets", "nbclient", "numpy", "matplotlib", "pandas", "cupy-cuda13x",
        "cupy-cuda12x",
    ):  # fmt: skip
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {
        "gpu": gpu.name if gpu else None, "driver_cuda": gpu.driver_cuda if gpu else None,
        "compiler": toolchain.compiler(), "python": ".".join(map(str, sys.version_info[:3])),
        "packages": packages, "commit": commit(), "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }  # fmt: skip


def write(path: Path, data: dict[str, Any]) -> None:
    """In one step."""
    from nogpu.disk import replace_file

    replace_file(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def main() -> int:
    """The command line; the number of notebooks with faults."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--only", nargs="*", default=[], help="beginnings of notebooks, or loop")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    data = json.loads(options.out.read_text()) if options.out.exists() else {}
    data |= {"machine": machine()}
    data.setdefault("loop", [])
    data.setdefault("notebooks", [])
    if data["machine"]["gpu"] is None:
        print("no GPU answers here; nothing is recorded")
        return 2
    if not data["loop"] and (not options.only or "loop" in options.only):
        session = steps()
        results = run(list(session.values()), end - time.monotonic())
        data["loop"] = [{"step": n, **d} for n, d in zip(session, results, strict=True)]
        write(options.out, data)
        for step in data["loop"]:
            print(f"{step['step']:20s} {step['seconds']:7.2f} s  {step['error'] or step['stderr']}")
    there = {entry["notebook"] for entry in data["notebooks"]}
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        left = end - time.monotonic()
        wanted = not options.only or any(path.stem.startswith(o) for o in options.only)
        if path.stem in there or not wanted or left < 45:
            continue
        entry = notebook(path, left)
        data["notebooks"].append(entry)
        write(options.out, data)
        print(f"{path.stem:28s} {entry['seconds']:7.1f} s  {entry['faults'] or ''}", flush=True)
    return sum(bool(entry["faults"]) for entry in data["notebooks"])


if __name__ == "__main__":
    sys.exit(main())
