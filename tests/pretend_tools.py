"""Pretend tools for tests of what runs on a GPU: a compute-sanitizer, and the program that it
watches.

Run as a program with "sanitizer" or "launch" first, it reads a job file as the real ones do, and
acts by what stands in place of the compiled kernel: {"faulty": bool, "acts": [words]}. Acts:
"hang", "late" (the program gives up), "stop", "mumble" (an unknown log), "ragged" (only the ragged
shape is faulty), "wrong" (the result). A tool named in PRETEND_BLIND reports nothing. PRETEND_CALLS
is a file that gets a line for each run.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

VERSION = "NVIDIA (R) Compute Sanitizer\nCopyright (c)\nVersion 2025.3.1.0 (build 1)\n"
HELP = (
    "  --tool arg\n  --report-api-errors arg\n  --padding arg\n  --check-exit-code\n  --port arg\n "
    " --max-connections arg\n"
)
REPORT = """========= {what}
=========     at naive+0x120 in /some/folder/04_naive.cu:45
=========     by thread (1,0,0) in block (0,0,0)
"""
WHAT = {
    "memcheck": "Invalid __global__ write of size 4 bytes",
    "racecheck": "Error: Race reported between Write access at tiled+0x1 in 06_tiled.cu:38",
    "synccheck": "Barrier error detected. Divergent thread(s) in block",
    "initcheck": "Uninitialized __global__ memory read of size 4 bytes",
}


def kernel(job):
    """What stands in place of a compiled kernel."""
    found: dict[str, Any] = json.loads(Path(job["cubin"]).read_text(encoding="utf-8"))
    return found


def launch(jobs):
    """The program, with no GPU: how many launches it came to."""
    for at, job in enumerate(jobs):
        if "shapes" in job:
            result = {"shapes": len(job["shapes"]), "worst": 0.25, "wrong": 0, "wrong_at": []}
            print("@ " + json.dumps({"kernel": job["kernel"], **result}), flush=True)
            continue
        acts = kernel(job)["acts"]
        if "late" in acts:
            print('@ {"late": 1}', flush=True)
            return at
        if "hang" in acts:
            time.sleep(60)
        if "stop" in acts:
            print("cudaErrorIllegalAddress: an illegal memory access in /some/folder/x.py")
            return at
        result = {"kernel": job["kernel"], "wrong": 7 if "wrong" in acts else 0}
        print("@ " + json.dumps(result if job["check"] else {}), flush=True)
    print("@ " + json.dumps({"done": len(jobs)}), flush=True)
    return len(jobs)


def sanitizer(arguments):
    """The tool: its exit status."""
    if arguments in (["--version"], ["--help"]):
        print(VERSION if arguments == ["--version"] else HELP)
        return 0
    check = arguments[arguments.index("--tool") + 1]
    jobs = json.loads(Path(arguments[-1]).read_text(encoding="utf-8"))["jobs"]
    print("========= COMPUTE-SANITIZER")
    here = [kernel(j) for j in jobs]
    if any("mumble" in k["acts"] for k in here):
        print("========= Error: Device not supported")
        return 1
    blind = check in os.environ.get("PRETEND_BLIND", "").split(",")
    errors = 0
    for job, k in zip(jobs, here, strict=True):
        spared = "ragged" in k["acts"] and job["M"] % 32 == 0
        if k["faulty"] and not blind and not spared:
            print(REPORT.format(what=WHAT[check]), end="")
            errors += 3
    came = launch(jobs)
    if check == "racecheck":
        print(
            f"========= RACECHECK SUMMARY: {errors} hazards displayed ({errors} errors, 0 warnings)"
        )
    else:
        print(f"========= ERROR SUMMARY: {errors} errors")
    return 0 if came == len(jobs) else 1


def install(monkeypatch, folder):
    """Put the pretend tools in place of the real ones; the file that lists what was run."""
    from tools.recorder import sanitizer as room

    tool = folder / "bin" / "compute-sanitizer"
    tool.parent.mkdir()
    tool.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" sanitizer "$@"\n', encoding="utf-8"
    )
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    calls = folder / "calls"
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PRETEND_CALLS", str(calls))
    monkeypatch.setattr(room, "PROGRAM", (sys.executable, __file__, "launch"))
    monkeypatch.setattr(room, "compile_all", pretend_compile)
    return calls


def pretend_compile(sources, folder, count):
    """In place of NVRTC: faulty is what differs from the file; acts are words of a last comment."""
    paths = {}
    for i, (name, (text, file, _, _)) in enumerate(sources.items()):
        whole, _, acts = text.partition("// acts:")
        clean = (ROOT / "kernels" / file).read_text(encoding="utf-8")
        paths[name] = folder / f"{i}.cubin"
        made = {"faulty": whole != clean, "acts": acts.split()}
        paths[name].write_text(json.dumps(made), encoding="utf-8")
    return paths


def threads(count):
    """In place of processes that compile."""
    return ThreadPoolExecutor(1)


if __name__ == "__main__":
    if len(sys.argv) > 3 or sys.argv[1] == "launch":
        with open(os.environ["PRETEND_CALLS"], "a", encoding="utf-8") as file:
            file.write(" ".join(sys.argv[1:-1]) + "\n")
    if sys.argv[1] == "sanitizer":
        sys.exit(sanitizer(sys.argv[2:]))
    listed = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))["jobs"]
    sys.exit(0 if launch(listed) == len(listed) else 1)
