"""Shared accesses of the machine code: which accesses of the PTX ptxas joined, what they count."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import trace
from nogpu import emulator, toolchain
from nogpu.emulator.launching import vectorized
from nogpu.emulator.launching.vectorized import Piece, spans
from nogpu.emulator.ptx import syntax
from nogpu.emulator.ptx.bases import Place, places
from nogpu.errors import ConfigError, ToolchainError
from tests import joined_kernels
from tests.joined_kernels import SUBJECTS

ARCH = "sm_90"


def at(*offsets, base=0, width=4, line=7, step=0, first=0, op="load"):
    """Places of one base at these offsets."""
    key = (op, 0, None, ((base, 1),))
    return [Place(first + i, op, key, o, width, line, step) for i, o in enumerate(offsets)]


def of(*offsets, base="R1", width=4, line=7, op="load"):
    """Pieces of machine code of one base at these offsets."""
    return [Piece(op, base, o, width, line) for o in offsets]


def found(places, pieces):
    """Bytes of the access that begins with each place; with those before it, if there are any."""
    got = [spans(places, pieces).get(p.instruction) for p in places]
    return [s and (tuple(s) if s.before else s.width) for s in got]


def test_what_the_machine_code_does_not_show_is_not_guessed():
    assert found(at(0, 4, 8), of(0, width=8)) == [None] * 3
    assert found(at(0, 4), of(0, width=8, op="store")) == [None, None]
    assert found(at(0), []) == found(at(0, width=8), of(0, 4)) == [None]
    # a loop's, of which none is there
    assert found(at(0, 4, step=8), of(0, 4, line=9, op="store")) == [None] * 2


def test_a_wide_load_may_read_what_nobody_asked_for():
    assert found(at(0, 12), of(0, width=16)) == [16, 0]
    rows = at(0, 4, 12, 16, 24, 28)  # of two words and a padding
    assert found(rows, of(0, 16, width=16)) == [16, 0, 0, 16, 0, 0]
    assert found(at(4, 8, 12), [*of(-4, width=16), *of(12)]) == [None] * 3  # not where it may end
    assert found(at(0, 8, 36, 40), of(0, 32, width=16)) == [16, 0, (16, 4), 0]
    stores = at(0, 4, 12, op="store")
    assert found(stores, of(0, width=16, op="store")) == [None] * 3
    # a piece that fits exactly goes before, but one line with two kinds of copies is not clear
    assert found(at(0, 4), [*of(0, width=16, base="R9"), *of(0, width=8)]) == [None] * 2
    assert found(at(0, 4), [*of(0, width=16, base="R9", line=8), *of(0, width=8)]) == [8, 0]


def test_copies_of_a_loop_are_all_joined_alike_or_nothing_is_said():
    places = at(0, 4, 8, 12)
    assert found(places, [*of(0, width=16), *of(64, 128, width=16)]) == [16, 0, 0, 0]
    assert found(places, [*of(0, width=16), *of(64, 72, width=8)]) == [None] * 4
    other = of(64, 72, width=8, line=8)  # of another line
    assert found(places, [*of(0, width=16), *other]) == [16, 0, 0, 0]
    mixed = [*of(0, width=8), *of(8, 12), *of(64, width=8), *of(72, 76)]
    assert found(places, mixed) == [8, 0, 4, 4]
    assert found(places, [*mixed, *of(80)]) == [None] * 4


def test_runs_of_one_base_may_have_bases_of_their_own_in_the_machine_code():
    places = at(0, 4, 512, 516, 520, 524, 1024, 1028)
    pieces = [*of(0, base="R2", width=8), *of(0, base="R3", width=16), *of(0, base="R4", width=8)]
    assert found(places, pieces) == [8, 0, 16, 0, 0, 0, 8, 0]
    # a run that was found is free for others where another run was not
    other = [*of(0), *of(0, base="R2", width=8, line=8)]
    assert found([*at(0, 512), *at(0, base=1, first=2)], other) == [None, None, 4]


def test_of_what_begins_at_one_place_the_nearest_is_taken():
    """One of the same line, then one that fills nothing else, then the widest; each but once."""
    narrow, wide = of(0, 4), of(0, width=8, line=8)
    for pieces in ([*narrow, *wide], [*wide, *narrow]):
        assert found(at(0, 4), pieces) == [4, 4]
        assert found(at(0, 4, line=8), pieces) == [8, 0]
        assert found(at(0, 4, line=9), pieces) == [8, 0]
        assert found(at(0, line=9), pieces) == [4]
    for base in (0, 1):
        twice = [*at(0, 4), *at(0, 4, base=base, first=2)]
        assert found(twice, [*of(0, width=8), *of(64, 68, base="R2")]) == [8, 0, 4, 4]
    mixed = [*at(0, 4), *at(8, width=8, first=2)]
    assert found(mixed, of(0, width=16)) == [16, 0, 0]
    assert found(mixed, [*of(0), *of(4, 12, width=8)]) == [None] * 3


ACCESSES = st.lists(
    st.tuples(st.sampled_from((4, 8, 16)), st.sampled_from((0, 4, 16))), min_size=1, max_size=5
)  # bytes of an access of the machine code, and those that nobody reads before the next
BASES = st.lists(
    st.tuples(st.sampled_from(("load", "store")), ACCESSES, st.integers(-64, 64), st.booleans()),
    min_size=1,
    max_size=3,
)


@settings(max_examples=50, deadline=None)
@given(BASES, st.randoms(use_true_random=False))
def test_what_was_joined_on_a_line_of_its_own_is_found(bases, random):
    """Wherever the machine code has its base, once or in two copies of a loop."""
    read, code, want = [], [], {}
    for number, (op, accesses, shift, copied) in enumerate(bases):
        offset = 0
        for width, gap in accesses:
            words = at(*range(offset, offset + width, 4), base=number, line=number, op=op)
            read += [replace(place, instruction=len(read) + i) for i, place in enumerate(words)]
            want |= {len(read) - len(words) + i: 0 if i else width for i in range(len(words))}
            for base in ("R", "C") if copied else ("R",):
                code += of(offset + shift, base=f"{base}{number}", width=width, line=number, op=op)
            offset += width + gap
    random.shuffle(read)
    random.shuffle(code)
    assert found(read, code) == [want[place.instruction] for place in read]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.sampled_from((8, 16)), st.integers(1, 3), st.integers(0, 7))
def test_rounds_of_an_unrolled_loop_are_found_wherever_they_begin(words, width, times, base):
    """Each round writes a few words, and all rounds together fill whole accesses."""
    rounds = times * width // 4
    code = of(*range(base, base + rounds * words * 4, width), width=width, op="store")
    loop = at(*range(0, words * 4, 4), step=words * 4, op="store")
    starts = [any((i + words * r) * 4 % width == 0 for r in range(rounds)) for i in range(words)]
    assert found(loop, code) == [width if starting else 0 for starting in starts]
    last = code.pop().offset
    code += of(*range(last, last + width, 4), op="store")
    if words < 3:  # three words may be those of one round in two accesses
        assert found(loop, code) == ([4] if words == times == 1 else [None] * words)


# Instructions, and by base and offset (bytes) what `ld` and `st` behind them touch: (a), then (b) ...
SUMS = {
    "add.s32 b, a, 8; sub.s32 c, a, 4; add.s32 d, b, -3;": "0+0 0+8 0-4 0+5",
    "add.s32 c, a, b; add.s32 d, b, a;": "0+0 1+0 2+0 2+0",
    "sub.s32 c, a, b; add.s32 d, c, b;": "0+0 1+0 2+0 0+0",
    "shl.b32 b, a, 2; mul.lo.s32 c, a, 4; mul.lo.s32 d, 4, a;": "0+0 1+0 1+0 1+0",
    "mad.lo.s32 c, a, 4, b; shl.b32 d, a, 2; add.s32 d, d, b;": "0+0 1+0 2+0 2+0",
    "mad.lo.s32 c, 3, a, b; mad.lo.s32 d, a, 3, 8; sub.s32 d, d, 4; mul.lo.s32 b, a, 3;":
        "0+0 1+0 2+0 1+4",
    "mul.lo.s32 b, a, a; mul.lo.s32 c, a, a; mul.lo.s32 d, a, b;": "0+0 1+0 1+0 2+0",
    "mul.hi.s32 b, a, 4; mul.hi.s32 c, a, 4; shl.b32 d, a, 2;": "0+0 1+0 1+0 2+0",
    "mul.wide.s32 x, a, 4; cvt.u32.u64 b, x; shl.b32 c, a, 2; cvt.s32.s64 d, x;": "0+0 1+0 1+0 1+0",
    "add.s64 y, x, 8; cvt.u32.u64 a, x; cvt.u32.u64 b, y; cvt.rzi.u32.f64 c, f; cvt.u16.u64 d, y;":
        "0+0 0+8 1+0 2+0",
    "shl.b32 a, d, 3; or.b32 b, a, 7; or.b32 c, a, 8;": "0+0 0+7 1+0 2+0",
    "shl.b32 a, d, 3; add.s32 a, a, 4; or.b32 b, a, 3; or.b32 c, a, 4; or.b32 d, a, -1;":
        "0+4 0+7 1+0 2+0",
    "or.b32 b, a, 0; or.b32 c, a, 1; or.b32 d, c, b;": "0+0 0+0 1+0 2+0",
    "shl.b32 b, a, 0; shl.b32 c, a, 31; shl.b32 d, a, 32;": "0+0 0+0 1+0 2+0",
    "shl.b32 b, a, c; shl.b32 d, a, -1;": "0+0 1+0 2+0 3+0",
    "mov.b32 a, t; mov.b32 b, t+8; mov.b32 c, 16; mov.b32 d, -8;": "0+0 0+8 1+16 1-8",
    "mov.b32 a, %tid.x; mov.b32 b, %tid.x; mov.b32 c, %clock; mov.b32 d, %clock;": "0+0 0+0 1+0 1+0",
    "add.s32 a, %clock, 1; add.s32 b, %tid.x, 1; add.s32 c, %tid.x, 5;": "0+1 1+1 1+5 2+0",
    "mov.b32 a, 1; shl.b32 b, a, 31; shl.b32 c, a, 32; mov.b32 d, a;": "0+1 0+2147483648 1+0 0+1",
    "mov.b32 a, 0; or.b32 b, a, 12; or.b32 c, a, d;": "0+0 0+12 1+0 2+0",
    "not.b32 a, %clock; not.b32 b, %clock; not.b32 c, %globaltimer_lo; not.b32 d, %globaltimer_lo;":
        "0+0 1+0 2+0 3+0",
    "cvta.to.shared.u64 y, x; cvta.to.global.u64 y, y; cvt.u32.u64 a, y; cvta.to.shared.u64 y, x;"
    "cvt.u32.u64 b, y; cvt.u32.u64 c, x; cvta.shared.u64 y, x; cvt.u32.u64 d, y;": "0+0 1+0 1+0 2+0",
    "add.cc.u32 b, a, 4; add.f32 c, a, 4; add.sat.s32 d, a, 4;": "0+0 1+0 2+0 3+0",
    "@p add.s32 b, a, 4; @p add.s32 c, a, 4; mov.b64 {d, a}, x;": "0+0 1+0 2+0 3+0",
    "ld.global.b32 a, [x]; ld.global.b32 b, [x]; not.b32 c, b; not.b32 d, b;": "0+0 1+0 2+0 2+0",
    "shfl.sync.up.b32 a, d, 1, 0, -1; shfl.sync.up.b32 b, d, 1, 0, -1;"
    "not.volatile.b32 c, d; not.volatile.b32 d, d;": "0+0 1+0 2+0 3+0",
    "@p bra L; add.s32 b, a, 4; L: add.s32 c, b, 4; mov.b32 d, a; sub.s32 d, d, 1;": "0+0 0+4 0+8 0-1",
    "add.s32 b, a, 4; @p bra L; mov.b32 b, 3; L:": "0+0 1+0 2+0 3+0",
}  # fmt: skip
TOUCHED = "ld.shared.u32 e, [a]; ld.shared.u32 e, [b]; ld.shared.u32 e, [c]; ld.shared.u32 e, [d];"


def read(body):
    """Places of a kernel, each with the number of its base, in the order in which bases come."""
    declared = ".reg .pred p, q; .reg .b32 a, b, c, d, e; .reg .b64 x, y; .reg .f64 f;"
    text = f".version 8.0\n.target sm_80\n.shared .b32 t[99];\n.entry k() {{ {declared} {body} }}"
    found = places(syntax.parse(text).functions["k"])
    bases = list(dict.fromkeys(p.base for p in found))
    return [(bases.index(p.base), p) for p in found]


@pytest.mark.parametrize("body", SUMS)
def test_addresses_that_differ_by_a_constant_share_a_base(body):
    assert " ".join(f"{n}{p.offset:+d}" for n, p in read(body + TOUCHED)) == SUMS[body]


def test_a_place_has_a_width_a_step_and_those_who_reach_it():
    body = """ld.shared.v4.u32 {a, b, c, d}, [x+16]; st.shared::cta.u8 [x], a; ld.global.u32 a, [x];
    st.shared.v2.b64 [x], {y, y}; @p ld.shared.b16 a, [x]; @!p ld.shared.b16 a, [x+2];
    @p st.volatile.shared.f64 [x], f; @p ld.shared.b16 a, [x]; @q ld.shared.b16 a, [x];"""
    found = read(body)
    assert [(n, p.op, p.offset, p.width, p.instruction, p.step) for n, p in found] == [
        (0, "load", 16, 16, 0, 0), (1, "store", 0, 1, 1, 0), (1, "store", 0, 16, 3, 0),
        (2, "load", 0, 2, 4, 0), (3, "load", 2, 2, 5, 0), (4, "store", 0, 8, 6, 0),
        (2, "load", 0, 2, 7, 0), (5, "load", 0, 2, 8, 0),
    ]  # fmt: skip
    body = """L: ld.shared.u32 e, [a]; shl.b32 d, a, 2; sub.s32 d, d, b; ld.shared.u32 e, [d]; ld.shared.u32 e, [c];
    add.s32 a, a, 8; sub.s32 b, b, 3; add.s32 c, c, b; @p bra L;"""
    assert [p.step for _, p in read(body)] == [8, 35, 0]


def test_words_of_the_machine_code_are_read():
    code = [
        toolchain.SassInstruction(0, "LDS.128", "R8, [R5.X4+UR6+0x10]", "", 3),
        toolchain.SassInstruction(16, "LDS.U.64", "R8, [R5+-0x8]", "P0", 4),
        toolchain.SassInstruction(32, "STS.U8", "[UR4], R3", "", 5),
        toolchain.SassInstruction(48, "LDS.S16", "R3, [0x20]", "", 6),
        toolchain.SassInstruction(64, "LDSM.16.M88.4", "R4, [R3]", "", 7),
        toolchain.SassInstruction(80, "LDG.E", "R4, [R3.64]", "", 8),
    ]
    assert vectorized.pieces(code) == [
        Piece("load", "R5.X4+UR6", 16, 16, 3),
        Piece("load", "R5", -8, 8, 4),
        Piece("store", "UR4", 0, 1, 5),
        Piece("load", "", 32, 2, 6),
    ]


# -- whole kernels -------------------------------------------------------------------------------

EACH = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)


@cache
def counted(name):
    report = joined_kernels.emulated(next(s for s in SUBJECTS if s.name == name), ARCH)
    return report, joined_kernels.counted(report)


@EACH
def test_every_access_is_found_and_none_counts_more_than_in_the_ptx(subject):
    report, ours = counted(subject.name)
    assert report.sass == ARCH
    assert ours["shared_store_wavefronts"] == ours["ptx_store_wavefronts"]
    if subject.name == "peeled":
        return
    assert ours["shared_load_wavefronts"] <= ours["ptx_load_wavefronts"]
    requests = sum(a.requests for a in report.accesses if (a.space, a.op) == ("shared", "load"))
    assert ours["shared_load_instructions"] <= requests


def lds(name):
    """Shared loads of a kernel's machine code, and how often its loop over tiles runs, in warps."""
    subject = next(s for s in SUBJECTS if s.name == name)
    code, _ = toolchain.sass_instructions(subject.compiled(ARCH).cubin, name)
    depth = 16 if name in ("warps", "peeled") else 8
    warps = subject.grid[0] * subject.grid[1] * subject.threads // 32
    loads = [i for i in code if i.opcode.split(".")[0] == "LDS"]
    return loads, joined_kernels.N // depth * warps


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("by_rows", None), ("transposed", 16 + 16), ("odd_rows", None), ("warps", None),
        ("kept_apart", 64 + 16),  # `transposed` with A volatile: 64 words one by one, 16 quads of B
    ],
)  # fmt: skip
def test_requests_are_the_loads_in_the_machine_code_times_how_often_they_run(name, written):
    """In these kernels every shared load stands in the one loop over tiles, without a condition."""
    loads, times = lds(name)
    assert counted(name)[1]["shared_load_instructions"] == len(loads) * times
    assert written is None or len(loads) == written


def test_a_loop_whose_copies_are_joined_differently_is_not_known():
    """ptxas reads four words of B at once in the first round, and in pairs in the others."""
    loads, _ = lds("peeled")
    assert {i.opcode for i in loads} == {"LDS.64", "LDS.128"}
    report, ours = counted("peeled")
    assert ours["shared_load_wavefronts"] is ours["shared_load_instructions"] is None
    known = [a.sass_wavefronts is not None for a in report.accesses if a.op == "load"][-2:]
    assert known == [True, False]  # A is read alike in all of them
    assert any("joined differently" in note for note in report.notes)


TWO_LINES = """
extern "C" __global__ void two(float* out) {
  __shared__ float s[64];
  s[2 * threadIdx.x] = threadIdx.x;
  s[2 * threadIdx.x + 1] = 1.0f;
  __syncthreads();
  float a = s[2 * (threadIdx.x ^ 1)];
  float b = s[2 * (threadIdx.x ^ 1) + 1];
  out[threadIdx.x] = a + b;
}
"""


def two_lines(source=TWO_LINES, entry="two", sass=True):
    out = np.zeros(32, np.float32)
    return emulator.launch(source, entry, 1, 32, [out], arch=ARCH, sass=sass)


def shared_loads(report):
    return [a for a in report.by_line() if (a.space, a.op) == ("shared", "load")]


def test_an_access_over_two_lines_counts_where_it_begins():
    report = two_lines()
    first, second = shared_loads(report)
    assert (first.requests, first.wavefronts, second.requests, second.wavefronts) == (1, 2, 1, 2)
    assert (first.sass_requests, first.sass_wavefronts) == (1, 2)
    assert (second.sass_requests, second.sass_wavefronts) == (0, 0)
    assert report.sass_totals("load") == (1, 2)
    counts = "2 requests and 4 wavefronts in PTX, 1 and 2 in the machine code of sm_90"
    assert f"shared loads: {counts}" in str(report)
    frame = report.frame()
    assert list(frame["sass_wavefronts"].dropna()) == [
        a.sass_wavefronts for a in report.by_line() if a.space == "shared"
    ]


def test_machine_code_is_counted_only_when_asked():
    report = two_lines(sass=False)
    assert report.sass == "" and report.sass_totals("load") is None
    assert all(a.sass_requests is a.sass_wavefronts is None for a in report.by_line())
    assert "sass_requests" not in report.frame() and "machine code" not in str(report)
    with pytest.raises(ConfigError, match=r"sass is 'sm_90' .* give True or False"):
        two_lines(sass="sm_90")


def test_without_a_disassembler_nothing_is_counted_and_the_report_says_so(monkeypatch):
    def gone(name):
        raise ToolchainError(f"{name} was not found. Install it")

    monkeypatch.setattr(toolchain, "_tool", gone)
    report = two_lines(TWO_LINES.replace("1.0f", "2.5f"))  # not read before
    assert report.ok and report.sass_totals("load") is None
    assert [a.wavefronts for a in shared_loads(report)] == [2, 2]
    note = "shared accesses of the machine code are not counted: nvdisasm was not found"
    assert note in str(report)


UNKNOWN = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void tiles(const half* A, float* C) {
  __shared__ half s[256];
  for (int i = threadIdx.x; i < 256; i += 32) s[i] = A[i];
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.0f);
  wmma::load_matrix_sync(a, s, 16);
  wmma::load_matrix_sync(b, s, 16);
  wmma::mma_sync(c, a, b, c);
  wmma::store_matrix_sync(C, c, 16, wmma::mem_row_major);
}
"""


def test_loads_that_one_instruction_of_the_ptx_hides_are_not_known():
    A, C = np.ones((16, 16), np.float16), np.zeros((16, 16), np.float32)
    report = emulator.launch(UNKNOWN, "tiles", 1, 32, [A, C], arch=ARCH, sass=True)
    assert report.ok and (C == 16).all()
    assert report.sass_totals("load") is None and report.sass_totals("store") is not None
    assert any("not clear from the machine code of sm_90" in note for note in report.notes)


def test_a_template_instance_has_machine_code_too():
    source = TWO_LINES.replace('extern "C"', "template <int N>")
    assert two_lines(source, "two<1>").sass_totals("load") == (1, 2)


def test_a_trace_counts_for_the_architecture_that_it_is_asked_for():
    t = trace("block_2d", 64, 64, 64, arch=ARCH, sass=True, BM=64, BN=64)
    plain = trace("block_2d", 64, 64, 64, BM=64, BN=64)
    assert t.ok and t.report.sass == ARCH and plain.report.sass == ""
    assert [a.wavefronts for a in t.by_line()] == [a.wavefronts for a in plain.by_line()]
    requests, waves = t.report.sass_totals("load")
    assert requests < t.requests("shared") and waves < sum(a.wavefronts for a in shared_loads(t))
