"""Matrix products with CUDA's own headers and wrong twins: one source for an architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from foreign_kernels import Outcome, Shape, cdiv, cuda, empty, ints

from nogpu import emulator

SHAPES: tuple[Shape, ...] = ((1, 1, 1), (17, 33, 19), (40, 35, 70))


@dataclass(frozen=True)
class Twin:
    """One change to a kernel, and the kind of finding that must appear."""

    what: str
    old: str
    new: str
    kind: str = "race"


@dataclass(frozen=True)
class HeaderKernel:
    """run(entry, source, (M, N, K), **options) launches the kernel or one of its twins."""

    name: str
    arch: str
    text: str
    run: Callable[..., Outcome]
    twins: tuple[Twin, ...]

    def variant(self, number):
        """Entry and text of a twin; 0 is the kernel itself."""
        if not number:
            return self.name, self.text
        twin = self.twins[number - 1]
        assert self.text.count(twin.old) == 1, (self.name, twin)
        entry = f"{self.name}_{number}"
        return entry, self.text.replace(twin.old, twin.new).replace(self.name, entry)

    def launch(self, number, shape, **options):
        """Run the kernel (0) or a twin."""
        entry, _ = self.variant(number)
        return self.run(entry, source(self.arch), shape, arch=self.arch, **options)


HEADERS = cuda("headers/headers")
KERNELS: dict[str, HeaderKernel] = {}


@cache
def source(arch):
    """All kernels of an architecture and their twins."""
    texts = [HEADERS]
    for k in KERNELS.values():
        if k.arch == arch:
            texts += [k.variant(i)[1] for i in range(len(k.twins) + 1)]
    return "\n".join(texts)


def enter(arch, text, run, *twins):
    """Enter a kernel under the name of its entry."""
    name = text.split("__global__ void ", 1)[1].split("(", 1)[0]
    KERNELS[name] = HeaderKernel(name, arch, text, run, twins)


def product(
    grid, block, *more,
    C=empty,
    ending=lambda AB: AB, **fixed,
):  # fmt: skip
    """A run of (A, B, C, M, N, K, *more) in float32. ending: what C is of A B."""

    def run(entry, text, shape, **options):
        M, N, K = shape
        A, B, out = ints(M, K), ints(K, N), C(M, N)
        settings = {"uninitialised": ("C",), **fixed, **options}
        args = [A, B, out, M, N, K, *more]
        report = emulator.launch(text, entry, grid(M, N), block, args, **settings)
        return report, out, ending(A @ B)

    return run


def tiles(M, N):
    """Blocks of 16 x 16 elements."""
    return cdiv(N, 16), cdiv(M, 16)


# -- cooperative groups ----------------------------------------------------------------------------

enter(
    "sm_75",
    cuda("headers/group_dot"),
    product(lambda M, N: cdiv(M * N, 8), 128),
    Twin(
        "half of the tile reduces",
        "    sum = cg::reduce",
        "    if (tile.thread_rank() < 8) sum = cg::reduce",
        "divergent-barrier",
    ),
)

enter(
    "sm_75",
    cuda("headers/group_rows"),
    product(lambda M, N: cdiv(M, 4), 128),
    Twin("no sync after the store", "warp.sync();  // the new one is there", ""),
    Twin("no sync before the store", "warp.sync();  // the last piece has been read", ""),
)

COPY_AHEAD = cuda("headers/copy_ahead")
enter(
    "sm_80",
    COPY_AHEAD,
    product(tiles, (16, 16)),
    Twin("the last copy is not waited for", "cg::wait(row);", ";"),
    Twin("one copy too many under way", "cg::wait_prior<2>", "cg::wait_prior<3>"),
    Twin("filled again too early", "block.sync();  // before", "// before"),
)
early = Twin("filled again too early", "block.sync();  // before", "// before")
on_turing = COPY_AHEAD.replace("copy_ahead", "copy_on_turing")
enter("sm_75", on_turing, product(tiles, (16, 16)), early)

# -- cuda::pipeline, cuda::barrier -----------------------------------------------------------------

enter(
    "sm_80",
    cuda("headers/two_stages"),
    product(tiles, (16, 16)),
    Twin("the stage is not waited for", "pipe.consumer_wait();", ""),
    Twin("a stage is filled while it is read", "pipe.producer_acquire();", ""),
)

enter(
    "sm_80",
    cuda("headers/copy_and_multiply"),
    product(tiles, 256),
    Twin(
        "used before it is filled",
        "full[s].arrive_and_wait();  // it has been filled",
        "(void)full[s].arrive();",
    ),
    Twin(
        "filled before it is used",
        "if (i >= 2) empty[s].arrive_and_wait();",
        "if (i >= 2) (void)empty[s].arrive();",
    ),
    Twin(
        "one arrival too many expected",
        "init(&full[threadIdx.x], 2 * HALF);",
        "init(&full[threadIdx.x], 2 * HALF + 1);",
        "divergent-barrier",
    ),
    Twin("used before it is set up", "__syncthreads();  // the barriers are", "// are"),
)

enter(
    "sm_80",
    cuda("headers/one_arrives"),
    product(tiles, (16, 16)),
    Twin("the lane does not wait for its warp", "warp.sync();  // all lanes are done", ""),
    Twin("nobody waits", "bar.wait_parity(phase);", ""),
)

enter(
    "sm_80",
    cuda("headers/arrive_by_hand"),
    product(tiles, (16, 16)),
    Twin("nobody waits", "while (!__mbarrier_test_wait(&bar, token)) {}", ""),
    Twin("the copies do not arrive", "__pipeline_arrive_on(&bar);", ""),
)

more = Twin("one group too many under way", "wait_prior(1)", "wait_prior(2)")
enter("sm_80", cuda("headers/zero_filled"), product(tiles, (16, 16)), more)

# -- libcu++ and CUB -------------------------------------------------------------------------------

guard = ("m < a.extent(0) && k0 + j", "k0 + j")
unguarded = Twin("rows are not guarded", *guard, "out-of-bounds")
enter("sm_75", cuda("headers/with_shapes"), product(tiles, (16, 16)), unguarded)

enter(
    "sm_75",
    cuda("headers/split_by_cub"),
    product(lambda M, N: (cdiv(N, 2), M), 64),
    Twin("scratch is used again too early", "__syncthreads();  // scratch", "// scratch"),
)

enter(
    "sm_75",
    cuda("headers/split_by_atomics"),
    product(lambda M, N: (*tiles(M, N), 3), (16, 16), uninitialised=(),
            C=lambda M, N: np.zeros((M, N), np.float32)),
    Twin("added without atomics", "c.fetch_add(sum, cuda::memory_order_relaxed)",
         "C[m * N + n] += sum"),
)  # fmt: skip


def _complex(entry, text, shape, **options):
    M, N, K = shape
    A, B = (ints(*s, 2).view(np.complex64)[..., 0] for s in ((M, K), (K, N)))
    C = np.full((M, N), np.nan, np.complex64)
    args = [A.copy(), B.copy(), C, M, N, K]
    report = emulator.launch(text, entry, tiles(M, N), (16, 16), args, **options)
    return report, C, A @ B


enter(
    "sm_75",
    cuda("headers/complex_tiles"),
    _complex,
    Twin("filled again too early", "__syncthreads();  // all have", "// all have"),
)

# -- pointers to functions, objects, 8-bit floats --------------------------------------------------


def _epilogues(AB):
    which = (1 + np.arange(AB.shape[1])) % 3
    return np.select([which == 0, which == 1], [AB, np.maximum(AB, 0)], 2 * AB)


enter(
    "sm_75",
    cuda("headers/epilogue_table").replace("NAME", "epilogue_table"),
    product(tiles, (16, 16), 1, ending=_epilogues),
    Twin("a place beyond the table", "(which + n) % 3]", "which + 3]", "out-of-bounds"),
)


def _object(AB):
    n = np.arange(AB.shape[1])
    return np.where(n // 16 % 2 == 0, AB + n % 5, np.where(AB < 0, -1, 1))


enter(
    "sm_75",
    cuda("headers/epilogue_object").replace("NAME", "epilogue_object"),
    product(tiles, (16, 16), ending=_object),
    Twin("freed before it is used", "    __syncthreads();\n    if (m < M", "    __syncthreads();\n"
         "    if (first) delete end;\n    __syncthreads();\n    if (m < M", "out-of-bounds"),
    Twin("too small a block", "new float[N])", "new float[N - 1])", "out-of-bounds"),
)  # fmt: skip

unguarded = Twin("rows are not guarded", "m < M && k < K ?", "k < K ?", "out-of-bounds")
by_warps = product(lambda M, N: (cdiv(N, 8), cdiv(M, 16)), 32)
enter("sm_89", cuda("headers/eight_bits"), by_warps, unguarded)
