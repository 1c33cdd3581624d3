"""The numbers that chapter 15 shows: tiles of SMs, what the formula says of each candidate, and
what the record says of the choice."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from helpers.ladder import model
from helpers.ladder.rungs import catalog
from helpers.ladder.usage import resources
from helpers.record import measure, published, ragged, ragged_shapes
from nogpu import device

SIZES = (512, 1024, 1025, 2048, 4096, 8192)
KERNELS = ("cp_async", "fp32_best")
Row = dict[str, Any]


class Candidates:
    """The tiles that `choose` weighs for fp32_best on the H200, and the formula's word on each."""

    def __init__(self) -> None:
        self.kernel, self.gpu = catalog["fp32_best"], device.gpu("h200")
        self.tiles = [{**self.kernel.params, **tile} for tile in self.kernel.candidates]
        self.resident = [
            resources("fp32_best", arch="sm_90", **tile).occupancy.blocks
            for tile in self.kernel.candidates
        ]
        self.titles = [f"{q['BM']}x{q['BN']}, {q['TM']}x{q['TN']} a thread" for q in self.tiles]

    def rounds(self, shape: Sequence[int]) -> list[Any]:
        """What the formula says of each candidate for a shape (M, N, K)."""
        return [
            model.rounds(self.kernel, *shape, gpu=self.gpu, resident=blocks, **tile)
            for tile, blocks in zip(self.kernel.candidates, self.resident, strict=True)
        ]

    def peaks(self, size: int) -> list[float]:
        """Percent of the FP32 peak at M = N = K that the formula allows each candidate."""
        return [100 * r.peak for r in self.rounds((size, size, size))]

    def promised(self) -> list[float]:
        """How many times as fast the chosen tile should be, for each ragged shape."""
        each_shape = [self.rounds(shape) for shape in ragged_shapes()]
        return [r[0].clocks / min(each.clocks for each in r) for r in each_shape]

    def table(self) -> Row:
        """`peaks` for a table."""
        peaks = {n: self.peaks(n) for n in SIZES}
        return {
            "rows": [
                {"tile": title, **{str(n): peaks[n][i] for n in SIZES}}
                for i, title in enumerate(self.titles)
            ],
            "caption": "Predicted percent of the FP32 peak at M = N = K, on an H200.",
            "formats": dict.fromkeys(map(str, SIZES), ".0f"),
        }


def the_record(candidates: Candidates) -> SimpleNamespace:
    """Shares of cuBLAS and of the peak in percent, gains in times; document P's tile of 8."""
    rec = measure(list(KERNELS), sizes=list(SIZES), gpu="h200")
    share = {(k, n): 100 * rec.value(k, n, "cublas_ratio") for k in KERNELS for n in SIZES}
    peak = 100 * rec.value("fp32_best", 1024, "gflops") / candidates.gpu.fp32_peak_gflops
    found, promised = ragged(), candidates.promised()
    printed = {
        block: float(str(row["value"]))
        for block, rung in (("8x8", "tiled_padded"), ("32x32", "tiled_32"))
        for row in published(document="P", rung=rung, block=block, metric="time_kernel")
        if row["m"] == 1024
    }
    small = measure(["tiled_8", "tiled_32"], sizes=1024, gpu="h200")
    return SimpleNamespace(
        gpu=rec.gpu, share=share, at={f"n{n}": share["fp32_best", n] for n in SIZES}, peak=peak,
        slots=100 * 32 / candidates.gpu.sms, library=100 * peak / share["fp32_best", 1024],
        promised=math.prod(promised) ** (1 / len(promised)), shapes=len(promised),
        before=100 * found.default if found else math.nan,
        after=100 * found.share if found else math.nan,
        gain=found.share / found.default if found else math.nan,
        p_small=printed["32x32"] / printed["8x8"], h_small=small.gain("tiled_8", "tiled_32", 1024),
    )  # fmt: skip
