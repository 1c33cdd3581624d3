"""What the page on epilogues shows: bytes and clocks by counting, and the record of an H200."""

from functools import partial
from typing import Any

import numpy as np

from helpers.chapters import validated
from helpers.chapters.ch22 import epilogue, fp8_tables
from helpers.chapters.ch22.fp8_tables import distance
from helpers.ladder.kernel import ROOT, cdiv
from helpers.ladder.numbers import values
from nogpu import device
from nogpu.bfloat16 import to_bfloat16
from nogpu.errors import DataError

RECORD = ROOT / "data" / "validation" / "epilogue_h200.json"
"""Written by `python -m tools.epilogue_on_a_gpu`."""
record, stamp = partial(validated.record, RECORD), partial(validated.stamp, RECORD)
DEPTHS = (768, 2048, 4096, 16384)
"""K whose second launches are counted."""
SPECIAL = 16
"""Special functions that an SM starts a clock (CUDA Programming Guide, throughput of arithmetic
instructions, compute capability 9.0)."""
TITLES = {"bias": "bias", "bias gelu": "bias, GELU", "bias residual": "bias, residual"}


def without_meeting() -> str:
    """The kernel's source, wrong: one thread says that R has been read before all have."""
    meeting = "                warpgroup_sync();\n"
    if epilogue.KERNEL.source.count(meeting) != 1:
        raise DataError(f"{epilogue.KERNEL.file} has no line that says {meeting.strip()!r}")
    return epilogue.KERNEL.source.replace(meeting, "")


def counted() -> list[dict[str, float]]:
    """A row a K, in percent of the product at the H200's peak: the second launch at its bandwidth,
    and GELU at SPECIAL a clock. M and N cancel."""
    gpu = device.gpu("h200")
    second = 100 * 2 * gpu.peak_gflops("bf16") / gpu.bandwidth_gbs
    gelu = 100 * gpu.tensor_fp16_flop_per_clock_per_sm / (2 * SPECIAL)
    return [{"k": K, "launch": second / K, "gelu": gelu / K} for K in DEPTHS]


def stack(rows: tuple[int, ...], N: int = 136) -> epilogue.Layer:
    """Slices of 150 rows, of which `rows` count, and N columns, with bias, GELU and residual."""
    rng = np.random.default_rng(22)

    def draw(*shape: int) -> np.ndarray:
        return to_bfloat16(rng.standard_normal(shape, dtype=np.float32))

    S, M, K = len(rows), 150, 70
    return epilogue.layer(
        draw(S, M, K), draw(S, K, N), bias=draw(S, N), residual=draw(S, M, N), gelu=True, rows=rows
    )


def roundings(given: epilogue.Layer, **tile: int) -> dict[str, float]:
    """Distance of C from float64 in percent: the epilogue fused, and as a second launch."""
    one = epilogue.layer(given.A[0], given.B[0], bias=given.bias[0], residual=given.residual[0],
                         gelu=given.gelu)  # fmt: skip
    want = epilogue.wanted(one)[0][0]
    fused = epilogue.multiply(one, backend="emulator", **tile)[0]
    bare = epilogue.layer(one.A[0], one.B[0])
    two, _ = epilogue.pass_emulated(one, epilogue.multiply(bare, backend="emulator", **tile)[0])
    return {n: distance(values("bfloat16", C), want) for n, C in (("fused", fused), ("two", two))}


def checked() -> dict[str, Any]:
    """As `fp8_tables.checked`, and of the launches with GELU alone: elements, those that differ
    from the emulator's, in percent too, and how far these are apart."""
    rows = [row for row in record()["shapes"] if "gelu" in row["does"]]
    elements, differ = (sum(row[what] for row in rows) for what in ("elements", "differ"))
    apart = max(row["apart"] for row in rows)
    shares = {"gelu": differ, "gelu_percent": 100 * differ / elements, "apart": apart}
    return {**fp8_tables.checked(RECORD), **shares}


def _by_size(section: str) -> list[tuple[dict[str, Any], dict[str, dict[str, Any]]]]:
    """Of each case of a section, a row of its facts, and its rows by contender."""
    cases = validated.by_kernel(record()[section], "s", "m", "n", "k", "does").values()
    return [(next(iter(of.values())), of) for of in cases]


def _longer(of: dict[str, dict[str, Any]], name: str, than: str) -> float:
    """How much longer `name` takes than another contender, in percent, by pairs."""
    return 100 * (1 / of[name]["ratio"][than] - 1)


def layers() -> list[dict[str, Any]]:
    """A row a size and epilogue: TFLOP/s fused; in percent, what fusing saves of two launches, what
    the epilogue adds to the product alone, each also of cuBLASLt, and the fused one's share of it.
    """
    return [
        {
            "shape": "x".join(str(first[n]) for n in "mnk"), "does": TITLES[first["does"]],
            "k": first["k"], "tflops": of["fused"]["tflops"],
            "saved": -_longer(of, "fused", "two"), "added": _longer(of, "fused", "plain"),
            "library_saved": -_longer(of, "cublaslt", "cublaslt_two"),
            "library_added": _longer(of, "cublaslt", "cublaslt_plain"),
            "share": 100 * of["fused"]["ratio"]["cublaslt"],
            "plain_share": 100 * of["plain"]["ratio"]["cublaslt_plain"],
            "clock": of["fused"]["clock_mhz"], "error": of["fused"]["error_percent"],
            "two_error": of["two"]["error_percent"],
        }
        for first, of in _by_size("layers")
    ]  # fmt: skip


def stacks(section: str) -> list[dict[str, Any]]:
    """A row a stack ("stacks") or shared rows ("experts"): TFLOP/s of one launch, and its share of
    each way of cuBLAS in percent (None where that was left out), by pairs; and tiles and SMs."""
    rows = []
    for first, of in _by_size(section):
        ratio, tile = of["stack"]["ratio"], {**epilogue.KERNEL.params, **first["params"]}
        ways = ("cublas_loop", "cublas_batched", "cublas_grouped")
        percent = {to: 100 * ratio[to] if to in ratio else None for to in ways}
        wide = cdiv(first["n"], tile["BN"])
        tiles = [cdiv(m, tile["BM"]) * wide for m in first["rows"]]
        rows.append(
            {"shape": f"{first['n']}x{first['k']}", "slices": first["s"],
             "rows": f"{min(first['rows'])} to {max(first['rows'])}"
             if section == "experts" else str(first["m"]),
             "tflops": of["stack"]["tflops"], **percent, "tiles": sum(tiles) / len(tiles)}
        )  # fmt: skip
    return rows
