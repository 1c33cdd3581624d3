"""Matplotlib to accessible inline SVG: the Figure type, the palette and a canvas in pixels."""

from __future__ import annotations

import hashlib
import html
import io
import math
import re
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
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

WIDTH = 440
"""Pixels of a figure before it is scaled to the page: small, so that phones can read the text."""
FONT = 11.5
SMALL = 9.5

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
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "grid.color": INK,
    "grid.alpha": 0.16,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 1.2,
}


@dataclass(frozen=True)
class Figure:
    """A picture for a page: SVG text, its description in words, and a caption.

    The SVG has no size of its own: it fills its column up to a maximum and scales down on a phone,
    where a part of a chart would mislead more than small labels do.
    """

    svg: str
    alt: str
    caption: str = ""

    def _repr_html_(self) -> str:
        caption = f"<figcaption>{html.escape(self.caption)}</figcaption>" if self.caption else ""
        return f'<figure class="tile-figure" style="margin:1em 0">{self.svg}{caption}</figure>'

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


def _clean_style(style: str) -> str:
    """Matplotlib's style without its font list (the page's font is used) and with our ink."""
    kept = []
    for part in style.split(";"):
        name, _, value = part.strip().partition(":")
        value = value.strip()
        if name == "font-family" or not name:
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
    return " ".join(short.split()).replace("-0 ", "0 ")


def _children(node: ET.Element) -> Iterator[ET.Element]:
    """The node's children with the groups that say nothing unwrapped."""
    for child in list(node):
        if child.tag == f"{{{_SVG}}}g" and not child.attrib:
            yield from _children(child)
        else:
            yield child


def _tidy(raw: str) -> tuple[str, float]:
    """Inline SVG and its width from matplotlib's file.

    Drops metadata, sizes, matplotlib's page-wide style and every id that nothing refers to; the
    ids left begin with a digest of the picture, so two figures on a page never share one.
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
    digest = hashlib.sha1(body.encode()).hexdigest()[:8]
    for number, name in enumerate(sorted(referenced, key=lambda i: body.find(f'id="{i}"'))):
        body = re.sub(rf"(?<=[\"#]){re.escape(name)}(?=[\")])", f"t{digest}-{number}", body)
    return f'viewBox="{box}">{body}</svg>', float(box.split()[2])


def finish(figure: MplFigure, alt: str, caption: str = "") -> Figure:
    """The drawn matplotlib figure as a Figure. alt says what the picture shows, with units."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    body, width = _tidy(stream.getvalue())
    style = f"width:100%;max-width:{width * 1.35:.0f}px;height:auto;display:block;margin:0 auto"
    head = (
        f'<svg xmlns="{_SVG}" role="img" aria-label="{html.escape(alt)}" fill="none" '
        f'stroke-linejoin="round" style="{style}" '
    )
    return Figure(head + body, alt, caption)


@lru_cache(maxsize=4096)
def text_width(text: str, size: float = FONT, weight: str = "normal") -> float:
    """Pixels that a line of text takes at most in the fonts that a page may use."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return float(TextToPath().get_text_width_height_descent(text, font, ismath=False)[0])


class Canvas:
    """A drawing surface in pixels, y downwards, for diagrams that are not charts.

    Use inside drawing(). Colours default to the ink of the page.
    """

    def __init__(self, height: float, width: float = WIDTH) -> None:
        from matplotlib.figure import Figure as MplFigure

        self.width, self.height = width, height
        self.figure = MplFigure(figsize=(width / 72, height / 72), dpi=72)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(height, 0)

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

    def line(
        self, x0: float, y0: float, x1: float, y1: float, *, colour: str = INK, lw: float = 1.0,
        dash: bool = False, alpha: float = 1.0,
    ) -> None:  # fmt: skip
        """A straight line between two points."""
        style = (0, (3, 2)) if dash else "-"
        self.axes.plot(
            [x0, x1], [y0, y1], color=colour, lw=lw, linestyle=style, alpha=alpha, clip_on=False
        )

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

    def done(self, alt: str, caption: str = "") -> Figure:
        """The finished Figure."""
        return finish(self.figure, alt, caption)


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
    """Bytes in the largest binary unit that leaves at least 1: "48 KiB"."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
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
