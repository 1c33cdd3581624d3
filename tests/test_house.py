"""The rules of the house. Every rule is a function from text to faults, and each is tried on a text
that breaks it."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import helpers
import nogpu
import tilelabs
from helpers import colours
from helpers.notebook.addresses import repository
from tests.common import ROOT, chapters, completed, texts_of
from tools.notebooks.books import chapter_numbers

ROOMS = (
    "nogpu", "helpers.wording", "helpers.colours", "helpers.emulator", "helpers.ladder",
    "helpers.record", "helpers.draw", "helpers.notebook", "tilelabs", "helpers.page",
    "helpers.chapters", "helpers", "tools",
)  # fmt: skip
"""From the ground floor up; each imports only from those before it.

CONTRIBUTING.md shows it. `helpers` itself is the face and the command line, which call everything
below; what lies in tools/ the command line loads by its name, where a checkout has it.
"""

HOMES = {"packages/nogpu/nogpu": "nogpu", "packages/labs/tilelabs": "tilelabs"}
"""Folders of packages, and the names by which they are imported."""


@cache
def texts(*suffixes):
    """Name and text of the files that git knows or would add, with these suffixes or all of text."""
    line = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    found = {}
    for name in completed(line, cwd=ROOT, check=True).stdout.split("\0"):
        path = ROOT / name
        if path.is_file() and (not suffixes or path.suffix in suffixes):
            try:
                found[name] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
    return found


def modules():
    """File and source of everything in helpers/ and packages/, tests left out."""
    starts = ("helpers/", *(f"{home}/" for home in HOMES))
    return {name: text for name, text in texts(".py").items() if name.startswith(starts)}


# --- rooms ---------------------------------------------------------------------------------------


def dotted(path):
    """The dotted name of a module, from its file."""
    for home, package in HOMES.items():
        path = path.replace(f"{home}/", f"{package}/")
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def room_of(module, rooms=ROOMS):
    """The room that a dotted name lies in, or "" for a folder of helpers that is none."""
    if module.split(".")[:2] in (["helpers", "__main__"], ["helpers", "__init__"]):
        return "helpers"
    for room in sorted(rooms, key=len, reverse=True):
        if module == room or module.startswith(room + "."):
            deeper = room == "helpers" and (ROOT / module.replace(".", "/")).is_dir()
            return "" if deeper and module != "helpers" else room
    return ""


def hints(tree):
    """Nodes that only a type checker reads."""
    guards = (node for node in ast.walk(tree) if isinstance(node, ast.If))
    typed = (node for node in guards if ast.unparse(node.test) == "TYPE_CHECKING")
    return {id(inner) for node in typed for inner in ast.walk(node)}


def imported(tree, leave_out=frozenset()):
    """Line and dotted name of everything that a module imports, at any depth."""
    names = []
    for node in ast.walk(tree):
        if id(node) in leave_out:
            continue
        if isinstance(node, ast.Import):
            names += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append((node.lineno, "." * node.level))
    return names


def upward(path, source, rooms, hinted=True):
    """Imports of a module that go up an order of rooms. hinted: those of its types, too."""
    tree, here = ast.parse(source), room_of(dotted(path), rooms)
    return [
        f"{path}:{line}: {here} imports {wanted}, which lies above it"
        for line, wanted in imported(tree, frozenset() if hinted else hints(tree))
        if (there := room_of(wanted, rooms)) and rooms.index(there) > rooms.index(here)
    ]


def wrong_imports(path, source):
    """Imports of a module that go up the house, or around it."""
    name = dotted(path)
    if path.startswith("helpers/") and room_of(name) == "helpers" and name not in FACES:
        return [f"{path}: a loose module; put it into a room"]
    faults = [
        f"{path}:{line}: relative import; write its whole name"
        for line, wanted in imported(ast.parse(source))
        if wanted.startswith(".")
    ]
    return faults + upward(path, source, ROOMS)


FACES = ("helpers", "helpers.__main__")


def test_rooms_import_downwards():
    assert [fault for path, text in modules().items() for fault in wrong_imports(path, text)] == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("helpers/ladder/rungs.py", "from helpers.record.plans import plan"),
        ("helpers/ladder/rungs.py", "def f():\n    from helpers import plots"),
        ("packages/nogpu/nogpu/emulator/machine/memory.py", "import helpers.ladder.launch"),
        ("helpers/ladder/launch.py", "from . import catalog"),
        ("helpers/ladder/launch.py", "from helpers import matmul"),
        ("helpers/shed.py", "x = 1"),
        ("helpers/record/sources.py", "def f():\n    from tools.recorder import campaign"),
        ("helpers/__main__.py", "from tools.recorder import commands"),
    ],
)
def test_a_wrong_import_is_refused(path, source):
    assert wrong_imports(path, source) != []
    wrong = wrong_imports("helpers/ladder/launch.py", "from nogpu.emulator.machine.memory import x")
    assert wrong == []


# --- rooms of the emulator, and circles ----------------------------------------------------------

FLOORS = tuple(f"nogpu.emulator.{room}" for room in ("ptx", "machine", "observe", "launching"))
"""Rooms of the emulator, from the ground floor up."""
EMULATOR = "packages/nogpu/nogpu/emulator"


def inside(folder):
    """File and source of all modules below a folder, without their faces."""
    found = texts(".py").items()
    return {n: t for n, t in found if n.startswith(f"{folder}/") and "__init__" not in n}


def test_the_emulator_has_four_rooms_and_each_imports_downwards():
    every = inside(EMULATOR)
    assert {room_of(dotted(path), FLOORS) for path in every} == set(FLOORS)
    assert [f for path, text in every.items() for f in upward(path, text, FLOORS, False)] == []
    wrong = "from nogpu.emulator.machine import access"
    assert upward(f"{EMULATOR}/ptx/syntax.py", wrong, FLOORS) != []
    assert upward(f"{EMULATOR}/launching/run.py", wrong, FLOORS) == []


def circles(room, sources):
    """Modules of a room that need themselves, or one that does.

    In the emulator those count that one needs when it runs; elsewhere also for its types.
    """
    left, inner = dict[str, set[str]](), re.compile(rf"{room}\.(?:sections\.)?(\w+)")
    for path, text in sources.items():
        tree = ast.parse(text)
        needed = imported(tree, hints(tree) if room in FLOORS else frozenset())
        left[Path(path).stem] = {m[1] for _, name in needed if (m := inner.match(name))}
    while free := {name for name, needs in left.items() if not needs & left.keys()}:
        left = {name: needs for name, needs in left.items() if name not in free}
    return set(left)


@pytest.mark.parametrize(
    ("folder", "at_least"),
    [
        ("helpers/record", 16),
        ("tools/recorder", 21),
        *((f"{EMULATOR}/{f.rpartition('.')[2]}", 4) for f in FLOORS),
    ],
)
def test_no_module_of_a_room_needs_itself(folder, at_least):
    """Imports within a function included."""
    room, sources = dotted(folder), inside(folder)
    assert len(sources) >= at_least and circles(room, sources) == set()
    first, second = list(sources)[-2:]
    for here, there in ((first, second), (second, first)):
        sources[here] += f"\ndef f():\n    from {room} import {Path(there).stem}\n"
    assert circles(room, sources) >= {Path(first).stem, Path(second).stem}


# --- names ---------------------------------------------------------------------------------------


def every_module(package):
    """A package's modules and those of its packages, imported; the command line left out."""
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return [importlib.import_module(m.name) for m in found if not m.name.endswith("__main__")]


def misleading(modules):
    """Modules whose name is something else in their package, or no module's within themselves.

    `import a.b as x` then gives that something.
    """
    found = set()
    for module in modules:
        package, _, name = module.__name__.rpartition(".")
        beside, within = getattr(sys.modules[package], name), getattr(module, name, module)
        if beside is not module or not isinstance(within, ModuleType):
            found.add(module.__name__)
    return found


def test_a_module_is_what_its_name_says():
    """`import helpers.x as x` gives the module x, nothing else in it or beside it is called x."""
    modules = [m for p in (helpers, nogpu, tilelabs) for m in every_module(p)]
    names = {m.__name__ for m in modules}
    assert {"helpers.ladder.kernel", "helpers.record.plans", "helpers.draw"} <= names
    assert misleading(modules) == set()


def test_a_module_that_an_object_shadows_is_told(tmp_path, monkeypatch):
    house = tmp_path / "shed_of_names"
    house.mkdir()
    (house / "__init__.py").write_text("from shed_of_names.spade import spade\n")
    (house / "spade.py").write_text("def spade(): ...\n")
    (house / "rake.py").write_text("def rake(): ...\n")
    (house / "hoe.py").write_text("def dig(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = every_module(importlib.import_module("shed_of_names"))
    assert misleading(modules) == {"shed_of_names.spade", "shed_of_names.rake"}


# --- rooms of the chapters -----------------------------------------------------------------------

GENERAL = {"timeline", "gantt"}
"""Charts of any measured times, in `plots` though one page draws them."""


def borrowed(path, source):
    """What a module of helpers/chapters or a page takes from the room of another page.

    A chapter's room is called by its number, chNN, and serves its Deeper page too; an appendix's by
    the page. The tour shows pictures of the chapters, the ladder is the start page's, and what the
    documents found stands in every chapter of the climb.
    """
    if path == "book/tour.md":
        return []
    path = path.replace("book/ladder", "book/intro").replace("book/deeper_", "book/")
    own = re.search(r"chapters/(\w+)/|book/(?:(\d\d)_|(\w+))", path)
    here = (own[1] or own[3] or f"ch{own[2]}") if own else ""
    found = re.findall(r"helpers\.chapters(?:\.| import )(\w+)", source)
    rooms = (there for there in found if (ROOT / "helpers" / "chapters" / there).is_dir())
    free = {here, "five_documents"} if path.startswith("book/") else {here}
    return [f"{path} takes from {there}" for there in rooms if there not in free]


def drawn(source, room):
    """The pictures of plots, or of a chapter's own room, that a page draws."""
    return set(re.findall(rf"\b{room}\.(\w+)\(", source))


def homeless(pages, plotted, own):
    """Pictures in the wrong room. pages: source by chapter; plotted: names that plots offers, own:
    by chapter, those of its pictures.py."""
    faults = []
    for name in sorted(plotted):
        where = [chapter for chapter, text in pages.items() if name in drawn(text, "plots")]
        if len(where) < 2:
            faults.append(f"plots.{name} serves {where or 'no page'}: move it to its chapter")
    for chapter, names in own.items():
        for name in sorted(names - drawn(pages.get(chapter, ""), "pictures")):
            faults.append(f"{chapter}: pictures.{name} is not drawn on its page")
    return faults


def public(source):
    """Functions of a module that return a Figure, and are not private."""
    head = r"(?m)^def ([a-z]\w*)\((?:.*|\n(?:    .*\n)*)\) -> Figure:"
    return set(re.findall(head, source))


def test_a_picture_of_one_page_lives_with_its_chapter():
    pages: dict[str, str] = {}
    for name, text in texts(".md").items():
        if name.startswith("book/"):
            chapter = re.sub(r"^(?:deeper_)?(\d\d)_.*", r"\1", Path(name).stem)
            pages[chapter] = pages.get(chapter, "") + text
    every = modules()
    figures = [text for name, text in every.items() if name.startswith("helpers/draw/")]
    plotted = {picture for text in figures for picture in public(text)} - {"both"}
    own = {
        name.split("/")[2].removeprefix("ch"): public(text)
        for name, text in every.items()
        if name.endswith("/pictures.py") and name.startswith("helpers/chapters/")
    }
    assert len(own) >= 10 and {"bars", "access_map"} <= plotted
    others = " ".join(text for n, text in every.items() if not n.startswith("helpers/draw/"))
    shared = drawn(others, "plots")  # by sliders, or by the command line
    assert homeless(pages, plotted - GENERAL - shared, own) == []
    assert homeless(pages, plotted | {"ring"}, own) != []
    assert homeless(pages, set(), {"06": {"barriers", "ring"}}) != []


def test_chapters_take_nothing_from_one_another():
    mine = {**modules(), **texts(".md")}
    chapters_and_pages = {
        name: text for name, text in mine.items() if re.match(r"helpers/chapters/\w+/|book/", name)
    }
    assert [fault for n, text in chapters_and_pages.items() for fault in borrowed(n, text)] == []
    assert borrowed("book/07_latency.md", "from helpers.chapters.ch06 import pictures") != []
    assert borrowed("helpers/chapters/ch04/checks.py", "import helpers.chapters.ch01.checks") != []
    assert borrowed("helpers/chapters/ch04/checks.py", "import helpers.chapters.ch04.x") == []
    assert borrowed("book/gpu_table.md", "from helpers.chapters.ch06 import pictures") != []
    assert borrowed("book/five_documents.md", "from helpers.chapters.five_documents import x") == []


def stray_colours(source):
    """Colours of the palette that a module writes out."""
    return [colour for colour in colours.PALETTE if colour in source.lower()]


def test_the_palette_stands_in_one_place():
    """And in the script of the explorers, which Python cannot hand it to; there it is the same."""
    where = {name for name, text in modules().items() if stray_colours(text)}
    assert where == {"helpers/colours.py"}
    script = (ROOT / "helpers/page/explorers/js/core.js").read_text(encoding="utf-8")
    palette = dict(re.findall(r"\b([A-Z]+): '(#\w+)'", script))
    assert {"BLUE", "VERMILION"} <= set(palette)
    assert palette == {name: getattr(colours, name) for name in palette}


GUARD = """
import importlib, pkgutil, sys
allowed = set(sys.stdlib_module_names) | {"numpy", "helpers", "nogpu", "tilelabs", "tools"}
class Guard:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in allowed:
            heavy = name in ("cupy", "matplotlib", "pandas")  # not even where one tries
            raise (SystemExit if heavy else ImportError)(f"{name} is not part of the light core")
sys.meta_path.insert(0, Guard())
def every(name):
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        if module.name != "nogpu.pytest_plugin":  # which pytest alone imports
            importlib.import_module(module.name)
"""


@pytest.mark.parametrize(
    ("what", "fine"),
    [
        *((f"every({name!r})", True) for name in ("helpers", "nogpu", "tilelabs")),
        ("import tools.notebooks.commands, tools.recorder.commands", True),
        ("import yaml", False),
        ("try: import pandas\nexcept ImportError: pass", False),
    ],
)
def test_the_core_needs_numpy_only(what, fine):
    """Every module of it, wherever it imports something that is not yet used."""
    ran = completed([sys.executable, "-c", GUARD + what], cwd=ROOT)
    assert (ran.returncode == 0) is fine, ran.stderr[-2000:]


def test_a_notebook_starts_without_the_tool_that_made_it():
    """`start` runs on Colab; what writes notebooks stays where books are built."""
    tool = '; assert not any("notebooks.exporting" in name for name in sys.modules)'
    for what, fine in (
        ("from helpers.notebook import start", True),
        ("import tools.notebooks.commands", False),
    ):
        ran = completed([sys.executable, "-c", f"import sys; {what}{tool}"], cwd=ROOT)
        assert (ran.returncode == 0) is fine


# --- sources --------------------------------------------------------------------------------------

# Put together from parts, so that this file keeps its own rule.
MACHINE = re.compile("|".join(["/" + "work/", "/" + "home/", "/" + "root/", "/" + "Users/"]))
UNFINISHED = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")


def test_no_path_of_a_machine():
    assert [name for name, text in texts().items() if MACHINE.search(text)] == []
    assert MACHINE.search("open('/" + "home/someone/x')")


def test_nothing_is_left_unfinished():
    sources = texts(".py", ".cu", ".cuh", ".cpp", ".md", ".yml", ".toml", ".js", ".css")
    assert [name for name, text in sources.items() if UNFINISHED.search(text)] == []
    assert UNFINISHED.search("# TO" + "DO: later")


def test_the_address_stands_in_one_place():
    """And in the notebooks, which are made from it, and for who cites the book."""
    where = repository()
    pages = {name: text for name, text in texts().items() if not name.endswith(".ipynb")}
    holding = {name for name, text in pages.items() if where.url.removeprefix("https://") in text}
    assert holding == {"_config.yml", "CITATION.cff"}


@pytest.mark.parametrize("name", ["", "/cuda12", "/cuda13"])
def test_requirements_are_bounded(name):
    lines = (ROOT / f"requirements{name}.txt").read_text(encoding="utf-8").splitlines()
    wanted = [line.split(";")[0] for line in lines if line.strip() and line[0] not in "#-"]
    assert wanted
    bounded = re.compile(r".*(>=.*<(?!=)|==[\d.]+\.\*)")
    assert [line for line in wanted if not bounded.match(line)] == []
    assert not bounded.match("numpy>=2.0") and not bounded.match("numpy")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_to_files_resolve(name):
    """The picture of the ladder among them: `make figures` draws it."""
    text = re.sub(r"(?ms)^```.*?^ *```$", "", (ROOT / name).read_text(encoding="utf-8"))
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    assert links or name != "README.md"
    assert [link for link in links if not (ROOT / link).is_file()] == []


# --- chapters -------------------------------------------------------------------------------------

CREDITED = frozenset(f"{n:02}" for n in range(4, 24))
"""The chapters of the climb; the last one has a section of its own on whose ideas these are."""


def contract(text, number, aside=""):
    """What a numbered chapter lacks of the chapter contract. aside: its Deeper page."""
    lacking = []
    for what, pattern in {
        "objectives": r"^:::\{admonition\} In this chapter",
        "minutes": r"\bminutes\b",
        "what it builds on": r"[Bb]uilds on",
        "the idea": r"^## The idea",
        "a summary": r"^## Summary",
    }.items():
        if not re.search(pattern, text, re.MULTILINE):
            lacking.append(what)
    if not re.search(r"^## Further reading", text + aside, re.MULTILINE):
        lacking.append("further reading")
    if len(re.findall(r"^:::+\{quiz\}|\bquiz\(", text, re.MULTILINE)) < 3:
        lacking.append("three quiz questions")
    box = re.search(r"(?ms)^:::\{admonition\} Others on this rung\n(.*?)^:::$", text + aside)
    if number in CREDITED and not (box and "{cite}" in box[1]):
        lacking.append("a box that says who did this rung first, with a citation")
    begins = rf"(?m)^### Exercise (?={number}\.\d)"
    exercises = [part for page in (text, aside) for part in re.split(begins, page)[1:]]
    if len(re.findall(begins, text)) < 2:
        lacking.append("two exercises")
    for exercise in exercises:
        name = exercise.split(":")[0]
        for what in (f'check("{name}"', ":::{dropdown} Hint", ":::{dropdown} Solution"):
            if what not in exercise:
                lacking.append(f"{what} in exercise {name}")
    return lacking


@pytest.mark.parametrize(
    "path", [path for path in chapters() if path.stem[:2].isdigit()], ids=lambda path: path.stem
)
def test_a_chapter_keeps_the_contract(path):
    page, *aside = texts_of(path.stem[:2])
    assert contract(page, path.stem[:2], "".join(aside)) == []


SHOWN = ("table", "quiz", "say", "provenance", "show_kernel", "check", "evidence", "tuned_note")
SHOWN += ("Markdown", "plots", "pictures", "explorers", "live")
"""What a cell displays only if it is the cell's last expression: functions, and rooms of them."""


def page_cells(text):
    """The code cells of a page, parsed, without those of a magic."""
    cells = re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```$", text, re.M | re.S)
    bare = [re.sub(r"^:[\w-]+:.*$", "", cell, flags=re.M) for cell in cells]
    return [ast.parse(code) for code in bare if not code.lstrip().startswith("%%")]


def lost(text):
    """Tables, figures and the like that no reader sees: their cell goes on after them."""
    found = []
    for cell in page_cells(text):
        for step in cell.body[:-1]:
            if isinstance(step, ast.Expr) and isinstance(step.value, ast.Call):
                call = ast.unparse(step.value.func)
                if call in SHOWN or call.split(".")[0] in SHOWN:
                    found.append(ast.unparse(step)[:60])
    return found


def test_a_table_that_is_not_shown_is_told():
    cell = "```{code-cell} ipython3\n:tags: [remove-input]\nrows = []\ntable(rows)\n"
    assert lost(cell + "```\n") == []
    assert lost(cell + "glue('n', 1)\n```\n") == ["table(rows)"]
    assert lost(cell.replace("table(rows)", "plots.bars(rows)") + "n = 1\n```\n") != []


def by_chance(text):
    """Calls that sort a set by a key alone: those with equal keys stand otherwise in every run."""
    found = []
    for cell in page_cells(text):
        for call in ast.walk(cell):
            if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "sorted"):
                continue
            keys = [option.value for option in call.keywords if option.arg == "key"]
            ties = any(isinstance(k, ast.Lambda) and isinstance(k.body, ast.Tuple) for k in keys)
            if isinstance(call.args[0], ast.Set | ast.SetComp) and keys and not ties:
                found.append(ast.unparse(call)[:60])
    return found


@pytest.mark.parametrize("path", sorted((ROOT / "book").glob("*.md")), ids=lambda path: path.stem)
def test_a_page_shows_all_and_reads_the_same_in_every_run(path):
    """What a cell displays is its last expression, and no order is a set's."""
    text = path.read_text(encoding="utf-8")
    assert (lost(text), by_chance(text)) == ([], [])


def test_a_set_sorted_by_chance_is_told():
    cell = "```{code-cell} ipython3\nops = sorted({op for op in mix}, key=KEY)\n```\n"
    assert by_chance(cell.replace("KEY", "lambda op: -mix[op]")) != []
    assert by_chance(cell.replace("KEY", "mix.get")) != []
    assert by_chance(cell.replace("KEY", "lambda op: (-mix[op], op)")) == []
    assert by_chance(cell.replace(", key=KEY", "")) == []


def test_chapter_numbers_are_those_of_the_files():
    """The book numbers chapters by their place; texts and kernels call them by their file."""
    numbers = chapter_numbers(ROOT)
    assert [stem for stem, number in numbers.items() if not stem.startswith(f"{number:02d}_")] == []


def test_a_deeper_page_stands_below_its_chapter_and_each_links_the_other():
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter for part in contents["parts"] for chapter in part["chapters"]]
    pairs = [(of["file"], c["file"]) for c in chapters for of in c.get("sections", [])]
    below = {Path(section).name: Path(chapter).name for section, chapter in pairs}
    assert sorted(below) == sorted(path.stem for path in (ROOT / "book").glob("deeper_*.md"))
    for deeper, chapter in below.items():
        assert deeper.removeprefix("deeper_")[:2] == chapter[:2]
        for page, other in ((deeper, chapter), (chapter, deeper)):
            text = (ROOT / "book" / f"{page}.md").read_text(encoding="utf-8")
            assert re.search(rf"\{{doc\}}`[^`]*<{other}>`", text), (page, other)


def test_a_thin_chapter_is_refused():
    assert len(contract("# A\n\n### Exercise 05.1: x\n", "05")) > 7
    pages = texts_of("05")
    assert contract(pages[0], "05", "".join(pages[1:])) == []
    nobody = "a box that says who did this rung first, with a citation"
    named = [page.replace("Others on this rung", "Others") for page in pages]
    assert contract(named[0], "05", "".join(named[1:])) == [nobody]


@pytest.mark.xdist_group("held together")
def test_tests_of_a_group_stay_together(request):
    """pytest-xdist marks a test's name with its group; one that hides it runs everything twice."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        assert request.node.nodeid.endswith("@held together")


FOLDERS = ("helpers/*", "packages/nogpu/nogpu", "packages/labs/tilelabs", "tools")


def introduction(text, folder):
    """What a folder's docstring lacks of: what comes in, what goes out, three real files."""
    lacks = [words for words in ("Comes in:", "Goes out:", "Read first:") if words not in text]
    named = re.findall(r"[\w/]+\.(?:py|md)", text.partition("Read first:")[2])
    return [*lacks, *(n for n in named if not (folder / n).exists()), *["files"] * (len(named) < 3)]


def test_each_folder_says_what_comes_in_and_where_to_begin():
    folders = [f.parent for pattern in FOLDERS for f in ROOT.glob(f"{pattern}/__init__.py")]
    assert len(folders) == 9
    for folder in folders:
        text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
        assert introduction(text, folder) == [], folder
    assert introduction("Comes in: a. Read first: gone.py, tools.py", ROOT) == [
        "Goes out:", "gone.py", "tools.py", "files",
    ]  # fmt: skip


def test_the_citation_names_the_repository_and_the_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["repository-code"] == repository().url
    assert cited["version"] == project["version"]
