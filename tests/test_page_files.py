"""What a page that runs is made of: packages by hash, the archive, the folder, the script's pages."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from helpers.ladder.rungs import catalog, cores
from nogpu import compiled, project
from nogpu.errors import DataError
from tests.common import ROOT, completed, serve, sphinx
from tools.page_files import __main__ as page_files
from tools.page_files import packages, slim
from tools.page_files.packages import File, Package

TEXT = {"one/lib/a.js": b"import {b} from 'other';\n"}
TEXT["one/lib/deep/b.bin"] = bytes(range(256)) * 400


def tar(files):
    """A package as a project releases it."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:bz2") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return written.getvalue()


@pytest.fixture
def site(tmp_path):
    """A folder, and the address at which a server of this machine shows it."""
    folder = tmp_path / "site"
    folder.mkdir()
    server, address = serve(folder)
    yield folder, address
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """This test's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TILE_CACHE", raising=False)
    return tmp_path / "cache" / "tile-by-tile" / "packages"


def package(*sources):
    wanted = {"a.js": TEXT["one/lib/a.js"], "deep/b.bin": TEXT["one/lib/deep/b.bin"]}
    files = tuple(
        File(name, len(content), hashlib.sha256(content).hexdigest(), f"x/{name}")
        for name, content in wanted.items()
    )
    return Package("A", "1", "MIT", "https://a.example", "editor", sources, files)


def bring(*sources):
    """What these sources give of it; nothing is said."""
    return packages.bring(package(*sources), lambda text: None)


# -- fetching --------------------------------------------------------------------------------------


def test_a_release_is_fetched_once(site, cache):
    folder, address = site
    (folder / "a.tar.bz2").write_bytes(tar({"one/other": b"", **TEXT, "late": bytes(10**6)}))
    messages: list[str] = []
    release = package(f"{address}/a.tar.bz2")
    found = packages.bring(release, messages.append)
    assert [found[file] for file in release.files] == list(TEXT.values())
    assert messages == [f"fetching A 1: {address}/a.tar.bz2"]
    (folder / "a.tar.bz2").unlink()  # from now on there is no network
    assert packages.bring(release, messages.append) == found and len(messages) == 1
    kept = cache / release.files[0].sha256
    kept.write_bytes(b"damaged")
    with pytest.raises(DataError, match="could not be fetched"):
        packages.bring(release, messages.append)


def test_other_bytes_are_not_taken(site, cache):
    folder, address = site
    (folder / "a.tar.bz2").write_bytes(tar(TEXT | {"one/lib/a.js": b"import {b} from 'evil';\n\n"}))
    with pytest.raises(
        DataError, match=r"a\.js has 25 bytes with SHA-256 \w{64}, and is to have 25"
    ):
        bring(f"{address}/a.tar.bz2")
    assert not cache.exists()


def test_what_is_wrong_with_each_source_is_said(site, cache):
    folder, address = site
    (folder / "half.tar.bz2").write_bytes(tar(TEXT)[:300])
    (folder / "lacks.tar.bz2").write_bytes(tar({"one/lib/a.js": TEXT["one/lib/a.js"]}))
    sources = [f"{address}/{name}.tar.bz2" for name in ("gone", "half", "lacks")]
    with pytest.raises(DataError) as caught:
        bring(*sources, "http://127.0.0.1:9/a.tar.bz2")
    lines = str(caught.value).splitlines()
    assert "no network now, call make again" in lines[0] and len(lines) == 5
    for line, words in zip(lines[1:], ("not found", "half", "it has no deep/b.bin"), strict=False):
        assert words in line.lower()
    assert "refused" in lines[4].lower()
    assert not cache.exists()


def test_the_next_source_is_taken(site, cache, monkeypatch):
    folder, address = site
    (folder / "a.tar.bz2").write_bytes(tar(TEXT))
    monkeypatch.setenv("TILE_CACHE", "0")
    found = bring("http://127.0.0.1:9/a.tar.bz2", f"{address}/a.tar.bz2")
    assert len(found) == 2 and not cache.exists()


CLIENT = """#!{python}
import shutil, sys
to = sys.argv[sys.argv.index("--pack-destination") + 1]
if sys.argv[-1] != "a@1":
    sys.exit("npm error 404 no such thing")
shutil.copy({archive!r}, to)
"""


def test_clients_bring_packages(tmp_path, monkeypatch):
    """A stand-in for `npm pack`, and no `npm` at all."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"there is no npm on this machine \(it comes with Node"):
        bring("npm a@1")
    (tmp_path / "a.tgz").write_bytes(tar(TEXT))
    client = tmp_path / "npm"
    client.write_text(CLIENT.format(python=sys.executable, archive=str(tmp_path / "a.tgz")))
    client.chmod(0o755)
    with pytest.raises(DataError, match="npm a@2: npm error 404 no such thing"):
        bring("npm a@2")
    assert len(bring("npm a@1")) == 2


def test_a_wheel_is_read_too(tmp_path, monkeypatch):
    def download(command):
        assert command[1:4] == ["-m", "pip", "download"] and command[-1] == "a==1"
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "a.whl", "w") as wheel:
            for name, content in TEXT.items():
                wheel.writestr(name, content)

    monkeypatch.setattr(packages, "_call", download)
    assert len(bring("pypi a==1")) == 2


def test_the_table_is_whole():
    rows = packages.packages()
    places = [file.to for row in rows for file in row.files if file.to]
    assert len(set(places)) == len(places) and all(row.sources for row in rows)
    assert {row.stage for row in rows} == set(page_files.STAGES)
    for row in rows:
        for source in row.sources:
            fits = r"https://github\.com/\S+|npm \S+@[\d.][\w.-]*|pypi \S+==[\w.]+"
            assert re.fullmatch(fits, source), source
            assert row.version in source or not source.startswith("npm"), source
        assert row.imported == "" or row.files[0].to.endswith(".js")
    with pytest.raises(DataError, match="is no table of packages"):
        packages.packages(ROOT / "README.md")


def test_imports_become_relative():
    places = {"@a/state": "editor/state.js", "elt": "lib/elt.js"}
    text = "import { A } from '@a/state';\nimport elt from \"elt\"; const x = 'from', y = 'elt';\n"
    assert packages.linked(text, "editor/view.js", places) == (
        "import { A } from './state.js';\nimport elt from \"../lib/elt.js\"; "
        "const x = 'from', y = 'elt';\n"
    )
    own = "import './own.js'; export * from '../x.js';"
    assert packages.linked(own, "editor/view.js", places) == own
    with pytest.raises(DataError, match=r"editor/view.js imports '@a/view', which"):
        packages.linked("import {V} from '@a/view'", "editor/view.js", places)


# -- this project ----------------------------------------------------------------------------------


def test_the_archive_is_the_same_each_time_and_holds_no_more_than_a_page_needs():
    """What students begin with is in it, and no solution."""
    files = slim.files()
    first = slim.pack(files)
    assert first == slim.pack(dict(reversed(files.items()))) and len(first) < 2_000_000
    assert first != slim.pack(files | {"helpers/more.py": b""})
    names = zipfile.ZipFile(io.BytesIO(first)).namelist()
    needed = ("helpers/__init__", "helpers/page/in_browser", "helpers/page/live", "nogpu/clang")
    assert {*(f"{name}.py" for name in needed), "nogpu/clang_cuda/prelude.h"} <= set(names)
    odd = (
        "helpers/draw", "helpers/page/explorers", "helpers/__main__", "tilelabs/grading", "tools",
    )  # fmt: skip
    assert not [name for name in names if name.startswith(odd) or name.endswith((".ipynb", ".xz"))]
    texts = {name: files[name].decode() for name in files if name.startswith(("book/", "labs/"))}
    assert "labs/1_coalescing/starter_scaled.cu" in texts
    assert not [name for name in texts if "rehears" in name]
    page = texts["book/deeper_06_tiling.md"]
    assert "### Exercise 06.2" in page and 'check("06.2", mine)' in page
    book = "\n".join(text for name, text in texts.items() if name.startswith("book/"))
    assert "dropdown" not in book and "Solution" not in book
    assert "dropdown" in slim.pages()["deeper_06_tiling"]
    assert len(book) < 23_000 < sum(map(len, slim.pages().values()))


def test_all_that_is_stored_of_a_name_is_taken():
    found = slim.whole(['extern "C" __global__ void repaired(float* x) {}'])
    assert set(found) == {"repaired.json", "repaired.unpacked"}
    assert len(found["repaired.unpacked"]["programs"]) == 1
    assert found["repaired.json"]["compiler"].startswith("NVRTC")
    known = {compiled.file_of(text) for text in slim.sources()}
    assert known > {"repaired", "flat", "add", "roles"}
    with pytest.raises(DataError, match="nothing of unheard is stored"):
        slim.whole(["__global__ void unheard() {}"])


def test_modules_follow_imports_also_inside_functions():
    text = "import a.b\ndef f():\n    from . import c\n    from ..d import e\nif TYPE_CHECKING:\n    import g\n"
    assert set(slim._imports(ast.parse(text), "p.q")) == {"a.b", "p.q", "p.q.c", "p.d", "p.d.e"}


def test_each_cell_of_the_book_is_stored():
    assert {k.name for k, _ in slim.cells()} > {"naive_core", "tiled_32_core", "fp32_sliced"}
    assert len(slim.sliders()) == sum(page.count("\nlive.tile(") for page in slim.pages().values())
    changed = cores["naive_core"].source.replace("0.0f", "0.5f", 1)
    with pytest.raises(DataError, match="is not stored in"):
        slim.programs([(cores["naive_core"], changed)])


def test_unpacked_programs_are_read(tmp_path, monkeypatch):
    k = catalog["tiled_32"]
    for name, content in slim.programs([(k, None)]).items():
        (tmp_path / name).write_text(json.dumps(content))
    request = (k.source, k.source_name, "sm_75", (("TILE", "32"),), (), ())
    before = compiled.program(*request), compiled.find(k.source, "sm_75", (("TILE", "32"),), ())
    monkeypatch.setattr(project, "stored", tmp_path)
    monkeypatch.setitem(sys.modules, "lzma", None)
    assert before[0] is not None and compiled.program(*request) == before[0]
    now = compiled.find(k.source, "sm_75", (("TILE", "32"),), ())
    assert before[1] is not None and now is not None and now.kernels == before[1].kernels
    (tmp_path / "tiled.unpacked").write_text("{")
    compiled._archive.cache_clear()
    with pytest.raises(DataError, match="is damaged"):
        compiled.program(*request)
    compiled._archive.cache_clear()


# -- the folder ------------------------------------------------------------------------------------


NUMPY = "numpy-2.0.2-cp312-cp312-pyodide_2024_0_wasm32.whl"


def listed(wheel):
    """Pyodide's list of packages, with this one of NumPy."""
    numpy = {"file_name": NUMPY, "sha256": hashlib.sha256(wheel).hexdigest()}
    return json.dumps(
        {"info": {"version": "0"}, "packages": {"numpy": numpy, "other": {}}}
    ).encode()


def given(row, say):
    """Files of a package as if they had been fetched."""
    wheel = f"// {NUMPY}\n".encode()
    return {
        f: listed(wheel) if f.to == page_files.LOCK else f"// {f.member}\n".encode()
        for f in row.files
    }


def test_the_folder_is_brought_to_what_is_wanted(tmp_path, monkeypatch):
    monkeypatch.setattr(page_files, "bring", given)
    monkeypatch.setattr(slim, "archive", lambda: b"zip")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "gone.js").write_text("")
    written, count = page_files.write(tmp_path)
    assert written == count and not (tmp_path / "old").exists()
    assert page_files.write(tmp_path) == (0, count)
    stages = json.loads((tmp_path / "manifest.json").read_text())["stages"]
    assert list(stages) == list(page_files.STAGES)
    for files in stages.values():
        assert files and all((tmp_path / f["path"]).stat().st_size == f["bytes"] for f in files)
    (book,) = (file for file in stages["emulator"] if file["path"] == "book.zip")
    assert book == {"path": "book.zip", "bytes": 3, "key": hashlib.sha256(b"zip").hexdigest()[:16]}
    numpy = json.loads((tmp_path / page_files.LOCK).read_text())["packages"]
    assert list(numpy) == ["numpy"] and numpy["numpy"]["file_name"] == f"../{NUMPY}"
    licences = (tmp_path / "licences.txt").read_text()
    for row in packages.packages():
        assert f"{row.name} {row.version}, {row.licence}" in licences
    tampered = tmp_path / "book.zip"
    tampered.write_bytes(b"zap")
    assert page_files.write(tmp_path) == (1, count) and tampered.read_bytes() == b"zip"


def test_another_numpy_than_pyodides_is_refused():
    for other in ({NUMPY: ("", b"wheel of another release")}, {"numpy-9.whl": ("", b"wheel")}):
        with pytest.raises(DataError, match="another NumPy"):
            page_files.lock(listed(b"wheel"), other)


@pytest.mark.parametrize("arguments", [["PAGE=1"], [], ["PAGE=0"]])
def test_make_fills_the_folder_where_it_is_asked_for(arguments):
    env = {k: v for k, v in os.environ.items() if k not in ("PAGE", "MAKEFLAGS")}
    line = ["make", "-n", "-o", ".venv/.book", "book", *arguments]
    made = completed(line, cwd=ROOT, check=True, env=env).stdout
    wanted = arguments == ["PAGE=1"]
    assert ("-m tools.page_files" in made) == ("pages run >> _build/inputs.new" in made) == wanted
    assert ("rm -rf _build/html/run" in made) == (not wanted)


# -- the script ------------------------------------------------------------------------------------

PAGES = {
    "index": "<p>nothing</p>",
    "cell": '<pre><span class="cp">%%cuda naive_core</span></pre>',
    "slider": '<div class="tile-note" data-slide="live.tile(&quot;tiled_32&quot;)"></div>',
    "prose": "<p>a cell of <code>%%cuda</code></p>",
}


@pytest.mark.parametrize("wanted", [True, False])
def test_pages_that_run_load_the_script_where_it_is_asked_for(tmp_path, monkeypatch, wanted):
    monkeypatch.setenv("TILE_PAGE", "1" if wanted else "")
    source, built = tmp_path / "source", tmp_path / "built"
    source.mkdir()
    for name, body in PAGES.items():
        raw = f".. raw:: html\n\n   {body}\n"
        (source / f"{name}.rst").write_text(f":orphan:\n\n{name}\n======\n\n{raw}")
    shown = [str(ROOT / "book" / "_static")]
    sphinx(source, built, extensions=["book_run"], html_static_path=shown)
    have = {name for name in PAGES if "run.js" in (built / f"{name}.html").read_text()}
    assert have == ({"cell", "slider"} if wanted else set())
    assert (built / "_static" / "run.js").exists() == wanted
    assert (built / "_static" / "tile.css").exists()
