"""The whole C++ program of chapter 4: it compiles with nvcc, and what it says is true."""

from __future__ import annotations

import re
import shutil

import pytest

from nogpu import device
from tests.common import ROOT, completed, texts_of

FILE = ROOT / "kernels" / "host" / "04_multiply.cu"
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")

needs_nvcc = pytest.mark.skipif(NVCC is None, reason="no nvcc here: this test did not run")


def built(folder, source, arch):
    """The program of this source, compiled as its first lines say."""
    (folder / FILE.name).write_text(source, encoding="utf-8")
    command = re.search(r"(?m)^//   nvcc (.*) kernels/host/\S+ -o (\w+)$", source)
    assert command
    options = (
        command[1].replace("sm_75", arch).replace("-Ikernels", f"-I{ROOT / 'kernels'}").split()
    )
    out = folder / command[2]
    line = [str(NVCC), *options, str(folder / FILE.name), "-o", str(out)]
    done = completed(line)
    assert done.returncode == 0, done.stderr
    return out


def test_chapter_4_shows_the_program_folded_and_its_calls_in_a_table():
    pages = "\n".join(texts_of("04"))
    [listing] = re.findall(rf"(?ms)^:::\{{kernel\}} host/{FILE.name}\n(.*?)^:::$", pages)
    assert ":folded:" in listing
    program = FILE.read_text(encoding="utf-8")
    for call in ("cudaMalloc", "cudaMemcpyHostToDevice", "cudaGetLastError", "cudaFree"):
        assert f"{call}" in program
        assert re.search(rf"^\| .*{call}", pages, re.M), f"{call} is not explained"
    bare = re.findall(r"^\s*(cuda[A-Z]\w+)\(", program, re.M)
    assert not bare, f"not checked: {bare}"


@needs_nvcc
def test_the_program_compiles_and_reports_an_error_with_its_line(tmp_path):
    source = FILE.read_text(encoding="utf-8")
    program = built(tmp_path, source, "sm_75")
    bad = completed([program, "0"])
    assert bad.returncode == 2 and "each at least 1" in bad.stderr
    if device.current() is None:
        done = completed([program])
        line = next(
            i for i, text in enumerate(source.splitlines(), 1) if "cudaMalloc(&A_gpu" in text
        )
        assert done.returncode == 1
        assert re.search(rf"{FILE.name}:{line}: \w+", done.stderr)


@pytest.mark.gpu
@needs_nvcc
def test_the_program_multiplies_any_shape(tmp_path):
    gpu = device.current()
    assert gpu is not None
    source = FILE.read_text(encoding="utf-8")
    program = built(tmp_path, source, gpu.arch)
    for shape in (("1000", "700", "500"), ("1", "1", "1"), ("33", "65", "7")):
        done = completed([program, *shape])
        assert done.returncode == 0, done.stderr
        assert ", 0 of 1000 elements wrong" in done.stdout
    swapped = source.replace("grid(cdiv(M, BX), cdiv(N, BY))", "grid(cdiv(N, BX), cdiv(M, BY))")
    wrong = completed([built(tmp_path, swapped, gpu.arch)])
    assert wrong.returncode == 1 and ", 0 of 1000" not in wrong.stdout
