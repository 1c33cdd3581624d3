"""The machine inside: ends of basic blocks, and where threads go from there."""

import itertools
import time
from collections import deque
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
from foreign_kernels import cuda
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_emulator_instructions import check

from nogpu import emulator, toolchain
from nogpu.emulator.launching import declarations, grids, run
from nogpu.emulator.machine import scheduler
from nogpu.emulator.machine.attribution import below_zero
from nogpu.emulator.ptx import ends, syntax
from nogpu.errors import EmulationError

BRANCHING = """
extern "C" __global__ void NAME(int *out) {
    int t = threadIdx.x;
    if (t < 40) __syncthreads();
    out[t] = t;
}"""


@pytest.mark.parametrize("kind", [ends.Branch, ends.Barrier, ends.Exit])
def test_a_block_that_ends_in_nothing_known_stops_the_launch(kind):
    name, out = f"broken_{kind.__name__}", np.full(64, -1, np.int32)
    source = BRANCHING.replace("NAME", name)  # so that its program is nobody else's
    made_of = run.Compilation(source, name, "sm_75", (), "kernel.cu", (toolchain.compiler(),))
    program, _ = run._program(made_of)
    emulator.launch(source, name, 1, 64, [out])
    assert (out == np.arange(64)).all()
    blocks = [b for b in program.blocks if isinstance(b.end, kind)]
    assert blocks
    for block in blocks:
        block.end = "nowhere"
    with pytest.raises(EmulationError, match=r"AssertionError.*nowhere"):
        emulator.launch(source, name, 1, 64, [out])


def test_every_end_says_what_may_follow():
    lines = ("@p bra last", "bra first", "first: @p exit", "bar.sync 0", "brx.idx r, ways", "@p trap",
             "last: ret", "add.u32 r, r, 1")  # fmt: skip
    declared = ".reg .pred p; .reg .u32 r; ways: .branchtargets first, last, first;"
    text = f".version 8.0\n.target sm_75\n.entry k() {{ {declared} {'; '.join(lines)}; }}\n"
    function = syntax.parse(text).functions["k"]
    assert function.spans == {**{n: n + 1 for n in range(8)}, 8: 8}
    assert function.after == {0: (6, 1), 1: (2,), 2: (3,), 3: (4,), 4: (2, 6, 2), 5: (6,), 6: (),
                              7: (8,), 8: ()}  # fmt: skip


# -- what findings say of places -----------------------------------------------------------------


def findings(source, threads=64, blocks=1, **options):
    """Findings of a kernel k(int *out) on zeros."""
    given = [np.zeros(64, np.int32)]
    return emulator.launch(source, "k", blocks, threads, given, **options).findings


def test_a_line_is_crowded_from_its_second_barrier_on():
    source = (
        "\n__syncthreads();  // and __syncthreads()\nblock.sync(); __syncthreads_or(1);\nint x;"
    )
    assert declarations.crowded_lines(source) == {3}


TYPES = """
struct Pair { int a, b; float *p; };
typedef struct { int n; float* data; } Box;
struct Deep { struct { int x; } in; };
#define REAL  float
using Vec = REAL;
using Endless = Again; using Again = Endless;
typedef const unsigned  char byte;
void k(int not_a_kernel);
namespace n {
template <typename T, int N = 4> __global__ void __launch_bounds__(N) k(PARAMETERS) { k(1, 2); }
}
"""


@pytest.mark.parametrize(
    ("declared", "name", "kind", "pointers", "members"),
    [
        ("const float* __restrict__ a", "a", "float", 1, ()),
        ("REAL *const *b", "b", "float", 2, ()),
        ("Vec c[]", "c", "float", 1, ()),
        ("const byte d = 3", "d", "unsigned char", 0, ()),
        ("unsigned  long /* wide */ e", "e", "unsigned long", 0, ()),
        ("struct Pair f", "f", "Pair", 0, ("a", "b", "p")),
        ("const Box& g", "g", "Box", 0, ("n", "data")),
        ("Deep h", "h", "Deep", 0, ()),
        ("std::size_t i", "i", "size_t", 0, ()),
        ("Array<int, (4)> j", "j", "Array<int, (4)>", 0, ()),
        ("ELEMENT* k", "k", "int", 1, ()),
        ("Endless l", "l", "Endless", 0, ()),
        ("double", "argument", "double", 0, ()),
    ],
)
def test_parameters_are_read_as_the_source_declares_them(declared, name, kind, pointers, members):
    source = TYPES.replace("PARAMETERS", f"int first, {declared},\nint* last")
    first, one, last = declarations.signature(source, "k", {"ELEMENT": " int "})
    assert [first.name, first.type, last.name, last.pointers] == ["first", "int", "last", 1]
    named = tuple(member.name for member in one.members)
    assert (one.name, one.type, one.pointers, named) == (name, kind, pointers, members)
    assert declarations.signature(TYPES.replace("PARAMETERS", "void"), "k", {}) == []
    assert declarations.signature(source, "Pair", {}) is None
    assert declarations.entry_line(source, "n::k<4>") == 11
    assert declarations.entry_line(source, "Pair") == 0


@pytest.mark.parametrize(
    ("body", "early"), [("*o = 1;", False), ("if (*o) return;", True), ("int returned;", False)]
)
def test_a_kernel_that_may_return_early_is_told_from_its_text(body, early):
    other = "__global__ void k2() { return; } __device__ void f() { return; }"
    for name in ("k", "n::k"):
        source = f"{other} __global__ void {name}(int *o) {{ {body} }} {other}"
        assert declarations.returns_early(source, "k") is early
        assert declarations.returns_early(source, "gone") is True


def test_two_barriers_on_one_line_are_two():
    source = """
    extern "C" __global__ void k(int *out) {
        int t = threadIdx.x;
        if (t < N) { out[t] += 1; __syncthreads(); } else { out[t] = 5; __syncthreads(); }
    }"""
    assert not findings(source, defines={"N": 64}) and not findings(source, defines={"N": 0})
    (found,) = findings(source, defines={"N": 32})
    assert (found.kind, found.line, found.other_line) == ("divergent-barrier", 4, 4)
    assert "meet here and at another one of this line" in found.message
    loop = """
    extern "C" __global__ void k(int *out) {
        #pragma unroll
        for (int i = 0; i < 8; ++i) { __syncthreads(); out[threadIdx.x ^ i] += i; __syncthreads(); }
    }"""
    for schedule in ("ascending", "permuted"):
        assert not findings(loop, schedule=schedule)


@pytest.mark.parametrize("kind", ["int", "unsigned", "long long"])
@pytest.mark.parametrize(("element", "size"), [("char", 1), ("int", 4), ("double", 8)])
def test_an_index_below_zero_is_said_as_it_was_meant(kind, element, size):
    source = f"""
    extern "C" __global__ void k(int *out) {{
        __shared__ {element} s[64];
        {kind} t = threadIdx.x;
        s[t] = t;
        __syncthreads();
        out[t] = s[t - BACK];
    }}"""
    assert not findings(source, defines={"BACK": 0})
    (found,) = findings(source, defines={"BACK": 3})
    assert found.count == 3 and found.line == 7
    assert (
        f"byte {-3 * size} of shared memory, {3 * size} byte(s) before its start" in found.message
    )
    above = findings(source.replace("t - BACK", "t + 3"))
    assert f"byte {64 * size} of shared memory, {size} byte(s) past its end" in above[0].message


def test_below_zero_keeps_what_is_above():
    assert [below_zero(p) for p in (0, -4, 255, 2**31 - 1)] == [0, -4, 255, 2**31 - 1]
    assert below_zero(4 * (2**32 - 3)) == -12 and below_zero(2**32 - 3) == -3
    assert below_zero(16 * 2**32 - 16) == -16


HEAP = """
extern "C" __global__ void k(long long *keep, int first) {
    if (first) { int* p = new int[4]; p[2] = 7; *keep = (long long)p; }
    else { int* mine = new int[4]; mine[2] = 1; keep[1] = ((int*)*keep)[2]; }
}"""


def test_what_malloc_gave_out_is_gone_with_its_launch():
    keep = np.zeros(2, np.int64)
    assert emulator.launch(HEAP, "k", 1, 1, [keep, 1]).ok
    (found,) = emulator.launch(HEAP, "k", 1, 1, [keep, 0]).findings
    assert (found.kind, found.line) == ("out-of-bounds", 4)
    message = "belongs to no array. It lies where the device heap of an earlier launch was"
    assert message in found.message
    keep[0] = 1 << 20
    (found,) = emulator.launch(HEAP, "k", 1, 1, [keep, 0]).findings
    assert "belongs to no array" in found.message and "heap" not in found.message


def test_few_threads_that_take_long_are_told_why():
    source = """
    extern "C" __global__ void k(int *out) {
        for (int i = 0; i < 2000; ++i) out[threadIdx.x] += out[(threadIdx.x + i) % 8];
    }"""
    for threads, options, has_hint in (
        (1, {}, True), (31, {}, True), (32, {}, False), (31, {"blocks": 2, "lanes": 31}, False),
    ):  # fmt: skip
        found = findings(source, threads, max_steps=500, **options)
        (message,) = (f.message for f in found if f.kind == "step-budget")
        hint = f"a step takes as long for {threads} thread(s) as for thousands"
        assert (hint in message) == has_hint, message


# -- edges of a thread's and of a block's memory --------------------------------------------------

EDGES = cuda("edges")
LOADS = {
    1: "ld.NAME.u8 %0, [%1];", 2: "ld.NAME.u16 %0, [%1];", 4: "ld.NAME.u32 %0, [%1];",
    8: "ld.NAME.u64 x, [%1]; cvt.u32.u64 %0, x;", 16: "ld.NAME.v4.u32 {%0, a, b, c}, [%1];",
}  # fmt: skip
STORES = {
    1: "st.NAME.u8 [%1], %0;", 2: "st.NAME.u16 [%1], %0;", 4: "st.NAME.u32 [%1], %0;",
    8: "mov.b64 x, {%0, %0}; st.NAME.u64 [%1], x;", 16: "st.NAME.v4.u32 [%1], {%0, %0, %0, %0};",
}  # fmt: skip


@pytest.mark.parametrize("space", ["local", "shared"])
@pytest.mark.parametrize("width", LOADS)
def test_an_access_at_an_edge_of_its_memory(space, width):
    """Of 32 bytes: what lies inside is carried out; what does not is found, and touches nothing."""
    lanes = "threadIdx.x >= 2" if space == "local" else "threadIdx.x == 2"
    source = EDGES.replace("SPACE", "__shared__" if space == "shared" else "").replace("WHO", lanes)
    bytes_ = np.arange(32, dtype=np.uint8)
    kinds = dict.fromkeys((0, 32 - width), "")
    kinds |= dict.fromkeys((-width, -1, 33 - width, 32), "out-of-bounds")
    kinds |= {1: "misaligned"} if width > 1 else {}
    for at, kind in kinds.items():
        for do in (LOADS[width], STORES[width]):
            out = np.zeros(8, np.uint32)
            given = np.array([0, 0, at, 0], np.int32)
            text = source.replace("DO", do).replace("NAME", space)
            report = emulator.launch(text, "k", 1, 4, [given, out])
            assert [(f.kind, f.count) for f in report.findings] == ([(kind, 1)] if kind else []), (
                at, do, report,
            )  # fmt: skip
            assert {f.array for f in report.findings} <= {"mine", "shared", "local", ""}, report
            want, read = bytes_.copy(), do is LOADS[width]
            far = (
                f"{-at} byte(s) before its start"
                if at < 0
                else f"{at + width - 32} byte(s) past its end"
            )
            says = f"{'reads' if read else 'writes'} {width} bytes at "
            if space == "local":
                says += f"byte {at} of its local memory, which has 32 bytes"
            elif kind == "misaligned":
                says += f"mine[{at}], byte {at} of shared memory: an access of {width} bytes needs"
            else:
                says = f"byte {at} of shared memory, {far}: the block has 32 bytes"
            assert all(says in f.message for f in report.findings), report
            if not read and not kind:
                want[at : at + width] = 0xA5
            assert out[6] == (want.astype(int) << np.arange(32) % 8).sum(), (at, do)
            if read and not kind:
                assert out[2] == int.from_bytes(bytes_[at : at + min(width, 4)].tobytes(), "little")


@pytest.mark.parametrize("threads", [1, 32])
@pytest.mark.parametrize("at", [0, 1, 4])
def test_a_wide_access_to_little_shared_memory(threads, at):
    source = """
    extern "C" __global__ void k(float4* out, int at) {
        __shared__ float s[1];
        s[0] = 5;
        __syncthreads();
        out[threadIdx.x] = *(float4*)(s + at);
    }"""
    (found,) = emulator.launch(source, "k", 1, threads, [np.ones((32, 4), "f4"), at]).findings
    assert (found.kind, found.count) == ("out-of-bounds", threads)
    assert f"reads byte {4 * at} of shared memory, {4 * at + 12} byte(s) past" in found.message


MOVED = {  # bytes: what is stored of l2, by which instruction, and how it is loaded
    1: ("cvt.u16.u64 s1, l2", "st.shared.u8 [t], s1", "ld.shared.u8 s9, [t]"),
    2: ("cvt.u16.u64 s1, l2", "st.shared.u16 [t], s1", "ld.shared.u16 s9, [t]"),
    4: ("cvt.u32.u64 r1, l2", "st.shared.u32 [t], r1", "ld.shared.u32 r9, [t]"),
    8: ("", "st.shared.u64 [t], l2", "ld.shared.u64 l9, [t]"),
    16: ("mov.b64 {r1, r2}, l2", "st.shared.v4.u32 [t], {r1, r2, r2, r1}",
         "ld.shared.v4.u32 {r1, r2, r3, r4}, [t]; mov.b64 l9, {r1, r2}; mov.b64 x, {r4, r3};"
         " sub.u64 x, l9, x; shl.b64 x, x, 1; add.u64 l9, l9, x"),
}  # fmt: skip


@pytest.mark.parametrize("size", MOVED)
def test_shared_memory_holds_what_the_threads_of_each_block_put_there(size):
    """Stores of one thread, a row, a column or a half of 8 x 4 threads of 2 x 3 blocks at places of
    one, and loads at places that vary as little or as much, or by block."""
    grid_y, grid_x, y, x = np.indices((3, 2, 4, 8))
    t = y * 8 + x
    places = {"5": 5 + 0 * t, "r11": x, "r12": y, "r13": t, "r14": grid_x}
    stores = {"0, 0": t >= 0, "r13, 11": t == 11, "r12, 1": y == 1, "r11, 3": x == 3,
              "r15, r14": x % 2 == grid_x}  # fmt: skip
    declared = f""".shared .align 16 .b8 own[{32 * size}]; mov.u32 r10, own; mov.u32 r11, %tid.x;
    mov.u32 r12, %tid.y; mad.lo.u32 r13, r12, 8, r11; mov.u32 r14, %ctaid.x; and.b32 r15, r11, 1;"""
    numbers = np.random.default_rng(size).integers(0, 1 << 64, t.shape, "u8")
    memory, wanted = np.zeros((3, 2, 32), "u8"), {}
    prepared, store, load = MOVED[size]
    for k, ((who, own), to) in enumerate(zip(stores.items(), ["r13", *places], strict=False)):
        memory[grid_y[own], grid_x[own], places[to][own]] = numbers[own] + np.uint64(k)
        before = f"""bar.sync 0; add.u64 l2, l1, {k}; setp.eq.u32 p1, {who};
        mov.u32 t, {to}; mad.lo.u32 t, t, {size}, r10; {prepared}; @p1 {store}; bar.sync 0;"""
        for place, at in places.items():
            value = memory[grid_y, grid_x, at].ravel() & np.uint64((1 << 8 * min(size, 8)) - 1)
            text = f"{before} mov.u32 t, {place}; mad.lo.u32 t, t, {size}, r10; {load}"
            wanted[f"mov.u32 r16, {k}; {text}"] = value
            before = ""
    check(wanted, (2, 3), (8, 4), declared, l1=numbers.ravel())


# -- how many threads run together ----------------------------------------------------------------

SIZES = {
    "registers": st.sampled_from((0, 40, 3000)),
    "shared": st.sampled_from((0, 4, 4096, 1 << 17)),
    "local": st.sampled_from((0, 16, 1 << 16)),
    "lanes": st.sampled_from((1, 1000, 1 << 16, 1 << 22)),
}


@example(registers=0, shared=0, local=0, lanes=1 << 26, warps=1, blocks=1, order=False)
@given(**SIZES, warps=st.integers(1, 32), blocks=st.integers(1, 4), order=st.booleans())
def test_as_many_threads_run_together_as_there_is_room_for(
    registers, shared, local, lanes, warps, blocks, order
):
    program = SimpleNamespace(
        functions={"k": SimpleNamespace(kinds=range(registers)), "f": SimpleNamespace(kinds=["i4"])},
        local_bytes=local, mbarriers=order, clusters=(), granule=8,
    )  # fmt: skip
    threads, places, size = 32 * warps, max(shared // 8, 1), 2 * blocks

    def fits(room):
        return (
            room <= lanes
            and room * (registers + 1) <= grids._REGISTER_ROOM
            and room * shared <= grids._SHARED_ROOM * threads
            and room * local <= grids._LOCAL_ROOM
            and (not order or room * size <= (1 << 20) // places * 32)
        )

    room = grids.room_for(program, shared, (8, warps, 4), lanes, (1, blocks, 2), 1 << 20)
    assert room >= threads * size  # a cluster always
    assert room == threads * size or fits(room)
    assert not fits(room + threads * size)  # with shared memory it is blocks that are counted


# -- how long a launch may take -------------------------------------------------------------------

LOOP = """.version 8.0
.target sm_75
.visible .entry k(.param .u32 rounds) {
    .reg .b32 i, n;
    .reg .pred p;
    ld.param.u32 n, [rounds];
    mov.u32 i, 0;
L:  .loc 1 7 1
    add.u32 i, i, 1;
    setp.lt.u32 p, i, n;
    @p bra L;
    .loc 1 9 1
    ret;
}"""


@pytest.mark.parametrize("threads", [1, 64])
def test_a_launch_takes_as_many_steps_as_it_may_and_no_more(threads):
    """A step is an instruction that is run, or a basic block that is come to."""
    steps = emulator.launch(LOOP, "k", 1, threads, [10]).steps
    assert steps == (2 + 1) + 10 * (3 + 1) + (1 + 1)
    assert emulator.launch(LOOP, "k", 1, threads, [10], max_steps=steps).ok
    for limit, line in ((steps - 1, 9), (20, 7)):
        (found,) = emulator.launch(LOOP, "k", 1, threads, [10], max_steps=limit).findings
        assert (found.kind, found.line) == ("step-budget", line)
        assert f"more than {limit} instructions" in found.message


@pytest.mark.parametrize(("threads", "blocks"), [(1, 1), (64, 1), (64, 3)])
def test_a_launch_takes_as_long_as_it_may_and_looks_at_the_clock_now_and_then(
    threads, blocks, monkeypatch
):
    for now, ok in ((5, True), (6, False)):
        looks = itertools.count()
        monkeypatch.setattr(scheduler, "seconds", lambda n=now, c=looks: n if next(c) else 0)
        options = {"max_seconds": 5, "lanes": threads}
        report = emulator.launch(LOOP, "k", blocks, threads, [3200], **options)
        assert report.ok == ok
        if ok:
            assert abs(next(looks) - blocks * 3200 / 32) < 2 + blocks
        else:
            assert "larger max_seconds" in report.findings[0].message


def test_a_busy_machine_ends_no_kernel_early(monkeypatch):
    """By the clock on the wall each look takes an hour; what is limited is the processor's time."""
    hours = itertools.count(step=3600.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(hours))
    assert emulator.launch(LOOP, "k", 1, 64, [320], max_seconds=20).ok


def test_functions_call_each_other_so_many_levels_deep():
    source = """
    __device__ __noinline__ int f(int x, int deep) { return deep > 1 ? f(x + 1, deep - 1) + 1 : x; }
    extern "C" __global__ void k(int* out, int deep) { out[threadIdx.x] = f(threadIdx.x, deep); }
    """
    out = np.zeros(64, np.int32)
    assert emulator.launch(source, "k", 1, 64, [out, 32]).ok
    assert (out == np.arange(64) + 2 * 31).all()
    with pytest.raises(EmulationError, match="32 levels deep at '_Z1fii'"):
        emulator.launch(source, "k", 1, 64, [out, 33])


# -- special registers ----------------------------------------------------------------------------


def test_each_special_register_holds_what_it_is_for():
    """PTX ISA, special registers; smid and the like: the H200 of `nogpu.device`."""
    grid, block, cluster, seed = (4, 2, 3), (33, 2, 2), (2, 1, 3), 7
    t, b = np.arange(np.prod(block)), np.arange(np.prod(grid))[:, None]
    tid = np.array(np.unravel_index(t, block[::-1]))[::-1]
    cta = np.array(np.unravel_index(b, grid[::-1]))[::-1]
    lane, one = t % 32, np.int64(1)
    within, whole = (c % n for c, n in zip(cta, cluster, strict=True)), np.array(grid) // cluster
    within = list(within)
    want = {
        "lanemask_eq": one << lane, "lanemask_lt": (one << lane) - 1, "laneid": lane,
        "lanemask_le": (one << lane + 1) - 1, "lanemask_gt": (1 << 32) - (one << lane + 1),
        "lanemask_ge": (1 << 32) - (one << lane), "warpid": t // 32, "nwarpid": 64,
        "smid": (b + seed) % 132, "nsmid": 132, "cluster_nctarank": 6, "envreg1": 0, "envreg2": 0,
        "cluster_ctarank": within[0] + 2 * (within[1] + within[2]), "total_smem_size": 48 + 100,
        "dynamic_smem_size": 100, "aggr_smem_size": 48 + 100, "tid.w": 0, "ctaid.w": 0,
        "ntid.w": 1, "nctaid.w": 1, "envreg3": 0,
    }  # fmt: skip
    for i, axis in enumerate("xyz"):
        want |= {f"tid.{axis}": tid[i], f"ntid.{axis}": block[i], f"ctaid.{axis}": cta[i]}
        want |= {f"nctaid.{axis}": grid[i], f"cluster_ctaid.{axis}": within[i]}
        want |= {f"clusterid.{axis}": cta[i] // cluster[i], f"nclusterid.{axis}": whole[i]}
        want |= {f"cluster_nctaid.{axis}": cluster[i]}
    wanted = {
        f"mov.u32 r9, %{name}": np.broadcast_to(value, (24, 132)).ravel()
        for name, value in want.items()
    }
    declared = ".shared .align 4 .b8 own[48]; mov.u32 r1, own;"
    options = {"cluster": cluster, "shared_bytes": 100, "seed": seed, "arch": "sm_90"}
    check(wanted, grid, block, declared, options)


# -- the device heap ------------------------------------------------------------------------------

MALLOC = """
extern "C" __global__ void k(long long* out, const long long* sizes, int n, int at) {
    char* p = nullptr;
    for (int i = 0; i < n; ++i) {
        p = (char*)malloc(sizes[i]);
        out[i] = (long long)p;
        if (sizes[i] % 2) free(p);
    }
    free(nullptr);
    if (at > -100) p[at] = 1;
}"""


def given_out(*sizes, at=-100):
    """Where malloc puts blocks of these sizes, of which odd ones are freed at once, from the first
    on; 1: nowhere. And the findings, where byte `at` of the last is written."""
    out = np.zeros(len(sizes), np.int64)
    report = emulator.launch(MALLOC, "k", 1, 1, [out, np.array(sizes), len(sizes), at])
    return [int(p - out[0]) if p else 1 for p in out], report.findings


def test_malloc_gives_out_what_there_is():
    whole = 8 << 20
    assert given_out(0, 16, 18, 32)[0] == [0, 16, 48, 96]  # 16 bytes at least lie between
    assert given_out(15, 16, 2)[0] == [0, 0, 32]  # what was freed is used again
    assert given_out(1, 17, 16)[0] == [0, 32, 0]
    assert given_out(2, whole - 48)[0] == [0, 32]
    assert given_out(2, whole - 46, -1, 2)[0] == [0, 1, 1, 32]
    assert given_out(15, -1, -16, 0)[0] == [0, 1, 1, 32]


@pytest.mark.parametrize("size", [0, 4, 16, 18])
def test_a_byte_beside_a_block_of_the_heap_is_said_to_be_there(size):
    room = -(-size // 16) * 16 + 16
    for at, far in (
        (size, "1 byte(s) past the end"), (size + 64, "65 byte(s) past the end"),
        (size + 65, "in no block"), (-1, f"{room - size} byte(s) past the end"),
    ):  # fmt: skip
        placed, (found,) = given_out(size, size, at=at)
        assert placed == [0, room] and (found.kind, found.array) == ("out-of-bounds", "heap")
        block = f" of a block of {size} bytes" if "past" in far else ""
        assert f"writes byte {room + at} of the device heap, {far}{block}: malloc" in found.message
    assert "heap, in no block: malloc" in given_out(size, at=-1)[1][0].message
    assert bool(given_out(size, at=size - 1)[1]) == (not size)


CLOCKS = """.version 8.0
.target sm_75
.visible .entry k(.param .u64 out, .param .u32 rounds) {
    .reg .b32 i, n, lo, hi; .reg .b64 at, r; .reg .pred p;
    ld.param.u64 at, [out]; ld.param.u32 n, [rounds];
    mov.u64 r, %clock64; mov.u32 lo, %clock; mov.u32 hi, %clock_hi;
    st.global.u64 [at], r; st.global.u32 [at + 8], lo; st.global.u32 [at + 12], hi;
    mov.u64 r, %globaltimer; mov.u32 lo, %globaltimer_lo; mov.u32 hi, %globaltimer_hi;
    st.global.u64 [at + 16], r; st.global.u32 [at + 24], lo; st.global.u32 [at + 28], hi;
    mov.u64 r, %clock64; st.global.u64 [at + 32], r;
    mov.u32 i, 0;
L:  add.u32 i, i, 1; setp.lt.u32 p, i, n; @p bra L;
    mov.u64 r, %clock64; st.global.u64 [at + 40], r;
    mov.u64 r, %globaltimer; st.global.u64 [at + 48], r;
    ret;
}"""


@pytest.mark.parametrize("seed", [0, 5])
def test_clocks_go_on_by_four_an_instruction_and_all_of_a_gpu_show_one_time(seed):
    """Four clocks: what a dependent multiply-add takes. A T4 has 1590 of them in a microsecond."""
    out = np.zeros(7, np.uint64)
    assert emulator.launch(CLOCKS, "k", 1, 1, [out, 10_000], seed=seed).ok
    first, low, time, shown, now, later, end = (int(v) for v in out)
    assert low & 0xFFFFFFFF == first + 4 & 0xFFFFFFFF and low >> 32 == first >> 32
    assert now == first + 6 * 4 and later - now > 3 * 4 * 10_000
    assert 0 <= shown - time <= 32 and time % 32 == end % 32 == 0
    assert abs((end - time) - (later + 4 - (first + 3 * 4)) / 1.59) <= 32


COUNTS = st.tuples(*[st.integers(1, 4)] * 3)
CLUSTERS = st.sampled_from(((1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 1, 3), (2, 2, 2)))


def cells(first, size):
    """The blocks of a box, x fastest."""
    return [tuple(np.add(first, at[::-1])) for at in np.ndindex(*size[::-1])]


@settings(max_examples=60, deadline=None)
@given(COUNTS, CLUSTERS, st.sampled_from(((1, 1, 1), (4, 3, 2))), st.integers(1, 600), st.data())
def test_whole_clusters_run_together_as_many_as_there_is_room_for(counts, size, block, lanes, data):
    """Lower ones first: whole rows of clusters, or a part of one row."""
    grid, each = tuple(np.multiply(counts, size).tolist()), int(np.prod(size))
    clusters = [cells(np.multiply(at, size), size) for at in cells((0, 0, 0), counts)]
    room = max(lanes // int(np.prod(block)) // each, 1)
    together = room // counts[0] * counts[0] or room  # clusters
    rows = [clusters[i : i + counts[0]] for i in range(0, len(clusters), counts[0])]
    pieces = [clusters] if together >= counts[0] else rows
    want = [p[i : i + together] for p in pieces for i in range(0, len(p), together)]

    def blocks(batch):
        return list(map(tuple, np.stack(np.broadcast_arrays(*batch), -1).reshape(-1, 3).tolist()))

    def by_rows(batch):
        """The blocks of a batch by rows of blocks, those of a row of clusters together."""
        return sorted(
            chain(*batch), key=lambda b: (b[2] // size[2], b[1] // size[1], b[2], b[1], b[0])
        )

    got = [blocks(batch) for batch in grids.batches(grid, block, None, lanes, size)]
    assert got == [by_rows(batch) for batch in want]

    some = data.draw(st.lists(st.sampled_from(clusters), min_size=1, unique_by=tuple))
    picks = [data.draw(st.sampled_from(cluster)) for cluster in some]
    chosen = grids.whole_clusters([*picks, *picks], size)
    assert chosen == [*chain(*some)]
    every = grids.batches(grid, block, chosen, lanes, size)
    want = [[*chain(*some[i : i + room])] for i in range(0, len(some), room)]
    assert [blocks(batch) for batch in every] == want

    for given_, all_ in ((chosen, some), (None, clusters)):
        pending, started = deque(), []
        for batch in grids.cancellable(grid, block, given_, lanes, size, pending):
            started.append(blocks(batch))
            assert list(pending) == [one[0] for one in all_[len(started) * room :]]
        assert [*chain(*started)] == [*chain(*all_)]
        assert len(started) == -(-len(all_) // room)


@pytest.mark.parametrize(
    ("arch", "threads", "shared", "at_once"),
    [
        ("sm_75", 32, 0, "a Tesla T4 holds at most 640 blocks"),  # 40 SMs of 16 blocks
        ("sm_75", 65, 0, "a Tesla T4 holds at most 400 blocks"),  # of 32 warps, three a block
        ("sm_75", 1024, 0, "a Tesla T4 holds at most 40 blocks"),
        ("sm_75", 32, 16384, "a Tesla T4 holds at most 160 blocks"),  # of 64 KiB
        ("sm_75", 32, 40000, "a Tesla T4 holds at most 40 blocks"),
        ("sm_86", 32, 0, "a GeForce RTX 3090 holds at most 1312 blocks"),  # 82 SMs: the largest
        ("sm_90a", 32, 58368, "a H100 SXM 80 GB holds at most 396 blocks"),  # a quarter, and 1 KiB
        ("sm_120", 96, 0, "the emulator runs 682 blocks"),  # no card is known
    ],
)
def test_as_many_blocks_wait_for_each_other_as_the_largest_gpu_holds(
    arch, threads, shared, at_once
):
    program = SimpleNamespace(
        functions={"k": SimpleNamespace(kinds=["i4"])}, local_bytes=0, mbarriers=(), clusters=(),
        granule=4,
    )  # fmt: skip

    def resident(lanes, cluster=(1, 1, 1)):
        return grids.resident(program, shared, (threads, 1, 1), lanes, arch, cluster)

    blocks = int(at_once.split()[-2])
    assert resident(grids.LANES) == (blocks * threads, f"{at_once} of this kernel at a time")
    assert resident(2 * threads + 1)[1] == "the emulator runs 2 blocks of this kernel at a time"
    assert resident(1, (2, 1, 2))[0] == 4 * threads
