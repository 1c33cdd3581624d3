"""A lab as a student has it: notebook, cells, what is handed in, and the book it fetches."""

from __future__ import annotations

import getpass
import json
import os
import queue
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
from classes import solutions
from jupyter_client.manager import start_new_kernel
from test_solutions import solutions_in

from helpers import __main__ as cli
from helpers.notebook.addresses import repository
from helpers.notebook.first_cell import AWAY
from helpers.page import workbench
from nogpu.errors import (
    ConfigError,
    DataError,
    SourceError,
    ToolchainError,
    UnknownKernelError,
    UnknownNameError,
)
from tests.common import ROOT, completed
from tilelabs import labs
from tilelabs.grading import collect
from tilelabs.grading.judging import judged
from tilelabs.labs import checking, courses, rehearsing, sealing, working
from tools import colab
from tools.hostile import BOMBS, HONEST
from tools.notebooks.running import run

pytestmark = pytest.mark.nvrtc

LABS = labs.all_labs()
EACH = [(lab, variant) for lab in LABS for variant in lab.variants]
TWO = labs.lab("2")
ANSWER = 'The tile of 32 x 32 needs $\\frac{1}{2}$ of the sectors, see """above""" and C:\\new.'


def put(notebook, begins, below):
    """Write below the first line of the cell that begins so."""
    [found] = [c for c in notebook["cells"] if "".join(c["source"]).startswith(begins)]
    found["source"] = f"{''.join(found['source']).splitlines()[0]}\n{below}"


def shown(notebook, id_):
    """What a cell shows."""
    [found] = [c for c in notebook["cells"] if c["id"] == id_]
    return json.dumps(found["outputs"], ensure_ascii=False)


def no_compiler(*_, **__):
    raise ToolchainError("there is no compiler")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A student's folder, no notebook, and nothing taken yet."""
    monkeypatch.chdir(tmp_path)
    taken: dict[str, Any] = {}
    for module in (workbench, working):
        monkeypatch.setattr(module, "TAKERS", taken)
    return tmp_path


# -- the whole path --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("lab", LABS, ids=lambda one: one.number)
def test_a_lab_is_handed_out_worked_on_and_collected(lab, tmp_path):
    """A student runs, solves, answers and runs again; the teacher collects and judges."""
    course = courses.new(tmp_path / "course")
    out = tmp_path / "students" / "4711" / f"{lab.entry}.ipynb"
    folder = out.parent
    folder.mkdir(parents=True)
    assert cli.main(["handout", lab.number, "--course", str(course.folder), "--out", str(out)]) == 0
    variant = course.variant(lab)
    notebook = json.loads(out.read_text(encoding="utf-8"))
    result = run(notebook, folder).notebook
    most = lab.points - sum(p.points for p in lab.parts if p.by_hand)
    [written] = [p.id for p in lab.parts if p.by_hand]
    assert f"of {most} points" in shown(result, "kernel") and "not yet: " in shown(result, "kernel")
    assert "no answer yet" in shown(result, f"{written}-answer")
    assert "what lacks" in shown(result, "hand-in") and "not yet: " in shown(result, "hand-in")
    text = solutions(lab)[variant.name]
    put(notebook, "%%cuda", text)
    put(notebook, "%%answer", ANSWER)
    result = run(notebook, folder).notebook
    assert f"{most} of {most} points" in shown(result, "kernel")
    assert "not yet: " not in shown(result, "kernel") + shown(result, "hand-in")
    answer = shown(result, f"{written}-answer")
    assert "text/markdown" in answer and "frac{1}{2}" in answer
    handed = folder / f"{lab.entry}_submission.ipynb"
    assert ANSWER in "".join(json.loads(handed.read_text(encoding="utf-8"))["cells"][-1]["source"])
    for file in sorted(folder.iterdir()):
        if file != handed:
            file.unlink()
    [one] = collect(folder.parent, lab.entry)
    assert (one.student, one.raw) == ("4711", b"\n" + text.encode())
    facts = judged(one, lab, course, 1, lock=False).marked
    assert len(facts.right) == len({run.case for run in facts.runs}) > 0


@pytest.mark.parametrize(
    ("lab", "variant"), EACH, ids=lambda one: one.name if hasattr(one, "words") else ""
)
def test_what_is_handed_out_is_a_notebook_that_says_what_it_is(lab, variant, tmp_path, monkeypatch):
    monkeypatch.setattr(checking, "starter_count", lambda *_: None)
    made = courses.new(tmp_path / "course")
    course = replace(made, variants={lab.number: variant.name}, tag="v9")
    notebook = labs.handout(lab, course)
    nbformat.validate(notebook)
    assert notebook["metadata"]["tile_by_tile"] == {
        "lab": lab.number, "version": lab.version, "variant": variant.name, "tag": "v9"
    }  # fmt: skip
    text = json.dumps(notebook)
    assert course.secret.hex() not in text and json.dumps(variant.words)[1:-1] in text
    sources = ["".join(c["source"]) for c in notebook["cells"]]
    assert any(s == f"%%cuda {lab.entry}\n{lab.starter(variant)}" for s in sources)
    [setup] = [source for source in sources if source.startswith("#@")]
    compile(setup, "setup", "exec")
    assert setup.endswith(f'variant={json.dumps(variant.name)}, tag="v9")')
    notebook["cells"][0].pop("metadata")
    with pytest.raises(nbformat.ValidationError):
        nbformat.validate(notebook)


@pytest.mark.parametrize("number", ["1", "2"])
def test_one_line_says_how_a_count_is_read(number, tmp_path, monkeypatch):
    """Lab 1's starter is right and counts too much; that of lab 2 computes nothing yet."""
    one, course = labs.lab(number), courses.new(tmp_path / "course")
    course = replace(course, variants={number: one.variants[0].name})
    part = max(one.parts, key=lambda p: p.points * (p.zero is not None))
    source = labs.handout(one, course)["cells"][0]["source"]
    [line] = [text for text in "".join(source).splitlines() if "How is a count read?" in text]
    stands = checking.starter_count(one, one.variants[0], part)
    assert (stands or 99) > (part.zero or 0) and (stands is None) == (number == "2")
    standing = f"stands at {stands:.3g}" if stands else "is not right yet, so it has no count"
    assert f"Take `{part.id}`" in line and f"The starter {standing}." in line
    half = part.share(float(line.split("points, at ")[1].split()[0]))
    assert half == pytest.approx(0.5) and "max_steps" not in json.dumps(source)

    monkeypatch.setattr(checking, "starter_count", no_compiler)
    bare = "".join(labs.handout(one, course)["cells"][0]["source"])
    assert "The starter" not in bare and "How is a count read?" in bare


# -- cells, without a notebook ---------------------------------------------------------------------


def test_a_cell_of_a_lab_is_kept_and_checked_for_its_variant(here, capsys):
    with pytest.raises(UnknownKernelError, match="no such lab was begun here"):
        workbench.cell_magic("lab2", HONEST)
    labs.begin("2", variant="B transposed", tag="v1")
    assert "B transposed" in capsys.readouterr().out
    text = solutions(TWO)["B transposed"]
    names: dict[str, Any] = {}
    found = workbench.cell_magic("lab2", text, names)
    assert found.ok and found.variant.name == "B transposed" and names["verdict"] is found
    assert labs.check("2").ok and labs.check(2, text).ok
    assert not labs.check("2", variant="A transposed").ok
    assert not workbench.cell_magic("lab2", HONEST).ok and not labs.check("2").ok
    with pytest.raises(ConfigError, match="leave TILE out"):
        workbench.cell_magic("lab2 TILE=4", HONEST)
    assert sorted(p.name for p in here.iterdir()) == ["lab2.cu", "lab2.json"]


def test_lines_are_those_of_the_cell_wherever_it_is_checked(here):
    """In the cell, in the file beside it, and in what the teacher collects."""
    labs.begin("2")
    broken = HONEST.replace("float sum =", "float sun =", 1)
    [line] = [n for n, words in enumerate(broken.splitlines(), 2) if "sum +=" in words]
    message = f"it does not compile: line {line}:"
    assert message in str(workbench.cell_magic("lab2", broken))
    assert message in str(labs.check("2", (here / "lab2.cu").read_bytes()))
    assert message not in str(labs.check("2", broken))
    labs.submit("2")
    (here / "lab2.cu").unlink()
    [one] = [s for s in collect(here, "lab2") if not s.problem]  # not the lab's own file
    assert message in str(labs.check("2", one.raw or b""))


def test_a_kernel_with_arrays_of_ones_own_stays_with_the_workbench(here):
    import numpy as np

    labs.begin("2")
    text = 'extern "C" __global__ void lab2(float* a) { a[0] = 3.0f; }'
    a = np.zeros(1, np.float32)
    assert workbench.cell_magic("lab2 grid=1 block=1 args=(a,)", text, {"a": a}).ok and a[0] == 3
    assert not (here / "lab2.cu").exists()


def test_html_says_what_the_text_says(here):
    found = labs.check("2", HONEST.replace("C[row", "C[0 * row", 1))
    markup = found._repr_html_()
    assert repr(found) == str(found) and 'role="group"' in markup and "aria-label=" in markup
    for _, words in found.lines:
        assert words.split(":")[-1].strip()[:20] in markup
    assert markup.count("not yet: ") == sum(good is False for good, _ in found.lines) > 0
    odd = replace(found, marked=replace(found.marked, refused="<b>no</b>"))
    assert "<b>" not in odd._repr_html_() and "<b>" in str(odd)


def test_what_cannot_be_checked_is_one_line(here, monkeypatch):
    with pytest.raises(ConfigError, match="no kernel of lab 2 yet: run the cell"):
        labs.check("2")
    with pytest.raises(UnknownNameError, match="A transposed"):
        labs.begin("2", variant="A transpose")
    for damaged in ("{", "[]", '{"lab": "2"}', '{"lab": "2", "version": "1", "variant": ""}'):
        (here / "lab2.json").write_text(damaged, encoding="utf-8")
        with pytest.raises(DataError, match="run the first cell"):
            labs.check("2", HONEST)
    (here / "lab2.json").unlink()
    here.joinpath("shut").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="nothing was kept"):
        working._keep(here / "shut" / "lab2.cu", "x")
    with pytest.raises(SourceError, match="no text"):
        working._keep(here / "lab2.cu", "\ud800")
    assert sorted(p.name for p in here.iterdir()) == ["shut"]


def test_another_version_of_the_lab_is_told(here, capsys):
    labs.begin("2", version=TWO.version)
    assert "version" not in capsys.readouterr().out
    labs.begin("2", version=TWO.version + 1)
    assert f"the book here has version {TWO.version}" in capsys.readouterr().out
    (here / "lab2.cu").write_text(HONEST, encoding="utf-8")
    labs.answer("2", "written", "x")
    assert f"for version {TWO.version + 1} of lab 2" in str(labs.submit("2"))
    assert not labs.submit("2").ok


# -- answers, and what is handed in ----------------------------------------------------------------


def test_an_answer_is_kept_as_it_stands(here):
    assert "no answer yet" in str(labs.answer("2", "written", f"{working.UNANSWERED}\n"))
    assert list(here.iterdir()) == []
    below = f"{working.UNANSWERED}\n\n{ANSWER}\n"
    assert working._answer_magic("lab2 written", below).text == ANSWER
    assert (here / "lab2_written.md").read_text(encoding="utf-8") == ANSWER + "\n"
    assert ANSWER in labs.answer("2", "written", working.UNANSWERED)._repr_markdown_()
    for line, message in (
        ("written", "name the lab and the part"),
        ("lab2 right", "no answer 'right'"),
    ):
        with pytest.raises((ConfigError, UnknownNameError), match=message):
            working._answer_magic(line, "x")


def test_what_is_handed_in_says_versions_and_nothing_else(here):
    labs.begin("2", variant="A transposed, scaled", tag="v3")
    text = solutions(TWO)["A transposed, scaled"]
    (here / "lab2.cu").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert not labs.submit("2").ok
    labs.answer("2", "written", ANSWER)
    made = labs.submit("2")
    assert made.ok and "90 of 90" in str(made) and "not yet" not in made._repr_html_()
    raw = (here / made.path).read_text(encoding="utf-8")
    notebook = json.loads(raw)
    nbformat.validate(notebook)
    declared = notebook["metadata"]["tile_by_tile"]
    assert declared.pop("commit")
    expected = {"lab": "2", "version": TWO.version, "variant": "A transposed, scaled", "tag": "v3"}
    assert declared == expected
    assert oct((here / made.path).stat().st_mode)[-3:] == "600"
    private = (here, ROOT, socket.gethostname(), getpass.getuser(), Path.home())
    assert not [words for words in map(str, private) if words in raw.replace(text + ANSWER, "")]
    (here / "lab2.cu").unlink()
    [one] = [s for s in collect(here, "lab2") if not s.problem]  # not the lab's own file
    assert one.raw == b"\n" + text.encode() and one.notes == ()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (None, "no kernel of lab 2 yet"),
        (b"// __global__ void lab2\nint x;\n", "holds no kernel, and nothing was written"),
        (b" \n", "lab2.cu is empty"),
        (HONEST.encode("utf-16"), "save it as UTF-8"),
        (b"x" * 300_000, "hand in the kernel alone"),
    ],
)
def test_without_a_kernel_nothing_is_handed_in(raw, message, here):
    if raw is not None:
        (here / "lab2.cu").write_bytes(raw)
    with pytest.raises((ConfigError, SourceError), match=message):
        labs.submit("2")
    assert not (here / "lab2_submission.ipynb").exists()


def test_what_lacks_is_said_and_handed_in_all_the_same(here, monkeypatch):
    (here / "lab2.cu").write_text(TWO.starter(TWO.variants[0]), encoding="utf-8")
    made = labs.submit("2")
    assert not made.ok and "0 of 90 points" in str(made) and "written: no answer yet" in str(made)
    assert made.path.is_file() and made._repr_html_().count("not yet: ") == 2
    monkeypatch.setattr(checking, "mark", no_compiler)
    assert "not checked: there is no compiler" in str(labs.submit("2"))


def test_colab_offers_the_download(here, monkeypatch):
    offered: list[str] = []
    files = ModuleType("google.colab.files")
    files.download = offered.append
    (here / "lab2.cu").write_text(HONEST, encoding="utf-8")
    assert "Colab" not in str(labs.submit("2"))
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release-x")
    assert "take the file from the pane Files" in str(labs.submit("2"))
    for name in ("google", "google.colab"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "google.colab.files", files)
    assert "Colab offers the download" in str(labs.submit("2"))
    assert offered == ["lab2_submission.ipynb"] and (here / offered[0]).is_file()


def test_at_a_terminal(here, capsys, monkeypatch):
    """Two files written in an editor; the variant from the notebook's lab2.json, or as said."""
    work = here / "work"
    work.mkdir()
    (work / "lab2.cu").write_text(solutions(TWO)["B transposed"], encoding="utf-8")
    (work / "lab2_written.md").write_text(ANSWER, encoding="utf-8")
    submit = ["submit", "2", "--folder", str(work)]
    assert cli.main(submit) == 1
    assert cli.main([*submit, "--variant", "B transposed"]) == 0
    monkeypatch.chdir(work)
    labs.begin("2", variant="B transposed")
    monkeypatch.chdir(here)
    assert cli.main(submit) == 0 and cli.main(["check", "2", str(work / "lab2.cu")]) == 0
    capsys.readouterr()
    assert cli.main(["submit", "2"]) == 2
    assert "no kernel of lab 2 yet" in capsys.readouterr().err


def test_a_teachers_repository_gives_a_button(tmp_path, capsys):
    course, out = courses.new(tmp_path / "course"), tmp_path / "lab2.ipynb"
    hand = ["handout", "2", "--course", str(course.folder), "--out", str(out)]
    link = "[Open in Colab](https://colab.research.google.com/github/prof/class/blob/{})"
    for more, address in (
        (["--repository", "prof/class"], "main/lab2.ipynb"),
        (["--repository", "https://github.com/prof/class.git", "--path", "labs/my lab.ipynb", "--branch", "f26"],
         "f26/labs/my%20lab.ipynb"),
    ):  # fmt: skip
        assert cli.main([*hand, *more]) == 0
        assert link.format(address) in out.read_text(encoding="utf-8")
    assert cli.main(hand) == 0 and "Open in Colab" not in out.read_text(encoding="utf-8")
    assert cli.main([*hand, "--repository", "https://example.org/class"]) == 2
    assert "not the address of a repository on GitHub" in capsys.readouterr().err


# -- Stop ------------------------------------------------------------------------------------------


def children(pid):
    """Processes that this one has started and that still run."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()


class Kernel:
    """A notebook's kernel in a folder, and cells run in it."""

    def __init__(self, folder):
        env = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
        self.manager, self.client = start_new_kernel(cwd=str(folder), env=env)
        self.pid: int = self.manager.provisioner.process.pid

    def run(self, code):
        reply = self.client.execute_interactive(code, timeout=60, output_hook=lambda _: None)
        return dict(reply["content"])

    def stopped(self, code, until):
        """How a cell ends that is interrupted a second after `until`; empty if it goes on."""
        # Else Jupyter aborts a cell that comes right after one that ends by an error.
        id_ = self.client.execute(code, stop_on_error=False)
        began = time.monotonic()
        while not until():
            assert time.monotonic() - began < 20
            time.sleep(0.05)
        time.sleep(1.0)  # the compiler is at work
        self.manager.interrupt_kernel()
        since = time.monotonic()
        while time.monotonic() - since < 6:
            with suppress(queue.Empty):
                reply = self.client.get_shell_msg(timeout=1)
                if reply["parent_header"].get("msg_id") == id_:
                    return str(reply["content"].get("ename"))
        return ""


@pytest.fixture
def kernel(tmp_path):
    made = Kernel(tmp_path)
    yield made
    made.client.stop_channels()
    made.manager.shutdown_kernel(now=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_stop_ends_the_check_and_not_the_notebook(kernel):
    """While a source compiles without end: the cell ends, the kernel and its names stay."""
    begin = "from tilelabs import labs\nfrom helpers.page.workbench import mine\n"
    assert kernel.run(f'{begin}labs.begin("2")\nkept = 41')["status"] == "ok"
    cell = f"%%cuda lab2\n{BOMBS['macros']}"
    assert kernel.stopped(cell, lambda: children(kernel.pid)) == "KeyboardInterrupt"
    assert kernel.run("assert kept == 41")["status"] == "ok" and children(kernel.pid) == []
    assert kernel.run(f"assert labs.check('2', {HONEST!r}).ok")["status"] == "ok"
    assert kernel.run("assert kept == 42")["status"] == "error"


@pytest.mark.slow
def test_a_compiler_in_the_notebooks_own_process_does_not_stop(kernel):
    """The wrong twin: why the compiler has a process of its own."""
    assert kernel.run("from tilelabs.judging import compiling\ncompiling.ready()")["status"] == "ok"
    job = {"source": BOMBS["macros"], "arch": "sm_75"}
    assert kernel.stopped(f"compiling.compiled({job!r})", lambda: True) == ""


# -- the book that the first cell fetches ----------------------------------------------------------


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """This repository as a server has it that takes filters, as GitHub does."""
    made = colab.remote(tmp_path_factory.mktemp("remote"))
    for name in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        subprocess.run(["git", "config", name, "true"], cwd=made, check=True)
    return made


def fetched(source, folder, code=""):
    """Where the first cell puts the book on an empty Colab, and what it and `code` print."""
    course = courses.new(folder / "course")
    [setup] = [c["source"] for c in labs.handout(TWO, course)["cells"] if c["id"] == "setup"]
    content = folder / "content"
    content.mkdir(exist_ok=True)
    where = repository()
    env = colab.variables(Path(sys.executable), source, where, folder / "home")
    env["PATH"] = os.environ["PATH"]
    code = f"{AWAY_FROM_HERE}\n{''.join(setup)}\n{code}"
    done = completed([sys.executable, "-I", "-c", code], cwd=content, env=env)
    return content / where.name, done.stdout + done.stderr


AWAY_FROM_HERE = """
import sys
sys.path[:] = [p for p in sys.path if "site-packages" in p or "python3" in p]
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in repr(f)]
"""

WORK = """
import pathlib, helpers
from helpers import explorers, live, workbench
from helpers.chapters.ch06 import checks
assert pathlib.Path(helpers.__file__).is_relative_to(pathlib.Path.cwd()), helpers.__file__
explorers.coalescing()
text = pathlib.Path(SOLUTION).read_text()
print(check("2", text, variant="A transposed"))
workbench.TAKERS["lab2"](chr(10) + text)
answer("2", "written", "words")
print(submit("2"))
"""


def contents(clone):
    """All that a clone holds: its files, and every object that git has of it."""
    for path in clone.rglob("*"):
        if path.is_file() and ".git" not in path.relative_to(clone).parts:
            yield path.read_bytes()
    env = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
    line = ["git", "cat-file", "--batch-all-objects", "--batch"]
    yield subprocess.run(line, cwd=clone, capture_output=True, check=True, env=env).stdout


@pytest.mark.slow
def test_the_book_that_students_fetch_holds_no_solution_and_works(source, tmp_path):
    file = tmp_path / "solution.cu"
    file.write_text(solutions(TWO)["A transposed"], encoding="utf-8")
    clone, output = fetched(source, tmp_path, WORK.replace("SOLUTION", repr(str(file))))
    assert "90 of 90 points" in output and "Hand in lab2_submission.ipynb" in output, output
    assert solutions_in(contents(clone)) == []
    assert not list(clone.rglob("rehearsal")) and not (clone / "tests").exists()
    assert (clone / "labs" / "2_tiling" / "starter.cu").is_file() and (clone / "kernels").is_dir()
    assert not (clone.parent / f"{clone.name}.half").exists()
    made = json.loads((clone.parent / "lab2_submission.ipynb").read_text(encoding="utf-8"))
    head = completed(["git", "rev-parse", "HEAD"], cwd=source)
    assert head.stdout.startswith(made["metadata"]["tile_by_tile"]["commit"])


@pytest.mark.slow
def test_a_whole_clone_holds_them_sealed(source, tmp_path):
    """The wrong twin of the search: git has them where somebody committed what they unpacked."""
    whole = tmp_path / "whole"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", source.as_uri(), whole], check=True)
    assert list(whole.rglob(sealing.PACK)) and solutions_in(contents(whole)) == []
    rehearsing.unpack([TWO], whole / "labs")
    for words in (["add", "--all", "--force"], ["rm", "-r", "--force", "--quiet", "labs"]):
        subprocess.run(["git", *words], cwd=whole, check=True)
    assert {"2 a_transposed.cu", "2 solution, A transposed"} <= set(solutions_in(contents(whole)))


@pytest.mark.slow
def test_a_server_that_refuses_filters_sends_all_and_it_works(source, tmp_path):
    plain = tmp_path / "plain"
    subprocess.run(["git", "clone", "--quiet", source, plain], check=True)
    subprocess.run(["git", "config", "uploadpack.allowFilter", "false"], cwd=plain, check=True)
    half = tmp_path / "content" / f"{repository().name}.half"
    half.mkdir(parents=True)
    (half / "left").write_text("of a fetch that was cut off", encoding="utf-8")
    clone, output = fetched(plain, tmp_path)
    assert not half.exists() and not (clone / "left").exists()
    assert "Lab 2, Shared-memory tiles" in output, output
    assert not list(clone.rglob("rehearsal")) and not (clone / "tests").exists()


def test_patterns_of_what_stays_away_fit_the_repository():
    """Each names something that is there, so that a folder that moves is seen."""
    for path in AWAY:
        assert list(ROOT.glob(path)), path
