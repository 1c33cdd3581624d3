"""The cells that exercises give to begin with: all look the same until somebody changes them."""

from __future__ import annotations

import importlib.util
import re

import pytest

from helpers.page import exercises
from helpers.page.exercises import KernelTask, check, check_kernel_source
from helpers.page.exercises.registry import starter
from helpers.page.exercises.results import STARTER
from tests.test_exercises import sections

IMPORTS = "import numpy as np\nfrom helpers import *\nfrom helpers.page.exercises import check\n"
IDS = [e.id for chapter in exercises.chapters() for e in exercises.load(chapter)]


def cell(id):
    """The code of an exercise's first cell with a call of check."""
    [code] = [c for part in sections(starter(id)) for c in part.cells if f'check("{id}"' in c]
    return code


def given(id, folder, change=""):
    """What the cell hands to check, made in a module of its own, as a notebook keeps its source."""
    code = cell(id)
    call = re.search(rf'(?m)^check\("{id}",(.*)\)$', code)
    assert call, code
    code = code.replace(call[0], f"answer = [{call[1]}][0]")
    if change:
        code = re.sub(r"(?m)^(\s*)(return .*|sum [+]?= .*)$", rf"\1{change}\2", code, count=1)
    file = folder / f"starter_{id.replace('.', '_')}{len(change)}.py"
    file.write_text(IMPORTS + code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.answer


@pytest.mark.parametrize("id", IDS)
def test_an_untouched_starter_is_not_answered_yet(id, tmp_path):
    """And a kernel is told how it fares as it stands."""
    result = check(id, given(id, tmp_path))
    assert not result.passed
    assert result.verdict == "not answered yet", result
    assert 'tile-open"' in result._repr_html_()
    if exercises.find(id).kind in ("kernel", "repair"):
        assert result.starter and STARTER in repr(result)
        assert any(not c.ok for c in result.checks)


def test_a_changed_starter_is_an_answer(tmp_path):
    source = given("06.2", tmp_path)
    changed = check("06.2", source.replace("TILE", "TILE_", 1))
    assert changed.answered and changed.verdict.startswith("not yet")
    wavefronts = given("13.2", tmp_path, change="pass\n    ")
    assert check("13.2", wavefronts).answered


# -- what a wrong answer is told -------------------------------------------------------------------


def test_a_wrong_number_is_never_left_without_a_word():
    wrong = {"number": -12345.678, "choice": "none of them"}
    for id in IDS:
        if (kind := exercises.find(id).kind) in wrong:
            result = check(id, wrong[kind])
            assert not result.passed
            assert all(c.ok or c.hint or c.expected for c in result.checks), id


def test_a_header_of_the_host_does_not_stand_in_the_way(tmp_path):
    answer = given("06.2", tmp_path)
    verdicts = [c.ok for c in check("06.2", answer).checks]
    host = '\nint main() { printf("\\n"); }\n'
    with_host = f"#include <stdio.h>\n#include <vector>\n{answer}{host}"
    assert [c.ok for c in check("06.2", with_host).checks] == verdicts
    assert "no_such.h" in repr(check("06.2", "#include <cuda/no_such.h>\n" + answer))


WITHIN_A_WARP = """
extern "C" __global__ void add(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float s[64];
    s[threadIdx.x] = threadIdx.x;
    float t = s[(threadIdx.x + 1) % 32 + threadIdx.x / 32 * 32];
    for (int i = threadIdx.x; i < M * N; i += 64) C[i] = t;
}
"""


def test_a_warps_barrier_is_asked_for_where_it_is_enough():
    task = KernelTask("add", block=(64,), grid=(1,), shapes=((4, 4, 4),))
    messages = [str(c) for c in check_kernel_source(WITHIN_A_WARP, task) if not c.ok]
    assert any("put __syncwarp" in text for text in messages)
    assert not any("__syncthreads" in text for text in messages), messages
