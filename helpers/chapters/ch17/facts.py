"""What chapter 17 says in numbers: the steps from wmma to wmma_tiled, and document L's."""

from helpers.chapters.facts import gain
from helpers.record import costs, published
from nogpu import device

SIZE = 4096


def steps() -> dict[str, float | dict[str, float]]:
    """Numbers of the kernels on the H200, by the name under which the page glues them.

    over: peak of the Tensor Cores over that of the FP32 lanes, by GPU; roof: what L1 allows
    `wmma` at 4096, in TFLOP/s; grid: `wmma` over the same
    kernel with document L's launch, at 8192.
    """
    gpus = [device.gpu(key) for key in ("h200", "t4")]
    return {
        "over": {gpu.key: gpu.peak_gflops("fp16") / gpu.fp32_peak_gflops for gpu in gpus},
        "roof": costs.bounds("wmma", SIZE, gpu="h200").gflops / 1e3,
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


def quarters() -> bool:
    """Whether each of the two steps cuts the longest time of a resource to about a quarter."""
    names = ("wmma", "wmma_shared", "wmma_tiled")
    first, shared, tiled = (costs.bounds(name, SIZE, gpu="h200").ms for name in names)
    return 0.2 < shared / first < 0.27 and 0.24 < tiled / shared < 0.32
