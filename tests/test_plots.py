"""Figures: what they say, that they are safe to put on any page, and how they look in a browser."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers import catalog, colours, plan, trace, wording
from helpers import draw as plots
from helpers import record as measuring
from helpers.chapters.ch01 import pictures as ch01
from helpers.chapters.ch03 import pictures as ch03
from helpers.chapters.ch04 import pictures as ch04
from helpers.chapters.ch20 import pictures as ch20
from helpers.draw import Figure, rooflines, series, tilings
from helpers.draw.figures import MARGIN, NARROW
from helpers.ladder import model
from nogpu import device
from nogpu.errors import ConfigError, DataError
from tests import test_pictures_first as first
from tests import test_pictures_lanes as lanes
from tests import test_pictures_loops as loops
from tests import test_pictures_order as order
from tests import test_pictures_tensor as tensor
from tests import test_pictures_tiles as tiles
from tests.pages_check import FIND_CRAMPED
from tests.test_measure import H200 as LIVE_H200

KERNELS = {"naive": 0.011, "coalesced": 0.125, "tiled_8": 0.11, "tiled_32": 0.178}


@dataclass(frozen=True)
class FakeMeasurement:
    """What plots read of a Measurement, with numbers that are easy to check."""

    live: bool = False
    key: str = "h200"
    gpu: str = "NVIDIA H200"
    label: str = "recorded on NVIDIA H200, 2026-11-20, driver 580, CUDA 13.0, commit abc"
    sizes: tuple[int, ...] = (1024, 4096)
    peak: float = 50_000.0
    kernels: dict[str, float] = field(default_factory=lambda: dict(KERNELS))
    recorded: FakeMeasurement | None = None

    @property
    def rows(self):
        rows = []
        for name, ratio in self.kernels.items():
            for n in self.sizes:
                ms = 2 * n**3 / (ratio * self.peak * 1e6)
                rows.append(
                    {
                        "kernel": name, "m": n, "n": n, "k": n, "ms": ms, "q1": 0.95 * ms,
                        "q3": 1.1 * ms, "gflops": ratio * self.peak, "cublas_ratio": ratio,
                        "ratio_q1": 0.98 * ratio, "ratio_q3": 1.03 * ratio,
                        "baseline": "cublas_fp32", "h2d_ms": n / 1000, "d2h_ms": n / 2000,
                    }
                )  # fmt: skip
        return tuple(rows)


RECORDED = FakeMeasurement()
LIVE = FakeMeasurement(
    live=True, key="t4", gpu="Tesla T4", label="measured now on Tesla T4, 2026-11-21", peak=4000.0
)
PUBLISHED = [
    {"kernel": "naive", "size": 4096, "gflops": 120.0, "cublas_ratio": 0.02, "origin": "published",
     "source": "document L"}
]  # fmt: skip


@dataclass(frozen=True)
class FakeReport:
    """A report whose one line makes the given requests."""

    space: str
    requests: tuple[tuple[str, Any], ...]
    op: str = "load"
    width: int = 4

    def by_line(self):
        row: dict[str, Any] = {"line": 7, "text": "x = y[i];", "space": self.space, "op": self.op}
        row |= {"sectors_per_request": 4.0, "wavefronts_per_request": 1.0}
        row |= {"ideal_wavefronts_per_request": 1.0, "width_bytes": self.width}
        names = dict.fromkeys(name for name, _ in self.requests)
        return [SimpleNamespace(**row, array=name) for name in names]

    @property
    def samples(self):
        item = min(self.width, 4)
        rows = (
            (name, item, np.where(at < 0, -1, at * item)[None, :]) for name, at in self.requests
        )
        return {(7, self.space, self.op): tuple(rows)}


LANE = np.arange(32)


FIGURES: dict[str, Callable[[], Figure]] = {
    "bars": lambda: plots.bars(RECORDED),
    "bars, three origins, log": lambda: plots.bars([LIVE, RECORDED, PUBLISHED], log=True, sizes=[4096]),
    "roofline whose last tick stands at its edge": lambda: plots.roofline(
        [{"kernel": "naive", "size": 1024, "gflops": 150.0, "origin": "published", "source": "x"}],
        gpu="rtx3070_laptop",
        intensity="kernel",
    ),
    "bars of cuBLAS": lambda: plots.bars(RECORDED, value="cublas_ratio"),
    "ladder": lambda: plots.ladder([LIVE, RECORDED], 4096),
    "roofline": lambda: plots.roofline(RECORDED),
    "roofline by kernel": lambda: plots.roofline([LIVE, RECORDED], "h200", intensity="kernel"),
    "roofs": lambda: plots.roofline(gpu="t4"),
    "timeline": lambda: plots.timeline(RECORDED, kernels=["naive"]),
    "gantt": lambda: plots.gantt(
        [
            {
                "group": f"{n} panels", "lane": kind, "kind": kind, "label": str(i),
                "start_ms": i + at, "end_ms": i + at + 1.0,
            }
            for n in (1, 12)
            for at, kind in enumerate(("host to device", "kernel", "device to host"))
            for i in range(n)
        ],
        source="made up",
    ),
    "sectors": lambda: plots.access_map(FakeReport("global", (("A", 64 * LANE),)), 7),
    "half": lambda: plots.access_map(FakeReport("global", (("A", LANE),), width=2), "y[i]"),
    "banks": lambda: plots.access_map(FakeReport("shared", (("T", 32 * LANE),)), 7, space="shared"),
    "padded banks": lambda: plots.access_map(FakeReport("shared", (("T", 33 * LANE),)), 7, space="shared"),
    "tiles of naive": lambda: plots.tile_diagram("naive", 100, 70, 50, block=(1, 2), thread=(3, 5)),
    "tiles": lambda: plots.tile_diagram("tiled_32", 100, 70, 50, step=1, block=(3, 2), thread=(9, 20)),
    "tiles, one element": lambda: plots.tile_diagram("tiled_16", 1, 1, 1),
    "two jobs": lambda: plots.two_jobs("block_1d_core"),
    "two jobs in pieces": lambda: plots.two_jobs("cp_async_core", thread=255),
    "memories": lambda: ch01.memory_hierarchy("t4"),
    "threads": lambda: ch04.thread_hierarchy(plan(catalog["naive"], 100, 70, 50)),
    "threads of 16": lambda: ch04.thread_hierarchy(plan(catalog["tiled_16"], 4096, 4096, 50)),
    "loops": lambda: ch03.loop_orders(),
    "box": lambda: ch20.box(),
}  # fmt: skip
for _pictures in (first, lanes, loops, order, tensor, tiles):
    FIGURES |= {f"{_pictures.__name__}: {name}": draw for name, draw in _pictures.FIGURES.items()}
"""One figure of every kind, the awkward ones, and those of chapters."""


def figures():
    """All of them, drawn."""
    return {name: draw() for name, draw in FIGURES.items()}


@pytest.fixture(scope="module")
def drawn():
    """The figures, drawn once."""
    return figures()


# -- safe on any page ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_accessible_and_takes_the_pages_colours(drawn, name):
    figure = drawn[name]
    assert len(figure.alt) > 40
    assert figure.caption
    for svg, least in ((figure.svg, 7.0), (figure.narrow, 10.0)):
        root = ET.fromstring(svg)
        sizes = [float(size) for size in re.findall(r"font-size:\s*([\d.]+)px", svg)]
        assert sizes and min(sizes) >= least, "too small to be read"
        assert root.get("role") == "img"
        assert root.get("aria-label") == figure.alt
        assert root.get("viewBox")
        assert root.get("width") is None
        assert "max-width" in root.get("style", "")
        words = "".join(root.itertext())
        assert re.search(r"[A-Za-z]", words), "text must stay text"
        assert "font-family" not in svg
        for colour in set(re.findall(r"#[0-9a-f]{6}", svg)):
            assert colour in {*colours.PALETTE, "#ffffff"}, f"{colour} would not suit a dark page"
        assert "currentColor" in svg
        assert "<style" not in svg
        assert "<metadata" not in svg
    html = figure._repr_html_()
    assert html.startswith("<figure") and "<figcaption>" in html
    assert "<script" not in html and "http" not in html.replace("http://www.w3.org/2000/svg", "")
    assert len(html) < 120_000
    assert repr(figure).startswith("Figure: ")


def test_ids_belong_to_one_figure(drawn):
    seen: dict[str, str] = {}
    for name, figure in drawn.items():
        both = figure.svg + figure.narrow
        ids = re.findall(r'\bid="([^"]+)"', both)
        assert len(ids) == len(set(ids)), name
        for i in ids:
            assert i not in seen, f"{name} and {seen[i]} share the id {i}"
            seen[i] = name
        for target in re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', both):
            assert (target[0] or target[1]) in ids, name
    assert seen, "no figure has a pattern or marker: the test looks at nothing"


def test_figures_are_the_same_in_every_run(drawn):
    assert figures() == drawn


def test_drawing_leaves_matplotlibs_settings_alone():
    import matplotlib

    with matplotlib.rc_context({"font.size": 33, "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        mine = plots.bars(RECORDED)
        assert dict(matplotlib.rcParams) == before
    assert mine == plots.bars(RECORDED), "the caller's settings must not show in the figure"


def test_a_saved_file_stands_alone(tmp_path):
    path = plots.bars(RECORDED).savefig(tmp_path / "bars.svg")
    root = ET.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["bars", "tiles", "memories"])
def test_a_png_is_the_wide_drawing_dark_on_white(drawn, name, tmp_path):
    from matplotlib.image import imread

    figure, scale = drawn[name], 2
    path = figure.savefig(str(tmp_path / "drawing.PNG"), dpi=72 * scale)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    pixels = imread(path, format="png")
    box = [float(x) for x in (ET.fromstring(figure.svg).get("viewBox") or "").split()]
    wanted = [scale * (edge + 2 * MARGIN) for edge in (box[3], box[2])]
    assert np.abs(np.subtract(pixels.shape[:2], wanted)).max() <= scale
    rgb = pixels[..., :3]
    assert pixels.shape[2] == 3 or (pixels[..., 3] == 1).all(), "a dark page would shine through"
    border = scale * MARGIN // 2
    assert (rgb[:border] == 1).all() and (rgb[:, -border:] == 1).all()
    dark = (rgb.max(axis=2) < 0.2).mean()
    assert 0.002 < dark < 0.5, "text and lines in ink, on white"


def test_a_pdf_holds_the_words(tmp_path):
    path = plots.bars(RECORDED).savefig(tmp_path / "bars.pdf")
    text = path.read_bytes()
    assert text.startswith(b"%PDF-") and text.rstrip().endswith(b"%%EOF")
    assert b"DejaVuSans" in text, "text stays text"


@pytest.mark.parametrize("name", ["bars.bmp", "bars", "bars.png.txt"])
def test_another_ending_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match=r"\.png, \.pdf or \.svg"):
        plots.bars(RECORDED).savefig(tmp_path / name)
    assert not list(tmp_path.iterdir())


# -- the charts in plain Matplotlib --------------------------------------------------------------


def plain():
    """An Axes of the reader's own."""
    from matplotlib.figure import Figure as MplFigure

    return MplFigure().subplots()


def legend(ax):
    """The words of an Axes' legend."""
    return [text.get_text() for text in ax.get_legend().get_texts()]


def ticks(ax):
    """The words along y."""
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize("value", ["ms", "gflops", "cublas_ratio"])
def test_bars_on_axes_hold_the_rows_values_and_their_spread(value):
    ax = plain()
    assert plots.bars(RECORDED, value=value, sizes=[4096]).axes(ax) is ax
    rows = [row for row in RECORDED.rows if row["m"] == 4096]
    scale = 100 if value == "cublas_ratio" else 1
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(
        [scale * r[value] for r in rows]
    )
    middles = [bar.get_y() + bar.get_height() / 2 for bar in ax.patches]
    assert middles == pytest.approx(range(len(rows))), "row i lies at y = i"
    assert ticks(ax) == [row["kernel"] for row in rows]
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "the first row is on top"
    whisker = ax.collections[0].get_segments()[0][:, 0]  # of the first error bar
    first, work = rows[0], 2 * 4096**3 / 1e6
    ends = {
        "ms": (first["q1"], first["q3"]),
        "gflops": (work / first["q3"], work / first["q1"]),
        "cublas_ratio": (100 * first["ratio_q1"], 100 * first["ratio_q3"]),
    }
    assert whisker == pytest.approx(ends[value])
    labels = {
        "ms": "time in ms",
        "gflops": "rate in GFLOP/s",
        "cublas_ratio": "rate in % of cuBLAS",
    }
    assert ax.get_xlabel().startswith(labels[value])
    assert legend(ax) == ["recorded on NVIDIA H200, 2026-11-20"]


def test_bars_of_two_origins_stand_side_by_side():
    ax = plots.bars([LIVE, RECORDED], sizes=[1024, 4096], log=True).axes(plain())
    assert ax.get_xscale() == "log"
    assert len(ax.patches) == 4 * len(KERNELS)
    assert ticks(ax)[0] == "naive, N = 1024"
    here, there = ax.patches[:2]
    assert here.get_facecolor() != there.get_facecolor()
    assert here.get_y() + here.get_height() == pytest.approx(there.get_y())
    assert len(legend(ax)) == 2


def test_a_point_added_to_a_roofline_lies_where_its_numbers_say():
    h200 = device.gpu("h200")
    ax = plots.roofline(RECORDED, intensity="kernel").axes(plain())
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    roof = ax.lines[0]
    for x, y in zip(*roof.get_data(), strict=True):
        assert y == pytest.approx(model.roofline(h200, x))
    points = [line.get_xydata()[0] for line in ax.lines[1:]]
    assert len(points) == 2 * len(KERNELS)
    for name, share in KERNELS.items():
        x = model.arithmetic_intensity(name, 4096, 4096, 4096)
        for y in (share * 50_000, model.roofline(h200, x)):
            assert any(point == pytest.approx((x, y)) for point in points), (name, y)
    [mine] = ax.plot([h200.ridge], [h200.fp32_peak_gflops], "r*")
    drawn = ax.transData.transform(mine.get_xydata())[0]
    corner = ax.transData.transform(roof.get_xydata())[1]
    assert drawn == pytest.approx(corner), "the ridge of the roof"
    assert "GFLOP/s" in ax.get_ylabel() and "FLOP/byte" in ax.get_xlabel()


def test_the_phases_of_a_time_line_follow_each_other():
    figure = plots.timeline(RECORDED, kernels=["naive"], sizes=[4096])
    ax = figure.axes(plain())
    [row] = [r for r in RECORDED.rows if (r["kernel"], r["m"]) == ("naive", 4096)]
    wanted = [row["h2d_ms"], row["ms"], row["d2h_ms"]]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(wanted)
    assert f"together {wording.number(sum(wanted))} ms" in figure.alt
    starts = [bar.get_x() for bar in ax.patches]
    assert starts == pytest.approx([0, wanted[0], wanted[0] + wanted[1]])
    assert len({bar.get_y() for bar in ax.patches}) == 1
    overlapped = FIGURES["gantt"]().axes(plain())
    assert len(overlapped.patches) == 3 * (1 + 12)
    assert max(bar.get_x() + bar.get_width() for bar in overlapped.patches) == 14


def test_axes_are_new_ones_in_the_readers_settings_where_none_are_given():
    import matplotlib
    import matplotlib.pyplot as plt

    figure = plots.bars(RECORDED)
    with matplotlib.rc_context({"font.size": 21, "axes.facecolor": "#123456"}):
        ax = figure.axes()
        assert matplotlib.colors.to_hex(ax.get_facecolor()) == "#123456"
        assert figure.axes().figure is not ax.figure
    plt.close("all")


# -- colours -------------------------------------------------------------------------------------


def _linear(colour):
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def _luminance(colour):
    return float(_linear(colour) @ (0.2126, 0.7152, 0.0722))


def contrast(one, other):
    """WCAG 2 contrast ratio."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _lab(linear):
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x = np.array(to_xyz) @ np.clip(linear, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira, Fernandes 2009, severity 1
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}  # fmt: skip


@pytest.mark.parametrize("colour", colours.PALETTE)
@pytest.mark.parametrize("page", ["#ffffff", "#121212"])
def test_every_colour_stands_out_from_light_and_dark_pages(colour, page):
    assert contrast(colour, page) >= 3
    assert contrast("#ffffff", colours.BLUE) >= 4.5, "numbers are drawn on blue"


@pytest.mark.parametrize("vision", VISION)
def test_the_colours_of_origins_differ_for_every_kind_of_vision(vision):
    matrix = VISION[vision]
    origins = (colours.BLUE, colours.VERMILION, colours.GREEN)
    labs = [_lab(matrix @ _linear(c)) for c in origins]
    for i in range(3):
        for j in range(i):
            assert np.linalg.norm(labs[i] - labs[j]) > 15, (vision, origins[i], origins[j])


def test_origins_differ_by_more_than_colour():
    looks = series.LOOKS
    assert len({look.marker for look in looks.values()}) == len(looks)
    svg = plots.bars([LIVE, RECORDED, PUBLISHED], sizes=[4096]).svg
    for words in ("measured here, Tesla T4", "recorded on NVIDIA H200, 2026-11-20", "published"):
        assert words in svg


# -- what they say -------------------------------------------------------------------------------


def test_bars_tell_the_extremes_with_units_and_the_source():
    alt = plots.bars(RECORDED, sizes=[4096]).alt
    assert "most for tiled_32 with 8,900 GFLOP/s" in alt
    assert "least for naive with 550 GFLOP/s" in alt
    assert "factor of 16.2" in alt
    assert "N = 4096" in alt and "N = 1024" not in alt
    assert "recorded on NVIDIA H200, 2026-11-20" in alt


ODD_ROWS: list[tuple[list[dict[str, Any]], str, str]] = [
    ([{"kernel": "mine", "m": 3, "n": 4, "k": 5, "ms": 2.0}], "ms", "M × N × K = 3 × 4 × 5: mine 2 ms"),
    ([{"kernel": "mine", "size": 1000, "ms": 2.0}], "gflops", "1,000 GFLOP/s"),
    ([{"kernel": "a", "size": 8, "ms": 1.0}, {"kernel": "b", "size": 8, "ms": math.nan}], "ms",
     "At N = 8: a 1 ms."),
    ([{"kernel": "a<b & $c$", "size": 8, "gflops": 1.5}], "gflops", "a<b & $c$ 1.5 GFLOP/s"),
]  # fmt: skip
"""Rows of other shapes, without the column that is asked for, with a gap, and with awkward names."""


@pytest.mark.parametrize(("rows", "value", "phrase"), ODD_ROWS)
def test_bars_of_rows_and_of_their_data_frame(rows, value, phrase):
    pandas = pytest.importorskip("pandas")
    figure = plots.bars(rows, value=value)
    assert phrase in figure.alt and "Whiskers" not in figure.caption
    names = [r["kernel"] for r in rows if not math.isnan(r.get("ms", 0))]
    words = {"".join(text.itertext()) for text in ET.fromstring(figure.svg).iter()}
    assert set(names) <= words and "b" not in words, "what has no number is left out"
    assert plots.bars(pandas.DataFrame(rows), value=value) == figure


def test_the_ladder_is_in_the_catalogs_order_with_shares():
    shuffled = FakeMeasurement(kernels=dict(reversed(KERNELS.items())))
    figure = plots.ladder(shuffled)
    names = [t for t in re.findall(r">([^<]+)</text>", figure.svg) if t in KERNELS]
    assert names == list(KERNELS)
    assert "17.8 % · 8,900 GFLOP/s" in figure.svg
    assert "100 % = cuBLAS FP32" in figure.svg
    assert "N = 4096" in figure.caption
    ax = figure.axes(plain())
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(
        [100 * r for r in KERNELS.values()]
    )
    assert ticks(ax) == names and 100 in ax.lines[0].get_xdata()


def test_the_roofline_of_a_gpu_that_the_table_lacks(monkeypatch):
    live = replace(
        LIVE_H200, name="NVIDIA L4", arch="sm_89", sms=58, boost_mhz=2040, memory_bus_bits=192,
        memory_clock_mhz=6251,
    )  # fmt: skip
    monkeypatch.setattr(rooflines, "current", lambda: live)
    here = replace(LIVE, key="NVIDIA L4", gpu="NVIDIA L4")
    alt = plots.roofline(here).alt
    assert "Roofline of NVIDIA L4: the memory roof of 300 GB/s" in alt
    assert f"FP32 peak of {wording.number(58 * 128 * 2 * 2.04)} GFLOP/s" in alt
    monkeypatch.setattr(rooflines, "current", lambda: replace(live, memory_clock_mhz=0))
    with pytest.raises(ConfigError, match="clocks"):
        plots.roofline(here)


def test_kernels_on_tensor_cores_stand_under_their_own_roof(monkeypatch):
    h200 = device.gpu("h200")
    halves = FakeMeasurement(kernels={"wmma_tiled": 3.0, "mma_pipelined": 9.0})
    alt = plots.roofline(halves).alt
    assert f"FP16 peak of {wording.number(h200.fp16_tensor_peak_gflops)} GFLOP/s" in alt
    for other in (RECORDED, FakeMeasurement(kernels={"wmma_tiled": 3.0, "naive": 0.01})):
        peak = f"FP32 peak of {wording.number(h200.fp32_peak_gflops)} GFLOP/s"
        assert peak in plots.roofline(other).alt
    assert "FP32 peak" in plots.roofline(halves, precision="fp32").alt
    unknown = replace(h200, tensor_fp16_flop_per_clock_per_sm=0)
    with pytest.raises(ConfigError, match="FP16 peak of H200 SXM 141 GB is not known"):
        plots.roofline(halves, unknown)


BOTH = replace(LIVE, recorded=RECORDED)
"""A live measurement as measure() returns it: with the recorded points of the same kernels."""


@pytest.mark.parametrize("draw", [plots.bars, plots.roofline, plots.ladder, plots.timeline])
def test_recorded_points_are_drawn_beside_live_ones(draw):
    alt = draw(BOTH).alt
    assert "measured here, Tesla T4" in alt and "recorded on NVIDIA H200" in alt
    assert alt == draw([LIVE, RECORDED]).alt == draw([BOTH, RECORDED]).alt  # and only once
    alone = draw(LIVE).alt
    assert "H200" not in alone  # where the record has nothing of it


def test_a_recorded_point_stands_under_the_roofs_of_its_own_gpu():
    figure = plots.roofline(BOTH, intensity="kernel", size=4096)
    t4, h200 = device.gpu("t4"), device.gpu("h200")
    x = model.arithmetic_intensity(catalog["tiled_32"], 4096, 4096, 4096)
    for card, where, rate in ((t4, "measured here", 712.0), (h200, "recorded on", 8900.0)):
        bound = x * card.bandwidth_gbs
        share = wording.number(100 * rate / bound)
        [entry] = [part for part in figure.alt.split("; ") if f"tiled_32 ({where}" in part]
        reached = f"{wording.number(rate)} of {wording.number(bound)} GFLOP/s, {share} %"
        assert f"at {wording.number(x)} FLOP/byte: {reached}" in entry
    assert "allowed by the roof" in figure.svg
    assert f"Roofline of {t4.name} and {h200.name}" in figure.caption
    assert h200.name not in plots.roofline(LIVE, intensity="kernel", size=4096).svg


# -- access maps ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("elements", "width", "sectors", "used"),
    [
        (LANE, 4, 4, 128),
        (LANE + 1, 4, 5, 128),
        (2 * LANE, 4, 8, 128),
        (64 * LANE, 4, 32, 128),
        (0 * LANE, 4, 1, 4),
        (4 * LANE, 16, 16, 512),
        (np.where(LANE < 7, LANE, -1), 4, 1, 28),
    ],
)
def test_an_access_map_counts_sectors(elements, width, sectors, used):
    figure = plots.access_map(FakeReport("global", (("x", elements),), width=width), 7)
    plural = "" if sectors == 1 else "s"
    assert f"{sectors} sector{plural}: {32 * sectors:,} bytes moved, {used:,} used" in figure.alt


@pytest.mark.parametrize(
    ("step", "words", "finding"),
    [
        (1, 32, "no bank is asked for two"),
        (32, 32, "the busiest bank holds 32 of them"),
        (33, 32, "no bank is asked for two"),
        (0, 1, "All 32 lanes touch the same word"),
        (2, 32, "the busiest bank holds 2 of them"),
    ],
)
def test_a_bank_map_counts_conflicts(step, words, finding):
    report = FakeReport("shared", (("T", step * LANE),))
    alt = plots.access_map(report, 7, space="shared").alt
    assert f"asks for {words} word" in alt and finding in alt


def test_an_access_map_finds_the_request():
    report = FakeReport("global", (("A", LANE), ("B", 8 * LANE), ("B", 0 * LANE)))
    assert "load of A" in plots.access_map(report, "y[i]").alt
    assert "32 sectors" in plots.access_map(report, 7, array="B").alt
    assert "1 sector:" in plots.access_map(report, 7, array="B", request=1).alt
    bad: list[tuple[Any, dict[str, Any]]] = [
        (8, {}), ("nothing like it", {}), (7, {"request": 9}), (7, {"array": "B", "request": 2}),
        (7, {"op": "store"}),
    ]  # fmt: skip
    for line, options in bad:
        with pytest.raises(DataError):
            plots.access_map(report, line, **options)
    with pytest.raises(ConfigError):
        plots.access_map(report, 7, space="texture")


@pytest.mark.parametrize(
    ("kernel", "array", "sectors"), [("naive", "A", 32), ("coalesced", "B", 4)]
)
def test_an_access_map_of_a_real_trace(kernel, array, sectors):
    t = trace(kernel, 64, 64, 64, samples=True)
    figure = plots.access_map(t, "sum +=", array=array)
    assert f"{sectors} sectors" in figure.alt
    assert f"{array}[0, 0–7]" in figure.svg


# -- tiles ---------------------------------------------------------------------------------------


def test_a_tile_diagram_says_where_the_block_works():
    alt = plots.tile_diagram("tiled_32", 100, 70, 50, step=1, block=(3, 2)).alt
    assert "4 by 3 blocks" in alt
    assert "rows 96 to 99 and columns 64 to 69" in alt
    assert "step 2 uses k from 32 to 49" in alt
    other = plots.tile_diagram("tiled_32", 100, 70, 50, TILE=8)
    assert "13 by 9 blocks" in other.alt
    assert other == plots.tile_diagram(plan(catalog["tiled_32"], 100, 70, 50, TILE=8))
    warps = plots.tile_diagram("warp_tiled", 256, 256, 64, block=(1, 0), thread=(16, 72)).alt
    assert "A warp computes 64 by 64. A thread computes 16 by 8 in 8 pieces." in warps


@pytest.mark.parametrize("name", list(catalog))
def test_the_tiles_of_all_threads_make_up_the_block(name):
    p = plan(catalog[name], 512, 512, 512)
    t = tilings._tiles(p)
    assert plots.tile_diagram(p).alt
    if not t.tm:
        return  # Tensor Cores: no thread owns a rectangle
    threads: Counter[tuple[tilings.Box, ...]] = Counter()
    for r, c in np.ndindex(t.bm, t.bn):
        pieces = tuple(tilings._pieces(p, t, (r, c)))
        assert any(y <= r < y + h and x <= c < x + w for y, x, h, w in pieces), (r, c)
        threads[pieces] += 1
    assert len(threads) == p.threads
    assert set(threads.values()) == {t.tm * t.tn}


_FP32 = (k for k in catalog.values() if k.dtype == "float32" and k.host == "plain")
STORES = [k.name for k in _FP32 if not model.is_thin(k)]


@pytest.mark.parametrize("name", STORES)
def test_the_marked_elements_are_those_that_a_thread_stores(name):
    kernel = catalog[name]
    small = plan(kernel, 256, 256, 32)
    t = tilings._tiles(small)
    p = plan(kernel, t.bm, t.bn, 32)
    report = trace(kernel, t.bm, t.bn, 32, samples=True).report
    stored: dict[int, set[int]] = {}
    for (_, space, op), samples in report.samples.items():
        if (space, op) != ("global", "store"):
            continue
        for array, size, offsets in samples:
            # a store of a register happens once a warp: the first row is warp 0
            width = max(a.width_bytes for a in report.accesses if a.array == array)
            for lane, at in enumerate(offsets[0]):
                first = int(at) // size
                stored.setdefault(lane, set()).update(range(first, first + width // size))
    assert len(stored) == 32
    for elements in stored.values():
        r, c = divmod(min(elements), t.bn)
        pieces = tilings._pieces(p, t, (r, c))
        places = ((y + i, x + j) for y, x, h, w in pieces for i in range(h) for j in range(w))
        drawn = {row * t.bn + column for row, column in places}
        assert drawn == elements


def test_the_hierarchies_tell_sizes():
    alt = ch01.memory_hierarchy("t4").alt
    assert "registers, 256 KB an SM, 10 MB in all" in alt
    assert "320 GB/s" in alt
    down, across = (ch04.thread_hierarchy(plan(n, 100, 70, 50)) for n in ("naive", "coalesced"))
    assert "grid of 4 by 3 blocks" in down.alt and "32 warps" in down.alt
    # x counts rows of C in naive, columns in coalesced: a warp stands there and lies here
    assert "drawn downwards" in down.alt and "drawn downwards" not in across.alt
    assert "down a column of C" in down.caption
    assert "2 rows of 16 threads" in ch04.thread_hierarchy(plan("tiled_16", 64)).alt


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0123456, "0.0123"), (12.34, "12.3"), (5930.4, "5,930"), (0, "0"), (100.4, "100"),
     (math.nan, "unknown"), (1234567, "1,234,567"), (0.00001234, "0.0000123")],
)  # fmt: skip
def test_numbers_are_written_for_people(value, words):
    assert wording.number(value) == words


# -- in a browser --------------------------------------------------------------------------------

SHOWN = """() => [...document.querySelectorAll('figure')].map(figure =>
    ['.tile-wide', '.tile-narrow'].map(one => figure.querySelector(one).checkVisibility()))"""
"""Of each figure, whether its wide and its narrow drawing are shown."""


@pytest.mark.parametrize("width", [360, 1200])
def test_figures_fit_a_phone_and_a_desk(browser, drawn, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    body = "".join(f"<section>{figure._repr_html_()}</section>" for figure in drawn.values())
    page.set_content(
        "<!doctype html><meta name=viewport"
        " content='width=device-width'><style>body{max-width:760px;margin:8px"
        f" auto;color:#ced6dd;background:#121212}}</style>{body}"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # every text of a figure can be read: inside it, on no other, in the browser's own font
    assert page.evaluate(FIND_CRAMPED) == []
    shown = page.evaluate(SHOWN)
    assert set(map(tuple, shown)) == {(width > NARROW, width <= NARROW)}
    colour = page.evaluate("getComputedStyle(document.querySelector('svg text')).fill")
    assert colour == "rgb(206, 214, 221)"
    page.close()


@pytest.mark.parametrize("width", [360, 1200])
def test_one_drawing_is_shown_even_where_styles_are_taken_away(browser, width):
    figure = plots.bars(RECORDED)._repr_html_()
    page = browser.new_page(viewport={"width": width, "height": 800})
    column = f"<div style='width:340px'>{figure}</div>"  # a narrow output of a wide notebook
    page.set_content(figure + column)
    assert page.evaluate(SHOWN) == [[width > NARROW, width <= NARROW], [False, True]]
    assert page.locator("svg[role=img]:visible").count() == 2
    bare = re.sub(r"<style>.*?</style>", "", figure)
    page.set_content(bare)
    assert page.evaluate(SHOWN) == [[True, False]]
    page.set_content(bare.replace(" hidden>", ">"))  # the wrong twin
    assert page.evaluate(SHOWN) == [[True, True]]
    page.close()


def test_a_chart_says_at_its_end_where_its_numbers_come_from():
    """A replayed measurement never stands as a measured one, whatever caption its chart has."""
    m = measuring.measure(["naive", "tiled_32"], sizes=[1024, 4096], gpu="h200")
    rows = tuple({**row, "live": True, "record": "", "gpu": "Tesla T4"} for row in m.rows)
    label = "measured on Tesla T4, 2027-01-01"
    here = replace(m, live=True, gpu="Tesla T4", key="t4", label=label, rows=rows)
    charts = {
        "bars": lambda data: plots.bars(data, caption="Mine."),
        "ladder": lambda data: plots.ladder(data, 4096),
        "roofline": lambda data: plots.roofline(data, size=4096, gpu="h200"),
        "timeline": lambda data: plots.timeline(data, sizes=[4096]),
    }
    for name, draw in charts.items():
        for data, words in (
            (m, f"Replayed from a record, not measured here: {m.label}."),
            ([m], f"Replayed from a record, not measured here: {m.label}."),
            (here, "Measured here, now: measured on Tesla T4, 2027-01-01."),
        ):
            figure = draw(data)
            assert figure.source == words, name
            shown = figure._repr_html_()
            how, rest = words.split(": ", 1)
            assert f"<summary>{how}</summary>{rest}</details></figcaption>" in shown
            assert repr(figure).endswith(words)
            assert "recorded on" not in figure.caption  # said once
    assert plots.bars(PUBLISHED).source == ""
    assert "tile-provenance" not in plots.bars(PUBLISHED)._repr_html_()
    assert plots.roofline(gpu="h200").source == ""
