"""What the emulator once got wrong, or missed, or said of the wrong line; with sound twins."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from nogpu import emulator
from nogpu.emulator.launching.run import program_of_ptx
from nogpu.emulator.ptx import control, emit, opcodes
from nogpu.errors import CompileError, ConfigError, EmulationError

HEAD = """extern "C" __global__ void k(const int* in, int* out, int n)
{
    __shared__ int s[256];
    const int t = threadIdx.x;
"""


def run(body, threads=64, n=20, **options):
    """(report, out) of a kernel with this body; `in` holds 0, 3, 6 and so on."""
    source = HEAD + body + "\n}\n"
    given, out = np.arange(256, dtype=np.int32) * 3, np.full(256, -1, np.int32)
    report = emulator.launch(
        source, "k", 1, threads, [given, out, n], **{"arch": "sm_80", **options}
    )
    return report, out


def of_kind(report, kind):
    """The findings, all of which are of one kind."""
    assert {f.kind for f in report.findings} == {kind}, report
    return list(report.findings)


# -- barriers and the lines that they are reported on ----------------------------------------------

USE = "\n    __syncthreads();\n    out[t] = s[t ^ 1];"
DIVERGENT = {
    "in an if, after other lines": """
    if (t < n) {
        const int v = in[t];
        s[t] = v * v;
        __syncthreads();  // here
    }""",
    "after a load on the line before": """
    if (t < n) {
        out[t] = in[t];
        __syncthreads();  // here
    }
    s[t] = t;""",
    "in a loop": """
    s[t] = 0;
    for (int i = 0; i < (t < n ? 3 : 2); ++i) {
        s[t] += in[t] * i;
        out[t] = s[t];
        __syncthreads();  // here
    }""",
    "after an early return": """
    if (t >= n) return;
    s[t] = in[t];
    s[t] += in[t + 1];
    __syncthreads();  // here""",
    "that adds up": """
    if (t < n) {
        s[t] = in[t];
        out[t] = __syncthreads_count(s[t] > 3);  // here
    }""",
}


@pytest.mark.parametrize("body", DIVERGENT.values(), ids=DIVERGENT)
@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_a_divergent_barrier_is_reported_on_its_own_line(body, schedule):
    report, _ = run(body + USE, schedule=schedule)
    found = [f for f in report.findings if f.kind == "divergent-barrier"]
    assert found, report
    assert any("// here" in f.text + f.other_text for f in found), report
    lines = (HEAD + body + USE).splitlines()
    for f in found:
        named = [f.line, f.other_line] if f.other_line else [f.line]
        assert all("__syncthreads" in lines[n - 1] for n in named), report
    sound = body.replace("t < n", "t < 64").replace("t >= n", "t >= 64")
    assert run(sound, schedule=schedule)[0].ok


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_a_barrier_that_some_pass_by_comes_before_the_races_that_follow(schedule):
    body = """
    s[t] = in[t];
    if (t < 32) __syncthreads();  // here
    out[t] = s[t ^ 32];"""
    report, _ = run(body, schedule=schedule)
    first, *rest = report.findings
    assert (first.kind, {f.kind for f in rest}) == ("divergent-barrier", {"race"}), report
    assert "// here" in first.text
    assert min(f.line for f in rest) < first.line, "the race would come first by its line"


def test_a_barrier_in_a_helper_counts_by_the_call():
    """Two calls of one inlined function are two barriers, copies of one call are one."""
    helper = "__device__ void all_here() { __syncthreads(); }\n"
    rest = "    if (t < 32) { s[t] = 1; all_here(); }\n"
    rest += "    else { s[t] = 2; out[t] = 5; all_here(); }\n}\n"
    args: list[Any] = [np.zeros(256, np.int32), np.zeros(256, np.int32), 4]
    report = emulator.launch(helper + HEAD + rest, "k", 1, 64, args)
    assert of_kind(report, "divergent-barrier")
    unrolled = """
#pragma unroll
    for (int i = 0; i < 4; ++i) { s[t] = i; __syncthreads(); out[t] += s[t ^ 32]; __syncthreads(); }
}
"""
    assert emulator.launch(HEAD + unrolled, "k", 1, 64, args).ok


# -- threads that stay

PHASE = """
    __shared__ unsigned long long bar;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
    if (t == 0) { s[0] = 1; asm volatile("mbarrier.init.shared.b64 [%0], 32;" :: "r"(at) : "memory"); }
    __syncwarp();
    while (*(volatile int*)s == 0) {}  // so the function is one in which threads wait
    asm volatile("{.reg .b64 x; mbarrier.arrive.shared.b64 x, [%0];}" :: "r"(at) : "memory");
    WHAT
    int done = 0;
    while (!done)
        asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.b32 %0, 1, 0, p;}" : "=r"(done) : "r"(at) : "memory");
    out[t] += done;
"""


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize(
    ("what", "want"),
    [
        ("out[t] = __shfl_xor_sync(~0u, t, 1);", np.arange(32) ^ 1),
        ("out[t] = __ballot_sync(~0u, t < 4);", np.full(32, 15)),
        ("out[t] = __reduce_add_sync(~0u, t);", np.full(32, 496)),
        ("__syncwarp(); out[t] = 7;", np.full(32, 7)),
        ("for (int i = 0; i < 3; ++i) out[t] = __shfl_sync(~0u, t, i);", np.full(32, 2)),
    ],
)
def test_a_phase_may_be_complete_before_the_warp_acts_together(what, want, schedule):
    report, out = run(PHASE.replace("WHAT", what), threads=32, schedule=schedule)
    assert report.ok, report
    np.testing.assert_array_equal(out[:32], want + 1)


# -- cp.async of fewer bytes than it is wide

COPY = """
extern "C" __global__ void k({const}float* x, float* out, int bytes, int late)
{{
    __shared__ __align__(16) float s[128];
    const int t = threadIdx.x;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&s[t * {size} / 4]);
    {before}
    asm volatile("cp.async.c{mode}.shared.global [%0], [%1], {size}, %2;"
                 :: "r"(at), "l"(x + t * {size} / 4), "r"(t < late ? bytes : {size}) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    {after}
    for (int i = 0; i < {size} / 4; ++i) out[t * {size} / 4 + i] = s[t * {size} / 4 + i];
}}
"""


def copied(
    size=16, have=128, nbytes=8, late=32, *, const="const ",
    before="", after="", **options,
):  # fmt: skip
    """(report, bytes copied, bytes of x): 32 threads copy `size` bytes each, some fewer."""
    mode = "g" if size == 16 else "a"
    source = COPY.format(size=size, mode=mode, const=const, before=before, after=after)
    x = np.random.default_rng(0).integers(1, 255, 4 * have, dtype=np.uint8)
    out = np.zeros(128, np.float32)
    args = [x.view(np.float32).copy(), out, nbytes, late]
    return emulator.launch(source, "k", 1, 32, args, arch="sm_80", **options), out.view(np.uint8), x


@pytest.mark.parametrize("size", [4, 8, 16])
def test_bytes_beyond_those_of_a_copy_are_zero(size):
    """PTX ISA, cp.async: src-size bytes are copied, zeros fill the rest of cp-size."""
    for nbytes, late in product(range(size + 1), (0, 20, 32)):
        report, out, x = copied(size, nbytes=nbytes, late=late)
        assert report.ok, report
        want = x[: 32 * size].copy().reshape(32, size)
        want[:late, nbytes:] = 0
        assert (out[: 32 * size].reshape(32, size) == want).all(), (nbytes, late)


@pytest.mark.parametrize("nbytes", [6, 8, 16])
@pytest.mark.parametrize("late", [20, 32])
def test_a_ragged_copy_of_what_nobody_wrote_is_found(nbytes, late):
    report, _, _ = copied(nbytes=nbytes, late=late, uninitialised=("x",))
    (found,) = of_kind(report, "uninitialised")
    # A whole copy counts once a lane, a ragged one once for each word of which it reads something.
    assert found.count == (32 - late) + late * (1 if nbytes == 16 else 2)
    assert found.index in ("x[0]", "x[80]")


def test_a_ragged_copy_of_what_was_written_is_quiet():
    """Only the first eight bytes of each sixteen are written, and only they are read."""
    before = "x[4 * t] = t; x[4 * t + 1] = t; __syncthreads();"
    options: dict[str, Any] = {"const": "", "before": before, "uninitialised": ("x",)}
    assert copied(nbytes=8, **options)[0].ok
    assert copied(nbytes=5, **options)[0].ok
    (found,) = of_kind(copied(nbytes=12, **options)[0], "uninitialised")
    assert (found.index, found.count) == ("x[2]", 32)


@pytest.mark.parametrize("nbytes", [1, 8, 16])
def test_a_ragged_copy_races_with_writers_of_what_it_reads(nbytes):
    write = "if (!blockIdx.x) x[4 * t] = t;"
    source = COPY.format(size=16, mode="g", const="", before="", after=write)
    args = [np.zeros(128, np.float32), np.zeros(128, np.float32), nbytes, 32]
    report = emulator.launch(source, "k", 2, 32, args, arch="sm_80")
    assert any(f.kind == "race" and f.array == "x" for f in report.findings), report
    beyond = source.replace("x[4 * t] = t;", "x[4 * t + 3] = t;")
    report = emulator.launch(beyond, "k", 2, 32, args, arch="sm_80")
    assert any(f.array == "x" for f in report.findings) == (nbytes == 16), report


def test_bounds_and_alignment_of_a_ragged_copy():
    assert copied(have=125, nbytes=4, late=32)[0].ok  # the last lane reads element 124 alone
    (found,) = of_kind(copied(have=125, nbytes=8)[0], "out-of-bounds")
    assert (found.index, found.count) == ("x[124]", 1)
    assert "1 element past its end" in found.message
    crooked = COPY.replace('"l"(x + t', '"l"(x + 1 + t')
    source = crooked.format(size=16, mode="g", const="const ", before="", after="")
    args = [np.zeros(256, np.float32), np.zeros(128, np.float32), 8, 32]
    (found,) = of_kind(emulator.launch(source, "k", 1, 32, args, arch="sm_80"), "misaligned")
    assert "a multiple of 16" in found.message and found.count == 32


# -- words that an opcode may carry


def translate(text):
    """Translate a kernel with one line of PTX; raises what the emulator raises.

    PTX and not CUDA, since NVRTC has its own opinion of words that do not exist.
    """
    module = f""".version 8.3
.target sm_90
.address_size 64
.visible .entry k() {{
    .reg .b32 a, b, c, d;
    .reg .b64 x, y;
    .reg .f32 f, g, h;
    .reg .f64 u, v;
    .reg .b16 s, t;
    .reg .pred p, q;
    .loc 1 7 1
    {text};
    ret;
}}
"""
    program_of_ptx(module, "k", "k", "", {}, "kernel.cu")


@pytest.mark.parametrize(
    "text",
    [
        "add.s32 a, b, c", "activemask.b32 a", "bra.uni L; L: mov.b32 a, b", "cvt.rn.f32.s32 f, a",
        "ld.global.nc.L1::no_allocate.L2::128B.b32 a, [x]", "wgmma.wait_group.sync.aligned 0",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {f, f, f, f}, {a, b}, {c}, {f, f, f, f}",
    ],
)  # fmt: skip
def test_an_invented_word_is_refused_by_name(text):
    """No word is left out: whoever wrote it means something by it."""
    translate(text)
    opcode, _, operands = text.partition(" ")
    root, *words = opcode.split(".")
    for at in range(len(words) + 1):
        strange = ".".join([root, *words[:at], "frob", *words[at:]])
        with pytest.raises(EmulationError) as caught:
            translate(f"{strange} {operands}")
        message = str(caught.value)
        assert strange in message and "line 7" in message, message
        if at == len(words) or at > 1:  # before that it may look like an operation of its own
            assert "not emulated" in message and ".frob" in message, message


def test_no_opcode_takes_an_invented_word():
    rows = [key for key, op in opcodes.OPS.items() if not op.refused]
    taken = [key for key in rows if ".frob" not in opcodes.unknown((*key.split("."), "frob"))]
    assert taken == ["unset"]  # what the emulator itself puts in


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("min.xorsign.f32 f, g, h", "together"),
        ("max.abs.f32 f, g, h", "together"),
        ("mad.wide.sat.s32 x, a, b, y", ".sat beside .wide"),
        ("min.f32 f, g, h, f", "three values"),
        ("mad.lo.sat.s32 a, b, c, d", ".sat beside .lo"),
        ("mad.hi.sat.u32 a, b, c, d", ".sat"),
        ("add.sat.u32 a, b, c", ".sat"),
        ("sub.rz.s32 a, b, c", ".rz"),
        ("fma.rn.relu.f32 f, g, h, f", ".relu"),
        ("add.rz.f16 s, t, s", ".rz"),
        ("abs.ftz.f64 u, v", ".ftz"),
        ("cvt.rna.tf32.f32.satfinite a, f", ".satfinite"),
        ("cvt.rn.satfinite.f16x2.f32 a, f, g", ".satfinite"),
        ("cvt.rs.f16x2.f32 a, f, g, b", ".rs"),
        ("cvt.rni.relu.s32.f32 a, f", ".relu"),
        ("add.u16x2 a, b, c", ".u16x2"),
        ("redux.sync.min.abs.f32 f, g, 0xffffffff", "redux of floats"),
        ("bra.frob L; L: mov.b32 a, b", ".frob"),
        ("mul.hi.f32 f, g, h", "mul with .hi"),
        ("lop3.or.b32 p|a, b, c, d, 3, q", "lop3"),
    ],
)
def test_forms_that_are_not_emulated_are_refused_by_name(text, says):
    with pytest.raises(EmulationError) as caught:
        translate(text)
    assert says in str(caught.value) and "line 7" in str(caught.value), caught.value


def test_every_row_of_the_table_becomes_python_in_one_way():
    rows = {key: op for key, op in opcodes.OPS.items() if not op.refused}
    ends = {key for key, op in rows.items() if op.ends and op.ends != "call"}
    assert {rows[key].ends for key in ends} == set(control._ENDS)
    assert {key for key in rows if rows[key].emit is None} - ends == set(emit.LOWER)


# -- advice

KOGGE = """
    s[t] = t;
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        const int other = t >= d ? s[t - d] : 0;
        BARRIER
        s[t] += other;
        __syncthreads();
    }
    out[t] = s[t];
"""


MBARRIER = (
    '__shared__ unsigned long long b; if (n < 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;"'
    ' :: "r"((unsigned)__cvta_generic_to_shared(&b)));'
)


@pytest.mark.parametrize("before", ["", "__threadfence();", MBARRIER])  # of each judge of races
@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_no_race_of_two_warps_is_advised_a_barrier_of_one(before, schedule):
    """In the first round only the first lane of a warp reads what another warp writes."""
    body = before + KOGGE
    assert run(body.replace("BARRIER", "__syncthreads();"), threads=256, schedule=schedule)[0].ok
    report, _ = run(body.replace("BARRIER", ""), threads=256, schedule=schedule)
    for found in of_kind(report, "race"):
        assert "__syncwarp()" not in found.message, found
        assert len({t[0] // 32 for t in found.threads}) == 2, found


def test_rare_meetings_of_two_warps_are_found_among_many_of_one():
    """One place in 64 is shared by two warps, and not one that a sample of the places meets."""
    for at in (1, 17, 40, 63):
        body = f"s[t + 64] = t; out[t] = s[64 + (t == {at} ? ({at} + 32) % 64 : t ^ 1)];"
        (found,) = of_kind(run(body)[0], "race")
        assert "__syncthreads()" in found.message and "__syncwarp()" not in found.message, found


def test_a_later_race_of_two_warps_corrects_the_advice():
    body = "for (int d = 1; d < 64; d *= 2) { s[t] = t; out[t] = s[t ^ d]; __syncthreads(); }"
    (found,) = of_kind(run(body)[0], "race")
    assert "__syncwarp()" not in found.message
    within, _ = run(body.replace("d < 64", "d < 32"))
    assert "__syncwarp()" in of_kind(within, "race")[0].message


# -- global memory, and flags there that many threads set

FLAG = """
extern "C" __global__ void k(const int* x, int* y, int* flag)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    BODY
}
"""
PUT = 'asm volatile("st.global.u32 [%0], 7; //" :: "l"(flag) : "memory");'
"""As in shared memory, equal values are forgiven to one instruction only."""


@pytest.mark.parametrize(
    ("body", "fine"),
    [
        ("if (x[i] > 20) *flag = 1;", True),
        ("if (x[i] > 20) { *flag = 1; y[i] = 3; }", True),
        ("flag[i % 3] = 7;", True),
        ("if (x[i] > 20) *flag = 1; else flag[1] = 1;", True),
        ("if (x[i] > 20) *flag = x[i];", False),
        ("*flag = i;", False),
        ("if (x[i] > 20) *flag = 1; else if (x[i] > 10) *flag = 2;", False),
        ("if (x[i] > 20) *flag = 1; y[i] = *flag;", False),
        ("*flag = i < 32 ? 1 : 2;", False),
        ("*flag = blockIdx.x;", False),
        ("*flag += 1;", False),
        ("*(volatile int*)flag += 1;", False),
        ("y[i / 2] = x[i / 2] * 5;", False),  # equal, but each lane of the store has its own
        ("y[i] = 7;", True),
        ("y[i >> 1] = i;", False),
        ("y[i] = y[i] + 1;", True),
        ("y[i] = y[(i + 64) % 256] + 1;", False),  # of another block
        ("y[i] = 7; __syncthreads(); if (y[i ^ 63] < 0) y[i] = 1;", True),
        ("y[i] = 7; if (y[i ^ 63] < 0) y[i] = 1;", False),
        (f"if (i < 128) {{ {PUT} }}", True),
        (f"if (i < 128) {{ {PUT} }} else {{ {PUT.replace('//', '// and')} }}", False),
    ],
)
@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("lanes", [64, 1 << 16])
def test_threads_that_write_where_others_do_race_unless_they_set_one_flag(
    body, fine, schedule, lanes
):
    args = [np.arange(256, dtype=np.int32), np.zeros(256, np.int32), np.zeros(4, np.int32)]
    report = emulator.launch(
        FLAG.replace("BODY", body), "k", 4, 64, args, schedule=schedule, lanes=lanes
    )
    if fine:
        assert report.ok, report
    else:
        wrong = "flag" if "flag" in body else "y"
        found = of_kind(report, "race")
        assert {f.array for f in found} == {wrong}
        if "i >> 1" in body and schedule == "ascending":
            assert found[0].index == "y[0]", "the first place of all"


# -- dynamic shared memory that the launch does not ask for

DYNAMIC = """extern "C" __global__ void k(const int* x, int* y)
{
    extern __shared__ int tile[];
    STATIC
    USE
    __syncthreads();
    y[threadIdx.x] = 1;
}
"""
USES = {
    "store": "tile[threadIdx.x] = x[threadIdx.x];",
    "load": "y[threadIdx.x] = tile[threadIdx.x];",
    "atomic": "atomicAdd(&tile[threadIdx.x], 1);",
    "vector": "reinterpret_cast<int4*>(tile)[threadIdx.x] = make_int4(1, 2, 3, 4);",
    "cp.async": (
        'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: '
        '"r"((unsigned)__cvta_generic_to_shared(tile + threadIdx.x)), "l"(x + threadIdx.x));'
    ),
    "ldmatrix": (
        'asm volatile("{.reg .b32 r; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r}, [%0];}" :: '
        '"r"((unsigned)__cvta_generic_to_shared(tile)));'
    ),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("analyse", [True, False])
def test_dynamic_shared_memory_that_was_forgotten_is_asked_for(use, analyse):
    args = [np.zeros(32, np.int32), np.zeros(32, np.int32)]
    source = DYNAMIC.replace("USE", use).replace("STATIC", "")
    with pytest.raises(ConfigError, match=r"line 5 .*'tile'.*shared_bytes=0. Give its size"):
        emulator.launch(source, "k", 1, 32, args, arch="sm_80", analyse=analyse)
    emulator.launch(source, "k", 1, 32, args, shared_bytes=512, arch="sm_80", analyse=analyse)
    static = "__shared__ int own[4]; if (threadIdx.x == 0) { own[y[3]] = 1; y[0] = own[0]; }"
    beside = DYNAMIC.replace("USE", use).replace("STATIC", static)
    report = emulator.launch(beside, "k", 1, 32, args, arch="sm_80", analyse=analyse)
    (found,) = [f for f in report.findings if f.kind == "out-of-bounds"]
    assert "'tile' is dynamic shared memory" in found.message and found.line == 5


def test_a_kernel_may_leave_its_dynamic_shared_memory_alone():
    args = [np.zeros(32, np.int32), np.zeros(32, np.int32)]
    source = DYNAMIC.replace("USE", "if (x[threadIdx.x] > 5) tile[threadIdx.x] = 1;")
    assert emulator.launch(source.replace("STATIC", ""), "k", 1, 32, args).ok


# -- bits loaded into wider registers


@pytest.mark.parametrize("space", ["global", "shared", "local"])
@pytest.mark.parametrize(
    ("load", "want"),
    [
        ("b16", 0xFFFE), ("u16", 0xFFFE), ("s16", 0xFFFFFFFE), ("b8", 0xFE), ("u8", 0xFE),
        ("s8", 0xFFFFFFFE),
    ],
)  # fmt: skip
def test_bits_are_extended_with_zeros(load, want, space):
    """PTX ISA, ld: only signed types are extended with the sign."""
    place = {"global": "in", "shared": "s", "local": "mine"}[space]
    body = f"""
    volatile int mine[4]; mine[n & 3] = -2; s[t] = -2; __syncthreads();
    unsigned long long g = (unsigned long long)(const void*){place} + {0 if space != "local" else "4 * (n & 3)"}, at;
    asm volatile("{{.reg .u64 a; cvta.to.{space}.u64 %0, %1;}}" : "=l"(at) : "l"(g));
    unsigned v;
    asm volatile("ld.{space}.{load} %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    out[t] = v;
    """
    source = HEAD + body + "\n}\n"
    given, out = np.full(256, -2, np.int32), np.zeros(256, np.int32)
    emulator.launch(source, "k", 1, 32, [given, out, 1], arch="sm_80")
    assert (out[:32].view(np.uint32) == want).all(), hex(int(out.view(np.uint32)[0]))


# -- matrices at generic addresses

WMMA = """
#include <mma.h>
using namespace nvcuda;
__device__ __noinline__ const half* choose(const half* a, const half* b, int which) { return which ? a : b; }
__device__ __noinline__ float* either(float* a, float* b, int which) { return which ? a : b; }
extern "C" __global__ void k(const half* A, float* C, int which)
{
    __shared__ half tile[256];
    __shared__ float sums[4][256];
    const int warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i < 256; i += blockDim.x) tile[i] = A[i];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) sums[0][i] = 0;
    __syncthreads();
    const int mine = which == 2 ? warp % 2 : which;
    const half* from = choose(A, tile, mine);
    float* to = either(C + 256 * warp, sums[warp], mine);
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::load_matrix_sync(a, from, 16);
    wmma::load_matrix_sync(b, from, 16);
    wmma::fill_fragment(c, 0.0f);
    wmma::mma_sync(c, a, b, c);
    wmma::store_matrix_sync(to, c, 16, wmma::mem_row_major);
    __syncthreads();
    if (mine == 0)
        for (int i = threadIdx.x % 32; i < 256; i += 32) C[256 * warp + i] = sums[warp][i];
}
"""


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_each_warp_has_a_matrix_address_of_its_own_space(which, schedule):
    """What lanes hold that are not active must not decide over the space; warps may differ."""
    A = np.random.default_rng(3).integers(-4, 5, (16, 16)).astype(np.float16)
    for seed in range(4):
        C = np.zeros((4, 16, 16), np.float32)
        report = emulator.launch(
            WMMA, "k", 1, 128, [A, C, which], schedule=schedule, seed=seed, arch="sm_80"
        )
        assert report.ok, report
        np.testing.assert_array_equal(C, np.tile((A @ A).astype(np.float32), (4, 1, 1)))


def test_atomics_look_only_at_the_addresses_of_active_lanes():
    pick = "__device__ __noinline__ int* pick(int* a, int* b, int w) { return w ? a : b; }\n"
    body = """
    int mine[2] = {n, t};
    s[t] = 0;
    __syncthreads();
    int* p = pick(s + t / 2, mine + (n & 1), t % 2);
    if (t % 2) atomicAdd(p, 5); else *p = 3;
    __syncthreads();
    out[t] = s[t] + (t % 2 ? 0 : mine[n & 1]);
}
"""
    out = np.zeros(256, np.int32)
    report = emulator.launch(pick + HEAD + body, "k", 1, 64, [out.copy(), out, 20])
    assert report.ok, report
    want = np.where(np.arange(64) < 32, 5, 0) + np.where(np.arange(64) % 2, 0, 3)
    np.testing.assert_array_equal(out[:64], want)


# -- refused by name


@pytest.mark.parametrize(
    ("code", "opcode"),
    [
        ("x[i] = tex1Dfetch<float>(t, i);", "tex"),
        ("surf2Dwrite(x[i], t, 4 * i, 0);", "sust"),
        ("x[i] = surf1Dread<float>(t, 4 * i);", "suld"),
    ],
)
def test_textures_and_surfaces_are_refused_by_name_and_line(code, opcode):
    source = f"""extern "C" __global__ void k(unsigned long long t, float* x)
{{
    const int i = threadIdx.x;
    {code}
}}
"""
    says = "textures and surfaces are not emulated. Read from a pointer instead"
    with pytest.raises(EmulationError, match=f"line 4: .*{opcode}.*{says}"):
        emulator.launch(source, "k", 1, 32, [1, np.zeros(32, np.float32)])


def test_kernels_that_launch_kernels_are_refused():
    source = """__global__ void child(int* x) { x[0] = 1; }
extern "C" __global__ void k(int* x)
{
    child<<<1, 1>>>(x);
}
"""
    with pytest.raises((EmulationError, CompileError)) as caught:
        emulator.launch(source, "k", 1, 32, [np.zeros(32, np.int32)])
    message = str(caught.value) + getattr(caught.value, "hint", "")
    assert "<<<" in message and "launch" in message
    with pytest.raises(CompileError, match="undefined"):
        emulator.launch(source.replace("child<<<1, 1>>>(x);", "undefined(x);"), "k", 1, 32, [])
