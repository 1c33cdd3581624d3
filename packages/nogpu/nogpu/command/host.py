"""Follows a program's host code up to its launches: sizes, arrays, tensor maps, what is copied.

Nothing is computed of the data: an array is how many bytes it has and how it was filled. What
cannot be known (a number that is read from the user, what a function that is not here returns) is
an `Unknown`, which says why, and whatever is made of it is one too. Source: CUDA runtime API,
memory management and execution control.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from nogpu.command.library import CONSTANTS, FUNCTIONS, METHODS, construct
from nogpu.command.syntax import (
    CASTS,
    LAUNCH,
    Node,
    NotReadError,
    Reader,
    expand,
    placed,
    preprocess,
    tokens,
    walk,
)  # fmt: skip
from nogpu.command.values import (
    FLOATS,
    SIZES,
    Array,
    Assigned,
    Cell,
    Filled,
    Launched,
    Map,
    Member,
    Pointer,
    Record,
    Scope,
    Stop,
    Unknown,
    compute,
    guesses,
    plain,
    product,
    triple,
    truth,
)  # fmt: skip
from nogpu.emulator.launching.declarations import Formal, formals, resolve_type, split_commas
from nogpu.errors import ConfigError
from nogpu.text import closing, pieces, without_comments, without_templates

MOST_STEPS = 60_000
"""Statements and expressions that are followed: a program that takes longer is left there."""
MOST_TURNS = 500
"""Of a loop that launches nothing; what it changes is unknown after that."""
MOST_LAUNCHES = 200
_MOST_CELLS = 64  # of an array of the host whose elements are kept
_INNER = (TypeError, ValueError, AttributeError, KeyError, IndexError, ArithmeticError,
          NotReadError)  # fmt: skip
_LEADS = re.compile("<<<|cudaMalloc|cudaLaunch|cuTensorMapEncode")
_NOT_FOLLOWED = Unknown("it is an element of an array, whose contents are not followed")


class Left(Exception):
    """A statement leaves those around it: by "break", "continue", "goto" with a label, or "return"
    with a value.
    """


@dataclass
class Function:
    """A function of the program. name: without namespaces; line: where its body begins."""

    name: str
    space: str
    head: str
    body: str
    line: int
    source: str
    defines: Mapping[str, str]
    tree: Node | None = None

    @cached_property
    def templates(self) -> list[tuple[str, str]]:
        """Name and default ("": none) of each template parameter."""
        return _templates(self.head)

    @cached_property
    def formals(self) -> list[Formal]:
        """The parameters; one that has a template's type keeps its name."""
        head = without_templates(self.head)
        found = re.search(rf"\b{re.escape(self.name)}\s*(?:<[^<>()]*>\s*)?\(", head)
        defines = {**self.defines, **{name: name for name, _ in self.templates}}
        at = found.end() if found else 0
        return formals(head[at : closing(head, at - 1)], self.source, defines) if at else []


def _templates(head: str) -> list[tuple[str, str]]:
    words = head[: len(head) - len(without_templates(head))].strip()
    parts = [p.partition("=") for p in split_commas(words[words.find("<") + 1 : -1])]
    return [(name.split()[-1], default.strip()) for name, _, default in parts]


class Program:
    """A program's host code, and what following it brings up: events, and what it did not know."""

    def __init__(
        self, source: str, settings: Mapping[str, Any], defines: Mapping[str, str],
        arch: str = "sm_80",
    ) -> None:  # fmt: skip
        self.source, self.settings, self.arch, self.steps = source, settings, arch, 0
        self.types = self.templates = frozenset[str]()
        text = re.sub(r"<< <(?!<)", "<<< ", without_comments(source))  # a formatter parted them
        text = re.sub(r"(?<!>)>> >", ">>> ", text)
        text, self.macros = preprocess(text, defines, self._holds)
        self.text = text
        self.used: set[str] = set()  # settings that a variable took
        self.events: list[Launched | Filled | Assigned] = []
        self.functions: dict[str, list[Function]] = {}
        self.kernels: dict[str, Function] = {}
        self.overloads: dict[str, list[Function]] = {}  # kernels of one name, by parameters
        self.structs: dict[str, str] = {}
        self.methods: dict[str, list[Function]] = {}  # by structure
        self.globals = Scope()
        self.cut_short = self.mistake = ""
        self.guessed: list[str] = []  # NAME=VALUE, of functions that nothing calls
        self._defines = {
            n: " ".join(m.body) for n, m in self.macros.items() if m.parameters is None
        }
        self._resolved: dict[str, str] = {}
        self._launched: set[str] = set()
        self.at: str = ""  # the word of the launch that is made
        self.stream: Any = 0  # and its stream
        self._made: set[int] = set()  # such words, by id
        self._missed: set[int] = set()  # and those of launches that were left out
        found, space_at = list(pieces(text)), _spaces(text)
        self.types = frozenset(
            [p.name for p in found if p.kind == "type"]
            + re.findall(r"\busing\s+(\w+)\s*=", text)
            + re.findall(r"\btypedef\b[^;{}]*?(\w+)\s*;", text)
        )
        self.templates = frozenset(p.name for p in found if p.head.startswith("template"))
        for piece in found:
            self._declare(space_at(piece.start), piece)

    def _declare(self, space: str, piece: Any) -> None:
        text, name = self.text[piece.start : piece.end], space + piece.name
        if piece.kind == "type":
            self.structs[name] = text
            at = text.find("{") + 1
            inside = pieces(text[at : text.rfind("}")]) if at else ()
            self.methods[name] = [
                self._function(space, p, piece.start + at)
                for p in inside
                if p.kind == "function" and _of_host(p.head) and "~" not in p.head
            ]
        elif piece.kind == "function":
            function = self._function(space, piece)
            if piece.kernel:
                others = self.overloads.setdefault(name, [])
                types = [(f.type, f.pointers) for f in function.formals]
                if all(types != [(f.type, f.pointers) for f in other.formals] for other in others):
                    others += [function] * (not re.match(r"template\s*<\s*>", function.head))
                self.kernels[name] = function
            elif _of_host(piece.head):
                self.functions.setdefault(name, []).append(function)
        elif not piece.head.lstrip().startswith(("using", "typedef")):
            scope = self.globals.inner(space)
            with suppress(Stop):
                for node in self.reader(text).statements():
                    if node[0] == "decl":
                        self.do(node, scope)
            self.globals.update({space + name: cell for name, cell in scope.maps[0].items()})

    def _function(self, space: str, piece: Any, within: int = 0) -> Function:
        """A function. space: its namespace; within: where the text begins that it is a piece of."""
        start, end = within + piece.start, within + piece.end
        at = start + len(piece.head)
        head, body, line = self.text[start:at], self.text[at:end], self.text.count("\n", 0, at) + 1
        name = piece.name.split("::")[-1]
        return Function(name, space, head, body, line, self.text, self._defines)

    def _holds(self, words: list[str]) -> bool:
        """Whether a condition of `#if` holds; one that is not understood does."""
        with suppress(*_INNER):
            return bool(truth(self.value(Reader(words).expression(), Scope())))
        return True

    def reader(self, text: str, line: int = 0) -> Reader:
        """A reader of a text, with the program's macros, types and templates. line: of the text."""
        words = placed(text, line) if line else tokens(text)
        return Reader(expand(words, self.macros), self.types, self.templates)

    # -- running

    def run(self) -> None:
        """Follow main, or where there is none, each function that launches, callers first."""
        try:
            if "main" in self.functions:
                arguments = 1, Unknown("it comes from the command line")
                self.call(self.functions["main"][0], arguments, ())
                return
            every = [f for fs in self.functions.values() for f in fs]
            called = {word for f in every for word in tokens(f.body)}
            launching = {f.space + f.name: f for f in every if "<<<" in f.body}
            for function in launching.values():
                if function.name not in called:
                    self.call(function, self._outside(function), ())
        except Stop as stop:
            self.cut_short = str(stop)
        except RecursionError:
            self.cut_short = "the host code calls itself too deeply"
        if self.cut_short:
            self._miss([f.tree for f in self._every if f.tree])

    @property
    def _every(self) -> list[Function]:
        """All functions and methods of the host."""
        return [f for fs in (*self.functions.values(), *self.methods.values()) for f in fs]

    @property
    def by_macro(self) -> str:
        """What is said of a macro that the text uses to define kernels; "" where there is none."""
        names = {"__global__"}
        while more := {n for n, m in self.macros.items() if n not in names and names & {*m.body}}:
            names |= more
        text = set(tokens(self.text))
        used = next((n for n in self.macros if n in names & text), "")
        return used and (
            f": the macro {used} defines kernels, which is not followed. Write them out (a "
            "compiler's -E shows them)"
        )

    def unmade(self) -> Iterator[tuple[str, int, bool]]:
        """Launches that were not made: kernel, line, and whether one was left out where the program
        comes to it.
        """
        for function in self._every:
            if function.tree or re.search("<<<|Launch", function.body):
                for word, kernel in self._launches(self._tree(function)):
                    if id(word) not in self._made:
                        yield kernel, getattr(word, "line", 0), id(word) in self._missed

    def _launches(self, node: Any) -> Iterator[tuple[str, str]]:
        """The word of each launch in a tree, and the kernel that it names."""
        for part in walk(node):
            match part:
                case "launch", about, _, _, word:
                    names = [n[1] for n in walk(about) if n[0] == "name"]
                case "call", ("name", word, _), about if LAUNCH.match(word):
                    names = [n[1] for n in walk(about) if n[0] == "name"]
                case "skip", every, word if word:
                    names = ["a kernel", *every]
                case _:
                    continue
            known = [n for n in names if self._seen(self.kernels, n, "")]
            yield word, min(known or names[:1] or ["a kernel"])

    def _miss(self, node: Any) -> None:
        """The launches of a tree are left out."""
        self._missed.update(id(word) for word, _ in self._launches(node))

    def _outside(self, function: Function) -> Iterator[Any]:
        """What nobody here passes to a function."""
        guessed = guesses(function.formals)
        for formal in function.formals:
            name, kind = formal.name, self.base(formal.type, self.globals)
            why = Unknown(f"{name} is a parameter of {function.name}(), which nothing here calls")
            value = guessed.get(name, why)
            if name in self.settings:
                self.used.add(name)
                value = self.settings[name]
            elif name in guessed:
                pointer = isinstance(value, Pointer)
                count = value.array.bytes // SIZES[formal.type] if pointer else value
                self.guessed.append(f"{name}={count}")
            elif formal.pointers or re.search(r"tensor|ptr", formal.type, re.I):
                value = Pointer(Array(name, why, kind, True, "random"), 0, kind)
            yield value

    def call(
        self, function: Function, values: Iterable[Any], given: Sequence[str],
        owner: Record | None = None,
    ) -> Any:  # fmt: skip
        """Run a function, or a method of an owner. given: texts of template arguments."""
        scope, values = self.globals.inner(function.space), list(values)
        if owner is not None:
            name, _, texts = owner.kind.partition("<")
            full = self._seen(self.structs, name, function.space)
            head = self.structs[full].partition("{")[0]
            self._bind(_templates(head), split_commas(texts.removesuffix(">")), scope)
            scope.update(owner)
            scope["this"] = Cell(Cell(owner))
            scope = scope.inner()
        given = [*given, *self._deduced(function, len(given), values)]
        self._bind(function.templates, given, scope)
        for i, formal in enumerate(function.formals):
            name, default = formal.name, formal.text.partition("=")[2]
            if i < len(values):
                value = values[i]
            elif default:
                value = self.value(self.reader(default).expression(), scope)
            else:
                value = Unknown(f"{name} is not given")
            if isinstance(value, Cell) and "&" in formal.text:
                scope[name] = value
                continue
            value = self._settled(name, value, formal.type, formal.pointers, scope)
            scope[name] = Cell(value, formal.type, formal.pointers)
        if owner is not None:
            for name, text in re.findall(r"[:,]\s*(\w+)\s*\(([^()]*)\)", _behind(function.head)):
                if name in owner and text.strip():
                    owner[name].value = self.value(self.reader(text).expression(), scope)
        return self._returned(self._tree(function), scope)

    def _returned(self, body: Node, scope: Scope) -> Any:
        """What a body returns."""
        try:
            self.do(body, scope)
        except Left as left:
            return left.args[1]

    def record(self, kind: str, values: Sequence[Any], scope: Scope) -> Record | None:
        """A structure of the program's, made of values; None: there is none of that name."""
        layout = self.layout(kind, scope)
        if layout is None:
            return None
        made, (members, *_) = Record(kind), layout
        for m in members:
            unset = Unknown(f"{kind}.{m.name} was not set")
            value = self.value(m.init[0], scope) if m.init else unset
            if m.many is not None and m.many <= _MOST_CELLS and not isinstance(value, list):
                value = [Cell(unset, m.kind) for _ in range(m.many)]
            made[m.name] = Cell(value, m.kind, m.stars, m.name)
        if constructor := self._method(made, kind.partition("<")[0].split("::")[-1], values):
            self.call(constructor, values, (), made)
        elif len(values) == 1 and isinstance(plain(values[0]), Record):
            made.update({n: replace(c) for n, c in plain(values[0]).items()})
        else:
            for m, value in zip(members, values, strict=False):
                made[m.name].value = self._settled(m.name, value, m.kind, m.stars, scope)
        return made

    def _method(self, owner: Any, name: str, values: Sequence[Any]) -> Function | None:
        """A method of a structure that takes as many values."""
        kind = self._seen(self.methods, owner.kind.partition("<")[0], "")
        inside = [f for f in self.methods.get(kind, ()) if f.name == name]
        known = [*inside, *self.functions.get(f"{kind}::{name}", ())]  # or defined behind it
        return next((f for f in known if len(f.formals) == len(values)), None)

    def _bind(
        self, parameters: Sequence[tuple[str, str]], given: Sequence[str], scope: Scope
    ) -> None:
        """Give template parameters their values."""
        for i, (name, default) in enumerate(parameters):
            text = given[i] if i < len(given) else default
            missing = Unknown(f"template parameter {name} is not given")
            scope[name] = Cell(self.template_value(text, scope) if text else missing)

    def _tree(self, function: Function) -> Node:
        """The statements of a function."""
        if function.tree is None:
            function.tree = "block", self.reader(function.body, function.line).statements()
        return function.tree

    # -- types

    def template_value(self, text: str, scope: Scope) -> Any:
        """A template argument: a number, or ("type", text)."""
        reader = self.reader(text)
        words = list(reader.words)
        cell = self._cell(words[0], scope) if len(words) == 1 else None
        if cell is not None:
            return cell.value
        if words and not reader.is_type(words[0]) and re.match(r"[\w(\-]", words[0]):
            with suppress(NotReadError):
                value = self.value(reader.expression(), scope)
                if isinstance(value, bool | int | float):
                    return value
        return "type", self.base(" ".join(words), scope)

    def base(self, kind: str, scope: Scope) -> str:
        """A type's name with aliases and template parameters followed; "float*" keeps its star."""
        stars = kind.count("*")
        words = re.sub(r"\b(?:const|struct|typename)\b|\*|&|^::", " ", kind.replace("std::", ""))
        kind = " ".join(words.split())
        cell = scope.get(kind)
        if cell is not None and isinstance(cell.value, tuple) and cell.value[:1] == ("type",):
            kind = str(cell.value[1])
        if kind not in self._resolved:
            self._resolved[kind] = resolve_type(kind, self.text, self._defines)
        return self._resolved[kind] + "*" * stars

    def size_of(self, kind: str, scope: Scope) -> int | Unknown:
        """Bytes of a type."""
        kind = self.base(kind, scope)
        if kind.endswith("*"):
            return 8
        layout = None if kind in SIZES else self.layout(kind, scope)
        unknown = Unknown(f"the size of {kind} is not known")
        return layout[1] if layout else SIZES.get(kind, unknown)

    def layout(self, kind: str, scope: Scope) -> tuple[list[Member], int | Unknown, int] | None:
        """Members, bytes and alignment of a structure of the program's; None: it has none such.

        Behind a member whose size is not known no place is.
        """
        name, _, given = kind.partition("<")
        full = self._seen(self.structs, name, scope.space)
        head, opened, body = self.structs.get(full, "").partition("{")
        if not opened or "union" in head:
            return None
        inner, words = scope.inner(), split_commas(given.removesuffix(">"))
        self._bind(_templates(head)[: len(words)], words, inner)
        body = re.sub(r"\w+\s*\([^)]*\)[^;{}]*\{[^{}]*\}", "", body.rpartition("}")[0])
        body = re.sub(r"\b(?:public|private|protected)\s*:", "", body)
        static = re.compile(r"\bstatic\b[^;{}]*;")
        for node in self.reader("".join(static.findall(body))).statements():
            self.do(node, inner)
        body = static.sub("", body)
        members, widest, at = list[Member](), 1, 0
        unknown = Unknown(f"the size of {full} is not known")
        odd = re.search(r"\(\s*\*|\w\s*:\s*\d", body)  # a function's address, bits
        end: int | Unknown = unknown if odd else 0
        for node in self.reader(body).statements():
            for name, stars, dims, how, init in node[2] if node[0] == "decl" else ():
                if how == "(":
                    continue  # a function
                base = self.base(node[1], inner)
                nested = None if stars or base in SIZES else self.layout(base, inner)
                size = 8 if stars else self.size_of(base, inner)
                counts = [self.value(d, inner) if d else Unknown("open") for d in dims]
                count, total = product(*counts) if dims else None, product(size, *counts)
                each = size if isinstance(size, int) else 1
                each = each // 3 if base[-1] == "3" and each % 3 == 0 else each  # float3
                align = max(nested[2] if nested else min(each, 16), node[3])
                at += -at % align
                widest = max(widest, align)
                members.append(Member(name, base, stars, size, count, at, init))
                if not isinstance(total, int) or isinstance(end, Unknown):
                    end = unknown
                else:
                    end = at = at + total
        return members, end if isinstance(end, Unknown) else max(end + -end % widest, 1), widest

    def _seen(self, table: Iterable[str], name: str, space: str, far: bool = True) -> str:
        """The full name in a table that a name means within a namespace; "" if there is none.

        far: it may be one of any namespace, too.
        """
        while space and space + name not in table:
            space = "".join(f"{part}::" for part in space.split("::")[:-2])
        last = "::" + name.split("::")[-1]
        ends = (full for full in table if far and f"::{full}".endswith(last))
        return space + name if space + name in table else next(ends, "")

    # -- statements

    def do(self, node: Node, scope: Scope) -> None:
        """Run a statement. Raises Left where it leaves more than itself."""
        self._count()
        try:
            self._do(node, scope)
        except _INNER:  # C++ that is read, but in a way that nobody thought of
            self._leave_out(node, scope)

    def _count(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Stop("the host code takes long: only its beginning was followed")

    def _do(self, node: Node, scope: Scope) -> None:
        match node:
            case "block", statements:
                self._block(statements, scope.inner())
            case "skip", names, _:
                self._miss(node)
                self.written(self._cell(name, scope) for name in names)
            case "expr", inner:
                self.value(inner, scope)
            case "decl", kind, declared, _:
                for name, stars, dims, how, init in declared:
                    cell = Cell(None, kind, stars, name)
                    cell.value = self._initial(name, kind, stars, dims, how, init, scope)
                    scope[name] = cell
                    if not dims:
                        cell.value = self._settled(name, cell.value, kind, stars, scope)
            case "if", test, yes, no:
                holds = truth(self.value(test, scope))
                follow = self._matters(yes) if isinstance(holds, Unknown) else holds
                if isinstance(holds, Unknown):
                    self._miss(no)
                    if not follow:
                        self._leave_out(yes, scope)
                self.do(yes if follow else no, scope)
            case "while", *_:
                self._loop(node, scope)
            case "each", name, over, body:
                values = self.value(over, scope)
                if not isinstance(values, list):
                    self.written(self._cell(n[1], scope) for n in walk(over) if n[0] == "name")
                    if not self._matters(body):
                        return self._leave_out(body, scope)
                    values = [Unknown(f"{name} runs over what is not known")]
                for value in values:
                    inner = scope.inner()
                    inner[name] = value if isinstance(value, Cell) else Cell(value)
                    if not self._turn(body, inner):
                        break
            case "switch", over, (_, body):
                self._switch(self.value(over, scope), body, scope)
            case "goto", label:
                raise Left("goto", label)
            case "return" | "break" | "continue" as how, inner:
                raise Left(how, self.value(inner, scope) if inner else None)

    def _block(self, statements: Sequence[Node], scope: Scope) -> None:
        """Run statements, from a label among them on where one goes there."""
        at = 0
        while at < len(statements):
            try:
                self.do(statements[at], scope)
                at += 1
            except Left as left:
                label = "label", left.args[1]
                if left.args[0] != "goto" or label not in statements:
                    raise
                at = statements.index(label)

    def _turn(self, body: Node, scope: Scope, beyond: str = "return goto") -> bool:
        """Run a loop's body once; whether the loop goes on. beyond: what leaves more than it."""
        try:
            self.do(body, scope)
        except Left as left:
            if left.args[0] in beyond:
                raise
            return bool(left.args[0] == "continue")
        return True

    def _loop(self, node: Node, scope: Scope) -> None:
        _, test, body, step, first = node
        matters, before, turns = self._matters(body), self.steps, 0
        while turns < 4 * MOST_LAUNCHES:
            holds = True if first and not turns else truth(self.value(test, scope))
            long = turns and not matters and self.steps - before > 4 * MOST_TURNS
            if isinstance(holds, Unknown) or long:
                if matters and not turns:  # one turn shows what is launched
                    with suppress(Left):
                        self.do(body, scope)
                return self._leave_out([body, step], scope)
            turns += 1
            if not holds or not self._turn(body, scope):
                break
            self.value(step, scope)

    def _switch(self, value: Any, body: Any, scope: Scope) -> None:
        each = isinstance(value, Unknown)  # then every case is run
        labels = [self.value(s[1], scope) for s in body if s[0] == "case" and s[1] is not None]
        on, inner = each, scope.inner()
        for statement in body:
            if statement[0] == "case":
                one = statement[1]
                on = on or (value not in labels if one is None else self.value(one, scope) == value)
            elif on and not self._turn(statement, inner, "return continue goto") and not each:
                break

    def _initial(
        self, name: str, kind: str, stars: int, dims: Sequence[Any], how: str, init: Any,
        scope: Scope,
    ) -> Any:  # fmt: skip
        """What a variable is declared with."""
        base, unset = self.base(kind, scope), Unknown(f"{name} is not set")
        if dims:
            counts = [self.value(d, scope) if d else None for d in dims]
            given, first = self.value(init[0], scope) if init else None, counts[0]
            small = isinstance(first, int) and first <= _MOST_CELLS
            if isinstance(given, list) and (first is None or small):
                cells = [x if isinstance(x, Cell) else Cell(x, kind) for x in given]
                return cells + [Cell(0, kind) for _ in range((first or 0) - len(cells))]
            if len(counts) == 1 and isinstance(first, int) and small:
                flat = stars or base in SIZES
                return [Cell(unset if flat else Record(base), kind) for _ in range(first)]
            total = product(self.size_of(kind, scope), *counts)
            return Pointer(Array(name, total, base, False, "random"), 0, base)
        if stars or (how == "=" and init[0][0] != "init"):
            return self.value(init[0], scope) if init else unset
        values = [self.value(x, scope) for x in (init[0][1] if how == "=" else init)]
        if base not in SIZES and how == "=" and values == [0]:  # a structure of zeros
            values = []
        if (made := construct(self, name, kind, values, scope)) is not None:
            return made
        if base not in SIZES and (record := self.record(base, values, scope)) is not None:
            return record
        if base != "auto":  # a thread, say
            self._miss(init)
        return values[0] if values else Record(base) if base not in SIZES else unset

    def _settled(self, name: str, value: Any, kind: str, stars: int, scope: Scope) -> Any:
        """A value as a variable of this name and type takes it: what the user set, else this."""
        if not stars and name in self.settings and not isinstance(value, Pointer | Record | Map):
            self.used.add(name)
            value = self.settings[name]
        base = self.base(kind, scope)
        if stars and isinstance(value, Pointer):
            if base not in ("void", "auto"):
                value = replace(value, kind=base)
            value.array.kind = value.array.kind or value.kind
            if value.array.name == "array" and name:
                value.array.name = name
        elif not stars and isinstance(value, float) and base in SIZES and base not in FLOATS:
            return int(value)
        elif not stars and isinstance(value, int) and base in FLOATS:
            return float(value)
        return value

    @cached_property
    def _leading(self) -> set[str]:
        """Names of functions that may lead to a launch, or to an array of the device."""
        words: dict[str, set[str]] = {}
        every = [*self.functions.values(), *self.methods.values()]
        for function in (f for fs in every for f in fs):
            words.setdefault(function.name, set()).update(tokens(function.body))
        leading = {name for name, has in words.items() if any(map(_LEADS.match, has))}
        while more := {n for n, has in words.items() if n not in leading and has & leading}:
            leading |= more
        return leading

    def _matters(self, node: Any) -> bool:
        """Whether a statement may lead there."""
        parts = list(walk(node))
        names = {part[1].split("::")[-1] for part in parts if part[0] in ("name", "decl")}
        names |= {part[2] for part in parts if part[0] == "member"}
        leads = names & self._leading or any(map(_LEADS.match, names))
        return bool(leads) or any(part[0] == "launch" for part in parts)

    def _leave_out(self, node: Any, scope: Scope) -> None:
        """A statement was left out: what it sets is unknown, arrays may have been written."""
        self._miss(node)
        for part in walk(node):
            if part[0] == "name":
                self.written([self._cell(part[1], scope)])
            elif part[0] in ("assign", "after", "unary") and part[2][0] == "name":
                cell = self._cell(part[2][1], scope)
                changed = part[0] != "unary" or part[1] in ("++", "--")
                if cell and changed and isinstance(cell.value, int | float):
                    cell.value = Unknown(f"{part[2][1]} is changed by what was not followed")

    def written(self, values: Iterable[Any]) -> None:
        """Arrays that code which is not followed was given: it may have written them.

        And it may have called functions.
        """
        for value in map(plain, values):
            if isinstance(value, Pointer):
                value.array.fill = "random"
            elif isinstance(value, tuple) and value[0] == "lambda":
                self._miss(value[2])

    # -- expressions

    def value(self, node: Node, scope: Scope) -> Any:
        """The value of an expression; `Unknown` where it cannot be told."""
        self._count()
        match node:
            case "value", value:
                return value
            case "name", name, given:
                return self._name(name, given, scope)
            case "binary", op, left, right:
                return self._binary(op, left, right, scope)
            case "call", ("member", of, name), given:
                owner, values = plain(self.value(of, scope)), [self.value(x, scope) for x in given]
                if isinstance(owner, Record) and (method := self._method(owner, name, values)):
                    return self.call(method, values, (), owner)
                if isinstance(owner, list) and name == "size":
                    return len(owner)
                if isinstance(owner, Pointer) and name in METHODS:
                    return METHODS[name](self, owner, values, scope)
                self.written([owner, *values])
                return Unknown(f"what .{name}() returns is not known")
            case "call", ("name", name, texts), given:
                return self._call(name, texts or (), given, scope)
            case "call", _, given:
                self.written([self.value(x, scope) for x in given])
                return Unknown("a call of what is not known")
            case "assign", op, left, right:
                value, place = self.value(right, scope), self.place(left, scope)
                self.written([place] if isinstance(place, Pointer) else ())
                if not isinstance(place, Cell):
                    return value
                if op != "=":
                    value = self._moved(op[:-1], place.value, value, scope)
                name = left[1] if left[0] == "name" else left[2] if left[0] == "member" else ""
                place.value = self._settled(name, value, place.kind, place.stars, scope)
                return place.value
            case ("unary" | "after") as when, ("++" | "--") as op, inner:
                place = self.place(inner, scope)
                if not isinstance(place, Cell):
                    return Unknown("it is not kept")
                before, place.value = place.value, self._moved(op[0], place.value, 1, scope)
                return before if when == "after" else place.value
            case "unary", "&", inner:
                place = self.place(inner, scope)
                if place is None:
                    return Unknown("it is the address of what is not known here")
                return inner if isinstance(inner := plain(place), list) else place
            case ("index" | "member", _, last) | ("unary", "*" as last, _):
                if isinstance(place := self.place(node, scope), Cell):
                    return place.value
                unknown = Unknown(f"the member {last} is not known here")
                return unknown if node[0] == "member" else _NOT_FOLLOWED
            case "unary", op, inner:
                value = truth(self.value(inner, scope)) if op == "!" else self.value(inner, scope)
                if not isinstance(value, int | float):
                    return value if isinstance(value, Unknown) else Unknown("it is not a number")
                by_op = {"!": not value, "-": -value, "+": value}
                return by_op[op] if op in by_op else ~int(value)
            case "cast", kind, stars, inner:
                value = self.value(inner, scope)
                if isinstance(value, list) and not stars:
                    made = construct(self, "", kind, value, scope)
                    return value if made is None else made
                if isinstance(value, Cell | list):
                    return value
                return self._settled("", value, kind, stars, scope)
            case "cond", test, yes, no:
                which = truth(self.value(test, scope))
                known = not isinstance(which, Unknown)
                return self.value(yes if which else no, scope) if known else which
            case "sizeof", kind:
                return self.size_of(kind, scope)
            case "sizeof_value", inner:
                return self._size_of_value(inner, scope)
            case "launch", callee, config, given, word:
                match callee if callee[0] == "name" else self.value(callee, scope):
                    case "name" | "kernel", name, texts:
                        pass
                    case _:
                        raise Stop(f"line {word.line} launches what is not known here")
                grid, block, *more = (self.value(x, scope) for x in config)
                shared, stream, *_ = *more, 0, 0
                args = [self.value(x, scope) for x in given]
                self.at, self.stream = word, stream
                return self.launch(name, texts, grid, block, shared, None, args, scope)
            case "init", parts:
                return [self.value(x, scope) for x in parts]
            case "comma", first, last:
                self.value(first, scope)
                return self.value(last, scope)
            case "lambda", names, body:
                return "lambda", names, body, scope
            case "new", kind, count, given:
                base, values = self.base(kind, scope), [self.value(x, scope) for x in given]
                if count is None and base not in SIZES:
                    return Cell(self.record(base, values, scope) or Record(base), base)
                number = 1 if count is None else self.value(count, scope)
                size = compute("*", self.size_of(kind, scope), number)
                return Pointer(Array("new", size, base, False), 0, base)
        raise NotReadError(node[0])

    def _cell(self, name: str, scope: Scope) -> Cell | None:
        name, known = name.removeprefix("std::"), self.globals
        return scope.get(name) or known.get(self._seen(known, name, scope.space, far=False))

    def _name(self, name: str, given: Any, scope: Scope) -> Any:
        cell, last = self._cell(name, scope), name.split("::")[-1]
        if cell is not None:
            return cell.value
        if name in self.settings:
            self.used.add(name)
            return self.settings[name]
        if self._seen(self.kernels, name, scope.space):
            return "kernel", name, given
        if last in CONSTANTS:
            return CONSTANTS[last]
        if re.match(r"(?:cuda|CUDA_|CU_|CUBLAS_|cublas)", last):
            return "constant", last
        return Unknown(f"{name} is not known here")

    def place(self, node: Node, scope: Scope) -> Cell | Pointer | None:
        """What an expression names: a variable, a member, an element; None: nothing kept."""
        match node:
            case "name", name, _:
                return self._cell(name, scope)
            case "member", of, name:
                owner = plain(self.value(of, scope))
                if isinstance(owner, Unknown) and isinstance(cell := self.place(of, scope), Cell):
                    if owner.why.endswith("was not set") and not cell.kind:
                        owner = cell.value = Record(owner.why.split()[0])
                if isinstance(owner, list) and owner and name in "xyz":
                    return (*owner, Cell(1), Cell(1))["xyz".index(name)]  # type: ignore[no-any-return]
                return owner[name] if isinstance(owner, Record) else None
            case "index", of, at:
                owner, index = self.value(of, scope), self.value(at, scope)
                if isinstance(owner, list):
                    inside = isinstance(index, int) and 0 <= index < len(owner)
                    return owner[index] if inside else None
                moved = self._moved("+", owner, index, scope)
                return moved if isinstance(moved, Pointer) else None
            case "unary", "*", inner:
                owner = self.value(inner, scope)
                return owner if isinstance(owner, Cell | Pointer) else None
            case "cast", _, _, inner:
                return self.place(inner, scope)
        return None

    def _moved(self, op: str, left: Any, right: Any, scope: Scope) -> Any:
        """left op right, where left may be a pointer, which moves by elements."""
        if not isinstance(left, Pointer) or op not in "+-":
            return compute(op, left, right)
        size = self.size_of(left.kind or left.array.kind, scope)
        return replace(left, offset=compute(op, left.offset, compute("*", right, size)))

    def _binary(self, op: str, a: Node, b: Node, scope: Scope) -> Any:
        left = self.value(a, scope)
        if op in ("&&", "||", "and", "or"):
            first = truth(left)
            if not isinstance(first, Unknown) and first == (op in ("||", "or")):
                return first
            second = truth(self.value(b, scope))
            return first if isinstance(first, Unknown) else second
        right = self.value(b, scope)
        if isinstance(left, list) and op == "+" and isinstance(right, int):
            return left[right:]  # a pointer into an array of the host
        if isinstance(right, int):
            return self._moved(op, left, right, scope)
        return compute(op, left, right)

    def _size_of_value(self, node: Node, scope: Scope) -> Any:
        inner = node[2] if node[:2] == ("unary", "*") else node[1]
        if node[0] in ("unary", "index") and inner[0] == "name":
            cell = self._cell(inner[1], scope)  # which need not point anywhere yet
            if cell is not None and cell.stars:
                return self.size_of(cell.kind + "*" * (cell.stars - 1), scope)
        match self.place(node, scope):
            case Cell(value=list() as cells):
                each = self.size_of(cells[0].kind if cells else "int", scope)
                return compute("*", each, len(cells))
            case Cell(value=Pointer(array=array), stars=0):
                return array.bytes  # an array of the host
            case Cell(value=("type", kind)) | Pointer(kind=kind):
                return self.size_of(kind, scope)
            case Cell(kind=kind, stars=stars):
                return self.size_of(kind + "*" * stars, scope)
        return self.size_of(node[1], scope) if node[0] == "name" else Unknown("sizeof")

    def _call(self, name: str, texts: Sequence[str], given: Sequence[Node], scope: Scope) -> Any:
        last = name.split("::")[-1]
        if last in CASTS and texts:
            kind = texts[0]
            return self.value(("cast", kind.replace("*", " "), kind.count("*"), given[0]), scope)
        match plain(self._cell(name, scope)):
            case "lambda", names, body, outer:
                inner, cells = outer.inner(), [Cell(self.value(x, scope)) for x in given]
                inner.update(zip(names, cells, strict=False))
                return self._returned(body, inner)
        this = plain(scope["this"].value) if "this" in scope else None
        if isinstance(this, Record) and (method := self._method(this, name, given)):
            return self.call(method, [self.value(x, scope) for x in given], (), this)
        if function := self._lookup(name, len(given), scope):
            references = ["&" in f.text for f in function.formals] + [False] * len(given)
            values = [
                cell if by_reference and isinstance(cell := self.place(x, scope), Cell)
                else self.value(x, scope)
                for x, by_reference in zip(given, references, strict=False)
            ]  # fmt: skip
            if function.name not in self._leading:
                self.written(values)
            return self.call(function, values, [self._template_text(t, scope) for t in texts])
        values = [self.value(x, scope) for x in given]
        if symbol := re.match("cudaMemcpy(?:To|From)Symbol", last):
            place = "From" in symbol[0]
            named = (n[1].split("::")[-1] for n in walk(given[place]) if n[0] == "name")
            values[place] = next(named, "")
        if last.startswith("cudaMalloc") and given and given[0][0] == "name":
            target = self._cell(given[0][1], scope)
            if target is not None and target.stars == 1 and not isinstance(target.value, Cell):
                self.mistake = f"{last} takes the address of {given[0][1]}: &{given[0][1]}"
        if LAUNCH.match(last):
            self.at, self.stream = name, 0
        if last in FUNCTIONS:
            return FUNCTIONS[last](self, values, scope, last)
        kind = name + (f"<{','.join(texts)}>" if texts else "")
        if (made := construct(self, "", kind, values, scope)) is not None:
            return made
        kind = texts[0] if last in ("make_unique", "make_shared") and texts else kind
        if (record := self.record(self.base(kind, scope), values, scope)) is not None:
            return record
        if self.base(name, scope) in SIZES and len(values) == 1:
            return self._settled("", values[0], name, 0, scope)
        self.written(values)
        if LAUNCH.match(last):
            self._missed.add(id(name))
        success = re.match(r"cu(?:da|blas|rand|fft|sparse|solver|dnn)?[A-Z]", last)
        return 0 if success else Unknown(f"{name}() is not followed")

    def _lookup(self, name: str, count: int, scope: Scope) -> Function | None:
        """The function that a call means: of this namespace, of no namespace, or of any."""
        far = not name.startswith(("std::", "thrust::"))
        found = self.functions.get(self._seen(self.functions, name, scope.space, far), [])
        return next((f for f in found if len(f.formals) >= count), next(iter(found), None))

    def _template_text(self, text: str, scope: Scope) -> str:
        value = self.template_value(text, scope)
        if isinstance(value, tuple):
            return str(value[1])
        if isinstance(value, bool):
            return str(value).lower()
        return text if isinstance(value, Unknown) else str(value)

    # -- launches

    def launch(
        self, name: str, given: Any, grid: Any, block: Any, shared: Any, cluster: Any,
        args: Sequence[Any], scope: Scope, cooperative: bool = False,
    ) -> None:  # fmt: skip
        """Note a launch. given: texts of template arguments, or None."""
        if sum(isinstance(e, Launched) for e in self.events) >= MOST_LAUNCHES:
            raise Stop(f"more than {MOST_LAUNCHES} launches: the rest was not followed")
        match plain(self._cell(name, scope)):
            case "kernel", name, texts:
                given = texts or given
        full = self._seen(self.kernels, name, scope.space)
        if not full:
            raise Stop(f"{name} is launched, and no kernel here has that name{self.by_macro}")
        self._made.add(id(self.at))
        texts = [self._template_text(t, scope) for t in given or ()]
        texts += self._deduced(self.kernels[full], len(texts), args)
        entry = full + (f"<{', '.join(texts)}>" if texts else "")
        grid, block = triple(grid), triple(block)
        places = [(id(a.array), a.offset) if isinstance(a, Pointer) else a for a in args]
        known = repr((entry, grid, block, shared, cooperative, places))
        if known not in self._launched:  # else a turn of a loop, for the time: it is run once
            self._launched.add(known)
            arrays = [a.pointer if isinstance(a, Map) else a for a in map(plain, args)]
            fills = tuple(a.array.fill if isinstance(a, Pointer) else None for a in arrays)
            line = getattr(self.at, "line", 0)
            self.events.append(
                Launched(entry, grid, block, shared, cluster, tuple(args), line, fills, cooperative)
            )
            self.written(a for a, f in zip(arrays, fills, strict=True) if not isinstance(f, Map))

    def _deduced(self, kernel: Function, have: int, args: Sequence[Any]) -> Iterator[str]:
        """Template arguments that a launch or a call leaves to its arguments."""
        for name, _ in kernel.templates[have:]:
            kinds = [
                (a.kind or getattr(a, "array", a).kind) if isinstance(a, Pointer | Record)
                else type(a).__name__
                for formal, a in zip(kernel.formals, map(plain, args), strict=False)
                if formal.type == name
                and isinstance(a, Pointer if formal.pointers else int | float | Record)
            ]  # fmt: skip
            if not any(kinds):
                return
            yield next(filter(None, kinds)).replace("bool", "int")

    def formals(self, entry: str) -> tuple[Function, list[Formal]]:
        """The kernel of an entry, `ns::name<...>`, and its parameters as the instance has them.

        Raises ConfigError where the program has no such kernel.
        """
        name, _, given = entry.partition("<")
        full = self._seen(self.kernels, name, "")
        if not full:
            raise ConfigError(f"{entry}: its parameters cannot be read in the source")
        kernel, every = self.kernels[full], self.overloads[full]
        if len(every) > 1:
            heads = " and ".join(f"({', '.join(x.text for x in f.formals)})" for f in every)
            raise ConfigError(
                f"{full} has overloads, {heads}, and which one a launch means is not followed: "
                "give each a name of its own"
            )
        texts = [self.base(t, self.globals) for t in split_commas(given.removesuffix(">"))]
        by_name = dict(zip((n for n, _ in kernel.templates), texts, strict=False))
        return kernel, [replace(f, type=by_name.get(f.type, f.type)) for f in kernel.formals]


def _of_host(head: str) -> bool:
    """Whether the host may call a function."""
    return "__device__" not in head or "__host__" in head


def _behind(head: str) -> str:
    """What stands behind a function's parameters: a constructor's initialisers."""
    at = head.find("(")
    return head[closing(head, at) + 1 :] if at >= 0 else ""


def _spaces(text: str) -> Callable[[int], str]:
    """The namespaces around a place, such as "M2::", by the place; without a name none counts."""
    places, names, open_ones = [0], [""], list[str]()
    for match in re.finditer(r"\bnamespace\s*([\w:]*)\s*\{|[{}]", text):
        if match[0] != "}":
            open_ones.append(match[1] or "")
        elif open_ones:
            open_ones.pop()
        places.append(match.end())
        names.append("".join(f"{name}::" for name in open_ones if name))
    return lambda at: names[bisect_right(places, at) - 1]
