"""The documents' numbers: complete by section, consistent with each other, or noted where not."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from helpers.ladder.rungs import catalog
from helpers.record import published
from helpers.record.documents import COLUMNS, KINDS
from helpers.record.gpu import BASELINES
from nogpu import device
from nogpu.errors import DataError

ROWS = published()
KEY = ("document", "section", "kernel", "m", "n", "k", "block")


def value(**wanted):
    """The one number with these column values."""
    found = published(**wanted)
    assert len(found) == 1, (wanted, found)
    return float(found[0]["value"])


def printed_number(row):
    """The number as the document prints it."""
    text = row["printed"].strip("~<>=").replace(" ", "")
    return float(1 << 20) if text == "1<<20" else float(text)


def decimals(row):
    """Digits after the point in the document."""
    return len(row["printed"].partition(".")[2])


def test_rows_are_picked_by_column_and_are_the_callers_own():
    assert {r["document"] for r in ROWS} == set("LBNSP")
    assert not published(document="N", kind="measured")
    assert [r["document"] for r in published(document="B")] == ["B"] * 3
    with pytest.raises(DataError, match="no column 'doc'"):
        published(doc="B")
    published()[0]["value"] = -1.0
    assert published()[0]["value"] != -1.0


def test_rows_are_well_formed():
    rungs = {*catalog, *BASELINES, "cpu_ijk"}
    first_climb = {"naive", "coalesced", "naive_int", "coalesced_int", "tiled_16", "tiled_32"}
    for row in ROWS:
        assert tuple(row) == COLUMNS
        assert row["kind"] in KINDS and row["metric"] and row["unit"], row
        assert math.isfinite(float(row["value"])), row
        assert row["gpu"] in {*device.GPUS, "cpu", "unnamed_14sm", ""}, row
        assert (row["m"] is None) == (row["n"] is None) == (row["k"] is None), row
    assert first_climb <= {r["rung"] for r in ROWS} & rungs
    named = [tuple(r[c] for c in (*KEY, "rung", "metric", "printed")) for r in ROWS]
    assert len(set(named)) == len(named)


def test_values_are_the_printed_ones_or_a_note_says_why_not():
    for row in ROWS:
        if row["printed"] == "thousands of folds":
            continue
        same = float(row["value"]) == pytest.approx(printed_number(row), rel=1e-9)
        assert same or "can only be microseconds" in str(row["note"]), row


def agree(time, rate):
    """Whether a time and a rate tie with 2 M N K operations, within their last printed digits."""
    ops = 2.0 * time["m"] * time["n"] * time["k"]
    half, slack = 0.5 * 10.0 ** -decimals(time), 0.5 * 10.0 ** -decimals(rate)
    least, most = (ops / (float(time["value"]) + sign * half) / 1e6 for sign in (1, -1))
    return least - slack <= float(rate["value"]) <= most + slack


def test_times_and_rates_agree_within_the_last_printed_digit():
    rates = {tuple(r[c] for c in KEY): r for r in ROWS if r["metric"] == "gflops"}
    timed = [(row, tuple(row[c] for c in KEY)) for row in ROWS if row["metric"] == "time_kernel"]
    pairs = [(row, rates[key]) for row, key in timed if key in rates]
    assert len(pairs) == 2 + 42  # L's two and S's seven tables of six
    for time, rate in pairs:
        assert agree(time, rate), (time, rate)
        assert not agree(time, {**rate, "value": 1.02 * float(rate["value"])})
        assert not agree({**time, "m": 2 * time["m"]}, rate)


@pytest.mark.parametrize("kernel", ["MatmulXrow", "MatmulYrow"])
def test_size_and_totals_of_document_l_follow_from_its_rates_and_parts(kernel):
    section = "2. MatmulXrow vs MatmulYrow (Float)"
    h2d, ms, d2h = (
        value(document="L", kernel=kernel, metric=f"time_{part}")
        for part in ("h2d", "kernel", "d2h")
    )
    rate, total = (
        value(document="L", kernel=kernel, metric=metric, section=section)
        for metric in ("gflops", "time_total")
    )
    assert (rate * 1e9 * ms * 1e-3 / 2) ** (1 / 3) == pytest.approx(8192, rel=1e-4)
    assert total == pytest.approx(h2d + ms + d2h, abs=0.02)


GFLOPS_L = {
    r["rung"]: float(r["value"]) for r in ROWS if r["document"] == "L" and r["metric"] == "gflops"
}
BASES = {
    "MatmulYrow": "coalesced", "Block Tiling 32x32": "tiled_32", "Block Tiling 16x16": "tiled_16",
    "warp tiling": "warp_tiled", "2D block tiling": "block_2d", "MatmulXrow": "naive",
}  # fmt: skip


def follows(row):
    """Whether a speedup of document L is that of its rates, as its note says against which."""
    note, base = str(row["note"]), GFLOPS_L[row["rung"]]
    if "against itself" not in note:
        base = GFLOPS_L[next(rung for name, rung in BASES.items() if f"against {name}" in note)]
    slack = 0.5 * 10.0 ** -decimals(row)
    low = float(row["value"]) - slack * ("cut, not rounded" not in note)
    return low - 1e-9 <= GFLOPS_L[row["rung"]] / base <= low + 2 * slack + 1e-9


def test_speedups_of_document_l_follow_from_its_rates():
    speedups = published(document="L", metric="speedup")
    assert len(speedups) == 23
    for row in speedups:
        assert follows(row), row
        assert not follows({**row, "value": 1.2 * float(row["value"])}), row


def test_intensities_of_document_l_are_what_the_notes_derive():
    k, warp = 8192, 32
    coalesced = 2 * warp * k / (4 * (warp + 1) * k + 4 * warp)
    tiled = 2 * 32**3 * (k // 32) / (2 * 32 * 32 * 4 * (k // 32) + 32 * 32 * 4)
    printed = [r["value"] for r in published(document="L", metric="intensity")]
    assert printed[0] == pytest.approx(coalesced, abs=5e-6)
    assert printed[2] == pytest.approx(tiled, abs=5e-5)
    predicted = value(document="L", metric="predicted_speedup")
    assert predicted == pytest.approx(tiled / coalesced, abs=0.05)


def test_the_ridge_of_document_l_contradicts_its_own_rows():
    peak, bandwidth = value(document="L", metric="peak"), value(document="L", metric="bandwidth")
    ridge = published(document="L", metric="ridge")[0]
    assert abs(peak * 1e3 / bandwidth - float(ridge["value"])) > 2
    assert "does not follow" in str(ridge["note"])


def test_the_times_of_document_p_are_possible_only_as_microseconds():
    times = [r for r in published(document="P") if str(r["metric"]).startswith("time_")]
    assert len(times) == 10 and len(published(document="P", kind="measured")) == 19
    for row in times:
        assert row["printed_unit"] == row["unit"] == "ms"
        assert float(row["value"]) * 1e3 == pytest.approx(printed_number(row))
        assert "can only be microseconds" in str(row["note"])
        ops = 2.0 * row["m"] ** 3
        as_read = ops / float(row["value"]) / 1e6
        as_printed = as_read / 1e3
        if row["gpu"] == "cpu":
            assert as_printed < 0.01 < 0.1 < as_read < 10
        else:
            peak = device.gpu("rtx4090").fp32_peak_gflops
            assert as_printed < peak / 10_000
            assert peak / 100 < as_read < peak


def test_rates_stay_below_the_peak_of_their_gpu():
    for row in ROWS:
        if row["metric"] != "gflops" or row["gpu"] not in device.GPUS:
            continue
        gpu = device.gpu(str(row["gpu"]))
        tensor = "cuBLAS mixed" in str(row["kernel"]) or row["kernel"] == "TensorCore"
        peak = gpu.fp16_tensor_peak_gflops if tensor else gpu.fp32_peak_gflops
        assert float(row["value"]) < peak, row


def test_time_of_document_s_grows_cubically_not_quadratically():
    for block in ("16x16", "32x32"):
        fields = {"document": "S", "kernel": "V1 baseline", "metric": "time_kernel", "block": block}
        ms = [value(**fields, m=m) for m in (512, 1024, 2048)]
        assert all(7 < b / a < 9 for a, b in pairwise(ms))
