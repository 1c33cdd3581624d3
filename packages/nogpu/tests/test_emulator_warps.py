"""Lanes of a warp: where they meet again after a branch, and who takes part in what they share."""

from __future__ import annotations

import random

import numpy as np
import pytest
from test_emulator_instructions import check

from nogpu import emulator, toolchain
from nogpu.emulator.ptx import flow

T = np.arange(32)


def run(body, block=32, **options):
    """(out, report) of a kernel with this body; out is int32, one a thread."""
    out = np.zeros(block, np.int32)
    source = f'extern "C" __global__ void k(int* out, int n)\n{{ int t = threadIdx.x;\n{body}\n}}'
    report = emulator.launch(source, "k", 1, block, [out, 20], arch="sm_90", **options)
    return out, report


# -- the order of blocks ---------------------------------------------------------------------------


def test_a_branch_that_stands_behind_the_join_runs_before_it():
    after = {0: [10, 20], 10: [30], 20: [10], 30: []}  # 20 is the unlikely way
    assert flow.order(after, 0) == [0, 20, 10, 30]
    straight = {0: [10, 20], 10: [20], 20: [30], 30: []}
    assert flow.order(straight, 0) == [0, 10, 20, 30]


def test_a_loop_comes_whole_before_what_follows_it():
    after = {0: [1], 1: [2, 5], 2: [9], 5: [6], 6: [], 9: [1, 5]}  # 9 is the loop's end
    assert flow.order(after, 0) == [0, 1, 2, 9, 5, 6]
    inner = {0: [1], 1: [2], 2: [2, 7], 3: [], 7: [1, 3]}
    assert flow.order(inner, 0) == [0, 1, 2, 7, 3]


@pytest.mark.parametrize("seed", range(30))
def test_any_graph_has_each_block_once_and_edges_go_on_or_back_to_a_loop(seed):
    rng = random.Random(seed)
    n = rng.randint(1, 40)
    after = {i: [rng.randrange(n) for _ in range(rng.randint(0, 2))] for i in range(n)}
    ranked = flow.order(after, 0)
    assert sorted(ranked) == list(range(n))
    at = {b: i for i, b in enumerate(ranked)}

    def reach(b):
        seen, todo = set(), [b]
        while todo:
            for m in after[todo.pop()]:
                if m not in seen:
                    seen.add(m)
                    todo.append(m)
        return seen

    for b, nexts in after.items():
        assert all(at[m] > at[b] or b in reach(m) for m in nexts)


UNLIKELY = """
int v = t;
if (__builtin_expect(v > 20, 0)) { out[t] = v; v *= 3; if (v == 100000) __trap(); }
out[t] = __shfl_xor_sync(0xffffffff, v, 1) + 100 * __popc(__ballot_sync(0xffffffff, v > 3));
"""


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_lanes_meet_again_where_an_unlikely_branch_joins(schedule):
    ptx = toolchain.ptx(
        'extern "C" __global__ void k(int* out, int n) { int t = threadIdx.x;' + UNLIKELY + "}"
    )
    assert ptx.index("shfl.sync") < ptx.index("mul.lo")  # else this is no test
    out, report = run(UNLIKELY, schedule=schedule)
    v = np.where(T > 20, 3 * T, T)
    np.testing.assert_array_equal(out, v[T ^ 1] + 2800)
    assert report.ok
    assert report.instructions["shfl.sync.bfly.b32"] == 1  # once, by the whole warp


# -- member masks ----------------------------------------------------------------------------------

HALVES = "unsigned m = t < 20 ? 0xfffffu : 0xfff00000u;"


SOUND = (
    "if (t < 16) out[t] = __shfl_xor_sync(0xffffu, t, 1);",
    "if (t >= n) return; out[t] = __shfl_xor_sync(0xffffffffu, t, 1);",  # the others have ended
    "if (t % 3 == 0) out[t] = __shfl_sync(__activemask(), t, __ffs(__activemask()) - 1);",
    "for (int d = 16; d > 0; d /= 2) { int v = __shfl_down_sync(~0u, t, d, 1); out[t] += v; }",
    "unsigned m = 1u << t % 32; __syncwarp(m); out[t] = __shfl_sync(m, t, t) + __any_sync(m, t);",
)
UNDEFINED = (
    (HALVES + "out[t] = __shfl_sync(m, t, 25);", np.full(32, 25), 20, "its own mask does not name"),
    ("if (t % 3 == 0) out[t] = __shfl_sync(__activemask(), t, 5);", None, 11, "does not name"),
    (
        "if (t >= n) return; out[t] = __shfl_down_sync(~0u, t, 8);",
        np.where(T < 12, T + 8, 0), 8, "lane 12 reads from lane 20, which has ended",
    ),
    (
        "if (t >= n) return; out[t] = __shfl_sync(~0u, t, 31);",
        np.zeros(32), 20, "lane 0 reads from lane 31, which has ended",
    ),
    ("out[t] = __shfl_xor_sync(0xffffu, t, 1);", T ^ 1, 17, "does not name them"),  # 16 lanes read, too
    ("out[t] = __shfl_xor_sync(0xffffffu, t, 1);", T ^ 1, 9, "lanes 24, 25, 26, 27, 28, 29, 30, 31"),
    ("out[t] = t; __syncwarp(0xffff0000u);", T, 1, "does not name them"),
    ("out[t] = __ballot_sync(0xffu, 1) ? 1 : 1;", np.ones(32), 1, "does not name them"),
)  # fmt: skip
ABSENT = (
    ("if (t < 16) out[t] = __shfl_xor_sync(0xffffffffu, t, 1);", 1, range(16, 32)),
    ("if (t < n) out[t] = __ballot_sync(0xffffffffu, t & 1);", 1, range(20, 32)),
    (
        '_Pragma("unroll 1") for (int i = 0; i < t; ++i) out[t] += __reduce_add_sync(~0u, i);',
        31,
        [0],
    ),
    ("out[t] = __match_any_sync(t < 16 ? 0x1ffffu : 0xffff0000u, t);", 1, [16]),
    (
        'if (t % 2) asm volatile("{.reg .pred p; elect.sync %0|p, 0xffffffff;}" : "=r"(out[t]));',
        1,
        range(0, 32, 2),
    ),
)


@pytest.mark.parametrize("body", SOUND)
def test_a_mask_of_those_who_are_there_is_sound(body):
    assert run(body)[1].ok
    assert run(body, block=45)[1].ok  # threads that do not exist are not missed


@pytest.mark.parametrize(("body", "want", "times", "says"), UNDEFINED)
@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_what_a_mask_leaves_undefined_is_found(body, want, times, says, schedule):
    """PTX ISA, shfl.sync: undefined from a lane that is inactive or not in the membermask."""
    out, report = run(body, schedule=schedule)
    found = [f for f in report.findings if f.kind == "divergent-barrier"]
    assert found == list(report.findings) and len(found) == 1, report
    assert found[0].line == 3 and says in found[0].message, found[0].message
    if want is not None:
        own = np.arange(32) < 20 if "return" in body else np.ones(32, bool)
        np.testing.assert_array_equal(out[own], want[own])
    assert found[0].count == times


def test_lanes_of_a_warp_that_is_not_whole_do_not_exist():
    body = (
        "int v = t; for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d); out[t] = v;"
    )
    assert run(body, block=64)[1].ok
    out, report = run(body, block=45)
    (finding,) = report.findings
    assert "does not exist: the block has 45 threads" in finding.message
    assert out[32] == np.arange(32, 45).sum()  # zeros for the lanes that are missing
    guarded = (
        "int v = t; if (t < 32) { for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);"
        " } out[t] = v;"
    )
    assert run(guarded, block=45)[1].ok


@pytest.mark.parametrize(("body", "times", "lanes"), ABSENT)
@pytest.mark.parametrize("warps", [1, 2])
def test_a_mask_that_names_lanes_elsewhere_is_found(body, times, lanes, warps):
    body = f"out += t / 32 * 32; t %= 32; {body} __syncthreads();"  # else they have ended
    body += " out[t] += 1;"
    (finding,) = run(body, block=32 * warps)[1].findings
    assert (finding.kind, finding.line, finding.count) == ("divergent-barrier", 3, times * warps)
    assert f"lanes that are not here ({', '.join(map(str, lanes))})" in finding.message


# -- matrix instructions ---------------------------------------------------------------------------

MMA = """
float c[4] = {0, 0, 0, 0};
unsigned a[2] = {0x3c003c00u, 0x3c003c00u}, b = 0x3c003c00u;
if (%s)
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%%0,%%1,%%2,%%3},{%%4,%%5},{%%6},"
      "{%%0,%%1,%%2,%%3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b));
out[t] = c[0];
"""
LDMATRIX = """
__shared__ __align__(16) unsigned s[32];
s[t %% 32] = t %% 32;
__syncthreads();
unsigned r = 0, at = (unsigned)__cvta_generic_to_shared(&s[t %% 8 * 4]);
if (%s) asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%%0}, [%%1];" : "=r"(r) : "r"(at));
out[t] = r;
"""


@pytest.mark.parametrize("body", [MMA, LDMATRIX])
def test_matrix_instructions_take_whole_warps(body):
    assert run(body % "n == 20")[1].ok
    assert run(body % "t < 32", block=64)[1].ok
    for condition, block in (("t < n", 32), ("t != 40", 64), ("n == 20", 40)):
        (finding,) = run(body % condition, block=block)[1].findings
        assert finding.kind == "divergent-barrier" and "of 32 lanes" in finding.message


def test_a_trap_is_a_finding_and_ends_its_threads():
    out, report = run("if (t >= n) __trap(); out[t] = 1;")
    np.testing.assert_array_equal(out, T < 20)
    (finding,) = report.findings
    assert (finding.kind, finding.count, finding.threads) == ("trap", 12, ((20, 0, 0),))
    assert run("if (t >= 2 * n) __trap(); out[t] = 1;")[1].ok


GUARDED = """
asm volatile("{.reg .pred p; setp.lt.u32 p, %0, LANES; @p bar.warp.sync 0xf;}" :: "r"(t) : "memory");
out[t] = t;
"""


def test_a_warp_barrier_under_a_predicate_is_for_the_lanes_that_it_names():
    out, report = run(GUARDED.replace("LANES", "4"))
    assert report.ok, report
    np.testing.assert_array_equal(out, T)
    (finding,) = run(GUARDED.replace("LANES", "5"))[1].findings
    assert finding.kind == "divergent-barrier" and "lanes 4 come here" in finding.message


# -- all operations, against a loop over the lanes --------------------------------------------------

SHARED_BY_LANES = {
    "vote.sync.any.pred p2, p1, r2": lambda v, s, p, m: any(p),
    "vote.sync.all.pred p2, p1, r2": lambda v, s, p, m: all(p),
    "vote.sync.uni.pred p2, !p1, r2": lambda v, s, p, m: len(set(p)) == 1,
    "vote.sync.ballot.b32 r9, p1, r2": lambda v, s, p, m: m & sum(
        bool(x) << i for x, i in zip(p, [i for i in range(32) if m >> i & 1], strict=True)
    ),
    "match.all.sync.b32 r9|p2, r1, r2": lambda v, s, p, m: m if len(set(v)) == 1 else 0,
    "match.all.sync.b32 _|p2, r1, r2": lambda v, s, p, m: len(set(v)) == 1,
    "redux.sync.add.u32 r9, r1, r2": lambda v, s, p, m: sum(v),
    "redux.sync.min.u32 r9, r1, r2": lambda v, s, p, m: min(v),
    "redux.sync.max.u32 r9, r1, r2": lambda v, s, p, m: max(v),
    "redux.sync.min.s32 r9, r1, r2": lambda v, s, p, m: min(s),
    "redux.sync.max.s32 r9, r1, r2": lambda v, s, p, m: max(s),
    "redux.sync.and.b32 r9, r1, r2": lambda v, s, p, m: int(np.bitwise_and.reduce(v)),
    "redux.sync.or.b32 r9, r1, r2": lambda v, s, p, m: int(np.bitwise_or.reduce(v)),
    "redux.sync.xor.b32 r9, r1, r2": lambda v, s, p, m: int(np.bitwise_xor.reduce(v)),
    "elect.sync r9|p2, r2": lambda v, s, p, m: (m & -m).bit_length() - 1,
}  # fmt: skip
"""What all lanes of a group get: v their values, s with a sign, p whether they are odd, m who they
are; in r9, or else in p2. Source: PTX ISA, the instruction."""
ODD = "and.b32 t, r1, 1; setp.eq.u32 p1, t, 1; "


def left(code):
    """The instruction, and what it leaves, in r9."""
    return ODD + code + ("" if " r9" in code else "; selp.u32 r9, 1, 0, p2")


@pytest.mark.parametrize("block", [(15, 3), (16, 4), (1, 5), (32, 3)])
@pytest.mark.parametrize("groups", [1, 3])
def test_lanes_that_act_together_get_what_the_isa_says(block, groups):
    threads, rng = block[0] * block[1], np.random.default_rng(groups)
    v = rng.choice([1, 2, 5, 1 << 31, (1 << 32) - 1], (2, threads)).astype(np.uint32)
    v[:, ::7] = v[:, :1]
    of = rng.integers(0, groups, (2, threads)) if groups > 1 else np.zeros((2, threads), int)
    v[of == 2] = 6  # all the same
    v[:, :32][of[:, :32] == 1] = 7  # here in the first warp
    m = np.zeros((2, threads), np.uint32)
    want = np.zeros((len(SHARED_BY_LANES) + 2, 2, threads), np.uint32)
    for b, first, g in np.ndindex(2, -(-threads // 32), groups):
        lanes = [i for i in range(32 * first, min(32 * first + 32, threads)) if of[b, i] == g]
        operands, who = [int(v[b, i]) for i in lanes], sum(1 << i % 32 for i in lanes)
        m[b, lanes] = who
        signed = [x - (x >> 31 << 32) for x in operands]
        for k, function in enumerate(SHARED_BY_LANES.values() if lanes else ()):
            value = function(operands, signed, [x & 1 for x in operands], who)
            want[k, b, lanes] = value & 0xFFFFFFFF
        for i in lanes:
            alike = [1 << j % 32 for j in lanes if v[b, j] == v[b, i]]
            want[-2:, b, i] = i == lanes[0], sum(alike)
    there = [sum(1 << j % 32 for j in range(threads) if j // 32 == i // 32) for i in range(threads)]
    codes = [
        *SHARED_BY_LANES,
        "elect.sync _|p2, r2",
        "match.any.sync.b32 r9, r1, r2",
        "activemask.b32 r9",
    ]
    values = (np.ravel(w) for w in (*want, [there] * 2))
    check(dict(zip(map(left, codes), values, strict=True)), 2, block, r1=v.ravel(), r2=m.ravel())


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_a_shuffle_reads_the_lane_that_the_isa_says(mode):
    rng = np.random.default_rng(3)
    v, b, c = rng.integers(0, 1 << 32, (3, 2, 64), np.uint32)
    code = f"shfl.sync.{mode}.b32 r9|p2, r1, r2, r3, 0xffffffff"
    value, inside = np.zeros_like(v), np.zeros_like(v)
    for at in np.ndindex(2, 64):
        lane, by, end, kept = (
            at[1] % 32,
            *(int(x) for x in (b[at] & 31, c[at] & 31, c[at] >> 8 & 31)),
        )
        last = (lane & kept) | (end & ~kept)
        from_ = {"up": lane - by, "down": lane + by, "bfly": lane ^ by}.get(
            mode, (lane & kept) | (by & ~kept)
        )
        inside[at] = from_ >= last if mode == "up" else from_ <= last
        value[at] = v[at[0], at[1] - lane + (from_ if inside[at] else lane)]
    wanted = {
        code: value.ravel(),
        code.replace("r9", "t") + "; selp.u32 r9, 1, 0, p2": inside.ravel(),
    }
    check(wanted, 2, (16, 4), r1=v.ravel(), r2=b.ravel(), r3=c.ravel())
