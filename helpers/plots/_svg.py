"""Matplotlib to accessible inline SVG: the Figure type, the palette and a canvas in pixels."""

from __future__ import annotations

import hashlib
import html
import io
import math
import re
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MplFigure

INK = "#010203"
"""Stands for the colour of the text around the figure; becomes currentColor in the SVG."""

BLUE, VERMILION, GREEN, PURPLE, GREY = "#0072b2", "#d55e00", "#009e73", "#c26a9c", "#808080"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, GREY)
"""Okabe and Ito's colours, the purple darkened: each has a contrast of at least 3:1 on white and
on the book's dark background, so one picture serves both. Shapes and words always say it too."""


@dataclass(frozen=True)
class Column:
    """A column of a page that a picture is drawn for: its width and its sizes of text, in pixels.

    On the narrow one, labels stand over what they name, and panels below each other.
    """

    width: float
    font: float
    small: float
    tiny: float
    narrow: bool = False


DESK = Column(440, 11.5, 9.5, 7.5)
PHONE = Column(320, 12.5, 11.5, 10.8, narrow=True)
"""A phone 360 pixels wide leaves a figure 300 to 330 of them: no text may be under 10 there."""
ENLARGED = 1.35
"""How many times its own width a drawing may take in a wider column."""
NARROW = 580
"""Below so many pixels a figure shows the drawing for a phone."""
_SHOW = (
    f"@container(max-width:{NARROW}px){{.tile-figure>.tile-wide{{display:none!important}}"
    ".tile-figure>.tile-narrow{display:block!important}}"
)
FONT = DESK.font

Align = Literal["left", "center", "right"]

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_RC: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text: found by search, read aloud, in the page's font
    "svg.hashsalt": "tile-by-tile",  # ids and so the whole file are the same in every run
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": FONT,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "savefig.edgecolor": "none",
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "grid.color": INK,
    "grid.alpha": 0.16,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 1.2,
}


@dataclass(frozen=True)
class Figure:
    """A picture for a page: SVG text, its description in words, a caption, and SVG for a phone.

    The SVG has no size of its own: it fills its column up to a maximum. A page shows one of the two
    drawings, by the width of the column; where styles are taken away, the wide one.
    """

    svg: str
    alt: str
    caption: str = ""
    narrow: str = ""

    def _repr_html_(self) -> str:
        caption = f"<figcaption>{html.escape(self.caption)}</figcaption>" if self.caption else ""
        return (
            '<figure class="tile-figure" style="margin:1em 0;container-type:inline-size">'
            f'<style>{_SHOW}</style><div class="tile-wide">{self.svg}</div>'
            f'<div class="tile-narrow" hidden>{self.narrow}</div>{caption}</figure>'
        )

    def __repr__(self) -> str:
        return f"Figure: {self.alt}" + (f"\n{self.caption}" if self.caption else "")

    def save(self, path: str | Path) -> Path:
        """Write a standalone SVG file that follows the reader's light or dark setting."""
        style = (
            "<style>svg{color:#24292f;font-family:sans-serif}"
            "@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"
        )
        head, tail = self.svg.split(">", 1)
        target = Path(path)
        target.write_text(f"{head}>{style}{tail}\n", encoding="utf-8")
        return target


_one_at_a_time = threading.RLock()  # the settings are the process's: live sliders draw in a thread


@contextmanager
def drawing() -> Iterator[None]:
    """Our matplotlib settings over the library's defaults; the caller's come back afterwards."""
    import matplotlib

    with _one_at_a_time, matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield


_DEFAULTS = {("fill", "none"), ("text-anchor", "start"), ("stroke-linejoin", "miter")}
"""What the whole picture says already, and no element need repeat."""


def _clean_style(style: str) -> str:
    """Matplotlib's style without its fonts (the page's is used), short, and with our ink."""
    kept = []
    for part in style.split(";"):
        name, _, value = part.strip().partition(":")
        value = value.strip()
        if name == "font-family" or not name or (name, value) in _DEFAULTS:
            continue
        if name == "font":  # shorthand of older matplotlib: "[weight] 10px 'DejaVu Sans', ..."
            words = re.match(r"(?:(\w+) )?([\d.]+px)", value)
            if words:
                if words[1]:
                    kept.append(f"font-weight:{words[1]}")
                kept.append(f"font-size:{words[2]}")
            continue
        kept.append(f"{name}:{value}")
    return ";".join(kept).replace(INK, "currentColor")


def _round(text: str) -> str:
    """Coordinates to a hundredth of a pixel, which no eye tells apart."""
    short = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), text)
    short = " ".join(short.split()).replace("-0 ", "0 ")
    return re.sub(r" ?([MLCQz]) ?", r"\1", short)  # the letters of a path need no spaces


def _children(node: ET.Element) -> Iterator[ET.Element]:
    """The node's children with the groups that say nothing unwrapped."""
    for child in list(node):
        if child.tag == f"{{{_SVG}}}g" and not child.attrib:
            yield from _children(child)
        else:
            yield child


def _tidy(raw: str, alt: str) -> tuple[str, float]:
    """Inline SVG and its width from matplotlib's file.

    Drops metadata, sizes, matplotlib's page-wide style and every id that nothing refers to; the
    ids left begin with a digest of the picture and its description, so two figures on a page never
    share one: a hatch of a hidden figure is not drawn.
    """
    root = ET.fromstring(raw)
    referenced = set(re.findall(r"(?:url\(#|href=\"#)([\w.-]+)", raw))
    for node in list(root):
        if node.tag == f"{{{_SVG}}}metadata" or node.find(f"{{{_SVG}}}style") is not None:
            root.remove(node)
    for node in root.iter():
        if node.get("id") not in referenced:
            node.attrib.pop("id", None)
        if _XLINK in node.attrib:
            node.set("href", node.attrib.pop(_XLINK))
        if "style" in node.attrib:
            style = _clean_style(node.attrib.pop("style"))
            if style:
                node.set("style", style)
        if "rotate(-0 " in node.get("transform", ""):
            node.attrib.pop("transform")
        for name in ("d", "x", "y", "transform", "width", "height"):
            if name in node.attrib:
                node.set(name, _round(node.attrib[name]))
        node.text = (node.text or "").strip("\n") if node.tag == f"{{{_SVG}}}text" else None
        node.tail = None
    for node in list(root.iter()):
        node[:] = list(_children(node))
    box = root.attrib["viewBox"]
    body = "".join(ET.tostring(child, encoding="unicode") for child in root)
    body = re.sub(r'\s?xmlns(:\w+)?="[^"]*"', "", body).replace("svg:", "").replace("ns0:", "")
    digest = hashlib.sha1((alt + body).encode()).hexdigest()[:8]
    for number, name in enumerate(sorted(referenced, key=lambda i: body.find(f'id="{i}"'))):
        body = re.sub(rf"(?<=[\"#]){re.escape(name)}(?=[\")])", f"t{digest}-{number}", body)
    return f'viewBox="{box}">{body}</svg>', float(box.split()[2])


def _inline(figure: MplFigure, alt: str) -> str:
    """The drawn matplotlib figure as inline SVG that is named by alt."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    body, width = _tidy(stream.getvalue(), alt)
    style = (
        f"width:100%;max-width:{width * ENLARGED:.0f}px;height:auto;display:block;margin:0 auto;"
        "fill:none;stroke-linejoin:round"
    )
    head = f'<svg xmlns="{_SVG}" role="img" aria-label="{html.escape(alt)}" style="{style}" '
    return head + body


def both(draw: Callable[[Column], Canvas], alt: str, caption: str = "") -> Figure:
    """The Figure that `draw` makes, once for each column. alt says what it shows, with units."""
    with drawing():
        wide, narrow = (_inline(draw(at).figure, alt) for at in (DESK, PHONE))
    return Figure(wide, alt, caption, narrow)


@lru_cache(maxsize=4096)
def text_width(text: str, size: float = FONT, weight: str = "normal") -> float:
    """Pixels that a line of text takes at most in the fonts that a page may use."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return float(TextToPath().get_text_width_height_descent(text, font, ismath=False)[0])


def wrap(words: str, size: float, width: float, weight: str = "normal") -> list[str]:
    """Words broken into lines that are at most so many pixels wide, where they have spaces."""
    lines: list[str] = []
    for word in words.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, weight) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


class Canvas:
    """A drawing surface in pixels for diagrams and charts, y downwards; it grows with what it holds.

    Use inside drawing(). Colours default to the ink of the page.
    """

    def __init__(self, at: Column) -> None:
        from matplotlib.figure import Figure as MplFigure

        self.at, self.width = at, at.width
        self.figure = MplFigure(dpi=72)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set_xlim(0, at.width)
        self.figure.patch.set_visible(False)

    def end(self, height: float) -> Canvas:
        """Itself, cut off at this height. Call it when everything is drawn."""
        self.figure.set_size_inches(self.width / 72, height / 72)
        self.axes.set_ylim(height, 0)
        return self

    def rect(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        *,
        fill: str | None = None,
        alpha: float = 1.0,
        edge: str | None = INK,
        lw: float = 1.0,
        hatch: str | None = None,
        dash: bool = False,
    ) -> None:
        """A rectangle; fill under the given opacity, then hatch and outline in the edge colour."""
        from matplotlib.patches import Rectangle

        where: dict[str, Any] = {"xy": (x, y), "width": w, "height": h, "clip_on": False}
        if fill:
            self.axes.add_patch(Rectangle(**where, facecolor=fill, alpha=alpha, lw=0))
        if hatch:
            line = edge or fill or INK
            self.axes.add_patch(
                Rectangle(**where, fill=False, edgecolor=line, lw=0, hatch=hatch)  # lw 0: no frame
            )
        if edge and lw:
            style = (0, (3, 2)) if dash else "-"
            self.axes.add_patch(
                Rectangle(**where, fill=False, edgecolor=edge, lw=lw, linestyle=style)
            )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = FONT,
        ha: Align = "left",
        va: str = "center",
        colour: str = INK,
        weight: str = "normal",
        rotation: float = 0,
    ) -> None:
        """A line of text at a point."""
        # central baseline by hand: the browser's font has other ascents than matplotlib's
        shift = {"center": 0.36 * size, "top": 0.8 * size, "bottom": -0.2 * size}.get(va, 0.0)
        dx, dy = (shift, 0.0) if rotation == 90 else (0.0, shift)
        self.axes.text(
            x + dx, y + dy, words, fontsize=size, ha=ha, va="baseline", color=colour,
            fontweight=weight, rotation=rotation, rotation_mode="anchor", clip_on=False,
        )  # fmt: skip

    def lines(
        self, x: float, y: float, words: str, *, width: float, size: float, ha: Align = "left",
        weight: str = "normal",
    ) -> float:  # fmt: skip
        """Text in lines that fit a width, the first with its middle at y; returns the last one's."""
        for i, part in enumerate(wrap(words, size, width, weight)):
            y += (size + 4) * bool(i)
            self.text(x, y, part, size=size, ha=ha, weight=weight)
        return y

    def legend(self, entries: Sequence[tuple[str, Callable[[float, float], None]]]) -> float:
        """Patches with words at the top, in as many rows as they need; returns the y below.

        Each entry: its words, and what draws its patch, 14 by 10 pixels, at a corner.
        """
        size, x, y = self.at.small, 1.0, 2.0
        for words, patch in entries:
            room = self.width - 20 - 1
            if x > 1 and x + 19 + text_width(words, size) > self.width:
                x, y = 1.0, y + size + 6.5
            patch(x, y)
            low = self.lines(x + 19, y + 5, words, width=room, size=size)
            x += 29 + text_width(words, size)
            if low > y + 5:
                x, y = self.width, low - 5
        return y + size + 10.5

    def line(
        self, x0: float, y0: float, x1: float, y1: float, *, colour: str = INK, lw: float = 1.0,
        dash: bool = False, alpha: float = 1.0,
    ) -> None:  # fmt: skip
        """A straight line between two points."""
        style = (0, (3, 2)) if dash else "-"
        self.axes.plot(
            [x0, x1], [y0, y1], color=colour, lw=lw, linestyle=style, alpha=alpha, clip_on=False
        )

    def segments(self, parts: Sequence[tuple[float, float, float, float]], **style: Any) -> None:
        """Straight lines of one style, as x0, y0, x1, y1: one path, however many there are."""
        gap = math.nan
        if parts:
            xs = [x for x0, _, x1, _ in parts for x in (x0, x1, gap)]
            ys = [y for _, y0, _, y1 in parts for y in (y0, y1, gap)]
            colour = style.pop("colour", INK)
            self.axes.plot(xs, ys, color=colour, linestyle="-", clip_on=False, **style)

    def arrow(
        self, x0: float, y0: float, x1: float, y1: float, *, colour: str = INK, lw: float = 1.2,
        both: bool = False,
    ) -> None:  # fmt: skip
        """A line from the first point to the second with a head at its end, or at both ends."""
        self.line(x0, y0, x1, y1, colour=colour, lw=lw)
        length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-9)
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        for (x, y), sign in (((x1, y1), 1.0), ((x0, y0), -1.0))[: 2 if both else 1]:
            back, side = 5.5 * sign, 2.8
            head = [
                (x, y),
                (x - ux * back - uy * side, y - uy * back + ux * side),
                (x - ux * back + uy * side, y - uy * back - ux * side),
            ]
            self.axes.fill(*zip(*head, strict=True), color=colour, lw=0, clip_on=False)


def number(value: float, digits: int = 3) -> str:
    """A number for people: three significant digits, thousands with commas, no exponent."""
    if value != value:
        return "unknown"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def bytes_text(count: float) -> str:
    """Bytes in the largest unit that leaves at least 1, counted in powers of two as NVIDIA's tables
    of memories do: 49,152 is "48 KB"."""
    value, unit = float(count), "B"
    for larger in ("KB", "MB", "GB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{number(value, 3)} {unit}"


def shape_text(m: int, n: int, k: int) -> str:
    """How a size is written under a bar: "N = 1024", or M × N × K where they differ."""
    return f"N = {m}" if m == n == k else f"M × N × K = {m} × {n} × {k}"


def join(words: list[str]) -> str:
    """ "a, b and c"."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
