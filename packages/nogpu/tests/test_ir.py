"""PTX made of clang's LLVM IR does what clang's own does; what has no translation is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from foreign_kernels import cuda

from nogpu import clang, emulator, ir, toolchain
from nogpu.errors import ToolchainError
from nogpu.ir import accesses, registers, text
from nogpu.ir.registers import Edge, Use

MAIN = "/k.cu"


@pytest.fixture
def by_ir(monkeypatch):
    """clang compiles in this test as far as LLVM IR."""
    monkeypatch.setenv("TILE_COMPILER", "clang")
    monkeypatch.setenv("TILE_CLANG_IR", "1")


def module(body, parameters="ptr %x, ptr %y", more=""):
    """A kernel `k` in LLVM IR; its lines stand in a file k.cu, !7 is line 5."""
    return f"""
{more}
define ptx_kernel void @k({parameters}) #0 !dbg !4 {{
entry:
{body}
}}
attributes #0 = {{ "nvvm.maxntid"="32" }}
!3 = !DIFile(filename: "{MAIN}", directory: "")
!4 = distinct !DISubprogram(name: "k", scope: !3, file: !3, line: 2, unit: !5)
!7 = !DILocation(line: 5, column: 3, scope: !4)
"""


def ptx(body, *rest):
    return ir.ptx(module(body, *rest), MAIN, "sm_80")


# -- the whole route -------------------------------------------------------------------------------

PROGRAM = cuda("ir_program")


def launched(source, route, monkeypatch):
    """A report and y. route: "0" clang's own PTX, "1" by LLVM IR, "nvrtc"."""
    monkeypatch.setenv("TILE_COMPILER", "nvrtc" if route == "nvrtc" else "clang")
    monkeypatch.setenv("TILE_CLANG_IR", route)
    x = np.linspace(-3, 5, 32).astype("f4")
    y = np.zeros(32, "f4")
    pair = np.array([(2.5, 3)], dtype=[("a", "f4"), ("b", "i4")])[0]
    return emulator.launch(source, "k", 1, 32, [x, y, pair]), y


def test_a_program_gives_the_same_bits_and_counts_as_by_clangs_own_ptx(monkeypatch):
    ours, y = launched(PROGRAM, "1", monkeypatch)
    theirs, z = launched(PROGRAM, "0", monkeypatch)
    assert ours.compiler.endswith(" by LLVM IR") and not theirs.compiler.endswith(" by LLVM IR")
    assert ours.ok and theirs.ok and y.tobytes() == z.tobytes() and len(set(y)) > 10
    assert str(ours).replace(" by LLVM IR", "") == str(theirs)


def test_a_race_is_found_at_the_same_line(monkeypatch):
    twin = PROGRAM.replace("    __syncthreads();\n", "")
    ours, theirs = (launched(twin, route, monkeypatch)[0] for route in "10")
    assert [str(f) for f in ours.findings] == [str(f) for f in theirs.findings] != []


def test_names_of_templates_and_what_clang_says_are_as_without_it(by_ir):
    source = "template <int N> __global__ void k(float* y) { y[N] = N; }"
    built = toolchain.compile(source, name_expressions=["k<3>"])
    assert f".entry {built.name_map['k<3>']}(" in built.ptx
    with pytest.raises(toolchain.CompileError, match=r"kernel\.cu\(1\): error: use of undeclared"):
        toolchain.compile(source.replace("= N", "= M"))


def test_a_cluster_has_its_size(by_ir):
    source = 'extern "C" __global__ void __cluster_dims__(2, 1, 1) k(float* y) { y[0] = 1; }'
    assert ".reqnctapercluster 2,1,1" in toolchain.compile(source, arch="sm_90a").ptx
    plain = source.replace("__cluster_dims__(2, 1, 1) ", "")
    assert "cluster" not in toolchain.compile(plain, arch="sm_90a").ptx


NEXT_TO_NVRTC = {
    "a structure by value": """
        struct Row { char tag; float a[4]; short n; double d; };
        __device__ __noinline__ float pick(Row r, int i) {
            r.a[i & 3] += 1;  // its own copy
            return r.a[(i + r.n) & 3] + r.tag + float(r.d);
        }
        __device__ __noinline__ Row next(int by, Row r) { r.n += by; r.d *= 2; return r; }
        extern "C" __global__ void k(const float* x, float* y, Pair p) {
            int t = threadIdx.x;
            Row r = {char(t - 9), {x[t], 2, x[31 - t], 4}, short(t), x[t] / 3};
            float first = pick(r, t / 2);
            y[t] = first + pick(next(t, r), t) + r.a[t & 3];
        }""",
    "a remainder": """
        #ifdef __clang__
        #define REMF __builtin_fmodf
        #define REM __builtin_fmod
        #else
        #define REMF fmodf
        #define REM fmod
        #endif
        extern "C" __global__ void k(const float* x, float* y, Pair p) {
            int t = threadIdx.x;
            float by = t == 5 ? 1.f / 0.f : x[31 - t] + 0.01f;
            y[t] = REMF(x[t], by) + float(REM(double(x[t]), 0.7));
            y[t] += 8 * (fmodf(x[t], 0.3f) + float(fmod(double(x[t]), -0.7)));
        }""",
    "atomic loads and stores": """
        #ifdef __clang__
        #define STORE(p, v, order) __scoped_atomic_store_n(p, v, __ATOMIC_##order, 2)
        #define LOAD(p, order) __scoped_atomic_load_n(p, __ATOMIC_##order, 1)
        #else
        #define STORE(p, v, o) __nv_atomic_store_n(p, v, __NV_ATOMIC_##o, __NV_THREAD_SCOPE_BLOCK)
        #define LOAD(p, o) __nv_atomic_load_n(p, __NV_ATOMIC_##o, __NV_THREAD_SCOPE_DEVICE)
        #endif
        extern "C" __global__ void k(const float* x, float* y, Pair p) {
            __shared__ int flag;
            __shared__ unsigned long long wide;
            int t = threadIdx.x;
            if (t == 0) {
                STORE(&flag, int(x[31]), RELEASE);
                STORE(&wide, 77ull, SEQ_CST);
                STORE((int*)y, __float_as_int(x[2]), RELAXED);
            }
            __syncthreads();
            float seen = t ? 0 : __int_as_float(LOAD((int*)y, RELAXED));
            seen += LOAD(&flag, ACQUIRE) + float(LOAD(&wide, SEQ_CST));
            if (t) y[t] = seen + x[t];
            else STORE((int*)y, __float_as_int(seen), RELEASE);
        }""",
    "a choice element by element": """
        #ifdef __clang__
        typedef float Four __attribute__((ext_vector_type(4)));
        #else
        struct Four { float x, y, z, w; };
        __device__ Four less(Four a, Four b) {
            return {fminf(a.x, b.x), fminf(a.y, b.y), fminf(a.z, b.z), fminf(a.w, b.w)};
        }
        #endif
        extern "C" __global__ void k(const float* x, float* y, Pair p) {
            int t = threadIdx.x;
            Four a = {x[t], x[31 - t], 1, x[t] * x[t]}, b = {0, x[t / 2], x[t], 2};
        #ifdef __clang__
            Four c = a < b ? a : b;
        #else
            Four c = less(a, b);
        #endif
            y[t] = c.x + 2 * c.y + 3 * c.z + 4 * c.w;
        }""",
    "a packed structure": """
        struct __attribute__((packed)) Row { char tag; int n; double d; short s; };
        __constant__ Row fixed = {3, 70000, 2.5, -7};
        __device__ __noinline__ float pick(Row r, int i) {
            r.n += i;
            return r.n + float(r.d) + r.s + r.tag;
        }
        extern "C" __global__ void k(const float* x, float* y, Pair p) {
            __shared__ Row rows[32];
            int t = threadIdx.x;
            Row r = {char(t - 9), int(x[t] * 10), x[31 - t] / 3, short(t)};
            rows[t].tag = t;
            rows[t].n = r.n + p.b;
            rows[t].d = r.d;
            rows[t].s = fixed.s;
            __syncthreads();
            Row other = rows[31 - t];
            y[t] = pick(r, t) + pick(other, 1) + fixed.n + float(fixed.d) + fixed.tag;
        }""",
    "memmove": """
        #ifdef __clang__
        #define memmove __builtin_memmove
        #else
        __device__ void memmove(void* to, const void* from, int n) {
            char *a = (char*)to, *b = (char*)from;
            if (b < a) while (n--) a[n] = b[n];
            else for (int i = 0; i < n; ++i) a[i] = b[i];
        }
        #endif
        extern "C" __global__ void k(const float* x, float* y, Pair p) {
            if (threadIdx.x) return;
            for (int i = 0; i < 32; ++i) y[i] = x[i];
            int n = int(x[31]) * 16;
            memmove(y + 1, y, n);            // up
            memmove(y + 20, y + 22, n / 2);  // down
            memmove(y, y, n - n);
        }""",
}


@pytest.mark.parametrize("name", NEXT_TO_NVRTC)
def test_what_a_readers_text_may_ask_for_gives_nvrtcs_bits(name, monkeypatch):
    if not toolchain.has_nvrtc():
        pytest.skip("did not run: there is no NVRTC here")
    source = "struct Pair { float a; int b; };" + NEXT_TO_NVRTC[name]
    (ours, y), (theirs, z) = (launched(source, route, monkeypatch) for route in ("1", "nvrtc"))
    assert ours.compiler.endswith(" by LLVM IR") and theirs.compiler.startswith("NVRTC")
    assert ours.ok and theirs.ok and y.tobytes() == z.tobytes() and len(set(y)) > 10


# -- the runner ------------------------------------------------------------------------------------


@pytest.fixture
def calls():
    """A runner that has clang run by a process, and what it was asked."""
    commands: list[tuple[list[str], list[str]]] = []
    own = clang.command()

    def run(arguments, folders):
        commands.append((arguments, folders))
        process = clang.subprocess.run([*own, *arguments[1:]], capture_output=True, text=True)
        return process.returncode, process.stdout, process.stderr

    clang.set_runner(run)
    yield commands
    clang.set_runner(None)


def test_a_runner_is_asked_for_all_and_gets_the_folders(calls, monkeypatch):
    monkeypatch.setenv("TILE_COMPILER", "clang")
    assert clang.version().endswith("by LLVM IR") and calls == [(["clang", "--version"], [])]
    assert ".entry k(" in toolchain.compile('extern "C" __global__ void k() {}').ptx
    (first, folders), (second, _) = calls[1:]
    assert first[:2] == ["clang", "-cc1"] and "-vectorize-slp" not in first + second
    assert first[-1].startswith(folders[0]) and str(clang.HEADERS) in folders
    assert all("-S" not in arguments for arguments, _ in calls)


def test_a_runner_may_read_the_names_that_host_headers_bring(calls, monkeypatch):
    monkeypatch.setenv("TILE_COMPILER", "clang")
    y = np.zeros(1, "f4")
    bare = 'extern "C" __global__ void k(float* y) { uint i = 0; y[i] = -INFINITY * M_PI; }'
    assert emulator.launch(bare, "k", 1, 1, [y]).ok and y[0] == -np.inf
    read = {option: folders for words, folders in calls for option in words if "pasted.h" in option}
    assert read and all(str(Path(o[8:]).parent) in folders for o, folders in read.items())


# -- instruction by instruction --------------------------------------------------------------------

INSTRUCTIONS = {
    "%a = load float, ptr %x, align 4\n%b = load float, ptr %y, align 4\n"
    "%m = fmul float %a, %b\n%s = fadd float %m, %a\nstore float %s, ptr %y, align 4": "fma.rn.f32",
    "%a = load i32, ptr %x, align 4\n%b = zext i32 %a to i64\n%c = udiv i64 %b, 7\n"
    "store i64 %c, ptr %y, align 8": "div.u64",
    "%a = load i8, ptr %x, align 1\n%c = icmp ult i8 %a, -3\n%d = zext i1 %c to i32\n"
    "store i32 %d, ptr %y, align 4": ", 253;",
    "%a = load i8, ptr %x, align 1\n%b = udiv i8 %a, -56\nstore i8 %b, ptr %y, align 1": ", 200;",
    "%a = load i16, ptr %x, align 2\n%c = lshr i16 -2, %a\nstore i16 %c, ptr %y, align 2": ", 65534;",
    "call void @llvm.nvvm.barrier0()": "bar.sync 0;",
    "%a = call i32 @llvm.nvvm.barrier0.popc(i32 5)\nstore i32 %a, ptr %y, align 4": "bar.red.popc.u32 %r",
    "%a = call i32 @llvm.nvvm.barrier0.and(i32 5)\nstore i32 %a, ptr %y, align 4": "bar.red.and.pred %p",
    "%a = call i32 @llvm.nvvm.barrier0.or(i32 5)\nstore i32 %a, ptr %y, align 4": "bar.red.or.pred %p",
    "%a = load <2 x half>, ptr %x, align 2\nstore <2 x half> %a, ptr %y, align 4": "ld.global.u16 %rs",
    "%a = atomicrmw add ptr %x, i32 4 seq_cst\nstore i32 %a, ptr %y, align 4": "atom.global.add.u32",
    "%c = fcmp ugt float 1.0, 2.0\n%d = select i1 %c, float 3.0, float 4.0\n"
    "store float %d, ptr %y, align 4": "setp.gtu.f32",
    "%a = load <8 x half>, ptr %x, align 16\nstore <8 x half> %a, ptr %y, align 16": "ld.global.v4.b32",
    '%a = call { i32, i32 } asm "mov.b64 {$0, $1}, $2;", "=r,=r,l"(i64 5)\n'
    "%b = extractvalue { i32, i32 } %a, 1\nstore i32 %b, ptr %y, align 4": "mov.b64 {%r1, %r2}, %rd",
    "call void @llvm.memcpy.p0.p0.i64(ptr align 4 %y, ptr align 4 %x, i64 6, i1 false)": "ld.global.u16",
    "%a = load float, ptr %x, align 4\n%b = call i1 @llvm.is.fpclass.f32(float %a, i32 512)\n"
    "%d = zext i1 %b to i32\nstore i32 %d, ptr %y, align 4": "testp.infinite.f32",
}


@pytest.mark.parametrize("body", INSTRUCTIONS, ids=INSTRUCTIONS.values())
def test_an_instruction_is_written(body):
    assert INSTRUCTIONS[body] in ptx(f"{body}\nret void")


@pytest.mark.parametrize(
    ("body", "construct"),
    [
        ("call void @llvm.nvvm.unheard.of()", "the intrinsic llvm.nvvm.unheard.of"),
        (
            "%a = call float @llvm.nvvm.sqrt.rn.ftz.f(float 2.0)",
            "the intrinsic llvm.nvvm.sqrt.rn.ftz",
        ),
        ("%a = frem half 1.0, 2.0\nstore half %a, ptr %y, align 2", "frem of half"),
        ("%a = add i128 1, 2\nstore i128 %a, ptr %y, align 16", "add of 128 bits"),
        ("%a = va_arg ptr %x, i32\nstore i32 %a, ptr %y, align 4", "the instruction `va_arg`"),
    ],
)
def test_what_has_no_translation_is_refused_by_name_and_line(body, construct):
    placed = "\n".join(f"{line}, !dbg !7" for line in body.splitlines())
    with pytest.raises(ToolchainError, match="has no translation") as refused:
        ptx(f"{placed}\nret void")
    assert construct in str(refused.value) and "NVRTC" in str(refused.value)
    assert "line 5" in str(refused.value)


# -- accesses that become one ----------------------------------------------------------------------

_LOADED = "%p{0} = getelementptr i8, ptr %x, i64 {1}\n%v{0} = load float, ptr %p{0}, align {2}"
FOUR = "\n".join(_LOADED.format(i, 4 * i, align) for i, align in enumerate((16, 4, 8, 4)))
_PUT = "%q{0} = getelementptr float, ptr %y, i64 {1}\nstore float %v{0}, ptr %q{0}, align 4"
STORED = "\n".join(_PUT.format(i, 5 * i) for i in range(4))


@pytest.mark.parametrize(
    ("what", "by", "joined"),
    [
        ("", "", True),
        ("%p1 =", "store float 1.0, ptr addrspace(3) @s, align 4\n%p1 =", True),  # elsewhere
        ("align 16", "align 4", False),  # not aligned to all of it
        ("%p1 =", "call void @llvm.nvvm.membar.gl()\n%p1 =", False),  # not moved over a fence
        ("%p1 =", "store float 1.0, ptr %y, align 4\n%p1 =", False),  # may be the same bytes
        ("i64 4\n", "i64 20\n", False),  # a gap
    ],
)
def test_four_neighbours_are_one_access_where_nothing_is_in_the_way(what, by, joined):
    body = FOUR.replace(what, by, 1)
    shared = "@s = internal addrspace(3) global [4 x float] undef, align 4"
    written = ptx(f"{body}\n{STORED}\nret void", "ptr %x, ptr %y", shared)
    assert ("ld.global.v4.f32" in written) == joined and (body == FOUR) == (not by)
    assert ("st.shared.f32 [s]" in written) == ("@s" in by)
    assert written.count("st.global.f32") == 4 + ("ptr %y" in by)


# -- registers -------------------------------------------------------------------------------------


def test_a_loop_adds_in_place():
    written = ptx(
        "br label %loop\nloop:\n%i = phi i32 [ 0, %entry ], [ %j, %loop ]\n"
        "%s = phi float [ 0.0, %entry ], [ %t, %loop ]\n%t = fadd float %s, 1.0\n"
        "%j = add i32 %i, 1\n%c = icmp slt i32 %j, 9\nbr i1 %c, label %loop, label %end\nend:\n"
        "store float %t, ptr %y, align 4\nret void"
    )
    assert "add.rn.f32 %f1, %f1," in written and "add.s32 %r1, %r1, 1" in written


def test_what_is_still_needed_keeps_its_register():
    a, b, c = ("a", 0), ("b", 0), ("c", 0)
    families = dict.fromkeys((a, b, c), "r")
    edges = [Edge("top", "loop", [(a, c)]), Edge("loop", "loop", [(a, b)])]
    code = {"top": [Use([], [c])], "loop": [Use([a], [b])]}
    heads = registers.shared(code, {"loop": [a]}, edges, families)
    assert heads[a] == heads[b] == heads[c]
    code["loop"] = [Use([a], [b]), Use([a], [])]  # a is read after b is made
    heads = registers.shared(code, {"loop": [a]}, edges, families)
    assert heads[a] == heads[c] != heads[b]


def test_two_that_change_places_do_not_overwrite_each_other():
    body = (
        "br label %loop\nloop:\n%a = phi i32 [ 1, %entry ], [ %b, %loop ]\n"
        "%b = phi i32 [ 2, %entry ], [ %a, %loop ]\n%c = icmp slt i32 %a, 9\n"
        "store i32 %a, ptr %y, align 4\nbr i1 %c, label %loop, label %end\nend:\nret void"
    )
    moves = [line.split() for line in ptx(body).splitlines() if "mov.b32 %r" in line]
    ring = [(m[1].rstrip(","), m[2].rstrip(";")) for m in moves[-3:]]
    state = {"%r1": "a", "%r2": "b"}
    for to, source in ring:
        state[to] = state[source]
    assert (state["%r1"], state["%r2"]) == ("b", "a")


# -- places ----------------------------------------------------------------------------------------


def test_a_line_and_the_call_that_it_was_inlined_from():
    nodes = (
        '!10 = !DIFile(filename: "/own.h", directory: "")\n'
        '!11 = distinct !DISubprogram(name: "f", scope: !10, file: !10, line: 1, unit: !5)\n'
        "!12 = !DILocation(line: 9, column: 1, scope: !11, inlinedAt: !7)\n"
    )
    body = "store float 1.0, ptr %y, align 4, !dbg !7\nstore float 2.0, ptr %x, align 4, !dbg !12\nret void"
    written = ir.ptx(module(body) + nodes, MAIN, "sm_80")
    assert ".loc\t1 5 3\n" in written
    assert ".loc\t2 9 1, function_name $L, inlined_at 1 5 3\n" in written
    assert '.file\t1 "/k.cu"' in written and '.file\t2 "/own.h"' in written


def test_members_of_a_packed_structure_are_reached_and_set_where_they_lie():
    body = "%p = getelementptr %s, ptr %x, i64 2, i32 1\n%a = load i32, ptr %p, align 1\n"
    body += "store i32 %a, ptr %y, align 4\nret void"
    initial = "<{ i8 1, i32 2, { i8, i8 } { i8 3, i8 4 } }>"
    more = (
        f"%s = type <{{ i8, i32, {{ i8, i8 }} }}>\n@v = addrspace(1) global %s {initial}, align 1"
    )
    written = ptx(body, "ptr %x, ptr %y", more)
    assert "[7] = {1, 2, 0, 0, 0, 3, 4}" in written
    assert [f"ld.global.u8 %rs{i + 1}, [%rd1+{15 + i}]" in written for i in range(4)] == [True] * 4


def test_types_lie_as_c_has_them():
    read = text.read("%s = type { i8, double, [3 x i16] }")
    assert read.offsets("%s") == [0, 8, 16] and read.size("%s") == 24
    packed = text.read("%s = type <{ i8, double, [3 x i16] }>\n%outer = type { i8, %s, i32 }")
    for kind in ("%s", packed.structures["%s"]):
        assert packed.offsets(kind) == [0, 1, 9] and packed.size(kind) == 15
        assert packed.scalars(kind)[1:3] == [(1, "double"), (9, "i16")] and packed.align(kind) == 1
    assert packed.offsets("%outer") == [0, 1, 16] and packed.align("%outer") == 4
    assert accesses.MOST_BYTES == read.size("<4 x float>") == read.align("<4 x float>")
