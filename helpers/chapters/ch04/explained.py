"""What the scorecard of the naive kernel says on an H200, and how its longest time comes about:
numbers of chapter 4."""

from types import SimpleNamespace

from helpers.ladder.launch import trace
from helpers.record import costs, measure
from nogpu import device

SIZE = 4096


def numbers() -> SimpleNamespace:
    """Times in ms of the naive kernel at 4096: floor (its arithmetic), dram, bound, naive_ms.

    binding: the resource of the bound, share: the bound over the time. pieces: what L1 hands to a
    warp in a step of its loop; even: what these would take if all SMs had equally much to do.
    sms, ghz: of the H200. each: sectors of a request for A; sectors: those of all loads at 64, by
    kernel.
    """
    card, bound = device.gpu("h200"), costs.bounds("naive", SIZE, gpu="h200")
    l1 = bound[costs.L1]
    every = {name: trace(name, M=64, N=64, K=64).by_line() for name in ("naive", "coalesced")}
    loads = {name: [row for row in rows if row.op == "load"] for name, rows in every.items()}
    return SimpleNamespace(
        floor=bound["FMA pipe"].ms, dram=bound["DRAM"].ms, bound=bound.ms,
        naive_ms=measure("naive", sizes=[SIZE], gpu="h200").value("naive", SIZE),
        binding=bound.binding, share=bound.share, pieces=l1.count / (SIZE**3 / device.WARP),
        even=l1.count / l1.per_ms, sms=card.sms, ghz=card.boost_mhz / 1e3,
        each=next(row.sectors_per_request for row in loads["naive"] if row.array == "A"),
        sectors={name: sum(row.sectors for row in rows) for name, rows in loads.items()},
    )  # fmt: skip
