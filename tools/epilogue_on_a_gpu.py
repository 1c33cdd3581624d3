"""Products with an epilogue, and stacks, on the GPU at hand: data/validation/epilogue_<gpu>.json.

    python -m tools.epilogue_on_a_gpu [--out FILE]

At CASES it is compared with float64, with itself run again and, bit by bit, with the emulator; at a
few of them compute-sanitizer watches. Then times in turn: the fused epilogue, a second launch for
it, and both by cuBLASLt; stacks beside cublasGemmStridedBatchedEx; slices of different rows beside
a loop of cuBLAS calls, one call for the longest, and cublasGemmGroupedBatchedEx.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from helpers.chapters.ch22 import epilogue
from helpers.record.gpu import Session
from helpers.record.telemetry import Telemetry
from nogpu.bfloat16 import from_bfloat16, to_bfloat16
from nogpu.errors import ConfigError
from tools import beside


class Case(NamedTuple):
    """S, M, N, K, what the epilogue does (words of WORDS), and the rows of each slice if not M."""

    S: int
    M: int
    N: int
    K: int
    does: str = ""
    rows: tuple[int, ...] | None = None


WORDS = ("bias", "residual", "gelu")
CASES = (
    Case(1, 1, 1, 1, "bias gelu"), Case(1, 7, 5, 3, "bias"), Case(1, 64, 64, 64, "residual"),
    Case(1, 65, 33, 17, "bias residual"), Case(1, 128, 128, 128), Case(1, 129, 127, 129, "gelu"),
    Case(1, 256, 256, 64, "bias residual gelu"), Case(1, 257, 259, 100, "bias residual"),
    Case(1, 200, 312, 136, "bias gelu"), Case(1, 300, 520, 330, "bias residual"),
    Case(1, 1, 640, 96, "bias"), Case(1, 640, 1, 96, "bias residual"),
    Case(1, 130, 70, 1000, "residual gelu"), Case(2, 127, 256, 65, "bias"),
    Case(5, 31, 90, 15, "bias residual"), Case(3, 130, 136, 71, "bias gelu"),
    Case(4, 150, 130, 40, "", (150, 0, 1, 129)),
    Case(3, 140, 72, 66, "bias residual", (16, 17, 140)),
    Case(2, 300, 260, 30, "bias gelu", (1, 258)), Case(6, 20, 24, 200, "residual", (0,) * 5 + (7,)),
)  # fmt: skip
"""One element, less than a tile, whole tiles, edges of each kind, odd N and K, empty slices."""
TILES: tuple[dict[str, int], ...] = ({}, {"BM": 256, "BN": 128, "CLUSTER_M": 1, "CLUSTER_N": 2})
WATCHED = (CASES[9], CASES[17])

EPILOGUES = ("bias", "bias gelu", "bias residual")
SIZES: tuple[tuple[int, int, int], ...] = (
    (4096, 4096, 4096), (8192, 8192, 8192),
    (4096, 16384, 4096), (4096, 4096, 16384),  # a layer of 4096 and its four times wider middle
    (8192, 3072, 768), (8192, 768, 3072),  # the same of 768
)  # fmt: skip
"""M, N, K."""
STACKS = (Case(96, 1024, 1024, 64), Case(96, 512, 512, 512), Case(16, 2048, 2048, 2048))
EXPERTS = (Case(8, 8192, 14336, 4096), Case(64, 16384, 2048, 2048))
"""S experts share M rows."""
NARROW: tuple[dict[str, int], ...] = (
    {}, {"BN": 128, "STAGES": 6}, {"CLUSTER_M": 1}, {"BN": 128, "STAGES": 6, "CLUSTER_M": 1},
)  # fmt: skip
"""Tiles that are tried at each size; the best is timed."""
POOL = (1 << 24) - 3
"""Numbers that operands are made of; no row is as long as a whole part of it."""
SAMPLED = 256
"""Rows of a slice that are compared with float64 beside a time."""


def made(case: Case, draw: Callable[..., Any] | None = None) -> epilogue.Layer:
    """A layer of numbers from N(0, 1); draw: what gives them by shape, or None for the host's."""
    rng = np.random.default_rng(sum(case[:4]))
    draw = draw or (lambda *shape: to_bfloat16(rng.standard_normal(shape, dtype=np.float32)))
    S, M, N, K, does, rows = case
    return epilogue.layer(
        draw(S, M, K), draw(S, K, N), bias=draw(S, N) if "bias" in does else None,
        residual=draw(S, M, N) if "residual" in does else None, gelu="gelu" in does, rows=rows,
    )  # fmt: skip


def by_the_emulator(case: Case, tile: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """C and the kinds of what is found, in a process of its own."""
    given = made(case)
    C, report = epilogue.emulated(epilogue.plan(given, **TILES[tile]), given)
    return C, tuple(sorted({f.kind for f in report.findings}))


def compared() -> list[dict[str, Any]]:
    """A row a case and tile: elements beyond the tolerance, with other bits in a second run and in
    the emulator (apart: how far they are then), and what that found; of the rows that count."""
    todo = [(case, tile) for case in CASES for tile in range(len(TILES))]
    rows = []
    for (case, tile), (emulated, kinds) in zip(
        todo, beside.side_by_side(by_the_emulator, todo), strict=True
    ):
        given = made(case)
        whole, second = (epilogue.multiply(given, backend="cuda", **TILES[tile]) for _ in range(2))
        counts = np.arange(case.M) < np.array(given.rows)[:, None]
        C, again, other = (x[counts] for x in (whole, second, emulated))
        apart = np.abs(from_bfloat16(C) - from_bfloat16(other)).max()
        rows.append(
            {"s": case.S, "m": case.M, "n": case.N, "k": case.K, "does": case.does,
             "rows": given.rows, "params": TILES[tile], "elements": int(C.size),
             "wrong": epilogue.wrong(given, whole), "again": int((C != again).sum()),
             "differ": int((C != other).sum()), "apart": float(apart),
             "findings": list(kinds)}
        )  # fmt: skip
    return rows


def launches() -> None:
    """What compute-sanitizer watches: both kernels."""
    for case in WATCHED:
        given = made(case)
        for tile in TILES:
            epilogue.multiply(given, backend="cuda", **tile)
        if case.S == 1:
            C = epilogue.room(given)
            C[...] = 0
            epilogue.pass_on_gpu(given, C)()


# -- times -----------------------------------------------------------------------------------------


@cache
def pool(session: Session) -> Callable[..., Any]:
    """What gives matrices on the GPU: numbers from N(0, 1), drawn once, from anywhere on, again and
    again. Hundreds of millions would take the host minutes."""
    cupy, rng = session.cupy, np.random.default_rng(0)
    bits = cupy.asarray(to_bfloat16(rng.standard_normal(POOL, dtype=np.float32)))

    def draw(*shape: int) -> Any:
        start, count = int(rng.integers(POOL)), int(np.prod(shape))
        turned = cupy.concatenate((bits[start:], bits[:start]))
        return cupy.tile(turned, count // POOL + 1)[:count].reshape(shape).copy()

    return draw


def float64(x: Any) -> Any:
    """Values of bfloat16 bits on the GPU."""
    return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def error(session: Session, given: epilogue.Layer, C: Any) -> float:
    """Relative error of C in up to SAMPLED rows of the longest slice and of the first and last."""
    cupy, worst = session.cupy, 0.0
    there = [s for s, m in enumerate(given.rows) if m]
    for s in {there[0], there[-1], int(np.argmax(given.rows))}:
        m = cupy.asarray(np.unique(np.linspace(0, given.rows[s] - 1, SAMPLED).astype(np.int64)))
        want = float64(given.A[s][m]) @ float64(given.B[s])
        want = want if given.residual is None else want + float64(given.residual[s][m])
        want = want if given.bias is None else want + float64(given.bias[s])
        want = epilogue.gelu(want) if given.gelu else want
        worst = max(worst, beside.distance(float64(C[s][m]), want))
    return worst


def plain(given: epilogue.Layer) -> epilogue.Layer:
    """The same products with no epilogue."""
    return replace(given, bias=None, residual=None, gelu=False)


def best_tile(session: Session, given: epilogue.Layer, C: Any) -> dict[str, int]:
    """Which of NARROW takes the least time with no epilogue."""
    bare = plain(given)
    with session.on_stream():
        starts = [epilogue.on_gpu(epilogue.plan(bare, **tile), bare, C) for tile in NARROW]
    ready = {i: beside.on_stream(session, start) for i, start in enumerate(starts)}
    return NARROW[beside.quickest(session, ready)]


def library_layer(session: Session, given: epilogue.Layer, C: Any) -> Callable[[], None]:
    """A layer of one slice by cuBLASLt's first algorithm, its epilogue fused."""
    return library_layers(session, given, C, 1)[0]


def library_layers(
    session: Session, given: epilogue.Layer, C: Any, most: int
) -> list[Callable[[], None]]:
    """The same by its first `most` algorithms."""
    _, M, N, K = given.shape
    attributes = beside.library_end(given.bias, given.gelu)
    R = C if given.residual is None else given.residual
    # It is column-major, so its A is our B, and what it adds to each row is our bias.
    layouts = ((beside.BF16, N, K, N), (beside.BF16, K, M, K), (beside.BF16, N, M, N))
    return beside.library_products(
        session, (given.B, given.A, R, C), layouts, attributes,
        float(given.residual is not None), most,
    )  # fmt: skip


def forms(session: Session) -> dict[str, dict[str, float]]:
    """Of this book's GELU and cuBLASLt's, the root mean square of what they are off from both of
    its forms, for x from -4 to 4."""
    x = to_bfloat16(np.linspace(-4, 4, 4096, dtype=np.float32))
    A, B = np.zeros((len(x), 64), np.uint16), np.zeros((64, 64), np.uint16)
    A[:, 0], B[0] = x, to_bfloat16(np.ones(1, np.float32))
    values, found = from_bfloat16(x).astype(np.float64), {}
    erf = np.array([v / 2 * (1 + math.erf(v / 2**0.5)) for v in values])
    with session.on_stream():
        given = epilogue.layer(*map(session.cupy.asarray, (A, B)), gelu=True)
        C = epilogue.room(given)
        for name, start in (
            ("ours", epilogue.on_gpu(epilogue.plan(given), given, C)),
            ("cublaslt", library_layer(session, given, C)),
        ):
            start()
            got = from_bfloat16(C[0, :, 0].get())
            found[name] = {
                form: float(np.sqrt(np.mean((got - want) ** 2)))
                for form, want in (("tanh", epilogue.gelu(values)), ("erf", erf))
            }
    print(f"GELU: {found}", flush=True)
    return found


def timed(
    session: Session, case: Case, given: epilogue.Layer,
    operations: dict[str, Callable[[Any], Callable[[], None]]], telemetry: Telemetry,
    bare: Sequence[str] = (),
) -> list[dict[str, Any]]:  # fmt: skip
    """A row a contender, as `beside.timed` has it.

    operations: of each, what makes it for a C of its own. bare: those without the epilogue.
    """
    _, _, N, K = given.shape
    outs, ready = {}, {}
    with session.on_stream():
        for name, make in operations.items():
            outs[name] = epilogue.room(given)
            try:
                ready[name] = make(outs[name])
            except ConfigError as fault:
                print(f"{name} is left out: {fault}", file=sys.stderr, flush=True)

    def off(name: str) -> float:
        return error(session, plain(given) if name in bare else given, outs[name])

    rows = beside.timed(
        session, ready, telemetry, gflop=2 * sum(given.rows) * N * K / 1e9, error=off,
        peak=lambda _: session.peak_gflops("bf16"), what=f"{'x'.join(map(str, case[:4]))} {case.does}",
    )  # fmt: skip
    facts = {"s": case.S, "m": case.M, "n": case.N, "k": case.K, "does": case.does}
    return [{**facts, "rows": given.rows, **row} for row in rows]


def both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    """One launch after the other."""

    def run() -> None:
        first()
        second()

    return run


def layers(session: Session, case: Case, telemetry: Telemetry) -> list[dict[str, Any]]:
    """Fused and in two launches, by this book and by cuBLASLt, and each with no epilogue."""
    with session.on_stream():
        given = made(case, pool(session))
        tile = best_tile(session, given, epilogue.room(given))
    bare = plain(given)

    def ours(what: epilogue.Layer, C: Any) -> Callable[[], None]:
        start = epilogue.on_gpu(epilogue.plan(what, **tile), what, C)
        return beside.on_stream(session, start)

    def second(C: Any) -> Callable[[], None]:
        return beside.on_stream(session, epilogue.pass_on_gpu(given, C))

    rows = timed(
        session, case, given,
        {
            "fused": lambda C: ours(given, C),
            "two": lambda C: both(ours(bare, C), second(C)),
            "plain": lambda C: ours(bare, C),
            "cublaslt": lambda C: library_layer(session, given, C),
            "cublaslt_two": lambda C: both(library_layer(session, bare, C), second(C)),
            "cublaslt_plain": lambda C: library_layer(session, bare, C),
        },
        telemetry, ("plain", "cublaslt_plain"),
    )  # fmt: skip
    return [{**row, "params": tile} for row in rows]


def strided(session: Session, given: epilogue.Layer, C: Any) -> Callable[[], None]:
    """All slices of A and B in full by cublasGemmStridedBatchedEx, on the session's stream."""
    S, M, N, K = given.shape
    blas, kind = session._cublas, beside.BF16
    one, zero = session._one.ctypes.data, session._zero.ctypes.data

    def run() -> None:
        with session.stream:
            blas.gemmStridedBatchedEx(
                session._handle, 0, 0, N, M, K, one, given.B.data.ptr, kind, N, K * N,
                given.A.data.ptr, kind, K, M * K, zero, C.data.ptr, kind, N, M * N, S,
                beside.COMPUTE_32F, -1,
            )  # fmt: skip

    return run


def loop(session: Session, given: epilogue.Layer, C: Any) -> Callable[[], None]:
    """A call of cuBLAS for each slice, of its own rows."""
    calls = [
        session.baseline_operation("cublas_bf16", given.A[s, :m], given.B[s], C[s, :m], "bfloat16")
        for s, m in enumerate(given.rows)
        if m
    ]

    def run() -> None:
        for call in calls:
            call()

    return run


def grouped(session: Session, given: epilogue.Layer, C: Any) -> Callable[[], None]:
    """cublasGemmGroupedBatchedEx, a group for each slice. Raises ConfigError where there is none."""
    call, cupy = beside.library("cublas"), session.cupy
    _, _, N, K = given.shape
    there = [s for s, m in enumerate(given.rows) if m]
    count, kind, pointer = len(there), beside.BF16, ctypes.c_void_p

    def ints(values: Sequence[int]) -> Any:
        return (ctypes.c_int * count)(*values)

    def floats(value: float) -> Any:
        return (ctypes.c_float * count)(*[value] * count)

    def addresses(x: Any) -> Any:
        return cupy.asarray(np.array([x[s].data.ptr for s in there], np.uint64))

    M = ints([given.rows[s] for s in there])
    Ns, Ks, zeros, ones = ints([N] * count), ints([K] * count), ints([0] * count), ints([1] * count)
    alpha, beta = floats(1), floats(0)
    B, A, D = addresses(given.B), addresses(given.A), addresses(C)

    def run() -> None:
        with session.stream:
            handle = pointer(session._handle)
            call("SetStream_v2", handle, pointer(session.stream.ptr))
            call(
                "GemmGroupedBatchedEx", handle, zeros, zeros, Ns, M, Ks, alpha,
                pointer(B.data.ptr), kind, Ns, pointer(A.data.ptr), kind, Ks, beta,
                pointer(D.data.ptr), kind, Ns, count, ones, beside.COMPUTE_32F,
            )  # fmt: skip

    run()  # refuses here, not among the times
    return run


def stacks(session: Session, case: Case, telemetry: Telemetry) -> list[dict[str, Any]]:
    """One launch for all slices, beside cuBLAS."""
    with session.on_stream():
        given = made(case, pool(session))
        tile = best_tile(session, given, epilogue.room(given))
    operations = {
        "stack": lambda C: beside.on_stream(
            session, epilogue.on_gpu(epilogue.plan(given, **tile), given, C)
        ),
        "cublas_loop": lambda C: loop(session, given, C),
        "cublas_batched": lambda C: strided(session, given, C),
    }
    if case.rows:
        operations["cublas_grouped"] = lambda C: grouped(session, given, C)
    rows = timed(session, case, given, operations, telemetry)
    return [{**row, "params": tile} for row in rows]


def expert(case: Case) -> Case:
    """A stack whose slices share case.M rows, as a router with favourites gives them."""
    rng = np.random.default_rng(case.S)
    rows = tuple(map(int, rng.multinomial(case.M, rng.dirichlet(np.full(case.S, 2.0)))))
    return case._replace(M=max(rows), rows=rows)


def times(session: Session, telemetry: Telemetry) -> dict[str, Any]:
    """The sections of times."""
    sections = {
        "layers": [(layers, Case(1, *size, does)) for size in SIZES for does in EPILOGUES],
        "stacks": [(stacks, case) for case in STACKS],
        "experts": [(stacks, expert(case)) for case in EXPERTS],
    }
    found: dict[str, Any] = {"form": forms(session)} | {name: [] for name in sections}
    for name, cases in sections.items():
        for take, case in cases:
            found[name] += take(session, case, telemetry)
            session.cupy.get_default_memory_pool().free_all_blocks()
    return found


def main(given: Sequence[str] | None = None) -> int:
    """The command line. Status 2 where no GPU answers or something is refused."""
    return beside.main(
        "epilogue", __doc__, given, launches=launches, checks=lambda _: {"shapes": compared()},
        times=times,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
