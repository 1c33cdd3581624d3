"""Little's law: how much must be under way at once so that a latency costs no rate."""

from dataclasses import dataclass

from helpers.ladder.model import L1_LINE, SCHEDULERS
from helpers.record.costs import rates
from helpers.record.costs.bounding import card
from nogpu.device import WARP, Gpu
from nogpu.errors import ConfigError, UnknownNameError, near_matches


@dataclass(frozen=True)
class UnderWay:
    """What an SM must have under way: latency times rate.

    clocks: of latency. rate: of an SM a clock, in `unit`. amount: clocks x rate, in `unit`. warps:
    how many must wait at once, each with `each` under way, at most that.
    """

    place: str
    clocks: float
    rate: float
    unit: str
    amount: float
    each: float
    warps: float
    latency_source: str
    rate_source: str


FMA_LATENCY = rates.Latency(
    4, "dependent FFMA on Volta and Turing: Jia et al., arXiv 1804.06826 and 1903.07486"
)
"""Clocks from one multiply-add to the next that needs it; assumed for later GPUs."""


def little(place: str, gpu: str | Gpu | None = None, *, each: float | None = None) -> UnderWay:
    """What one SM must have under way at "DRAM", "L2", "L1", "shared memory" or the "FMA pipe".

    each: what one warp has under way, in bytes (default 128: one load of four bytes a lane), or in
    instructions for the FMA pipe (default 1: each multiply-add needs the one before it). gpu: as
    for `costs.bounds`. Source: Little, "A proof for the queuing formula L = lambda W", 1961; the
    latencies name theirs. Raises UnknownNameError for another place, ConfigError for `each` of 0 or
    less.
    """
    card_ = card(gpu)
    per_clock = card_.sms * card_.boost_mhz * 1e3  # SM clocks of a millisecond
    into_l1, issued = rates.deliveries(card_), rates.issue(card_)
    known = {"DRAM": rates.dram(card_), "L1": into_l1, "shared memory": into_l1, "FMA pipe": issued}
    supply = rates.l2(card_)
    if supply is not None:
        known["L2"] = supply.apart
    if place not in known:
        raise UnknownNameError(f"no latency is known of {place!r}. {near_matches(place, known)}")
    fma = place == "FMA pipe"
    share = 1.0 if fma else float(L1_LINE)
    each = share if each is None else each
    if not isinstance(each, int | float) or each <= 0:
        raise ConfigError(f"{each=}: what a warp has under way is more than nothing")
    rate = known[place].per_ms / per_clock
    origin = known[place].source
    if place in ("L1", "shared memory"):
        rate *= L1_LINE  # a wavefront delivers up to 128 bytes
    if fma:
        rate = min(SCHEDULERS, card_.fp32_lanes_per_sm / WARP)
        origin = f"{card_.fp32_lanes_per_sm} FP32 lanes an SM"
    latency = FMA_LATENCY if fma else rates.latency(card_.arch, place)
    unit = "instructions" if fma else "bytes"
    amount = latency.clocks * rate
    return UnderWay(
        place, latency.clocks, rate, unit, amount, each, amount / each, latency.source, origin
    )
