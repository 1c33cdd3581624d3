"""Time hopper_5 with one thing changed, beside itself and cuBLAS, on the GPU at hand.

    python -m tools.tried_on_a_gpu [--out data/validation/tried_GPU.json]

What is tried: the order of tiles, what L2 is told, the shape of clusters, when finished tiles
leave. Each result is compared with float64 before and after it is timed; what is wrong is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from helpers.ladder import rungs
from helpers.ladder.kernel import Geometry, geometry
from helpers.record import protocol, trials
from helpers.record.gpu import Session
from helpers.record.telemetry import Telemetry
from nogpu.errors import ConfigError
from tools import beside
from tools.mutants_hopper import SHARED, flat

KERNEL, SIZES = "hopper_5", (4096, 8192)
EFFORT = protocol.Effort(seconds=8.0, max_pairs=60)
_INCLUDE = ('#include "common/tile_order.cuh"', '#include "common/tried.cuh"')
_FILL = "                    fill(ring[at.stage]"


def _prefetch(when: str, tile: str, step: str) -> tuple[tuple[str, str], ...]:
    """Edits by which the producer tells L2 of this block's boxes of a step of a tile."""
    m0 = f"({tile}.row * CLUSTER_M + place.row) * BM + place.col * A_PART"
    n0 = f"({tile}.col * CLUSTER_N + place.col) * BN + place.row * B_PART"
    call = f"prefetch_step<A_PART, B_PART>(&A_map, &B_map, {m0}, {n0}, ({step}) * BK);"
    return _INCLUDE, (_FILL, f"if ({when}) {{ {call} }}\n{_FILL}")


def _leaves(box: str, when: str, begin: str) -> tuple[tuple[str, str], ...]:
    """Edits by which a step stores another box of the tile before, and the rest what is left."""
    return (
        (
            "if (done.waits && step < C_BOXES)",
            f"const int box = {box};\n if (done.waits && {when})",
        ),
        ("store(done, step, buffers", "store(done, box, buffers"),
        ("int box = steps; done", f"int box = {begin}; done"),
    )


@dataclass(frozen=True)
class Change:
    """What is changed: sizes of the tile, and pieces of the text with what stands there instead."""

    sizes: Mapping[str, int]
    edits: tuple[tuple[str, str], ...] = ()

    def at(self, size: int) -> Geometry:
        """The launch for M = N = K. Raises ConfigError if the text has no such piece."""
        k = rungs.find(KERNEL)
        text = flat(k.source, SHARED)
        for old, new in self.edits:
            if old not in text:
                raise ConfigError(f"{k.file} has no {old!r} to change: write the edit anew")
            text = text.replace(old, new)
        p = geometry(k, size, size, size, **self.sizes)
        return replace(p, kernel=p.kernel.with_source(text)) if self.edits else p


_FIRST = (_INCLUDE, ("tma_store(C_map", "tma_store_first(C_map"))
CHANGES: Mapping[str, Change] = {
    "as it is": Change({}),
    "bands of 4": Change({"GROUP_M": 4}),
    "bands of 16": Change({"GROUP_M": 16}),
    "Hilbert": Change({}, (_INCLUDE, ("tile_at<", "hilbert_at<"))),
    "L2 told 8 steps ahead": Change({}, _prefetch("step + 8 < steps", "tile", "step + 8")),
    "L2 told of the next tile": Change(
        {},
        _prefetch(
            "step + 8 >= steps && index + stride < rows * cols",
            "tile_at<GROUP_M>(index + stride, rows, cols)",
            "step + 8 - steps",
        ),
    ),
    "C goes first": Change({}, _FIRST),
    "C goes first, A and B last": Change({}, (*_FIRST, ("tma_load_shared<", "tma_load_last<"))),
    "clusters of 1 x 2": Change({"CLUSTER_M": 1, "CLUSTER_N": 2, "GROUP_M": 16}),
    "clusters of 2 x 2": Change({"CLUSTER_N": 2}),
    "clusters of 2 x 2 on 120 SMs": Change({"CLUSTER_N": 2, "SMS": 120}),
    "consumers store in turn": Change(
        {},
        _leaves(
            "step - consumer * C_BOXES",
            "box >= 0 && box < C_BOXES",
            "max(0, steps - consumer * C_BOXES)",
        ),
    ),
    **{
        f"a box every {n} steps": Change(
            {}, _leaves(f"step / {n}", f"step % {n} == 0 && box < C_BOXES", f"(steps + {n - 1}) / {n}")
        )
        for n in (2, 4, 8)
    },
}  # fmt: skip


def timed(session: Session, telemetry: Telemetry, size: int) -> list[dict[str, Any]]:
    """A row a change: ms and quartiles, its share of cuBLAS and of the kernel as it is."""
    contenders = {name: trials.of_plan(c.at(size), name) for name, c in CHANGES.items()}
    contenders |= trials.yardstick(session, CHANGES["as it is"].at(size), KERNEL)
    done = trials.trial(session, (size, size, size), contenders, EFFORT)
    meanwhile = telemetry.between(done.rounds.started, done.rounds.ended)
    rows = []
    for name, c in CHANGES.items():
        ms, share = done.ms[name], done.rounds.ratio(name, "baseline")
        gain = done.rounds.ratio(name, "as it is").median
        rows.append(
            {"change": name, "size": size, "tile": dict(c.sizes), "ms": ms.median, "q1": ms.q1,
             "q3": ms.q3, "samples": ms.count, "share": share.median, "share_q1": share.q1,
             "share_q3": share.q3, "gain": gain, "clock_mhz": meanwhile.clock_mhz,
             "power_w": meanwhile.power_w}
        )  # fmt: skip
        print(f"{size} {name:30s} {ms.median:8.4f} ms, {100 * share.median:6.2f} % of cuBLAS, "
              f"{gain:.4f} of the kernel", flush=True)  # fmt: skip
    return rows


def main(given: Sequence[str] | None = None) -> int:
    """The command line. Status 2 where no GPU answers or something is refused."""
    return beside.main(
        "tried", __doc__, given,
        times=lambda session, telemetry: {
            "source": rungs.fingerprint(KERNEL),
            "rows": [row for size in SIZES for row in timed(session, telemetry, size)],
        },
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
