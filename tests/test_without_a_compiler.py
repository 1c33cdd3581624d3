"""Where neither NVRTC nor clang is: what the pages compile runs from stored PTX, and all else says
so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers import matmul, trace
from helpers.ladder import usage
from helpers.ladder.rungs import lay_out
from helpers.page.workbench import mine
from nogpu import compiled, emulator, project, toolchain
from nogpu.errors import CompileError, DataError, ToolchainError
from tests.common import ROOT
from tools import compiled as writer


def test_the_books_kernels_run(bare):
    assert not toolchain.available() and toolchain.compiler().endswith("(stored)")
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((45, 70)), rng.standard_normal((70, 33))
    A, B = A.astype(np.float32), B.astype(np.float32)
    np.testing.assert_allclose(matmul("tiled_32", A, B), A @ B, atol=1e-3)


@pytest.mark.nvrtc
def test_they_count_as_with_the_compiler(request):
    def counts():
        found = trace("tiled_32", 64, 64, 64).by_line()
        return [(a.line, a.text, a.requests, a.sectors, a.wavefronts) for a in found]

    before = counts()
    request.getfixturevalue("bare")
    assert trace("tiled_32", 64, 64, 64).report.compiler.endswith("(stored)")
    assert counts() == before


def test_what_is_not_stored_says_what_to_install(bare):
    text = "__global__ void k(int* x) { x[0] = 7; }"
    with pytest.raises(ToolchainError, match=r"no compiler, and stored is what the book's pages"):
        emulator.launch(text, "k", 1, 1, [np.zeros(1, np.int32)])
    assert "was not compiled" in repr(mine("__global__ void k() { }", grid=1, block=1, args=[]))


def test_another_text_name_or_header_is_another_program(tmp_path, monkeypatch):
    """A header beside a header decides, too."""
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "outer.cuh").write_text('#include "inner.cuh"\n')
    monkeypatch.setattr(project, "include_folders", [tmp_path])
    quoted, options = 'int x;\n#include "common/outer.cuh"\n', ("sm_75", (), ())
    angular = quoted.replace('"common/outer.cuh"', "<common/outer.cuh>")
    keys = []
    for text in ("int y;", "int z = 1;"):
        (tmp_path / "common" / "inner.cuh").write_text(text)
        for source, name in (
            (quoted, "a.cu"),
            (quoted + " ", "a.cu"),
            (quoted, "b.cu"),
            (angular, "a.cu"),
        ):
            keys.append(compiled.program_key(source, name, *options, ()))
            assert keys[-1] == compiled.program_key(source, name, *options, ())
        keys += [compiled.key(source, *options) for source in (quoted, angular)]
    assert len(set(keys)) == len(keys) == 12


def test_a_refused_source_is_refused_alike(tmp_path, bare):
    source = "__global__ void k() { oops }"
    key = compiled.program_key(source, "kernel.cu", "sm_75", (), (), ())
    row = compiled.Program("", {}, "", ("kernel.cu does not compile", "kernel.cu(1): error", ""))
    writer.write(tmp_path, "k", writer.Stored(programs={key: (row, None)}), "NVRTC 13.0")
    bare.setattr(project, "stored", tmp_path)
    with pytest.raises(CompileError) as caught:
        toolchain.compile(source)
    assert caught.value.log == "kernel.cu(1): error"


def test_no_file_and_a_damaged_one(tmp_path, bare):
    request = ("__global__ void k() {}", "k.cu", "sm_75", (), (), ())
    for folder in (None, tmp_path):
        bare.setattr(project, "stored", folder)
        assert compiled.program(*request) is None and compiled.compiler() == ""
    for name in ("k.xz", "k.json"):
        (tmp_path / name).write_bytes(b"no archive")
    compiled._table.cache_clear(), compiled._archive.cache_clear()
    with pytest.raises(DataError, match=r"k\.xz is damaged.*tools\.compiled"):
        compiled.program(*request)
    with pytest.raises(DataError, match=r"k\.json is damaged.*tools\.compiled"):
        compiled.find("__global__ void k() {}", "sm_75", (), ())


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ('extern "C" __global__ void Wide_2(int* x) {}', "wide_2"),
        (
            "// __global__ void no(\ntemplate <int N> __global__\nvoid tile(float (&x)[N]) {}",
            "tile",
        ),
        ("__global__ void __launch_bounds__(f((BM / 2) * g(1)), 2)\n fast(int) {}", "fast"),
        ("__launch_bounds__(64) __global__ void first() {}\n__global__ void second() {}", "first"),
        ("__device__ int f(int) { return 1; }", "nameless"),
    ],
)
def test_a_source_is_filed_under_its_first_kernel(source, name):
    assert compiled.file_of(source) == name


def test_only_the_files_asked_for_are_read(bare):
    compiled._table.cache_clear(), compiled._archive.cache_clear()
    read = []
    load = Path.read_bytes
    bare.setattr(Path, "read_bytes", lambda path: read.append(path.name) or load(path))
    assert usage.compile_launch(lay_out("tiled_32", 32, 32, 32)).ptx
    assert [name for name in read if name.endswith(".xz")] == ["tiled.xz"]


def test_the_reader_needs_no_lzma_until_it_unpacks():
    program = (
        "import sys; sys.modules['lzma'] = None\nfrom helpers import catalog\nfrom nogpu import"
        " compiled\nassert compiled.find(catalog['tiled_32'].source, 'sm_90', (('T', 'float'),),"
        " ()) is None\nassert compiled.compiler()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A folder of kernels with one in it, compiled and stored beside it."""
    kernel = tmp_path / "kernels" / "one.cu"
    kernel.parent.mkdir()
    kernel.write_text("__global__ void one(int* x) { x[0] = 1; }\n")
    monkeypatch.setattr(writer, "KERNELS", kernel.parent)
    monkeypatch.setattr(project, "stored", tmp_path / "stored")
    notes = writer.Notes()
    with writer.noting(notes):
        toolchain.compile(kernel.read_text()).kernels["_Z3onePi"]
        toolchain.compile("__global__ void two(int* x) { x[0] = 2; }")
    assert writer.save(writer.content(notes), tmp_path / "stored", "NVRTC 13.0") == ["one", "two"]
    return kernel


@pytest.mark.nvrtc
def test_a_changed_kernel_changes_its_own_files_alone(shelf):
    folder = shelf.parent.parent / "stored"
    stored = writer.read(folder)
    assert writer.stale(stored) == {} and writer.save(stored, folder, "NVRTC 13.0") == []
    shelf.write_text("// another\n__global__ void one(int* x) { x[0] = 1; }\n")
    old = writer.stale(stored)  # PTX says the lines of its source; registers are still those
    assert {name: len(keys) for name, keys in old.items()} == {"one": 1}
    shelf.write_text("__global__ void one(int* x) { x[0] = 11; }\n")
    old, notes = writer.stale(stored), writer.Notes()
    assert {name: len(keys) for name, keys in old.items()} == {"one": 2}
    with writer.noting(notes):
        writer.compile_again(stored, old, notes)
    made = writer.content(notes)
    assert list(made) == ["one"] and writer.stale(stored | made) == {}
    assert (len(made["one"].rows), len(made["one"].programs)) == (1, 1)
    assert writer.save(stored | made, folder, "NVRTC 13.0") == ["one"]
    assert "11;" in made["one"].programs.popitem()[1][0].ptx
    shelf.unlink()
    assert set(writer.stale(writer.read(folder))) == {"one"}


def test_no_path_of_a_machine_is_stored():
    stored = writer.read(ROOT / "data" / "compiled")
    text = "\n".join(p.ptx + p.log for s in stored.values() for p, _ in s.programs.values())
    files = re.findall(r'\.file\s+\d+\s+"([^"]*)"', text)
    assert files and not any(name.startswith("/") for name in files)
    assert len(text) > 10**7 and "site-packages" not in text and str(Path.home()) not in text
    assert writer.placeless('.file 1 "/some/where/kernels/06.cu"') == '.file 1 "kernels/06.cu"'
    assert writer.placeless('.file 1 "/tmp/apart-x1/your_16.cu"') == '.file 1 "your_16.cu"'
