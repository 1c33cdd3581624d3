"""The cache on disk: a second process compiles nothing, and whatever changes compiles anew."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import tracemalloc
import zlib

import pytest

from helpers import __main__ as cli
from nogpu import disk, toolchain
from nogpu.errors import CompileError
from tests.common import ROOT, completed

SOURCE = """
#include "scale.cuh"
extern "C" __global__ void k(float* out) { out[threadIdx.x] = FACTOR * scale(threadIdx.x); }
"""
HEADER = "__device__ float scale(int i) { return 2.0f * i; }\n"

RUN = """
import json, sys
import numpy as np
from helpers import emulator
from nogpu import disk
asked = json.loads(sys.argv[1])
out = np.zeros(32, np.float32)
emulator.launch(asked["source"], "k", 1, 32, [out], defines={"FACTOR": asked["factor"]},
                arch=asked["arch"])
print(json.dumps([disk.HITS, disk.MISSES, float(out[3])]))
"""

BOTH = {"compiled": 1, "translated": 1}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """A cache of this test alone, and an in-process cache that knows nothing of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(disk.SWITCH, raising=False)
    monkeypatch.delenv(disk.LIMIT, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.cuh").write_text(HEADER)
    toolchain._compile.cache_clear()
    disk.HITS.clear()
    disk.MISSES.clear()
    yield tmp_path
    toolchain._compile.cache_clear()


def command(**changes):
    given = {"source": SOURCE, "factor": 1, "arch": "sm_75"} | changes
    return [sys.executable, "-c", RUN, json.dumps(given)]


def process(root=ROOT, **changes):
    """(hits, misses, the third result) of a launch in a process of its own."""
    done = completed(command(**changes), env=os.environ | {"PYTHONPATH": str(root)})
    assert done.returncode == 0, done.stderr
    hits, misses, result = json.loads(done.stdout)
    return hits, misses, result


def entries():
    return sorted(disk.place().glob("*.kept"))


# -- hits and misses -------------------------------------------------------------------------------


def test_what_decides_the_program_makes_it_anew(own_folder):
    assert process() == ({}, BOTH, 6.0)
    assert process() == (BOTH, {}, 6.0)
    assert process(factor=3) == ({}, BOTH, 18.0)
    assert process(arch="sm_80")[1]["compiled"] == 1
    # A comment: compiled anew, and the same PTX is not translated again.
    assert process(source=SOURCE + "// more")[:2] == ({"translated": 1}, {"compiled": 1})
    assert process(source=SOURCE.replace("FACTOR *", "5 *")) == ({}, BOTH, 30.0)
    (own_folder / "scale.cuh").write_text(HEADER.replace("2.0f", "4.0f"))
    assert process() == ({}, BOTH, 12.0)
    (own_folder / "scale.cuh").write_text(HEADER)
    assert process() == (BOTH, {}, 6.0)


def test_headers_behind_a_header_and_those_that_are_only_asked_for_count(own_folder):
    texts = {"inner.cuh": HEADER, "scale.cuh": '#  include "inner.cuh"\n'}
    for name, text in texts.items():
        (own_folder / name).write_text(text)
    source = '#if __has_include("scale.cuh")\n#endif\n'
    assert disk.headers(source, []) == texts
    assert not disk.headers(source.replace("scale", "none"), [])


@pytest.mark.parametrize(
    ("file", "missed"),
    [
        ("packages/nogpu/nogpu/emulator/ptx/opcodes.py", {"translated": 1}),
        ("packages/nogpu/nogpu/emulator/launching/run.py", {"translated": 1}),
        ("packages/nogpu/nogpu/toolchain.py", {"compiled": 1}),
        ("packages/nogpu/nogpu/emulator/machine/arith.py", {}),  # runs programs, and makes none
        ("kernels/common/vector.cuh", {"compiled": 1}),
    ],
)
def test_the_code_that_makes_programs_counts(file, missed, tmp_path):
    house = tmp_path / "house"
    for name in ("helpers", "packages", "kernels", "data"):
        shutil.copytree(ROOT / name, house / name, ignore=shutil.ignore_patterns("__pycache__"))
    source = SOURCE.replace("scale.cuh", "common/vector.cuh").replace("scale(", "(")
    assert process(house, source=source)[1] == BOTH
    with (house / file).open("a") as changed:
        changed.write("// another line\n" if file.endswith(".cuh") else "\n# another line\n")
    assert process(house, source=source)[1] == missed


def test_another_release_of_the_compiler_counts(monkeypatch):
    def identity():
        return toolchain._identity("", "k.cu", "sm_75", (), (), ())

    tool, first = toolchain.nvrtc(), identity()
    assert identity() == first
    own = (tool.library, tool.version)
    others = ((tool.includes, tool.release + "."), ((*tool.includes, "more"), tool.release))
    for other in (toolchain.Nvrtc(*own, *rest) for rest in others):
        monkeypatch.setattr(toolchain, "nvrtc", lambda other=other: other)
        assert identity() != first


def test_a_new_library_is_another_release(tmp_path):
    library = tmp_path / "libnvrtc.so"
    library.write_bytes(b"one")
    (tmp_path / "cuda.h").write_text("#define CUDA_VERSION 13000\n")

    def release():
        return toolchain._release(library, (13, 0), [str(tmp_path)])

    first = release()
    assert release() == first
    (tmp_path / "cuda.h").write_text("#define CUDA_VERSION 130010\n")
    second = release()
    library.write_bytes(b"other")
    assert len({first, second, release()}) == 3


@pytest.mark.parametrize(
    ("source", "options", "kept"),
    [
        (SOURCE, (), True),
        (SOURCE, ("--use_fast_math",), True),
        (SOURCE, ("-include=a.h",), False),
        ('#define WHICH "scale.cuh"\n#include WHICH\n' + SOURCE, (), False),
        (SOURCE + "const char* when = __TIME__;\n", (), False),
    ],
)
def test_what_cannot_be_named_is_not_kept(source, options, kept):
    assert bool(toolchain._identity(source, "k.cu", "sm_75", (), options, ())) is kept


def test_everything_that_is_asked_decides_the_name():
    request = [SOURCE, "k.cu", "sm_75", (("A", "1"),), ("--use_fast_math",), ("f<1>",)]
    others = [SOURCE + " ", "l.cu", "sm_80", (("A", "2"),), ("-G",), ("f<2>",)]
    every = [request, *([*request[:at], x, *request[at + 1 :]] for at, x in enumerate(others))]
    names = [toolchain._identity(*each) for each in every]
    assert len(set(names)) == len(names)
    assert toolchain._identity(*request) == names[0]


def test_a_source_that_does_not_compile_is_not_kept():
    for _ in range(2):
        with pytest.raises(CompileError):
            toolchain.compile("__global__ void k(float* out) { out[0] = oops; }")
    assert entries() == []


def test_lists_of_texts_that_read_alike_have_different_names():
    assert disk.digest(["ab", "c"]) != disk.digest(["a", "bc"]) != disk.digest(["a", "b", "c"])
    assert disk.digest(["a"]) == disk.digest([b"a"])


# -- a folder that many use ------------------------------------------------------------------------


def test_two_processes_at_once(own_folder):
    run = {"stdout": subprocess.PIPE, "text": True, "env": os.environ | {"PYTHONPATH": str(ROOT)}}
    both = [subprocess.Popen(command(), **run) for _ in range(2)]
    assert [json.loads(p.communicate()[0])[2] for p in both] == [6.0, 6.0]
    assert len(entries()) == 2
    assert process()[0] == BOTH


def keep(name, size=1000):
    """An entry of about `size` bytes that do not get smaller."""
    return disk.load_or_make("test", name, lambda: os.urandom(size))


def test_an_entry_is_there_whole_or_not_at_all(monkeypatch):
    def fails(*paths):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fails)
    first = keep("a")
    assert list(disk.place().iterdir()) == []
    monkeypatch.undo()
    assert len(first) == 1000


def test_a_damaged_entry_is_thrown_away():
    process()
    for path in entries():
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw)
    assert process() == ({}, BOTH, 6.0)
    entries()[0].write_bytes(b"")
    one, other = {"translated": 1}, {"compiled": 1}
    assert process()[:2] in ((one, other), (other, one))
    assert process()[0] == BOTH


def test_a_sound_checksum_over_nonsense_is_no_error():
    first = keep("a")
    assert keep("a") == first
    other = zlib.compress(pickle.dumps(b"another entry"))
    entries()[0].write_bytes(entries()[0].read_bytes()[:32] + other)
    assert keep("a") not in (first, b"another entry")
    first = keep("a")
    nonsense = b"not a compressed pickle"
    entries()[0].write_bytes(hashlib.sha256(nonsense).digest() + nonsense)
    assert keep("a") != first


def test_the_least_recently_used_go_first(monkeypatch):
    monkeypatch.setenv(disk.LIMIT, "0.005")
    for at, name in enumerate("abcd"):
        keep(name)
        os.utime(disk.place() / f"test-{name}.kept", (at, at))
    keep("a")  # used again
    for name in "ef":
        keep(name)
    names = {path.name for path in entries()}
    assert {"test-a.kept", "test-f.kept"} <= names and "test-b.kept" not in names
    assert sum(path.stat().st_size for path in entries()) <= 5000
    keep("large", 6000)
    assert "test-large.kept" not in {path.name for path in entries()}
    monkeypatch.setenv(disk.LIMIT, "1")
    keep("large", 6000)
    assert "test-large.kept" in {path.name for path in entries()}


def test_what_a_killed_process_left_goes_after_an_hour():
    keep("a")
    old, new = disk.place() / "old.part", disk.place() / "new.part"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    keep("b")
    assert old.exists()  # a process that knows how full the folder is does not look every time
    disk._sizes.clear()
    keep("c")
    assert (old.exists(), new.exists()) == (False, True)


def test_what_other_processes_write_is_looked_at_now_and_then(monkeypatch):
    monkeypatch.setenv(disk.LIMIT, "0.1")
    keep("a")
    (disk.place() / "other-1.kept").write_bytes(bytes(99_000))
    os.utime(disk.place() / "other-1.kept", (1, 1))
    for n in range(disk._LOOK - 1):
        keep(f"b{n}", 10)
    assert (disk.place() / "other-1.kept").exists()
    keep("c")
    keep("d")
    assert not (disk.place() / "other-1.kept").exists()


# -- no cache --------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_made_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # root may write anywhere
    assert process() == ({}, {}, 6.0)
    assert not disk.contents().used


def test_it_can_be_turned_off(monkeypatch):
    process()
    monkeypatch.setenv(disk.SWITCH, "0")
    assert process() == ({}, {}, 6.0)
    monkeypatch.setenv(disk.SWITCH, "1")
    assert process()[0] == BOTH


def test_nothing_is_read_that_another_user_could_write(monkeypatch, tmp_path):
    first = keep("a")
    assert oct(disk.place().stat().st_mode & 0o777) == "0o700"
    assert oct(entries()[0].stat().st_mode & 0o777) == "0o600"
    assert keep("a") == first
    entries()[0].chmod(0o622)
    assert keep("a") != first  # and written anew, for us alone
    assert oct(entries()[0].stat().st_mode & 0o777) == "0o600"
    second = keep("a")
    disk.place().chmod(0o770)
    assert keep("a") != second
    disk.place().chmod(0o700)
    assert keep("a") == second
    moved = tmp_path / "elsewhere"
    entries()[0].rename(moved)
    (disk.place() / "test-a.kept").symlink_to(moved)
    assert keep("a") != second
    monkeypatch.setattr(os, "getuid", lambda: disk.place().stat().st_uid + 1)
    assert not disk.contents().used


# -- the command -----------------------------------------------------------------------------------


def test_the_command_says_what_is_there_and_clears_it(capsys):
    process()
    assert cli.main(["cache"]) == 0
    output = capsys.readouterr().out
    assert (
        str(disk.place()) in output and "1 compiled, 1 translated" in output and "256 MB" in output
    )
    assert cli.main(["cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kinds"] == BOTH
    assert cli.main(["cache", "--clear"]) == 0
    assert "2 entries" in capsys.readouterr().out and entries() == []
    assert process()[1] == BOTH
    cli.main(["cache", "--clear"])
    capsys.readouterr()
    cli.main(["cache"])
    assert "none" in capsys.readouterr().out


# -- in this process -------------------------------------------------------------------------------


def test_results_in_memory_are_bounded_by_weight():
    calls: list[int] = []

    def make(n):
        calls.append(n)
        return bytes(n)

    small = disk.bounded(100, len)(make)
    for n in (40, 41, 40, 42, 40, 41):
        assert len(small(n)) == n
    assert calls == [40, 41, 42, 41]  # 41 had gone, 40 was used in between
    assert small.total_weight <= 100
    small(1000)
    assert (len(small), small.total_weight) == (1, 1000)
    small.cache_clear()
    assert (len(small), small.total_weight) == (0, 0)


def test_the_weight_of_a_program_is_about_its_memory():
    import gc

    from nogpu.emulator.launching import run

    body = "".join(f"x = x * {i + 1.5}f + y; y = y / x + {i}.25f;\n" for i in range(400))
    body = f"float x = a[0], y = a[1]; {body} a[2] = x + y;"
    source = f'extern "C" __global__ void k(float* a) {{ {body} }}'
    compilation = run.Compilation(source, "k", "sm_75", (), "kernel.cu")
    run._program(compilation)
    run._program.cache_clear()
    gc.collect()
    tracemalloc.start()
    program, _ = run._program(compilation)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert program.weight / 2 < taken < 2 * program.weight
