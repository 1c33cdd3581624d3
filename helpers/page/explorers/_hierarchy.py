"""Explorer of chapter 12: the tile hierarchy of a kernel, one level a step, on one drawing."""

import math

from helpers import draw as plots
from helpers.ladder.kernel import Kernel, geometry
from helpers.ladder.launch import trace
from helpers.ladder.rungs import find
from helpers.page.explorers.core import Control, Explorer, Reading, State, text
from nogpu import device
from nogpu.errors import ConfigError

ORDER = ("matrix", "block", "warp", "thread")
LEVELS = ("matrix", "block tile", "warp tile", "thread tile")


def warp_tile(k: Kernel) -> tuple[int, int]:
    """Rows and columns of C of one warp: WM x WN, or what 32 consecutive threads cover."""
    p = k.params
    if "WM" in p:
        return p["WM"], p["WN"]
    across = p["BN"] // p["TN"]
    if across >= device.WARP:
        return p["TM"], device.WARP * p["TN"]
    return p["TM"] * (device.WARP // across), p["BN"]


def reads_and_wavefronts(k: Kernel) -> tuple[float, float]:
    """Of one warp and one k: shared-memory reads of a thread, and their wavefronts, traced."""
    p = k.params
    reads = waves = 0.0
    for row in trace(k, M=p["BM"], N=p["BN"], K=p["BK"]).by_line():
        wanted = {"A_tile": p["TM"], "B_tile": p["TN"]}.get(row.array)
        if wanted and (row.space, row.op) == ("shared", "load"):
            count = 4 * wanted / row.width_bytes
            reads, waves = reads + count, waves + count * row.wavefronts_per_request
    return reads, waves


def hierarchy(kernel: Kernel | str = "warp_tiled", *, size: int = 1024) -> Explorer:
    """Grid, block tile, warp tile and thread tile of a kernel with BM, BN, TM, TN (and WM, WN)."""
    k = find(kernel)
    if not {"BM", "BN", "BK", "TM", "TN"} <= set(k.params):
        raise ConfigError(
            f"{k.name} has no tile of the thread (TM, TN): there are no levels to show"
        )
    p, (wm, wn) = geometry(k, size, size, size), warp_tile(k)
    bm, bn, bk, tm, tn = (k.params[n] for n in ("BM", "BN", "BK", "TM", "TN"))
    tiles = {"matrix": (size, size), "block": (bm, bn), "warp": (wm, wn), "thread": (tm, tn)}
    reads, waves = reads_and_wavefronts(k)
    place = {
        "matrix": "global memory",
        "block": "shared memory",
        "warp": "registers, a copy in every lane that needs it",
        "thread": "registers",
    }
    cost = {
        "matrix": "nothing, they lie there",
        "block": f"{bm + bn} floats from global memory, each once",
        "warp": f"{text(waves)} wavefronts of shared memory, for {device.WARP * (tm + tn)} copies",
        "thread": f"{text(reads)} reads of shared memory",
    }
    warps = p.threads // device.WARP
    counts = {"matrix": 1, "block": math.prod(p.grid), "warp": warps, "thread": device.WARP}
    inside = {"matrix": "one product", "block": "blocks in the grid", "warp": "warps in a block"}
    inside["thread"] = "threads in a warp"
    levels = {}
    for name, (rows, columns) in tiles.items():
        values, products = rows + columns, rows * columns
        levels[name] = {
            "level": {"matrix": "The matrix C"}.get(name, f"The {name}'s tile"),
            "tile": f"{rows} x {columns}",
            "count": f"{counts[name]:,} {inside[name]}" if name != "matrix" else inside[name],
            "kept": place[name],
            "values": text(values),
            "products": text(products),
            "cost": cost[name],
        }

    def read(state: State) -> Reading:
        return Reading("level", levels[state["level"]])

    panels = [
        {"name": title, "rows": tiles[a][0], "columns": tiles[a][1],
         "part_rows": tiles[b][0], "part_columns": tiles[b][1]}
        for title, a, b in (("C: blocks", "matrix", "block"), ("block: warps", "block", "warp"),
                            ("warp: threads", "warp", "thread"))
    ]  # fmt: skip
    picture = plots.tile_diagram(k, 2 * bm, 2 * bn, 8 * bk)._repr_html_()
    return Explorer(
        kind="hierarchy",
        title=f"The levels of {k.name}, one at a time",
        caption=(
            f"C of {size} x {size}, the marked tile magnified from left to right. The threads of a "
            "warp are drawn side by side; in the kernel each thread's elements may lie in pieces "
            "spread over the warp's tile. Wavefronts and reads are counted in the emulator."
        ),
        controls=(Control("level", "level", ORDER, "thread", labels=LEVELS),),
        labels={
            "tile": "rows x columns of C", "count": "how many", "kept": "operands kept in",
            "values": "different values of A and B for each k",
            "products": "multiply-adds for each k", "cost": "brought by, for each k",
        },
        sentences={
            "level": "{level} is {tile} elements, {count}. For each k it needs {values} different "
            "values of A and B for {products} multiply-adds. What brings them: {cost}."
        },
        data={"levels": levels, "panels": panels, "order": ORDER},
        compute=read,
        picture=picture,
        examples=tuple({"level": name} for name in ORDER),
    )  # fmt: skip
