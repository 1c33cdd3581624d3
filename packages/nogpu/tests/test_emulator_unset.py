"""Variables without a value: told where they count, beside the same kernel that sets them."""

from __future__ import annotations

import numpy as np
import pytest

from nogpu import clang, emulator, toolchain

HEAD = 'extern "C" __global__ void k(const float* x, float* y, int n)\n{\n'


def run(body, n=5, block=8, before="", **options):
    """The findings of a kernel with this body; line 1 is its head, where nothing stands before."""
    x, y = np.arange(1, 65, dtype=np.float32), np.zeros(64, np.float32)
    source = f"{before}{HEAD}{body}\n}}\n"
    return emulator.launch(source, "k", 1, block, [x, y, n], arch="sm_80", **options).findings


HALF = "float s;\nif (threadIdx.x < n) s = x[threadIdx.x];\ny[threadIdx.x] = s;"
WARP = (
    "float c[4], a = x[threadIdx.x];\nunsigned u = __float_as_uint(a);\n"
    'asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, '
    '{%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};"\n'
    ' : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(u));\ny[threadIdx.x] = c[0];'
)
STRUCTURE = (
    "float4 v;\nv.x = v.y = v.w = n;\nif (n > 5) v.z = x[0];\n((float4*)y)[threadIdx.x] = v;"
)
ARRAY = "float s[4];\nfor (int i = 0; i < n; ++i)\n    s[i & 3] += x[i];\ny[0] = s[n & 3];"
GIVEN = "float v;\nget(x[threadIdx.x], v);\ny[threadIdx.x] = v;"
GET = "__device__ __noinline__ void get(float a, float& v) { if (a > 3) v = a; }\n"

FAULTS = [  # body, the line that shows it, the line that uses it first, threads, their values
    (HALF, 5, 0, "3 times", ("float s;", "float s = 0;")),
    (WARP, 7, 6, "32 times", ("float c[4]", "float c[4] = {}")),
    (STRUCTURE, 6, 0, "8 times", ("float4 v;", "float4 v = {};")),
]


def test_only_what_the_kernel_reaches_is_told():
    """Of functions that stand in lines of their own, one below the other."""
    lines = [
        "__device__ float unused() { float a; return a; }",
        "__device__ float called(float* y) { float b; y[1] = b; return 1; }",
        'extern "C" __global__ void k(float* y) { float c; y[0] = c + called(y); }',
        "__device__ float behind() { float d; return d; }",
    ]
    found = emulator.launch("\n".join(lines), "k", 1, 32, [np.zeros(2, np.float32)]).findings
    unset = [f for f in found if f.kind == "uninitialised"]
    assert [(f.line, f.array, f.count) for f in unset] == [(2, "b", 1), (3, "c", 1)]


@pytest.mark.parametrize(("body", "line", "first", "times", "cure"), FAULTS)
def test_a_register_without_a_value_is_told_where_it_shows(body, line, first, times, cure):
    block = 32 if body is WARP else 8
    (finding,) = run(body, block=block)
    assert finding.kind == "uninitialised"
    assert (finding.line, finding.other_line if first else 0) == (line, first)
    assert f"({times})" in str(finding)
    assert finding.threads == ((5, 0, 0) if body is HALF else (0, 0, 0),)
    assert run(body.replace(*cure), block=block) == ()
    assert run(body, block=block, analyse=False) == ()


def test_what_lies_in_local_memory_is_followed_too():
    (finding,) = run(ARRAY, n=6, block=1)
    assert (finding.kind, finding.line) == ("uninitialised", 6)
    assert run(ARRAY.replace("s[4]", "s[4] = {}"), n=6, block=1) == ()
    written = "float s[4];\nfor (int i = 0; i < n; ++i)\n    s[i & 3] = x[i];\ny[0] = s[2];"
    assert run(written, n=3, block=1) == ()
    assert [f.line for f in run(written, n=2, block=1)] == [6]
    (finding,) = run(GIVEN, before=GET)
    assert (finding.line, finding.count) == (6, 3)  # of 8, whose x are 1 to 8
    assert run(GIVEN.replace("float v;", "float v = 0;"), before=GET) == ()


def test_counts_are_those_of_the_kernel_alone():
    x, y = np.arange(1, 65, dtype=np.float32), np.zeros(64, np.float32)
    reports = [
        emulator.launch(f"{HEAD}{body}\n}}", "k", 1, 8, [x, y, 5], arch="sm_80")
        for body in (HALF, HALF.replace("if (threadIdx.x < n) ", "s = 0;"))
    ]
    assert "unset" not in reports[0].instructions
    assert reports[0].findings
    assert reports[0].instructions["st.global.f32"] == 1
    compiled = toolchain.compile(f"{HEAD}{HALF}\n}}", arch="sm_80").ptx
    assert sum(reports[0].instructions.values()) <= compiled.count(";")


HELPER = "__device__ float two()\n{\n    float t;\n    return 2 * t;\n}\n"


@pytest.mark.parametrize(
    ("before", "body", "line"),
    [
        ("", "float t;\ny[0] = t;", 4),
        ("", "float t;\nt += x[0];\ny[0] = t;", 4),
        (HELPER + "__device__ float one() { return two(); }\n", "y[0] = one();", 4),
    ],
)
def test_what_the_compiler_leaves_out_is_told_in_its_words(before, body, line):
    (finding,) = run(body, before=before)
    assert (finding.kind, finding.line, finding.array) == ("uninitialised", line, "t")
    assert "says the compiler" in finding.message
    assert (
        run(
            body.replace("float t;", "float t = 1;"),
            before=before.replace("float t;", "float t = 1;"),
        )
        == ()
    )


FOLDED = {  # the compiler takes a number for what has none: body, line, how many times
    "a branch": ("int v;\nif (x[threadIdx.x] > 5)\n    v = 3;\ny[threadIdx.x] = v;", 6, 5),
    "integers": ("int v;\nfor (int i = 0; i < 4; ++i)\n    v += i;\ny[threadIdx.x] = v;", 6, 8),
    "an array": (
        "float s[4];\nfor (int i = 0; i < 8; ++i)\n    for (int j = 0; j < 4; ++j)\n"
        "        s[j] += x[i];\nfor (int j = 0; j < 4; ++j)\n    y[threadIdx.x] = s[j];", 8, 32,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "line", "count"), FOLDED.values(), ids=FOLDED)
def test_what_an_optimising_compiler_hides_is_told_all_the_same(body, line, count):
    (finding,) = run(body)
    assert (finding.kind, finding.line, finding.count) == ("uninitialised", line, count)
    cured = body.replace(" v;", " v = 1;", 1).replace("[4];", "[4] = {};", 1)
    assert run(cured) == ()


def test_results_are_those_of_the_compiled_kernel():
    x, y = np.zeros(8, np.float32), np.ones(8, np.float32)
    body = FOLDED["a branch"][0].replace("= v;", "+= v;")
    report = emulator.launch(f"{HEAD}{body}\n}}", "k", 1, 8, [x, y, 8], expect={"y": y + 3})
    assert [f.kind for f in report.findings] == ["uninitialised"] and (y == 4).all()


@pytest.mark.skipif(not clang.available(), reason="needs clang: pip install ziglang")
def test_clang_says_when_a_variable_has_no_value(monkeypatch):
    monkeypatch.setenv("TILE_COMPILER", "clang")
    x, y = np.zeros(8, np.float32), np.ones(8, np.float32)
    body = FOLDED["a branch"][0]
    for text, notes in ((body, 1), (body.replace(" v;", " v = 1;", 1), 0)):
        report = emulator.launch(f"{HEAD}{text}\n}}", "k", 1, 8, [x, y, 8])
        warnings = [n for n in report.notes if "'v' is used without a value whenever" in n]
        assert report.ok and len(warnings) == notes


# -- one instruction at a time, by PTX that is written here ---------------------------------------

HAND = """.version 8.6 .target sm_90 .address_size 64
.visible .entry k(.param .u64 px, .param .u64 py) {
.reg .b32 t, u, v, w, a, b, c; .reg .b64 x, y, z, big; .reg .pred p, q, r, s, up, both; .reg .f32 f;
.local .align 8 .b8 own[32]; .local .align 4 .b8 more[16];
mov.u32 t, %tid.x; ld.param.u64 x, [px]; ld.param.u64 y, [py]; mul.wide.u32 z, t, 4; add.s64 y, y, z;
setp.ge.u32 p, t, 5; setp.lt.u32 q, t, 16; mov.b32 w, 3; mov.b32 a, 0;
.loc 1 9 1
@p mov.b32 u, 7; @q mov.b32 v, 1; @p setp.eq.s32 up, t, 0;
.loc 1 20 1
"""
SAYS = {"S": "stores", "A": "takes an address from", "D": "decides by"}
SHOWN = {  # instructions: what is told, and of how many lanes. u and up lack a value in 5, v in 16.
    "st.global.b32 [y], u;": "S5", "st.global.b32 [y], t;": "", "st.b32 [y], u;": "S5", "st.b32 [y], t; st.global.b32 [x], u;": "S5", "@q st.global.b32 [y], v;": "",
    "st.global.v2.b32 [x], {u, t};": "S5", "st.global.v2.b32 [x], {v, u};": "S21", "@!p st.global.b32 [y], u;": "S5",
    "@p st.global.b32 [y], u;": "", "add.s32 a, u, v; st.global.b32 [y], a;": "S21", "mov.b32 u, 3; st.global.b32 [y], u;": "",
    "and.b32 a, u, w; st.global.b32 [y], a;": "", "or.b32 a, u, v; st.global.b32 [y], a;": "", "or.b32 a, u, u; st.global.b32 [y], a;": "S5",
    "lop3.b32 a, u, u, w, 0x80; st.global.b32 [y], a;": "", "xor.b32 a, u, w; st.global.b32 [y], a;": "S5",
    "prmt.b32 a, u, w, 0x3210; st.global.b32 [y], a;": "", "bfi.b32 a, u, t, 0, 8; st.global.b32 [y], a;": "",
    "mov.b64 z, {u, w}; st.global.b64 [x], z;": "", "mov.b64 z, {u, v}; st.global.b64 [x], z;": "",
    "mov.b64 z, {u, u}; mov.b64 {a, b}, z; st.global.b32 [y], b;": "S5",
    "selp.b32 a, u, t, q; st.global.b32 [y], a;": "S5", "selp.b32 a, t, u, q; st.global.b32 [y], a;": "",
    "selp.b32 a, t, w, up; st.global.b32 [y], a;": "S5", "selp.b32 a, v, u, p; st.global.b32 [y], a;": "S21",
    "@up bra L; st.global.b32 [y], t; L:": "D5", "@p bra L; st.global.b32 [y], u; L:": "S5", "@up exit;": "D5",
    "@up st.global.b32 [y], t;": "D5", "@up mov.b32 a, 1; st.global.b32 [y], a;": "S5", "@up mov.b32 a, 1;": "",
    "@up add.s32 a, a, v; st.global.b32 [y], a;": "S5", "@up mov.b32 a, 1; mov.b32 a, 2; st.global.b32 [y], a;": "",
    "setp.lt.s32 r, u, 3; @r bra L; st.global.b32 [y], t; L:": "D5", "setp.lt.s32 r|s, v, 3; @s exit;": "D16",
    "and.pred r, up, q; @r exit;": "D5", "and.pred r, up, p; @r exit;": "", "or.pred r, up, p; @r exit;": "D5",
    "or.pred r, up, q; @r exit;": "", "and.pred r, p, up; @r exit;": "", "or.pred r, q, up; @r exit;": "",
    "not.pred r, up; @!r exit;": "D5", "xor.pred r, up, p; @r exit;": "D5",
    "mul.wide.u32 z, u, 4; add.s64 z, x, z; @p ld.global.b32 a, [z];": "", "cvt.u64.u32 z, u; prefetch.global.L2 [z];": "",
    "mul.wide.u32 z, u, 0; add.s64 z, x, z; ld.global.b32 a, [z];": "A5",
    "mul.wide.u32 z, u, 0; add.s64 z, x, z; st.global.b32 [z+4], v;": "A21",
    "ld.global.b32 a, [y]; atom.global.add.u32 b, [x], u;": "S5", "red.global.add.u32 [x], v;": "S16",
    "mul.wide.u32 z, u, 0; add.s64 z, x, z; ld.global.b32 a, [z]; st.global.b32 [y], a;": "A5",
    "shfl.sync.idx.b32 a, u, 31, 31, -1; st.global.b32 [y], a;": "", "vote.sync.any.pred r, up, -1; @r exit;": "",
    "activemask.b32 a; match.any.sync.b32 b, v, -1; st.global.b32 [y], b;": "",
    "ways: .branchtargets A, B; and.b32 u, u, 0; @p mov.b32 u, 1; brx.idx u, ways; A: B:": "D5",
    "st.local.b32 [own], u; ld.local.b32 b, [own]; st.global.b32 [y], b;": "S5",
    "st.local.v2.b32 [own+8], {t, v}; ld.local.v2.b32 {b, c}, [own+8]; st.global.b32 [y], b;": "",
    "st.local.v2.b32 [own+8], {t, v}; ld.local.v2.b32 {b, c}, [own+8]; st.global.b32 [y], c;": "S16",
    "st.local.b32 [own], t; ld.local.b32 b, [own+4]; st.global.b32 [y], b;": "S32", "st.local.b32 [own], u;": "",
    "st.local.b32 [own+4], v; st.local.b32 [own+4], t; ld.local.b32 b, [own+4]; st.global.b32 [y], b;": "",
    "mov.u64 z, own; cvta.local.u64 z, z; st.b32 [z], u; ld.b32 b, [z]; st.global.b32 [y], b;": "S5",
    "L: st.global.b32 [y], c; mov.b32 c, 1; add.s32 a, a, 1; setp.lt.s32 r, a, 3; @r bra L;": "S32",
    "@q bra M; mov.b32 c, 1; M: @q bra N; st.global.b32 [y], c; N:": "", "bra M; M: st.global.b32 [y], u;": "S5",
}  # fmt: skip


@pytest.mark.parametrize("body", SHOWN)
def test_what_each_instruction_shows_of_a_register_without_a_value(body):
    x, y = np.zeros(64, np.int32), np.zeros(64, np.int32)
    found = emulator.launch(f"{HAND}{body} ret; }}", "k", 1, 32, [x, y], arch="sm_90").findings
    found = [f for f in found if f.kind == "uninitialised"]
    letters = {says: name for name, says in SAYS.items()}
    kinds = [next(letters[says] for says in letters if says in f.message) for f in found]
    assert [f"{kind}{f.count}" for kind, f in zip(kinds, found, strict=True)] == SHOWN[body].split()
    assert {f.line for f in found} <= {20}
