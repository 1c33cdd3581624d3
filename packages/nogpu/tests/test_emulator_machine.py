"""The machine inside: ends of basic blocks, and where threads go from there."""

from types import SimpleNamespace

import numpy as np
import pytest
from foreign_kernels import cuda
from hypothesis import example, given
from hypothesis import strategies as st

from nogpu import emulator, toolchain
from nogpu.emulator.launching import declarations, grids, run
from nogpu.emulator.machine.attribution import below_zero
from nogpu.emulator.ptx import ends, syntax
from nogpu.errors import EmulationError

BRANCHING = """
extern "C" __global__ void k(int *out) {
    int t = threadIdx.x;
    if (t < 40) __syncthreads();
    out[t] = t;
}"""


def branching(name: str) -> str:
    """The kernel under another name, so that its program is nobody else's."""
    return BRANCHING.replace("void k(", f"void {name}(")


def test_threads_go_where_a_block_ends():
    out = np.full(64, -1, np.int32)
    emulator.launch(branching("sound"), "sound", 1, 64, [out])
    assert (out == np.arange(64)).all()


@pytest.mark.parametrize("kind", [ends.Branch, ends.Barrier, ends.Exit])
def test_a_block_that_ends_in_nothing_known_stops_the_launch(kind):
    name = f"broken_{kind.__name__}"
    state = (toolchain.compiler(),)
    made_of = run.Compilation(branching(name), name, "sm_75", (), "kernel.cu", state)
    program, _ = run._program(made_of)
    blocks = [b for b in program.blocks if isinstance(b.end, kind)]
    assert blocks
    for block in blocks:
        block.end = "nowhere"
    with pytest.raises(EmulationError, match=r"AssertionError.*nowhere"):
        emulator.launch(branching(name), name, 1, 64, [np.zeros(64, np.int32)])


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


def findings(source, threads=64, **options):
    """Findings of a kernel k(int *out) on zeros."""
    return emulator.launch(source, "k", 1, threads, [np.zeros(64, np.int32)], **options).findings


def test_a_line_is_crowded_from_its_second_barrier_on():
    source = (
        "\n__syncthreads();  // and __syncthreads()\nblock.sync(); __syncthreads_or(1);\nint x;"
    )
    assert declarations.crowded_lines(source) == {3}


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
    told = "belongs to no array. It lies where the device heap of an earlier launch was"
    assert told in found.message
    keep[0] = 1 << 20
    (found,) = emulator.launch(HEAP, "k", 1, 1, [keep, 0]).findings
    assert "belongs to no array" in found.message and "heap" not in found.message


def test_few_threads_that_take_long_are_told_why():
    source = """
    extern "C" __global__ void k(int *out) {
        for (int i = 0; i < 2000; ++i) out[threadIdx.x] += out[(threadIdx.x + i) % 8];
    }"""
    (few,) = findings(source, threads=1, max_steps=500)
    assert "a step takes as long for 1 thread(s) as for thousands" in few.message
    many = [f for f in findings(source, threads=64, max_steps=500) if f.kind == "step-budget"]
    assert "as for thousands" not in many[0].message


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
            if not read and not kind:
                want[at : at + width] = 0xA5
            assert out[6] == (want.astype(int) << np.arange(32) % 8).sum(), (at, do)
            if read and not kind:
                assert out[2] == int.from_bytes(bytes_[at : at + min(width, 4)].tobytes(), "little")


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
