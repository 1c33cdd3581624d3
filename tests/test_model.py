"""Closed formulas against numbers known from elsewhere and against each other."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.ladder import choosing, model
from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import catalog, steps
from nogpu.device import gpu, limits
from nogpu.errors import ConfigError


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
def test_a_warp_asks_for_the_rows_and_columns_of_its_part_of_c(name, params, rows, columns, item):
    m, n, k = 256, 512, 1 << 20  # stores hardly count
    bytes_a_step = m * n * (1 / rows + 1 / columns) * item
    assert model.traffic(name, m, n, k, **params).warp == pytest.approx(bytes_a_step * k, rel=1e-4)


def test_the_fewest_bytes_are_those_of_three_matrices():
    """A of 3 x 5, B of 5 x 7 and C of 3 x 7."""
    assert model.compulsory_bytes(3, 7, 5) == 4 * (15 + 35 + 21)
    assert model.compulsory_bytes(3, 7, 5, 2, 8) == 2 * (15 + 35) + 8 * 21
    assert model.compulsory_intensity(3, 7, 5) == 210 / 284
    assert model.compulsory_intensity(3, 7, 5, 2, 8) == 210 / 268


def test_the_memory_takes_half_as_long_where_l2_holds_all_three():
    p, h200 = geometry(catalog["naive"], 1000, 1000, 1000), gpu("h200")
    seconds = 12e6 / (h200.bandwidth_gbs * 1e9)
    clocks = [
        model.memory_clocks(p, replace(h200, l2_bytes=b)) for b in (12_000_000 - 1, 12_000_000)
    ]
    assert clocks == pytest.approx([seconds * h200.boost_mhz * 1e6, seconds * h200.boost_mhz * 5e5])


def test_every_thread_loads_its_own_row_and_column():
    t = model.traffic("naive", 64, 32, 16)
    assert t.thread == 4 * (64 * 32 * 2 * 16 + 64 * 32)


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
    assert model.roofline(t4, 0.5) == t4.bandwidth_gbs / 2
    for none in (0, -0.5):
        with pytest.raises(ConfigError):
            model.roofline(t4, none)


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
        ([0, 32, 64, 96], 1),  # one line
        ([124, 128], 1),  # its last word, and the next one's first
        ([128 * line + 4 * line for line in range(12)], 3),  # 12 lines, 12 banks
        ([128 * line for line in range(12)], 12),  # 12 lines, one bank
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
    assert model.shared_roof(h200, 0.5) == pytest.approx(h200.fp32_peak_gflops / 8)
    for none in (0, -0.5):
        with pytest.raises(ConfigError):
            model.shared_roof(h200, none)


def test_waves():
    assert model.waves(gpu("h200"), 264, 2) == 1


H200 = gpu("h200")


def test_rounds_meet_the_recorded_times_and_a_wrong_feed_does_not(monkeypatch):
    """fp32_best on the H200, from 512 to 8192; the constants are from trials of it."""
    from helpers.record import load

    points = [p for p in load("h200").find("points", kernel="fp32_best") if p["n"] % 256 == 0]
    assert len(points) >= 5

    def worst():
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


def printed():
    """The LaTeX of the equation in chapter 15."""
    text = PAGE.read_text(encoding="utf-8")
    [found] = re.findall(r"(?s)\$\$\n(.*?)\n\$\$ \(rounds\)", text)
    return found


def in_python(latex):
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


def by_the_page(latex, shape, resident, lanes, tile):
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


# -- what is predicted of a launch -----------------------------------------------------------------

PREDICTED = """
fp32_best          129x65x6000   a100     476223.6 8 BM=32 BN=32 BK=16 WM=32 WN=32 TM=8 TN=4 MIN_BLOCKS=8
fp32_best          1500x4096x100 h200      85605.7 1
fp32_turing        4097x900x4097 h200    1508544.9 4 BN=64 MIN_BLOCKS=4
fp32_sliced        1000x1000x500 h200      66721.0 4 BM=64 BN=64 BK=16 WM=32 WN=32 TM=8 TN=4 STAGES=4 MIN_BLOCKS=4 SLICES=3
fp32_sliced        36x6000x500   a100      69811.1 8 BM=32 BN=32 BK=16 WM=16 WN=32 TM=4 TN=4 MIN_BLOCKS=8 CUT=52 SLICES=2
fp32_sliced        64x16892x64   h200      14717.0 2 BM=32 BN=64 BK=16 WM=32 WN=32 TM=8 TN=4 MIN_BLOCKS=2
thin_rows          2x1x2048      rtx4090  122407.7 2 ROWS=4 MIN_BLOCKS=2
thin_rows_fp16     1x2000x33     t4        10404.5 1 ROWS=4 MIN_BLOCKS=1
thin_rows          3x512x129     a100      15071.0 2 ROWS=8 MIN_BLOCKS=2 SLICES=2
thin_columns       2000x5x1024   h200      19807.0 2 COLUMNS=2 SLICES=3
thin_columns       900x16x1000   h200      17881.8 2 ROWS=2 COLUMNS=8 SLICES=3
thin_columns_fp16  36x5x900      h200      14354.4 1 COLUMNS=8 MIN_BLOCKS=1 SLICES=2
mma_pipelined_bf16 900x2048x900  h200     117484.2 1
mma_pipelined_bf16 8192x4096x500 h200     530354.0 1
mma_sliced         64x2048x1000  h200      17974.0 3 BM=16 WM=16 WN=16 STAGES=6 SLICES=8
mma_sliced         33x1024x500   rtx4090   24151.3 1 BK=128 STAGES=3 MIN_BLOCKS=2 SLICES=2
mma_pieces         1000x500x6000 a100     128555.0 4 BK=32 MIN_BLOCKS=4 SLICES=6
mma_pieces         128x500x250   rtx4090   16595.9 1 BM=16 BN=128 WM=16
mma_pieces         2048x36x512   h200      13559.6 2 BN=32 BK=128 WM=16 MIN_BLOCKS=2
mma_short          900x31x96     a100       8357.3 3 BK=64 MIN_BLOCKS=3
mma_short          2903x2000x31  a100      68204.0 2 BM=16 BK=128 WM=16 WN=16 MIN_BLOCKS=2
mma_short          129x500x17    a100       6215.6 2 BM=16 BK=128 WM=16 WN=16 MIN_BLOCKS=2
mma_turing         500x1000x6000 h200     101500.0 1
"""
"""Kernel, shape, GPU, SM clocks, blocks that an SM holds, tile: launches of every kind that is
chosen by itself. Whoever changes a formula sees here what it moves, and records the shapes anew."""


def launch_of(name, shape, tile):
    sizes = {size: int(value) for size, value in (word.split("=") for word in tile)}
    return geometry({**catalog, **steps}[name], *map(int, shape.split("x")), **sizes)


def rounds_told(p, card, resident):
    """By the formula for the kind of kernel, where that tells of rounds."""
    if model.is_thin(p.kernel):
        return model.thin_rounds(p, card, resident)
    if "TM" in p.params:
        return model.sliced_rounds(p, card, resident)
    return model.mma_rounds(p, card, resident) if "STAGES" in p.params else None


@pytest.mark.parametrize("line", PREDICTED.strip().splitlines())
def test_a_launch_is_predicted_as_before(line):
    name, shape, key, clocks, resident, *tile = line.split()
    p, card = launch_of(name, shape, tile), gpu(key)
    assert model.resident_blocks(p, card) == int(resident)
    assert choosing.predicted(p, card) == pytest.approx(float(clocks), abs=0.06)
    if r := rounds_told(p, card, int(resident)):
        assert (r.blocks, r.resident) == (math.prod(p.grid), int(resident))
        assert r.busiest == -(-r.blocks // card.sms)
        lanes = card.fp32_lanes_per_sm
        if not (model.is_thin(p.kernel) or "TM" in p.params):
            lanes = card.tensor_fp16_flop_per_clock_per_sm / 2
        assert r.peak == pytest.approx(p.M * p.N * p.K / (lanes * card.sms) / r.clocks)


def test_a_tile_that_no_sm_holds_is_not_weighed():
    """A ring of 128 KB: an RTX 4090 gives a block 99 KB."""
    large = {"BM": 128, "BN": 128, "MIN_BLOCKS": 1}
    for dtype, name in (("float16", "mma_sliced"), ("bfloat16", "mma_sliced_bf16")):
        assert large in catalog[name].candidates
        chosen = choosing.best(dtype, 1000, 1000, 1000, gpu("rtx4090"))
        assert chosen.shared_bytes <= limits("sm_89").shared_per_block_optin
    with pytest.raises(ConfigError, match="shared memory"):
        model.resident_blocks(geometry(catalog[name], 64, 64, 64, **large), gpu("rtx4090"))
    unknown = replace(H200, arch="sm_121")
    assert model.resident_blocks(geometry(catalog["mma_sliced"], 64, 64, 64), unknown) == 3


def test_tiles_are_numbered_in_bands():
    down = ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2))
    assert model.tile_order(3, 3, 2) == (*down, (2, 0), (2, 1), (2, 2))
    assert model.tile_order(3, 3, 2, turn=True) == (*down, (2, 2), (2, 1), (2, 0))
    assert model.tile_order(1, 1, 1) == ((0, 0),)
    for none in ((0, 3, 2), (3, 0, 2), (3, 3, 0)):
        with pytest.raises(ConfigError, match="at least 1"):
            model.tile_order(*none)


MERITS = """
tiled_padded  1000x4096x64   h200    0.076658 TILE=8
block_2d      64x1000x300    a100    0.016433 BM=256 BN=128 BK=32 TM=4 TN=8
vectorised    4096x1000x1000 a100    0.517933 BM=32 BN=64 BK=32 TM=8 TN=8
"""
"""Kernel, shape, GPU, tile, and the share of the peak by which its tiles are tried in order."""


@pytest.mark.parametrize("line", MERITS.strip().splitlines())
def test_tiles_are_tried_in_the_order_of_their_merit(line):
    name, shape, key, merit, *tile = line.split()
    p = launch_of(name, shape, tile)
    sizes = {word.split("=")[0]: int(word.split("=")[1]) for word in tile}
    found = model.merit(name, (p.M, p.N, p.K), gpu(key), sizes)
    assert found == pytest.approx(float(merit), abs=6e-7)
