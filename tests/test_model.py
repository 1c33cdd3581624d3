"""Closed formulas against numbers known from elsewhere and against each other."""

import pytest

from helpers import model
from helpers.catalog import catalog
from helpers.device import gpu, limits
from helpers.errors import ConfigError


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


@pytest.mark.parametrize(
    ("threads", "registers", "shared"),
    [(0, 1, 0), (1025, 1, 0), (32, 256, 0), (32, 1, 1 << 20), (1024, 128, 0)],
)
def test_a_block_that_cannot_launch_is_refused(threads, registers, shared):
    with pytest.raises(ConfigError):
        model.occupancy(limits("sm_75"), threads, registers, shared)


def test_intensities_of_document_l():
    """L prints 0.48479 and 7.9844 for 8192."""
    assert model.arithmetic_intensity("coalesced", 8192, 8192, 8192) == pytest.approx(
        0.48479, abs=1e-5
    )
    assert model.arithmetic_intensity("tiled_32", 8192, 8192, 8192) == pytest.approx(
        7.9844, abs=1e-4
    )


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
    with pytest.raises(ConfigError):
        model.roofline(t4, 0)


def test_shared_roof_is_half_the_peak_at_two_multiply_adds_a_wavefront():
    """128 lanes do four warp multiply-adds a clock; one wavefront a clock feeds two of them."""
    h200 = gpu("h200")
    assert model.shared_roof(h200, 2) == pytest.approx(h200.fp32_peak_gflops / 2)
    assert model.shared_roof(h200, 100) == h200.fp32_peak_gflops
    with pytest.raises(ConfigError):
        model.shared_roof(h200, 0)


def test_waves():
    assert model.waves(gpu("h200"), 264, 2) == 1
