"""The top of the ladder against the best of others on the GPU at hand:
data/validation/summit_<gpu>.json.

    python -m tools.summit_on_a_gpu [--out FILE] [fast.cu=FOLDER] [cutlass=FOLDER] ...

`summit.matmul` is compared with float64 at SHAPES. Then CASES, all contenders in turn: the last
rungs, the call, cuBLAS, the quickest of cuBLASLt's own candidates, and of the kernels of each other
repository (as `tools.neighbours` builds them).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from helpers.chapters import summit
from helpers.chapters.ch22 import epilogue, fp8
from helpers.ladder import choosing
from helpers.ladder.rungs import find
from helpers.record import plans
from helpers.record.gpu import Session
from helpers.record.protocol import ImplausibleError
from helpers.record.telemetry import Telemetry
from nogpu.emulator.machine.arith import fp8_value
from nogpu.errors import ConfigError
from tools import beside, epilogue_on_a_gpu, fp8_on_a_gpu, neighbours
from tools.beside import distance


class Case(NamedTuple):
    """M, N, K, the type of A and B, and what its end does (of epilogue_on_a_gpu.WORDS)."""

    M: int
    N: int
    K: int
    form: str = "bfloat16"
    does: str = ""


SHAPES = ((1, 1, 1), (7, 5, 3), (129, 127, 129), (257, 259, 100), (300, 520, 330), (1, 640, 1000),
          (640, 1, 96), (127, 256, 513))  # fmt: skip
ENDS = ("", "bias", "bias residual", "bias gelu", "bias residual gelu")
CASES = (
    Case(4096, 4096, 4096), Case(8192, 8192, 8192), Case(5000, 3000, 2000),
    Case(4096, 16384, 4096, does="bias gelu"), Case(8192, 3072, 768, does="bias gelu"),
    Case(8192, 768, 3072, does="bias residual"),
    Case(4096, 4096, 4096, "e4m3"), Case(8192, 8192, 8192, "e4m3"),
    Case(5000, 3000, 2000, "e4m3"), Case(4096, 16384, 4096, "e4m3", "bias gelu"),
    Case(4096, 4096, 4096, "float32"), Case(8192, 8192, 8192, "float32"),
)  # fmt: skip
RUNGS = {"bfloat16": ("hopper_3", "hopper_5"), "float32": ("fp32_best",)}
"""Of a form, what stands beside the call where nothing is fused: then cuBLAS and others do, too."""
MOST = 32
"""Candidates that cuBLASLt is asked for."""
DRAWN = 1024
"""Rows of e4m3 that are drawn and rounded; more repeat them."""
Start = Callable[[], None]


def made(case: Case, draw: Callable[..., Any] | None = None) -> Any:
    """A, B and end of a case; draw: as of `epilogue_on_a_gpu.made`, and else on the host."""
    M, N, K, form, does = case
    if form == "float32":
        import cupy

        A, B = (cupy.random.standard_normal(shape, dtype=np.float32) for shape in ((M, K), (K, N)))
        return A, B, fp8.PLAIN
    layer = epilogue_on_a_gpu.made(epilogue_on_a_gpu.Case(1, M, N, K, does), draw)
    bias, residual = (None if x is None else x[0] for x in (layer.bias, layer.residual))
    end = epilogue.End(bias, residual, layer.gelu)
    if form == "bfloat16":
        return layer.A[0], layer.B[0], end
    a, b = fp8_on_a_gpu.operands((min(M, DRAWN), min(N, DRAWN), K))
    return repeated(fp8.scaled(a), M), repeated(fp8.scaled(b, fp8.BLOCK), N), end


def repeated(x: fp8.Scaled, rows: int) -> fp8.Scaled:
    """Its rows again and again, `rows` in all."""
    again = (-(-rows // x.rows), 1)
    return fp8.Scaled(np.tile(x.bits, again)[:rows], np.tile(x.scales, again)[:rows], x.cols)


def compared() -> list[dict[str, Any]]:
    """A row a shape, form and end: elements of the call's C beyond the tolerance."""
    rows = []
    for i, shape in enumerate(SHAPES):
        for form in summit.FORMS:
            case = Case(*shape, form, ENDS[i % len(ENDS)])
            A, B, end = made(case)
            C = summit.matmul(
                A, B, bias=end.bias, residual=end.residual, gelu=end.gelu, backend="cuda"
            )
            rows.append({**case._asdict(), "elements": C.size, "wrong": wrong(A, B, end, C)})
    return rows


def wrong(A: Any, B: Any, end: epilogue.End, C: np.ndarray) -> int:
    """Elements of C that are off by more than is accepted."""
    if isinstance(A, np.ndarray):
        given = epilogue.layer(A, B, bias=end.bias, residual=end.residual, gelu=end.gelu)
        return epilogue.wrong(given, C[None])
    want, off = end.wanted(fp8.reference(A, B), fp8.tolerance(A, B))
    return int((~(np.abs(epilogue.values("bfloat16", C) - want) <= off)).sum())


# -- times -----------------------------------------------------------------------------------------


def start_of_call(session: Session, A: Any, B: Any, end: epilogue.End, C: Any) -> Start:
    """What `summit.matmul` launches, on arrays that are there."""
    if isinstance(A, fp8.Scaled):
        start = fp8.on_gpu(fp8.plan(A, B, end), A, B, C, end)
    elif "1" in end.macros.values():
        given = epilogue.layer(A, B, bias=end.bias, residual=end.residual, gelu=end.gelu)
        start = epilogue.on_gpu(epilogue.plan(given, **summit.tile(A, B)), given, C[None])
    else:
        p = choosing.best("bfloat16", *C.shape, A.shape[1], summit.gpu())
        return session.kernel_operation(p, A, B, C)
    return beside.on_stream(session, start)


def library_starts(session: Session, A: Any, B: Any, end: epilogue.End, C: Any) -> list[Start]:
    """The same product by each of cuBLASLt's candidates."""
    if isinstance(A, fp8.Scaled):
        _, b_scales = fp8.laid_out(fp8.plan(A, B, end), A, B)
        scales = np.ascontiguousarray(A.scales.T), b_scales
        return fp8_on_a_gpu.library_operation(
            session, A, B, C, scales, block=True, end=end, most=MOST
        )
    given = epilogue.layer(A, B, bias=end.bias, residual=end.residual, gelu=end.gelu)
    return epilogue_on_a_gpu.library_layers(session, given, C[None], MOST)


def contenders(
    session: Session, case: Case, A: Any, B: Any, end: epilogue.End, folders: dict[str, Path],
    room: Callable[[str], Any],
) -> dict[str, dict[Any, Start]]:  # fmt: skip
    """By name, what a case is timed with, and each way to start it. room: of a name, its C."""
    M, N, K, form, does = case
    found: dict[str, dict[Any, Start]] = {}
    if form in summit.FORMS:
        found[summit.CALL] = {"": start_of_call(session, A, B, end, room(summit.CALL))}
        starts = library_starts(session, A, B, end, room(summit.LIBRARY))
        found[summit.LIBRARY] = dict(enumerate(starts))
    if form in RUNGS and not does:
        for name in RUNGS[form]:
            p = plans.plan(name, M, N, K)
            found[name] = {"": session.kernel_operation(p, A, B, room(name))}
        name = find(RUNGS[form][0]).baseline
        C = room("cublas")
        found["cublas"] = {"": session.baseline_operation(name, A, B, C, form)}
    for key, folder in folders.items():
        of = neighbours.NEIGHBOURS[key]
        if of.dtype != form or not M == N == K:
            continue
        given = session.cupy.ascontiguousarray(B.T) if of.columns else B
        start = partial(started, neighbours.product_of(folder, of), case, A, given, room(key))
        found[key] = {name: partial(start, which) for which, name in of.kernels.items()}
    return found


def started(product: Callable[..., None], case: Case, A: Any, B: Any, C: Any, which: int) -> None:
    """A launch of another repository's kernel."""
    product(which, *case[:3], *(x.data.ptr for x in (A, B, C)))


def timed(
    session: Session, case: Case, telemetry: Telemetry, folders: dict[str, Path]
) -> list[dict[str, Any]]:
    """A row a contender, as `beside.timed` has it: which of how many was the quickest, and whose."""
    M, N, K, form, does = case
    outs: dict[str, Any] = {}

    def room(name: str) -> Any:
        outs[name] = session.output("float32" if form == "float32" else "bfloat16", M, N)
        outs[name].fill(0)
        return outs[name]

    def error(name: str) -> float:
        of = neighbours.NEIGHBOURS.get(name)
        C = outs[name].reshape(N, M).T if of and of.columns else outs[name]
        return distance(float64(session, C, picked), want)

    with session.on_stream():
        A, B, end = made(case, epilogue_on_a_gpu.pool(session))
        ready = contenders(session, case, A, B, end, folders, room)
        picked = session.cupy.asarray(np.unique(np.linspace(0, M - 1, 256).astype(np.int64)))
        b = float64(session, B)
        want = float64(session, A, picked) @ (b.T if form == "e4m3" else b)
        for more in (end.residual, end.bias):
            if more is not None:
                want += float64(session, more[picked] if more.ndim == 2 else more)
        want = epilogue.gelu(want) if end.gelu else want
    best = {name: beside.quickest(session, starts) for name, starts in ready.items()}
    for name in [name for name in ready if name in (summit.LIBRARY, *folders)]:
        ready[name][best[name]]()
        if not error(name) < (1e-4 if form == "float32" else 0.01):
            print(f"{name} at {case} is wrong, and left out", file=sys.stderr, flush=True)
            del best[name]
    peak = session.peak_gflops("fp32" if form == "float32" else "bf16")
    peak = peak and (2 * peak if form == "e4m3" else peak)
    rows = beside.timed(
        session, {name: ready[name][which] for name, which in best.items()}, telemetry,
        gflop=2 * M * N * K / 1e9, error=error, peak=lambda _: peak,
        what=f"{M}x{N}x{K} {form} {does}",
    )  # fmt: skip
    for row in rows:
        name = row["kernel"]
        row |= {"m": M, "n": N, "k": K, "form": form, "does": does}
        row |= {"picked": str(best[name]), "tried": len(ready[name])}
        if name in folders:
            row["commit"] = neighbours.commit_of(folders[name])
            row["repository"] = neighbours.NEIGHBOURS[name].address
    return rows


def float64(session: Session, x: Any, rows: Any = slice(None)) -> Any:
    """Values of rows of a matrix on the GPU, of float32, bfloat16 bits or e4m3."""
    if not isinstance(x, fp8.Scaled):
        x = x[rows]
        return epilogue_on_a_gpu.float64(x) if x.dtype == np.uint16 else x.astype(np.float64)
    cupy = session.cupy
    table = cupy.asarray(fp8_value(np.arange(256, dtype=np.uint8), "e4m3").astype(np.float64))
    bits, scales = cupy.asarray(x.bits)[rows, : x.cols], cupy.asarray(x.scales)[rows]
    return table[bits] * cupy.repeat(scales.astype(np.float64), fp8.BLOCK, axis=1)[:, : x.cols]


def times(folders: dict[str, Path], session: Session, telemetry: Telemetry) -> dict[str, Any]:
    """The section of times; a case in which something is wrong is printed and left out."""
    session.stream = session.cupy.cuda.Stream.null  # others launch on the default stream
    rows: list[dict[str, Any]] = []
    for case in CASES:
        try:
            rows += timed(session, case, telemetry, folders)
        except (ConfigError, ImplausibleError) as fault:
            print(f"{case}: {fault}", file=sys.stderr, flush=True)
        session.cupy.get_default_memory_pool().free_all_blocks()
    return {"times": rows}


def main(given: Sequence[str] | None = None) -> int:
    """The command line. Status 2 where no GPU answers or something is refused."""
    words = list(sys.argv[1:] if given is None else given)
    named = [word for word in words if word.partition("=")[0] in neighbours.NEIGHBOURS]
    folders = {key: Path(folder) for key, _, folder in (word.partition("=") for word in named)}
    return beside.main(
        "summit", __doc__, [word for word in words if word not in named],
        checks=lambda _: {"shapes": compared()}, times=partial(times, folders),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
