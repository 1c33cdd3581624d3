"""Calls: intrinsics, inline assembly, the functions of a module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nogpu.ir.text import Call, Instruction, Module, Refused, aligned, bits, by_value
from nogpu.ir.values import Unit, Values, memory_type

if TYPE_CHECKING:
    from nogpu.ir.kernel import Writer

_NOTHING = re.compile(
    r"llvm\.(?:lifetime|dbg|assume|experimental\.noalias|invariant|donothing|sideeffect|prefetch)"
)
_TURNED = "cvt.u32.u64 {i}, {2}; and.b32 {i}, {i}, 63; sub.s32 {j}, 64, {i}; "
_WRITTEN = tuple(
    (re.compile(pattern), template)
    for pattern, template in (
        # {0} and so on are the arguments, {d} is the result, {n} as 32 bits, {t[1]} the second one;
        # {m[1]} is a group of the name; {p} and {q} are predicates, {i} and {j} of 32 bits, {x} and
        # {y} of the result's type
        (r"llvm\.nvvm\.read\.ptx\.sreg\.warpsize", "mov.u32 {d}, 32"),
        (r"llvm\.nvvm\.read\.ptx\.sreg\.(clock64|globaltimer)", "mov.u64 {d}, %{m[1]}"),
        (r"llvm\.nvvm\.read\.ptx\.sreg\.lanemask\.(\w+)", "mov.u32 {d}, %lanemask_{m[1]}"),
        (r"llvm\.nvvm\.read\.ptx\.sreg\.(\w+(?:\.[wxyz])?)", "mov.u32 {d}, %{m[1]}"),
        (r"llvm\.nvvm\.barrier0", "bar.sync 0"),  # and below: of LLVM 21
        (r"llvm\.nvvm\.barrier\.cta\.sync\.aligned\.all", "bar.sync {0}"),
        (r"llvm\.nvvm\.barrier\.cta\.sync\.aligned(?:\.count)?", "bar.sync {0}, {1}"),
        (r"llvm\.nvvm\.barrier\.cta\.sync(?:\.all)?", "barrier.sync {0}"),
        (r"llvm\.nvvm\.barrier\.cta\.sync\.count", "barrier.sync {0}, {1}"),
        (r"llvm\.nvvm\.barrier\.cta\.red\.popc\.aligned\.all", "bar.red.popc.u32 {d}, {0}, {1}"),
        (r"llvm\.nvvm\.barrier\.cta\.red\.(and|or)\.aligned\.all",
         "bar.red.{m[1]}.pred {d}, {0}, {1}"),
        (r"llvm\.nvvm\.bar\.warp\.sync", "bar.warp.sync {0}"),
        (r"llvm\.nvvm\.membar\.(cta|gl|sys)", "membar.{m[1]}"),
        (r"llvm\.nvvm\.isspacep\.(\w+)", "isspacep.{m[1]} {d}, {0}"),
        (r"llvm\.nvvm\.shfl\.sync\.(\w+)\.[if]32", "shfl.sync.{m[1]}.b32 {d}, {1}, {2}, {3}, {0}"),
        (r"llvm\.nvvm\.shfl\.sync\.(\w+)\.[if]32p",
         "shfl.sync.{m[1]}.b32 {t[0]}|{t[1]}, {1}, {2}, {3}, {0}"),
        (r"llvm\.nvvm\.vote\.(any|all|uni)\.sync", "vote.sync.{m[1]}.pred {d}, {1}, {0}"),
        (r"llvm\.nvvm\.vote\.ballot\.sync", "vote.sync.ballot.b32 {d}, {1}, {0}"),
        (r"llvm\.nvvm\.sqrt\.rn\.f|llvm\.sqrt\.f32", "sqrt.rn.f32 {d}, {0}"),
        (r"llvm\.nvvm\.sqrt\.rn\.d|llvm\.sqrt\.f64", "sqrt.rn.f64 {d}, {0}"),
        (r"llvm\.nvvm\.nanosleep", "nanosleep.u32 {0}"),
        (r"llvm\.([su])(min|max)\.i(16|32|64)", "{m[2]}.{m[1]}{m[3]} {d}, {0}, {1}"),
        (r"llvm\.abs\.i(16|32|64)", "abs.s{m[1]} {d}, {0}"),
        (r"llvm\.ctpop\.i(32|64)", "popc.b{m[1]} {n}, {0}"),
        (r"llvm\.ctlz\.i(32|64)", "clz.b{m[1]} {n}, {0}"),
        (r"llvm\.bitreverse\.i(32|64)", "brev.b{m[1]} {d}, {0}"),
        (r"llvm\.cttz\.i(32|64)", "brev.b{m[1]} {x}, {0}; clz.b{m[1]} {n}, {x}"),
        (r"llvm\.nvvm\.barrier0\.popc", "setp.ne.s32 {p}, {0}, 0; bar.red.popc.u32 {d}, 0, {p}"),
        (r"llvm\.nvvm\.barrier0\.(and|or)",
         "setp.ne.s32 {p}, {0}, 0; bar.red.{m[1]}.pred {q}, 0, {p}; selp.b32 {d}, 1, 0, {q}"),
        (r"llvm\.fshl\.i64", f"{_TURNED}shl.b64 {{x}}, {{0}}, {{i}}; shr.u64 {{y}}, {{1}}, {{j}}"
         "; or.b64 {d}, {x}, {y}"),
        (r"llvm\.fshr\.i64", f"{_TURNED}shl.b64 {{x}}, {{0}}, {{j}}; shr.u64 {{y}}, {{1}}, {{i}}"
         "; or.b64 {d}, {x}, {y}"),
        (r"llvm\.bswap\.i32", "prmt.b32 {d}, {0}, 0, 0x0123"),
        (r"llvm\.fsh([lr])\.i32", "shf.{m[1]}.wrap.b32 {d}, {1}, {0}, {2}"),
        (r"llvm\.(?:fma|fmuladd)\.f(16|32|64)", "fma.rn.f{m[1]} {d}, {0}, {1}, {2}"),
        (r"llvm\.(min|max)(?:num|imumnum)\.f(32|64)", "{m[1]}.f{m[2]} {d}, {0}, {1}"),
        (r"llvm\.(min|max)imum\.f32", "{m[1]}.NaN.f32 {d}, {0}, {1}"),
        (r"llvm\.fabs\.f(32|64)", "abs.f{m[1]} {d}, {0}"),
        (r"llvm\.copysign\.f(32|64)", "copysign.f{m[1]} {d}, {1}, {0}"),
        (r"llvm\.trunc\.f(32|64)", "cvt.rzi.f{m[1]}.f{m[1]} {d}, {0}"),
        (r"llvm\.floor\.f(32|64)", "cvt.rmi.f{m[1]}.f{m[1]} {d}, {0}"),
        (r"llvm\.ceil\.f(32|64)", "cvt.rpi.f{m[1]}.f{m[1]} {d}, {0}"),
        (r"llvm\.(?:rint|nearbyint|roundeven)\.f(32|64)", "cvt.rni.f{m[1]}.f{m[1]} {d}, {0}"),
        (r"llvm\.fpto([su])i\.sat\.i(32|64)\.f(32|64)", "cvt.rzi.{m[1]}{m[2]}.f{m[3]} {d}, {0}"),
        (r"llvm\.(?:ubsan)?trap|llvm\.debugtrap", "trap"),
    )
)  # fmt: skip
"""Intrinsics that are one or a few instructions."""
_TEMPORARY = {"p": "i1", "q": "i1", "i": "i32", "j": "i32", "x": "", "y": ""}

_CLASSES = (
    *(("notanumber", 1, 2), ("infinite", 4, 512), ("normal", 8, 256)),
    *(("subnormal", 16, 128), ("zero", 32, 64)),
)
"""Classes of numbers, and the bits of llvm.is.fpclass for negative and positive ones."""
_MOST_COPIED = 128
"""Bytes up to which a copy is written out; LLVM's NVPTX back end makes a loop of a longer one."""


def write(w: Writer, ins: Instruction, called: Call) -> None:
    """Write a call."""
    name = called.function
    if name[0] == '"':
        _assembly(w, ins, called)
    elif not name.startswith("@llvm."):
        _function(w, ins, called)
    elif not _NOTHING.match(name[1:]):
        _intrinsic(w, ins, called, name[1:])


def _intrinsic(w: Writer, ins: Instruction, called: Call, name: str) -> None:
    for pattern, template in _WRITTEN:
        if m := pattern.fullmatch(name):
            operands = [(f"{{{i}}}" in template, *a) for i, a in enumerate(called.arguments)]
            given = [w.value(kind, text) if used else "" for used, kind, text in operands]
            if "; " in template or template.startswith(("cvt", "popc", "clz")):
                given = [
                    v and w.kept(a[0], v) for a, v in zip(called.arguments, given, strict=True)
                ]
            targets = w.targets(ins.name) if ins.name else []
            d = targets[0] if targets else ""
            narrow = "{n}" in template and bits(called.returns) == 64
            names = {"d": d, "t": targets, "n": w.new("i32") if narrow else d, "m": m}
            for letter, kind in _TEMPORARY.items():
                if f"{{{letter}}}" in template:
                    names[letter] = w.new(kind or called.returns)
            for statement in template.split("; "):
                w.emit(statement.format(*given, **names))
            if narrow:
                w.emit(f"cvt.u64.u32 {d}, {names['n']}")
            return
    if match := re.match(r"llvm\.(mem(?:cpy|move|set))\.", name):
        _memory(w, match[1], called)
    elif match := _WMMA_MEMORY.match(name):
        _wmma_memory(w, ins, called, match)
    elif match := _WMMA.match(name):
        _wmma(w, ins, called, match)
    elif match := re.match(r"llvm\.([su])(min|max)\.i(\d+)$", name):
        kind, signed = called.returns, match[1] == "s"
        a, b = (w.clean(kind, w.kept(kind, w.value(*x)), signed) for x in called.arguments)
        w.emit(f"{match[2]}.{match[1]}{16 if bits(kind) < 16 else 32} {w.target(ins)}, {a}, {b}")
    elif match := re.match(r"llvm\.is\.fpclass\.f(32|64)$", name):
        _class_of(w, ins, called, match[1])
    else:
        raise Refused(f"the intrinsic {name}")


def _class_of(w: Writer, ins: Instruction, called: Call, width: str) -> None:
    """Whether a number is of some classes; of infinity and the like by its sign, too."""
    (kind, text), (_, mask) = called.arguments
    x, number = w.in_registers(kind, text)[0], int(mask)
    whole, negative, sum_ = w.new(f"i{width}"), w.new("i1"), w.target(ins)
    w.emit(f"mov.b{width} {whole}, {x}")
    w.emit(f"setp.lt.s{width} {negative}, {whole}, 0")
    w.emit(f"setp.ne.s32 {sum_}, 0, 0")
    for word, below, above in _CLASSES:
        if not number & (below | above):
            continue
        p = w.new("i1")
        if word == "zero":
            w.emit(f"setp.eq.f{width} {p}, {x}, {w.value(kind, '0')}")
        else:
            w.emit(f"testp.{word}.f{width} {p}, {x}")
        if word != "notanumber" and not number & above:
            w.emit(f"and.pred {p}, {p}, {negative}")
        elif word != "notanumber" and not number & below:
            positive = w.new("i1")
            w.emit(f"not.pred {positive}, {negative}")
            w.emit(f"and.pred {p}, {p}, {positive}")
        w.emit(f"or.pred {sum_}, {sum_}, {p}")


# -- copies ----------------------------------------------------------------------------------------


def _memory(w: Writer, what: str, called: Call) -> None:
    """A copy or a filling that LLVM left as one."""
    (_, to), (_, source), (_, length) = called.arguments[:3]
    steps = [aligned(words, 1) for words in called.words[:2]]
    step = min(steps[0] if what == "memset" else min(steps), 8)
    if not length.isdecimal() or int(length) > _MOST_COPIED:
        _loop(w, what, to, source, length)
        return
    byte = re.fullmatch(r"-?\d+", source)
    if what == "memset" and not byte:
        step = 1
    pieces, at = list[tuple[int, int]](), 0
    while at < int(length):
        while at % step or at + step > int(length):
            step //= 2
        pieces.append((at, step))
        at += step
    moved = []
    for at, size in pieces:  # all are read before the first is written: the two may overlap
        kind = f"i{8 * size}"
        if what != "memset":
            address, space = w.place(source, at)
            moved.append(w.new(kind))
            w.emit(f"ld{space}.u{8 * size} {moved[-1]}, {address}")
        elif byte:
            moved.append(w.kept(kind, str(int(f"{int(source) & 0xFF:02x}" * size, 16))))
        else:
            moved.append(w.value("i8", source))
    for (at, size), value in zip(pieces, moved, strict=True):
        address, space = w.place(to, at)
        w.emit(f"st{space}.u{8 * size} {address}, {value}")


def _loop(w: Writer, what: str, to: str, source: str, length: str) -> None:
    """A copy byte by byte, of a length that is known when it runs; memmove goes backwards where
    what it reads lies below.
    """
    i, here, there, end, again = w.new("i64"), w.new("i64"), w.new("i64"), w.label(), w.label()
    byte, p, at = w.new("i8"), w.new("i1"), i
    count = w.kept("i64", w.value("i64", length))
    bases = [
        w.kept("ptr", w.address(text)) for text in ([to] if what == "memset" else [to, source])
    ]
    if what == "memset":
        byte = w.kept("i8", w.value("i8", source))
    elif what == "memmove":
        at, last, below = w.new("i64"), w.new("i64"), w.new("i1")
        w.emit(f"setp.lt.u64 {below}, {bases[1]}, {bases[0]}")
        w.emit(f"sub.s64 {last}, {count}, 1")
    w.emit(f"mov.u64 {i}, 0")
    w.emit(f"setp.eq.s64 {p}, {count}, 0")
    w.emit(f"@{p} bra {end}")
    w.code.append(f"{again}:")
    if what == "memmove":
        w.emit(f"sub.s64 {at}, {last}, {i}")
        w.emit(f"selp.b64 {at}, {at}, {i}, {below}")
    if what != "memset":
        w.emit(f"add.s64 {there}, {bases[1]}, {at}")
        w.emit(f"ld.u8 {byte}, [{there}]")
    w.emit(f"add.s64 {here}, {bases[0]}, {at}")
    w.emit(f"st.u8 [{here}], {byte}")
    w.emit(f"add.s64 {i}, {i}, 1")
    w.emit(f"setp.lt.u64 {p}, {i}, {count}")
    w.emit(f"@{p} bra {again}")
    w.code.append(f"{end}:")


# -- matrices --------------------------------------------------------------------------------------

_WMMA_MEMORY = re.compile(
    r"llvm\.nvvm\.wmma\.(m\d+n\d+k\d+)\.(load|store)\.([abcd])\.(row|col)\.stride\.(\w+?)"
    r"\.p\d+(?:i8)?$"
)
_WMMA = re.compile(
    r"llvm\.nvvm\.wmma\.m(\d+)n(\d+)k(\d+)\.mma\.(row|col)\.(row|col)((?:\.\w+?)+?)(\.satfinite)?$"
)


def _wmma_memory(w: Writer, ins: Instruction, called: Call, match: re.Match[str]) -> None:
    shape, what, matrix, layout, element = match.groups()
    address, space = w.place(called.arguments[0][1])
    stride = w.value(*called.arguments[-1])
    words = f"wmma.{what}.{matrix}.sync.aligned.{layout}.{shape}{space}.{element}"
    if what == "load":
        w.emit(f"{words} {{{', '.join(w.targets(ins.name))}}}, {address}, {stride}")
        return
    registers = [v for argument in called.arguments[1:-1] for v in w.in_registers(*argument)]
    w.emit(f"{words} {address}, {{{', '.join(registers)}}}, {stride}")


def _wmma(w: Writer, ins: Instruction, called: Call, match: re.Match[str]) -> None:
    m, n, k = (int(x) for x in match.groups()[:3])
    types = match[6][1:].split(".")
    registers = [v for argument in called.arguments for v in w.in_registers(*argument)]
    width = {"bf16": 16, "tf32": 32, "s8": 8, "u8": 8}.get(types[0])
    if types[0] in ("f16", "f32"):
        of_a = of_b = 8
    elif types == ["f64"]:
        of_a = of_b = 1
        types *= 4
    elif width and len(types) == 1:
        of_a, of_b = m * k * width // 1024, n * k * width // 1024
        out = "s32" if width == 8 else "f32"
        types = [out, types[0], types[0], out]
    else:
        raise Refused(f"the intrinsic {match[0]}")
    of_d, rest = w.targets(ins.name), registers[of_a:]
    groups = [of_d, registers[:of_a], rest[:of_b], rest[of_b:]]
    words = f"{match[4]}.{match[5]}.m{m}n{n}k{k}.{'.'.join(types)}{match[7] or ''}"
    text = ", ".join("{" + ", ".join(group) + "}" for group in groups)
    w.emit(f"wmma.mma.sync.aligned.{words} {text}")


# -- inline assembly -------------------------------------------------------------------------------


def tied(called: Call, makes: Sequence[Unit], values: Values) -> list[tuple[Unit, Unit]]:
    """Of inline assembly, what is read and written: pairs of what is made and what is read."""
    if called.function[0] != '"':
        return []
    inputs = [c for c in called.constraints if c[0] not in "=~"]
    pairs = []
    for constraint, argument in zip(inputs, called.arguments, strict=True):
        if constraint.isdecimal() and int(constraint) < len(makes):
            (part,) = values.parts(*argument)
            if part.unit and not part.offset:
                pairs.append((makes[int(constraint)], part.unit))
    return pairs


def _assembly(w: Writer, ins: Instruction, called: Call) -> None:
    """The text of inline assembly with its operands put in."""
    kinds = w.module.parts(called.returns)
    outs = iter(w.targets(ins.name) if ins.name else map(w.new, kinds))
    given = iter(called.arguments)
    words, copies = list[str](), list[tuple[str, str, str]]()
    for constraint in called.constraints:
        if constraint[0] == "~":
            continue
        if constraint[0] == "=":
            if "*" in constraint:
                raise Refused(f"the operand {constraint} of inline assembly")
            words.append(next(outs))
            continue
        kind, text = next(given)
        if constraint in ("n", "i"):
            words.append(text)
            continue
        operand = w.value(kind, text)
        if constraint.isdecimal():
            target = words[int(constraint)]
            if operand != target:
                copies.append((w.module.parts(kind)[0], target, operand))
            words.append(target)
        else:
            words.append(w.kept(w.module.parts(kind)[0], operand))
    for kind, target, operand in copies:
        w.move(kind, target, operand)
    template = re.sub(r"\\([0-9A-Fa-f]{2})", lambda h: chr(int(h[1], 16)), called.function[1:])
    text = re.sub(
        r"\$(?:\$|\{(\d+)(?::\w+)?\}|(\d+))",
        lambda f: words[int(f[1] or f[2])] if f[1] or f[2] else "$",
        template,
    )
    for line in text.split("\n"):
        if line.strip():
            ended = line.strip().endswith((";", "{", "}", ":"))
            w.code.append(f"\t{line.strip()}{'' if ended else ';'}")


# -- functions -------------------------------------------------------------------------------------


def declared(kind: str, name: str, module: Module, words: str = "", of_kernel: bool = False) -> str:
    """A parameter of a function, or what it gives back, as PTX declares it.

    words: with attributes, which say what is a structure passed by value. of_kernel: whether it is
    one of a kernel's, whose small integers are as wide as they are.
    """
    structure, scalars = by_value(words), module.scalars(kind)
    if structure or len(scalars) > 1:
        kind = structure or kind
        align = aligned(words, module.align(kind))
        return f".param .align {align} .b8 {name}[{module.size(kind)}]"
    scalar = scalars[0][1]
    width = max(bits(scalar), 32) if kind[0] == "i" else bits(scalar)
    return f".param .{memory_type(scalar) if of_kernel else f'b{width}'} {name}"


def _function(w: Writer, ins: Instruction, called: Call) -> None:
    """A call of a function, by name or through a pointer."""
    structures = [by_value(words) for words in called.words]
    registers = [
        [] if structure else w.in_registers(kind, text)
        for (kind, text), structure in zip(called.arguments, structures, strict=True)
    ]
    through = "" if called.function[0] == "@" else w.address(called.function)
    w.code.append("\t{")
    names = []
    for i, ((kind, text), parts) in enumerate(zip(called.arguments, registers, strict=True)):
        names.append(f"param{i}")
        w.emit(declared(kind, names[-1], w.module, called.words[i]))
        if structure := structures[i]:
            w.copy_structure(structure, w.location(text), (".param", names[-1], 0))
            continue
        w.store_parameter(kind, parts, names[-1])
    returned, formal = "", ""
    if called.returns != "void":
        w.emit(declared(called.returns, "retval0", w.module))
        returned = "(retval0), "
        formal = f"({declared(called.returns, '_', w.module)}) "
    arguments = f", ({', '.join(names)})" if names else ""
    if through:
        kinds = ", ".join(
            declared(kind, "_", w.module, words)
            for (kind, _), words in zip(called.arguments, called.words, strict=True)
        )
        prototype = w.label().replace("$L", "prototype").replace("$", "_")
        w.code.append(f"\t{prototype} : .callprototype {formal}_ ({kinds});")
        w.emit(f"call {returned}{through}{arguments or ', ()'}, {prototype}")
    else:
        w.emit(f"call.uni {returned}{w.named(called.function)}{arguments}")
    if called.returns != "void" and ins.name:
        w.load_parameter(called.returns, w.targets(ins.name), "retval0")
    w.code.append("\t}")
