"""Matrix products in other people's habits, over small integers, whose sums no order changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nogpu import emulator

Shape = tuple[int, int, int]
Outcome = tuple[emulator.Report, np.ndarray, np.ndarray]

SHAPES: tuple[Shape, ...] = ((1, 1, 1), (17, 33, 19), (40, 35, 70))


@dataclass(frozen=True)
class Foreign:
    """run(M, N, K) launches the kernel. findings: the kinds that must be reported, no others."""

    habit: str
    run: Callable[..., Outcome]
    findings: frozenset[str] = frozenset()
    shapes: tuple[Shape, ...] = SHAPES
    exact: bool = True
    """Whether the result is right, be a fault reported or not."""


def locate(report):
    """What findings say of where, who and how often: array, element, threads, block, count."""
    return [(f.array, f.index, f.threads, f.block, f.count) for f in report.findings]


KERNELS: dict[str, Foreign] = {}
OUT = {"uninitialised": ("C",)}
"""Of a launch whose C holds nothing at first."""


def foreign(habit, *findings, shapes=SHAPES, exact=True):
    """Enter a kernel."""

    def enter(run):
        KERNELS[run.__name__] = Foreign(habit, run, frozenset(findings), shapes, exact)
        return run

    return enter


def cuda(name):
    """A kernel's text, or a part of one, from cuda/."""
    return (Path(__file__).parent / "cuda" / f"{name}.cu").read_text(encoding="utf-8")


def cdiv(a, b):
    """Ceiling of a / b."""
    return -(-a // b)


def ints(*shape, dtype=np.float32, top=4):
    """Integers from -top to top, the same ones for the same shape."""
    rng = np.random.default_rng(shape)
    return rng.integers(-top, top + 1, shape).astype(dtype)


def empty(*shape, dtype=np.float32):
    """An output: NaN where the type has one."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else -1, dtype)


def go(
    name, grid, block, args, C, want,
    entry="mm", **options,
):  # fmt: skip
    """Launch a kernel of cuda/foreign that leaves C."""
    report = emulator.launch(cuda(f"foreign/{name}"), entry, grid, block, args, **options)
    return report, C, want


def plain(
    habit, name, grid, block, *findings,
    text="", shapes=SHAPES, exact=True, out="C",
):  # fmt: skip
    """Enter a kernel of (A, B, C, M, N, K), row-major float32. grid: of M and N. out: C's name."""

    def run(M, N, K):
        A, B, C = ints(M, K), ints(K, N), empty(M, N)
        args = [A, B, C, M, N, K]
        source = text or cuda(f"foreign/{name}")
        report = emulator.launch(source, "mm", grid(M, N), block, args, uninitialised=(out,))
        return report, C, A @ B

    KERNELS[name] = Foreign(habit, run, frozenset(findings), shapes, exact)


def tiles(cols, rows):
    """A grid of tiles of C."""
    return lambda M, N: (cdiv(N, cols), cdiv(M, rows))


def elements(count):
    """A grid of so many elements of C a block."""
    return lambda M, N: cdiv(M * N, count)


# -- shared memory in other shapes -----------------------------------------------------------------

plain("the tile of A stored transposed", "transposed_tile", tiles(16, 16), (16, 16), out="c")
plain(
    "columns of a shared tile permuted by XOR instead of padded", "xor_swizzle", tiles(16, 16), 256
)
plain(
    "rank-1 updates: one column of A and one row of B in shared memory at a time",
    "outer_products", tiles(16, 16), (16, 16),
)  # fmt: skip


# -- who computes what -----------------------------------------------------------------------------

plain("a warp for each element, reduced by shuffles", "warp_shuffle_dot", elements(4), 128)
plain(
    "a warp loads together and hands values round with shuffles, no shared memory",
    "cooperative_warp", tiles(32, 4), (32, 4),
)  # fmt: skip
plain(
    "one dimension for grid and block, rows and columns by / and %", "linear_grid", elements(96), 96
)
plain(
    "threadIdx.z splits k, the layers meet in shared memory",
    "layers_of_threads", tiles(8, 8), (8, 8, 4),
)  # fmt: skip


@foreign("split-K, partial sums added by atomics")
def split_k_atomics(M, N, K):
    A, B, C = ints(M, K), ints(K, N), np.zeros((M, N), np.float32)
    grid = (cdiv(N, 16), cdiv(M, 4), cdiv(K, 13))
    return go("split_k_atomics", grid, (16, 4), [A, B, C, M, N, K, 13], C, A @ B)


@foreign("split-K in two kernels: a workspace, then its reduction")
def split_k_workspace(M, N, K):
    A, B, C, W = ints(M, K), ints(K, N), empty(M, N), empty(3, M, N)
    name, args = "split_k_workspace", [A, B, W, M, N, K, 3]
    first, *_ = go(name, cdiv(3 * M * N, 128), 128, args, W, W, "partial", uninitialised=("W",))
    assert first.ok, first
    return go(name, cdiv(M * N, 128), 128, [W, C, M * N, 3], C, A @ B, "reduce", **OUT)


@foreign("blocks that stay and draw tile numbers from a counter")
def persistent(M, N, K):
    A, B, C, counter = ints(M, K), ints(K, N), empty(M, N), np.zeros(1, np.int32)
    outcome = go("persistent", 4, 128, [A, B, C, M, N, K, counter], C, A @ B, **OUT)
    assert counter[0] == 4 + cdiv(N, 16) * cdiv(M, 8)
    return outcome


@foreign("a batch of matrices along z of the grid")
def batched(M, N, K):
    A, B, C = ints(3, M, K), ints(3, K, N), empty(3, M, N)
    args = [A, B, C, M, N, K, M * K, K * N, M * N]
    return go("batched", (cdiv(N, 8), cdiv(M, 8), 3), (8, 8), args, C, A @ B, **OUT)


# -- how it is written -----------------------------------------------------------------------------

plain(
    "float4 by reinterpret_cast where it fits, elements at the edge",
    "float4_with_edges", tiles(64, 8), (16, 8),
)  # fmt: skip
plain(
    "float4 without asking for alignment: right only where rows are multiples of 16 bytes",
    "float4_blindly", lambda M, N: M, 32, "misaligned", shapes=((5, 18, 7),), exact=False,
)  # fmt: skip
plain("device functions that are called, not inlined", "called_functions", tiles(16, 8), (16, 8))
plain(
    "unrolled by hand, the rest through a switch without breaks",
    "switch_for_the_rest", tiles(32, 4), (32, 4),
)  # fmt: skip
plain(
    "fragments in warps of 8 x 4 lanes, unrolled by template recursion",
    "recursive_unrolling", tiles(16, 8), 32,
)  # fmt: skip
plain("dot products gathered by atomics in shared memory", "shared_atomics", tiles(32, 1), (32, 4))


@foreign("matrices as structures with a stride, sub-matrices by a device function")
def matrix_structures(M, N, K):
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    args = [(M, K, K, A), (K, N, N, B), (M, N, N, C)]
    return go("matrix_structures", (cdiv(N, 8), cdiv(M, 8)), (8, 8), args, C, A @ B)


@foreign("a template over type and tile, named by an expression")
def template_by_name(M, N, K):
    A, B, C = ints(M, K, dtype="f8"), ints(K, N, dtype="f8"), empty(M, N, dtype="f8")
    grid, args = (cdiv(N, 12), cdiv(M, 12)), [A, B, C, M, N, K]
    return go("template_by_name", grid, (12, 12), args, C, A @ B, "mm<double, 12>")


@foreign("halves in pairs: half2 arithmetic")
def half2_pairs(M, N, K):
    A, B, C = ints(M, K, dtype="f2", top=2), ints(K, N, dtype="f2", top=2), empty(M, N, dtype="f2")
    want = (A.astype("f4") @ B.astype("f4")).astype("f2")
    grid = (cdiv(N, 32), cdiv(M, 4))
    return go("half2_pairs", grid, (16, 4), [A, B, C, M, N, K], C, want, **OUT)


@foreign("bytes four at a time: __dp4a with int32 sums")
def packed_bytes(M, N, K):
    K4 = cdiv(K, 4)
    A, B = np.zeros((M, 4 * K4), np.int8), np.zeros((N, 4 * K4), np.int8)
    A[:, :K], B[:, :K] = ints(M, K, dtype=np.int8, top=100), ints(N, K, dtype=np.int8, top=100)
    C = empty(M, N, dtype=np.int32)
    args = [A.view(np.int32), B.view(np.int32), C, M, N, K4]
    want = A.astype(np.int32) @ B.T.astype(np.int32)
    return go("packed_bytes", (cdiv(N, 16), cdiv(M, 4)), (16, 4), args, C, want, **OUT)


@foreign("the small factor in constant memory")
def constant_memory(M, N, K):
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    grid, more = (cdiv(N, 32), cdiv(M, 4)), {"symbols": {"factor": B}, **OUT}
    return go("constant_memory", grid, (32, 4), [A, C, M, N, K], C, A @ B, **more)


@foreign("columns first, with leading dimensions, alpha and beta")
def column_major_gemm(M, N, K):
    lda, ldb, ldc = M + 3, K + 1, M + 2
    A, B, C = ints(K, lda), ints(N, ldb), ints(N, ldc)
    want = C.copy()
    want[:, :M] = 2 * (A[:, :M].T @ B[:, :K].T).T - 3 * C[:, :M]
    args = [M, N, K, 2.0, A, lda, B, ldb, -3.0, C, ldc]
    return go("column_major_gemm", (cdiv(M, 32), cdiv(N, 4)), (32, 4), args, C, want, "gemm")


# -- with the faults that such code has ------------------------------------------------------------

_REDUCTION = cuda("foreign/_reduction")
plain(
    "a warp-synchronous reduction with __syncwarp", "warp_synchronous", lambda M, N: (N, M), 64,
    text=_REDUCTION.replace("SYNC", "__syncwarp();"), shapes=SHAPES[:2],
)  # fmt: skip
plain(
    "the same with volatile alone, as before Volta", "volatile_alone", lambda M, N: (N, M), 64,
    "race", text=_REDUCTION.replace("SYNC", ""), shapes=SHAPES[:2],
)  # fmt: skip
plain(
    "threads outside C return before the barrier",
    "return_before_the_barrier", tiles(16, 16), (16, 16), "divergent-barrier", "uninitialised",
    shapes=((17, 33, 19),), exact=False,
)  # fmt: skip


WITHOUT = "split-K without atomics: blocks overwrite each other"


@foreign(WITHOUT, "race", shapes=((9, 8, 40),), exact=False)
def split_k_without_atomics(M, N, K):
    A, B, C = ints(M, K), ints(K, N), np.zeros((M, N), np.float32)
    return go("split_k_without_atomics", (cdiv(K, 20), M), N, [A, B, C, M, N, K], C, A @ B)
