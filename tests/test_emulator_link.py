"""The names that the generated code uses, and the list of functions that it may call."""

from __future__ import annotations

import ast
import builtins
import dis
import marshal
import re
from pathlib import Path
from types import CodeType

import numpy as np
import pytest
from test_emulator_instructions import check

from helpers.ladder import usage
from helpers.ladder.rungs import blackwell, catalog, lay_out
from nogpu.emulator.launching import link, run
from nogpu.emulator.ptx import blocks, opcodes
from nogpu.emulator.ptx import syntax as P
from nogpu.errors import EmulationError
from tests.common import ROOT

LINES = (
    "addc.cc.u32 a, b, c", "madc.lo.u32 a, b, c, d", "div.rn.f32 f, g, h", "sad.u32 a, b, c, d",
    "abs.s32 a, b", "max.f32 f, g, h", "testp.finite.f32 p, f", "copysign.f32 f, g, h",
    "lop3.b32 a, b, c, d, 3", "bfind.u32 a, b", "popc.b32 a, b", "clz.b32 a, b", "brev.b32 a, b",
    "szext.clamp.u32 a, b, c", "prmt.b32 a, b, c, d", "dp4a.s32.s32 a, b, c, d",
    "dp2a.lo.s32.s32 a, b, c, d", "cvt.rn.f32.s32 f, a", "mbarrier.pending_count.b64 a, x",
    "match.any.sync.b32 a, b, 0xffffffff", "redux.sync.add.s32 a, b, 0xffffffff",
    "movmatrix.sync.aligned.m8n8.trans.b16 a, b", "add.rz.f32 f, g, h", "add.rz.f64 u, v, u",
    "mul.rz.f32 f, g, h", "mul.rz.f64 u, v, u", "fma.rz.f32 f, g, h, f", "fma.rn.f64 u, v, u, v",
    "fma.rz.f64 u, v, u, v", "fma.rn.f16 e, e, e, e", "fma.rn.bf16 s, t, s, t",
    "add.rn.f16x2 a, b, c", "add.rn.bf16x2 a, b, c", "add.rn.ftz.sat.f32 f, g, h",
    "div.rz.f32 f, g, h", "div.rz.f64 u, v, u", "sqrt.rz.f64 u, v", "sqrt.rz.f32 f, g",
    "rsqrt.approx.f32 f, g", "ex2.approx.ftz.bf16 s, t", "mul.hi.s32 a, b, c",
    "add.sat.s32 a, b, c", "sub.cc.u32 a, b, c", "subc.u32 a, b, c", "shr.u32 a, b, c",
    "min.xorsign.abs.f32 f, g, h", "setp.nan.f32 p, f, g", "isspacep.shared p, x",
    "cvt.rzi.s32.f32 a, f", "cvt.rni.f32.f32 f, g", "cvt.rn.f64.s64 u, x", "cvt.rn.bf16.s32 s, a",
    "cvt.rna.tf32.f32 a, f", "cvt.rn.satfinite.e4m3x2.f32 s, f, g", "cvt.rn.f16x2.e4m3x2 a, s",
    "mov.b64 x, {a, b}", "mov.b32 a, {o, o, o, o}", "ld.b32 a, [x]", "st.b32 [x], a",
    "mbarrier.inval.shared.b64 [a]", "cp.async.mbarrier.arrive.noinc.shared.b64 [a]",
    "elect.sync a|p, 0xffffffff", "trap",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [x], b, [c]",
    "cp.async.bulk.global.shared::cta.bulk_group [x], [a], b",
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [a], [b], c, [d]",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [a], b",
    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [a], b", "getctarank.u64 a, x",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f, g, h, h}, x, y, p, 1, 1, 0, 0; add.f32 f, g, h",
    "tcgen05.st.sync.aligned.32x32b.x1.b32 [a], {b}",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {a}, [b]; add.s32 a, a, a",
    "tcgen05.cp.cta_group::1.32x128b.warpx4 [a], x", "tcgen05.shift.cta_group::1.down [a]",
    "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [a], 32; and.b32 a, a, 0xfeffffff",
    "call (back), device, (given)", "call (back), x, (given)", "call (back), malloc, (given)",
    "call free, (given)", "call (back), vprintf, (given)", "call __assertfail, (given)",
)  # fmt: skip
"""With the kernels of the book: each function that is linked is called in one of these."""

HEAD = """.version 8.3
.target sm_90a
.address_size 64
.extern .func (.param .b64 r) malloc (.param .b64 n);
.extern .func free (.param .b64 p);
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.extern .func __assertfail (.param .b64 m);
.func (.param .b64 r) device (.param .b64 n)
{
    .reg .b64 z;
    ld.param.b64 z, [n];
    st.param.b64 [r], z;
    ret;
}
.visible .entry k() {
    .reg .b32 a, b, c, d;
    .reg .b64 x, y;
    .reg .f32 f, g, h;
    .reg .f64 u, v;
    .reg .f16 e;
    .reg .b16 s, t;
    .reg .b8 o;
    .reg .pred p, q;
    .param .b64 given;
    .param .b64 back;
    .loc 1 7 1
"""


def line(text):
    """A kernel of one line, translated and not linked."""
    head = HEAD.replace("sm_90a", "sm_100a") if text.startswith("tcgen05") else HEAD
    return blocks.translate(P.parse(f"{head}    {text};\n    ret;\n}}\n"), "k")


def globals_of(program):
    """Names that the generated code looks for outside of it, but for constants."""
    found = set()
    for function in program.functions.values():
        for inner in marshal.loads(function.code).co_consts:
            if isinstance(inner, CodeType):
                steps = dis.get_instructions(inner)
                found |= {i.argval for i in steps if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    made = (link.constant_of_name, link.line_of_name)
    return {name for name in found if all(make(name) is None for make in made)}


def kernels():
    """The kernels of the book, translated."""
    for kernel in (*catalog.values(), *blackwell.values()):
        module = P.parse(usage.compile_launch(lay_out(kernel, 4096, 4096, 4096)).ptx, kernel.file)
        yield blocks.translate(module, kernel.entry)


@pytest.mark.slow
def test_what_the_generated_code_calls_is_linked_and_what_is_linked_is_called():
    used = set[str]().union(*map(globals_of, (*map(line, LINES), *kernels())))
    assert used - set(link.LINKED) == set()
    assert set(link.LINKED) - used == set()


def test_a_name_that_is_not_linked_is_seen(monkeypatch):
    row = opcodes.OPS["popc"]
    monkeypatch.setitem(opcodes.OPS, "popc", opcodes.replace(row, emit="nonesuch({a})"))
    assert globals_of(line("popc.b32 a, b")) - set(link.LINKED) == {"nonesuch"}


def test_no_two_functions_share_a_name():
    names = [function.__name__ for function in link._FUNCTIONS]
    assert len(names) == len(set(names))
    assert {n for n in names if link.LINKED[n].__name__ != n} == set()


def called(source):
    """Names that the string literals of a module call as functions: Python that it may emit."""
    texts = [n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant)]
    found: set[str] = set()
    for text in texts:
        if isinstance(text, str) and "\n" not in text:
            found |= set(re.findall(r"(?<![\w.%])([a-z]\w*[a-z0-9])\((?=[^)]|$)", text))
    return found


def test_no_lowering_has_a_name_up_its_sleeve():
    """Every path, also those that no kernel takes."""
    room = ROOT / "packages" / "nogpu" / "nogpu" / "emulator" / "ptx"
    files = [Path(str(module.__file__)) for module in blocks.SUBJECTS]
    for path in (*files, room / "emit.py", room / "opcodes.py"):
        emitted = called(path.read_text(encoding="utf-8")) - set(dir(builtins))
        assert emitted - set(link.LINKED) == set(), path.name
    assert called("e.emit(f'nonesuch(S, {x})')") == {"nonesuch"}


# -- one file for one opcode -----------------------------------------------------------------------


def test_an_opcode_whose_python_is_one_expression_needs_its_row_and_nothing_else(monkeypatch):
    """fns.b32 of the PTX ISA, here for offset 0: the place of the first bit that is set."""

    def forget():
        for cached in (opcodes.key_of, opcodes._keys, opcodes.unknown, run._parsed):
            cached.cache_clear()

    numbers = np.arange(1, 257, dtype=np.uint32)
    wanted = {"fns.b32 r9, r1, 0, 1": [(i & -i).bit_length() - 1 for i in numbers.tolist()]}
    with pytest.raises(EmulationError, match=r"'fns\.b32' is not emulated"):
        check(wanted, r1=numbers)
    row = opcodes.Op("d a b n", ": b32", "find_leading({a} & -{a}, False)")
    monkeypatch.setitem(opcodes.OPS, "fns", row)
    forget()
    try:
        monkeypatch.setenv("TILE_CACHE", "0")
        check(wanted, r1=numbers)
        with pytest.raises(EmulationError, match="frob is not known for fns"):
            line("fns.frob.b32 a, b, 0, 1")
    finally:
        monkeypatch.undo()
        forget()
