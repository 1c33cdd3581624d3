"""A whole module as PTX: its variables, its kernels, and the functions that they call."""

from __future__ import annotations

import re

from nogpu.ir import text
from nogpu.ir.calls import declared
from nogpu.ir.kernel import Writer, symbol
from nogpu.ir.places import Places
from nogpu.ir.spaces import SHARED
from nogpu.ir.text import Function, Module, Refused, Variable, float_bits, take_type, within
from nogpu.ir.values import FLOATS

_LIMITS = {
    "nvvm.maxntid": ".maxntid",
    "nvvm.reqntid": ".reqntid",
    "nvvm.minctasm": ".minnctapersm",
    "nvvm.maxnreg": ".maxnreg",
    "nvvm.maxclusterrank": ".maxclusterrank",
    "nvvm.cluster_dim": ".explicitcluster\n.reqnctapercluster",
}
_SPACES = {0: ".global", 1: ".global", 4: ".const"}


def ptx(ir: str, main: str, arch: str) -> str:
    """PTX of LLVM IR.

    Parameters
    ----------
    ir: a module's text, for the triple nvptx64-nvidia-cuda, optimised, with line directives.
    main: the path of the source, as its debug information writes it.
    arch: such as "sm_75".

    Raises ToolchainError for what has no translation: what it is, and its line.
    """
    module = text.read(ir)
    places = Places(module.nodes, main)
    writers: dict[str, Writer] = {}
    used: dict[str, list[str]] = {}  # variables, and the functions that name them
    declarations: dict[str, Function] = {}
    stays = [v for v in module.variables.values() if v.space in _SPACES]
    todo = [("", f.name) for f in module.functions.values() if f.is_kernel]
    todo += [("", v.name) for v in stays if _is_named(v) or v.name in module.used]
    while todo:
        user, name = todo.pop(0)
        if variable := module.variables.get(name):
            if name not in used:
                todo += [("", n) for n in re.findall(rf"@({text.NAME})", variable.initial)]
            used.setdefault(name, []).append(user)
        elif (function := module.functions.get(name)) and name not in writers:
            if function.lines:
                writers[name] = Writer(module, function, places)
                todo += [(name, s) for s in writers[name].symbols]
            else:
                declarations[name] = function
    kept = [v for v in module.variables.values() if v.name in used]
    version = "7.8" if int(re.sub(r"\D", "", arch) or 0) < 90 else "8.6"
    out = [f".version {version}", f".target {arch}", ".address_size 64", ""]
    out += [f".extern {_head(module, f)};" for f in declarations.values()]
    out += [f"{_head(module, f)};" for n in writers if not (f := module.functions[n]).is_kernel]
    own: dict[str, list[str]] = {}
    for variable in kept:
        users = used[variable.name]
        if variable.space == SHARED and len(users) == 1 and "external" not in variable.linkage:
            own.setdefault(users[0], []).append("\t" + _variable(module, variable))
        else:
            out.append(_variable(module, variable))
    for name, writer in writers.items():
        function = module.functions[name]
        out += [_head(module, function), *_limits(module, function)]
        out += ["{", *own.get(name, ()), *writer.body(), "}"]
    return "\n".join([*out, *places.files(), ""])


def _is_named(variable: Variable) -> bool:
    """Whether a program may ask for a variable by its name."""
    return not re.search(r"\b(?:private|internal|linkonce_odr)\b", variable.linkage)


def _head(module: Module, function: Function) -> str:
    """The first lines of a function: what it gives back, its name, its parameters."""
    name = symbol(function.name)
    given = [
        declared(p.type, f"{name}_param_{i}", module, p.words, function.is_kernel)
        for i, p in enumerate(function.parameters)
    ]
    if function.is_kernel:
        return f".visible .entry {name}(\n" + ",\n".join(f"\t{g}" for g in given) + "\n)"
    returned = ""
    if function.returns != "void":
        returned = f" ({declared(function.returns, 'func_retval0', module)})"
    return f".func{returned} {name}({', '.join(given)})"


def _limits(module: Module, function: Function) -> list[str]:
    """How large a block may be and the like."""
    words = " ".join(module.attributes.get(ref, "") for ref in re.findall(r"#\d+", function.words))
    found = re.findall(r'"(nvvm\.\w+)"="([\d,]+)"', words)
    return [f"{_LIMITS[name]} {value}" for name, value in found if name in _LIMITS]


# -- variables -------------------------------------------------------------------------------------


def _variable(module: Module, variable: Variable) -> str:
    """A variable's declaration."""
    name, size = symbol(variable.name), module.size(variable.type)
    if variable.space == SHARED:
        extern = "" if size else ".extern "
        return f"{extern}.shared .align {variable.align} .b8 {name}[{size or ''}];"
    if variable.space not in _SPACES:
        raise Refused(f"the variable {variable.name} in memory {variable.space}")
    where = ("" if not _is_named(variable) else ".visible ") + _SPACES[variable.space]
    items = _initial(module, variable.type, variable.initial)
    pointers = [item for item in items if isinstance(item, str)]
    if not pointers:
        data = b"".join(item for item in items if isinstance(item, bytes)).rstrip(b"\0")
        numbers = f" = {{{', '.join(map(str, data))}}}" if data else ""
        return f"{where} .align {variable.align} .b8 {name}[{size}]{numbers};"
    if any(isinstance(item, bytes) and len(item) % 8 for item in items):
        raise Refused(f"the variable {variable.name}, which holds addresses and smaller numbers")
    words = []
    for item in items:
        if isinstance(item, str):
            words.append(item)
        else:
            words += [
                str(int.from_bytes(item[i : i + 8], "little")) for i in range(0, len(item), 8)
            ]
    if variable.type == "ptr":
        return f"{where} .align {variable.align} .u64 {name} = {words[0]};"
    return f"{where} .align {variable.align} .u64 {name}[{size // 8}] = {{{', '.join(words)}}};"


def _initial(module: Module, kind: str, initial: str) -> list[bytes | str]:
    """An initial value: bytes, and addresses as PTX writes them."""
    size = module.size(kind)
    if initial in ("zeroinitializer", "undef", "poison", "null", ""):
        return [bytes(size)]
    if initial.startswith('c"'):
        raw = initial[2 : initial.rindex('"')]
        return [re.sub(rb"\\([0-9A-F]{2})", lambda h: bytes([int(h[1], 16)]), raw.encode())]
    if kind[0] in "[<{%":
        out, at = list[bytes | str](), 0
        for start, item in zip(module.offsets(kind), within(initial), strict=True):
            inner, value = take_type(item)
            out += [bytes(start - at), *_initial(module, inner, value)]
            at = start + module.size(inner)
        return [item for item in (*out, bytes(size - at)) if item != b""]
    if kind.startswith("ptr"):
        return [_address(initial)]
    number = (
        float_bits(kind, initial)
        if kind in FLOATS
        else int({"true": "1", "false": "0"}.get(initial, initial))
    )
    return [(number & ((1 << 8 * size) - 1)).to_bytes(size, "little")]


def _address(initial: str) -> str:
    """An address in an initial value."""
    name = re.search(rf"@({text.NAME})", initial)
    offset = re.search(r"i8, .*?, i64 (\d+)\)", initial)
    if not name or (initial.startswith("getelementptr") and not offset):
        raise Refused(f"the address {initial} in a variable")
    generic = "addrspacecast" in initial or initial.startswith("getelementptr")
    word = symbol(name[1])
    word = f"generic({word})" if generic else word
    return f"{word}+{offset[1]}" if offset else word
