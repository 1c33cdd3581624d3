"""The command line: what it prints, JSON that parses, `error:` and status 2 for bad input."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from helpers import __main__ as cli
from helpers.ladder.rungs import catalog
from helpers.record import store
from nogpu import device
from nogpu.errors import ConfigError
from tests.common import ROOT, completed
from tests.test_measure import gpu, record, recorded
from tools.recorder import commands

__all__ = ["gpu", "recorded"]  # fixtures


def run(capsys, *arguments):
    """Status, stdout and stderr of a command, in this process."""
    status = cli.main(arguments)
    out, err = capsys.readouterr()
    return status, out, err


def fails(capsys, *arguments):
    """The message of a command that must fail, with nothing on stdout."""
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert err.startswith("error: ")
    return err


@pytest.mark.parametrize(("command", "json"), [("", False), *((c[0], c[3]) for c in cli.COMMANDS)])
def test_every_command_explains_itself(command, json, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([*([command] if command else []), "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert "usage: python -m helpers" in shown and ("--json" in shown) is json


def test_a_command_loads_what_it_needs_itself():
    code = (
        "import sys; from helpers import __main__ as cli; cli.make_parser({!r}); "
        "print({{name.split('.')[0] for name in sys.modules}} & {{'tilelabs', 'tools', 'unittest'}})"
    )
    for command, others in (("", False), ("info", False), ("check", True), ("record", True)):
        done = completed([sys.executable, "-c", code.format(command)], cwd=ROOT, check=True)
        assert (done.stdout.strip() != "set()") is others, done.stdout


def test_what_lies_in_tools_says_where_it_is_to_be_had(capsys, monkeypatch, tmp_path):
    """An installed package has no tools/: its other commands work, and these say what to do."""
    monkeypatch.setattr(cli, "ROOT", tmp_path)
    for command in ("record", "sweep", "tune", "verify", "notebooks"):
        assert "Clone the repository and run it there" in fails(capsys, command, "--plan")
    assert run(capsys, "cache", "--json")[0] == 0


def test_it_runs_as_a_program():
    line = [sys.executable, "-m", "helpers", "info", "--json"]
    done = completed(line, cwd=ROOT, check=True)
    info = json.loads(done.stdout)
    assert info["kernels"] == list(catalog)
    assert info["backend"] == ("cuda" if device.current() else "emulator")
    line = [sys.executable, "-m", "helpers", "ladder", "--gpu", "nonesuch", "--json"]
    bad = completed(line, cwd=ROOT)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("error: ")
    assert "Traceback" not in bad.stderr


def test_info_in_words(recorded, capsys):
    status, out, _ = run(capsys, "info")
    assert status == 0
    for part in ("NVRTC", "tiled_32", "9 points of 3 kernels", "recorded on NVIDIA H200"):
        assert part in out
    shutil.rmtree(store.FOLDER)
    status, out, _ = run(capsys, "info")
    assert status == 0 and "none in data/measurements" in out


def test_ladder_as_json(recorded, capsys):
    status, out, err = run(capsys, "ladder", "--gpu", "h200", "--size", "1024", "--json")
    assert (status, err) == (0, "")
    rows = json.loads(out)
    assert [row["kernel"] for row in rows] == ["naive", "tiled_32", "cublas_fp32"]
    for row in rows:
        named = {"kernel", "size", "ms", "gflops", "cublas_ratio", "baseline", "recorded"}
        assert set(row) == named
        assert {"gpu", "date", "commit", "driver", "cuda", "cublas"} <= set(row["recorded"])


def test_ladder_in_words(recorded, capsys):
    record(kernels=("naive_int",), sizes=((2048, 2048, 2048),), skip_above={"naive_int": 64})
    record(kernels=("naive", "coalesced_int"), sizes=((2048, 2048, 2048),))
    status, out, _ = run(capsys, "ladder", "--size", "2048")
    assert status == 0
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert lines["naive"].split()[-1] == "cublas_fp32"
    assert lines["coalesced_int"].split()[-2:] == ["-", "none"]  # no share of cuBLAS
    assert "not measured here: naive_int: slow" in out
    assert "recorded on NVIDIA H200" in out


def test_ladder_of_what_was_not_recorded(recorded, capsys):
    assert "h200" in fails(capsys, "ladder", "--gpu", "h20")
    assert "1024x1024x1024" in fails(capsys, "ladder", "--size", "4096")
    for size in ("0", "big", "1x2", "-5", "1024x"):
        assert "size" in fails(capsys, "ladder", f"--size={size}")


def test_a_damaged_record_is_one_clear_line(recorded, capsys):
    (store.FOLDER / "h200.json").write_text("[", encoding="utf-8")
    assert "damaged" in fails(capsys, "ladder", "--json")
    assert "damaged" in fails(capsys, "info")


def loads(rows, array):
    """The row of the loads of one array."""
    return next(r for r in rows if (r["array"], r["op"], r["space"]) == (array, "load", "global"))


def test_trace_shows_what_coalescing_is_about(capsys):
    found = {}
    for kernel in ("naive", "coalesced"):
        status, out, err = run(
            capsys, "trace", kernel, "-m", "64", "-n", "64", "-k", "64", "--json"
        )
        assert (status, err) == (0, "")
        found[kernel] = json.loads(out)
        for row in found[kernel]:
            assert {"line", "requests", "sectors_per_request", "wavefronts_per_request"} <= set(row)
    assert loads(found["naive"], "A")["sectors_per_request"] == 32
    assert loads(found["coalesced"], "B")["sectors_per_request"] == 4


def test_trace_in_words_and_with_tiles(capsys):
    line = ("trace", "tiled_8", "-m", "9", "-n", "8", "-k", "7", "--param", "TILE=4")
    status, out, _ = run(capsys, *line)
    assert status == 0 and "TILE=4" in out and "wavefronts_per_request" in out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("trace", "tiled_23"), "tiled_32"),
        (("trace", "naive", "-m", "0"), "M=0"),
        (("trace", "tiled_8", "--param", "TILE=64"), "TILE"),
        (("trace", "tiled_8", "--param", "TILE"), "NAME=NUMBER"),
        (("trace", "naive", "--param", "TILE=8"), "BX"),
        (("record", "--kernels", "tiled_23"), "tiled_32"),
        (("record", "--skip-above", "naive"), "KERNEL:EDGE"),
        (("record", "--skip-above", "tiled_23:64"), "tiled_32"),
        (("record", "--sizes", "64,zero"), "size"),
        (("record", "--gpu", "t4"), "wrong name"),
    ],
    ids=str,
)
def test_bad_arguments(line, words, gpu, capsys):
    assert words in fails(capsys, *line)
    assert not store.FOLDER.exists()


@pytest.mark.skipif(device.current() is not None, reason="there is a GPU here")
def test_record_without_a_gpu(capsys, tmp_path):
    message = fails(capsys, "record", "--gpu", "h200", "--out", str(tmp_path / "h200.json"))
    assert "needs an NVIDIA GPU" in message
    assert "Nothing was written" in message
    assert list(tmp_path.iterdir()) == []
    assert "needs an NVIDIA GPU" in fails(capsys, "ladder", "--live")


def test_record(gpu, capsys):
    arguments = ("record", "--gpu", "h200", "--kernels", "naive,tiled_32", "--commit", "abc")
    status, out, _ = run(capsys, *arguments, "--sizes", "64,128", "--skip-above", "naive:64")
    assert status == 0
    assert "3 points measured" in out
    assert "left out above 64" in out
    assert "about" in out  # an estimate of what is left
    status, out, _ = run(capsys, *arguments, "--sizes", "64,128", "--seconds", "0", "--again")
    assert status == 0
    assert "Run the same command again" in out
    gpu.wrong = frozenset({"naive"})
    status, _, err = run(capsys, *arguments, "--sizes", "64", "--again")
    assert status == 1
    assert "wrong result" in err


def test_arguments_are_parsed():
    assert commands.parse_sizes("64,1024x1024x768, 64") == ((64, 64, 64), (1024, 1024, 768))
    assert commands.parse_skip(["naive:4096"]) == {"naive": 4096}
    assert cli.parse_params(["BM=64", "BK=8"]) == {"BM": 64, "BK": 8}
    assert commands.parse_names("naive, tiled_8,") == ("naive", "tiled_8")
    with pytest.raises(ConfigError):
        cli.parse_size("1024x1024")


def test_json_has_no_nan(capsys):
    import numpy as np

    cli.print_json({"a": float("nan"), "b": [np.float32(1.5), np.int64(2)], "c": (None, True)})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1.5, 2], "c": [None, True]}


def test_the_ladders_picture(recorded, capsys, tmp_path):
    out = tmp_path / "figures" / "ladder.svg"
    status, output, _ = run(capsys, "figures", "--size", "1024", "--out", str(out))
    assert (status, output.strip()) == (0, str(out))
    assert "<svg" in out.read_text(encoding="utf-8")


def test_an_interrupt_is_no_traceback(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run_info", interrupted)
    assert cli.main(["info"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_file_is_run_and_not_traced(tmp_path, capsys):
    file = tmp_path / "my.cu"
    file.write_text(
        "//! grid=1 block=32 a=32\n__global__ void f(float* a) { a[threadIdx.x] += 1; }\n"
    )
    assert cli.main(["trace", str(file)]) == 2
    assert f"type: python -m helpers run {file}" in capsys.readouterr().err
    assert cli.main(["run", str(file)]) == 0
    assert "no findings" in capsys.readouterr().out
    assert cli.main(["run", str(file), "--arg", "a=31"]) == 1
    assert cli.main(["run", str(tmp_path / "none.cu")]) == 2
