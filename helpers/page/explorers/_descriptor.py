"""Explorer below chapter 21: the fields of a wgmma descriptor, and the bytes that they lead to."""

from typing import Any

import numpy as np

from helpers.colours import BLUE, PALETTE, VERMILION, tint
from helpers.ladder.hopper import BOX_BYTES, DESCRIPTOR, ROW_SWIZZLE, SWIZZLE_BYTES
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice, text
from helpers.page.explorers.fallbacks import rect, svg, words
from nogpu.emulator.machine import warpgroup
from nogpu.emulator.machine.bulk import PIECE, ROW_BITS, swizzled

BEGIN, BOXES = 1024, 2
"""Where the tile begins in shared memory, and its boxes of 64 swizzled rows of 128 bytes."""
OPERANDS = {"A": warpgroup.Operand("A", warpgroup.ROWS, "f16", "K"),
            "B": warpgroup.Operand("B", 128, "f16", "MN")}  # fmt: skip
ACROSS = {"A": 2, "B": 16}
"""Pieces of a row of A, or of one step of k of B."""
NAMES = {"A": "A, 64 x 16 (K-major)", "B": "B, 16 x 128 (MN-major)"}
START, LEADING, STRIDE, BASE, SWIZZLE = range(len(DESCRIPTOR))
CHANGES = (
    *((START, BEGIN + at) for at in (0, 32, 128, 1024, 2048, BOX_BYTES)),
    *((LEADING, value) for value in (16, 4096, BOX_BYTES)),
    *((STRIDE, value) for value in (128, 512, SWIZZLE_BYTES, 2048)),
    *((BASE, value) for value in (0, 1, 4)), *((SWIZZLE, value) for value in (1, 2, 3, 0)),
)  # fmt: skip
"""Fields and what may stand in them: the others are as in the kernels."""


def label(field: int, value: int) -> str:
    """A field and what stands in it, in words."""
    size = warpgroup.SWIZZLE[value] if field == SWIZZLE else value
    words = str(size) if field == BASE else f"{text(size)} bytes" if size else "none"
    return f"{DESCRIPTOR[field].name}: {words}"


def kernels(operand: str) -> list[int]:
    """What describe_a and describe_b of kernels/common/wgmma.cuh fill in, field by field."""
    return [BEGIN, BOX_BYTES if operand == "B" else 16, SWIZZLE_BYTES, 0, 1]


def word(state: State) -> int:
    """The descriptor of a state, 64 bits."""
    values, (field, value) = kernels(state["operand"]), CHANGES[state["change"]]
    values[field] = value
    return sum(v // (f.unit or 1) << f.first for v, f in zip(values, DESCRIPTOR, strict=True))


def fits(operand: str, at: np.ndarray) -> np.ndarray:
    """Of the pieces at these addresses, which the tile holds where they belong after the first."""
    box, within = np.divmod(swizzled(at, ROW_SWIZZLE) - BEGIN, BOX_BYTES)
    line, piece = np.divmod(within // PIECE, ROW_SWIZZLE // PIECE)
    found = np.stack((box * 64 + line, piece) if operand == "A" else (line, box * 8 + piece))
    wanted = np.stack(np.divmod(np.arange(len(at)), ACROSS[operand]))
    return np.asarray((found - found[:, :1] == wanted).all(axis=0))


def read(state: State) -> Reading:
    """Which bytes the descriptor names, and what the changed field has to do with it."""
    (operand, code), (field, _) = (state["operand"], word(state)), CHANGES[state["change"]]
    size, at = warpgroup.SWIZZLE[DESCRIPTOR[SWIZZLE].of(code)], pieces(state)
    along = [int(a.max()) > 0 for a in warpgroup.places(OPERANDS[operand], size)[1:]]
    leads = {"A": "eight steps of k", "B": f"{size // 2} columns" if size else "eight steps of k"}
    strides = {"A": "eight rows", "B": "eight steps of k" if size else "eight columns"}
    value = [f.of(code) * (f.unit or 1) for f in DESCRIPTOR]
    shown = {
        "operand": operand,
        "word": f"{code:#018x}",
        "bytes": text(PIECE * len(set(at.tolist()))),
        "span": f"{text(int(at.min()))} to {text(int(at.max()) + PIECE - 1)}",
        "size": str(size),
        "right": f"{text(int(fits(operand, at).sum()))} of {len(at)}",
        "start": text(value[START]),
        "units": text(value[START] // PIECE),
        "leading": text(value[LEADING]),
        "leads": leads[operand],
        "stride": text(value[STRIDE]),
        "strides": strides[operand],
        "base": str(value[BASE]),
        "row": str(value[START] >> 7 & ROW_BITS[size]),
        "repeat": text(8 * size),
    }
    if warpgroup.begins_mid_pattern(code):
        return Reading("middle", shown)
    if at.max() >= BEGIN + BOXES * BOX_BYTES:
        return Reading("outside", shown)
    leading, swizzle = "leading" if along[0] else "unread", "swizzle" if size else "plain"
    says = ("start", leading, "stride", "base", swizzle)
    return Reading(says[field], shown)


def pieces(state: State) -> np.ndarray:
    """Addresses of the pieces of 16 bytes that the instruction reads, by the emulator."""
    return warpgroup.addresses(word(state), OPERANDS[state["operand"]])


def _shown(state: State) -> dict[str, Any]:
    """What the script draws of a state, the pieces that its field leads from and to among it."""
    at, (field, _), reading = pieces(state), CHANGES[state["change"]], read(state)
    size = warpgroup.SWIZZLE[DESCRIPTOR[SWIZZLE].of(word(state))]
    _, *counts = (a.reshape(-1) for a in warpgroup.places(OPERANDS[state["operand"]], size))
    ends = [0]
    if field in (LEADING, STRIDE):
        ends += np.flatnonzero(counts[field - LEADING] == 1)[:1].tolist()
    elif field != START:
        ends = [row * ACROSS[state["operand"]] for row in range(8)]
    marks = {"at": at.tolist(), "fits": fits(state["operand"], at).astype(int).tolist()}
    return {"say": reading.say, "text": reading.text, "ends": ends, **marks}


def _picture(state: State) -> str:
    """The 64 bits, and the tile with the pieces that are read."""
    code, body, b, at = word(state), "", 9.9, pieces(state)
    for bit in range(64):
        x, y = 1 + (31 - bit % 32) * b, 4 + (bit < 32) * 20
        own = [i for i, f in enumerate(DESCRIPTOR) if f.first <= bit <= f.last]
        fill = tint(PALETTE[own[0]], "0.3") if own else "none"
        body += rect(x, y, b, 16, fill, 'stroke="currentColor" stroke-width=".4"')
        body += words(x + b / 2, y + 12, str(code >> bit & 1), "middle", 10.5)
    for box in range(BOXES):
        body += words(1 + 162 * box, 60, f"box {box}", size=10.5)
        body += rect(1 + 162 * box, 64, 152, 256, "none", 'stroke="currentColor"')
    for a, right in zip(at.tolist(), fits(state["operand"], at), strict=True):
        box, within = divmod(a - BEGIN, BOX_BYTES)
        x, y = 1 + 162 * box + within // PIECE % 8 * 19, 64 + within // 128 * 4
        body += rect(x, y, 18.5, 3.6, BLUE if right else VERMILION)
    return svg(
        318, 324, body, f"The descriptor {code:#018x}, and the pieces of the tile that it names."
    )


def descriptor() -> Explorer:
    """The fields of a wgmma descriptor, and the pieces of a tile of 16 KB that they lead to."""
    first = {of: [CHANGES.index(pair) for pair in enumerate(kernels(of))] for of in OPERANDS}
    controls = (
        choice("operand", "the instruction reads", NAMES, "B"),
        Control("change", "field", tuple(range(len(CHANGES))), first["B"][LEADING],
                labels=tuple(label(*pair) for pair in CHANGES), plays=1500),
    )  # fmt: skip
    shown = {
        of: [_shown({"operand": of, "change": c}) for c in range(len(CHANGES))] for of in NAMES
    }
    return Explorer(
        kind="descriptor",
        title="What does a field of the descriptor address?",
        caption=(
            "Choose a field by a click on its bits; the slider goes through what may stand in it,"
            " while the others are as in the book's kernels. Below is a tile of two boxes as the"
            " copy engine stores it, a line 128 bytes. Filled are the pieces of 16 bytes that one"
            " instruction reads, in the second colour where they are not the operand's, and framed"
            " what the field leads from and to, or the first pieces of eight rows."
        ),
        controls=controls,
        labels={
            "right": "pieces of the operand",
            "bytes": "bytes read",
            "span": "from byte to byte",
            "word": "the descriptor",
        },
        sentences={
            "start": (
                "{operand} begins at byte {start} of shared memory. The field counts in units "
                "of 16 bytes, so it holds {units}."
            ),
            "leading": (
                "The leading stride leads past {leads} of {operand}: what comes next lies "
                "{leading} bytes further on."
            ),
            "unread": (
                "With a swizzle the leading stride of a K-major operand is not used, because "
                "all 16 steps of k of a row lie side by side."
            ),
            "stride": (
                "The stride leads past {strides} of {operand}: what comes next lies {stride} "
                "bytes further on."
            ),
            "base": (
                "The base offset is the row of the swizzle's pattern of {repeat} bytes in which "
                "{operand} begins. Byte {start} lies in row {row}, as the field says."
            ),
            "swizzle": (
                "A row of the pattern has {size} bytes, and its pieces of 16 bytes change "
                "places, by XOR with the number of their line of 128 bytes."
            ),
            "plain": (
                "Without a swizzle eight rows of 16 bytes lie one behind the other. The stride "
                "leads past {strides}, the leading stride past {leads}."
            ),
            "middle": (
                "Byte {start} lies in row {row} of the swizzle's pattern of {repeat} bytes, and "
                "the base offset says {base}: the emulator refuses such a descriptor."
            ),
            "outside": (
                "{operand} would lie in bytes {span}, beyond the end of the tile, and the "
                "emulator reports it."
            ),
        },
        data={
            "fields": [[f.name, f.first, f.last] for f in DESCRIPTOR], "begin": BEGIN,
            "box": BOX_BYTES, "first": first, "of": [f for f, _ in CHANGES], "across": ACROSS,
            "states": shown,
        },
        compute=read,
        picture=_picture({c.name: c.value for c in controls}),
        examples=tuple(
            {"operand": of, "change": c}
            for of, c in (("B", 8), ("B", 7), ("B", 10), ("B", 17), ("A", 0), ("A", 1))
        ),
    )  # fmt: skip
