"""Closed formulas against numbers known from elsewhere and against each other."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.ladder import model
from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import catalog
from nogpu.device import gpu, limits


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks", "limit"),
    [
        ("sm_86", 1024, 32, 8192, 1, "warps"),  # document L and P: two thirds
        ("sm_86", 256, 32, 2048, 6, "warps"),
        ("sm_75", 256, 64, 8192, 4, "registers"),
        ("sm_90", 64, 32, 0, 32, "blocks"),
        ("sm_90", 128, 32, 100 * 1024, 2, "shared memory"),
        ("sm_90", 256, 255, 0, 1, "registers"),
    ],
)
def test_occupancy(arch, threads, registers, shared, blocks, limit):
    o = model.occupancy(limits(arch), threads, registers, shared)
    assert o.blocks == blocks and limit in o.limited_by
    assert o.fraction == o.warps / limits(arch).max_warps_per_sm <= 1


def test_intensities_of_document_l():
    """L prints 0.48479 and 7.9844 for 8192."""
    assert model.arithmetic_intensity("coalesced", 8192, 8192, 8192) == pytest.approx(
        0.48479, abs=1e-5
    )
    assert model.arithmetic_intensity("tiled_32", 8192, 8192, 8192) == pytest.approx(
        7.9844, abs=1e-4
    )


@pytest.mark.parametrize(
    ("name", "params", "rows", "columns", "item"),
    [
        ("naive", {}, 32, 1, 4),
        ("naive", {"BX": 8, "BY": 32}, 8, 4, 4),
        ("coalesced", {}, 1, 32, 4),
        ("coalesced", {"BX": 16, "BY": 16}, 2, 16, 4),
        ("coarsened", {"COARSE": 4}, 1, 128, 4),
        ("wmma", {}, 16, 16, 2),
    ],
)
def test_a_warp_asks_for_the_rows_and_columns_of_its_part_of_c(
    name: str, params: dict[str, int], rows: int, columns: int, item: int
) -> None:
    m, n, k = 256, 512, 1 << 20  # stores hardly count
    bytes_a_step = m * n * (1 / rows + 1 / columns) * item
    assert model.traffic(name, m, n, k, **params).warp == pytest.approx(bytes_a_step * k, rel=1e-4)


def test_intensity_of_a_tile_without_stores():
    for tile in (8, 16, 32):
        value = model.arithmetic_intensity(f"tiled_{tile}", 1 << 12, 1 << 12, 1 << 20)
        assert value == pytest.approx(tile / 4, rel=1e-3)


def test_traffic_is_ordered():
    for name, kernel in catalog.items():
        if kernel.dtype != "float32":
            continue
        t = model.traffic(name, 4096, 4096, 4096)
        assert t.thread >= t.block >= model.compulsory_bytes(4096, 4096, 4096) / 1.01


def test_roofline_has_two_roofs_that_meet_at_the_ridge():
    t4 = gpu("t4")
    assert model.roofline(t4, t4.ridge) == pytest.approx(t4.fp32_peak_gflops)
    assert model.roofline(t4, t4.ridge / 2) == pytest.approx(t4.fp32_peak_gflops / 2)
    assert model.roofline(t4, 1e6) == t4.fp32_peak_gflops


@pytest.mark.parametrize(
    ("addresses", "clocks"),
    [
        (range(0, 128, 4), 1),  # 32 neighbours
        ([64] * 32, 1),  # one word for all
        (range(0, 32 * 4096, 4096), 32),  # one bank
        (range(0, 32 * 4100, 4100), 8),  # 32 banks: the look-up of 32 lines decides
        (range(0, 32 * 16, 16), 4),  # 4 lines, 8 banks
        ([4096 * row + 4 * col for row in range(4) for col in range(8)], 4),  # an 8x8 tile
        ([0], 1),
    ],
)
def test_l1_takes_the_longer_of_look_up_and_delivery(addresses, clocks):
    assert model.l1_clocks(addresses) == clocks
    assert model.l1_clocks([*addresses, *(128 * 40 + 4096 * i for i in range(40))]) > clocks


def test_shared_roof_is_half_the_peak_at_two_multiply_adds_a_wavefront():
    """128 lanes do four warp multiply-adds a clock; one wavefront a clock feeds two of them."""
    h200 = gpu("h200")
    assert model.shared_roof(h200, 2) == pytest.approx(h200.fp32_peak_gflops / 2)
    assert model.shared_roof(h200, 100) == h200.fp32_peak_gflops


def test_waves():
    assert model.waves(gpu("h200"), 264, 2) == 1


H200 = gpu("h200")


def test_rounds_meet_the_recorded_times_and_a_wrong_feed_does_not(monkeypatch):
    """fp32_best on the H200, from 512 to 8192; the constants are from trials of it."""
    from helpers.record import load

    points = [p for p in load("h200").find("points", kernel="fp32_best") if p["n"] % 256 == 0]
    assert len(points) >= 5

    def worst() -> float:
        off = []
        for p in points:
            r = model.rounds("fp32_best", p["m"], p["n"], p["k"], gpu=H200, resident=1)
            off.append(abs(p["ms"] * p["clock_mhz"] * 1e3 / r.clocks - 1))
        return max(off)

    assert worst() < 0.13
    monkeypatch.setattr(model, "SM_FEED", 1e9)
    assert worst() > 0.2


# -- equation (15.1) as the chapter prints it ------------------------------------------------------

PAGE = Path(__file__).parent.parent / "book" / "deeper_15_tile_for_shape.md"


def printed() -> str:
    """The LaTeX of the equation in chapter 15."""
    text = PAGE.read_text(encoding="utf-8")
    [found] = re.findall(r"(?s)\$\$\n(.*?)\n\$\$ \(rounds\)", text)
    return found


def in_python(latex: str) -> dict[str, str]:
    """The left sides of the aligned equations, and each right side as a Python expression."""
    text = re.sub(r"\\(?:begin|end)\{aligned\}|\\left|\\right|\\,", " ", latex)
    text = text.replace(r"\text{clocks}", "clocks").replace(r"\sum_{\text{rounds}} t(r)", "total")
    text = text.replace(r"\max", "max").replace(r"\lceil", "ceil(").replace(r"\rceil", ")")
    while r"\frac" in text:  # the innermost first
        text = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1) / (\2))", text)
    assert "\\" not in text.replace("\\\\", ""), text
    found = {}
    for line in text.split("\\\\"):
        left, right = line.split("&=")
        tokens = " ".join(re.findall(r"[A-Za-z]+|\d+|[-+/(),]", right))
        # two values side by side are a product
        product = re.sub(r"(?<!max)(?<!ceil)(?<=[\w)]) (?=[\w(])", " * ", tokens)
        found[left.strip()] = product
    return found


def by_the_page(
    latex: str, shape: tuple[int, int, int], resident: int, lanes: int, tile: dict[str, int]
) -> float:
    """Clocks by the printed equation for fp32_best: every letter as the text defines it."""
    M, N, K = shape
    p = geometry(catalog["fp32_best"], M, N, K, **tile)
    q, right = p.params, in_python(latex)
    busiest = -(-(-(-M // q["BM"]) * -(-N // q["BN"])) // H200.sms)
    letters = {
        **{name: q[name] for name in ("BM", "BN", "TM", "TN")}, "M": M, "N": N, "K": K,
        "w": p.threads // 32, "c": {128: 1, 64: 2}[lanes], "ceil": math.ceil,
    }  # fmt: skip
    full, rest = divmod(busiest, resident)
    rounds = [resident] * full + [rest] * (rest > 0)
    letters["total"] = sum(eval(right["t(r)"], {**letters, "r": r}) for r in rounds)
    return float(eval(right["clocks"], letters))


TILES = [({}, 1), ({"BM": 64, "BN": 128, "WM": 32, "TM": 8, "MIN_BLOCKS": 4}, 4)]
TILES += [({"BM": edge, "BN": edge, "BK": 16, "WM": 32, "WN": 32, "TM": 8, "TN": 4}, 16)
          for edge in (32, 64)]  # fmt: skip
"""Tiles, of eight warps down to one, and how many blocks an SM holds."""
SHAPES = [
    *[(n, n, n) for n in (512, 1024, 1025, 2048, 4096, 8192)],
    (1000, 700, 300), (20000, 129, 8), (1, 1, 1), (898, 898, 811), (3705, 3897, 3182),
    (64, 64 * 5 * 132, 1), (32, 32 * 264, 1),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("tile", "resident"), TILES)
@pytest.mark.parametrize("lanes", [128, 64])
def test_the_printed_equation_is_the_model(shape, tile, resident, lanes):
    card = replace(H200, fp32_lanes_per_sm=lanes)
    r = model.rounds("fp32_best", *shape, gpu=card, resident=resident, **tile)
    assert by_the_page(printed(), shape, resident, lanes, tile) == pytest.approx(r.clocks)
    assert r.blocks == math.prod(geometry(catalog["fp32_best"], *shape, **tile).grid)
    assert r.busiest == -(-r.blocks // H200.sms)
    assert r.peak == pytest.approx(math.prod(shape) / (H200.sms * lanes) / r.clocks)


@pytest.mark.parametrize(
    ("was", "now"),
    [("{32}", "{64}"), (" c ", " "), (r"\lceil", ""), ("BM + BN", "BM"), ("+ \\frac", "- \\frac")],
)  # fmt: skip
def test_another_equation_is_told_from_the_model(was, now):
    right = printed()
    assert right.count(was) >= 1
    off = []
    for shape in SHAPES:
        card = replace(H200, fp32_lanes_per_sm=64)
        clocks = model.rounds("fp32_best", *shape, gpu=card, resident=1).clocks
        try:
            wrong = by_the_page(right.replace(was, now, 1), shape, 1, 64, {})
        except SyntaxError:  # what is left of the term is no number
            wrong = math.nan
        off.append(wrong != pytest.approx(clocks))
    assert any(off)
