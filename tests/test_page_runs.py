"""A cell that is edited and run in the built page, in Chromium, with the files that a reader loads.

The steps are those of tools/page_runs.py, which also writes down what they cost. The packages are
fetched once into the user's cache; where that cannot be done the tests say so and are skipped.
"""

from __future__ import annotations

import json
import re
import shutil
from html import unescape

import pytest
from axe_playwright_python.sync_playwright import Axe

from helpers.page import in_browser
from helpers.page.workbench import mine
from nogpu.errors import DataError
from tests.common import ROOT
from tests.pages_check import FIND_FAINT, FIND_WIDE
from tilelabs.labs import lab, rehearsing
from tools import page_runs
from tools.page_files import __main__ as filing
from tools.page_runs import PAGES

pytestmark = [pytest.mark.book, pytest.mark.browser, pytest.mark.slow]

SCRIPT = ROOT / "book" / "_static" / "run.js"
PAGE = PAGES[0]
BUTTONS = {
    "16_slices_of_k": 1,  # a long text, of which a part is folded
    "01_your_gpu": 1,  # on other cells' arrays
    "20_copy_engine": 2,  # an exercise beside such a cell
    "deeper_06_tiling": 1,  # an exercise
    "teaching": 10,  # the labs' starters, each folded
}
"""Pages, and how many cells of each can be edited there."""
EDIT = ".tile-run button:text-is('Edit and run here')"


@pytest.fixture(scope="module")
def folder(html, tmp_path_factory):
    """Pages that run, and what they load: as `make book PAGE=1` leaves them."""
    made = tmp_path_factory.mktemp("site")
    try:
        filing.write(made / "run")
    except DataError as error:
        pytest.skip(f"what a page that runs is made of cannot be had here: {error}")
    shutil.copytree(html / "_static", made / "_static")
    shutil.copy(SCRIPT, made / "_static")
    shutil.copy(html / "searchindex.js", made)
    (made / "book").mkdir()
    for name in (*PAGES, *BUTTONS):
        text = (html / "book" / f"{name}.html").read_text(encoding="utf-8")
        if "_static/run.js" not in text:  # the book was built without PAGE=1
            tag = '<script defer src="../_static/run.js"></script></head>'
            text = text.replace("</head>", tag, 1)
        (made / "book" / f"{name}.html").write_text(text, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def served(folder):
    """The address of those pages, and what was sent from it."""
    with page_runs.serve(folder) as pair:
        yield pair


@pytest.fixture(scope="module")
def reader(browser, served):
    """A reader whose editor is open and whose emulator is there."""
    with page_runs.reading(browser, *served, PAGE) as one:
        one.press()
        yield one


def by_name(reader):
    return {step.name.partition(": ")[2]: step for step in reader.steps}


def core_of(page):
    return str(page.locator("div.cell .cell_input pre", has_text="%%cuda").first.text_content())


def lines_of(text):
    """Lines that Python here finds something on, in a cell's text."""
    first, _, body = text.partition("\n")
    verdict = mine(f"\n{body}\n", first.split()[1], backend="emulator")
    return {line for f in verdict.findings for line in (f.line, f.other_line or f.line)}


def plain(shown):
    """Words and numbers of what a cell shows, but for where its program came from."""
    return re.sub(r" \(stored\)|Table [\d.]+|\u200b", "", shown).split()


def words_of(html):
    return unescape(re.sub(r"<[^>]+>", " ", html)).split()


# -- before anyone asks ----------------------------------------------------------------------------


def test_the_script_is_small():
    assert SCRIPT.stat().st_size <= 8_000


@pytest.mark.parametrize("name", BUTTONS)
def test_each_kernel_has_one_button(browser, served, name):
    with page_runs.reading(browser, *served, name) as one:
        assert one.page.locator(EDIT).count() == BUTTONS[name]
        solutions = one.page.locator("details pre", has_text="check(").count()
        assert solutions or name in ("16_slices_of_k", "teaching", "01_your_gpu")


def test_of_a_folded_text_all_is_edited(browser, served):
    with page_runs.reading(browser, *served, "16_slices_of_k") as one:
        one.page.locator(EDIT).click()
        one.page.wait_for_selector(".cm-editor")
        text = page_runs.text_of(one.page)
        assert text.startswith("%%cuda") and text.rstrip().endswith("}")
        assert text.count("\n") > 100


def test_nothing_is_loaded_before_the_press(browser, folder):
    with (
        page_runs.serve(folder) as (address, sent),
        page_runs.reading(browser, address, sent, PAGE) as one,
    ):
        button = one.page.get_by_role("button", name="Edit and run here")
        assert button.count() == 1
        button.scroll_into_view_if_needed()
        note = one.page.locator(".tile-run small").first
        one.page.wait_for_function(
            "document.querySelector('.tile-run small').textContent.includes('MB')"
        )
        assert {path for path in sent.paths if path.startswith("/run/")} == {"/run/manifest.json"}
        stages = json.loads((folder / "run" / "manifest.json").read_text())["stages"]
        sizes = {name: sum(f["bytes"] for f in files) for name, files in stages.items()}
        assert [int(n) for n in re.findall(r"\d+", note.text_content())] == [
            round((sizes["emulator"] + sizes["editor"]) / 1e6),
            round(sizes["compiler"] / 1e6),
        ]
        one.press()
        loaded = {path for path in sent.paths if path.startswith("/run/")}
        assert "/run/pyodide/pyodide.asm.wasm" in loaded
        assert not any(path.startswith("/run/clang/") for path in loaded)


MEMORY = "Object.defineProperty(Navigator.prototype, 'deviceMemory', {get: () => GB})"
NO_WORKERS = "globalThis.Worker = class { constructor() {} terminate() {} }"
OBSTACLES = {
    "a phone": ("", "iPhone", "phone"),
    "little memory": (MEMORY.replace("GB", "2"), "", "2 GB"),
    "no WebAssembly": ("delete globalThis.WebAssembly", "", "WebAssembly"),
    "no module workers": (NO_WORKERS, "", "workers"),
    "nothing in the way": (MEMORY.replace("GB", "8"), "", ""),
}
"""What is in the way: a script, the name of a browser, and a word of what the page says."""


@pytest.mark.parametrize("what", OBSTACLES)
def test_where_it_cannot_run_the_page_says_so_and_stays(browser, served, what):
    script, agent, word = OBSTACLES[what]
    context = browser.new_context(**({"user_agent": f"Mozilla/5.0 ({agent})"} if agent else {}))
    page = context.new_page()
    if script:
        page.add_init_script(script)
    page.goto(f"{served[0]}/book/{PAGE}.html")
    before = core_of(page)
    page.get_by_role("button", name="Edit and run here").click()
    if word:
        note = page.locator(".tile-run small").first
        assert word in note.text_content() and "page stays as it is" in note.text_content()
        assert core_of(page) == before and page.locator(".cm-editor").count() == 0
    else:
        page.wait_for_selector(".cm-editor")
    context.close()


def test_a_page_opened_from_a_file_says_what_to_do(browser, folder):
    context = browser.new_context()
    page = context.new_page()
    page.goto((folder / "book" / f"{PAGE}.html").as_uri())
    page.get_by_role("button", name="Edit and run here").click()
    note = page.locator(".tile-run small").first.text_content()
    published = page.locator("link[rel=canonical]").get_attribute("href")
    assert "make serve PAGE=1" in note and published in note
    assert page.locator(".cm-editor").count() == 0
    context.close()


def test_a_file_that_came_in_part_is_named(browser, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "site", symlinks=True)
    book = tmp_path / "site" / "run" / "book.zip"
    book.write_bytes(book.read_bytes()[:-1])
    with (
        page_runs.serve(tmp_path / "site") as (address, sent),
        page_runs.reading(browser, address, sent, PAGE) as one,
    ):
        button = one.page.get_by_role("button", name="Edit and run here")
        message = one.step("load", button.click, "^That could|^Ready").says
    assert "book.zip" in message and f"{book.stat().st_size + 1} are listed" in message


# -- the editor ------------------------------------------------------------------------------------


def test_keys_alone_edit_run_and_leave(reader):
    page = reader.page
    core = page_runs.text_of(page)
    page.locator(".cm-content").focus()
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    assert page_runs.text_of(page).split("\n")[1].startswith("    //")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Run"
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.matches('.cm-content')")
    page.keyboard.press("Control+z")
    assert page_runs.text_of(page) == core
    reader.step("Ctrl-Enter", lambda: page.keyboard.press("Control+Enter"), "^Done")
    assert "nothing was found" in by_name(reader)["Ctrl-Enter"].says


def test_what_it_shows_is_what_the_notebook_showed(reader):
    """The core as it stands, run in the page, and as the page came with it."""
    page_runs.put(reader.page, reader.core)
    reader.run("again")
    ran = plain(reader.shown["again"])
    reader.page.get_by_role("button", name="Reset").click()
    assert plain(reader.below()) == ran
    assert "wavefronts" in ran and page_runs.text_of(reader.page) == reader.core
    reader.run("another", f"{reader.core}\n// another")
    assert plain(reader.shown["another"]) != ran  # by another compiler


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_panel_can_be_read(reader, theme, width):
    can_be_read(reader.page, theme, width)


def can_be_read(page, theme, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(f"document.documentElement.dataset.theme = {theme!r}")
    page.evaluate("scrollTo(0, 0)")  # neither the theme's button back to the top
    page.mouse.move(0, 0)  # nor the sign of a heading under the pointer is ours
    page.add_style_tag(content="* { transition: none !important; animation: none !important }")
    page.wait_for_timeout(100)
    try:
        assert page.evaluate(FIND_WIDE) == []
        assert page.evaluate(FIND_FAINT) == []
        found = Axe().run(page, "div.cell:has(.cm-editor)").response["violations"]
        assert [(v["id"], [n["target"] for n in v["nodes"]][:3]) for v in found] == []
    finally:
        page.set_viewport_size({"width": 1280, "height": 900})


CLOCK = """
import time
from nogpu.emulator.machine.scheduler import seconds
began, ends = [clock() for clock in CLOCKS], time.monotonic() + 0.3
while time.monotonic() < ends:
    pass
[clock() - before for clock, before in zip(CLOCKS, began)]
"""


def test_the_time_of_a_run_goes_by(reader):
    """Or a kernel that does not end would end with the page alone."""
    worker = reader.page.workers[-1]
    code = CLOCK.replace("CLOCKS", "(seconds, time.process_time)")
    used, wrong = worker.evaluate("code => self.python.runPython(code).toJs()", code)
    assert 0.25 < used < 3 and wrong == 0  # the clock of a process, there, stands still


# -- what a reader does ----------------------------------------------------------------------------


def test_the_core_of_chapter_6(browser, served, folder):
    stages = json.loads((folder / "run" / "manifest.json").read_text())["stages"]
    compiler = sum(file["bytes"] for file in stages["compiler"]) / 1e6
    with page_runs.reading(browser, *served, PAGE) as one:
        core = page_runs.chapter_6(one)
        steps = by_name(one)
    right = "right, and nothing was found"
    assert right in steps["the text as it stands"].says
    assert steps["the text as it stands"].wire_mb < 1
    changed = steps["the first changed text, with the compiler"]
    assert right in changed.says and abs(changed.wire_mb - compiler) < 1

    broken = steps["a barrier taken out"]
    assert "something is wrong" in broken.says
    assert set(broken.lines) == lines_of(page_runs.without_a_barrier(core)) != set()
    assert lines_of(core) == set()
    assert "race" in one.shown["a barrier taken out"]
    assert right in steps["put back"].says and steps["put back"].lines == ()

    typo = steps["a typo"]
    (line,) = (i for i, text in enumerate(core.split("\n"), 1) if "sum +=" in text)
    assert typo.lines == (line,) and typo.words == ("sun",)
    assert "does not compile" in typo.says and "sun" in one.shown["a typo"]

    assert steps["an endless loop, stopped"].seconds < 2
    again = steps["the next text after that, in a new worker"]
    assert right in again.says and again.wire_mb < 1  # from the browser's cache

    edits = [steps[f"edit {i + 1}"] for i in range(page_runs.EDITS)]
    assert all(right in edit.says for edit in edits)
    assert edits[-1].python_mb == edits[1].python_mb > 0
    memory = [edit.memory_mb for edit in edits if edit.memory_mb]
    assert not memory or min(memory[-5:]) < 1.1 * max(memory[5:10]), memory


@pytest.mark.parametrize("name", PAGES[1:])
def test_the_core_of_another_chapter(browser, served, name):
    with page_runs.reading(browser, *served, name) as one:
        core = page_runs.later_chapter(one)
        steps = by_name(one)
    assert "nothing was found" in steps["the text as it stands"].says
    assert "nothing was found" in steps["the first changed text, with the compiler"].says
    if changed := steps.get("a barrier taken out"):
        assert set(changed.lines) == lines_of(page_runs.without_a_barrier(core)) != set()


def test_an_exercise_is_judged_as_in_the_notebook(browser, served):
    with page_runs.reading(browser, *served, "deeper_06_tiling") as one:
        right = one.page.locator("details pre", has_text='check("06.2"').text_content()
        one.press()
        assert one.core.startswith('mine = """') and 'check("06.2", mine)' in one.core
        one.run("the starter")
        one.page.get_by_role("button", name="Reset").click()
        assert plain(one.below()) == plain(one.shown["the starter"])  # as the page came with it
        one.run("the solution", right)
        one.run("a typo", page_runs.replaced(right, "sum +=", "sun +="))
        steps = by_name(one)
        for theme in ("light", "dark"):
            can_be_read(one.page, theme, 390)
    assert "not answered yet" in steps["the starter"].says and steps["the starter"].wire_mb < 1
    assert "This is the starter, unchanged" in one.shown["the starter"]
    assert steps["the starter"].lines == (14, 15, 16)
    assert "passed" in steps["the solution"].says and steps["the solution"].lines == ()
    assert "Exercise 06.2: passed" in one.shown["the solution"]
    (line,) = (i for i, text in enumerate(right.split("\n"), 1) if "sum +=" in text)
    assert steps["a typo"].lines == (line,) and "does not compile" in steps["a typo"].says


def test_a_cell_works_on_the_pages_arrays(browser, served):
    with page_runs.reading(browser, *served, "01_your_gpu") as one:
        one.press()
        one.run("the text as it stands")
        one.page.get_by_role("button", name="Reset").click()
        assert plain(one.below()) == plain(one.shown["the text as it stands"])
        one.run("no bound", page_runs.replaced(one.core, "if (i < n) ", ""))
        steps = by_name(one)
    assert "right, and nothing was found" in steps["the text as it stands"].says
    (line,) = (i for i, text in enumerate(one.core.split("\n"), 1) if "if (i < n)" in text)
    assert steps["no bound"].lines == (line,) and "a[1000]" in one.shown["no bound"]


def test_a_labs_starter_is_judged_by_its_check(browser, served):
    of = lab("2")
    right = rehearsing.texts(of)["a_transposed.cu"]
    with page_runs.reading(browser, *served, "teaching") as one:
        one.page.get_by_text(f"Lab 2, {of.title}").click()
        one.press()
        assert one.core == f"%%cuda lab2\n{of.starter(of.variants[0])}".rstrip()
        one.run("the starter")
        one.run("a solution", f"%%cuda lab2\n{right}")
        steps = by_name(one)
        for theme in ("light", "dark"):
            can_be_read(one.page, theme, 390)
    assert "0 of 90 points" in steps["the starter"].says
    assert "90 of 90 points" in steps["a solution"].says and steps["a solution"].lines == ()
    assert in_browser.HERE in one.shown["a solution"]


# -- sliders ---------------------------------------------------------------------------------------


def test_sliders_move_a_tile(browser, served):
    with page_runs.reading(browser, *served, PAGE) as one:
        page = one.page
        assert page.locator(".tile-slide").count() == 0
        button = page.get_by_role("button", name="Load the emulator")
        one.step("load", button.click, "^Done")
        slid = page.locator(".tile-slid")
        call = page.locator("[data-slide]").get_attribute("data-slide")
        assert words_of(slid.inner_html()) == words_of(in_browser.sliders(call, "{}"))
        page.set_viewport_size({"width": 390, "height": 900})
        assert slid.locator("tbody th").first.bounding_box()["width"] >= 150  # a line of source
        assert page.evaluate(FIND_WIDE) == []
        one.step("left", lambda: page.keyboard.press("ArrowLeft"), "^Done: TILE=16")
        first = slid.locator("p").first.inner_html()
        other = in_browser.sliders(call, '{"TILE": 16}')
        assert words_of(first) == words_of(other)[: len(words_of(first))]
        assert words_of(first) != words_of(in_browser.sliders(call, "{}"))[: len(words_of(first))]
        assert page.locator(".tile-slide input").get_attribute("aria-valuetext") == "16"
        found = Axe().run(page, "[data-slide]").response["violations"]
        assert [v["id"] for v in found] == []
