"""The emulator's counts against the hardware counters in the record, launch by launch."""

from dataclasses import replace
from functools import cache

import pytest

from helpers import instruction_mix
from helpers.ladder.rungs import catalog
from helpers.record import agree, fingerprint, load

RECORDED = load("h200").counters
ENTRIES = agree.comparable(RECORDED)
PLAIN = [e for e in ENTRIES if not agree.on_tensor_cores(e["kernel"])]
"""Launches of kernels without Tensor Cores: of these every access is one that the source names."""


def difference(ours, values):
    """Names of global counters in which the emulator and these hardware values differ."""
    return {name for name in ours if name.startswith("global") and ours[name] != values[name]}


ARCH = load("h200").gpu["arch"]
"""The machine code that the hardware counters are of is this one's."""


@cache
def counted(index):
    return agree.emulated(PLAIN[index], ARCH)


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


def copies_asynchronously(kernel):
    """Whether ncu counts otherwise: copies as shared loads, their words as no wavefronts of stores,
    and a few wavefronts of loads more than the loads make."""
    return agree.extra(kernel, 0) > 0


THIN = 0.005
"""Share of wavefronts that ncu may count beyond those of a thin kernel's loads."""


@EACH
def test_shared_loads_of_the_machine_code_equal_ncu(index):
    kernel, theirs = PLAIN[index]["kernel"], PLAIN[index]["values"]
    ours = counted(index)
    if copies_asynchronously(kernel):
        waves = ours["sass_load_wavefronts"]
        assert 0 <= theirs["shared_load_wavefronts"] - waves <= agree.extra(kernel, waves)
        return
    more = theirs["shared_load_wavefronts"] - ours["sass_load_wavefronts"]
    # In thin kernels ncu counts a few more; the page says so, and that it is not known why.
    assert more == 0 or (
        kernel.startswith("thin_") and 0 < more < THIN * ours["sass_load_wavefronts"]
    )
    assert ours["sass_load_requests"] == theirs["shared_load_instructions"]


@EACH
def test_shared_stores_equal_ncu(index):
    kernel, theirs = PLAIN[index]["kernel"], PLAIN[index]["values"]
    if not copies_asynchronously(kernel):
        assert counted(index)["shared_store_wavefronts"] == theirs["shared_store_wavefronts"]


def test_the_ptx_has_more_wavefronts_than_the_hardware_where_reads_are_joined():
    """The twin of the test above: without the machine code these launches would differ."""
    word = "shared_load_wavefronts"
    rows = [(e, counted(index)[word]) for index, e in enumerate(PLAIN)]
    joined = {e["kernel"] for e, ours in rows if ours > e["values"][word]}
    assert {"tiled_16", "tiled_32", "tiled_rect", "block_1d", "block_2d"} <= joined
    assert not {"vectorised", "prefetch", "double_buffer", "warp_tiled", "cp_async"} & joined
    for kernel in joined:
        mix = instruction_mix(kernel, arch=ARCH)
        assert {"LDS.64", "LDS.128"} & set(mix)


def test_ptx_for_the_oldest_gpu_counts_the_same():
    """Chapters trace a kernel for the oldest GPU that it runs on."""
    shape = {e["kernel"]: i for i, e in enumerate(PLAIN) if e["m"] % 2}  # one ragged shape of each
    for index in shape.values():
        ours = counted(index)
        assert agree.emulated(PLAIN[index]) == {
            n: c for n, c in ours.items() if n not in agree.MACHINE
        }


def test_more_wavefronts_than_loads_make_are_allowed_with_asynchronous_copies_alone():
    assert agree.extra("cp_async", 12288) == 12 and agree.extra("fp32_best", 5) == 1
    assert agree.extra("double_buffer", 12288) == agree.extra("tiled_32", 5) == 0


def test_both_whole_and_ragged_shapes_are_compared():
    shapes = {(e["m"], e["n"], e["k"]) for e in PLAIN}
    assert any(all(n % 32 == 0 for n in shape) for shape in shapes)
    assert any(all(n % 2 for n in shape) for shape in shapes)
    assert len({e["kernel"] for e in PLAIN}) >= 20


def test_what_is_compared_is_what_is_recorded_small_and_of_todays_code():
    entry = PLAIN[0]
    other = replace(entry, m=70, n=90, k=50)  # a shape that nobody listed
    assert agree.comparable([other]) == [other]
    for left_out in ({"m": 1024, "n": 1024, "k": 1024}, {"source": "0"}, {"kernel": "gone"}):
        assert agree.comparable([replace(entry, **left_out)]) == []
    assert len(ENTRIES) < len(RECORDED)


def test_the_page_sums_up_the_same_comparison():
    entries = [e for e in PLAIN if e["kernel"] in ("naive", "tiled_32")]
    found = agree.compare(entries, arch=ARCH)
    assert found.launches == found.equal == found.agree == len(entries)
    by_kernel = {row["kernel"]: row for row in found.rows}
    assert by_kernel["naive"]["launches"] >= 2
    for what in ("requests", "sectors"):
        naive = [e["values"] for e in entries if e["kernel"] == "naive"]
        theirs = sum(v[f"global_{op}_{what}"] for v in naive for op in ("load", "store"))
        assert by_kernel["naive"][what] == by_kernel["naive"][f"hardware_{what}"] == theirs
    assert [row["kernel"] for row in found.shared] == ["tiled_32"]  # joined by the assembler
    assert found.shared[0]["theirs"] == found.shared[0]["machine"] < found.shared[0]["ours"]
    assert found.differ == found.shared[0]["launches"]
    plain = agree.compare(entries[:1], tensor=True)
    assert plain.rows == () and plain.agree is None


def test_the_page_says_where_the_hardware_counts_something_else():
    entry = next(e for e in PLAIN if e["kernel"] == "tiled_32")
    more = dict(entry["values"])
    more["shared_load_wavefronts"] += 1
    more["global_load_sectors"] += 8
    right, wrong = (agree.compare([e], arch=ARCH) for e in (entry, replace(entry, values=more)))
    assert (right.equal, right.agree) == (1, 1)
    assert (wrong.launches, wrong.equal, wrong.agree) == (1, 0, 0)
    assert wrong.rows[0]["hardware_sectors"] - wrong.rows[0]["sectors"] == 8


def test_tensor_cores_are_compared_when_they_are_recorded():
    params = dict(catalog["mma_naive"].params)
    entry = replace(PLAIN[0], kernel="mma_naive", source=fingerprint("mma_naive"), params=params)
    found = agree.compare([entry], tensor=True)
    assert [row["kernel"] for row in found.rows] == ["mma_naive"]
    assert agree.compare([entry]).rows == ()
