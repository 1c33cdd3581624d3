"""PTX text as data: what its grammar is read as, what is said of what is none, what programs need."""

from __future__ import annotations

import re
import struct

import pytest

from nogpu.emulator.ptx import accumulators, blocks, causes, ends, waits
from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.program import SharedSymbol, demangle
from nogpu.emulator.ptx.sites import calls_of
from nogpu.errors import EmulationError

HEAD = """// made by hand
.version 8.3
.target sm_80, debug
.address_size 64
.file 1 "/x/other.h", 1, 2
.file 2 "/x/a \\"b\\"/kernel.cu"
"""
DECLARED = """.reg .pred p, %p<3>; .reg .b32 a, b, c, d, %r<4>; .reg .b64 x, y; .reg .b128 w, v;"""
R, N, S = P.Register, P.Immediate, P.Symbol


def kernel(body, before="", params=""):
    """A kernel of these instructions, in whose module this stands before."""
    return P.parse(kernel_text(body, before, params), "kernel.cu").functions["k"]


def kernel_text(body, before="", params=""):
    return f"{HEAD}{before}\n.visible .entry k({params})\n{{ {DECLARED}\n{body}\n}}\n"


def double(value):
    return N(int.from_bytes(struct.pack("<d", value), "little"), "f64")


LITERALS = {
    "0": N(0), "-12": N(-12), "+12": N(12), "017": N(15), "-010": N(-8), "0x1fU": N(31),
    "-0X10": N(-16), "0b101": N(5), "7U": N(7), "08.5": double(8.5),
    "0f3F800000": N(0x3F800000, "f32"), "0F7fc00000": N(0x7FC00000, "f32"),
    "0d3ff0000000000001": N(0x3FF0000000000001, "f64"), "0f3F80": None, "0d3ff0": None,
    "1.5": double(1.5), "-.25": double(-0.25), "2.": double(2), "1e3": double(1000),
    "+1.5E-2": double(0.015), "a": None, "1.5x": None, "0f3F8000000": None,
}  # fmt: skip


@pytest.mark.parametrize("text", LITERALS)
def test_a_literal_is_a_number_with_its_kind(text):
    assert P.literal(text) == LITERALS[text]


def place(base, offset=0):
    return P.Address(base, offset)


OPERANDS = {
    "a": R("a"), "_": None, "%r3": R("%r3"), "%p2": R("%p2"), "!p": P.Negated(R("p")), "-7": N(-7),
    "%tid.x": S("%tid.x"), "%clock64": S("%clock64"), "p|%p1": P.Pair(R("p"), R("%p1")),
    "_|p": P.Pair(None, R("p")), "t": S("t"), "t+8": S("t", 8), "t + -8": S("t", -8),
    "WARP_SZ": S("WARP_SZ"), "{a, _, 3}": P.Vector((R("a"), None, N(3))),
    "{ a , {b, c} }": P.Vector((R("a"), P.Vector((R("b"), R("c"))))),
    "w": P.Vector((R("w#low"), R("w#high"))),
    "[x]": place(R("x")), "[x+4]": place(R("x"), 4), "[x + -4]": place(R("x"), -4),
    "[ x-4 ]": place(R("x"), -4), "[x - 0x10]": place(R("x"), -16), "[t+16]": place(S("t"), 16),
    "[64]": place(N(64)), "[t]": place(S("t")),
    "[x, {a, b}]": P.Box(place(R("x")), (R("a"), R("b"))),
    "[x+8, {a, 0}]": P.Box(place(R("x"), 8), (R("a"), N(0))),
}  # fmt: skip


@pytest.mark.parametrize("text", OPERANDS)
def test_an_operand_is_what_its_text_says(text):
    (ins,) = kernel(f"@!p  mov.b32   a ,{text},\n b; // a comment").code
    assert ins.operands == (R("a"), OPERANDS[text], R("b"))
    assert (ins.opcode, ins.parts, ins.root) == ("mov.b32", ("mov", "b32"), "mov")
    assert (ins.guard, ins.guard_negated) == ("p", True)
    assert ins.text == " ".join(f"@!p mov.b32 a ,{text}, b".split())
    names = [o.name for o in P._leaves((OPERANDS[text],)) if type(o) is R]
    assert ins.operand_registers[1] == names


REFUSED = {  # text of a kernel: what is said of it
    "mov.b32 a, !3;": "'!' needs a predicate in 'mov.b32 a, !3'",
    "mov.b32 a, %nobody;": "unknown register '%nobody' in 'mov.b32 a, %nobody'",
    "mov.b32 a, %r1.x;": "vector registers are not supported: 'mov.b32 a, %r1.x'",
    "mov.b32 a, %q1.x;": "unknown register '%q1.x'",
    "mov.b32 a, 3?;": "cannot read the operand '3?' of the PTX instruction",
    "ld.b32 a, [x, a];": "cannot read the address [x, a]",
    "ld.b32 a, [x, {a}, {b}];": "cannot read the address [x, {a}, {b}]",
    "ld.b32 a, [x+y];": "cannot read the address [x+y]",
    "ld.b32 a, [x*2];": "cannot read the address [x*2]",
    "ld.b32 a, [w];": "cannot read the address [w]",
    "@nobody mov.b32 a, b;": "unknown predicate 'nobody'",
    "@p;": "cannot read the PTX instruction '@p'",
    "call (a), ;": "cannot read the PTX call",
    ".reg a;": "cannot read the PTX declaration '.reg a'",
    ".frob a;": "unknown PTX directive '.frob' in k",
    ".local .frob a;": "PTX variables of type frob are not emulated: '.local .frob a'. Use",
    ".local a;": "PTX variables of type ? are not emulated: '.local a'",
    "mov.b32 a, b; } frob .local a; {": "cannot read the PTX statement 'frob .local a'",
    ".local .b32 a-b;": "cannot read the PTX variable 'a-b'",
    ".local .b32 a = 3?;": "cannot read the PTX initial value '3?'",
    "mov.b32 a, b": "the PTX ends within a statement that begins 'mov.b32 a, b",
    "{ mov.b32 a, b;": "the PTX of k ends before its last '}'",
}


NO_MODULES = {
    ".section .debug_str": "begins '.section .debug_str'; expected '{'",
    ".section .debug_str {": "a '{' without its '}'",
    ".entry k(.param .b32 9) {}": "cannot read the PTX parameter '.param .b32 9'",
    ".entry k(.param .frob n) {}": "the PTX parameter '.param .frob n' has no type",
    ".entry () {}": "a PTX function has no name",
    ".entry k() = 3;": "the PTX function k has no body near '= 3;'",
    ".visible .frob": "the PTX ends within a statement",
}


@pytest.mark.parametrize("text", [*REFUSED, *NO_MODULES])
def test_what_is_no_ptx_is_named(text):
    with pytest.raises(EmulationError) as caught:
        P.parse(HEAD + text) if text in NO_MODULES else kernel(text)
    assert {**REFUSED, **NO_MODULES}[text] in str(caught.value)


CALLS = {
    "call f": ((), "f", ()), "call f, (a)": ((), "f", ("a",)), "call (r), f": (("r",), "f", ()),
    "call.uni (r , s), f, (a,b), proto": (("r", "s"), "f", ("a", "b")),
}  # fmt: skip


@pytest.mark.parametrize("text", CALLS)
def test_a_call_has_returns_a_name_and_arguments(text):
    (ins,) = kernel(f"{text};").code
    assert ins.call == CALLS[text] and ins.operands == ()
    (ins,) = kernel(f"{text.replace('f', 'x')};").code  # by a pointer
    returns, _, arguments = CALLS[text]
    assert ins.call == (returns, "", arguments) and ins.operands == (R("x"),)


def test_registers_of_128_bits_are_two():
    function = kernel("mov.b128 w, v; mov.b128 w, {x, y}; ld.global.b128 w, [x]; not.b128 w, v;")
    w, v = (P.Vector((R(f"{n}#low"), R(f"{n}#high"))) for n in "wv")
    assert [(i.opcode, i.operands) for i in function.code] == [
        ("mov.b64", (R("w#low"), R("v#low"))), ("mov.b64", (R("w#high"), R("v#high"))),
        ("mov.b64", (R("w#low"), R("x"))), ("mov.b64", (R("w#high"), R("y"))),
        ("ld.global.v2.b64", (w, place(R("x")))), ("not.b128", (w, v)),
    ]  # fmt: skip
    assert {n: k for n, k in function.registers.items() if "#" in n} == dict.fromkeys(
        ("w#low", "w#high", "v#low", "v#high"), "b64"
    )


def test_scopes_have_registers_and_labels_of_their_own():
    function = kernel("""
    bra L; mov.b32 a, b;
    { .reg .f32 a; .reg .pred q; bra L; mov.b32 a, b; L: mov.b32 b, a; @q bra L; bra M; }
    { .reg .f64 a; ; L: mov.b64 a, x; { bra L; T: .branchtargets L, M, N; N: brx.idx b, T; } }
    L: mov.b32 a, b; M: T: .branchtargets M, L; { L: } brx.idx a, T;""")
    code, at = function.code, function.labels
    ways = [at[i.operands[0].name] for i in code if i.root == "bra"]
    assert ways == [10, 4, 4, 11, 7]
    inner, outer = (function.tables[i.operands[1].name] for i in code if i.root == "brx")
    assert [at[n] for n in inner] == [7, 11, 9] and [at[n] for n in outer] == [11, 10]
    moves = [i.operands[0].name for i in code if i.root == "mov"]
    kinds = function.registers
    assert [kinds[name] for name in moves] == ["b32", "f32", "b32", "f64", "b32"]
    assert kinds["q"] == "pred" and "%r1" not in kinds
    assert kernel("{ .reg .b32 e<2>; mov.b32 e1, %r1; } mov.b32 e0, %r1;").registers.items() >= {
        ("e0", "b32"), ("e1", "b32"), ("%r1", "b32"),
    }  # fmt: skip


VARIABLES = {  # a declaration: name, space, alignment, bytes and what they hold, links
    ".visible .global .align 16 .b8 t[3][4];": ("t", "global", 16, 12),
    ".global .f32 t[3] = {1, 0f40000000, 2.5};": ("t", "global", 4, 12, struct.pack("<3f", 1, 2, 2.5)),
    ".global .f64 t[2] = {-3, 0d3ff0000000000000};": ("t", "global", 8, 16, struct.pack("<2d", -3, 1)),
    ".const .u16 t[2] = {0xFFFF, -2};": ("t", "const", 2, 4, b"\xff\xff\xfe\xff"),
    ".const .u8 t[] = {1, 2, 3};": ("t", "const", 1, 3, b"\1\2\3"),
    ".global .s32 t[2][2] = {{1, 2}, {3, 4}};": ("t", "global", 4, 16, struct.pack("<4i", 1, 2, 3, 4)),
    ".global .u64 t[3] = {generic(f)+8, 1, g};":
        ("t", "global", 8, 24, bytes(8) + b"\1" + bytes(15), ((0, "f", 8), (16, "g", 0))),
    ".weak .global .v4 .f32 t[2];": ("t", "global", 16, 32),
    ".common .global .pred t;": ("t", "global", 1, 1), ".shared .b64 t;": ("t", "shared", 8, 8),
    ".extern .shared .align 32 .b8 t[];": ("t", "shared", 32, None),
    ".global .attribute(.managed) .b32 t;": ("t", "global", 4, 4),
    ".global .align 8 .v2 .b64 t[ 2 ][ ];": ("t", "global", 8, None),
}  # fmt: skip


@pytest.mark.parametrize("text", VARIABLES)
def test_a_variable_has_a_place_and_bytes(text):
    (read,) = P.parse(HEAD + text).variables.values()
    assert read == P.Variable(*VARIABLES[text])
    if not text.startswith((".visible", ".weak", ".common", ".extern")):
        (own,) = kernel(text).variables
        assert own == read


def test_a_definition_stands_for_what_was_declared_before_and_after():
    text = """.extern .global .b32 t; .global .b32 t = 5; .extern .global .b32 t; .pragma "x";
    .func f; .func (.reg .b32 r) f (.reg .b64 n) { ret; } .func f; .alias g, f;
    .section .debug { .b8 1 { .b8 2 } .b8 3 }
    .loc 1 2 3
    .extern .func (.param .b32 r) g (.param .b32 n) .noreturn;
    .entry k() .maxntid 8, 4, 2 .reqnctapercluster 2 .minnctapersm 3 { .local .b32 z; .local .b64 z; ret; }"""
    module = P.parse(HEAD + text)
    assert module.target == "sm_80" and module.variables["t"].data == b"\5\0\0\0"
    f, g, k = (module.functions[n] for n in "fgk")
    assert (f.has_body, f.is_entry, g.has_body, k.is_entry) == (True, False, False, True)
    assert f.returns == [P.Parameter("r", "b32", 4, 4)]
    assert f.params == [P.Parameter("n", "b64", 8, 8)]
    assert g.limits == {"noreturn": ()}
    assert k.limits == {"maxntid": (8, 4, 2), "reqnctapercluster": (2,), "minnctapersm": (3,)}
    assert [v.size for v in k.variables] == [4]


def test_a_parameter_has_a_type_an_alignment_and_bytes():
    params = """.param .u64 .ptr .global .align 16 a, .param .align 8 .b8 b[12], .param .f32 c,
    .param .b16 d[3], .param .pred e, .param .align 64 .b8 f[]"""
    assert kernel("", params=params).params == [
        P.Parameter("a", "u64", 8, 8), P.Parameter("b", "bytes", 8, 12), P.Parameter("c", "f32", 4, 4),
        P.Parameter("d", "bytes", 2, 6), P.Parameter("e", "pred", 1, 1), P.Parameter("f", "bytes", 64, 1),
    ]  # fmt: skip


def lines(text, main="kernel.cu"):
    """Of each instruction its line, and those of the calls that led there."""
    words = {"@M": "inlined_at 2", "@H": "inlined_at 1", "M": ".loc 2", "H": ".loc 1"}
    for short, whole in words.items():
        text = text.replace(short, whole)
    code = P.parse(f"{HEAD}.entry k() {{ .reg .b32 a;\n{text}\n}}", main).functions["k"].code
    return [(ins.line, *calls_of(ins.line)) for ins in code]


def test_code_of_a_header_belongs_to_the_line_that_called_it():
    do, inlined = "mov.b32 a, a;", ", function_name f, "
    text = f"{do} M 7 1\n{do} H 3 1\n{do} M 0 1\n{do} M 9 1\n{do}"
    assert lines(text) == [(0,), (7,), (7,), (7,), (9,)]
    text = f"M 7 1\n{do} H 3 1{inlined}@M 8 5\n{do} H 4 1{inlined}@H 3 1\n{do}"
    assert lines(text) == [(7,), (8,), (8,)]
    text = f"M 5 1\n{do} M 3 1{inlined}@M 8 5\n{do} M 2 1{inlined}@M 3 1\n{do}"
    assert lines(text) == [(5,), (3, 8), (2, 3, 8)]
    assert lines(f"M 5 1\n{do} H 3 1{inlined}@M 0 5\n{do}") == [(5,), (5,)]
    text = f"M 5 1\n{do} M 3 1{inlined}@H 8 5\n{do} H 2 1{inlined}@H 8 5\n{do}"
    assert lines(text) == [(5,), (3,), (3,)]
    (ins,) = kernel(f".loc 1 3 4{inlined}inlined_at 2 8 5\n{do}").code
    assert ins.place == ("1", "3", "4", "2", "8", "5")


def test_the_main_file_is_found_by_its_name_or_is_the_first():
    names = {"kernel.cu": 9, "/x/kernel.cu": 9, 'a \\"b\\"/kernel.cu': 9, "": 3, "nel.cu": 3}
    for main, want in names.items():
        assert lines("H 3 1\n M 9 1\n H 3 1\n mov.b32 a, a; ", main) == [(want,)], main


def test_what_an_instruction_reads_and_writes():
    body = """add.s32 a, b, c; @p add.s32 a, b, c; st.global.b32 [x], a; mov.b64 {a, b}, y;
    setp.eq.s32 p|%p1, a, 3; @!p bra L; L: ld.global.v2.b32 {a, _}, [x+4]; bar.sync 0; selp.b32 a, t, %tid.x, !p;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [x, {a, b}], [y];"""
    code = kernel(body).code
    assert [(i.reads, i.writes, i.symbols) for i in code] == [
        (("b", "c"), ("a",), ()), (("p", "a", "b", "c"), ("a",), ()), (("x", "a"), (), ()),
        (("y",), ("a", "b"), ()), (("a",), ("p", "%p1"), ()), (("p",), (), ("L",)),
        (("x",), ("a",), ()), ((), (), ()), (("p",), ("a",), ("t", "%tid.x")),
        (("x", "a", "b", "y"), (), ()),
    ]  # fmt: skip
    assert [i for i, ins in enumerate(code) if ins.has_target] == [0, 1, 3, 4, 6, 8]
    assert code[4].types == ("s32",) and {ins.guard for ins in code} == {None, "p"}
    assert [i for i, ins in enumerate(code) if ins.guard] == [1, 5]
    assert [i for i, ins in enumerate(code) if ins.guard_negated] == [5]


def test_others_in_place_of_each_instruction_move_the_labels():
    function = kernel("A: mov.b32 a, b; B: add.s32 a, a, b; bra A; C:")
    twice = P.rewritten(function, lambda ins: [ins, ins] if ins.root == "add" else [], {"z": "b64"})
    assert [i.root for i in twice.code] == ["add", "add"]
    assert twice.labels == {"A": 0, "B": 0, "C": 2} and twice.registers["z"] == "b64"


# -- what a whole program needs --------------------------------------------------------------------

PARAMS = ".param .u64 px, .param .u32 n, .param .u64 py, .param .align 8 .b8 both[16]"
USED = """.reg .b16 s; .reg .f32 f; .reg .f64 g; .reg .b64 z; .local .align 8 .b8 own[20];
ld.param.u64 x, [px]; ld.param.u64 y, [py]; ld.param.u32 d, [n]; mov.b16 s, 0; mov.f64 g, 0d0000000000000000;
mov.b32 a, 0; mov.b32 b, 0; mov.b32 c, 0;"""
MODULE = """.target sm_100a
.global .b64 table[2] = {other, 0}; .global .b32 other; .global .b32 lonely;
.shared .align 2 .b8 little[3]; .shared .b64 wide; .shared .b32 idle; .extern .shared .align 64 .b8 rest[];
.func stores(.param .b64 p) { .reg .b64 q; .local .b32 l[4]; ld.param.b64 q, [p]; st.global.b32 [q], 1; ret; }
.func loads(.param .b64 p) { .reg .b64 q; .reg .b32 r; ld.param.b64 q, [p]; ld.global.b32 r, [q]; ret; }
.func again(.param .b64 p) { .local .b32 l[4]; call again, (p); call loads, (p); ret; }
.func odd(.param .b64 p) { .local .b64 l[5]; call even, (p); ret; }
.func even(.param .b64 p) { call odd, (p); call stores, (p); ret; }
"""


def program(body, target="sm_100a"):
    """A translated kernel of these instructions, beside variables and functions."""
    module = MODULE.replace("sm_100a", target)
    return blocks.translate(P.parse(kernel_text(USED + body, module, PARAMS)), "k")


FACTS = {  # instructions: what of a program is not as without them
    "ld.global.u8 s, [x];": {"granule": 1}, "st.global.b16 [x], s;": {"granule": 2},
    "ld.const.s8 s, [x];": {"granule": 1}, "ldu.global.u16 s, [x];": {"granule": 2},
    "ld.global.v4.b64 {x, y, x, y}, [x];": {}, "ld.param.b8 s, [both];": {},
    "atom.cas.b16 s, [x], s, s;": {"granule": 2}, "atom.add.f64 g, [x], g;": {}, "mov.b16 s, 1;": {},
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {a}, [a];": {},
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [a], {b};": {"granule": 2},
    "membar.gl;": {"fences": True}, "fence.acq_rel.gpu;": {"fences": True},
    "ld.acquire.gpu.global.b32 a, [x];": {"fences": True}, "ld.relaxed.gpu.global.b32 a, [x];": {},
    "st.release.cta.shared.b32 [a], b;": {"fences": True}, "atom.acq_rel.add.u32 a, [x], b;": {"fences": True},
    "mbarrier.init.shared.b64 [a], 1;": {"mbarriers": True},
    "cp.async.mbarrier.arrive.shared.b64 [a];": {"mbarriers": True},
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [x], b, [c];":
        {"mbarriers": True, "engines": True},
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [a], [x], b, [c], s;":
        {"mbarriers": True, "engines": True, "clusters": True},
    "cp.async.ca.shared.global [a], [x], 4;": {}, "wgmma.fence.sync.aligned;": {"mbarriers": True, "engines": True},
    "tcgen05.wait::ld.sync.aligned;": {"mbarriers": True, "engines": True, "tensor_memory": True},
    "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;":
        {"mbarriers": True, "engines": True, "tensor_memory": True, "pairs": True, "clusters": True},
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, w;": {"cancels": True, "unset": True},
    "bar.sync 0;": {}, "barrier.cluster.arrive;": {"clusters": True}, "barrier.cluster.wait;": {"clusters": True},
    "mapa.u64 x, y, a;": {"clusters": True}, "getctarank.u64 a, x;": {},
    "mov.u32 a, %envreg2;": {"cooperative": True}, "mov.u32 a, %smid;": {},
    "mov.u64 z, table;": {"used": {"table", "other"}}, "mov.u64 z, lonely;": {"used": {"lonely"}},
    "mov.u64 z, loads;": {"pointed": {"loads"}}, "mov.b32 a, %r1; st.shared.b32 [a], a;": {"unset": True},
    "ld.local.b32 a, [own];": {"follows_local": True}, "mov.b64 z, own;": {},
    "L: ld.global.b32 a, [x]; setp.eq.s32 p, a, 0; @p bra L;": {"waits": True},
    "L: ld.volatile.global.b32 a, [x]; setp.eq.s32 p, a, 0; @p bra L;": {"waits": True, "polls": True},
    "L: add.s32 d, d, 1; setp.eq.s32 p, d, 0; @p bra L;": {}, "L: bra L;": {"waits": True},
    "mov.u32 a, wide; mov.u32 b, rest;": {"used": {"wide", "rest"}, "shared_offsets": {"wide": 0, "rest": 64}, "static_shared": 8, "dynamic_shared": True},
    "mov.u32 a, little; mov.u32 b, wide;": {"used": {"little", "wide"}, "shared_offsets": {"little": 0, "wide": 8}, "static_shared": 16},
    "mov.u32 a, little; mov.u32 b, rest;": {"used": {"little", "rest"}, "shared_offsets": {"little": 0, "rest": 64}, "static_shared": 3, "dynamic_shared": True},
    "mov.u32 a, %reserved_smem_offset_1; mov.u32 b, little;":
        {"used": {"little"}, "shared_offsets": {"little": 0, "%reserved_smem_offset_1": 16}, "static_shared": 304},
    "call stores, (px);": {"local_bytes": 32 + 16, "stored_params": None},
    "call again, (px);": {"local_bytes": 32 + 64 * 16}, "call loads, (px);": {},
    "call stores, (px); call again, (px);": {"local_bytes": 32 + 64 * 16, "stored_params": None},
    "call odd, (px);": {"local_bytes": 32 + 64 * 48 + 16, "stored_params": None},
}  # fmt: skip
PLAIN = {
    "granule": 4, "fences": False, "mbarriers": False, "engines": False, "tensor_memory": False, "pairs": False,
    "cancels": False, "clusters": False, "cooperative": False, "used": set(), "pointed": set(), "unset": False,
    "follows_local": False, "waits": False, "polls": False, "shared_offsets": {}, "static_shared": 0,
    "dynamic_shared": False, "local_bytes": 32, "shared_base": 1024, "scalar": False,
    "param_offsets": {"px": 0, "n": 8, "py": 16, "both": 24}, "stored_params": set(),
}  # fmt: skip


@pytest.mark.parametrize("body", FACTS)
def test_a_program_says_what_its_launch_needs(body):
    made = program(body)
    plain = (
        {**PLAIN, "stored_params": made.stored_params}
        if "stored_params" not in FACTS[body]
        else PLAIN
    )
    assert {name: getattr(made, name) for name in PLAIN} == {**plain, **FACTS[body]}


def test_many_ways_through_the_calls_take_no_time():
    """Six functions in each of sixteen layers: to go every way would take years."""
    layers = ""
    for n in range(16):
        calls = "".join(f"call f{n - 1}_{i}, (p);" for i in range(6) if n)
        layers += "".join(
            f".func f{n}_{i}(.param .b64 p) {{ .local .b32 l[4]; {calls} ret; }}" for i in range(6)
        )
    text = kernel_text("ld.param.u64 x, [px]; call f15_0, (px);", layers, PARAMS)
    assert blocks.translate(P.parse(text), "k").local_bytes == 16 * 16


STORED = {  # instructions: bytes of the parameters through whose pointers they store
    "st.global.b32 [x], d;": {0}, "st.global.v2.b64 [y+8], {x, x};": {16}, "st.b32 [x], d; st.b32 [y], d;": {0, 16},
    "cvt.s64.s32 z, d; add.s64 x, x, z; cvta.to.global.u64 z, x; st.global.b32 [z], d;": {0},
    "setp.eq.s32 p, d, 0; selp.b64 z, x, y, p; st.global.b32 [z+4], d;": {0, 16},
    "ld.param.u64 z, [both+8]; st.global.b32 [z], d;": {32}, "ld.global.b32 a, [x];": set(),
    "cvt.u64.u32 z, d; st.global.b32 [z], d;": None, "ld.global.b64 z, [x]; st.global.b32 [z], d;": None,
    "st.global.b32 [table], d;": set(), "st.shared.b32 [d], d; st.local.b32 [own], d;": set(),
    "red.global.add.u32 [x], d;": set(), "red.global.add.u32 [x], d; membar.gl;": {0},
    "atom.global.add.u32 a, [y], d; fence.sc.gpu;": {16}, "atom.shared.add.u32 a, [d], d; membar.cta;": set(),
    "cp.async.bulk.global.shared::cta.bulk_group [x], [d], d;": None, "cp.async.bulk.commit_group;": set(),
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [d], [x], d, [d];": set(),
    "L: add.s64 x, x, 4; st.global.b32 [x], d; setp.eq.s32 p, d, 0; @p bra L;": {0},
    "call loads, (px);": set(), "call stores, (px);": None,
}  # fmt: skip


@pytest.mark.parametrize("body", STORED)
def test_arrays_that_are_stored_to_are_known_by_their_pointers(body):
    assert program(body).stored_params == STORED[body]


def test_an_element_has_its_indices_where_the_shape_is_known():
    def text(offset, size=24, *shape):
        return SharedSymbol("t", 0, size, 4, shape).index_text(offset)

    assert [text(o, 24, 2, 3) for o in (0, 4, 20, 23, 24, -4)] == [
        "t[0][0]", "t[0][1]", "t[1][2]", "t[1][2]", "t[6]", "t[-1]",
    ]  # fmt: skip
    assert (text(20, 24, 6), text(20), text(20, 28, 2, 3)) == ("t[5]", "t[5]", "t[5]")


NAMES = {
    "x": "x", "_Z1kPf": "_Z1kPf", "_ZZ4tilePfE6A_tile": "A_tile", "_ZZN2ns1fEvE4tile_0": "tile",
    "_ZZ1kvE1a_12": "a", "_ZN2ns5valueE": "value", "_Z3fooi": "_Z3fooi", "_ZZ4k123vE4t123": "t123",
}  # fmt: skip


def test_a_symbol_has_the_name_that_the_source_gave_it():
    assert {name: demangle(name) for name in NAMES} == NAMES


SITES = {  # instructions: of each of their accesses space, what, kind, elements a lane, offset
    "ld.global.b32 a, [x+8];": "global load i4 1 8", "ld.u16 s, [x];": "generic load u2 1 0",
    "ld.global.v4.f32 {f, f, f, f}, [x-16];": "global load f4 4 -16", "ld.const.s8 s, [x];": "const load i1 1 0",
    "ld.global.u32 a, [x];": "global load i4 1 0", "ld.global.b32 f, [x];": "global load f4 1 0",
    "ld.shared.b8 a, [a+3];": "shared load u1 1 3", "ld.local.b64 z, [own];": "local load i8 1 0",
    "st.shared::cta.v2.b64 [a], {z, z};": "shared store i8 2 0", "st.global.b32 [x], f;": "global store f4 1 0",
    "st.global.b32 [x], 3;": "global store i4 1 0", "st.global.u8 [x+1], s;": "global store u1 1 1",
    "ld.volatile.global.b32 a, [x];": "global load i4 1 0 strong volatile",
    "ld.relaxed.gpu.global.b32 a, [x];": "global load i4 1 0 strong relaxed",
    "ld.acquire.cta.global.b32 a, [x];": "global load i4 1 0 strong acquire=0",
    "st.release.gpu.global.b32 [x], a;": "global store i4 1 0 strong release=1",
    "atom.global.acq_rel.sys.add.u32 a, [x], b;": "global atomic u4 1 0 strong acquire=1 release=1",
    "atom.shared.cas.b64 z, [a], z, z;": "shared atomic i8 1 0 strong",
    "red.relaxed.cta.global.add.f64 [x+8], g;": "global atomic f8 1 8 strong relaxed",
    "mbarrier.arrive.shared.b64 _, [a+8];": "shared atomic i8 1 8 strong",
    "cp.async.mbarrier.arrive.noinc.shared.b64 [a];": "shared atomic i8 1 0 strong",
    "cp.async.ca.shared.global [a+4], [x+8], 8;": "global load u4 2 8, shared store u4 2 4",
    "cp.async.cg.shared.global [a], [x], 16, b;": "global load u4 4 0, shared store u4 4 0",
    "cp.async.bulk.global.shared::cta.bulk_group [x], [a], b;": "global store u4 4 0, shared load u4 4 0",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [x+16], b, [c];":
        "shared store u4 4 0, global load u4 4 16, shared atomic i8 1 0 strong",
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [a], [b], b, [c+8];":
        "shared store u4 4 0, shared load u4 4 0, shared atomic i8 1 8 strong",
    "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [x, {b}], [a+32];": "shared load u4 4 32",
    "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [a], [x, {b}], [c];":
        "shared store u4 4 0, shared atomic i8 1 0 strong",
    "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {a, b}, [c+16];": "shared load i4 4 16",
    "stmatrix.sync.aligned.m8n8.x1.b16 [x], {a};": "shared store i4 4 0",
    "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [x], {f, f, f, f, f, f, f, f};": "global store f4 1 0",
    "wmma.store.d.sync.aligned.col.m8n8k4.shared.f64 [a], {g, g}, b;": "shared store f8 1 0",
    "wmma.load.a.sync.aligned.row.m16n16k16.f16 {a, a, a, a, a, a, a, a}, [x], b;": "generic load i4 1 0",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [a], [b];":
        "shared store u4 4 0, shared atomic i8 1 0 strong",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [a], 32;": "shared store i4 1 0",
    "tcgen05.alloc.cta_group::1.sync.aligned.b32 [x], 32;": "generic store i4 1 0",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [a];": "shared atomic i8 1 0 strong",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [x];": "generic atomic i8 1 0 strong",
    "tcgen05.cp.cta_group::1.128x256b [a], x;": "shared load i4 4 0",
    "tcgen05.mma.cta_group::1.kind::f16 [a], x, y, b, p;": "shared load i4 4 0, shared load i4 4 0",
    "tcgen05.mma.cta_group::1.kind::f16 [a], [c], y, b, p;": "shared load i4 4 0",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {a}, [b];": "", "prefetch.global.L2 [x];": "",
}  # fmt: skip


@pytest.mark.parametrize("body", SITES)
def test_an_instruction_says_what_it_accesses(body):
    accesses = []
    for site in program(f"setp.eq.s32 p, a, b; mov.f32 f, 0f00000000; mov.b64 z, x; {body}").sites:
        words = [site.space, site.op, site.kind.str[1:], site.count, f"{site.offset}"]
        words += [w for w in ("strong", "volatile", "relaxed") if getattr(site, w)]
        words += [f"{w}={n}" for w in ("acquire", "release") if (n := getattr(site, w)) is not None]
        accesses.append(" ".join(map(str, words)))
    assert ", ".join(accesses) == SITES[body]
    assert all(site.text == body[:-1] for site in program(body).sites[-len(accesses) or 9 :])


FOUR, EIGHT = "{f, f, f, f}", "{a, a, a, a, a, a, a, a}"
FORBIDDEN = {  # instructions: what is said of them. Behind each stands a twin that is translated.
    "st.const.b32 [x], a;": "constant memory cannot be written",
    "atom.global.v2.f32.add {f, f}, [x], {f, f};": "vector atomics are not emulated",
    "red.global.v2.f32.add [x], {f, f};": "vector atomics are not emulated",
    "atom.global.u32 a, [x], b;": "does not say which operation",
    "mbarrier.init.shared::cluster.b64 [a], 1;": "of its own shared memory alone",
    "mbarrier.arrive_drop.expect_tx.shared.b64 _, [a], 1;": "only mbarrier.arrive announces bytes",
    "mbarrier.shared.b64 [a];": "not among the operations on mbarriers",
    "@p mbarrier.try_wait.shared.b64 q, [a], x;": "under a predicate is not emulated",
    "mbarrier.test_wait.shared::cluster.b64 q, [a], x;": "mbarriers of its own shared memory alone",
    "ld.global.b32 a, x;": "an address in brackets is expected",
    "mov.b32 a, nothing;": "unknown symbol 'nothing'", "mov.b32 a, %pm3;": "%pm3 is not emulated; remove it",
    "mov.b32 a, %reserved_smem_offset_0;": "is not emulated; remove it",
    "add.s32 a, b, p;": "a predicate is mixed with a number", "add.s32 3, a, b;": "cannot write to",
    "add.s32 a, [x], b;": "cannot use", "mov.b64 x, {a, b, c, d, a, a, a, a};": "this packing is not emulated",
    "cvt.rn.satfinite.e4m3x2.e5m2x2 s, s;": "only conversions of e4m3x2 and e5m2x2",
    "cvt.rn.e5m2x2.f32 s, f, f;": "only conversions of e4m3x2 and e5m2x2",
    "bra nowhere;": "the PTX label 'nowhere' does not exist", "@p bar.sync 0;": "a barrier under a predicate",
    "brx.idx a, nowhere;": "its branch table is missing", "call strange, (px);": "which has no definition",
    "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [x], [a];": "a tensor map and a place in it",
    "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [a], [x], [c];":
        "only boxes between global and shared memory",
    "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [a], [x, {b}];":
        "only boxes between global and shared memory",
    f"mma.sync.aligned.m16n8k8.row.col.f32.f16.bf16.f32 {FOUR}, {{a, b}}, {{c}}, {FOUR};": "this shape and type",
    f"mma.sync.aligned.m16n8k32.row.col.s32.s8.e4m3.s32 {FOUR}, {{a, b}}, {{c}}, {FOUR};": "this shape and type",
    f"mma.sync.aligned.m16n8k4.row.col.f32.f16.f16.f32 {FOUR}, {{a, b}}, {{c}}, {FOUR};": "m16n8k4 tf32",
    f"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {FOUR}, {{a, b}}, {{c}}, {FOUR}, a, 0;": "sparse matrices",
    f"wmma.load.a.sync.aligned.row.m16n16k32.global.f16 {EIGHT}, [x];": "this shape or type is not emulated",
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {a, b}, [c];": "only ldmatrix.m8n8 of b16",
    "tcgen05.ld.sync.aligned.32x32b.x2.b32 {a}, [b];": ".32x32b.x2 has 2 registers",
    "tcgen05.st.sync.aligned.16x256b.x1.b32 [b], {a};": ".16x256b.x1 has 4 registers",
    "tcgen05.st.sync.aligned.16x128b.x2.b32 [b], {a, a};": ".16x128b.x2 has 4 registers",
    "tcgen05.cp.cta_group::1.64x128b [a], x;": ".64x128b goes with .warpx2",
    "tcgen05.cp.cta_group::1.32x128b [a], x;": ".32x128b with .warpx4",
    "tcgen05.cp.cta_group::1.128x128b.warpx4 [a], x;": ".32x128b with .warpx4",
    "tcgen05.cp.cta_group::1.128x128b.warpx2::02_13 [a], x;": ".64x128b goes with",
    "tcgen05.mma.cta_group::1.kind::f16 [a], x, y, b, p, 1;": "scale-input-d is not emulated",
    "tcgen05.mma.cta_group::1.kind::f16 [a], x, y, b, {a, a, a}, p;": "disable-output-lane has four words",
    "tcgen05.mma.cta_group::2.kind::f16 [a], x, y, b, {a, a, a, a}, p;": "disable-output-lane has four words",
    "tcgen05.mma.cta_group::1.kind::f16.ashift [a], x, y, b, p;": ".ashift moves the rows of A",
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale [a], x, y, b, [a], [a], p;": "needs .scale_vec::2X",
    "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::2X [a], x, y, b, [a], [a], p;":
        ".scale_vec::2X is not of kind::mxf8f6f4",
    "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block16 [a], x, y, b, [a], [a], p;": ".block16 is not of",
    "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::4X [a], x, y, b, [a], [a], p;": ".scale_vec::4X is",
    "tcgen05.mma.cta_group::1.kind::i8.block_scale [a], x, y, b, [a], [a], p;": "kind::i8 needs no .block_scale",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {a}, b;": "an address of tensor memory in brackets",
    "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f, f, f, f}, x, y, p, 1, 1, 0, 0;":
        "wgmma is of sm_90a alone",
}  # fmt: skip
ALLOWED = [
    "tcgen05.mma.cta_group::1.kind::f16 [a], x, y, b, p, 0;", "tcgen05.mma.cta_group::1.kind::f16.ashift [a], [a], y, b, p;",
    "tcgen05.mma.cta_group::1.kind::f16 [a], x, y, b, {a, a, a, a}, p;",
    f"tcgen05.mma.cta_group::2.kind::f16 [a], x, y, b, {EIGHT}, p;",
    *(f"tcgen05.mma.cta_group::1.kind::{kind} [a], x, y, b, [a], [a], p;" for kind in (
        "mxf8f6f4.block_scale", "mxf8f6f4.block_scale.scale_vec::1X", "mxf8f6f4.block_scale.block32",
        "mxf4.block_scale", "mxf4.block_scale.scale_vec::2X", "mxf4.block_scale.block32",
        "mxf4nvf4.block_scale.scale_vec::2X", "mxf4nvf4.block_scale.scale_vec::4X", "mxf4nvf4.block_scale.block16")),
    "tcgen05.mma.ws.cta_group::1.kind::f16 [a], x, y, b, p, x;", "tcgen05.cp.cta_group::1.64x128b.warpx2::01_23 [a], x;",
    "tcgen05.cp.cta_group::1.32x128b.warpx4.b8x16.b4x16_p64 [a], x;", "tcgen05.ld.sync.aligned.16x256b.x1.b32 {a, a, a, a}, [b];",
    "tcgen05.st.sync.aligned.16x128b.x2.unpack::16b.b32 [b], {a, a, a, a};", "mbarrier.complete_tx.expect_tx.shared.b64 [a], 1;",
    f"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {FOUR}, {{a, b, a, b}}, {{c, c}}, {FOUR};",
    "cvt.rn.satfinite.e5m2x2.f16x2 s, a;", "mov.u64 z, %clock64; mov.u64 z, %gridid; mov.u64 z, %globaltimer;",
]  # fmt: skip


@pytest.mark.parametrize("body", FORBIDDEN)
def test_a_form_that_is_not_emulated_says_why(body):
    with pytest.raises(EmulationError) as caught:
        program(f".reg .pred q; {body}")
    assert FORBIDDEN[body] in str(caught.value)


@pytest.mark.parametrize("body", ALLOWED)
def test_a_form_beside_those_is_translated(body):
    assert program(body)
    if "tcgen05" in body:
        with pytest.raises(EmulationError, match="tcgen05 is of sm_100a and its family"):
            program(body, target="sm_90a")


def test_words_for_the_scales_of_a_row_that_mean_the_same_become_the_same():
    def code(kind):
        text = f"tcgen05.mma.cta_group::1.kind::{kind} [a], x, y, b, [a], [a], p;"
        return program(text).functions["k"].code

    twos = [f"mxf4nvf4.block_scale.{word}" for word in ("scale_vec::2X", "block32")]
    fours = [f"mxf4nvf4.block_scale.{word}" for word in ("scale_vec::4X", "block16")]
    for kind, vectors in (("mxf8f6f4", "scale_vec::1X"), ("mxf4", "scale_vec::2X")):
        words = ("", f".{vectors}", ".block32")
        assert len({code(f"{kind}.block_scale{word}") for word in words}) == 1
    assert code(twos[0]) == code(twos[1]) != code(fours[0]) == code(fours[1])


SHAPES = {  # types of D, A and B with n and k: what is said of them; "" where they are multiplied
    "n8k16.f32.f16.f16": "", "n256k16.f16.f16.f16": "", "n8k16.f32.bf16.bf16": "", "n16k8.f32.tf32.tf32": "",
    "n24k32.s32.s8.u8": "", "n32k32.s32.u8.s8": "", "n240k32.s32.u8.u8": "", "n8k32.f16.e4m3.e5m2": "",
    "n264k16.f32.f16.f16": "n264 is not among the shapes of f16: n is a multiple of 8 up to 256",
    "n12k16.f32.f16.f16": "n12 is not among", "n0k16.f32.f16.f16": "n0 is not", "n40k32.s32.s8.s8": "from 32 on of 16",
    "n8k8.f32.f16.f16": "a product of f16 is k16 long, not k8", "n8k16.f32.e4m3.e4m3": "e4m3 is k32 long",
    "n8k16.f16.bf16.bf16": "the sums of bf16 by bf16 are f32, not f16", "n8k32.f32.s8.s8": "are s32, not f32",
    "n8k16.f64.f16.f16": "are f16 or f32, not f64", "n8k16.f32.f16.bf16": "wgmma does not multiply f16 by bf16",
    "n8k32.s32.s8.e4m3": "wgmma does not multiply s8 by e4m3", "n8k16.f32.f16": "a shape such as m64n128k16",
}  # fmt: skip


@pytest.mark.parametrize("words", SHAPES)
def test_a_product_of_a_warpgroup_has_the_shapes_of_the_ptx_isa(words):
    n, (d, a) = int(words[1:].partition("k")[0]), words.split(".")[1:3]
    sums = n // 4 if d == "f16" else n // 2
    signs = ", 1, -1" if a not in ("s8", "u8") else ""
    turns = ", 0, 1" if a in ("f16", "bf16") else ""

    def made(count=sums, left="x", rest=signs + turns):
        register = {"f32": "f", "f64": "g"}.get(d, "a")
        names = ", ".join([register] * count)
        text = f"wgmma.mma_async.sync.aligned.m64{words} {{{names}}}, {left}, y, p{rest};"
        return program(text, target="sm_90a")

    if SHAPES[words]:
        with pytest.raises(EmulationError) as caught:
            made()
        assert SHAPES[words] in str(caught.value)
        return
    assert (
        len(made().sites) == 2 and len(made(left="{a, a, a, a}", rest=signs + turns[3:]).sites) == 1
    )
    for wrong in ({"count": sums - 1}, {"left": "{a, a, a}", "rest": signs + turns[3:]}, {"rest": signs + turns + ", 0"},
                  {"rest": (signs + turns).replace("1", "2")} if signs else {"rest": ", 1"}):  # fmt: skip
        with pytest.raises(EmulationError):
            made(**wrong)


# -- blocks, waits, products under way ------------------------------------------------------------


def test_a_block_says_where_it_begins_and_ends_and_what_it_runs():
    made = program(""".loc 1 5 1
    add.s32 a, a, d; add.s32 a, a, 1; .loc 1 6 1
    bar.sync 0; .loc 1 7 1
    A: setp.eq.s32 p, a, 0; .loc 1 8 1
    @p bra B; .loc 1 9 1
    @!p bra C; D: @p exit; B: ret; C: .loc 1 10 2
    trap; bra D;""")
    function = made.functions["k"]
    blocks_ = list(function.blocks.values())[1:]
    assert [(b.start, b.line, b.end_line, b.cost) for b in blocks_] == [
        (11, 7, 8, 3), (13, 9, 9, 2), (14, 9, 9, 2), (15, 9, 9, 2), (16, 10, 10, 2), (17, 10, 10, 2),
        (18, 0, 0, 1),
    ]  # fmt: skip
    first = function.blocks[0]
    assert (first.end_line, first.cost, first.end_place) == (6, 12, ("1", "6", "1"))
    assert first.opcodes == {
        "ld.param.u64": 2, "ld.param.u32": 1, "mov.b16": 1, "mov.f64": 1, "mov.b32": 3, "add.s32": 2,
        "bar.sync": 1,
    } and blocks_[0].opcodes == {"setp.eq.s32": 1, "bra": 1}  # fmt: skip
    assert [b.end for b in (first, *blocks_)] == [
        ends.Barrier(11), ends.Branch(15, 13), ends.Branch(16, 14), ends.Exit(15, True), ends.Exit(-1),
        ends.Exit(-1, True), ends.Jump(14), ends.Exit(),
    ]  # fmt: skip
    assert function.exits == (15, 16, 18) and [b.number for b in made.blocks] == list(range(8))
    assert function.rank == {0: 0, 11: 1, 13: 2, 16: 3, 17: 4, 14: 5, 15: 6, 18: 7}
    assert function.kinds == ["i4", "b1"] and program("ret;").functions["k"].rank is None
    assert [made.functions["k"].blocks[n].ways for n in (0, 11)] == [None, None]


def test_a_register_holds_what_is_put_there_first_or_most_often():
    """PTX as others write it declares all as bits: floats are told by their sums."""
    sums = "mov.b32 %r1, 0; add.f32 %r0, %r1, %r1; add.f32 %r1, %r0, %r0; mov.b32 %r2, %r0; mul.f64 z, y, y;"
    keep = "@p bra L; L: st.global.v4.b32 [x], {%r0, %r1, %r2, %r3}; st.global.b64 [x], z;"
    use = "st.global.f32 [x], f; st.global.f64 [x], g; st.global.b16 [x], h; st.global.b16 [x], s;"
    every = " ".join(f".reg .{kind} of_{kind};" for kind, n in P.BITS.items() if n < 128)
    made = program(
        f"{every} .reg .f16 h; mov.b32 %r3, 1; mov.f32 f, 0f00000000; mov.b16 h, s; {sums} {keep} {use}"
    ).functions["k"]
    assert made.kinds == ["f4", "i4", "i4", "i4", "f4", "f8", "f2", "b1", "i2", "i8", "f8"]


WAITS = {  # instructions: of each loop that waits its line, whether what it reads is strong, and its reads
    "L: ld.global.b32 a, [x]; setp.eq.s32 p, a, 0; @p bra L;": [(1, False, {0})],
    "L: ld.volatile.global.b32 a, [x]; setp.eq.s32 p, a, 0; @p bra L;": [(1, True, {0})],
    "L: atom.global.add.u32 a, [x], 1; setp.eq.s32 p, a, 0; @p bra L;": [(1, True, {0})],
    "L: red.global.add.u32 [x], 1; add.s32 a, a, 1; setp.eq.s32 p, a, 9; @p bra L;": [],
    "L: ld.global.nc.b32 a, [x]; setp.eq.s32 p, a, 0; @p bra L;": [],
    "L: ld.const.b32 a, [x]; setp.eq.s32 p, a, 0; @p bra L;": [],
    "L: ld.local.b32 a, [8]; setp.eq.s32 p, a, 0; @p bra L;": [],
    "L: ld.param.b32 a, [n]; setp.eq.s32 p, a, 0; @p bra L;": [],
    "L: call (back), f, (n); ld.param.b32 a, [back]; setp.eq.s32 p, a, 0; @p bra L;": [(1, True, {1})],
    "L: ld.global.b32 b, [x]; add.s32 a, a, 1; setp.eq.s32 p, a, 9; @p bra L;": [],
    "L: ld.global.b32 b, [x]; add.s32 a, b, 1; mul.lo.s32 c, a, a; setp.eq.s32 p, c, 9; @p bra L;": [(1, False, {0})],
    "L: bra L;": [(1, False, set())], "L: add.s32 a, a, 1; bra L;": [(1, False, set())],
    "L: add.s32 a, a, 1; @p exit; bra L;": [], "L: trap; bra L;": [],
    "L: ld.global.b32 a, [x]; setp.eq.s32 p, a, 0; @p exit; bra L;": [(1, False, {0})],
    # A plain read decides only where the branch leaves the loop.
    "L: ld.global.b32 a, [x]; setp.eq.s32 p, a, 0; @p bra M; add.s32 b, b, 1; M: setp.lt.s32 q, b, 9; @q bra L;": [],
    "L: ld.relaxed.gpu.global.b32 a, [x]; setp.eq.s32 p, a, 0; @p bra M; add.s32 b, b, 1; M: setp.lt.s32 q, b, 9; @q bra L;":
        [(1, True, {0})],
    "mov.b32 a, 0; L: M: ld.global.b32 a, [x]; setp.eq.s32 p, a, 0; @p bra M; setp.eq.s32 p, b, 0; @p bra L;":
        [(1, False, {1})],
    "L: setp.lt.s32 q, c, 9; M: ld.global.b32 a, [x]; setp.eq.s32 p, a, 0; @p bra M; add.s32 c, c, 1; @q bra L;":
        [(1, False, {1})],
}  # fmt: skip


@pytest.mark.parametrize("body", WAITS)
def test_a_loop_waits_that_may_end_by_what_others_do(body):
    function = kernel(f".reg .pred q; .loc 2 1 1\n{body} ret;", params=".param .b32 n")
    found = waits.loops(function)
    assert [(w.line, w.strong, set(w.reads)) for w in found] == WAITS[body]
    for wait in found:
        inside = range(wait.head, max(function.spans[latch] for latch in wait.latches))
        assert wait.registers == {name for i in inside for name in function.code[i].writes}
        assert all(function.code[function.spans[latch] - 1].root == "bra" for latch in wait.latches)


def test_reads_like_those_of_a_loop_count_with_them():
    function = kernel("""ld.volatile.global.b32 a, [x]; ld.volatile.global.b32 b, [y];
    ld.global.b32 c, [x]; .loc 2 7 1
    L: ld.volatile.global.b32 a, [x]; ld.volatile.global.b32 c, [x+4]; setp.eq.s32 p, a, 0; @p bra L;""")
    assert waits.same_reads(function, waits.loops(function)) == {0, 3, 4}


GATES = {  # instructions: what stands before them where a loop waits, and where none does
    "shfl.sync.up.b32 a, b, 1, 0, d;": ("R", ""), "vote.sync.any.pred p, p, 3;": ("N", ""),
    "bar.warp.sync c;": ("R", ""), "shfl.up.b32 a, b, 1, 0;": ("", ""), "@p bar.warp.sync c;": ("", ""),
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {a}, [b];": ("N", ""), "add.s32 a, a, b;": ("", ""),
    "wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; L: wgmma.commit_group.sync.aligned;": ("W W", "W W"),
    "activemask.b32 a; elect.sync a|p, d;": ("R", ""),
}  # fmt: skip


@pytest.mark.parametrize("body", GATES)
def test_what_lanes_do_together_has_a_gate_before_it(body):
    for warps, want in zip((True, False), GATES[body], strict=True):
        function = kernel(body)
        whole = waits.gated(function, warps=warps)
        gates = [i for i in whole.code if i.root == "gate"]
        letters = ["W" if "warpgroup" in i.parts else "NR"[type(i.operands[0]) is R] for i in gates]
        assert " ".join(letters) == want
        assert (whole is function) == (not gates)
        assert [i for i in whole.code if i.root != "gate"] == function.code


MULTIPLY = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {a, b, c, d}, x, y, p, 1, 1, 0, 0;"
COMMIT, WAIT = "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"
TOUCHES = {  # instructions: which touch sums of products, what they read and write
    f"add.s32 a, a, b; {MULTIPLY}": {0: ((), (("a", ""),))},
    f"mov.b32 a, 0; {MULTIPLY} {COMMIT} {WAIT} add.s32 %r1, a, b;": {0: ((), (("a", "#"),))},
    f"{MULTIPLY} add.s32 %r1, a, b;": {1: (("a", "b"), ())},
    f"{MULTIPLY} {WAIT} add.s32 %r1, a, b;": {2: (("a", "b"), ())},
    f"{MULTIPLY} {COMMIT} wgmma.wait_group.sync.aligned 1; add.s32 %r1, a, b;": {3: (("a", "b"), ())},
    f"{MULTIPLY} {COMMIT} @p {WAIT} add.s32 %r1, a, b;": {3: (("a", "b"), ())},
    f"{MULTIPLY} @p {COMMIT} {WAIT} add.s32 %r1, a, b;": {3: (("a", "b"), ())},
    f"{MULTIPLY} {COMMIT} {MULTIPLY} {WAIT} add.s32 %r1, a, b;": {4: (("a", "b"), ())},
    f"mov.b32 %r1, %r2; mov.b32 a, %r1; {MULTIPLY} mov.b32 %r3, b;": {
        0: ((), (("%r1", "%r2"),)), 1: ((), (("a", "%r1"),)), 3: ((), (("%r3", "b"),))},
    f"{MULTIPLY} @p add.s32 a, %r1, %r1;": {1: ((), (("a", ""),))},
    f"{MULTIPLY} @p add.s32 a, a, %r1;": {1: ((), (("a", ""),))}, f"{MULTIPLY} mov.b64 {{a, %r1}}, x;": {1: ((), (("a", ""),))},
    f"{COMMIT} add.s32 %r1, a, b; {MULTIPLY}": {}, "add.s32 a, a, b;": {},
    f"bra M; L: add.s32 %r1, a, b; bra N; M: {MULTIPLY} bra L; N:": {1: (("a", "b"), ())},
    MULTIPLY.replace("x, y", "{%r0, %r1, %r2, %r3}, y") + " mov.b32 %r2, 1;": {1: ((), (("%r2", "#"),))},
}  # fmt: skip


@pytest.mark.parametrize("body", TOUCHES)
def test_who_touches_registers_of_products_is_found(body):
    found = accumulators.touches(kernel(body))
    assert {i: (t.reads, t.writes) for i, t in found.items()} == TOUCHES[body]


# -- other layouts to try --------------------------------------------------------------------------


def test_other_layouts_are_tried_one_by_one():
    module = P.parse(f"""{HEAD}.entry k() {{ {DECLARED} .loc 2 4 1
    ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {{a}}, [b]; stmatrix.sync.aligned.m8n8.x1.shared.b16 [b], {{a}}; .loc 2 3 1
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{a}}, [b]; .loc 2 2 1
    {MULTIPLY} }}""", "kernel.cu")  # fmt: skip
    tried = list(causes.changes(module))
    opcodes = [i.opcode for i in module.functions["k"].code]
    turned = [[i.opcode for i in c.module.functions["k"].code] for c in tried[:2]]
    bare = "ldmatrix.sync.aligned.m8n8.x1.shared.b16"
    trans = bare.replace(".x1", ".x1.trans")
    store = trans.replace("ld", "st")
    assert turned == [[*opcodes[:2], trans, opcodes[3]], [bare, store, *opcodes[2:]]]
    assert [c.line for c in tried] == [3, 4, *[2] * 38]
    assert [c.says for c in tried[:2]] == ["ldmatrix had .trans", "stmatrix had .trans"]
    swizzles = {128: 1, 64: 2, 32: 3, 0: 0}
    old = {"x": 0x7FFF_1234_5678_9ABC, "y": 0x0123_4567_89AB_CDEF}
    for change in tried[2:38]:
        registers = dict(old)
        *steps, product = change.module.functions["k"].code[3:]
        for ins in steps:
            to, a, b = ins.operands
            registers[to.name] = (
                registers[a.name] & b.value if ins.root == "and" else registers[a.name] | b.value
            )
        a, b = (registers[o.name] for o in product.operands[1:3])
        want = {"A": old["x"], "B": old["y"]}
        which = re.fullmatch(r"the descriptor(s of A and of B| of A| of B) said (.*)", change.says)
        for name in re.findall("[AB]", which[1]):
            if swizzle := re.search(r"swizzle of (\d+)", which[2]):
                want[name] = want[name] & ~(3 << 62) | swizzles[int(swizzle[1])] << 62
            if stride := re.search(r"offset of (\d+)", which[2]):
                want[name] = want[name] & ~(0x3FFF << 32) | int(stride[1]) // 16 << 32
        assert (a, b) == (want["A"], want["B"]), change.says
    assert len({change.says for change in tried[2:38]}) == 36
    numbers = [[o.value for o in c.module.functions["k"].code[3].operands[4:]] for c in tried[38:]]
    assert numbers == [[1, 1, 0, 1], [1, 1, 1, 0]]
    assert ["imm-trans-b" in c.says for c in tried[38:]] == [True, False]
