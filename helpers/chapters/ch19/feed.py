"""What chapter 19 compares: tiles of the recorded search, one change at a time, bytes a clock."""

from typing import Any

from helpers.chapters.facts import recorded
from helpers.ladder.rungs import catalog
from helpers.record import load, stalls
from nogpu import device
from nogpu.device import Gpu

SIZE = 4096
FLAT = {"BM": 128, "BN": 128, "WM": 64, "WN": 64, "BK": 32}
"""The tile of mma_swizzle."""
CHANGES: dict[str, tuple[str, str, dict[str, int]]] = {
    "swizzle": ("mma_swizzle, BK 32", "mma_swizzle", FLAT),
    "deep": ("mma_swizzle, BK 64", "mma_swizzle", {**FLAT, "BK": 64}),
    "ring_2": ("ring of two stages, BK 32", "mma_pipelined", {**FLAT, "STAGES": 2}),
    "ring_3": ("ring of three", "mma_pipelined", {**FLAT, "STAGES": 3}),
    "ring_4": ("ring of four", "mma_pipelined", FLAT),
    "wide": ("ring of four, block tile 128x256", "mma_pipelined", {}),
    "rows": ("the same, C walked row by row", "mma_pipelined", {"GROUP_M": 1}),
}
"""By name: words, kernel, and what differs from its own tile."""


def searched(name: str, **changed: int) -> float:
    """% of cuBLAS of a kernel with these tiles, in the recorded search at 4096."""
    params = {**catalog[name].params, **changed}
    [found] = load("h200").find("sweep", kernel=name, m=SIZE, params=params)
    return 100 * float(found["cublas_ratio"])


def shares() -> dict[str, float]:
    """% of cuBLAS of each row of CHANGES."""
    return {key: searched(kernel, **tile) for key, (_, kernel, tile) in CHANGES.items()}


def changes_shown() -> dict[str, Any]:
    """`shares` for a table."""
    return {
        "rows": [{"what": CHANGES[key][0], "share": share} for key, share in shares().items()],
        "caption": "One change at a time, block tile 128x128: % of cuBLAS (H200).",
        "headers": {"what": "kernel", "share": "%"},
        "formats": {"share": ".1f"},
    }


def need(gpu: Gpu, wm: int, wn: int) -> float:
    """Bytes a clock of shared memory that keep the Tensor Cores of an SM busy."""
    return gpu.tensor_fp16_flop_per_clock_per_sm * (1 / wm + 1 / wn)


def glued() -> dict[str, Any]:
    """The numbers of the page.

    alone: `shares`; fair_factor: the ring as it stands over `mma_swizzle` with the deeper tile;
    ring_factor: four stages over none in the same tile; wide_gain: points of the wider block tile;
    tile: the ring's parameters; feed: `need` of its warp tile on the H200; taken: bytes a clock
    at the rate recorded at 4096, which is of_peak % of peak (TFLOP/s); limit: registers of a lane.
    """
    h200, alone, tile = device.gpu("h200"), shares(), catalog["mma_pipelined"].params
    share = recorded("mma_pipelined", SIZE) / h200.peak_gflops("fp16")
    feed = need(h200, tile["WM"], tile["WN"])
    return {
        "alone": alone, "fair_factor": alone["wide"] / alone["deep"],
        "ring_factor": alone["ring_4"] / alone["swizzle"],
        "wide_gain": alone["wide"] - alone["ring_4"], "tile": tile, "feed": feed,
        "taken": feed * share, "of_peak": 100 * share, "peak": h200.peak_gflops("fp16") / 1e3,
        "limit": h200.limits.max_registers_per_thread,
    }  # fmt: skip


def too_large() -> bool:
    """Whether a 64 x 64 warp tile needs all 128 bytes of an H200's banks, a quarter on a T4, and
    the accumulators of the next larger one are more than the registers of a lane."""
    h200, t4 = device.gpu("h200"), device.gpu("t4")
    fits = need(h200, 64, 64) == 128 == 4 * need(t4, 64, 64)
    return fits and 128 * 64 // 32 > h200.limits.max_registers_per_thread


def waits_for_the_instruction() -> bool:
    """Whether a busy Tensor Core and fixed latencies are the ring's two longest waits, by ncu."""
    recorded_waits = [row["waits"] for row in stalls("mma_pipelined", gpu="h200")]
    longest = ({*sorted(waits, key=waits.get)[-2:]} for waits in recorded_waits)
    return all(two == {"math_pipe_throttle", "wait"} for two in longest)
