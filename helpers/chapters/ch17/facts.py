"""What chapter 17 says in numbers: the steps from wmma to wmma_tiled, and document L's."""

from __future__ import annotations

from helpers.chapters.facts import gain, recorded
from helpers.record import costs, published
from nogpu import device

SIZE = 4096


def steps() -> dict[str, float | dict[str, float]]:
    """Numbers of the kernels on the H200, by the name under which the page glues them.

    over: peak of the Tensor Cores over that of the FP32 lanes, by GPU; roof: what L1 allows
    `wmma` at 4096, in TFLOP/s; gain: `wmma_tiled` over `wmma` there; grid: `wmma` over the same
    kernel with document L's launch, at 8192.
    """
    gpus = [device.gpu(key) for key in ("h200", "t4")]
    return {
        "over": {gpu.key: gpu.peak_gflops("fp16") / gpu.fp32_peak_gflops for gpu in gpus},
        "roof": costs.bounds("wmma", SIZE, gpu="h200").gflops / 1e3,
        "gain": recorded("wmma_tiled", SIZE) / recorded("wmma", SIZE),
        "grid": gain("wmma", "wmma_launch_l", 2 * SIZE),
    }


def document_l() -> dict[str, float]:
    """What document L prints of this step, what its card has, and what its code gains on the H200.

    l_over, h_over: its kernel over the tile of 16; l_claim, l_steps: peak of the Tensor Cores over
    that of the FP32 lanes, as it prints it and as its card has it.
    """
    card = device.gpu("rtx3070_laptop")
    [over] = published(document="L", metric="speedup", rung="wmma_launch_l")
    [claim] = published(document="L", metric="tensor_peak_ratio")
    return {
        "l_over": float(str(over["value"])),
        "h_over": gain("wmma_launch_l", "tiled_16", 2 * SIZE),
        "l_claim": float(str(claim["value"])),
        "l_steps": card.peak_gflops("fp16") / card.fp32_peak_gflops,
    }
