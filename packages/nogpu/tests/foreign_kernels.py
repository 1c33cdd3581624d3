"""Matrix products as other people write them: one kernel for each habit, all written here.

A function of this file takes M, N, K, makes operands, launches its kernel in the emulator and
returns the report, what the kernel computed and what NumPy computes. Operands are small integers,
so that every order of summation gives the same sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nogpu import emulator

Shape = tuple[int, int, int]
Outcome = tuple[emulator.Report, np.ndarray, np.ndarray]

SHAPES: tuple[Shape, ...] = ((1, 1, 1), (17, 33, 19), (40, 35, 70))


@dataclass(frozen=True)
class Foreign:
    """run(M, N, K) launches the kernel. findings: the kinds that must be reported, no others."""

    name: str
    habit: str
    run: Callable[..., Outcome]
    findings: frozenset[str] = frozenset()
    shapes: tuple[Shape, ...] = SHAPES
    exact: bool = True
    """Whether the result is right, be a fault reported or not."""


KERNELS: dict[str, Foreign] = {}


def foreign(habit: str, *findings: str, shapes: tuple[Shape, ...] = SHAPES, exact: bool = True):
    """Enter a kernel."""

    def enter(run: Callable[..., Outcome]) -> Callable[..., Outcome]:
        KERNELS[run.__name__] = Foreign(
            run.__name__, habit, run, frozenset(findings), shapes, exact
        )
        return run

    return enter


def cuda(name: str) -> str:
    """A kernel's text, or a part of one, from cuda/."""
    return (Path(__file__).parent / "cuda" / f"{name}.cu").read_text(encoding="utf-8")


def cdiv(a: int, b: int) -> int:
    """Ceiling of a / b."""
    return -(-a // b)


def ints(*shape: int, dtype: Any = np.float32, top: int = 4) -> np.ndarray:
    """Integers from -top to top, the same ones for the same shape."""
    rng = np.random.default_rng(shape)
    return rng.integers(-top, top + 1, shape).astype(dtype)


def empty(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """An output: NaN where the type has one."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else -1, dtype)


def plain(
    source: str, entry: str, grid: Any, block: Any, M: int, N: int, K: int, **options: Any
) -> Outcome:
    """Launch (A, B, C, M, N, K), row-major float32."""
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    report = emulator.launch(
        source, entry, grid, block, [A, B, C, M, N, K], **{"uninitialised": ("C",), **options}
    )
    return report, C, A @ B


# -- shared memory in other shapes -----------------------------------------------------------------


@foreign("the tile of A stored transposed")
def transposed_tile(M: int, N: int, K: int) -> Outcome:
    return plain(
        cuda("foreign/transposed_tile"), "mm", (cdiv(N, 16), cdiv(M, 16)), (16, 16), M, N, K,
        uninitialised=("c",),
    )  # fmt: skip


@foreign("one linear shared array for both tiles")
def linear_shared(M: int, N: int, K: int) -> Outcome:
    return plain(cuda("foreign/linear_shared"), "mm", (cdiv(N, 8), cdiv(M, 8)), 64, M, N, K)


@foreign("an extra column against bank conflicts, rows loaded down the columns")
def extra_column(M: int, N: int, K: int) -> Outcome:
    return plain(cuda("foreign/extra_column"), "mm", (cdiv(N, 16), cdiv(M, 16)), (16, 16), M, N, K)


@foreign("two buffers whose pointers are swapped")
def pointer_swap(M: int, N: int, K: int) -> Outcome:
    return plain(cuda("foreign/pointer_swap"), "mm", (cdiv(N, 8), cdiv(M, 8)), (8, 8), M, N, K)


@foreign("dynamic shared memory, the tile's edge given at run time")
def dynamic_shared(M: int, N: int, K: int) -> Outcome:
    edge = 12
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    report = emulator.launch(
        cuda("foreign/dynamic_shared"), "mm", (cdiv(N, edge), cdiv(M, edge)), (edge, edge), [A, B, C, M, N, K, edge],
        shared_bytes=4 * edge * (2 * edge + 1), uninitialised=("C",),
    )  # fmt: skip
    return report, C, A @ B


@foreign("columns of a shared tile permuted by XOR instead of padded")
def xor_swizzle(M: int, N: int, K: int) -> Outcome:
    return plain(cuda("foreign/xor_swizzle"), "mm", (cdiv(N, 16), cdiv(M, 16)), 256, M, N, K)


@foreign("rank-1 updates: one column of A and one row of B in shared memory at a time")
def outer_products(M: int, N: int, K: int) -> Outcome:
    return plain(
        cuda("foreign/outer_products"), "mm", (cdiv(N, 16), cdiv(M, 16)), (16, 16), M, N, K
    )


# -- who computes what -----------------------------------------------------------------------------


@foreign("split-K, partial sums added by atomics")
def split_k_atomics(M: int, N: int, K: int) -> Outcome:
    A, B, C = ints(M, K), ints(K, N), np.zeros((M, N), np.float32)
    grid = (cdiv(N, 16), cdiv(M, 4), cdiv(K, 13))
    report = emulator.launch(
        cuda("foreign/split_k_atomics"), "mm", grid, (16, 4), [A, B, C, M, N, K, 13]
    )
    return report, C, A @ B


@foreign("split-K in two kernels: a workspace, then its reduction")
def split_k_workspace(M: int, N: int, K: int) -> Outcome:
    A, B, C, W = ints(M, K), ints(K, N), empty(M, N), empty(3, M, N)
    first = emulator.launch(
        cuda("foreign/split_k_workspace"), "partial", cdiv(3 * M * N, 128), 128,
        [A, B, W, M, N, K, 3], uninitialised=("W",),
    )  # fmt: skip
    assert first.ok, first
    report = emulator.launch(
        cuda("foreign/split_k_workspace"), "reduce", cdiv(M * N, 128), 128, [W, C, M * N, 3],
        uninitialised=("C",),
    )  # fmt: skip
    return report, C, A @ B


@foreign("a warp for each element, reduced by shuffles")
def warp_shuffle_dot(M: int, N: int, K: int) -> Outcome:
    return plain(cuda("foreign/warp_shuffle_dot"), "mm", cdiv(M * N, 4), 128, M, N, K)


@foreign("a warp loads together and hands values round with shuffles, no shared memory")
def cooperative_warp(M: int, N: int, K: int) -> Outcome:
    return plain(
        cuda("foreign/cooperative_warp"), "mm", (cdiv(N, 32), cdiv(M, 4)), (32, 4), M, N, K
    )


@foreign("one dimension for grid and block, rows and columns by / and %")
def linear_grid(M: int, N: int, K: int) -> Outcome:
    return plain(cuda("foreign/linear_grid"), "mm", cdiv(M * N, 96), 96, M, N, K)


@foreign("a grid-stride loop over the elements of C")
def grid_stride(M: int, N: int, K: int) -> Outcome:
    return plain(cuda("foreign/grid_stride"), "mm", 3, 64, M, N, K)


@foreign("blocks that stay and draw tile numbers from a counter")
def persistent(M: int, N: int, K: int) -> Outcome:
    A, B, C, counter = ints(M, K), ints(K, N), empty(M, N), np.zeros(1, np.int32)
    report = emulator.launch(
        cuda("foreign/persistent"), "mm", 4, 128, [A, B, C, M, N, K, counter], uninitialised=("C",)
    )
    assert counter[0] == 4 + cdiv(N, 16) * cdiv(M, 8)
    return report, C, A @ B


@foreign("a thread keeps several rows of one column in registers")
def rows_in_registers(M: int, N: int, K: int) -> Outcome:
    return plain(cuda("foreign/rows_in_registers"), "mm", (cdiv(N, 32), cdiv(M, 5)), 32, M, N, K)


@foreign("a batch of matrices along z of the grid")
def batched(M: int, N: int, K: int) -> Outcome:
    A, B, C = ints(3, M, K), ints(3, K, N), empty(3, M, N)
    report = emulator.launch(
        cuda("foreign/batched"), "mm", (cdiv(N, 8), cdiv(M, 8), 3), (8, 8),
        [A, B, C, M, N, K, M * K, K * N, M * N], uninitialised=("C",),
    )  # fmt: skip
    return report, C, A @ B


@foreign("threadIdx.z splits k, the layers meet in shared memory")
def layers_of_threads(M: int, N: int, K: int) -> Outcome:
    return plain(
        cuda("foreign/layers_of_threads"), "mm", (cdiv(N, 8), cdiv(M, 8)), (8, 8, 4), M, N, K
    )


# -- how it is written -----------------------------------------------------------------------------


@foreign("float4 by reinterpret_cast where it fits, elements at the edge")
def float4_with_edges(M: int, N: int, K: int) -> Outcome:
    return plain(
        cuda("foreign/float4_with_edges"), "mm", (cdiv(N, 64), cdiv(M, 8)), (16, 8), M, N, K
    )


@foreign(
    "float4 without asking for alignment: right only where rows are multiples of 16 bytes",
    "misaligned",
    shapes=((5, 18, 7),),
    exact=False,
)
def float4_blindly(M: int, N: int, K: int) -> Outcome:
    return plain(cuda("foreign/float4_blindly"), "mm", M, 32, M, N, K)


@foreign("matrices as structures with a stride, sub-matrices by a device function")
def matrix_structures(M: int, N: int, K: int) -> Outcome:
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    report = emulator.launch(
        cuda("foreign/matrix_structures"), "mm", (cdiv(N, 8), cdiv(M, 8)), (8, 8),
        [(M, K, K, A), (K, N, N, B), (M, N, N, C)],
    )  # fmt: skip
    return report, C, A @ B


@foreign("a template over type and tile, named by an expression")
def template_by_name(M: int, N: int, K: int) -> Outcome:
    A, B, C = ints(M, K, dtype="f8"), ints(K, N, dtype="f8"), empty(M, N, dtype="f8")
    report = emulator.launch(
        cuda("foreign/template_by_name"), "mm<double, 12>", (cdiv(N, 12), cdiv(M, 12)), (12, 12),
        [A, B, C, M, N, K],
    )  # fmt: skip
    return report, C, A @ B


@foreign("device functions that are called, not inlined")
def called_functions(M: int, N: int, K: int) -> Outcome:
    return plain(
        cuda("foreign/called_functions"), "mm", (cdiv(N, 16), cdiv(M, 8)), (16, 8), M, N, K
    )


@foreign("halves in pairs: half2 arithmetic")
def half2_pairs(M: int, N: int, K: int) -> Outcome:
    A, B, C = ints(M, K, dtype="f2", top=2), ints(K, N, dtype="f2", top=2), empty(M, N, dtype="f2")
    report = emulator.launch(
        cuda("foreign/half2_pairs"), "mm", (cdiv(N, 32), cdiv(M, 4)), (16, 4), [A, B, C, M, N, K],
        uninitialised=("C",),
    )  # fmt: skip
    return report, C, (A.astype("f4") @ B.astype("f4")).astype("f2")


@foreign("bytes four at a time: __dp4a with int32 sums")
def packed_bytes(M: int, N: int, K: int) -> Outcome:
    K4 = cdiv(K, 4)
    A, B = np.zeros((M, 4 * K4), np.int8), np.zeros((N, 4 * K4), np.int8)
    A[:, :K], B[:, :K] = ints(M, K, dtype=np.int8, top=100), ints(N, K, dtype=np.int8, top=100)
    C = empty(M, N, dtype=np.int32)
    report = emulator.launch(
        cuda("foreign/packed_bytes"), "mm", (cdiv(N, 16), cdiv(M, 4)), (16, 4),
        [A.view(np.int32), B.view(np.int32), C, M, N, K4], uninitialised=("C",),
    )  # fmt: skip
    return report, C, A.astype(np.int32) @ B.T.astype(np.int32)


@foreign("the small factor in constant memory")
def constant_memory(M: int, N: int, K: int) -> Outcome:
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    report = emulator.launch(
        cuda("foreign/constant_memory"), "mm", (cdiv(N, 32), cdiv(M, 4)), (32, 4), [A, C, M, N, K],
        symbols={"factor": B}, uninitialised=("C",),
    )  # fmt: skip
    return report, C, A @ B


@foreign("both factors stored transposed")
def transposed_inputs(M: int, N: int, K: int) -> Outcome:
    At, Bt, C = ints(K, M), ints(N, K), empty(M, N)
    report = emulator.launch(
        cuda("foreign/transposed_inputs"), "mm", (cdiv(N, 16), cdiv(M, 16)), (16, 16), [At, Bt, C, M, N, K],
        uninitialised=("C",),
    )  # fmt: skip
    return report, C, At.T @ Bt.T


@foreign("columns first, with leading dimensions, alpha and beta")
def column_major_gemm(M: int, N: int, K: int) -> Outcome:
    lda, ldb, ldc = M + 3, K + 1, M + 2
    A, B, C = ints(K, lda), ints(N, ldb), ints(N, ldc)
    want = C.copy()
    want[:, :M] = 2 * (A[:, :M].T @ B[:, :K].T).T - 3 * C[:, :M]
    report = emulator.launch(
        cuda("foreign/column_major_gemm"), "gemm", (cdiv(M, 32), cdiv(N, 4)), (32, 4),
        [M, N, K, 2.0, A, lda, B, ldb, -3.0, C, ldc],
    )  # fmt: skip
    return report, C, want


@foreign("unrolled by hand, the rest through a switch without breaks")
def switch_for_the_rest(M: int, N: int, K: int) -> Outcome:
    return plain(
        cuda("foreign/switch_for_the_rest"), "mm", (cdiv(N, 32), cdiv(M, 4)), (32, 4), M, N, K
    )


@foreign("fragments in warps of 8 x 4 lanes, unrolled by template recursion")
def recursive_unrolling(M: int, N: int, K: int) -> Outcome:
    return plain(cuda("foreign/recursive_unrolling"), "mm", (cdiv(N, 16), cdiv(M, 8)), 32, M, N, K)


@foreign("dot products gathered by atomics in shared memory")
def shared_atomics(M: int, N: int, K: int) -> Outcome:
    return plain(cuda("foreign/shared_atomics"), "mm", (cdiv(N, 32), M), (32, 4), M, N, K)


# -- with the faults that such code has ------------------------------------------------------------

_REDUCTION = cuda("foreign/_reduction")


@foreign("a warp-synchronous reduction with __syncwarp", shapes=SHAPES[:2])
def warp_synchronous(M: int, N: int, K: int) -> Outcome:
    return plain(_REDUCTION.replace("SYNC", "__syncwarp();"), "mm", (N, M), 64, M, N, K)


@foreign("the same with volatile alone, as before Volta", "race", shapes=SHAPES[:2])
def volatile_alone(M: int, N: int, K: int) -> Outcome:
    return plain(_REDUCTION.replace("SYNC", ""), "mm", (N, M), 64, M, N, K)


@foreign(
    "threads outside C return before the barrier",
    "divergent-barrier",
    "uninitialised",
    shapes=((17, 33, 19),),
    exact=False,
)
def return_before_the_barrier(M: int, N: int, K: int) -> Outcome:
    return plain(
        cuda("foreign/return_before_the_barrier"), "mm", (cdiv(N, 16), cdiv(M, 16)), (16, 16), M, N,
        K,
    )  # fmt: skip


@foreign(
    "split-K without atomics: blocks overwrite each other",
    "race",
    shapes=((9, 8, 40),),
    exact=False,
)
def split_k_without_atomics(M: int, N: int, K: int) -> Outcome:
    A, B, C = ints(M, K), ints(K, N), np.zeros((M, N), np.float32)
    report = emulator.launch(
        cuda("foreign/split_k_without_atomics"), "mm", (cdiv(K, 20), M), N, [A, B, C, M, N, K]
    )
    return report, C, A @ B
