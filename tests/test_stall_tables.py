"""Tables of what warps wait for: of every kernel that is recorded, true of the code it runs."""

from __future__ import annotations

import re

import pytest

from helpers import catalog, instruction_mix
from helpers.page.notes import BUSY, REASONS, stall_note
from helpers.record import load, stalls

RECORDED = [e["kernel"] for e in load("h200").data["stalls"]]


def rows(kernel):
    """The table of one kernel: words and number of each line."""
    found = {}
    for line in repr(stall_note([kernel])).splitlines()[2:]:
        if match := re.fullmatch(r"(.*\S)\s{2,}(-?[\d.]+)", line):
            found[match[1]] = float(match[2])
    return found


def test_every_kernel_that_multiplies_in_floating_point_is_recorded():
    floating = {name for name, kernel in catalog.items() if kernel.dtype != "int32"}
    assert floating <= set(RECORDED)


@pytest.mark.parametrize("kernel", RECORDED)
def test_a_table_shows_the_units_that_the_code_uses(kernel):
    arch = "sm_90a" if catalog[kernel].min_arch == "sm_90a" else "sm_90"
    mix = instruction_mix(kernel, arch)
    shown = rows(kernel)
    tensor = any(op.startswith(("HMMA", "HGMMA")) for op in mix)
    assert ("busy (%): Tensor Cores" in shown) == tensor
    if "FFMA" in mix:  # the unit that the kernel is made for
        assert shown["busy (%): FMA pipe"] > 0
    for words in BUSY:
        assert 0 <= shown.get(words, 0) <= 100


def test_tensor_cores_have_a_dash_beside_a_kernel_without_them():
    """ncu's counter reads up to one percent in kernels without a single tensor instruction."""
    [line] = re.findall("(?m)^.*Tensor C.*$", repr(stall_note(["naive", "wmma"])))
    none, percent = line.split()[-2:]
    assert none == "–" and float(percent) > 1


@pytest.mark.parametrize("kernel", RECORDED)
def test_a_warps_time_is_shown_whole(kernel):
    shown = rows(kernel)
    shares = {words: shown[words] for words in (*REASONS, "other reasons") if words in shown}
    assert sum(shares.values()) == pytest.approx(
        100, abs=0.5 * (len(REASONS) + 2 - len(shares)) + 1
    )
    [row] = stalls(kernel)
    for words, reasons in REASONS.items():
        value = sum(row["waits"].get(r, 0.0) for r in reasons)
        assert (words in shown) == (value >= 0.5)
        assert shown.get(words, value) == pytest.approx(value, abs=0.051)


def test_what_no_row_shows_would_be_missed():
    """The wrong twin: with a reason left out of the words, it must land in the other reasons."""
    [row] = stalls("naive")
    every = {r for reasons in REASONS.values() for r in reasons}
    rest = sum(v for r, v in row["waits"].items() if r not in every)
    assert rows("naive").get("other reasons", 0.0) == pytest.approx(rest, abs=0.51)
