"""The emulator's counts against the hardware counters in the record, launch by launch."""

from functools import cache

import pytest

from helpers import instruction_mix, trace
from helpers.measuring import agree, fingerprint, load
from helpers.rungs import catalog

RECORDED = load("h200").counters
ENTRIES = agree.comparable(RECORDED)
PLAIN = [e for e in ENTRIES if not agree.on_tensor_cores(e["kernel"])]
"""Launches of kernels without Tensor Cores: of these every access is one that the source names."""


def difference(ours, values):
    """Names of global counters in which the emulator and these hardware values differ."""
    return {name for name in ours if name.startswith("global") and ours[name] != values[name]}


@cache
def counted(index):
    return agree.emulated(PLAIN[index])


def name(entry):
    return f"{entry['kernel']}-{entry['m']}x{entry['n']}x{entry['k']}"


EACH = pytest.mark.parametrize("index", range(len(PLAIN)), ids=[name(e) for e in PLAIN])


@EACH
def test_global_requests_and_sectors_equal_ncu(index):
    assert not difference(counted(index), PLAIN[index]["values"])


def test_the_comparison_sees_a_wrong_sector():
    right = PLAIN[0]["values"]
    wrong = dict(right, global_load_sectors=right["global_load_sectors"] + 1)
    assert difference(counted(0), wrong) == {"global_load_sectors"}


@EACH
def test_shared_wavefronts_equal_ncu_or_the_assembler_joined_reads(index):
    entry = PLAIN[index]
    ours = counted(index)["shared_load_wavefronts"]
    theirs = entry["values"]["shared_load_wavefronts"]
    if 0 <= theirs - ours <= agree.extra(entry["kernel"], ours):
        return
    t = trace(entry["kernel"], entry["m"], entry["n"], entry["k"])
    loads = [r for r in t.by_line() if r.space == "shared" and r.op == "load"]
    widest = max(r.width_bytes for r in loads)
    joined = [op for op in instruction_mix(entry["kernel"], arch="sm_90") if op.startswith("LDS.")]
    assert theirs < ours and widest == 4 and joined


def test_more_wavefronts_than_loads_make_are_allowed_with_asynchronous_copies_alone():
    assert agree.extra("cp_async", 12288) == 12 and agree.extra("fp32_best", 5) == 1
    assert agree.extra("double_buffer", 12288) == agree.extra("tiled_32", 5) == 0


def test_both_whole_and_ragged_shapes_are_compared():
    shapes = {(e["m"], e["n"], e["k"]) for e in PLAIN}
    assert any(all(n % 32 == 0 for n in shape) for shape in shapes)
    assert any(all(n % 2 for n in shape) for shape in shapes)
    assert len({e["kernel"] for e in PLAIN}) >= 20


def test_what_is_compared_is_what_is_recorded_small_and_of_todays_code():
    entry = dict(PLAIN[0])
    other = dict(entry, m=70, n=90, k=50)  # a shape that nobody listed
    assert agree.comparable([other]) == [other]
    for left_out in ({"m": 1024, "n": 1024, "k": 1024}, {"source": "0"}, {"kernel": "gone"}):
        assert agree.comparable([{**entry, **left_out}]) == []
    assert len(ENTRIES) < len(RECORDED)


def test_the_page_sums_up_the_same_comparison():
    entries = [e for e in PLAIN if e["kernel"] in ("naive", "tiled_32")]
    found = agree.compare(entries)
    assert found.launches == found.equal == len(entries)
    by_kernel = {row["kernel"]: row for row in found.rows}
    assert by_kernel["naive"]["launches"] >= 2
    for what in ("requests", "sectors"):
        theirs = sum(
            e["values"][f"global_{op}_{what}"]
            for e in entries
            for op in ("load", "store")
            if e["kernel"] == "naive"
        )
        assert by_kernel["naive"][what] == by_kernel["naive"][f"hardware_{what}"] == theirs
    assert [row["kernel"] for row in found.shared] == ["tiled_32"]  # joined by the assembler
    assert found.shared[0]["theirs"] < found.shared[0]["ours"]
    assert found.differ == found.shared[0]["launches"]
    assert agree.compare(entries, tensor=True).rows == ()


def test_the_page_says_where_the_hardware_counts_something_else():
    values = dict(PLAIN[0]["values"])
    values["global_load_sectors"] += 8
    found = agree.compare([{**PLAIN[0], "values": values}])
    assert (found.launches, found.equal) == (1, 0)
    assert found.rows[0]["hardware_sectors"] - found.rows[0]["sectors"] == 8


def test_tensor_cores_are_compared_when_they_are_recorded():
    entry = dict(PLAIN[0], kernel="mma_naive", source=fingerprint("mma_naive"))
    entry["params"] = dict(catalog["mma_naive"].params)
    found = agree.compare([entry], tensor=True)
    assert [row["kernel"] for row in found.rows] == ["mma_naive"]
    assert agree.compare([entry]).rows == ()
