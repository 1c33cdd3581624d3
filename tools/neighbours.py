"""Kernels of other repositories, built as they are: `tools.summit_on_a_gpu` times them.

    python -m tools.neighbours fast.cu=FOLDER cutlass=FOLDER sgemm.cu=FOLDER SGEMM_CUDA=FOLDER

Their code stays outside: name the folders of clones, by the keys of `NEIGHBOURS`, at the commits
that their authors gave them. nvcc makes product.so of each, in its folder, behind a few lines that
call it; that needs no GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nogpu.errors import ConfigError

ENTRY = 'extern "C" void product(int which, int m, int n, int k, void* A, void* B, void* C)'
FLAGS = ("-std=c++17", "-O3", "-DNDEBUG", "-w", "-shared", "-Xcompiler=-fPIC")
"""Of nvcc, for all of them."""


@dataclass(frozen=True)
class Neighbour:
    """How another repository's products are built and called.

    address: where it is published. adapter: C++ that includes its file and defines ENTRY. kernels:
    their numbers and what they are called there. columns: B and C lie by columns, as the author
    times them."""

    address: str
    adapter: str
    flags: tuple[str, ...]
    dtype: str
    kernels: Mapping[int, str]
    columns: bool = False


NEIGHBOURS: Mapping[str, Neighbour] = {
    "fast.cu": Neighbour(
        "https://github.com/pranjalssh/fast.cu",
        "#define main their_main\n#include \"matmul.cu\"\n#undef main\n"
        f"{ENTRY} {{ run_kernel(which, m, n, k, (bf16*)A, (bf16*)B, (bf16*)C, nullptr); }}\n",
        ("-gencode=arch=compute_90a,code=sm_90a", "--expt-relaxed-constexpr", "--expt-extended-lambda", "--use_fast_math",
         ),
        "bfloat16",
        {11: "matmul_11", 12: "matmul_12"},
        columns=True,
    ),
    "sgemm.cu": Neighbour(
        "https://github.com/salykova/sgemm.cu",
        "#include <helper_matrix.h>\n#include <sgemm.cuh>\n"
        f"{ENTRY} {{ float one = 1, zero = 0; "
        "sgemm(m, n, k, &one, (float*)A, k, (float*)B, n, &zero, (float*)C, n); }\n",
        ("-arch=sm_90", "-DGPUCC=90", "-Isrc", "-Icommon"),
        "float32",
        {0: "sgemm"},
    ),
    "SGEMM_CUDA": Neighbour(
        "https://github.com/siboehm/SGEMM_CUDA",
        "#include \"src/runner.cu\"\n"
        f"{ENTRY} {{ run_kernel(which, m, n, k, 1.0f, (float*)A, (float*)B, 0.0f, (float*)C, 0); }}\n",
        ("-arch=sm_90", "-Isrc"),
        "float32",
        {10: "kernel 10, warp tiling"},
    ),
    "cutlass": Neighbour(
        "https://github.com/NVIDIA/cutlass",
        Path(__file__).with_name("neighbours_cutlass.cu").read_text(encoding="utf-8"),
        ("-gencode=arch=compute_90a,code=sm_90a", "--expt-relaxed-constexpr", "-Iinclude",
         "-Itools/util/include"),
        "bfloat16",
        {
            10 * tile + band: f"{name}, bands of {band}"
            for tile, name in enumerate(
                ("128x256 cooperative", "256x128 cooperative", "64x256 ping-pong"), 1
            )
            for band in (1, 4, 8)
        },
    ),
}  # fmt: skip


def build(folder: Path, of: Neighbour) -> Path:
    """The repository's product as a shared library, made by nvcc if need be. Raises ConfigError."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    source, library = folder / "product.cu", folder / "product.so"
    if library.is_file():
        return library
    source.write_text(of.adapter, encoding="utf-8")
    command = [nvcc, *FLAGS, *of.flags, f"-I{folder}", str(source), "-o", str(library)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"nvcc refuses {folder}: {done.stderr.strip()[-600:]}")
    return library


def product_of(folder: Path, of: Neighbour) -> Callable[..., None]:
    """The repository's product, built. Raises ConfigError."""
    library = build(folder.resolve(), of)
    for needed in ("libcuda.so.1", "libcublas.so.13"):  # what their code calls by name
        with suppress(OSError):
            ctypes.CDLL(needed, mode=ctypes.RTLD_GLOBAL)
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Build each. Status 2 for what was given wrong, 1 for what could not be built."""
    parser = argparse.ArgumentParser(prog="python -m tools.neighbours", description=__doc__)
    parser.add_argument(
        "folders", nargs="+", metavar="KEY=FOLDER", help=f"of {', '.join(NEIGHBOURS)}"
    )
    folders = dict(item.partition("=")[::2] for item in parser.parse_args(arguments).folders)
    if unknown := [key for key in folders if key not in NEIGHBOURS]:
        parser.error(f"no neighbour is called {unknown[0]!r}; there are {', '.join(NEIGHBOURS)}")
    try:
        for key, folder in folders.items():
            print(build(Path(folder).resolve(), NEIGHBOURS[key]), flush=True)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
