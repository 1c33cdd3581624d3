"""The top of the ladder as one call: BF16 or e4m3, any shape, its end fused; and its record."""

from functools import partial
from typing import Any

import numpy as np

from helpers.chapters import validated
from helpers.chapters.ch22 import epilogue, fp8
from helpers.chapters.ch22.fp8 import Scaled, scaled
from helpers.draw.bar_charts import bars
from helpers.draw.figures import Figure
from helpers.ladder import choosing, launch
from helpers.ladder.kernel import ROOT
from helpers.ladder.rungs import find
from helpers.page.workbench import Verdict
from nogpu import device
from nogpu.errors import DtypeError

__all__ = ["Scaled", "chart", "matmul", "record", "scaled", "shares", "stamp", "times"]
RECORD = ROOT / "data" / "validation" / "summit_h200.json"
"""Written by `python -m tools.summit_on_a_gpu`."""
record, stamp = partial(validated.record, RECORD), partial(validated.stamp, RECORD)
CALL, LIBRARY = "summit", "cublaslt"
NAMES = {
    "hopper_3": "hopper_3",
    "hopper_5": "hopper_5, the last rung",
    CALL: "the call",
    "fast.cu": "fast.cu",
    "cutlass": "CUTLASS, best of",
    "cublas": "cuBLAS",
    LIBRARY: "cuBLASLt, best of",
}
"""What the figure calls a contender, in its order; of how many it is the best follows."""
FORMS = {"bfloat16": "", "e4m3": ", e4m3"}


def gpu() -> device.Gpu:
    """The GPU at hand if it has wgmma, else the H200."""
    here = launch.facts()
    return here if choosing.runs_on(find("hopper_5"), here) else device.gpu("h200")


def tile(A: Any, B: Any) -> dict[str, int]:
    """Sizes of the kernel with an end, for bfloat16 matrices or stacks of them: those predicted to
    be the quickest of hopper_5's.
    """
    shape = A.shape[-2], B.shape[-1], A.shape[-1]
    return dict(choosing.of((find("hopper_5"),), *shape, gpu()).params)


def matmul(
    A: Any, B: Any, *, bias: Any = None, residual: Any = None, gelu: bool = False,
    backend: str | None = None,
) -> Any:  # fmt: skip
    """C = f(A B + residual + bias), bfloat16 bits: the book's fastest kernel for the operands.

    A, B: bfloat16 bits (uint16), (M, K) and (K, N), or stacks of them, (S, M, K) and (S, K, N); or
    `scaled` matrices of (M, K) and (N, K). bias: (N,) or (S, N); residual: as C. gelu: whether f is
    GELU (the form with tanh), else nothing. backend: "cuda", "emulator", or None for a Hopper GPU
    where there is one. Raises DtypeError, ShapeError, ConfigError, NoGPUError, and EmulationError
    for what the emulator finds.
    """
    end = epilogue.End(bias, residual, gelu)
    if isinstance(A, Scaled) and isinstance(B, Scaled):
        return fp8.multiply(A, B, end, backend=backend)
    for name, x in (("A", A), ("B", B)):
        if getattr(x, "dtype", None) != np.uint16:
            raise DtypeError(
                f"{name} is {getattr(x, 'dtype', type(x).__name__)}: give both as bfloat16 bits, "
                "to_bfloat16(x), or both as scaled(x)"
            )
    if A.ndim == 2 and "1" not in end.macros.values():
        return launch.matmul(A, B, kernel="auto", backend=backend)
    given = epilogue.layer(A, B, bias=bias, residual=residual, gelu=gelu)
    C = epilogue.multiply(given, backend=backend, **tile(A, B))
    return C if A.ndim == 3 else C[0]


def times(form: str = "", does: str | None = None) -> list[dict[str, Any]]:
    """Rows of the record: one a contender of a case, of a form and an end if they are given."""
    return [
        row
        for row in record()["times"]
        if form in ("", row["form"]) and does in (None, row["does"])
    ]


def named(row: dict[str, Any]) -> str:
    """What the figure calls a row of the record."""
    name, best, _ = NAMES[row["kernel"]].partition(", best of")
    tried = f"{best} {row['tried']}" if best and row["tried"] > 1 else ""
    return name + tried + FORMS[row["form"]]


def numbers() -> dict[str, Any]:
    """What the page says of the record: percent of the library's best of the call's BF16 and e4m3
    at squares; of the best of other repositories at least; and of the slowest case.
    """
    square = [r for r in times(does="") if r["m"] == r["n"] == r["k"] and r["kernel"] == CALL]
    at = {f"{r['form']}_{r['m']}": 100 * r["ratio"][LIBRARY] for r in square}
    others = [
        100 * r["ratio"][n] for r in square for n in ("fast.cu", "cutlass") if n in r["ratio"]
    ]
    worst = {form: min(r["share"] for r in shares() if r["form"] == form) for form in FORMS}
    return {**at, "others": min(others), "worst": worst}


def chart(yours: Verdict | None = None) -> Figure:
    """The last rungs, the call, and what others have, at squares; and a rung of the reader's.

    yours: what `mine(...)` gave; it has a bar where a GPU timed it.
    """
    kept = record()
    source = f"{kept['gpu']['name']}, {kept['recorded']['date']}"
    drawn: list[dict[str, Any]] = [
        {**{name: row[name] for name in ("m", "n", "k", "ms", "q1", "q3")},
         "kernel": named(row),
         "gflops": 1e3 * row["tflops"], "origin": "recorded", "source": source}
        for form in FORMS for name in NAMES for row in times(form, "")
        if row["kernel"] == name and row["m"] == row["n"] == row["k"]
    ]  # fmt: skip
    timed = getattr(yours.facts, "timed", None) if yours else None
    own = timed.rows() if timed else []
    caption = "In turn on one H200, in one run; whiskers: inter-quartile range."
    if yours and not own:
        found = "right and clean" if yours.ok else "not right or not clean"
        caption += f" Yours is {found} in the emulator; a Hopper GPU would give it a bar."
    return bars([*drawn, *own], caption=caption)


def shares() -> list[dict[str, Any]]:
    """A row a case: TFLOP/s of the call and of the library's best candidate, the call's percent of
    it, pair by pair, how many it had, and what the best gains over the first, in percent.
    """
    found, case = [], ("form", "m", "n", "k", "does")
    for at, of in validated.by_kernel(times(), *case).items():
        if row := of.get(CALL):
            best = of.get(LIBRARY)
            found.append(
                {"shape": "{m} x {n} x {k}".format(**row), **dict(zip(case, at, strict=True)),
                 "call": row["tflops"], "library": best and best["tflops"],
                 "tried": best and best["tried"],
                 "share": best and 100 * row["ratio"][LIBRARY]}
            )  # fmt: skip
    return found
