"""One tiled product in four languages: their PTX as it is stored, launched in the emulator."""

import json
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

import nogpu
from helpers.chapters import validated
from helpers.ladder.kernel import ROOT, cdiv
from nogpu import Report, TensorMap
from nogpu.bfloat16 import from_bfloat16, to_bfloat16
from nogpu.errors import ShapeError

FOLDER = ROOT / "data" / "languages"
"""Written by `python -m tools.languages`."""
TITLES = {"triton": "Triton", "tilelang": "TileLang", "cute": "CuTe DSL", "cutile": "cuTile"}
NAMES = tuple(TITLES)
TILE = (128, 128, 64)
"""Rows and columns of C a block, and steps of k a stage, in all four."""
BOX_ROWS = {"A_map": 128, "B_map": 64, "C_map": 64}
"""Of boxes that are 64 columns wide and lie with the 128-byte swizzle. For TileLang and CuTe DSL by
their sources; cuTile's are made by its own launcher and hidden: these give the right C."""
BOX_COLUMNS, SWIZZLE = 64, 128
ALIGNED = 8
"""N and K are whole multiples: rows start at 16 bytes."""
STORE = "cp.async.bulk.tensor.2d.global"

MakeMap = Callable[[Any, int], Any]
"""A tensor map of a matrix in boxes of so many rows."""


@cache
def facts(name: str) -> dict[str, Any]:
    """What tools.languages found of a language: version, block, shared bytes, args, registers,
    bytes spilled, counts of the machine code."""
    rows = json.loads((FOLDER / "languages.json").read_text(encoding="utf-8"))
    return next(row for row in rows if row["name"] == name)


@cache
def ptx(name: str, elect: bool = True) -> str:
    """A language's PTX. elect: where a whole warp stores boxes, as cuTile writes it, let one thread
    do it: in PTX each thread of a warp would copy."""
    text = (FOLDER / f"{name}.ptx").read_text(encoding="utf-8")
    if not elect or name != "cutile":
        return text
    store = re.compile(rf"^({re.escape(STORE)}.*;\n)", re.MULTILINE)
    text = store.sub(r"elect.sync %r999|%p999, -1;\n@%p999 \1", text)
    return text.replace("{\n.reg", "{\n.reg .pred %p999;\n.reg .b32 %r999;\n.reg", 1)


def grid(M: int, N: int, K: int) -> tuple[int, int]:
    """Blocks a launch. Raises ShapeError where rows do not start at 16 bytes."""
    if N % ALIGNED or K % ALIGNED or min(M, N, K) < 1:
        raise ShapeError(
            f"M={M}, N={N}, K={K}: N and K must be multiples of {ALIGNED}, since all four were "
            "compiled for rows that start at 16 bytes; take hopper_2 for other shapes"
        )
    return cdiv(N, TILE[1]), cdiv(M, TILE[0])


def arguments(
    name: str, A: Any, B: Any, C: Any, make_map: MakeMap, structure: Callable[[Sequence[Any]], Any]
) -> list[Any]:
    """A launch's arguments, in the order of the PTX, for arrays of NumPy or CuPy.

    structure: makes an argument of the members of a structure.
    """
    (M, K), N = A.shape, B.shape[1]
    matrices, values = {"A": A, "B": B, "C": C}, {"M": M, "N": N, "K": K, "one": 1}

    def value(word: Any) -> Any:
        if isinstance(word, list):
            return structure([value(member) for member in word])
        if word in BOX_ROWS:
            return make_map(matrices[word[0]], BOX_ROWS[word])
        if word in matrices:
            return matrices[word]
        if word == "null":  # scratch that nothing uses
            return C
        if word == "byte":  # an empty structure
            return np.uint8(0)
        return np.int64(values[word[0]]) if word.endswith("64") else np.int32(values[word])

    return [value(word) for word in facts(name)["args"]]


def operands(M: int, N: int, K: int, seed: int = 23) -> tuple[np.ndarray, np.ndarray]:
    """A (M, K) and B (K, N), N(0, 1) in bfloat16."""
    rng = np.random.default_rng(seed)
    A, B = (to_bfloat16(rng.standard_normal(s, dtype=np.float32)) for s in ((M, K), (K, N)))
    return A, B


def emulated(
    name: str, A: np.ndarray, B: np.ndarray, *, source: str = "", **options: Any
) -> tuple[np.ndarray, Report]:
    """C (M, N) in bfloat16, and what the emulator saw. source: other PTX than that of `ptx`."""
    row, C = facts(name), np.full((len(A), B.shape[1]), 0x7FFF, np.uint16)
    args = arguments(
        name, A, B, C, lambda X, rows: TensorMap(X, (rows, BOX_COLUMNS), SWIZZLE), tuple
    )
    report = nogpu.launch(
        source or ptx(name), "matmul", grid(*C.shape, A.shape[1]), row["block"], args,
        shared_bytes=row["shared"], arch="sm_90a", name=f"{name}.ptx", **options,
    )  # fmt: skip
    return C, report


def wrong(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> int:
    """Elements of C that are off by more than half a step of bfloat16 and what sums may lose."""
    a, b = (from_bfloat16(X).astype(np.float64) for X in (A, B))
    want, sums = a @ b, 2.0**-20 * (np.abs(a) @ np.abs(b))
    off = np.abs(from_bfloat16(C).astype(np.float64) - want)
    return int(np.count_nonzero(~(off <= 2.0**-8 * np.abs(want) + sums)))


SHAPE = (150, 136, 328)
"""M, N, K of the launch whose instructions and accesses are counted: two tiles each way, ragged."""


def counted(schedule: str = "ascending") -> list[dict[str, Any]]:
    """A row a language at SHAPE: elements that are wrong, findings, warp instructions, wgmma, how
    many requests copy A and B in and their bytes, requests that store C and sectors each, and what
    ptxas says: registers, bytes spilled; shared memory in KB."""
    A, B = operands(*SHAPE)
    rows = []
    for name in NAMES:
        C, report = emulated(name, A, B, schedule=schedule)
        moved = [r for r in report.accesses if r.space == "global"]
        loads, stores = ([r for r in moved if (r.op == "store") is way] for way in (False, True))
        row = facts(name)
        rows.append(
            {"language": TITLES[name], "wrong": wrong(A, B, C), "findings": len(report.findings),
             "instructions": sum(report.instructions.values()),
             "wgmma": sum(n for op, n in report.instructions.items() if "mma_async" in op),
             "loads": sum(r.requests for r in loads),
             "load_sectors": sum(r.sectors for r in loads) / sum(r.requests for r in loads),
             "stores": sum(r.requests for r in stores),
             "store_sectors": sum(r.sectors for r in stores) / sum(r.requests for r in stores),
             "threads": row["block"], "registers": row["registers"], "spilled": row["spilled"],
             "shared": row["shared"] / 1024}
        )  # fmt: skip
    return rows


RECORD = ROOT / "data" / "validation" / "languages_h100.json"
"""Written by `python -m tools.languages_on_a_gpu`."""
record, stamp = partial(validated.record, RECORD), partial(validated.stamp, RECORD)


def times() -> list[dict[str, Any]]:
    """A row a contender: TFLOP/s by size, and its percent of cuBLAS at 4096, from pairs."""
    rows: dict[str, dict[str, Any]] = {}
    for r in record()["times"]:
        title = {**TITLES, "baseline": "cuBLAS"}.get(r["name"], r["name"])
        row = rows.setdefault(r["name"], {"kernel": title})
        row[str(r["size"])] = r["tflops"]
        if r["size"] == 4096:
            row["share"] = 100 * r["ratio"]["baseline"]
    return list(rows.values())


def compared() -> dict[str, int]:
    """Elements that were compared on the GPU; how many were wrong, or had other bits than in the
    emulator."""
    rows = record()["shapes"]
    return {what: sum(row[what] for row in rows) for what in ("elements", "wrong", "differ")}
