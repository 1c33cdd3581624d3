"""Where neither NVRTC nor clang is: what the pages compile runs from stored PTX, and all else says so."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from helpers import matmul, trace
from helpers.ladder.rungs import cores
from helpers.page.workbench import cell_magic, mine
from nogpu import clang, compiled, emulator, toolchain
from nogpu.errors import CompileError, DataError, ToolchainError


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without a compiler."""
    monkeypatch.delenv("TILE_COMPILER", raising=False)
    monkeypatch.setattr(toolchain, "has_nvrtc", lambda: False)
    monkeypatch.setattr(clang, "available", lambda: False)
    return monkeypatch


def test_the_books_kernels_run(bare: pytest.MonkeyPatch) -> None:
    assert not toolchain.available() and toolchain.compiler().endswith("(stored)")
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((45, 70)), rng.standard_normal((70, 33))
    A, B = A.astype(np.float32), B.astype(np.float32)
    np.testing.assert_allclose(matmul("tiled_32", A, B), A @ B, atol=1e-3)


@pytest.mark.nvrtc
def test_they_count_as_with_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def counts() -> list[tuple[object, ...]]:
        found = trace("tiled_32", 64, 64, 64).by_line()
        return [(a.line, a.text, a.requests, a.sectors, a.wavefronts) for a in found]

    before = counts()
    monkeypatch.delenv("TILE_COMPILER", raising=False)
    monkeypatch.setattr(toolchain, "has_nvrtc", lambda: False)
    monkeypatch.setattr(clang, "available", lambda: False)
    assert trace("tiled_32", 64, 64, 64).report.compiler.endswith("(stored)")
    assert counts() == before


def test_a_kernel_cell_as_a_notebook_holds_it_is_judged(bare: pytest.MonkeyPatch) -> None:
    text = cores["tiled_32_core"].source.rstrip()
    own = "// the book's own text"
    assert cell_magic("tiled_32_core", text).ok and cell_magic("tiled_32_core", own).ok
    changed = cell_magic("tiled_32_core", text.replace("0.0f", "0.5f", 1) + "\n")
    assert not changed.ok and "was not compiled" in repr(changed)


def test_what_is_not_stored_says_what_to_install(bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolchainError, match=r"no compiler, and stored is what the book's pages"):
        emulator.launch(
            "__global__ void k(int* x) { x[0] = 7; }", "k", 1, 1, [np.zeros(1, np.int32)]
        )
    assert "was not compiled" in repr(mine("__global__ void k() { }", grid=1, block=1, args=[]))


def test_another_text_name_or_header_is_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, asked = 'int x;\n#include "common/vector.cuh"\n', ("a.cu", "sm_75", (), (), ())
    first = compiled.program_key(held, *asked)
    assert first == compiled.program_key(held, *asked)
    assert first != compiled.program_key(held + " ", *asked)
    assert first != compiled.program_key(held, "b.cu", *asked[1:])
    header = tmp_path / "vector.cuh"
    header.write_text("int y;")
    monkeypatch.setattr(compiled, "headers", lambda _: (header,))
    edited = compiled.program_key(held, *asked)
    header.write_text("int z;")
    assert len({first, edited, compiled.program_key(held, *asked)}) == 3


def test_a_refused_source_is_refused_alike(tmp_path: Path, bare: pytest.MonkeyPatch) -> None:
    source = "__global__ void k() { oops }"
    key = compiled.program_key(source, "kernel.cu", "sm_75", (), (), ())
    row = compiled.Program("", {}, "", ("kernel.cu does not compile", "kernel.cu(1): error", ""))
    compiled.write_programs({key: row}, tmp_path / "some.xz")
    held = compiled.programs(tmp_path / "some.xz")
    bare.setattr(compiled, "programs", lambda: held)
    with pytest.raises(CompileError) as told:
        toolchain.compile(source)
    assert told.value.log == "kernel.cu(1): error"


def test_no_file_and_a_damaged_one(tmp_path: Path, bare: pytest.MonkeyPatch) -> None:
    assert compiled.programs(tmp_path / "none.xz") == {}
    (tmp_path / "bad.xz").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"damaged.*tests\.compiled"):
        compiled.programs(tmp_path / "bad.xz")


def test_no_path_of_a_machine_is_stored() -> None:
    text = "\n".join(p.ptx + p.log for p in compiled.programs().values())
    assert [
        name for name in re.findall(r'\.file\s+\d+\s+"([^"]*)"', text) if name.startswith("/")
    ] == []
    assert "site-packages" not in text and str(Path.home()) not in text
    assert compiled._placeless('.file 1 "/some/where/kernels/06.cu"') == '.file 1 "kernels/06.cu"'
