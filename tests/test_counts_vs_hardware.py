"""The emulator's counts against the hardware counters in the record, launch by launch."""

import pytest

from helpers import instruction_mix, trace
from helpers.measure import load

SMALL = 100
ENTRIES = [e for e in load("h200").counters if max(e["m"], e["n"], e["k"]) <= SMALL]


def difference(entry, values):
    """Names of global counters in which a trace and these hardware values differ."""
    t = trace(entry["kernel"], entry["m"], entry["n"], entry["k"])
    ours = {
        "global_load_requests": t.requests("global"),
        "global_load_sectors": t.sectors(),
        "global_store_requests": t.requests("global", "store"),
        "global_store_sectors": t.sectors("store"),
    }
    return {name for name in ours if ours[name] != values[name]}


def name(entry):
    return f"{entry['kernel']}-{entry['m']}x{entry['n']}x{entry['k']}"


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_global_requests_and_sectors_equal_ncu(entry):
    assert not difference(entry, entry["values"])


def test_the_comparison_sees_a_wrong_sector():
    entry = ENTRIES[0]
    wrong = dict(entry["values"], global_load_sectors=entry["values"]["global_load_sectors"] + 1)
    assert difference(entry, wrong) == {"global_load_sectors"}


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_shared_wavefronts_equal_ncu_or_the_assembler_joined_reads(entry):
    t = trace(entry["kernel"], entry["m"], entry["n"], entry["k"])
    loads = [r for r in t.by_line() if r.space == "shared" and r.op == "load"]
    ours, theirs = sum(r.wavefronts for r in loads), entry["values"]["shared_load_wavefronts"]
    if abs(ours - theirs) <= 1:  # ncu counts one more in a launch with asynchronous copies
        return
    widest = max(r.width_bytes for r in loads)
    joined = [op for op in instruction_mix(entry["kernel"], arch="sm_90") if op.startswith("LDS.")]
    assert theirs < ours and widest == 4 and joined


def test_both_a_whole_and_a_ragged_shape_are_compared():
    assert {(e["m"], e["n"], e["k"]) for e in ENTRIES} >= {(64, 64, 64), (65, 33, 17)}
    assert len({e["kernel"] for e in ENTRIES}) >= 20
