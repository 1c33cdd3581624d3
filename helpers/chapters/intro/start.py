"""The first picture of the book: rungs that start the same product at once."""

import html

from helpers.chapters.intro.climb import SIZE
from helpers.notebook.pieces import Html
from helpers.record import measure
from helpers.record.measurement import provenance_of
from helpers.wording import folded_source
from nogpu.errors import DataError

SECONDS = 4.0
"""How long the picture runs: the time in which the last float32 rung computes the product."""
RUNGS = {
    "naive": "a thread an element", "coalesced": "neighbours ask together",
    "tiled_32": "a block shares tiles", "block_1d": "a thread keeps a column",
    "block_2d": "a thread keeps a tile", "vectorised": "sixteen bytes at once",
    "fp32_best": "copies under way", "hopper_5": "Tensor Cores, 16 bits",
}  # fmt: skip
"""Rungs from the first to the last, and what each changes. The last but one ends the race."""
*FLOATS, END, _ = RUNGS

STYLE = """
.tile-race{margin:1em 0;font-size:.9em}
.tile-race p{display:grid;max-width:none;grid-template-columns:14em 1fr 5.2em;gap:.6em;
align-items:center;margin:.25em 0}
.tile-race i{display:block;height:.9em;background:rgb(128 128 128/.18);border-radius:.2em;
overflow:hidden}
.tile-race b{display:block;height:100%;background:#2f7fd0;transform-origin:left}
.tile-race p:last-child b{background:#c8641b}
.tile-race span:last-child{text-align:right;font-variant-numeric:tabular-nums}
@media(max-width:600px){.tile-race{font-size:.85em}
.tile-race p{grid-template-columns:10.5em 1fr 5em;gap:.4em}}
@keyframes tile-race{from{transform:scaleX(0)}}
@media(prefers-reduced-motion:no-preference){.tile-race b{animation:tile-race linear both}}
@media print{.tile-race b{animation:none}}
"""


def race() -> Html:
    """How far each rung has come when the fastest float32 kernel has finished, by the H200's
    record.

    Moves where the reader's settings allow it: each bar grows at its kernel's speed, and the
    picture stops when the last but one is full. Raises DataError where a rung is not recorded, or a
    float32 rung is faster than the one that ends the race.
    """
    m = measure(list(RUNGS), sizes=[SIZE], gpu="h200")
    times = {name: m.value(name, SIZE, "ms") for name in RUNGS}
    whole = times[END]
    if whole != min(times[name] for name in (*FLOATS, END)):
        raise DataError(
            f"{END} is not the fastest float32 rung of {m.label}: end the race with that"
        )
    rows, lines = [], []
    for name, changes in RUNGS.items():
        done = min(whole / times[name], 1.0)
        seconds = SECONDS * min(times[name] / whole, 1.0)
        ms = f"{times[name]:.3g} ms"
        rows.append(
            f"<p><span>{html.escape(changes)}</span>"
            f'<i><b style="width:{100 * done:.2f}%;animation-duration:{seconds:.2f}s"></b></i>'
            f"<span>{ms}</span></p>"
        )
        lines.append(f"{changes} ({name}) {ms}, {100 * done:.0f} % done")
    words = (
        f"Eight kernels start the same product of {SIZE} by {SIZE} matrices at once, slowed down; "
        f"how far each has come when the fastest float32 kernel has finished: {'; '.join(lines)}."
    )
    caption = (
        f"Eight kernels of this book start one product of {SIZE} by {SIZE} matrices at the same "
        f"moment on an {m.gpu}, slowed down. The picture stops when the fastest float32 kernel is "
        "done; the last kernel multiplies shorter numbers."
    )
    return Html(
        f'<figure class="tile-figure tile-race"><style>{STYLE}</style>'
        f'<div role="img" aria-label="{html.escape(words)}">{"".join(rows)}</div>'
        f"<figcaption>{caption}{folded_source(provenance_of(m))}</figcaption></figure>",
        words,
    )
