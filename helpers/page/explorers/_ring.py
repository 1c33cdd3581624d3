"""Explorer of chapters 14, 19 and 20: the stages of a ring at a clock, and who waits for whom."""

from helpers.colours import BLUE, GREEN, tint
from helpers.page.explorers import _pipeline
from helpers.page.explorers._pipeline import Run
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice, text
from helpers.page.explorers.fallbacks import rect, svg, words
from helpers.wording import counted

TILES = 40
"""Tiles along K: more than any state comes to by its last clock."""
CLOCKS = tuple(range(0, 3001, 50))
LENGTHS = tuple(range(100, 1001, 100))
RIGHT, WRONG = "place.parity ^ 1", "place.parity"
NEVER = Run((CLOCKS[-1] + 1,) * TILES, (CLOCKS[-1] + 1,) * TILES, 0)
ROLES = (
    "// the producer, one thread",
    "barrier_wait(&empty[place.stage],",
    f"             {RIGHT});",
    f"             {WRONG});  // wrong",
    "barrier_arrive_expect(landed, sizeof(Slot));",
    "tma_load(..., landed, ...);",
    "// the consumers",
    "barrier_wait(&full[place.stage], place.parity);",
    "multiply(...);",
    "barrier_arrive(&empty[stage]);",
)
"""What both sides of kernels/20_mma_tma.cu say for a stage."""
LOOP = (
    "for (int k0 = 0; k0 < (STAGES - 1) * BK; k0 += BK) copy(k0);",
    "for (int k0 = 0; k0 < K; k0 += BK) {",
    "    wait_groups<STAGES - 2>();",
    "    __syncthreads();",
    "    copy(k0 + (STAGES - 1) * BK);",
    "    // multiply the tile at k0",
    "}",
)
"""The loop of kernels/cores/14_fp32_best.cu and 19_mma_pipelined.cu; `copy` commits a group."""


def run(tiles: int, stages: int, copy: int, compute: int, *, barriers: bool) -> Run:
    """The schedule of a ring: with groups the pipeline's, which asks when the next tile begins;
    with barriers a stage is asked for again as soon as it is handed back."""
    if not barriers:
        return _pipeline.run(tiles, stages, copy, compute)
    issue: list[int] = []
    start: list[int] = []
    for t in range(tiles):
        issue.append(start[t - stages] + compute if t >= stages else 0)
        start.append(max(start[-1] + compute if t else 0, issue[t] + copy))
    return Run(tuple(issue), tuple(start), start[-1] + compute)


def contents(times: Run, s: State, at: int) -> str:
    """Stage `at`, in words. The digit of a barrier is the parity of the phase that runs."""
    tiles, now = range(at, TILES, s["stages"]), s["clock"]
    issued = sum(times.issue[t] < now for t in tiles)
    full = sum(times.issue[t] + s["copy"] <= now for t in tiles)
    empty = sum(times.start[t] + s["compute"] <= now for t in tiles)
    begun = sum(times.start[t] <= now for t in tiles)
    what = "on its way" if full < issued else "landed" if begun < issued else "in use"
    digits = f", full {full % 2}, empty {empty % 2}" if "parity" in s else ""
    return (f"tile {tiles[issued - 1]}, {what}" if issued > empty else "no tile, empty") + digits


def reading(s: State) -> Reading:
    """What a ring shows; with barriers where a state has a parity."""
    n, length, work, now = s["stages"], s["copy"], s["compute"], s["clock"]
    barriers, stuck = "parity" in s, s.get("parity") == WRONG
    times = NEVER if stuck else run(TILES, n, length, work, barriers=barriers)
    asks = [t for t in range(TILES) if times.issue[t] == now]
    sent, begun = (sum(at <= now for at in order) for order in (times.issue, times.start))
    free = times.start[begun - 1] + work if begun else 0  # when the last products end
    works = now < free
    tile = begun - 1 if works else begun
    even = max(work, (length + work) / n if barriers else length / (n - 1))
    if asks:
        more = f"s {asks[0]} to" if len(asks) > 1 else ""
        first = f"asks for tile{more} {asks[-1]}"
    elif barriers:
        since = text(times.issue[sent - 1] if sent else 0)
        parity = sent // n % 2 ^ (not stuck)
        first = f"waits for empty[{sent % n}], parity {parity}, since clock {since}"
    else:
        first = counted(sum(i <= now < i + length for i in times.issue), "group") + " under way"
    if works:
        second = f"multiply tile {tile}, until clock {text(free)}"
    else:
        awaited = f"full[{tile % n}], parity {tile // n % 2}" if barriers else f"group {tile}"
        second = f"wait for {awaited}, since clock {text(free)}"
    shown = {
        "first": first,
        "second": second,
        "waited": text(now - begun * work + max(0, free - now)),
        "ever": text(100.0 if stuck else 100 * (1 - work / even), 1),
        "need": text(-(-length // work) + 1),
        "held": "; ".join(f"stage {at}: {contents(times, s, at)}" for at in range(n)),
        "clock": text(now),
        "tile": str(tile),
        "since": text(free),
    }
    say = ("work" if works else "wait") + ("_short" if even > work else "")
    return Reading("stuck" if stuck else say, shown)


def ring(
    *, barriers: bool = True, stages: int = 3, copy: int = 600, compute: int = 200, clock: int = 900
) -> Explorer:
    """The ring of stages at a clock: what lies in each, what both sides wait for, and since when.

    barriers: two mbarriers a stage and a producer, as in mma_tma; else groups of cp.async, which
    every thread asks for and awaits. copy, compute: clocks of a copy and of a tile's products.
    """
    who, asker = ("Tensor Cores", "the producer") if barriers else ("warps", "each thread")
    heads = {
        "work": f"Clock {{clock}}: the {who} multiply tile {{tile}}. ",
        "wait": f"Clock {{clock}}: the {who} wait for tile {{tile}}, since clock {{since}}. ",
    }
    tails = {
        "": "In the long run they do not wait, because {need} stages are enough to hide a copy.",
        "_short": (
            "In the long run they wait {ever} % of the time; {need} stages would hide a copy."
        ),
    }
    phases = {RIGHT: f"{RIGHT} (right)", WRONG: f"{WRONG} (a wrong phase)"}
    controls = (
        Control("stages", "stages", (1, 2, 3, 4, 5) if barriers else (2, 3, 4, 5), stages),
        Control("copy", "a copy takes (clocks)", LENGTHS, copy),
        Control("compute", "a tile's products take (clocks)", LENGTHS, compute),
        *([choice("parity", "the producer waits for", phases, RIGHT)] if barriers else []),
        Control("clock", "clock", CLOCKS, clock, labels=tuple(map(text, CLOCKS)), plays=150),
    )
    first = reading({c.name: c.value for c in controls}).text
    names = {"first": f"P, {asker}", "second": f"C, the {who}"}
    body = words(0, 92, f"P: {first['first']}") + words(0, 108, f"C: {first['second']}")
    for at, of_stage in enumerate(first["held"].split("; ")):
        what = next((w for w in ("on its way", "landed", "in use") if w in of_stage), "")
        paint = tint(BLUE if what == "in use" else GREEN, "0.3") if what else "none"
        body += rect(64 * at + 1, 1, 60, 74, paint, 'stroke="currentColor"')
        for i, line in enumerate(of_stage.replace(": ", ", ").split(", ")):
            body += words(64 * at + 5, 14 + 14 * i, line, size=10.5)
    return Explorer(
        kind="ring",
        title="What lies in each stage of the ring, and who waits?",
        caption=(
            "Green grows while a tile is on its way, blue shrinks while it is in use, and a dashed"
            f" edge is a wait. P: where {asker} asks for copies. C: where the {who} multiply. "
        )
        + (
            "The digit of a barrier is the parity of the phase that runs. Who waits for a parity "
            "goes on as soon as the digit is the other one. "
            if barriers
            else "The group of a tile has its number. "
        )
        + "Choose a stage to go to what happens to it next.",
        controls=controls,
        labels={
            **names,
            "waited": "clocks waited so far",
            "ever": "waiting in the long run (%)",
            "need": "stages that hide a copy",
            "held": "the ring",
        },
        sentences={a + b: heads[a] + tails[b] for a in heads for b in tails}
        | {
            "stuck": (
                "Deadlock: nothing moves any more. The producer waits for the end of phase 0 of"
                " empty[0], which the consumers end when they hand the stage back; they wait for"
                " full[0], which only the producer can fill. On an empty stage its first wait has"
                " to pass at once, so it must ask for parity 1: that counts as ended on a fresh"
                " barrier."
            )
        },
        data={"tiles": TILES, "wrong": WRONG, "step": CLOCKS[1], "last": CLOCKS[-1]},
        compute=reading,
        picture=svg(324, 114, body, "The stages of the ring at one clock."),
        examples=tuple({"stages": n, "clock": CLOCKS[-1]} for n in controls[0].values)
        + ({"parity": WRONG, "clock": CLOCKS[-1]},) * barriers,
        note=(
            "A model with times that you choose, no measurement: a copy takes as long however "
            "many are under way, and to ask takes no time."
        ),
        code=ROLES if barriers else LOOP,
        spoken=("first", "second", "held"),
    )
