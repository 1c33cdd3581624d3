"""Matrix products whose threads wait for each other without a barrier: right and quiet as they stand.
A twin is the same text with one thing left out or in the wrong order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from foreign_kernels import Outcome, Shape, cdiv, cuda, empty, ints

from nogpu import emulator

SHAPES: tuple[Shape, ...] = ((1, 1, 1), (17, 19, 33), (16, 40, 70))


@dataclass(frozen=True)
class Twin:
    """old, new: what to put where in the source. kind: the finding. says: words of its message.

    schedules: those under which it must be found.
    """

    name: str
    old: str
    new: str
    kind: str = "race"
    says: str = ""
    schedules: tuple[str, ...] = ("ascending", "permuted")


@dataclass(frozen=True)
class Waiting:
    """run(source, M, N, K, **options) launches the kernel. shape: the one for its twins."""

    habit: str
    source: str
    run: Callable[..., Outcome]
    twins: tuple[Twin, ...]
    shape: Shape = (17, 19, 33)


KERNELS: dict[str, Waiting] = {}


def waiting(habit, source, *twins, shape=(17, 19, 33)):
    """Enter a kernel."""

    def enter(run):
        for twin in twins:
            assert source.count(twin.old) == 1, (run.__name__, twin.name)
        KERNELS[run.__name__] = Waiting(habit, source, run, twins, shape)
        return run

    return enter


def zeros(*shape):
    """Flags, counters or locks."""
    return np.zeros(shape, np.int32)


def go(source, grid, block, args, want, **options):
    """Launch `mm`; args[want] is C, A and B are the first two."""
    report = emulator.launch(source, "mm", grid, block, args, **options)
    return report, args[want], args[0] @ args[1]


# A slice of the sum for one element of C, with the element's place: what most of them begin with.
SLICE = cuda("waits/slice")


@waiting(
    "split-K, slices in order behind a semaphore",
    SLICE + cuda("waits/split_k_semaphore"),
    Twin("no-fence",
         "        __threadfence();\n        __syncthreads();\n        if (leader) *at = turn;",
         "        __syncthreads();\n        if (leader) *at = turn;",
         says="no __threadfence() since"),
    Twin("no-fence-after-the-wait", "        __syncthreads();\n        __threadfence();",
         "        __syncthreads();",
         says="stands between that read and this access"),
    Twin("no-barrier-after-the-wait", "{ } }\n        __syncthreads();", "{ } }"),
    Twin("no-barrier-before-release",
         "        __threadfence();\n        __syncthreads();\n        if",
         "        __threadfence();\n        if"),
    Twin("flag-first",
         "    if (row < M && col < N) C[row * N + col] = z ? C[row * N + col] + sum : sum;\n    s.release(z + 1 == gridDim.z ? 0 : z + 1);",
         "    float old = z && row < M && col < N ? C[row * N + col] : 0;\n    s.release(z + 1 == gridDim.z ? 0 : z + 1);\n    if (row < M && col < N) C[row * N + col] = old + sum;"),
    Twin("plain-flag", "volatile int* at", "int* at", "step-budget", "declare it volatile"),
    Twin("never-set", "if (leader) *at = turn;", "", "deadlock", "line"),
    Twin("waits-for-higher", "if (z > 0) s.wait(z);", "s.wait(z + 1);", "deadlock",
         "in the loop at"),
)  # fmt: skip
def split_k_semaphore(source, M, N, K, **options):
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    grid = (cdiv(N, 8), cdiv(M, 8), 3)
    args = [A, B, C, zeros(grid[0] * grid[1]), M, N, K]
    return go(source, grid, (8, 8), args, 2, uninitialised=("C",), **options)


@waiting(
    "split-K, each slice adds its tile under a lock",
    SLICE + cuda("waits/split_k_mutex"),
    Twin("no-fence", "        __threadfence();\n        atomicExch", "        atomicExch",
         says="no __threadfence() since"),
    Twin("block-fence", "        __threadfence();\n        atomicExch",
         "        __threadfence_block();\n        atomicExch"),
    Twin("no-barrier-after-the-lock", "        __threadfence();\n    }\n    __syncthreads();",
         "        __threadfence();\n    }"),
    Twin("released-early",
         "    if (row < M && col < N) C[row * N + col] += sum;\n    __syncthreads();\n    if (first) {\n        __threadfence();\n        atomicExch(lock, 0);\n    }",
         "    if (first) { __threadfence(); atomicExch(lock, 0); }\n    if (row < M && col < N) C[row * N + col] += sum;"),
    Twin("never-given-back", "atomicExch(lock, 0);", "", "deadlock",
         "Check who sets the flag or gives the lock back"),
    Twin("no-lock", "while (atomicCAS(lock, 0, 1) != 0) __nanosleep(32);", "atomicExch(lock, 1);"),
)  # fmt: skip
def split_k_mutex(source, M, N, K, **options):
    A, B, C = ints(M, K), ints(K, N), np.zeros((M, N), np.float32)
    return go(source, (cdiv(N, 8), cdiv(M, 8), 4), (8, 8), [A, B, C, M, N, K], 2, **options)


@waiting(
    "stream-K: blocks share out all steps, the tile's first block adds the others' parts",
    cuda("waits/stream_k"),
    Twin("relaxed-store", "st.global.release.gpu.b32", "st.global.relaxed.gpu.b32",
         says="no __threadfence() since"),
    Twin("no-barrier-before-the-flag", "= sum;\n            __syncthreads();\n            if",
         "= sum;\n            if"),
    Twin("no-barrier-after-the-flag", "{ }\n                __syncthreads();", "{ }"),
    Twin("plain-load", "ld.global.acquire.gpu.b32", "ld.global.b32"),
    Twin("wrong-flag", "raise(&flags[blockIdx.x])", "raise(&flags[blockIdx.x + 1])", "deadlock",
         "in the loop at"),
    shape=(17, 19, 70),
)  # fmt: skip
def stream_k(source, M, N, K, **options):
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    blocks = 7
    args = [A, B, C, empty(blocks, 8, 8), zeros(blocks + 2), M, N, K]
    return go(source, blocks, (8, 8), args, 2, uninitialised=("C", "parts"), **options)


@waiting(
    "split-K in a workspace, the last block of a tile sums up",
    SLICE + cuda("waits/last_block"),
    Twin("no-fence", "    __threadfence();\n", "", says="__threadfence()"),
    Twin("no-barrier", "    __threadfence();\n    __syncthreads();\n", "    __threadfence();\n"),
    Twin("too-early", "== gridDim.z - 1", "== gridDim.z - 2"),
    Twin("count-first",
         "    if (row < M && col < N) part[(z * M + row) * N + col] = sum;\n    __threadfence();\n    __syncthreads();\n    if (threadIdx.x == 0 && threadIdx.y == 0) {\n        last = atomicAdd(count, 1u) == gridDim.z - 1;\n        if (last) *count = 0;\n    }\n    __syncthreads();",
         "    if (threadIdx.x == 0 && threadIdx.y == 0) {\n        __threadfence();\n        last = atomicAdd(count, 1u) == gridDim.z - 1;\n    }\n    if (row < M && col < N) part[(z * M + row) * N + col] = sum;\n    __syncthreads();"),
)  # fmt: skip
def last_block(source, M, N, K, **options):
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    grid = (cdiv(N, 8), cdiv(M, 8), 4)
    args = [A, B, C, empty(4, M, N), zeros(grid[0] * grid[1]).view(np.uint32), M, N, K]
    return go(source, grid, (8, 8), args, 2, uninitialised=("C", "part"), **options)


@waiting(
    "a few blocks that take rows from a counter until none is left",
    cuda("waits/work_counter"),
    Twin("read-then-write", "row = atomicAdd(next, 1);", "{ row = *next; *next = row + 1; }"),
    Twin("one-row-more", "if (row >= M) break;", "if (row > M) break;", "out-of-bounds"),
)  # fmt: skip
def work_counter(source, M, N, K, **options):
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    args = [A, B, C, zeros(1), M, N, K]
    return go(source, 3, 96, args, 2, uninitialised=("C",), **options)


@waiting(
    "tiles from a counter, told to the block through shared memory",
    cuda("waits/tile_scheduler"),
    Twin("no-barrier-after-the-counter", "atomicAdd(next, 1);\n        __syncthreads();",
         "atomicAdd(next, 1);"),
    Twin("no-barrier-at-the-end", "a[ty][i] * b[i][tx];\n            __syncthreads();",
         "a[ty][i] * b[i][tx];"),
)  # fmt: skip
def tile_scheduler(source, M, N, K, **options):
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    args = [A, B, C, zeros(1), M, N, K]
    return go(source, 3, (8, 8), args, 2, uninitialised=("C",), **options)


@waiting(
    "one warp loads tiles, the others multiply; flags in shared memory between them",
    cuda("waits/producer_consumer"),
    Twin("no-fence-before-full",
         "            __threadfence_block();\n            __syncwarp();\n            if (lane == 0) full", "            __syncwarp();\n            if (lane == 0) full", says="__threadfence_block()"),
    Twin("no-fence-before-used",
         "            __threadfence_block();\n            __syncwarp();\n            if (lane == 0) used", "            __syncwarp();\n            if (lane == 0) used"),
    Twin("full-before-the-tile", "            __threadfence_block();\n            for (int e",
         "            __threadfence_block();\n            if (lane == 0) full[stage] = turn + 1;\n            for (int e"),
    Twin("does-not-wait-for-used", "if (lane < 8) while (used[stage][lane] < turn) { }", ""),
    Twin("waits-for-too-few", "if (lane < 8) while", "if (lane < 7) while"),
    Twin("used-never-set", "if (lane == 0) used[stage][warp] = turn + 1;", "", "deadlock",
         "in the loop at line"),
    shape=(17, 19, 70),
)  # fmt: skip
def producer_consumer(source, M, N, K, **options):
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    grid = (cdiv(N, 16), cdiv(M, 16))
    return go(source, grid, 288, [A, B, C, M, N, K], 2, uninitialised=("C",), **options)


@waiting(
    "a barrier of the whole grid between a transposition and the product",
    cuda("waits/grid_barrier"),
    Twin("no-fence", "        __threadfence();\n        atomicAdd", "        atomicAdd",
         says="__threadfence()"),
    Twin("no-barrier-before", "    __syncthreads();\n    if (threadIdx.x == 0) {",
         "    if (threadIdx.x == 0) {"),
    Twin("no-barrier-after", "        __threadfence();\n    }\n    __syncthreads();",
         "        __threadfence();\n    }"),
    Twin("no-wait", "while (*(volatile unsigned*)&count < goal) { }", ""),
    Twin("goal-too-high", "grid_barrier(gridDim.x)", "grid_barrier(gridDim.x + 1)", "deadlock",
         "Check who sets"),
)  # fmt: skip
def grid_barrier(source, M, N, K, **options):
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    args = [A, B, C, empty(N, K), M, N, K]
    return go(source, options.pop("grid", 6), 64, args, 2, uninitialised=("C", "Bt"), **options)


SUMS = """            for (int m = 0; m < M; ++m)
                for (int n = 0; n < N; ++n) C[m * N + n] += A[m * K + k] * B[k * N + n];
"""
RELEASED_LAST = f"{SUMS}            __threadfence();\n            atomicExch(lock, 0);\n"
RELEASED_FIRST = f"            atomicExch(lock, 0);\n{SUMS}"


@waiting(
    "every thread takes a lock in a loop that holds the critical section",
    cuda("waits/lock_by_every_thread"),
    Twin("no-fence", "            __threadfence();\n            atomicExch(lock, 0);",
         "            atomicExch(lock, 0);", says="__threadfence()"),
    Twin("never-given-back", "atomicExch(lock, 0);", "", "deadlock"),
    Twin("released-early", RELEASED_LAST, RELEASED_FIRST),
    shape=(3, 2, 100),
)  # fmt: skip
def lock_by_every_thread(source, M, N, K, **options):
    M, N = min(M, 5), min(N, 4)
    A, B, C = ints(M, K), ints(K, N), np.zeros((M, N), np.float32)
    return go(source, cdiv(K, 48), 48, [A, B, C, zeros(1), M, N, K], 2, **options)


@waiting(
    "warps of a block add their slices to a shared tile under a lock in shared memory",
    cuda("waits/shared_lock"),
    Twin("no-fence", "        __threadfence_block();\n        atomicExch", "        atomicExch",
         says="__threadfence_block()"),
    Twin("no-lock", "while (atomicCAS(&lock, 0, 1)) { }", ""),
    Twin("released-early",
         "    tile[lane] += sum;\n    __syncwarp();\n    if (lane == 0) {\n        __threadfence_block();\n        atomicExch(&lock, 0);\n    }",
         "    if (lane == 0) {\n        __threadfence_block();\n        atomicExch(&lock, 0);\n    }\n    tile[lane] += sum;"),
    # The lanes of a warp count as one, so only some orders of the warps show this one.
    Twin("no-warp-barrier", "        __threadfence_block();\n    }\n    __syncwarp();",
         "        __threadfence_block();\n    }",
         schedules=("ascending",)),
    shape=(5, 33, 40),
)  # fmt: skip
def shared_lock(source, M, N, K, **options):
    A, B, C = ints(M, K), ints(K, N), empty(M, N)
    grid = (cdiv(N, 32), M)
    return go(source, grid, 128, [A, B, C, M, N, K], 2, uninitialised=("C",), **options)


@waiting(
    "a queue for a ticket: slices are served in the order in which they came",
    SLICE + cuda("waits/ticket_lock"),
    Twin("no-fence", "        __threadfence();\n        *serving", "        *serving",
         says="no __threadfence() since"),
    Twin("plain-serving", "volatile int* serving", "int* serving", "step-budget",
         "declare it volatile"),
    Twin("served-early",
         "    __syncthreads();\n    if (threadIdx.x == 0) {\n        __threadfence();\n        *serving", "    if (threadIdx.x == 0) {\n        __threadfence();\n        *serving"),
    Twin("nobody-served", "*serving = turn + 1;", "", "deadlock"),
    shape=(5, 33, 40),
)  # fmt: skip
def ticket_lock(source, M, N, K, **options):
    A, B, C = ints(M, K), ints(K, N), np.zeros((M, N), np.float32)
    grid = (cdiv(N, 64), M, 3)
    return go(source, grid, 64, [A, B, C, zeros(grid[0], 2), M, N, K], 2, **options)
