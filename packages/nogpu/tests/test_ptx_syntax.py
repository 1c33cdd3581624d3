"""PTX text as data: what each piece of its grammar is read as, and what is said of what is none."""

from __future__ import annotations

import struct

import pytest

from nogpu.emulator.ptx import syntax as P
from nogpu.emulator.ptx.sites import calls_of
from nogpu.errors import EmulationError

HEAD = """// made by hand
.version 8.3
.target sm_80, debug
.address_size 64
.file 1 "/tmp/other.h", 1, 2
.file 2 "/tmp/a \\"b\\"/kernel.cu"
"""
DECLARED = """.reg .pred p, %p<3>; .reg .b32 a, b, c, d, %r<4>; .reg .b64 x, y; .reg .b128 w, v;"""
R, N, S = P.Register, P.Immediate, P.Symbol


def kernel(body: str, before: str = "", params: str = "", limits: str = "") -> P.Function:
    """A kernel of these instructions, in whose module this stands before."""
    text = f"{HEAD}{before}\n.visible .entry k({params}) {limits}\n{{ {DECLARED}\n{body}\n}}\n"
    return P.parse(text, "kernel.cu").functions["k"]


def double(value: float) -> P.Immediate:
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


def lines(text: str, main: str = "kernel.cu") -> list[tuple[int, ...]]:
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
    names = {"kernel.cu": 9, "/home/kernel.cu": 9, 'a \\"b\\"/kernel.cu': 9, "": 3, "nel.cu": 3}
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
    assert code[4].types == ("s32",)


def test_others_in_place_of_each_instruction_move_the_labels():
    function = kernel("A: mov.b32 a, b; B: add.s32 a, a, b; bra A; C:")
    twice = P.rewritten(function, lambda ins: [ins, ins] if ins.root == "add" else [], {"z": "b64"})
    assert [i.root for i in twice.code] == ["add", "add"]
    assert twice.labels == {"A": 0, "B": 0, "C": 2} and twice.registers["z"] == "b64"
