"""CUDA C++ to PTX by the clang that the `ziglang` wheel carries, for machines without NVRTC.

clang knows CUDA's language and none of its functions: those come from
`packages/nogpu/nogpu/clang_cuda/`, headers of this project's own. What they lack does not compile,
and the error says that another compiler would. There is no assembler here: what needs machine code
(registers, SASS) is read from a stored table (`nogpu.compiled`) or refused.

A clang that has no NVPTX target of its own, such as the one that runs in a browser, goes as far as
optimised LLVM IR; `nogpu.ir` makes PTX of that. `set_runner` says how such a clang is called,
and TILE_CLANG_IR=1 takes that route with any clang.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType

from nogpu import project
from nogpu.errors import CompileError, ToolchainError
from nogpu.text import headers, includes, read_source

HEADERS = Path(__file__).with_name("clang_cuda")
INSTALL_HINT = (
    'Install one with: pip install "ziglang>=0.16,<0.18", or name a clang that has the NVPTX '
    "target in TILE_CLANG."
)
NO_MACHINE_CODE = (
    "clang makes PTX, and there is no assembler here that makes machine code of it: registers, "
    "spills and SASS are NVIDIA's alone (NVRTC; Linux, WSL or Colab)"
)


@dataclass(frozen=True)
class Translated:
    """PTX of one source, the warnings beside it, and the mangled names of the name expressions."""

    ptx: str
    log: str
    name_map: MappingProxyType[str, str]


LONGEST = 300.0
"""Seconds by the clock for one call of clang."""
Runner = Callable[[list[str], list[str]], tuple[int, str, str]]
_runner: Runner | None = None


def set_runner(run: Runner | None) -> None:
    """Have clang called by a function, and no process started; None: by processes again.

    run(arguments, folders): what the command line says, "clang" first, and the folders that it may
    read; gives back the exit code, what came out and what was said.
    """
    global _runner
    _runner = run
    _version.cache_clear()
    translate.cache_clear()


def makes_ir() -> bool:
    """Whether clang ends with LLVM IR, and PTX is made of that here."""
    return _runner is not None or os.environ.get("TILE_CLANG_IR", "") == "1"


def command() -> tuple[str, ...]:
    """How clang is called: TILE_CLANG, or `zig clang`; "clang" where a runner is set.

    Raises ToolchainError where there is none of them.
    """
    if _runner is not None:
        return ("clang",)
    if named := os.environ.get("TILE_CLANG"):
        return (named,)
    try:
        import ziglang
    except ImportError:
        raise ToolchainError(f"no clang was found on this machine. {INSTALL_HINT}") from None
    folder = Path(ziglang.__file__).parent
    return (str(folder / ("zig.exe" if sys.platform == "win32" else "zig")), "clang")


def available() -> bool:
    """Whether this machine has a clang that writes PTX, or what PTX is made of."""
    try:
        version()
    except ToolchainError:
        return False
    return True


def version() -> str:
    """Such as "clang 22.1.8 of zig 0.17.1", with " by LLVM IR" where PTX is made here.

    Raises ToolchainError for one that writes no PTX.
    """
    return _version(command(), makes_ir())


@cache
def _version(called: tuple[str, ...], by_ir: bool) -> str:
    try:
        output = "".join(_run([*called, "--version"])[1:])
        targets = "nvptx64" if by_ir else "".join(_run([*called, "--print-targets"])[1:])
        zig = _run([called[0], "version"])[1].strip() if len(called) > 1 else ""
    except OSError as error:
        raise ToolchainError(f"{called[0]} cannot be started: {error}. {INSTALL_HINT}") from None
    match = re.search(r"clang version (\d[\w.]*)", output)
    if not match or "nvptx64" not in targets:
        raise ToolchainError(f"{called[0]} is no clang with the NVPTX target. {INSTALL_HINT}")
    return f"clang {match[1]}{f' of zig {zig}' if zig else ''}{' by LLVM IR' if by_ir else ''}"


def _run(arguments: Sequence[str], folders: Sequence[Path] = ()) -> tuple[int, str, str]:
    """Have a command run: its exit code, what came out and what was said."""
    if _runner is not None:
        return _runner(list(arguments), [str(folder) for folder in folders])
    try:
        process = subprocess.run(arguments, capture_output=True, check=False, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        message = f"clang did not come to an end in {LONGEST:g} s"
        raise CompileError(message, log=message) from None
    errors = process.stderr.decode(errors="replace")
    return process.returncode, process.stdout.decode(errors="replace"), errors


# -- what clang reads ------------------------------------------------------------------------------

_COMMA_IN_BOUND = re.compile(r"\[(\w+<[^][<>(){};]*,[^][<>(){};]*>::\w+)\]")


def parenthesise_bounds(source: str) -> str:
    """The source with parentheses around a bound such as [Share<A, B>::COUNT]; lines stay.

    In the first parameter of a function template clang takes the comma for the end of the
    parameter; C++ does not, and in parentheses both mean the same.
    """
    return _COMMA_IN_BOUND.sub(r"[(\1)]", source)


def _macros(source: str, defines: Sequence[tuple[str, str]]) -> str:
    """What stands before a source: the headers here that it includes, then the macros.

    In this order a macro such as M or T changes the source and not the headers.
    """
    texts = (source, *map(read_source, headers(source)))
    names = {name for text in texts for _, name in includes(text)}
    own = sorted(name for name in names if (HEADERS / name).is_file())
    return "".join(f"#include <{name}>\n" for name in own) + "".join(
        f"#define {key} {value}\n" for key, value in defines
    )


def _place(folder: Path, source: str, name: str) -> Path:
    """Write the source and the project's own headers, mended, as clang shall find them."""
    for own in reversed(project.include_folders):
        for header in own.rglob("*.cuh"):
            copy = folder / "headers" / header.relative_to(own)
            copy.parent.mkdir(parents=True, exist_ok=True)
            mended = parenthesise_bounds(header.read_text(encoding="utf-8"))
            copy.write_text(mended, encoding="utf-8")
    path = folder / "source" / Path(name).name
    path.parent.mkdir()
    path.write_text(parenthesise_bounds(source), encoding="utf-8")
    return path


def _name_variables(expressions: Sequence[str]) -> str:
    """A variable for each name expression that holds the address of what it names."""
    return "".join(
        f"\n__device__ __attribute__((used)) const auto tile_wanted_{i} = &{expression};"
        for i, expression in enumerate(expressions)
    )


# A whole line of PTX, and what the variable points to.
_NAMED = re.compile(r"^[^\n]*tile_wanted_(\d+)[^\n]*= (?:generic\()?(\w+)\)?;\n", re.M)


def _names(ptx: str, expressions: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The PTX without those variables, and the mangled names."""
    mangled = {expressions[int(number)]: name for number, name in _NAMED.findall(ptx)}
    return _NAMED.sub("", ptx), mangled


# -- what clang is asked ---------------------------------------------------------------------------

_KEEP = (
    # Accumulators become registers only once the loops over them are gone, as NVRTC unrolls them.
    *("-mllvm", "-unroll-threshold=3000", "-mllvm", "-inline-threshold=100000"),
    # Which branch loads and stores, for which threads, and how wide, is left to the source.
    *("-mllvm", "-hoist-common-insts=false", "-mllvm", "-sink-common-insts=false"),
    *("-mllvm", "-instcombine-code-sinking=false", "-mllvm", "-disable-machine-sink"),
    # No load is narrowed to what is used of it.
    *("-mllvm", "-disable-vector-combine"),
)


def _common(arch: str, by_ir: bool) -> list[str]:
    number = int(re.sub(r"\D", "", arch) or 0)  # of the architecture; an unknown one clang refuses
    ptx = "ptx78" if number < 90 else "ptx86" if number < 100 else "ptx87"
    return [
        *(*command(), "-cc1", "-triple", "nvptx64-nvidia-cuda", "-target-sdk-version=12.8"),
        *("-aux-triple", "x86_64-unknown-linux-gnu", "-target-cpu", arch),
        *("-target-feature", f"+{ptx}", "-fcuda-is-device", "-O3", "-ffp-contract=fast"),
        # What joins neighbouring values for a target that it does not know makes them too wide.
        *("-vectorize-loops", *(() if by_ir else ("-vectorize-slp",)), *_KEEP),
        *("-debug-info-kind=line-directives-only", "-dwarf-version=2"),
        *("-fno-dwarf-directory-asm", "-o", "-"),
    ]


def _front(folder: Path, options: Sequence[str]) -> list[str]:
    own_options = [o for o in options if o.startswith(("-D", "-U", "-I", "-include"))]
    return [
        *("-std=c++17", "-fcuda-allow-variadic-functions", "-fno-threadsafe-statics"),
        "-Wuninitialized",
        # An endless loop is one, and what malloc returns is not known beforehand.
        *("-fno-finite-loops", "-fno-builtin-malloc", "-fno-builtin-free"),
        # Four floats may be read as a float4, and (&v.x)[1] is v.y: kernels rely on it.
        "-relaxed-aliasing",
        *("-D__CUDACC_VER_MAJOR__=13", "-include", str(HEADERS / "prelude.h")),
        *("-include", str(folder / "macros.h")),
        *("-I", str(HEADERS), "-I", str(folder / "headers")),
        *(f"-I{own}" for own in project.include_folders),
        *own_options,
    ]


@lru_cache(maxsize=256)
def translate(
    source: str, name: str, arch: str, defines: tuple[tuple[str, str], ...] = (),
    options: tuple[str, ...] = (), name_expressions: tuple[str, ...] = (), by_ir: bool = False,
) -> Translated:  # fmt: skip
    """PTX of CUDA C++, with the lines of the source and of the calls that were inlined.

    Parameters as for `toolchain.compile`; of options, those of the preprocessor count. by_ir:
    whether clang ends with LLVM IR (`makes_ir`).

    Raises
    ------
    CompileError: with clang's messages in NVRTC's shape, "name(line): error: ...".
    ToolchainError: where there is no clang, or where LLVM IR has no translation to PTX.
    """
    version()  # says what is wrong with a clang that cannot do it
    with tempfile.TemporaryDirectory(prefix="tile-by-tile-") as temporary:
        folder = Path(temporary).resolve()
        path = _place(folder, source + _name_variables(name_expressions), name)
        common = _common(arch, by_ir)
        (folder / "macros.h").write_text(_macros(source, defines), encoding="utf-8")
        front = [*common, *_front(folder, options), "-emit-llvm", "-disable-llvm-passes"]

        folders = [folder, HEADERS, *project.include_folders]

        def run(arguments: Sequence[str]) -> tuple[str, str]:
            code, out, messages = _run(arguments, folders)
            messages = messages.replace(str(path), name)
            log = _messages(messages.replace(f"{folder / 'headers'}{os.sep}", ""))
            if code:
                raise _refused(log or messages, name, arch)
            return out, log

        ir, log = run([*front, "-x", "cuda", str(path)])
        file = folder / "kernel.ll"
        named = _with_names(_widened(_set_from_outside(_with_clusters(ir)), max))
        file.write_text(named, encoding="utf-8")
        ir, _ = run([*common, "-emit-llvm", "-x", "ir", str(file)])
        ir = _widened(_with_lines(ir, _read_places(named)), min)
        if by_ir:
            from nogpu.ir import ptx

            text = ptx(ir, str(path), arch)
        else:
            file.write_text(ir, encoding="utf-8")
            text, _ = run([*common, "-S", "-disable-llvm-passes", "-x", "ir", str(file)])
        text, names = _names(text, name_expressions)
        text = _inlined(text, str(path)).replace(str(path), name)
    return Translated(text, log, MappingProxyType(names))


# -- what LLVM would lose --------------------------------------------------------------------------


def _set_from_outside(ir: str) -> str:
    """Shared memory said to be set from outside.

    Otherwise LLVM drops what reads a tile that nobody has filled, and with it the finding.
    """
    return ir.replace(
        "internal addrspace(3) global", "internal addrspace(3) externally_initialized global"
    )


_CLUSTER = re.compile(
    r"\{ ptr @([\w.$]+), ptr @([\w.$]+), ptr @[\w.$]+, i32 \d+, ptr @([\w.$]+) \}"
)  # an annotation: the function, the word, its numbers


def _with_clusters(ir: str) -> str:
    """What __cluster_dims__ says, which the headers write as an annotation, as LLVM has it."""
    if 'c"tile_cluster' not in ir:
        return ir
    for kernel, word, numbers in _CLUSTER.findall(ir):
        if not re.search(rf'^@{re.escape(word)} = .* c"tile_cluster.00"', ir, re.M):
            continue
        values = re.search(rf"^@{re.escape(numbers)} = .*? \}} \{{ (.*?) \}}", ir, re.M)
        sizes = [*re.findall(r"i32 (\d+)", values[1] if values else ""), "1", "1"][:3]
        ir = re.sub(
            rf"^(define [^\n]* @{re.escape(kernel)}\([^\n]*?) (!dbg|\{{)",
            rf'\1 "nvvm.cluster_dim"="{",".join(sizes)}" \2',
            ir,
            flags=re.M,
        )
    return ir


_COPY = re.compile(
    r"  (?:tail )?call void @llvm\.memcpy\.\w+\.\w+\.i64\((?P<to>ptr(?: "
    r"addrspace\(\d\))?)(?P<how>[^%]*)"
    r"(?P<target>%[\w.]+), (?P<from>ptr(?: addrspace\(\d\))?)(?P<sort>[^%]*)(?P<origin>%[\w.]+), "
    r"i64 (?P<size>8|16), i1 false\)(?P<debug>, !dbg !\d+)?.*"
)
_LOCAL = re.compile(r"  (%[\w.]+) = (?:alloca |getelementptr [^%]*?, ptr (%[\w.]+)[, ])")


def _widened(ir: str, believe: Callable[[list[int]], int]) -> str:
    """A copy of a float4 or float2 as one access, as the hardware and NVRTC make it.

    Of an object in a declared array, reached through a cast pointer, clang believes the array's
    alignment. What the copy's other side is aligned to says what the type is, and so what was
    promised: as long as nothing is optimised, `believe` the larger of the two (max), and min
    afterwards. Of stores LLVM makes one by itself where it may, and copies from a variable of the
    thread it leaves out: those only get the alignment. (One store alone in a loop it would move,
    and forget its line.)
    """
    local: set[str] = set()
    lines = ir.split("\n")
    for i, line in enumerate(lines):
        if line.startswith("define "):
            local = set()
        elif value := _LOCAL.match(line):
            if value[2] is None or value[2] in local:
                local.add(value[1])
        elif copy := _COPY.fullmatch(line):
            lines[i] = _widened_copy(copy, i, copy["origin"] in local, believe)
    return "\n".join(lines)


def _widened_copy(
    copy: re.Match[str], number: int, from_local: bool, believe: Callable[[list[int]], int]
) -> str:
    size = int(copy["size"])
    alignments = [int(n) for n in re.findall(r"align (\d+) ", copy["how"] + copy["sort"])]
    if len(alignments) < 2 or believe(alignments) < size:
        return copy[0]
    if from_local:
        return re.sub(r"\balign \d+ (?=%)", f"align {size} ", copy[0])
    name, debug, words = f"%tile.copy.{number}", copy["debug"] or "", range(size // 4)
    kind = f"<{size // 4} x i32>"
    instructions = [f"{name} = load {kind}, {copy['from']} {copy['origin']}, align {size}{debug}"]
    for i in words:
        instructions += [
            f"{name}.{i} = extractelement {kind} {name}, i32 {i}{debug}",
            f"{name}.at.{i} = getelementptr inbounds i8, {copy['to']} {copy['target']}, i64 "
            f"{4 * i}{debug}",
            f"store i32 {name}.{i}, {copy['to']} {name}.at.{i}, align {4 if i else size}{debug}",
        ]
    return "\n".join(f"  {line}" for line in instructions)


_NAMELESS = re.compile(r'"[^"]*"|%(\d+)\b|^(\d+):')
_TYPE = re.compile(r"^%\d+ = type", re.M)


def _with_names(ir: str) -> str:
    """Every value that has only a number gets a name, which stays with it when LLVM moves it."""
    if _TYPE.search(ir):  # such a number may be a type's
        return ir
    lines, function = ir.split("\n"), 0

    def name(match: re.Match[str]) -> str:
        if match[1]:
            return f"%tile.{function}.v{match[1]}"
        return f"tile.{function}.v{match[2]}:" if match[2] else match[0]

    inside = False
    for i, line in enumerate(lines):
        if line.startswith("define "):
            inside, function = True, function + 1
        if inside:
            lines[i] = _NAMELESS.sub(name, line)
        inside = inside and line != "}"
    return "\n".join(lines)


_READ = re.compile(
    r"  %(tile\.(?:\d+\.v|copy\.)\d+)\S* = (?:load|(?:tail )?call) .*?(?:, !dbg !(\d+))?$"
)
_PLACE = re.compile(
    r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+), (.*?)scope: !(\d+)(.*)\)$", re.M
)
_DEBUG = re.compile(r", !dbg !(\d+)$")
_FUNCTION = re.compile(
    r"^!(\d+) = distinct !DISubprogram\((name: .*?), scope: .*?, (line: \d+)", re.M
)


@dataclass(frozen=True)
class _Place:
    """Where an instruction stands: its line, its function, and how the location goes on."""

    line: str
    function: str
    scope: str
    rest: str


def _places(ir: str) -> dict[str, _Place]:
    """The locations of a module, by number."""
    functions = {f[1]: f"{f[2]} {f[3]}" for f in _FUNCTION.finditer(ir)}
    return {
        p[1]: _Place(p[2], functions[p[4]], p[4], p[5])
        for p in _PLACE.finditer(ir)
        if p[4] in functions
    }


def _read_places(ir: str) -> dict[str, _Place]:
    """Where each value that is read from memory stands, by its name, before optimisation."""
    places = _places(ir)
    reads = (_READ.match(line) for line in ir.split("\n"))
    return {f[1]: places[f[2]] for f in reads if f and f[2] in places}


def _with_lines(ir: str, places_by_name: dict[str, _Place]) -> str:
    """What LLVM moved out of a loop gets its line back, which it forgets then.

    The line belongs to a function that may be inlined in several places: the nearest instruction of
    the same function says where this one is.
    """
    places, lines, new_places = _places(ir), ir.split("\n"), list[str]()
    free = 1 + max((int(n) for n in re.findall(r"^!(\d+) = ", ir, re.M)), default=0)
    at = [places.get(match[1]) if (match := _DEBUG.search(line)) else None for line in lines]
    begin = 0
    for i, line in enumerate(lines):
        if line.startswith("define "):
            begin = i
        read, here = _READ.match(line), at[i]
        if not read or read[1] not in places_by_name or (here and here.line != "0"):
            continue
        place = places_by_name[read[1]]
        near = sorted(range(begin, lines.index("}", i)), key=lambda j: abs(j - i))
        same_function = next(
            (p for j in near if (p := at[j]) and p.function == place.function), None
        )
        if same_function:
            number = free + len(new_places)
            new_places.append(
                f"!{number} = !DILocation(line: {place.line}, scope: "
                f"!{same_function.scope}{same_function.rest})"
            )
            lines[i] = f"{_DEBUG.sub('', line)}, !dbg !{number}"
    return "\n".join([*lines, *new_places, ""])


_CHAIN = re.compile(r"@\[ ([^\[\]]+?):(\d+):(\d+)")
_LOC = re.compile(r"^(\t\.loc\t\d+ \d+ \d+)\s*// (.*@\[.*)$", re.M)
_FILE = re.compile(r'^\t\.file\t(\d+) "((?:[^"\\]|\\.)*)"', re.M)


def _inlined(text: str, main: str) -> str:
    """Put the inlining that LLVM writes as comments (`@[ file:line:col ]`) into the .loc
    directives.

    Of the calls, the innermost that stands in the source itself is named.
    """

    def own(file: str) -> bool:
        return file == main or main.endswith("/" + file)

    number = next((int(n) for n, file in _FILE.findall(text) if own(file)), 0)

    def add(match: re.Match[str]) -> str:
        calls = [call for call in _CHAIN.findall(match[2]) if own(call[0])]
        if not calls:
            return match[0]
        _, line, column = calls[0]
        return f"{match[1]}, function_name $L, inlined_at {number} {line} {column}"

    return _LOC.sub(add, text)


# -- what clang says -------------------------------------------------------------------------------

_MESSAGE = re.compile(r"^(.+?):(\d+):\d+: (fatal error|error|warning|note): (.*)$")


def _messages(output: str) -> str:
    """clang's messages as NVRTC sets its own: "file(line): error: ...", a blank line between two.

    Notes stay with what they explain; those on the headers of this project are left out.
    """
    blocks: list[list[str]] = []
    shown = False
    for line in output.splitlines():
        if match := _MESSAGE.match(line):
            file, number, kind, text = match.groups()
            shown = not (kind == "note" and file.startswith(str(HEADERS)))
            if shown and (kind != "note" or not blocks):
                blocks.append([])
            kind = "error" if kind == "fatal error" else kind
            file = file.removeprefix(f"{HEADERS}{os.sep}")
            line = f"{file}({number}): {kind}: {text}"
        elif re.match(r"(?:fatal )?error: ", line):  # as that of an unknown architecture
            shown = True
            blocks.append([])
        elif re.match(r"In file included from|\d+ (?:error|warning)s? ", line):
            shown = False
        if shown and blocks:
            blocks[-1].append(line.rstrip())
    return "\n\n".join("\n".join(block) for block in blocks)


def _refused(log: str, name: str, arch: str) -> CompileError:
    hint = _hint(log)
    lead = f"{name} does not compile for {arch} ({version()}). {hint}{' ' if hint else ''}"
    return CompileError(f"{lead}The compiler says:\n{log}", log, name, hint)


STANDARD_LIBRARY = re.compile(
    r"c?(?:assert|float|limits|math|std(?:arg|def|int|io|lib)|string|time)(?:\.h)?|algorithm|array"
    r"|functional|iostream|limits|memory|numeric|string|tuple|type_traits|utility|vector"
)
_OWN_NAME = re.compile(
    r"(?:undeclared identifier|unknown type name|no member named|no matching function for call to"
    r"|undeclared function|unknown template name|no template named) '((?:__|atomic|h2|nvcuda|wmma"
    r"|cuda"
    r"|make_|tex|surf|cg)\w*|cooperative_groups)'"
)


def _hint(log: str) -> str:
    """One sentence on what these headers lack and CUDA's have, or nothing."""
    if missing := re.search(r"error: '([^']+)' file not found", log):
        header = missing[1]
        if STANDARD_LIBRARY.fullmatch(header):
            return (
                f"There is no C++ standard library for kernels, so no <{header}>: leave it out "
                "(printf, assert and the functions of mathematics need no header)"
            )
        own_headers = ", ".join(sorted(f"<{p.name}>" for p in HEADERS.glob("cuda_*.h")))
        return (
            f"{version()} compiles here with this book's own headers ({own_headers}, <mma.h>), and "
            f"{header} is none of them: compile this source with NVRTC (Linux, WSL or Colab)"
        )
    if unknown := _OWN_NAME.search(log):
        return (
            f"{version()} compiles here with this book's own headers, which may lack what CUDA's "
            f"hold: if {unknown[1]} is CUDA's, compile this source with NVRTC (Linux, WSL or Colab)"
        )
    return ""
