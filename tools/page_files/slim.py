"""This project in one archive, as far as a page that runs needs it: book.zip.

Code is what `helpers.page.in_browser` can reach by imports, and the checks of exercises that ask for
a kernel; of data there is what the cells and the sliders of the built book show: stored programs of
their kernels, the recorded times of tiles, starters of exercises and labs, and the lines that make
the arrays of a cell. The same files give the same bytes.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers.ladder.kernel import KERNELS, ROOT, Kernel
from helpers.ladder.rungs import catalog, cores, find
from helpers.page.exercises.registry import starter
from helpers.page.in_browser import makers
from helpers.page.judging import roomy_arch
from helpers.record import DEFAULT_GPU
from helpers.record.plans import plan
from helpers.record.tile_times import SIZE
from nogpu import compiled, project
from nogpu.errors import DataError

ENTRY = "helpers.page.in_browser"
ROOMS = {
    "helpers": ROOT,
    "nogpu": ROOT / "packages" / "nogpu",
    "tilelabs": ROOT / "packages" / "labs",
}
"""The packages that may be taken along, and the folder that each lies in."""
LEFT_OUT = "helpers.draw", "helpers.page.explorers"
"""What is never run in a browser: it draws, or judges an answer that is no kernel."""
_BESIDE = ("js/*.js", "clang_cuda/**/*.h")
"""Files that are no modules, below the folder of a package that is taken along."""


def archive() -> bytes:
    """The archive of `files`: paths as in a checkout, but that packages lie side by side."""
    return pack(files())


def pack(content_of: Mapping[str, bytes]) -> bytes:
    """An archive of these contents by path; their order and the day do not matter."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name, content in sorted(content_of.items()):
            info = zipfile.ZipInfo(name)  # of 1980: no date of this build
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            packed.writestr(info, content)
    return buffer.getvalue()


def files() -> dict[str, bytes]:
    """Content by path in the archive."""
    found: dict[str, bytes] = {}
    checks = {f"helpers.chapters.ch{id[:2]}.checks" for id in exercises()}
    for name, path in modules(ENTRY, *sorted(checks)).items():
        found[path.relative_to(ROOMS[name.partition(".")[0]]).as_posix()] = path.read_bytes()
    for path in sorted(
        {p for room in sorted(set(map(_folder, found))) for s in _BESIDE for p in room.glob(s)}
    ):
        root = ROOMS["nogpu"] if ROOMS["nogpu"] in path.parents else ROOT
        found[path.relative_to(root).as_posix()] = path.read_bytes()
    for pattern in ("*.cu", "cores/*.cu", "common/*.cuh"):
        for path in KERNELS.glob(pattern):
            found[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    for path in (ROOT / "labs").glob("*/*"):
        if path.is_file():  # a rehearsal's solutions lie one deeper
            found[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    for name, text in read_pages().items():
        found[f"book/{name}.md"] = text.encode()
    requests = [*cells(), *((kernel, None) for kernel in sliders())]
    for name, content in (programs(requests) | whole(sources())).items():
        found[f"data/compiled/{name}"] = _json(content)
    found[f"data/measurements/{DEFAULT_GPU}.json"] = _json(times(sliders()))
    return found


def _json(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


# -- code ------------------------------------------------------------------------------------------


def modules(*entries: str) -> dict[str, Path]:
    """Every module of ROOMS that importing and running these may import, with its file.

    Imports inside functions count; those for the type checker alone do not, nor does LEFT_OUT.
    """
    found: dict[str, Path] = {}
    queue = list(entries)
    while queue:
        name = queue.pop()
        path = _file(name)
        if name in found or path is None or f"{name}.".startswith(tuple(f"{n}." for n in LEFT_OUT)):
            continue
        found[name] = path
        queue += [name.rpartition(".")[0]] if "." in name else []
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        queue += _imports(ast.parse(path.read_text(encoding="utf-8")), package)
    return found


def _file(name: str) -> Path | None:
    root = ROOMS.get(name.partition(".")[0])
    if root is None:
        return None
    path = root.joinpath(*name.split("."))
    either = (path / "__init__.py", path.with_name(f"{path.name}.py"))
    return next((p for p in either if p.is_file()), None)


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Names that a module imports, of modules or of what is in them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        else:
            yield from _imports(node, package)


def _folder(path: str) -> Path:
    root = ROOMS[path.partition("/")[0]]
    return (root / path).parent


# -- data ------------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """The text of each page of the book by its name."""
    paths = sorted((ROOT / "book").glob("*.md"))
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def exercises() -> list[str]:
    """The exercises that ask for a kernel."""
    found = re.findall(r'(?m)^check\("([\d.]+)", mine\)', "\n".join(pages().values()))
    return list(dict.fromkeys(found))


def read_pages() -> dict[str, str]:
    """By page what is read of its text: the starters of exercises, and what makes arrays."""
    found: dict[str, str] = {}
    fence = "```{{code-cell}} ipython3\n{}\n```\n"
    for name, text in pages().items():
        if made := makers(text):
            calls = re.findall(r"(?m)^%%cuda .*\bargs=.*", text)
            found[name] = "\n".join(fence.format(code) for code in (made, *calls))
        for id in exercises():
            if f"\n### Exercise {id}:" in text:
                found[name] = f"{found.get(name, '')}\n### Exercise {id}{starter(id)}"
    return found


def sources() -> Iterator[str]:
    """Kernels that stand in the book's own cells, in an exercise or with arrays."""
    for page in read_pages().values():
        yield from re.findall(r'(?ms)^mine = """\n(.*?)^"""$', page)
    for page in pages().values():
        yield from re.findall(r"(?ms)^%%cuda [^\n]*\bargs=[^\n]*\n(.*?)^```$", page)


def cells() -> list[tuple[Kernel, str]]:
    """The kernel of each `%%cuda` cell that shows the book's own text, and that text as judged."""
    found: list[tuple[Kernel, str]] = []
    for page in pages().values():
        for name, options in re.findall(r"(?m)^%%cuda (\w+)(.*)\n//", page):
            if name in catalog or name in cores:
                tile = {n: int(v) for n, v in re.findall(r"([A-Z_]+)=(\d+)", options)}
                kernel = find(name).with_params(**tile)
                found.append((kernel, f"\n{kernel.source.rstrip()}\n"))
    return found


def sliders() -> list[Kernel]:
    """The kernel of each `live.tile(...)` of the book."""
    names = [n for page in pages().values() for n in re.findall(r'(?m)^live\.tile\("(\w+)"', page)]
    return [find(name) for name in names]


def programs(requests: Sequence[tuple[Kernel, str | None]]) -> dict[str, dict[str, Any]]:
    """Files of stored programs and resources of these texts in place of a kernel's (None: its own),
    and of the book's kernel with its own tile beside them.

    Raises DataError for a text that is not stored.
    """
    assert project.stored is not None
    compiler = compiled.compiler()
    found: dict[str, dict[str, Any]] = {}
    for kernel, text in requests:
        arch = roomy_arch(kernel)
        own, book = plan(kernel, 4096), plan(find(kernel.name), 4096)
        for launch in (own if text is None else own.with_source(text), book):
            k, macros = launch.kernel, tuple(sorted(launch.defines.items()))
            name = compiled.file_of(k.source)
            table = found.setdefault(f"{name}.json", {"compiler": compiler, "rows": {}})
            unpacked = found.setdefault(f"{name}.unpacked", {"programs": {}, "sass": []})
            request = (k.source, k.source_name, arch, macros, (), ())
            made = compiled.program(*request)
            if made is None:
                raise DataError(
                    f"{k.name} for {arch} is not stored in {project.stored}, and a page that runs "
                    "starts with it: python -m tools.compiled --pages"
                )
            row = [made.ptx, dict(made.names), made.log, list(made.refused)]
            unpacked["programs"][compiled.program_key(*request)] = row
            if (known := compiled.find(k.source, arch, macros, ())) is not None:
                table["rows"][known.key] = {
                    "kernels": {n: list(r) for n, r in known.kernels.items()}
                }
    return found


def whole(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """All that is stored of kernels of these names, without disassemblies: two files a name.

    Raises DataError for a name of which nothing is stored.
    """
    assert project.stored is not None
    found: dict[str, dict[str, Any]] = {}
    for name in sorted(set(map(compiled.file_of, texts))):
        path = project.stored / f"{name}.json"
        stored = compiled._archive(path.with_suffix(".xz"))[1]
        if not stored:
            raise DataError(
                f"nothing of {name} is stored in {project.stored}, and a page that runs starts with"
                " it: python -m tools.compiled --pages"
            )
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        plain = {key: {"kernels": row["kernels"]} for key, row in rows.items()}
        found[f"{name}.json"] = {"compiler": compiled.compiler(), "rows": plain}
        programs = {k: [p.ptx, dict(p.names), p.log, list(p.refused)] for k, p in stored.items()}
        found[f"{name}.unpacked"] = {"programs": programs, "sass": []}
    return found


def times(kernels: Sequence[Kernel]) -> dict[str, Any]:
    """A record of the times of these kernels' tiles alone, of the GPU that the book shows."""
    path = ROOT / "data" / "measurements" / f"{DEFAULT_GPU}.json"
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    kept = {k.name for k in catalog.values() if any(k.file == one.file for one in kernels)}
    for section, entries in record.items():
        if isinstance(entries, list):
            timed = entries if section in ("points", "sweep", "tuned") else []
            record[section] = [
                e for e in timed if e["kernel"] in kept and (e["m"], e["n"], e["k"]) == SIZE
            ]
    return record
