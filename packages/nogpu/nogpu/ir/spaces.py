"""Which memory a pointer points into: by its type, or by where it comes from."""

from __future__ import annotations

import re

from nogpu.ir.text import NAME, Function, Module, operands, split, take_type

GENERIC, GLOBAL, SHARED, CONSTANT, LOCAL, PARAM = 0, 1, 3, 4, 5, 101
WORD = {GLOBAL: "global", SHARED: "shared", CONSTANT: "const", LOCAL: "local", PARAM: "param"}
OWN = (SHARED, LOCAL, PARAM)
"""Spaces whose addresses are other numbers than the generic ones."""


def of_type(kind: str) -> int:
    """The space that a pointer's type says, GENERIC where it says none."""
    match = re.match(r"ptr addrspace\((\d+)\)", kind)
    return int(match[1]) if match else GENERIC


class Spaces:
    """The spaces of the pointers of a function."""

    def __init__(self, module: Module, function: Function) -> None:
        self._module = module
        self._by_name: dict[str, int] = {}
        sources: dict[str, list[str]] = {}
        for p in function.parameters:
            if p.type.startswith("ptr"):
                kernels, functions = (PARAM, LOCAL) if p.byval else (GLOBAL, of_type(p.type))
                self._by_name[p.name] = kernels if function.is_kernel else functions
        for block in function.blocks:
            for name, kind, by_block in block.phis:
                if kind.startswith("ptr"):
                    self._enter(sources, name, kind, list(by_block.values()))
            for ins in block.code:
                if ins.op == "getelementptr":
                    kind, base = take_type(split(ins.rest)[1])
                    self._enter(sources, ins.name, kind, [base])
                elif ins.op == "select" and ", ptr" in ins.rest:
                    (_, _), (kind, a), (_, b) = operands(ins.rest)
                    self._enter(sources, ins.name, kind, [a, b])
                elif ins.op in ("addrspacecast", "freeze") and ins.rest.startswith("ptr"):
                    kind, text = take_type(ins.rest)
                    text, _, to = text.partition(" to ")
                    self._enter(sources, ins.name, to or kind, [text])
                elif ins.op == "alloca":
                    self._by_name[ins.name] = LOCAL
                elif ins.op in ("inttoptr", "load") and (
                    typed := re.search(r"(?:^| to )(ptr(?: addrspace\(\d\))?)", ins.rest)
                ):
                    self._by_name[ins.name] = of_type(typed[1])
        self._settle(sources)

    def _enter(self, sources: dict[str, list[str]], name: str, kind: str, of: list[str]) -> None:
        if typed := of_type(kind):
            self._by_name[name] = typed
        else:
            sources[name] = of

    def _settle(self, sources: dict[str, list[str]]) -> None:
        """Until nothing changes: a pointer made of others points where all of them do."""
        found: dict[str, set[int]] = {name: set() for name in sources}
        users: dict[str, list[str]] = {}
        for name, texts in sources.items():
            for text in texts:
                if text in found:
                    users.setdefault(text, []).append(name)
                elif text not in ("null", "undef", "poison"):
                    found[name].add(self.of(text))
        todo = [name for name in sources if found[name]]
        while todo:
            name = todo.pop()
            for user in users.get(name, ()):
                if not found[name] <= found[user]:
                    found[user] |= found[name]
                    todo.append(user)
        for name, where in found.items():
            self._by_name[name] = next(iter(where)) if len(where) == 1 else GENERIC

    def of(self, text: str) -> int:
        """The space of a pointer, a name or a constant."""
        if text.startswith("%"):
            return self._by_name.get(text, GENERIC)
        if text.startswith("inttoptr"):
            return GENERIC
        if match := re.search(rf"@({NAME})", text):
            variable = self._module.variables.get(match[1])
            return (variable.space or GLOBAL) if variable else GENERIC
        return GENERIC
