"""NVRTC without a GPU: CUDA source to PTX, cubin, registers, spills, shared memory and SASS."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType

from nogpu import clang, compiled, device, disk, project
from nogpu.errors import CompileError, ConfigError, ToolchainError, UnknownNameError, near_matches
from nogpu.text import PRELUDE, headers

INSTALL_HINT = (
    "Install the compiler's wheels: pip install cuda-pathfinder nvidia-cuda-nvrtc "
    "nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl (they need no GPU; there are none for "
    "macOS), a CUDA toolkit with CUDA_HOME set, or clang, which makes what the emulator runs: "
    'pip install "ziglang>=0.16,<0.18".'
)
_HEADERS = (
    ("cuda/std/type_traits", r"(?:cuda|cub|thrust|nv)/\S+", "nvidia-cuda-cccl", "-cccl-cu12"),
    ("crt/mma.h", r"crt/\S+", "nvidia-cuda-crt", "-nvcc-cu12"),
    ("cuda_fp16.h", r"mma\.h|cuComplex\.h|(?:cuda_|cooperative_groups)\S*",
     "nvidia-cuda-runtime", "-runtime-cu12"),
)  # fmt: skip
"""A header, the names of those that come with it, and the wheels of CUDA 13 and 12 that bring them.
"""

_LIBRARIES = re.compile(
    r"cu(?:rand|blas|fft|sparse|solver|dnn|tlass|te(?=/)|tensor)|nccl|nvshmem|nvToolsExt|npp|optix"
)


@dataclass(frozen=True)
class KernelResources:
    """What ptxas reports for one kernel: registers a thread, bytes for the rest."""

    name: str
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared_bytes: int


@dataclass(frozen=True)
class Compiled:
    """The result of one compilation for one architecture."""

    arch: str
    ptx: str
    cubin: bytes = field(repr=False)
    log: str = field(repr=False)
    kernels: Mapping[str, KernelResources]
    name_map: Mapping[str, str]
    compiler: str = ""
    assembler: str = ""


class Unassembled(dict[str, KernelResources]):
    """The reports of a compiler that makes no machine code."""

    def __missing__(self, name: str) -> KernelResources:
        raise ToolchainError(
            f"registers and spills of {name} are not known here: {clang.NO_MACHINE_CODE}. Stored "
            "are those of the catalog's kernels as they are, and of what the pages compile"
        )


@dataclass(frozen=True)
class Nvrtc:
    """The loaded compiler library, its version and CUDA's own include folders.

    release: names the library and the headers to the build: their files' sizes and times. path: the
    library's file. why: in words, why this one, where the GPU's driver had a say.
    """

    library: ctypes.CDLL
    version: tuple[int, int]
    includes: tuple[str, ...]
    release: str
    path: str = ""
    why: str = ""


OLDEST_MAJOR = 12
"""The oldest CUDA whose NVRTC compiles the book's kernels."""


def _candidates() -> list[Path]:
    """Folders that may hold NVRTC: those of the wheels, of conda, of toolkits."""
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    wheels = [Path(p) / "nvidia" for p in sys.path if p]
    folders = [w / "cu13" / "lib" for w in wheels] + [w / "cuda_nvrtc" / "lib" for w in wheels]
    if conda := os.environ.get("CONDA_PREFIX"):
        folders.append(Path(conda) / "lib")
    folders += [Path(r) / "lib64" for r in roots if r]
    return [f for f in folders if f.is_dir()]


def installed_nvrtc() -> dict[int, Path]:
    """The first NVRTC in the usual folders of each CUDA major version, the newest first."""
    newest: dict[int, Path] = {}
    for folder in _candidates():
        for path in sorted(folder.glob("libnvrtc.so.*")):
            major = path.name.removeprefix("libnvrtc.so.").split(".")[0]
            if major.isdecimal():
                newest.setdefault(int(major), path)
    return dict(sorted(newest.items(), reverse=True))


def _accepted(driver: tuple[int, int]) -> tuple[ctypes.CDLL, Path, str] | None:
    """The newest NVRTC whose machine code a driver for this CUDA takes, and why it was chosen.

    A driver takes machine code of its own CUDA major version and of older ones. Source: CUDA
    Compatibility, minor version compatibility.
    """
    installed = installed_nvrtc()
    for major, path in installed.items():
        if major > driver[0]:
            continue
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        passed = [str(other) for other in installed if other > driver[0]]
        why = f"the newest that a driver for CUDA {driver[0]}.{driver[1]} takes"
        if passed:
            why += f"; CUDA {', '.join(passed)}'s is installed, too, and is passed over"
        return library, path, why
    return None


def _open_nvrtc() -> tuple[ctypes.CDLL, Path, str]:
    driver = device.driver_cuda()
    if driver and (chosen := _accepted(driver)):
        return chosen
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        path = Path(load_nvidia_dynamic_lib("nvrtc").abs_path)
        return ctypes.CDLL(str(path)), path, ""
    except Exception:  # not installed, or nothing found: each version raises its own type
        pass
    for path in installed_nvrtc().values():
        try:
            return ctypes.CDLL(str(path)), path, ""
        except OSError:
            continue
    raise ToolchainError(f"no NVRTC library was found on this machine. {INSTALL_HINT}")


def _include_folders(library: Path, major: int) -> tuple[str, ...]:
    """CUDA's headers beside this NVRTC (crt/mma.h included), in search order: its own major's."""
    root = library.resolve().parent.parent
    wheels = [Path(p) / "nvidia" for p in sys.path if p]
    guesses = [root / "include", root.parent / "include"]
    if major > OLDEST_MAJOR:
        guesses += [w / f"cu{major}" / "include" for w in wheels]
        cccl = []
    else:  # wheels of CUDA 12 have a folder each
        guesses += [w / part / "include" for w in wheels for part in ("cuda_runtime", "cuda_nvcc")]
        cccl = [w / "cuda_cccl" / "include" for w in wheels]
    guesses += [Path(r) / "include" for r in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if r]
    cccl += [guess / "cccl" for guess in guesses]
    marks = ("cuda_fp16.h", "crt/mma.h", "cuda/std/type_traits")
    folders = [g for g in (*guesses, *cccl) if any((g / mark).is_file() for mark in marks)]
    return tuple(dict.fromkeys(str(g) for g in folders))


@cache
def nvrtc() -> Nvrtc:
    """Load NVRTC once. Raises ToolchainError with the wheels to install where there is none.

    Where several are installed and there is a driver, it is the newest that the driver takes.
    """
    library, path, why = _open_nvrtc()
    for builtins in path.parent.glob("libnvrtc-builtins.so*"):
        try:  # NVRTC opens this by name alone; once loaded from its full path it is found
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            break
        except OSError:
            continue
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    version = (major.value, minor.value)
    includes = _include_folders(path, version[0])
    return Nvrtc(library, version, includes, _release(path, version, includes), str(path), why)


_MARKS = (
    "cuda_fp16.h", "cuda_runtime_api.h", "cuda.h", "crt/mma.h", "nvrtc.h", "cuda/std/type_traits",
    "cuda/std/__cccl/version.h", "cub/version.cuh", "cooperative_groups.h",
)  # fmt: skip
"""Files that are written anew with every release of CUDA's headers."""


def _release(library: Path, version: tuple[int, int], includes: Sequence[str]) -> str:
    """What tells this build of the compiler and of its headers from another."""
    files = [library.resolve(), *library.resolve().parent.glob("libnvrtc-builtins.so*")]
    files += [Path(folder, mark) for folder in includes for mark in _MARKS]
    present = [(str(f), f.stat()) for f in sorted(files) if f.is_file()]
    return repr((version, [(name, facts.st_size, facts.st_mtime_ns) for name, facts in present]))


def has_nvrtc() -> bool:
    """Whether NVRTC can be loaded on this machine."""
    try:
        nvrtc()
    except ToolchainError:
        return False
    return True


def uses_clang() -> bool:
    """Whether clang compiles: TILE_COMPILER says so, or there is a clang and no NVRTC.

    Raises ConfigError for another TILE_COMPILER than "nvrtc" or "clang".
    """
    chosen = os.environ.get("TILE_COMPILER", "")
    if chosen not in ("", "nvrtc", "clang"):
        raise ConfigError(f'TILE_COMPILER={chosen!r} is no compiler; choose "nvrtc" or "clang"')
    return chosen == "clang" or (not chosen and not has_nvrtc() and clang.available())


def available() -> bool:
    """Whether this machine can compile CUDA source."""
    return clang.available() if uses_clang() else has_nvrtc()


def stored() -> bool:
    """Whether nothing compiles here and the stored programs of the book's pages take the compiler's
    place."""
    return not available() and bool(compiled.compiler())


def compiler() -> str:
    """What compiles here, such as "NVRTC 13.0" or "clang 22.1.8 of zig 0.17.1", or "NVRTC 13.0
    (stored)"."""
    if _PRECOMPILED:
        return next(iter(_PRECOMPILED.values())).compiler
    if uses_clang():
        return clang.version()
    if stored():
        return f"{compiled.compiler()} (stored)"
    return "NVRTC {}.{}".format(*nvrtc().version)


def _text(lib: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    if getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)):
        return b""
    buffer = ctypes.create_string_buffer(size.value)
    if getattr(lib, f"nvrtcGet{what}")(program, buffer):
        return b""
    return buffer.raw


_ENTRY = re.compile(r"Compiling entry function '(\S+)'")
_USED = re.compile(r"Used (\d+) registers")
_SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_SMEM = re.compile(r"(\d+) bytes smem")


def _kernel_resources(log: str) -> dict[str, KernelResources]:
    """Parse the report of `--ptxas-options=-v` in a program log."""
    reports: dict[str, KernelResources] = {}
    name, stack = "", (0, 0, 0)
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            name, stack = entry[1], (0, 0, 0)
        elif spill := _SPILL.search(line):
            stack = (int(spill[1]), int(spill[2]), int(spill[3]))
        elif name and (used := _USED.search(line)):
            smem = _SMEM.search(line)
            reports[name] = KernelResources(
                name, int(used[1]), stack[1], stack[2], stack[0], int(smem[1]) if smem else 0
            )
            name = ""
    return reports


def _header_hint(log: str, tool: Nvrtc) -> str:
    """One line on a header that the compiler does not find or cannot read, or nothing."""
    missing = re.search(r'c(?:annot|ould not) open source file "([^"]+)"', log)
    for mark, pattern, *wheels in _HEADERS:
        here = any((Path(folder) / mark).is_file() for folder in tool.includes)
        if missing and not here and re.fullmatch(pattern, missing[1]):
            wheel = wheels[0] if tool.version[0] >= 13 else f"nvidia-cuda{wheels[1]}"
            version = "{}.{}".format(*tool.version)
            return (
                f"The header {missing[1]} is CUDA's own and is not installed: pip install "
                f'"{wheel}=={version}.*"\n'
            )
    if re.search(r"/(?:thrust/(?:system|detail)|cub/device)/", log):
        return (
            "NVRTC compiles no host code, which <cub/cub.cuh> and most of Thrust hold: include "
            "what the kernel uses alone, such as <cub/block/block_reduce.cuh>\n"
        )
    if missing and clang.STANDARD_LIBRARY.fullmatch(missing[1]):
        return (
            f"NVRTC has no C++ standard library, so no <{missing[1]}>: leave it out (printf, "
            "assert and the functions of mathematics need no header), or include <cuda/std/...>\n"
        )
    if missing and (library := _LIBRARIES.match(missing[1])):
        return (
            f"{missing[1]} is of {library[0]}, which is not part of nogpu (<cuda_fp16.h>, <mma.h>, "
            "<cooperative_groups.h>, <cuda/...> and <cub/block/...> are): write what the kernel "
            "needs of it into the file, or give it as an argument\n"
        )
    return ""


def prelude() -> tuple[str, ...]:
    """The options that give a program the names which nvcc's headers for the host bring along."""
    return (f"-include{PRELUDE}",) if uses_clang() else (f"--pre-include={PRELUDE}",)


def compile(
    source: str, *, name: str = "kernel.cu", arch: str = "sm_75",
    defines: Mapping[str, str] | None = None, options: Sequence[str] = (),
    name_expressions: Sequence[str] = (),
) -> Compiled:  # fmt: skip
    """Compile CUDA C++ for one architecture, with no GPU.

    Headers of the project's include folders and CUDA's own can be included.

    Parameters
    ----------
    name: what the messages and the PTX call the source.
    arch: such as "sm_75" or "sm_90a".
    defines: macros, as by -D.
    options: further ones of NVRTC.
    name_expressions: template instances such as "tile<8>"; `name_map` has their mangled names.

    Raises
    ------
    CompileError: with the compiler's log (file and line).
    ToolchainError: where there is no compiler.
    """
    macros = tuple(sorted((defines or {}).items()))
    if (precompiled := _PRECOMPILED.get((source, arch, macros))) is not None:
        return precompiled
    request = (source, name, arch, macros, tuple(options), tuple(name_expressions))
    by_clang = uses_clang()
    if not by_clang and has_nvrtc():
        built = _compile(*request, header_state(source))
        row = None if has_tool("nvdisasm") else compiled.find(source, arch, macros, tuple(options))
        if row:
            _STORED[built.cubin] = row.cubin
        return built
    if by_clang:
        translated = clang.translate(*request, by_ir=clang.makes_ir())
        text, log, names = translated.ptx, translated.log, dict(translated.name_map)
    else:
        text, log, stored_names = _program_before(*request)
        names = dict(stored_names)
    reports, cubin, assembler = _assembled_before(source, arch, macros, tuple(options))
    return Compiled(arch, text, cubin, log, reports, names, compiler(), assembler)


@contextmanager
def use_compiled(source: str, result: Compiled) -> Iterator[None]:
    """Within the block, take what another process has compiled for what this source compiles to."""
    key = (source, result.arch, ())
    _PRECOMPILED[key] = result
    try:
        yield
    finally:
        del _PRECOMPILED[key]


_PRECOMPILED: dict[tuple[str, str, tuple[tuple[str, str], ...]], Compiled] = {}
_STORED: dict[bytes, bytes] = {}
"""Where there is no nvdisasm: machine code made here, and what stands for it in the stored table.
"""


def not_stored(name: str) -> str:
    """What to say of a source that neither a compiler nor the stored programs know."""
    return (
        f"{name} cannot be compiled here: there is no compiler, and stored is what the book's "
        f"pages compile, as they stand. {INSTALL_HINT}"
    )


def _program_before(
    source: str, name: str, arch: str, macros: tuple[tuple[str, str], ...],
    options: tuple[str, ...], expressions: tuple[str, ...],
) -> tuple[str, str, Mapping[str, str]]:  # fmt: skip
    """PTX, log and names of a source that NVRTC compiled elsewhere.

    Raises what it raised, or ToolchainError.
    """
    if not compiled.compiler():
        nvrtc()  # raises ToolchainError with what to install
    before = compiled.program(source, name, arch, macros, options, expressions)
    if before is None:
        if compiled.find(source, arch, macros, options) is not None:
            return "", "", {}  # its registers are known, and nobody runs it
        raise ToolchainError(not_stored(name))
    if before.refused:
        message, log, hint = before.refused
        raise CompileError(message, log, name, hint)
    return before.ptx, before.log, before.names


def _assembled_before(
    source: str, arch: str, macros: tuple[tuple[str, str], ...], options: tuple[str, ...]
) -> tuple[Mapping[str, KernelResources], bytes, str]:
    """What NVRTC said of this source elsewhere: reports, what stands for the cubin, its version."""
    reports = Unassembled()
    row = compiled.find(source, arch, macros, options)
    if row is None:
        return reports, b"", ""
    reports.update({name: KernelResources(name, *numbers) for name, numbers in row.kernels.items()})
    cubin = b"" if row.sass is None else row.cubin
    return reports, cubin, f"{compiled.compiler()} (stored)"


def header_state(source: str) -> tuple[tuple[str, int, int], ...]:
    """Which headers of the project a source includes, as they stand now: path, time and size of
    each.

    Part of the key under which a compiled source is kept, so that an edited header is seen.
    """
    folders = tuple(project.include_folders)
    states = _states(folders, source)
    for path, when, size in states:
        try:
            now = os.stat(path)
        except FileNotFoundError:
            now = None
        if now is None or (now.st_mtime_ns, now.st_size) != (when, size):
            _states.cache_clear()
            return _states(folders, source)
    return states


@lru_cache(maxsize=128)
def _states(folders: tuple[Path, ...], source: str) -> tuple[tuple[str, int, int], ...]:
    """`header_state` of headers in these folders as first asked for: while no file changes, no name
    does."""
    states = [(path, path.stat()) for path in headers(source)]
    return tuple(sorted((str(path), s.st_mtime_ns, s.st_size) for path, s in states))


@disk.bounded(1 << 27, lambda c: len(c.ptx) + len(c.cubin) + len(c.log))
def _compile(
    source: str, name: str, arch: str, defines: tuple[tuple[str, str], ...],
    options: tuple[str, ...], name_expressions: tuple[str, ...],
    included: tuple[tuple[str, int, int], ...],
) -> Compiled:  # fmt: skip
    request = (source, name, arch, defines, options, name_expressions)
    identity, run = _identity(*request), _ELSEWHERE[-1] if _ELSEWHERE else run_nvrtc
    if identity:
        result = disk.load_or_make("compiled", identity, lambda: run(*request))
    else:
        result = run(*request)
    ptx_text, cubin, log, kernels, names = result
    return Compiled(
        arch, ptx_text, cubin, log, MappingProxyType(kernels), MappingProxyType(names),
        compiler(), compiler(),
    )  # fmt: skip


ALONE = "--no-source-include"
"""An option of NVRTC: the working directory is not searched for headers; and here, the project's
folders are not either. Nor is the folder of the header that includes another, which CUDA's
crt/mma.h counts on: its folder is named, and last."""

NvrtcOutput = tuple[str, bytes, str, dict[str, KernelResources], dict[str, str]]
"""PTX, cubin, log, resources by kernel, names by name expression."""


@contextmanager
def compiling_by(run: Callable[..., NvrtcOutput]) -> Iterator[None]:
    """Within the block, a function takes the place of `run_nvrtc`, as one that has another process
    call it.
    """
    _ELSEWHERE.append(run)
    try:
        yield
    finally:
        _ELSEWHERE.pop()


_ELSEWHERE: list[Callable[..., NvrtcOutput]] = []


def run_nvrtc(
    source: str, name: str, arch: str, defines: tuple[tuple[str, str], ...],
    options: tuple[str, ...], name_expressions: tuple[str, ...],
) -> NvrtcOutput:  # fmt: skip
    """Have NVRTC compile, in this process. Raises CompileError."""
    if name_expressions:
        # NVRTC ends the process on an instance of a template whose first parameter has an undefined
        # type, so what does not compile by itself is refused before instances are asked for.
        _compile(source, name, arch, defines, options, (), header_state(source))
    tool = nvrtc()
    lib, program = tool.library, ctypes.c_void_p()
    arguments = [
        f"-arch={arch}",
        "-std=c++17",
        "-lineinfo",
        "--ptxas-options=-v",
        "-default-device",
        *([] if ALONE in options else [f"-I{own}" for own in project.include_folders]),
        *(f"-I{folder}" for folder in tool.includes),
        *([f"-I{folder}/crt" for folder in tool.includes] if ALONE in options else []),
        *(f"-D{key}={value}" for key, value in defines),
        *options,
    ]
    lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
    try:
        for expression in name_expressions:
            lib.nvrtcAddNameExpression(program, expression.encode())
        for extra in ([], ["-no-cache"]):
            encoded = [a.encode() for a in (*arguments, *extra)]
            status = lib.nvrtcCompileProgram(
                program, len(encoded), (ctypes.c_char_p * len(encoded))(*encoded)
            )
            log = _text(lib, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if status or "Used " in log:
                break  # a result from NVRTC's own cache comes without the report of resources
        if status:
            reason = lib.nvrtcGetErrorString(status).decode()
            detail = log.strip() or f"NVRTC {tool.version[0]}.{tool.version[1]}: {reason}"
            hint = _header_hint(log, tool)
            raise CompileError(
                f"{name} does not compile for {arch} ({reason}). {hint}The compiler "
                f"says:\n{detail}",
                log=log,
                source_name=name,
                hint=hint.strip(),
            )
        names: dict[str, str] = {}
        for expression in name_expressions:
            lowered = ctypes.c_char_p()
            lib.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(lowered))
            names[expression] = (lowered.value or b"").decode()
        ptx_text = _text(lib, program, "PTX").rstrip(b"\0").decode()
        cubin = _text(lib, program, "CUBIN")
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))
    return ptx_text, cubin, log, _kernel_resources(log), names


_CODE = disk.code_of(Path(__file__))  # as it was loaded


def _identity(
    source: str, name: str, arch: str, defines: tuple[tuple[str, str], ...],
    options: tuple[str, ...], name_expressions: tuple[str, ...],
) -> str:  # fmt: skip
    """A name for all that decides a compilation; "" if something might that cannot be named."""
    tool = nvrtc()
    own = [str(folder) for folder in project.include_folders]
    folders = [str(Path(name).parent), *own]
    own_prelude = prelude()
    for option in options:
        if option in own_prelude:
            continue  # its text is part of the name
        if option.startswith("-I"):
            folders.append(option[2:])
        elif "/" in option or "include" in option or option in ("-", "-I"):
            return ""  # it may name a file
    headers = disk.headers(source, folders)
    if headers is None:
        return ""
    listed = (
        *(repr(pair) for pair in defines), "", *options, "", *name_expressions, "",
        *(text for pair in headers.items() for text in pair),
        *(PRELUDE.read_text(encoding="utf-8") for option in options if option in own_prelude),
    )  # fmt: skip
    return disk.digest([_CODE, tool.release, *tool.includes, *own, source, name, arch, *listed])


def ptx(
    source: str, *, name: str = "kernel.cu", arch: str = "sm_75",
    defines: Mapping[str, str] | None = None, name_expressions: Sequence[str] = (),
) -> str:  # fmt: skip
    """PTX of CUDA source, with line information. Errors as for `compile`."""
    return compile(
        source, name=name, arch=arch, defines=defines, name_expressions=name_expressions
    ).ptx


def arch_number(arch: str) -> int:
    """75 for "sm_75", 90 for "sm_90a". Raises ConfigError for anything else."""
    match = re.fullmatch(r"(?:sm|compute)_(\d+)[af]?", arch)
    if not match:
        raise ConfigError(f"{arch=} is not an architecture such as 'sm_75' or 'sm_90a'")
    return int(match[1])


def runs(arch: str, needed: str) -> bool:
    """Whether a GPU of an architecture can run what needs one: code for sm_90a runs on nothing but
    sm_90.

    Raises ConfigError for what names no architecture.
    """
    here, least = arch_number(arch), arch_number(needed)
    return here == least if needed.endswith("a") else here >= least


def words_for(needed: str) -> str:
    """What a kernel asks of a GPU, in words: "sm_80 or later", "sm_90a and nothing later"."""
    return f"{needed} and nothing later" if needed.endswith("a") else f"{needed} or later"


# -- SASS ----------------------------------------------------------------------------------------


_TOOL_PATHS: dict[tuple[str, tuple[str, ...], str | None], str] = {}
"""Where a program was found on these paths: every launch asks for one."""


def _find_tool(name: str) -> str | None:
    places = (name, tuple(sys.path), os.environ.get("PATH"))
    if places not in _TOOL_PATHS:
        guesses = [Path(p) / "nvidia" / "cu13" / "bin" / name for p in sys.path if p]
        path = next((str(guess) for guess in guesses if guess.is_file()), None)
        path = path or shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")
        if path is None:
            return None  # it may be installed while this process runs
        _TOOL_PATHS[places] = path
    return _TOOL_PATHS[places]


def has_tool(name: str) -> bool:
    """Whether a program of the CUDA toolkit, such as "nvdisasm", is on this machine."""
    return _find_tool(name) is not None


def _tool(name: str) -> str:
    path = _find_tool(name)
    if not path:
        raise ToolchainError(
            f"{name} was not found. Install it with: pip install nvidia-cuda-{name} (CUDA 13), or "
            "put a CUDA toolkit's bin folder on the PATH. What it says of the code that the pages "
            "look at is stored; this is other code."
        )
    return path


@lru_cache(maxsize=64)
def sass(cubin: bytes, lines: bool = False) -> str:
    """Disassembly of a cubin, with comments about source lines if asked.

    Where there is no nvdisasm, the stored one of the book's sources. Raises ToolchainError where
    that is missing, too, or nvdisasm refuses the cubin.
    """
    if stored_text := compiled.sass(_STORED.get(cubin, cubin)):
        return stored_text
    if not cubin:
        raise ToolchainError(
            f"there is no machine code of this source here: {clang.NO_MACHINE_CODE}. "
            "Stored is that of the catalog's kernels as they are, and of what the pages compile"
        )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        line = [_tool("nvdisasm"), "-c", "-hex", *(["-gi"] if lines else []), file.name]
        process = subprocess.run(line, capture_output=True, text=True, check=False)
    if process.returncode:
        raise ToolchainError(f"nvdisasm refused the cubin: {process.stderr.strip()}")
    return process.stdout


@dataclass(frozen=True)
class SassInstruction:
    """One machine instruction: its byte address, opcode with modifiers, operands, the predicate
    that guards it, such as "!P0" (empty where it always runs), and its source line (0 where nobody
    asked)."""

    address: int
    opcode: str
    operands: str
    guard: str = ""
    line: int = 0


_INSTRUCTION = re.compile(
    r"/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);"
)
_LABEL = re.compile(r"^(\.L_\w+):")
_SECTION = re.compile(r"^\.text\.(\S+):")
_PLACE = re.compile(r'^//## File "([^"]*)", line (\d+)( inlined at)?')


def sass_instructions(
    cubin: bytes, entry: str, file: str = ""
) -> tuple[tuple[SassInstruction, ...], dict[str, int]]:
    """Instructions of one kernel in address order, and its labels by address.

    file: the name given to `compile`: with it each instruction knows its line there. Code inlined
    from another file has the line that called it.
    """
    instructions: list[SassInstruction] = []
    labels: dict[str, int] = {}
    waiting: list[str] = []
    inside, sections = False, []
    at_line, open_chain = 0, False
    for line in (sass(cubin, True) if file else sass(cubin)).splitlines():
        if place := _PLACE.match(line.strip()):  # innermost first, each but the last inlined
            if not open_chain:
                at_line = 0
            if not at_line and Path(place[1]).name == Path(file).name:
                at_line = int(place[2])
            open_chain = bool(place[3])
            continue
        if section := _SECTION.match(line.strip()):
            inside = section[1] == entry
            sections.append(section[1])
        if not inside:
            continue
        if label := _LABEL.match(line.strip()):
            waiting.append(label[1])
        if match := _INSTRUCTION.search(line):
            at = int(match[1], 16)
            labels.update(dict.fromkeys(waiting, at))
            waiting.clear()
            instructions.append(
                SassInstruction(at, match[3], match[4].strip(), match[2] or "", at_line)
            )
    if not instructions:
        raise UnknownNameError(
            f"the cubin has no kernel {entry!r}. {near_matches(entry, sections)}"
        )
    return tuple(instructions), labels


MATH = ("FFMA", "HMMA", "HGMMA", "IMMA", "DFMA")
"""Multiply-adds that say where the work is; HFMA2 and IMAD also move constants and addresses."""


def main_loop(
    instructions: Sequence[SassInstruction], labels: Mapping[str, int]
) -> tuple[SassInstruction, ...]:
    """The loop in which whole tiles are multiplied: what a kernel does nearly all the time.

    Of the innermost loops that multiply, those count that hold at least half as many multiply-adds
    as the fullest: shorter ones finish what unrolling left over. Among them it is the one with the
    largest share of multiply-adds. A kernel with a loop for whole, aligned tiles and one for ragged
    tiles spends more instructions on each multiply-add in the second, which may be unrolled
    further. Where no floating-point instruction multiplies, IMAD counts; where no loop does, the
    whole kernel is returned.
    """
    multiply = {i for i, each in enumerate(instructions) if each.opcode.split(".")[0] in MATH}
    if not multiply:  # an IMAD that moves or scales carries a modifier
        multiply = {i for i, each in enumerate(instructions) if each.opcode == "IMAD"}
    full = [body for body in _loops(instructions, labels).values() if body & multiply]
    innermost = [body for body in full if not any(other < body for other in full)]
    most = max((len(body & multiply) for body in innermost), default=0)
    enough = (body for body in innermost if 2 * len(body & multiply) >= most)
    everything = set(range(len(instructions)))
    best = max(enough, key=lambda body: len(body & multiply) / len(body), default=everything)
    return tuple(instructions[i] for i in sorted(best))


def _loops(
    instructions: Sequence[SassInstruction], labels: Mapping[str, int]
) -> dict[int, set[int]]:
    """The natural loops of a kernel: the number of the first instruction of each, and its body.

    A jump back is one to an instruction that every way to the jump leads through (it dominates the
    jump); the body is what reaches the jump without passing there. So code that the compiler puts
    out of line belongs to its loop, and a loop that merely stands between does not.
    """
    after = _successors(instructions, labels)
    before: dict[int, set[int]] = {}
    for i, targets in after.items():
        for target in targets:
            before.setdefault(target, set()).add(i)
    # The start of each basic block stands for the block: inside one, order is dominance.
    starts = sorted(
        {0} | {t for i, ts in after.items() for t in ts if t != i + 1 or len(before[t]) > 1}
        | {t for ts in after.values() if len(ts) > 1 for t in ts}
    )  # fmt: skip
    block_of, blocks = {}, dict.fromkeys(starts, 0)
    for start, end in zip(starts, [*starts[1:], len(instructions)], strict=True):
        last = next((i for i in range(start, end) if after[i] != (i + 1,)), end - 1)
        blocks[start] = last
        block_of.update(dict.fromkeys(range(start, last + 1), start))
    entered = {
        start: {block_of[i] for i in before.get(start, ()) if i in block_of} for start in starts
    }
    over = _dominators(starts, entered)
    loops: dict[int, set[int]] = {}
    for head in starts:
        for tail in entered[head]:
            if head not in over[tail]:
                continue
            body, todo = {head}, [tail]
            while todo:
                start = todo.pop()
                if start not in body:
                    body.add(start)
                    todo += entered[start]
            loops.setdefault(head, set()).update(
                i for start in body for i in range(start, blocks[start] + 1)
            )
    return loops


def _successors(
    instructions: Sequence[SassInstruction], labels: Mapping[str, int]
) -> dict[int, tuple[int, ...]]:
    """The instructions that may run after each, by number: the next one, the target of a branch.

    BSYNC goes on where a BSSY of the same barrier register says: registers are used again, so at
    the next such place. Calls return. A jump through a register leads nowhere that is known.
    """
    number = {instruction.address: i for i, instruction in enumerate(instructions)}
    meeting: dict[str, set[int]] = {}
    goal: dict[int, int] = {}
    for i, instruction in enumerate(instructions):
        target = re.search(r"`\((\.L_\w+)\)", instruction.operands)
        if target and labels.get(target[1]) in number:
            goal[i] = number[labels[target[1]]]
            if instruction.opcode.split(".")[0] == "BSSY":
                meeting.setdefault(instruction.operands.split(",")[0], set()).add(goal[i])
    after = {}
    for i, instruction in enumerate(instructions):
        kind, operands = instruction.opcode.split(".")[0], instruction.operands
        goes_on = {i + 1} if i + 1 < len(instructions) else set()
        if kind == "BRA" and i in goal:
            always = not instruction.guard and operands.startswith("`")
            goes_on = {goal[i]} if always else goes_on | {goal[i]}
        elif kind == "BSYNC" and (later := [m for m in meeting.get(operands, ()) if m > i]):
            goes_on = {min(later)} | (goes_on if instruction.guard else set())
        elif kind in ("EXIT", "RET", "BRX", "JMX", "BRXU", "JMXU") and not instruction.guard:
            goes_on = set()
        after[i] = tuple(sorted(goes_on))
    return after


def _dominators(starts: Sequence[int], entered: Mapping[int, set[int]]) -> dict[int, set[int]]:
    """Of each basic block those that every way from the first block to it leads through."""
    over = {start: set(starts) for start in starts}
    over[starts[0]] = {starts[0]}
    changed = True
    while changed:
        changed = False
        for start in starts[1:]:
            ways = [over[b] for b in entered[start]]
            new = {start} | (set.intersection(*ways) if ways else set())
            if new != over[start]:
                over[start] = new
                changed = True
    return over
