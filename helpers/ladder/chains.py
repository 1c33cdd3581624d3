"""Which kernels follow each other with one change each, where a rung changes several things.

tools/steps_on_a_gpu.py times the links of a chain in turn, each with the best of its tiles, tuned
against tuned.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from helpers.ladder.kernel import Kernel
from helpers.ladder.rungs import find

Tile = Mapping[str, int]


@dataclass(frozen=True)
class Link:
    """A rung or a step, what of its tile is fixed here, and the tiles of which the best is taken.

    change: what it has that the link before has not; "" for the first.
    """

    kernel: str
    change: str
    tiles: tuple[Tile, ...]
    fixed: Tile

    @property
    def label(self) -> str:
        """The kernel, and the sizes that tell it from another link: "hopper_5, CLUSTER_M 1"."""
        return ", ".join([self.kernel, *(f"{name} {size}" for name, size in self.fixed.items())])

    def at(self, tile: Tile) -> Kernel:
        """The kernel with one of its tiles. Raises ConfigError if it has no such size."""
        return find(self.kernel).with_params(**{**tile, **self.fixed})


def _link(kernel: str, change: str, tiles: tuple[Tile, ...], **fixed: int) -> Link:
    return Link(kernel, change, tiles, fixed)


EVERY_TILE = 1 << 20
"""So many SMs that each tile has a block of its own, and no block stays."""
_FP32: tuple[Tile, ...] = ({}, {"BK": 16}, {"BM": 64}, {"BN": 64})
_MMA: tuple[Tile, ...] = ({}, {"GROUP_M": 16}, {"BN": 128}, {"BM": 256, "BN": 128})
_SLICED: tuple[Tile, ...] = (
    {},
    {"BM": 128, "BN": 64, "MIN_BLOCKS": 2},
    {"BM": 128, "BN": 128, "MIN_BLOCKS": 1},
)
_SHORT: tuple[Tile, ...] = (
    {},
    {"BK": 64, "MIN_BLOCKS": 3},
    {"BM": 128, "BN": 128, "WM": 64, "MIN_BLOCKS": 2},
)
_BANDS: tuple[Tile, ...] = ({}, {"GROUP_M": 8}, {"GROUP_M": 16}, {"GROUP_M": 32})
_RINGS: tuple[Tile, ...] = ({}, {"STAGES": 2}, {"STAGES": 4}, {"STAGES": 6})
_TURNS: tuple[Tile, ...] = (
    {},
    {"GROUP_M": 8},
    {"BM": 64, "BN": 256, "STAGES": 5},
    {"BM": 64, "BN": 256, "STAGES": 5, "GROUP_M": 8},
)
_WIDE: Tile = {"BM": 128, "BN": 256, "TM": 16, "TN": 8, "MIN_BLOCKS": 1}
_SQUARE: Tile = {"BM": 128, "BN": 128, "TM": 8, "TN": 8, "MIN_BLOCKS": 2}
CHAINS: Mapping[str, tuple[Link, ...]] = {
    "10": (
        _link("block_2d", "", _FP32),
        _link("wide_loads", "fours of global memory", _FP32),
        _link("vectorised", "fours of shared memory", _FP32),
    ),
    "13": (
        _link("lane_map", "", ({},), **_SQUARE),
        _link("lane_map", "the larger tile", ({},), **_WIDE),
        _link("warp_tiled", "fragments a step ahead, zeros that are not added", ({},), **_WIDE),
    ),
    "13, without the larger tile": (
        _link("lane_map", "", ({},), **_SQUARE),
        _link(
            "warp_tiled",
            "fragments a step ahead, zeros that are not added",
            ({"WM": 64, "WN": 32}, {"WM": 32, "WN": 64}),
            **_SQUARE,
        ),
    ),
    "19": (
        _link("mma_sliced_bf16", "", _SLICED),
        _link("mma_pieces", "rows that start at 4 or 8 bytes in pieces", _SLICED),
        _link("mma_short", "no ring and no slices, odd rows by way of registers", _SHORT),
    ),
    "20": (
        _link("mma_pipelined", "", _MMA),
        _link("mma_one_asks", "TMA, asked by a thread that multiplies", _MMA),
        _link("mma_producer", "a producer warp, empty barriers", _MMA),
        _link("mma_tma", "a warpgroup that copies, registers that move", _MMA, SMS=EVERY_TILE),
        _link("mma_tma", "blocks that stay", _MMA),
    ),
    "21": (
        _link("hopper_2", "", _RINGS),
        _link("in_flight", "one group of wgmma in flight", _RINGS),
        _link("two_consumers", "a tile of 128 x 256 for two consumers", ({}, {"STAGES": 3})),
        _link("hopper_3", "registers that move", ({},), GROUP_M=1, SMS=EVERY_TILE),
        _link("hopper_3", "blocks that stay", ({},), GROUP_M=1),
        _link("hopper_3", "the walk in bands", _BANDS),
    ),
    "22": (
        _link("hopper_3", "", _BANDS),
        _link("box_store", "the copy engine stores C", _BANDS, CLUSTER_M=1),
        _link("hopper_5", "the store is deferred", _BANDS, CLUSTER_M=1),
        _link("hopper_5", "clusters", _BANDS),
    ),
    "22, clusters first": (
        _link("hopper_3", "", _BANDS),
        _link("hopper_4", "clusters", _BANDS),
        _link("box_store", "the copy engine stores C", _BANDS),
        _link("hopper_5", "the store is deferred", _BANDS),
    ),
    "22, even shares": (
        _link("hopper_5", "", _BANDS),
        _link("even_shares", "operands in turned roles", (*_BANDS, {"SMS": 128}), LOW=256),
        _link("even_shares", "nearly the same share of C for every SM", _BANDS),
    ),
    "22, in turns": (
        _link("hopper_3", "", _BANDS),
        _link("ping_pong", "two consumers take turns", _TURNS),
    ),
}
"""By chapter; of one chapter all chains are timed together."""

_COLUMNS: tuple[Tile, ...] = ({}, {"BN": 128}, {"BN": 64})
_PAIRS: tuple[Tile, ...] = ({}, {"BN": 128}, {"STAGES": 4})
BLACKWELL: tuple[Link, ...] = (
    _link("tensor_memory", "", _COLUMNS),
    _link("tensor_roles", "roles, and a ring", _COLUMNS),
    _link("tensor_pair", "two blocks as one", _PAIRS),
    _link("tensor_persistent", "tiles taken over, two tiles of sums", _PAIRS),
)
"""What a card of compute capability 10.0 would time."""


def links(chapter: str) -> tuple[Link, ...]:
    """Every link of a chapter's chains, once; of 25 those of BLACKWELL. Raises KeyError for one
    without a chain.
    """
    if chapter == "25":
        return BLACKWELL
    chains = [chain for name, chain in CHAINS.items() if name.split(",")[0] == chapter]
    if not chains:
        raise KeyError(f"chapter {chapter} has no chain; there are {', '.join(CHAINS)}")
    return tuple({link.label: link for chain in chains for link in chain}.values())
