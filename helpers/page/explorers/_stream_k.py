"""Explorer of chapter 22: tiles over SMs, each whole or the last ones cut along k."""

from helpers.colours import BLUE, GREEN, VERMILION
from helpers.ladder.cuts import LEAST_STEPS, Division, Spread, spread
from helpers.page.explorers.core import Control, Explorer, Reading, State, text
from helpers.page.explorers.fallbacks import rect, svg, words
from helpers.wording import counted


def both(state: State) -> tuple[Spread, Spread]:
    """The tiles dealt out whole, and cut by the book's own division."""
    sms, tiles, steps = state["sms"], state["tiles"], state["steps"]
    return spread(sms, tiles, steps, Division(tiles, 0)), spread(sms, tiles, steps)


def read(state: State) -> Reading:
    """Rounds and idle time of both ways, and how many tiles are in parts."""
    sms, tiles, steps = state["sms"], state["tiles"], state["steps"]
    whole, cut = both(state)
    idle = [100 * (1 - tiles * steps / (way.busiest * sms)) for way in (whole, cut)]
    shown = {
        "tiles": counted(tiles, "tile"), "sms": counted(sms, "SM"),
        "takes": counted(whole.busiest // steps, "round"),
        "together": counted(len(cut.parts), "tile"), "whole": text(whole.busiest // steps),
        "idle": text(idle[0], 1), "cut": text(cut.busiest / steps, 2), "idle_cut": text(idle[1], 1),
        "shared": text(len(cut.parts)), "parts": text(sum(cut.parts.values())),
    }  # fmt: skip
    even = "even" if tiles % sms == 0 else "thin"
    return Reading("cut" if cut.parts else even, shown)


def _picture(state: State) -> str:
    """The SMs over time, twice: blue whole tiles, green parts of tiles, dashed without a tile."""
    steps, body, y = state["steps"], "", 0
    ways = both(state)
    scale = 274 / ways[0].busiest
    for name, way in zip(("whole tiles", "the last ones cut along k"), ways, strict=True):
        body += words(0, y + 11, name)
        y += 18
        for sm, own in enumerate(way.pieces):
            body += words(0, y + 12, f"SM {sm}", size=10.5)
            x = 42.0
            for piece in own:
                w = (piece.end - piece.begin) * scale
                body += rect(x, y, w - 1, 15, BLUE if w >= steps * scale - 0.01 else GREEN)
                if w > 16:
                    body += (f'<text x="{x + w / 2:g}" y="{y + 11.5}" font-size="10.5" '
                             f'text-anchor="middle" fill="#fff">{piece.tile}</text>')  # fmt: skip
                x += w
            rest = 42 + way.busiest * scale - x
            if rest > 2:
                dashed = f'stroke="{VERMILION}" stroke-dasharray="3 2"'
                body += rect(x + 1, y + 0.75, rest - 2, 13.5, "none", dashed)
            y += 18
        y += 6
    return svg(318, y, body, "Tiles over SMs, whole and cut along k.")


def stream_k(*, tiles: int = 5, sms: int = 4, steps: int = 32) -> Explorer:
    """Tiles over SMs, whole against the last ones cut along k: rounds, idle time, tiles in parts.

    A model: a step of k takes the same time everywhere, and handing sums over takes none.
    tiles: 1 to 16, sms: 2 to 8, steps of k in a tile: 4 to 64: what the explorer begins with.
    """
    controls = (
        Control("steps", "steps of k in a tile", (4, 8, 16, 32, 64), steps),
        Control("sms", "SMs", tuple(range(2, 9)), sms),
        Control("tiles", "tiles of C", tuple(range(1, 17)), tiles, plays=900),
    )
    return Explorer(
        kind="stream_k",
        title="What does the last round cost?",
        caption=(
            "Time runs to the right. Blue is a whole tile with its number, green a part of one with"
            " its steps of k, dashed an SM without a tile. Lines join the parts whose sums must"
            " meet. In this model that takes no time; on a GPU it does."
        ),
        controls=controls,
        labels={
            "whole": "rounds, whole tiles", "idle": "idle, whole tiles (%)", "cut": "rounds, cut",
            "idle_cut": "idle, cut (%)", "shared": "tiles in parts",
        },
        sentences={
            "cut": (
                "Dealt out whole, {tiles} on {sms} take {takes}, in which the SMs are idle {idle} "
                "% of the time. Cut along k it is {cut} rounds and {idle_cut} %, at the price of "
                "putting {together} together from {parts} parts."
            ),
            "even": (
                "{tiles} on {sms} take {takes}, and no SM is ever idle: there is nothing to cut."
            ),
            "thin": (
                "Dealt out whole, {tiles} on {sms} take {takes}, in which the SMs are idle {idle} %"
                " of the time. Nothing is cut, because with so few steps the parts would be too"
                " thin."
            ),
        },
        data={"least": LEAST_STEPS},
        compute=read,
        picture=_picture({c.name: c.value for c in controls}),
        examples=tuple(
            {"tiles": t, "sms": n, "steps": k}
            for t, n, k in ((5, 4, 32), (8, 4, 32), (9, 8, 32), (15, 8, 32), (2, 6, 32), (2, 6, 8))
        ),
    )  # fmt: skip
