"""Which kernel of the book, which tile and how many slices of K for a product: from counts alone.

Nothing is compiled and nothing is timed: each launch that the catalog names is predicted by a
formula of `helpers.ladder.model`, and the one with the fewest clocks is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from helpers.ladder import cuts, model, shares
from helpers.ladder.kernel import DEPTHS, ITEM_BYTES, Geometry, Kernel, cdiv, geometry
from helpers.ladder.numbers import STORAGE
from helpers.ladder.rungs import MOST_CUT, catalog, steps
from nogpu import device, toolchain
from nogpu.errors import ConfigError, DtypeError

AUTO = "auto"
"""In place of a kernel's name: the best of the book for the shape, the type and the GPU."""
INSTEAD: Mapping[str, str] = {
    "fp32_turing": "fp32_best",
    "fp32_best": "fp32_sliced",
    "mma_turing": "mma_pipelined",
    "mma_pipelined": "hopper_5_fp16",
    "mma_pipelined_bf16": "hopper_5",
}
"""Kernels that are weighed only where another does not run: the formulas do not know what they
lack.

Of fp32_best it is two percent at 2048 and 4096, by the registers of its loop (data/tries/slices.md,
run 4).
"""
SHORTEST = 2
"""Steps of BK that a slice of K has at least."""
SHORT_K = 40
"""The largest K for which a ring of two is weighed: with a longer one nobody has measured it."""
MOST_SLICES = 256
MOST_PASSES: Mapping[int, int] = {4: 16, 2: 5}
"""How often a thin kernel may read its large matrix, to be weighed at all, by bytes an element.

With two bytes Tensor Cores are ahead where it is more often, or as good (data/tries/slices.md, run
3).
"""
SAID = 4
"""Of how many launches `why` tells."""


def runs_on(kernel: Kernel, gpu: device.Gpu) -> bool:
    """Whether a GPU of this architecture runs a kernel: code for sm_90a runs on nothing else."""
    return toolchain.runs(gpu.arch, kernel.min_arch)


def _gives(kernel: Kernel) -> bool:
    """Whether C is of the operands' type, or can be rounded to that."""
    return kernel.out_dtype == kernel.dtype or kernel.dtype in ("float16", "bfloat16")


def contenders(dtype: str, gpu: device.Gpu, *, emulated: bool = False) -> tuple[Kernel, ...]:
    """Kernels of this type that run on this GPU and have tiles to choose from, in catalog order.

    Those of INSTEAD only where the other is not. emulated: only those that the emulator runs, too.
    Raises DtypeError for a type that no kernel takes, ConfigError where none of them runs on the
    GPU.
    """
    every = (*catalog.values(), *steps.values())
    typed = [k for k in every if k.dtype == dtype and k.candidates and _gives(k)]
    if dtype not in STORAGE or all(map(model.is_thin, typed)):
        known = sorted({k.dtype for k in catalog.values() if k.candidates})
        raise DtypeError(
            f"no kernel is chosen by itself for {dtype}: give matrices of {', '.join(known)}, or "
            "name a kernel"
        )
    able = tuple(k for k in typed if k.host == "plain" or not emulated)
    fitting = tuple(k for k in able if runs_on(k, gpu))
    if all(map(model.is_thin, fitting)):  # they are for some shapes only
        needs = sorted({k.min_arch for k in typed if not model.is_thin(k)})
        raise ConfigError(
            f"the {gpu.name} is {gpu.arch}, and the kernels for {dtype} need {' or '.join(needs)}: "
            "convert the matrices to another type"
        )
    there = {k.name for k in fitting}
    return tuple(k for k in fitting if INSTEAD.get(k.name) not in there)


def slicings(
    kernel: Kernel, tiles: int, steps: int, resident: int, gpu: device.Gpu
) -> Iterator[dict[str, int]]:
    """Ways to cut a launch's tiles that are worth a prediction: none, all, or the last round's.

    steps: of k, in a tile. A count of slices is one that gives the SMs, or the blocks that they
    hold, about half a round to four.
    """
    yield {}
    if "SLICES" not in kernel.params:
        return
    slots = (gpu.sms, gpu.sms * resident)
    counts = {2, 3, 4} | {max(1, g * s // (2 * tiles)) for s in slots for g in (1, 2, 4, 6, 8)}
    most = min(MOST_SLICES, steps // SHORTEST)
    if tiles < 4 * slots[1]:
        yield from ({"SLICES": s} for s in sorted({min(s, most) for s in counts}) if s > 1)
    last = tiles % gpu.sms
    if "CUT" in kernel.params and last and gpu.sms < tiles < 12 * gpu.sms:
        yield from (
            {"SLICES": s, "CUT": cut}
            for cut in (last, last + gpu.sms)
            for s in (2, 3, 4)
            if s <= most
        )


def launches(kernel: Kernel, M: int, N: int, K: int, gpu: device.Gpu) -> Iterator[Geometry]:
    """Every launch of a kernel that a choice weighs for a shape on a GPU, legal ones only."""
    # Persistent blocks are as many as the SMs at most: those of hopper_6 wait for each other.
    sms = {"SMS": gpu.sms} if gpu.sms < kernel.params.get("SMS", 0) else {}
    for tile in ({**each, **sms} for each in kernel.candidates):
        try:
            p = geometry(kernel, M, N, K, **tile)
            resident = model.resident_blocks(p, gpu)
        except ConfigError:  # a grid that is too large, or more shared memory than an SM has
            continue
        if p.params.get("STAGES") == 2 and p.K > SHORT_K:
            continue
        depth = next((p.params[d] for d in DEPTHS if d in p.params), 1)
        if model.is_thin(kernel):
            if model.thin_passes(p) > MOST_PASSES[ITEM_BYTES[kernel.dtype]]:
                continue
            depth = model.thin_depth(p)
        tiles, depths = tiles_of(p), cdiv(p.K, depth)
        for cut in slicings(kernel, tiles, depths, resident, gpu):
            yield geometry(kernel, M, N, K, **tile, **cut) if cut else p


def predicted(p: Geometry, gpu: device.Gpu) -> float:
    """SM clocks of a launch, by the formula for its kind of kernel."""
    if p.kernel.entry == "wgmma_even_shares":
        return shares.clocks(p, gpu)
    if p.kernel.host == "tma":
        return cuts.rounds_of(p, gpu).clocks
    if model.is_thin(p.kernel):
        return model.thin_clocks(p, gpu)
    if "TM" not in p.params:
        if "STAGES" in p.params:
            return model.mma_rounds(p, gpu, model.resident_blocks(p, gpu)).clocks
        if p.kernel.entry == "mma_short":
            return model.short_clocks(p, gpu)
        return model.tensor_clocks(p, gpu)
    return model.sliced_rounds(p, gpu, model.resident_blocks(p, gpu)).clocks


def tiles_of(p: Geometry) -> int:
    """Tiles of C in a launch, whole or cut."""
    return cdiv(p.M, p.tile[0]) * cdiv(p.N, p.tile[1])


def words(p: Geometry) -> str:
    """A launch in a few words: kernel, tile, slices."""
    name = f"{p.kernel.name} {p.tile[0]}x{p.tile[1]}"
    slices = p.params.get("SLICES", 1)
    if slices == 1:
        return name
    cut = p.params.get("CUT", MOST_CUT)
    which = "" if cut >= tiles_of(p) else f" of the last {cut} tiles"
    return f"{name} in {slices} slices{which}"


@lru_cache(maxsize=512)
def best(
    dtype: str, M: int, N: int, K: int, gpu: device.Gpu, *, emulated: bool = False
) -> Geometry:
    """The launch with the fewest predicted clocks of all kernels of the book for this product.

    emulated: of those that the emulator runs. Its `why` tells of it and of the best of the others.
    Raises ShapeError, DtypeError, ConfigError.
    """
    return of(contenders(dtype, gpu, emulated=emulated), M, N, K, gpu)


def of(kernels: Sequence[Kernel], M: int, N: int, K: int, gpu: device.Gpu) -> Geometry:
    """The launch with the fewest predicted clocks of these kernels, all of one type."""
    candidates = [(predicted(p, gpu), p) for k in kernels for p in launches(k, M, N, K, gpu)]
    if not candidates:
        raise ConfigError(f"{kernels[0].name} cannot be launched for {M}x{N}x{K}")
    # Of equals the one of fewer blocks (the second of a cluster may be idle), or the first.
    candidates.sort(key=lambda pair: (pair[0], math.prod(pair[1].grid)))
    least, winner = candidates[0]
    best_of: dict[tuple[str, tuple[int, int]], str] = {}
    for clocks, p in candidates:
        best_of.setdefault((p.kernel.name, p.tile), f"{words(p)}: {clocks / least:.2f}")
    listed = "; ".join(list(best_of.values())[:SAID])
    why = (
        f"{winner.M}x{winner.N}x{winner.K} of {kernels[0].dtype} on {gpu.name}, predicted: "
        f"{1e6 * least / (gpu.boost_mhz * 1e6):.1f} us. Times its clocks: {listed}"
    )
    return replace(winner, why=why)
