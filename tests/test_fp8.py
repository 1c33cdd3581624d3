"""The product of 8-bit floats: rounding by scales, the kernel in the emulator, what a GPU said."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from helpers.chapters.ch22 import fp8
from helpers.chapters.ch22 import fp8_tables as tables
from helpers.chapters.ch22.epilogue import End
from nogpu import toolchain
from nogpu.bfloat16 import from_bfloat16
from nogpu.emulator.machine.sums import accumulate
from nogpu.errors import CompileError, ConfigError, EmulationError, NoGPUError, ShapeError
from tests.common import joined
from tests.test_hopper_compile import unspilled
from tools import fp8_on_a_gpu as tool

SMALL: dict[str, int] = {"BM": 128, "STAGES": 2, "SMS": 1}
"""A tile and a ring that few steps go round, and one block for all tiles."""


def blocks(M, N, K):
    """A and B, N(0, 1) with rows of different size, so that no scale stands for another."""
    rng = np.random.default_rng(M + N + K)
    A, B = rng.standard_normal((M, K)), rng.standard_normal((N, K))
    A *= 2.0 ** rng.integers(-9, 10, (M, 1))
    B *= 2.0 ** np.arange(K) // 128 % 3 + 1
    return fp8.scaled(A), fp8.scaled(B, fp8.BLOCK)


def wrong(C, A, B):
    """Elements of C beyond the tolerance; NaN always is."""
    apart = np.abs(from_bfloat16(C).astype(np.float64) - fp8.reference(A, B))
    return int(np.count_nonzero(~(apart <= fp8.tolerance(A, B))))


# -- rounding --------------------------------------------------------------------------------------


def test_values_are_those_of_the_specification():
    values = fp8.magnitudes()
    assert (np.diff(values) > 0).all()
    assert values[-1] == fp8.LARGEST == 1.75 * 2**8
    assert values[1] == 2.0**-9 and values[8] == 2.0**-6
    assert list(values[(values >= 1) & (values <= 2)]) == [1 + i / 8 for i in range(9)]


@pytest.mark.parametrize(("tall", "wide"), [(1, 128), (128, 128), (1, 1000), (7, 256)])
def test_every_block_has_a_scale_that_makes_its_largest_448(tall, wide):
    x = np.random.default_rng(0).standard_normal((130, 300)) * np.logspace(-3, 3, 300)
    q = fp8.scaled(x, tall, wide)
    assert q.bits.shape == (130, 304) and not q.bits[:, 300:].any() and q.scales.shape == (130, 3)
    for m in range(0, 130, tall):
        for k in range(0, 300, wide):
            block = np.abs(x[m : m + tall, k : k + wide])
            kept = np.abs(q.values()[m : m + tall, k : k + wide])
            assert kept.max() == pytest.approx(block.max(), rel=1e-6)
            scale = np.unique(q.scales[m : m + tall, k // 128 : -(-min(k + wide, 300) // 128)])
            assert scale == pytest.approx(block.max() / 448, rel=1e-6)
    inside = np.abs(x) > 2.0**-6 * np.repeat(q.scales, 128, axis=1)[:, :300]
    assert (np.abs(q.values() - x) <= np.abs(x) / 16 * 1.0001)[inside].all()


def test_a_block_of_zeros_and_what_has_no_scale():
    x = np.zeros((2, 200))
    x[1, 150] = 3
    assert fp8.scaled(x).values() == pytest.approx(x) and (fp8.unscaled(x).values() == x).all()
    assert (fp8.unscaled(np.array([[1e6, 2.0**-11]])).values() == [[448, 0]]).all()
    for bad, error, words in (
        (np.array([[np.nan]]), ConfigError, "NaN"),
        (np.zeros(3), ShapeError, "matrix"),
        (np.zeros((0, 3)), ShapeError, "at least one"),
    ):
        with pytest.raises(error, match=words):
            fp8.scaled(bad)
    with pytest.raises(ConfigError, match="multiple of 128"):
        fp8.scaled(x, 1, 100)


# -- the kernel ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "tile", "schedule"),
    [
        ((1, 1, 1), {}, "ascending"),
        ((130, 140, 300), SMALL, "ascending"),
        ((130, 140, 300), SMALL, "permuted"),
        ((257, 31, 129), {"STAGES": 2, "SMS": 1}, "permuted"),
        ((64, 9, 897), SMALL, "ascending"),
    ],
)
def test_it_is_right_and_clean(shape, tile, schedule):
    A, B = blocks(*shape)
    C, report = fp8.emulated(fp8.plan(A, B, **tile), A, B, schedule=schedule)
    assert report.findings == () and wrong(C, A, B) == 0


def twin(old, new):
    """The kernel's source with one thing wrong."""
    text = joined(fp8.KERNEL.source, "common/box_store.cuh")
    assert text.count(old) == 1, old
    return text.replace(old, new)


def finishing(does):
    """A, B and residual, bias and GELU, those of them that are named."""
    M, N = 130, 141
    rng = np.random.default_rng(M * N)
    A, B = tool.operands((M, N, 200))
    bias, residual = (
        tool.to_bfloat16(4 * rng.standard_normal(shape, dtype=np.float32)) if name in does else None
        for name, shape in (("bias", N), ("residual", (M, N)))
    )
    return fp8.scaled(A), fp8.scaled(B, fp8.BLOCK), End(bias, residual, "gelu" in does)


@pytest.mark.parametrize("does", ["bias", "residual", "gelu", "bias residual gelu"])
def test_sums_are_finished_as_they_should_be(does):
    A, B, end = finishing(does)
    C, report = fp8.emulated(fp8.plan(A, B, end, **SMALL), A, B, end)
    want, off = end.wanted(fp8.reference(A, B), fp8.tolerance(A, B))
    got = from_bfloat16(C).astype(np.float64)
    assert report.findings == () and (np.abs(got - want) <= off).all()
    assert np.array_equal(C, fp8.multiply(A, B, end, backend="emulator", **SMALL))
    other, off = fp8.PLAIN.wanted(fp8.reference(A, B), fp8.tolerance(A, B))
    assert not (np.abs(got - other) <= off).all(), "without it C is another"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("unpacked(r, j, Bf16())", "unpacked(r, 0, Bf16())"),
        ("unpacked(b, j, Bf16())", "unpacked(b, 0, Bf16())"),
        ("row0 + i / 2 % 2 * 8", "row0"),
        ("(N + 7) / 8 * 8", "N + N % 2"),
    ],
)
def test_a_wrong_end_is_told(old, new):
    A, B, end = finishing("bias residual")
    C, _ = fp8.emulated(fp8.plan(A, B, end, **SMALL), A, B, end, source=twin(old, new))
    want, off = end.wanted(fp8.reference(A, B), fp8.tolerance(A, B))
    assert not (np.abs(from_bfloat16(C) - want) <= off).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("const float scale[2] = {own.a[row + i * MMA_M] * b,", "const float scale[2] = {b,"),
        ("own.a[row + i * MMA_M + 8] * b}", "own.a[row + i * MMA_M] * b}"),
        ("own.b[step % B_AT_ONCE]", "own.b[0]"),
        ("sum[i] = fmaf(scale[i / 2 % 2], part[i], sum[i])", "sum[i] = scale[i / 2 % 2] * part[i]"),
        ("step % PROMOTE > 0", "step > 0"),
        ("tile.col * BN, step * BK / PAIR", "tile.col * BN, step * BK"),
    ],
)
def test_a_wrong_product_is_told(old, new):
    A, B = blocks(70, 9, 300)
    p = fp8.plan(A, B, **SMALL)
    C, _ = fp8.emulated(p, A, B, source=twin(old, new))
    assert wrong(C, A, B) > 0


def test_scales_in_each_others_place_are_told():
    A, B = blocks(70, 9, 300)
    C, _ = fp8.emulated(fp8.plan(A, B, **SMALL), A, B)
    turned = dataclasses.replace(A, scales=np.ascontiguousarray(A.scales[::-1]))
    assert wrong(C, A, B) == 0 < wrong(C, turned, B)


RACY = {
    "one thread speaks for its warpgroup": tables.with_one_arrival(),
    "no fence": twin("    tma_store_fence();\n", ""),
    "C is not awaited": twin("            tma_store_wait_read<C_BUFFERS - 1>();\n", ""),
}


@pytest.mark.parametrize("source", RACY.values(), ids=RACY)
def test_what_is_not_waited_for_is_a_race(source):
    A, B = blocks(70, 70, 400)
    _, report = fp8.emulated(fp8.plan(A, B, **SMALL), A, B, source=source)
    assert "race" in {f.kind for f in report.findings}


def test_promotion_is_worth_what_the_record_says():
    """The kernel's error with sums of either kind is that of a GPU, at the smallest K that shows."""
    A, B = (x[:128] for x in tool.operands((256, 256, 512), positive=True))
    a, b = fp8.scaled(A, 1, 512), fp8.scaled(B, 128, 512)
    exact = fp8.reference(a, b)
    off = {}
    for name, stages in (("promoted", 1), ("never", 4)):
        p = fp8.plan(a, b, BM=128, STAGES=2, PROMOTE=stages)
        C, report = fp8.emulated(p, a, b)
        assert report.findings == ()
        off[name] = tables.distance(from_bfloat16(C).astype(np.float64), exact)
    [row] = [r for r in tables.promotion() if (r["k"], r["data"]) == (512, "uniform")]
    assert off["never"] > 2 * off["promoted"]
    for name, error in off.items():
        assert error == pytest.approx(row[name], rel=0.1)


def test_sums_are_those_of_the_tensor_core_promoted_by_hand():
    """To the bit: four instructions a block, from zero, then one multiply-add of FP32."""
    A, B = blocks(64, 9, 300)
    C, _ = fp8.emulated(fp8.plan(A, B, **SMALL), A, B)
    a, b = (np.pad(dataclasses.replace(m, scales=np.ones_like(m.scales)).values(),
                   ((0, 0), (0, -300 % 128))) for m in (A, B))  # fmt: skip
    total = np.zeros((64, 9), np.float32)
    for block in range(3):
        part = np.zeros((64, 9))
        for k in range(128 * block, 128 * block + 128, 32):
            step = slice(k, k + 32)
            part = accumulate(a[:, step], b[:, step].T, part, ("f32", "e4m3"), asynchronous=True)
        scale = A.scales[:, block, None] * B.scales[:, block]
        exact = scale.astype(np.float64) * part + total  # exact but for the last bits of float64
        total = exact.astype(np.float32)
    assert np.array_equal(C, tool.to_bfloat16(total))


# -- the launch ------------------------------------------------------------------------------------


def test_a_launch_that_cannot_be_right_is_refused():
    A, B = blocks(130, 140, 300)
    rng = np.random.default_rng(0)
    with pytest.raises(ShapeError, match="same K"):
        fp8.plan(A, fp8.scaled(rng.random((5, 299)), 128))
    with pytest.raises(ConfigError, match=r"scaled\(B, 128\)"):
        fp8.plan(A, fp8.scaled(rng.standard_normal((140, 300))))
    with pytest.raises(ConfigError, match="PROMOTE=2"):
        fp8.plan(A, B, BM=128, PROMOTE=2)


@pytest.mark.parametrize("params", [{"BM": 64}, {"STAGES": 1}, {"STAGES": 5}, {"PROMOTE": 2}])
def test_catalog_and_source_have_the_rules(params):
    with pytest.raises(ConfigError, match="breaks the rule"):
        fp8.plan(*blocks(130, 140, 300), **params)
    tile = {name: str(size) for name, size in {**fp8.KERNEL.params, **params}.items()}
    with pytest.raises(CompileError, match="static assertion"):
        toolchain.ptx(fp8.KERNEL.source, name="22_fp8.cu", arch="sm_90a", defines=tile)


def test_multiply_runs_where_it_can():
    A, B = blocks(5, 9, 130)
    C = fp8.multiply(A, B, backend=None, **SMALL)
    assert C.shape == (5, 9) and C.dtype == np.uint16 and wrong(C, A, B) == 0
    with pytest.raises(NoGPUError):
        fp8.multiply(A, B, backend="cuda")


def test_multiply_refuses_faults(monkeypatch):
    A, B = blocks(70, 9, 400)
    monkeypatch.setattr(fp8, "KERNEL", fp8.KERNEL.with_source(tables.with_one_arrival()))
    with pytest.raises(EmulationError, match="race"):
        fp8.multiply(A, B, backend="emulator", **SMALL)


@pytest.mark.parametrize("rows", [128, 256])
def test_no_register_is_spilled_and_products_are_those_of_eight_bits(rows):
    built = unspilled(fp8.KERNEL, {"BM": rows})
    if toolchain.has_tool("cuobjdump") or toolchain.has_tool("nvdisasm"):
        sass = toolchain.sass(built.cubin)
        assert sass.count("QGMMA.64x128x32") == 4 * rows // 128
        assert "UTMALDG" in sass and "UBLKCP" in sass and "UTMASTG" in sass
        assert "LDG" not in sass.replace("UTMALDG", ""), "no thread loads from global memory"


# -- the record ------------------------------------------------------------------------------------


def test_the_record_is_of_the_cases_of_its_tool():
    kept = tables.record()
    assert kept["command"] == "python -m tools.fp8_on_a_gpu"
    launched = [((r["m"], r["n"], r["k"]), r["params"]) for r in kept["shapes"]]
    assert launched == [(shape, tile) for shape in tool.SHAPES for tile in tool.TILES]
    assert {(r["m"], r["n"], r["k"]) for r in kept["times"]} == set(tool.SIZES)
    assert {r["k"] for r in tables.promotion()} == set(tool.DEPTHS)
    for row in kept["times"]:
        rate = 2 * row["m"] * row["n"] * row["k"] / row["ms"] / 1e9
        assert row["tflops"] == pytest.approx(rate) and row["q1"] <= row["ms"] <= row["q3"]
    assert set(kept["sanitizer"]) == {"memcheck", "racecheck", "synccheck", "initcheck"}
