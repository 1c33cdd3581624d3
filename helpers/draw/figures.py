"""Figure: inline SVG with words, by matplotlib, cleaned, and drawn for a desk and a phone."""

from __future__ import annotations

import hashlib
import html
import io
import re
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.draw.surface import DESK, FONT, INK, PHONE, Canvas, Column
from helpers.wording import folded_source
from nogpu.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MplFigure

ENLARGED = 1.35
"""How many times its own width a drawing may take in a wider column."""
MARGIN = 8
"""Pixels of white around a drawing in a file of its own."""
NARROW = 580
"""Below so many pixels a figure shows the drawing for a phone."""

_SHOW = (
    f"@container(max-width:{NARROW}px){{.tile-figure>.tile-wide{{display:none!important}}"
    ".tile-figure>.tile-narrow{display:block!important}}"
)

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

    source: the last line of the caption, where the numbers come from.

    The SVG has no size of its own: it fills its column up to a maximum. A page shows one of the two
    drawings, by the width of the column; where styles are taken away, the wide one.

    savefig writes it to a file. axes draws a chart once more in plain Matplotlib, to go on with.
    """

    svg: str
    alt: str
    caption: str = ""
    narrow: str = ""
    draw: Callable[[], MplFigure] | None = field(default=None, repr=False, compare=False)
    chart: Callable[[Axes], None] | None = field(default=None, repr=False, compare=False)
    source: str = ""

    def _repr_html_(self) -> str:
        caption = html.escape(self.caption)
        if self.source:
            caption += folded_source(self.source)
        caption = f"<figcaption>{caption.strip()}</figcaption>" if caption else ""
        return (
            '<figure class="tile-figure" style="margin:1em 0;container-type:inline-size">'
            f'<style>{_SHOW}</style><div class="tile-wide">{self.svg}</div>'
            f'<div class="tile-narrow" hidden>{self.narrow}</div>{caption}</figure>'
        )

    def __repr__(self) -> str:
        return "\n".join(filter(None, (f"Figure: {self.alt}", self.caption, self.source)))

    def savefig(self, path: str | Path, *, dpi: float = 200) -> Path:
        """Write the picture to a file and return its path. Its ending says what it becomes.

        .png and .pdf show the wide drawing, dark on white, its 72 pixels as an inch; dpi: of the
        .png. A .svg stands alone and follows the reader's light or dark setting. Raises ConfigError
        for another ending.
        """
        target = Path(path)
        kind = target.suffix.lower()
        if kind == ".svg":
            style = (
                "<style>svg{color:#24292f;font-family:sans-serif}"
                "@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"
            )
            head, tail = self.svg.split(">", 1)
            target.write_text(f"{head}>{style}{tail}\n", encoding="utf-8")
        elif kind in (".png", ".pdf") and self.draw is not None:
            with drawing():
                figure = self.draw()
                figure.patch.set_visible(True)
                room = figure.bbox_inches.padded(MARGIN / 72)
                figure.savefig(target, dpi=dpi, facecolor="white", bbox_inches=room)
        else:
            raise ConfigError(
                f"{str(path)!r} ends in {kind or 'nothing'}: a figure is saved as .png, .pdf or "
                ".svg"
            )
        return target

    def axes(self, ax: Axes | None = None) -> Axes:
        """The chart in plain Matplotlib: on an Axes of yours, or on a new one. Returns that Axes.

        Its coordinates are those of the data, in the units of its labels: row i of a bar chart lies
        at y = i, and a roofline has FLOP per byte along x and GFLOP/s along y, both logarithmic.
        Colours and fonts are those of your own settings. Raises ConfigError for a diagram, which
        has no axes.
        """
        if self.chart is None:
            raise ConfigError(
                "this picture is a diagram and has no axes: savefig writes it to a file. Charts "
                "have axes: bars, ladder, roofline, timeline and gantt"
            )
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(layout="constrained")
        self.chart(ax)
        return ax


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
    parts = []
    for part in style.split(";"):
        name, _, value = part.strip().partition(":")
        value = value.strip()
        if name == "font-family" or not name or (name, value) in _DEFAULTS:
            continue
        if name == "font":  # shorthand of older matplotlib: "[weight] 10px 'DejaVu Sans', ..."
            words = re.match(r"(?:(\w+) )?([\d.]+px)", value)
            if words:
                if words[1]:
                    parts.append(f"font-weight:{words[1]}")
                parts.append(f"font-size:{words[2]}")
            continue
        parts.append(f"{name}:{value}")
    return ";".join(parts).replace(INK, "currentColor")


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


def both(
    draw: Callable[[Column], Canvas], alt: str, caption: str = "",
    chart: Callable[[Axes], None] | None = None, source: str = "",
) -> Figure:  # fmt: skip
    """The Figure that `draw` makes, once for each column. alt says what it shows, with units.

    chart: draws the same rows on an Axes, where they have axes. source: where its numbers come
    from.
    """
    with drawing():
        wide, narrow = (_inline(draw(at).figure, alt) for at in (DESK, PHONE))
    return Figure(wide, alt, caption, narrow, lambda: draw(DESK).figure, chart, source)
