"""Host C++ as trees: as much of it as launches need, what is not understood is left out.

A tree is a tuple whose first element says what it is. Statements that cannot be read become
("skip", names in it, the word of a launch in it), so that whoever follows the program knows what
may have changed, and what was not launched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from nogpu.text import blank

Node = tuple[Any, ...]

_TOKENS = re.compile(
    r"""\s*(?:((?:0[xX][0-9a-fA-F']+|0[bB][01']+|(?:\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\w*
        |[A-Za-z_]\w*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'
        |<<<|>>>|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||::|\.\.\.|[-+*/%&|^]=|[^\s\w]))""",
    re.VERBOSE,
)
tokens: Callable[[str], list[str]] = _TOKENS.findall
"""The tokens of a text."""
NAME = re.compile(r"[A-Za-z_]\w*")
LAUNCH = re.compile(r"<<<|cu(?:da)?Launch\w*Kernel")
"""A token that makes a launch."""


class Word(str):
    """A token, and the line that it stands in; of what a macro makes, where the macro is used."""

    line = 0


def _placed(word: str, line: int) -> Word:
    made = Word(word)
    made.line = line
    return made


def placed(text: str, line: int) -> list[str]:
    """The tokens of a text that begins in a line."""
    words, before = list[str](), 0
    for match in _TOKENS.finditer(text):
        line += text.count("\n", before, before := match.start(1))
        words.append(_placed(match[1], line))
    return words


class NotReadError(Exception):
    """Text that this reader does not understand."""


class Macro(NamedTuple):
    """A macro's parameters (None: it takes none) and the tokens that it stands for."""

    parameters: list[str] | None
    body: list[str]


def preprocess(
    text: str, defined: Mapping[str, str], holds: Callable[[list[str]], bool]
) -> tuple[str, dict[str, Macro]]:
    """The text without directives and without what `#if` leaves out, and its macros.

    Lines stay. text: without comments. holds: whether a condition of `#if` does, of its tokens.
    """
    macros = {name: Macro(None, tokens(value)) for name, value in defined.items()}
    out, stack = [], [[True, True]]  # whether lines count; whether a branch was taken

    def test(words: str) -> bool:
        known = r"defined\s*(?:\(\s*(\w+)\s*\)|(\w+))"
        words = re.sub(known, lambda m: str(int((m[1] or m[2]) in macros)), words)
        return holds(["0" if NAME.match(w) else w for w in expand(tokens(words), macros)])

    for line in re.split(r"(?<!\\)\n", text):
        words = re.sub(r"^#\s*", "#", line.replace("\\\n", " ").strip())
        head, _, rest = words.partition(" ")
        if head in ("#if", "#ifdef", "#ifndef"):
            here = test(rest) if head == "#if" else rest.strip() in macros
            stack.append([here != (head == "#ifndef")] * 2)
        elif head in ("#else", "#elif"):
            here = not stack[-1][1] and (head == "#else" or test(rest))
            stack[-1] = [here, stack[-1][1] or here]
        elif head == "#endif":
            del stack[max(1, len(stack) - 1) :]
        elif head == "#define" and all(on for on, _ in stack):
            match = re.match(r"\s*(\w+)(?:\(([^)]*)\))?(.*)", rest, re.DOTALL)
            if match and match[1] not in defined:
                parameters = None if match[2] is None else match[2].replace(",", " ").split()
                macros[match[1]] = Macro(parameters, tokens(match[3]))
        keep = all(on for on, _ in stack) and not words.startswith("#")
        out.append(line if keep else blank(line))
    return "\n".join(out), macros


def expand(
    words: list[str], macros: Mapping[str, Macro], inside: frozenset[str] = frozenset()
) -> list[str]:
    """Tokens with macros replaced, each not within itself."""
    out: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        macro = macros.get(word) if word not in inside else None
        at += 1
        if macro is None or (macro.parameters is not None and words[at : at + 1] != ["("]):
            out.append(word)
            continue
        body = macro.body
        if macro.parameters is not None:
            given, at = split(words, at + 1)
            by_name = dict(zip(macro.parameters, given, strict=False))
            if macro.parameters[-1:] == ["..."]:
                rest = given[len(macro.parameters) - 1 :]
                by_name["__VA_ARGS__"] = [w for part in rest for w in (",", *part)][1:]
            body = [w for part in body for w in by_name.get(part, [part])]
        made = expand(body, macros, inside | {word})
        line = getattr(word, "line", 0)
        out += [w if isinstance(w, Word) else _placed(w, line) for w in made] if line else made
    return out


def split(words: list[str], at: int, angles: bool = False) -> tuple[list[list[str]], int]:
    """What stands between commas up to the bracket that closes, and where that ends.

    at: behind the bracket that opens. angles: < and > are brackets, too, and >> may be split into
    two. Raises NotReadError where those do not close.
    """
    opened, parts = [words[at - 1]], [list[str]()]
    while at < len(words):
        word, angle = words[at], angles and opened[-1] == "<"
        if angle and word in (";", "{", "}", "<<<"):
            raise NotReadError(word)
        if angle and word in (">>", ">>>"):
            words[at : at + 1] = [">"] * len(word)  # it closes one template at a time
            continue
        at += 1
        if word in "([{" or (angles and word == "<"):
            opened.append(word)
        elif word in ")]}" or (angle and word == ">"):
            while word != ">" and opened[-1:] == ["<"]:
                opened.pop()  # a comparison
            if not opened:
                raise NotReadError(word)
            opened.pop()
            if not opened:
                return parts, at
        if len(opened) == 1 and word == ",":
            parts.append([])
        else:
            parts[-1].append(word)
    if angles:
        raise NotReadError("it does not end")
    return parts, at


_LEVELS = ("|| or", "&& and", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")
_BINARY = {op: level for level, ops in enumerate(_LEVELS, 1) for op in ops.split()}
_ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
_CLOSE = {"(": ")", "{": "}"}
_QUALIFIERS = {"const", "constexpr", "static", "volatile", "inline", "extern", "thread_local",
               "typename", "struct", "class", "enum", "mutable", "register", "__restrict__",
               "__host__", "__device__", "__constant__", "__managed__", "__shared__"}  # fmt: skip
_BASIC = {"void", "bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed",
          "auto", "size_t", "half", "__half", "dim3", "wchar_t"}  # fmt: skip
_SIZED = re.compile(r"u?int\d+_t|(?:float|double|u?int|half|__half|u?short|u?char)[1-4]?")
CASTS = {"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"}
_TEMPLATED = CASTS | {"vector", "max", "min", "array", "device_vector", "host_vector", "unique_ptr",
                      "make_unique", "numeric_limits", "device_ptr", "pair", "tuple"}  # fmt: skip


@dataclass
class Reader:
    """Reads statements from tokens. types, templates: names that the program declares."""

    words: list[str]
    types: frozenset[str] = frozenset()
    templates: frozenset[str] = frozenset()
    at: int = 0

    def peek(self) -> str:
        """The next token; "" behind the last."""
        return self.words[self.at] if self.at < len(self.words) else ""

    def take(self, expected: str = "") -> str:
        """The next token. Raises NotReadError for another than the expected one."""
        word = self.peek()
        if not word or (expected and word != expected):
            raise NotReadError(f"{word!r} where {expected!r} was expected")
        self.at += 1
        return word

    def accept(self, *words: str) -> str:
        """The next token, taken, if it is one of these; else ""."""
        return self.take() if self.peek() in words else ""

    def name(self) -> str:
        """The next token, a name."""
        word = self.take()
        if not NAME.fullmatch(word) or word in _BINARY:
            raise NotReadError(word)
        return word

    def attempt(self, read: Callable[[], Any]) -> Any:
        """What `read` reads, or None, with nothing read."""
        start = self.at
        try:
            return read()
        except NotReadError:
            self.at = start
            return None

    # -- statements

    def statements(self, end: str = "") -> list[Node]:
        """All statements up to a token, which is taken, or to the end."""
        out = []
        while self.at < len(self.words) and self.peek() != end:
            out.append(self.statement())
        if end:
            self.accept(end)
        return out

    def _skipped(self) -> Node:
        start, depth = self.at, 0
        while self.at < len(self.words):
            word = self.take()
            depth += (word in "([{") - (word in ")]}")
            if depth < 0:
                self.at -= 1
                break
            if depth == 0 and (word == ";" or (word == "}" and self.peek() not in (";", ",", ")"))):
                break
        self.at = max(self.at, start + 1)
        words = self.words[start : self.at]
        return "skip", frozenset(filter(NAME.match, words)), next(filter(LAUNCH.match, words), "")

    def statement(self) -> Node:
        """One statement; one that is not understood becomes ("skip", its names)."""
        start = self.at
        try:
            return self._statement()
        except (NotReadError, RecursionError):
            self.at = start
            return self._skipped()

    def _statement(self) -> Node:
        word, node = self.peek(), None
        if word in ("using", "typedef", "template"):
            return self._skipped()
        if NAME.match(word) and word != "default" and self.words[self.at + 1 :][:1] == [":"]:
            self.at += 2
            return "label", word
        if word in ("{", ";"):
            self.take()
            return "block", self.statements("}") if word == "{" else []
        if not self.accept(*_KEYWORDS):
            node = self.attempt(self.declaration) or ("expr", self.expression())
        elif word == "if":
            self.accept("constexpr")
            test, yes = self._condition(), self.statement()
            return "if", test, yes, self.statement() if self.accept("else") else ("block", [])
        elif word == "for":
            return self._for()
        elif word == "while":
            return "while", self._condition(), self.statement(), ("value", 0), False
        elif word == "switch":
            return "switch", self._condition(), self.statement()
        elif word == "do":
            body = self._closed(self.statement(), "while")
            node = "while", self._condition(), body, ("value", 0), True
        elif word == "try":
            node = self.statement()
            while self.accept("catch"):
                self.at = split(self.words, self.at + 1)[1]
                self.statement()  # nothing is thrown
            return node
        elif word == "goto":
            node = "goto", self.name()
        elif word in ("case", "default"):
            return "case", self._closed(self.expression() if word == "case" else None, ":")
        else:
            node = word, None if self.peek() == ";" else self.expression()
        self.take(";")
        return node  # type: ignore[no-any-return]

    def _condition(self) -> Node:
        self.take("(")
        return self._closed(self.expression(), ")")

    def _closed(self, node: Any, end: str) -> Any:
        self.take(end)
        return node

    def _for(self) -> Node:
        def over() -> Node:
            name = self.declaration()[2][0][0]
            self.take(":")
            return name, self._closed(self.expression(), ")")

        def part(end: str, none: Node) -> Node:
            return none if self.accept(end) else self._closed(self.expression(), end)

        self.take("(")
        if each := self.attempt(over):
            return "each", *each, self.statement()
        start = self.attempt(lambda: self._closed(self.declaration(), ";"))
        start = start or ("expr", part(";", ("value", 0)))
        test, step = part(";", ("value", 1)), part(")", ("value", 0))
        return "block", [start, ("while", test, self.statement(), step, False)]

    def declaration(self) -> Node:
        """A declaration without its semicolon: ("decl", type, [(name, stars, dims, how, init)],
        bytes that it is aligned to).
        """
        align = 1
        while self.accept("alignas", "__align__"):
            value = self._condition()
            align = value[1] if value[0] == "value" else 16
        kind, declared = self.type(), []
        while True:
            stars = self._stars("*", "&", "&&", "const", "__restrict__")
            name, dims, how, init = self.name(), [], "", list[Node]()
            while self.accept("["):
                dims.append(None if self.peek() == "]" else self.expression())
                self.take("]")
            if how := self.accept("=", "(", "{"):
                init = [self.assignment()] if how == "=" else self.arguments(_CLOSE[how])
            elif self.peek() not in (";", ",", ":"):
                raise NotReadError(self.peek())
            declared.append((name, stars, dims, how, init))
            if not self.accept(","):
                return "decl", kind, declared, align

    def _stars(self, *words: str) -> int:
        stars = 0
        while word := self.accept("*", *words):
            stars += word == "*"
        return stars

    def type(self) -> str:
        """The text of a type, without stars. Raises NotReadError."""
        words: list[str] = []
        while self.accept(*_QUALIFIERS):
            pass
        while word := self.accept("unsigned", "signed", "long", "short", "int", "char", "double"):
            words.append(word)
        if not words:
            self.accept("::")
            while True:
                words.append(self.name())
                if self.peek() == "<":
                    words.append("<" + ",".join(self.type_arguments()) + ">")
                if not self.accept("::"):
                    break
                words.append("::")
        while self.accept("const", "volatile"):
            pass
        return (" " if words[0] in _BASIC else "").join(words)

    def type_arguments(self) -> list[str]:
        """The texts of <...>, which is taken. Raises NotReadError."""
        self.take("<")
        parts, self.at = split(self.words, self.at, angles=True)
        return [" ".join(part) for part in parts if part]

    # -- expressions

    def expression(self) -> Node:
        """An expression, commas included: the value of the last."""
        node = self.assignment()
        while self.accept(","):
            node = "comma", node, self.assignment()
        return node

    def arguments(self, end: str) -> list[Node]:
        """Expressions between commas up to a closing token, which is taken."""
        out = []
        while not self.accept(end):
            out.append(self.assignment())
            if self.peek() != end:
                self.take(",")
        return out

    def assignment(self) -> Node:
        """An assignment, a choice by ?:, or what is below these."""
        left = self._binary(1)
        if op := self.accept(*_ASSIGN):
            return "assign", op, left, self.assignment()
        if self.accept("?"):
            return "cond", left, self._closed(self.assignment(), ":"), self.assignment()
        return left

    def _binary(self, level: int) -> Node:
        left = self._unary()
        while (op := self.peek()) in _BINARY and _BINARY[op] >= level:
            self.take()
            left = "binary", op, left, self._binary(_BINARY[op] + 1)
        return left

    def _unary(self) -> Node:
        if word := self.accept("-", "+", "!", "~", "*", "&", "++", "--"):
            return "unary", word, self._unary()
        if self.accept("sizeof"):
            if named := self.attempt(self._type_in_brackets):
                return "sizeof", named[0] + "*" * named[1]
            return "sizeof_value", self._unary()
        if self.accept("new"):
            kind = self.type() + "*" * self._stars()
            count = self._closed(self.expression(), "]") if self.accept("[") else None
            how = self.accept("(", "{")
            return "new", kind, count, self.arguments(_CLOSE[how]) if how else []
        return self.attempt(self._cast) or self._postfix(self._primary())

    def _type_in_brackets(self, *words: str) -> tuple[str, int]:
        self.take("(")
        kind, stars = self.type(), self._closed(self._stars(*words), ")")
        if not stars and not self.is_type(kind):
            raise NotReadError(kind)
        return kind, stars

    def is_type(self, kind: str) -> bool:
        """Whether a name is one of a type."""
        base = kind.split("<")[0].split("::")[-1]
        return kind.split()[0] in _BASIC or base in self.types or bool(_SIZED.fullmatch(base))

    def _cast(self) -> Node:
        kind, stars = self._type_in_brackets("&", "const")
        if not re.match(r"""[\w("'&*~!{.-]""", self.peek()):
            raise NotReadError(kind)
        return "cast", kind, stars, self._unary()

    def _primary(self) -> Node:
        word = self.take()
        if word == "(":
            return self._closed(self.expression(), ")")  # type: ignore[no-any-return]
        if word == "{":
            return "init", self.arguments("}")
        if word == "[":
            return self._lambda()
        if word[0] == '"':
            while self.peek().startswith('"'):
                word = word[:-1] + self.take()[1:]
            return "value", word[1:-1]
        if word[0] == "'":
            return "value", ord(word[-2:-1])
        if word[0].isdigit() or (word[0] == "." and word[1:2].isdigit()):
            return "value", number(word)
        self.at -= word != "::"
        word, given = self.name(), None
        while True:
            last = word.split("::")[-1]
            if self.peek() == "<" and (last in self.templates or last in _TEMPLATED):
                given = self.attempt(self.type_arguments)
            if not self.accept("::"):
                break
            word += "::" + self.take()
        while word.split()[0] in ("unsigned", "long") and self.peek() in _BASIC:
            word += " " + self.take()
        return "name", word, None if given is None else tuple(given)

    def _lambda(self) -> Node:
        self.at = split(self.words, self.at)[1]
        parts: list[list[str]] = []
        if self.accept("("):
            parts, self.at = split(self.words, self.at)
        while self.take() != "{":
            pass
        return "lambda", [part[-1] for part in parts if part], ("block", self.statements("}"))

    def _postfix(self, node: Node) -> Node:
        while word := self.peek():
            if word == "{" and not (node[0] == "name" and self.is_type(node[1])):
                return node
            if not self.accept("<<<", "(", "{", "[", ".", "->", "++", "--"):
                return node
            if word == "<<<":
                config = self._closed(self.arguments(">>>"), "(")
                node = "launch", node, config, self.arguments(")"), word
            elif word in _CLOSE:
                node = "call", node, self.arguments(_CLOSE[word])
            elif word == "[":
                node = "index", node, self._closed(self.expression(), "]")
            elif word in ("++", "--"):
                node = "after", word, node
            else:
                node = "member", node, self.take()
                if self.peek() == "<" and self.attempt(self.type_arguments) is None:
                    return node
        return node


_KEYWORDS = ("if", "for", "while", "switch", "do", "case", "default", "return", "break",
             "continue", "goto", "try")  # fmt: skip


def number(word: str) -> int | float:
    """The value of a literal."""
    plain = word.replace("'", "").lower()
    with suppress(ValueError):
        return int(re.sub("^0(?=[0-7]+$)", "0o", plain.rstrip("ulz")), 0)
    with suppress(ValueError):
        return float(plain.rstrip("flh"))
    raise NotReadError(word)


def walk(node: Any) -> Iterable[Node]:
    """A tree and every tree in it."""
    if isinstance(node, tuple | list):
        if isinstance(node, tuple) and node and isinstance(node[0], str):
            yield node
        for part in node:
            yield from walk(part)
