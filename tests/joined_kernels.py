"""Kernels whose shared reads ptxas joins, in the ways of published ones, and their counts beside
ncu's.

`python -m tests.joined_kernels` prints, for each, what the emulator counts: wavefronts of the PTX
and of the machine code. On a machine with an NVIDIA GPU, CuPy and ncu it also runs each under ncu,
from the very cubin whose machine code was read, and says if the counts agree; its status is 1 if
any does not. --arch: what to compile for where there is no GPU.

Every kernel computes C = A B for square matrices of 128 rows, row-major, but for `neighbours`,
which adds up elements of A.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from helpers.record import counting as ncu
from nogpu import device, emulator, toolchain

N = 128
METRICS = {name: ncu.METRICS[name] for name in (
    "shared_load_wavefronts", "shared_store_wavefronts",
    "shared_load_instructions", "shared_store_instructions",
)}  # fmt: skip


def cuda(name):
    """The text of a kernel."""
    return (Path(__file__).parent / "joined" / f"{name}.cu").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Subject:
    """A kernel: what it shows, its source, launch and macros."""

    name: str
    shows: str
    source: str
    grid: tuple[int, int]
    threads: int
    defines: Mapping[str, str] = field(default_factory=dict)

    def compiled(self, arch):
        """Its machine code for an architecture."""
        return toolchain.compile(
            self.source, name=f"{self.name}.cu", arch=arch, defines=self.defines
        )


def _blocked(name, shows, size, at, unroll=8, volatile=""):
    macros = {"KERNEL": name, "A_SIZE": size, "A_AT(r,k)": at, "VOLATILE": volatile,
              "UNROLL": str(unroll)}  # fmt: skip
    return Subject(name, shows, cuda("blocked"), (N // 64, N // 64), 64, defines=macros)


def _warps(name, shows, unroll):
    macros = {"KERNEL": name, "UNROLL": str(unroll)}
    return Subject(name, shows, cuda("warps"), (N // 64, N // 64), 128, defines=macros)


SUBJECTS = (
    Subject("square", "one tile, A along rows", cuda("square"), (N // 32, N // 32), 1024),
    Subject("column", "a loop that ptxas unrolls", cuda("column"), (N // 64, N // 64), 512),
    _blocked("by_rows", "A by rows: joined along k, across steps of the loop",
             "BM * BK", "((r) * BK + (k))"),
    _blocked("transposed", "A transposed: joined along the column", "BM * BK", "((k) * BM + (r))"),
    _blocked("rolled", "the same in a loop", "BM * BK", "((k) * BM + (r))", 1),
    _blocked("odd_rows", "A in rows of nine: joined, the ninth is read for nothing",
             "BM * (BK + 1)", "((r) * (BK + 1) + (k))"),
    _blocked("kept_apart", "A volatile, which must not be joined",
             "BM * BK", "((k) * BM + (r))", 8, "*(volatile float*)&"),
    _warps("warps", "tiles of warps in two-dimensional arrays", 16),
    _warps("peeled", "a loop of which ptxas joins the first round otherwise than the others", 0),
    Subject("neighbours", "neighbours on two lines, doubles, shorts, a stencil",
            cuda("neighbours"), (N, 1), 128),
)  # fmt: skip


def operands():
    """A, B and an empty C."""
    rng = np.random.default_rng(0)
    A, B = (rng.integers(-4, 5, (N, N)).astype(np.float32) for _ in range(2))
    return A, B, np.full((N, N), np.nan, np.float32)


def wanted(subject, A, B):
    """What C should hold: exactly, for the operands are small integers."""
    if subject.name != "neighbours":
        return A @ B
    out = np.full_like(A, -1.0)
    out[:, 1:-1] += A[:, :-2] + 2 * A[:, 1:-1]
    return out


def emulated(subject, arch):
    """Run it in the emulator; raises AssertionError if it does not come out right and quiet."""
    A, B, C = operands()
    report = emulator.launch(
        subject.source, subject.name, subject.grid, subject.threads, [A, B, C, N],
        defines=subject.defines, arch=arch, name=f"{subject.name}.cu", sass=True,
    )  # fmt: skip
    assert report.ok, str(report)
    assert (C == wanted(subject, A, B)).all(), f"{subject.name} is wrong"
    return report


def counted(report):
    """The machine code's counts by the names in METRICS, and the PTX's wavefronts as ptx_..."""
    out: dict[str, int | None] = {}
    for op in ("load", "store"):
        requests, waves = report.sass_totals(op) or (None, None)
        out[f"shared_{op}_wavefronts"], out[f"shared_{op}_instructions"] = waves, requests
        rows = [a for a in report.accesses if a.space == "shared" and a.op == op]
        out[f"ptx_{op}_wavefronts"] = sum(a.wavefronts for a in rows)
    return out


def run_all(folder):
    """Launch every cubin of a folder on the GPU, in the order of SUBJECTS: what ncu watches."""
    import cupy

    for subject in SUBJECTS:
        A, B, C = operands()
        module = cupy.RawModule(path=str(folder / f"{subject.name}.cubin"))
        out = cupy.asarray(C)
        given = (cupy.asarray(A), cupy.asarray(B), out, np.int32(N))
        module.get_function(subject.name)(subject.grid, (subject.threads,), given)
        assert (out.get() == wanted(subject, A, B)).all(), f"{subject.name} is wrong on the GPU"


def on_gpu(arch):
    """ncu's counts of every subject. Raises RuntimeError with what ncu said where it fails."""
    with tempfile.TemporaryDirectory() as name:
        for subject in SUBJECTS:
            (Path(name) / f"{subject.name}.cubin").write_bytes(subject.compiled(arch).cubin)
        entries = "|".join(s.name for s in SUBJECTS)
        line = [
            ncu.tool_path(), "--clock-control", "none", "--metrics", ",".join(METRICS.values()),
            "--kernel-name", f"regex:^({entries})$", "--csv", "--print-units", "base",
            sys.executable, "-m", "tests.joined_kernels", "--run", name,
        ]  # fmt: skip
        done = subprocess.run(line, capture_output=True, text=True, env=os.environ, check=False)
    if done.returncode:
        raise RuntimeError(f"ncu failed:\n{done.stdout}\n{done.stderr}")
    launches = ncu.parse(done.stdout)
    assert [name for name, _ in launches] == [s.name for s in SUBJECTS]
    return [{ours: values[theirs] for ours, theirs in METRICS.items()} for _, values in launches]


def main(arguments=None):
    """The counts of every subject, beside ncu's where there is a GPU; 1 if any differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--arch", default="sm_90", help="where there is no GPU (default sm_90)")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        run_all(Path(options.run))
        return 0
    gpu = device.current()
    arch = gpu.arch if gpu else options.arch
    hardware: Sequence[Mapping[str, Any]] = on_gpu(arch) if gpu else [{}] * len(SUBJECTS)
    differ = 0
    for subject, theirs in zip(SUBJECTS, hardware, strict=True):
        ours = counted(emulated(subject, arch))
        equal = all(ours[name] == value for name, value in theirs.items())
        differ += not equal
        row = {"kernel": subject.name, "arch": arch, **ours, "ncu": dict(theirs)}
        print(json.dumps(row), "" if not theirs else "equal" if equal else "DIFFERENT")
    version = ".".join(map(str, toolchain.nvrtc().version))
    print(
        f"NVRTC {version}, {arch}: " + (f"{differ} of {len(SUBJECTS)} differ" if gpu else "no GPU")
    )
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
