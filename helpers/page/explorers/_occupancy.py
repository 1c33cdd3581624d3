"""Explorer of chapter 07: what limits the resident warps of an SM."""

from typing import Any

from helpers.ladder import model
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice, text
from helpers.page.explorers.fallbacks import bars
from helpers.wording import counted
from nogpu import device
from nogpu.errors import ConfigError

REGISTERS = (16, 24, *range(32, 256, 8), 255)
SHARED_KB = (0, 1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 56, 64, 80, 96, 99, 100, 128, 160,
             163, 164, 200, 227, 228)  # fmt: skip
_BY = {"warps": "by_warps", "blocks": "by_blocks", "registers": "by_registers",
       "shared memory": "by_shared"}  # fmt: skip


def plain_limits(limits: device.Limits) -> dict[str, int]:
    """The limits that the script's formula needs."""
    return {
        "threads_block": limits.max_threads_per_block,
        "registers_thread": limits.max_registers_per_thread,
        "shared_block": limits.shared_per_block_optin, "register_unit": limits.register_alloc_unit,
        "warp_unit": limits.warp_alloc_granularity, "registers_sm": limits.registers_per_sm,
        "shared_unit": limits.shared_alloc_unit,
        "shared_reserved": limits.shared_reserved_per_block, "shared_sm": limits.shared_per_sm,
        "warps_sm": limits.max_warps_per_sm, "blocks_sm": limits.max_blocks_per_sm,
    }  # fmt: skip


def gpu_data() -> dict[str, Any]:
    """Limits by architecture, and each known GPU's architecture and name."""
    archs = {g.arch for g in device.GPUS.values()}
    return {
        "limits": {arch: plain_limits(device.limits(arch)) for arch in sorted(archs)},
        "gpus": {key: g.arch for key, g in device.GPUS.items()},
        "names": {key: g.name for key, g in device.GPUS.items()},
    }


def gpu_control(gpu: str) -> Control:
    """A list of the known GPUs."""
    names = {key: f"{g.name} ({g.arch})" for key, g in device.GPUS.items()}
    return choice("gpu", "GPU", names, gpu)


def read(state: State) -> Reading:
    """Occupancy by helpers.ladder.model, or why the block cannot be launched."""
    gpu = device.gpu(state["gpu"])
    limits, shared = gpu.limits, state["shared"]
    try:
        o = model.occupancy(limits, state["threads"], state["registers"], shared)
    except ConfigError:
        warps = -(-state["threads"] // device.WARP)
        unit = limits.register_alloc_unit
        each = -(-state["registers"] * device.WARP // unit) * unit
        too_much = shared > limits.shared_per_block_optin
        why = {
            "gpu": gpu.name,
            "registers_need": text(0 if too_much else warps * each),
            "shared_most": text(limits.shared_per_block_optin),
            "registers_sm": text(limits.registers_per_sm),
            "shared": text(shared),
        }
        return Reading("shared" if too_much else "file", why)
    shown = {
        "gpu": gpu.name, "holds": counted(o.blocks, "block"), "blocks": text(o.blocks),
        "warps": text(o.warps), "most": text(limits.max_warps_per_sm),
        "fraction": text(100 * o.fraction, 1), "limited": " and ".join(o.limited_by),
    }  # fmt: skip
    return Reading("fits", shown | {_BY[name]: text(n) for name, n in o.by.items()})


def occupancy(
    *, gpu: str = "t4", threads: int = 256, registers: int = 64, shared: int = 8192
) -> Explorer:
    """Resident warps of an SM by threads, registers and shared memory, and what limits them."""
    default = read({"gpu": gpu, "threads": threads, "registers": registers, "shared": shared})
    limit_rows = [
        (name, float(default.text[key]), f"{default.text[key]} blocks") for name, key in _BY.items()
    ]
    return Explorer(
        kind="occupancy",
        title="What limits the warps of an SM?",
        caption=(
            "Each bar is the number of blocks that one resource would allow alone; the shortest "
            "decides. The squares are the warp slots of one SM, coloured by block. Take more "
            "registers a thread and watch the limit move."
        ),
        controls=(
            gpu_control(gpu),
            Control("threads", "threads a block", tuple(range(32, 1025, 32)), threads),
            Control("registers", "registers a thread", REGISTERS, registers),
            Control(
                "shared", "shared memory a block", tuple(1024 * kb for kb in SHARED_KB), shared,
                labels=tuple(f"{kb} KB" for kb in SHARED_KB),
            ),
        ),
        labels={
            "fraction": "occupancy (%)", "warps": "resident warps", "most": "warps at most",
            "blocks": "resident blocks", "limited": "limited by", "by_warps": "blocks by warps",
            "by_blocks": "blocks by the block limit", "by_registers": "blocks by registers",
            "by_shared": "blocks by shared memory",
        },
        sentences={
            "fits": "An SM of the {gpu} holds {holds}, {warps} of {most} warps: {fraction} % "
            "occupancy, limited by {limited}.",
            "shared": "The block cannot be launched: it asks for {shared} bytes of shared memory, "
            "and a block of the {gpu} has {shared_most} at most.",
            "file": "The block cannot be launched: it needs {registers_need} registers, and an SM "
            "of the {gpu} has {registers_sm}.",
        },
        data=gpu_data(),
        compute=read,
        picture=bars(limit_rows, "Blocks that each resource would allow alone."),
        examples=tuple({"registers": r} for r in (32, 64, 96, 128, 255))
        + ({"threads": 1024, "registers": 128}, {"shared": 32 << 10}),
    )  # fmt: skip
