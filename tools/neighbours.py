"""Time kernels of other repositories in turn with this book's and cuBLAS, on the GPU at hand.

Their code stays outside: name the folders of clones, by the keys of `NEIGHBOURS`, at the commits
that their authors gave them. Each is built by nvcc as it is, behind a few lines that call it; its
product is compared with float64 before it is timed, and what is wrong is not recorded.

    python -m tools.neighbours --out FILE fast.cu=FOLDER sgemm.cu=FOLDER SGEMM_CUDA=FOLDER
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helpers.ladder.kernel import ROOT
from helpers.record import plans, protocol, stamps
from helpers.record.gpu import Session
from nogpu.errors import ConfigError, NoGPUError
from tools.recorder import campaign

SIZES = (4096, 8192)
ENTRY = 'extern "C" void product(int which, int m, int n, int k, void* A, void* B, void* C)'
FLAGS = ("-std=c++17", "-O3", "-DNDEBUG", "-w", "-shared", "-Xcompiler=-fPIC")
"""Of nvcc, for all of them."""


@dataclass(frozen=True)
class Neighbour:
    """How another repository's products are built and called.

    address: where it is published. adapter: C++ that includes its file and defines ENTRY. kernels:
    their numbers and what they are called there. columns: B and C lie by columns, as the author
    times them. ours: this book's kernels and cuBLAS beside them."""

    address: str
    adapter: str
    flags: tuple[str, ...]
    dtype: str
    kernels: Mapping[int, str]
    ours: tuple[str, ...]
    columns: bool = False


FP32, BF16 = ("fp32_best", "cublas_fp32"), ("hopper_5", "hopper_6", "cublas_bf16")
NEIGHBOURS: Mapping[str, Neighbour] = {
    "fast.cu": Neighbour(
        "https://github.com/pranjalssh/fast.cu",
        "#define main their_main\n#include \"matmul.cu\"\n#undef main\n"
        f"{ENTRY} {{ run_kernel(which, m, n, k, (bf16*)A, (bf16*)B, (bf16*)C, nullptr); }}\n",
        ("-gencode=arch=compute_90a,code=sm_90a", "--expt-relaxed-constexpr", "--expt-extended-lambda", "--use_fast_math",
         "-lcuda", "-lcublas"),
        "bfloat16",
        {11: "matmul_11", 12: "matmul_12"},
        BF16,
        columns=True,
    ),
    "sgemm.cu": Neighbour(
        "https://github.com/salykova/sgemm.cu",
        "#include <helper_matrix.h>\n#include <sgemm.cuh>\n"
        f"{ENTRY} {{ float one = 1, zero = 0; "
        "sgemm(m, n, k, &one, (float*)A, k, (float*)B, n, &zero, (float*)C, n); }\n",
        ("-arch=sm_90", "-DGPUCC=90", "-Isrc", "-Icommon", "-lcublas"),
        "float32",
        {0: "sgemm"},
        FP32,
    ),
    "SGEMM_CUDA": Neighbour(
        "https://github.com/siboehm/SGEMM_CUDA",
        "#include \"src/runner.cu\"\n"
        f"{ENTRY} {{ run_kernel(which, m, n, k, 1.0f, (float*)A, (float*)B, 0.0f, (float*)C, 0); }}\n",
        ("-arch=sm_90", "-Isrc", "-lcublas"),
        "float32",
        {10: "kernel 10, warp tiling"},
        FP32,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One contender at one size; ms and quartiles of a launch, share: of cuBLAS, pair by pair."""

    repository: str
    commit: str
    kernel: str
    dtype: str
    size: int
    ms: float
    q1: float
    q3: float
    gflops: float
    share: float


def build(folder: Path, of: Neighbour, to: Path) -> Callable[..., None]:
    """The repository's product, from a shared library that nvcc makes. Raises ConfigError."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    source, library = to / "adapter.cu", to / "adapter.so"
    source.write_text(of.adapter, encoding="utf-8")
    command = [nvcc, *FLAGS, *of.flags, f"-I{folder}", str(source), "-o", str(library)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"nvcc refuses {folder}: {done.stderr.strip()[-600:]}")
    product = ctypes.CDLL(str(library)).product
    product.argtypes = [ctypes.c_int] * 4 + [ctypes.c_void_p] * 3
    return product


def commit_of(folder: Path) -> str:
    """What the folder's file COMMIT says, or git. Raises ConfigError."""
    if (folder / "COMMIT").is_file():
        return (folder / "COMMIT").read_text(encoding="utf-8").strip()
    git = subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "--short=7", "HEAD"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if git.returncode:
        raise ConfigError(f"{folder} is no git clone: write its commit into {folder / 'COMMIT'}")
    return git.stdout.strip()


def timed(
    session: Session, key: str, product: Callable[..., None], commit: str, size: int
) -> list[Row]:
    """Each kernel of a repository in turn with ours; what is wrong raises ImplausibleError."""
    of, cupy = NEIGHBOURS[key], session.cupy
    problem = session.problem(of.dtype, size, size, size)
    B = cupy.ascontiguousarray(problem.B.T) if of.columns else problem.B
    operations: dict[str, Callable[[], None]] = {}
    for which, name in of.kernels.items():
        C = session.output(of.dtype, size, size)
        C.fill(0)  # some add to zero times what C holds, and that times NaN is NaN
        addresses = [x.data.ptr for x in (problem.A, B, C)]

        def start(which: int = which, addresses: Sequence[int] = addresses) -> None:
            product(which, size, size, size, *addresses)

        start()
        session.stream.synchronize()
        result = cupy.ascontiguousarray(C.T) if of.columns else C
        worst, ratio = session.error(problem, result, of.dtype)
        protocol.refuse_wrong(ratio, f"{key} {name} at {size}", worst, problem.checked)
        operations[name] = start
    for name in of.ours:
        C = session.output(of.dtype, size, size)
        if name.startswith("cublas"):
            operations[name] = session.baseline_operation(name, problem.A, problem.B, C)
        else:
            p = plans.plan(name, size, size, size)
            operations[name] = session.kernel_operation(p, problem.A, problem.B, C)
    done = protocol.interleaved(session.bench(operations), list(operations))
    rows = []
    for name in operations:
        theirs = name in of.kernels.values()
        took, share = protocol.spread(done.ms[name]), done.ratio(name, of.ours[-1])
        rate = protocol.gflops(size, size, size, took.median)
        protocol.refuse_above_peak(
            name, rate, session.peak_gflops("fp32" if of.dtype == "float32" else "fp16")
        )
        where = (of.address, commit) if theirs else ("", "")
        rows.append(
            Row(*where, name, of.dtype, size, took.median, took.q1, took.q3, rate, share.median)
        )
        print(f"{key:11s} {name:24s} {size:5d} {took.median:8.4f} ms {rate / 1e3:7.1f} TFLOP/s "
              f"{100 * share.median:6.1f} %", flush=True)  # fmt: skip
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, check, time and write. Status 2 for what was given wrong, 1 for what could not be
    built."""
    parser = argparse.ArgumentParser(prog="python -m tools.neighbours", description=__doc__)
    parser.add_argument(
        "folders", nargs="+", metavar="KEY=FOLDER", help=f"of {', '.join(NEIGHBOURS)}"
    )
    parser.add_argument("--out", type=Path, help="default: data/validation/neighbours_GPU.json")
    options = parser.parse_args(arguments)
    folders = dict(item.partition("=")[::2] for item in options.folders)
    if unknown := [key for key in folders if key not in NEIGHBOURS]:
        parser.error(f"no neighbour is called {unknown[0]!r}; there are {', '.join(NEIGHBOURS)}")
    try:
        session = Session()
    except NoGPUError as error:
        print(error, file=sys.stderr)
        return 2
    session.stream = session.cupy.cuda.Stream.null  # theirs launch on the default stream
    rows: list[Row] = []
    failed = 0
    for key, folder in folders.items():
        with tempfile.TemporaryDirectory() as to:
            try:
                commit = commit_of(Path(folder))
                product = build(Path(folder).resolve(), NEIGHBOURS[key], Path(to))
                for size in SIZES:
                    rows += timed(session, key, product, commit, size)
            except (ConfigError, protocol.ImplausibleError) as error:
                failed = 1
                print(f"{key}: {error}", file=sys.stderr)
    versions: dict[str, Any] = stamps.stamp(session.versions(), stamps.commit())
    command = "python -m tools.neighbours --out FILE " + " ".join(
        f"{key}=FOLDER" for key in folders
    )
    gpu = campaign.gpu_key(session.gpu, None)
    out = options.out or ROOT / "data" / "validation" / f"neighbours_{gpu}.json"
    text = {"command": command, "gpu": stamps.gpu_facts(session), "recorded": versions,
            "rows": [asdict(row) for row in rows]}  # fmt: skip
    out.write_text(json.dumps(text, indent=1, default=np.ndarray.tolist) + "\n", encoding="utf-8")
    print(f"{len(rows)} rows -> {out}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
