"""The sweep of tiles, on a pretend H200 (the compiler is the real one)."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from helpers.ladder import usage
from helpers.ladder.kernel import broken_rules, geometry
from helpers.ladder.model import merit
from helpers.ladder.rungs import catalog
from helpers.record import protocol, stamps, store, tiles
from helpers.record.entries import Swept
from nogpu import device
from nogpu.errors import DataError, UnknownNameError
from tests.test_measure import H200, QUICK, FakeSession
from tools.recorder import campaign, tile_builds
from tools.recorder.sections import sweep as sweep_section
from tools.recorder.steps import Request

SIZE = (256, 256, 256)


class Session(FakeSession):
    """A pretend GPU: a tile's time grows as its threads' sums shrink; `wrong` names tiles."""

    wrong_tile: dict[str, int] | None = None

    def kernel_operation(self, plan, A, B, C, cubin=b""):
        assert len(cubin) > 100
        self.measured.append(plan.kernel.name)
        right = dict(plan.params) != self.wrong_tile

        def run():
            C["by"] = plan.kernel.name if right else "bad"

        sums = plan.params.get("TM", 1) * plan.params.get("TN", 1)
        run.ms = protocol.gflops(plan.M, plan.N, plan.K, 1.0) / (200.0 * sums)
        return run

    wrong = frozenset({"bad"})


def pretend(monkeypatch, folder, session):
    """A pretend H200 whose sessions are these, and an empty folder for records."""
    monkeypatch.setattr(store, "FOLDER", folder / "measurements")
    monkeypatch.setattr(sweep_section, "EFFORT", QUICK)
    monkeypatch.setattr(sweep_section, "compilers", threads)
    monkeypatch.setattr(campaign, "RecordingSession", session)
    monkeypatch.setattr(campaign, "require_gpu", lambda: H200)
    monkeypatch.setattr(stamps, "query", lambda *_: None)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A pretend H200, whose class a test may change."""

    class Own(Session):
        pass

    pretend(monkeypatch, tmp_path, Own)
    return Own


def threads(workers):
    return ThreadPoolExecutor(1)


def run(*kernels, say=lambda _: None, **options):
    request = Request(("sweep",), kernels=kernels, sizes=(SIZE,), workers=1, **options)
    return campaign.run(request, say)


def test_legal_tiles_are_those_that_can_be_planned():
    for name in ("tiled_32", "block_1d", "vectorised"):
        legal = tiles.legal_tiles(name)
        assert dict(catalog[name].params) in legal
        assert len({tuple(t.items()) for t in legal}) == len(legal)
        for tile in legal:
            geometry(catalog[name], 4096, 4096, 4096, **tile)
    assert broken_rules(catalog["block_1d"], BM=64, BN=64, BK=8, TM=4)
    assert {"BM": 64, "BN": 64, "BK": 8, "TM": 4} not in tiles.legal_tiles("block_1d")


def test_the_order_begins_with_the_defaults_and_then_the_best_predicted():
    h200 = device.gpu("h200")
    order = sweep_section.order(["tiled_32", "vectorised"], (4096,) * 3, h200)
    assert [name for name, _ in order[:2]] == ["tiled_32", "vectorised"]
    assert [tile for _, tile in order[:2]] == [
        dict(catalog[n].params) for n in ("tiled_32", "vectorised")
    ]
    merits = [merit(n, (4096,) * 3, h200, t) for n, t in order if n == "vectorised"][1:]
    default = merit("vectorised", (4096,) * 3, h200, dict(catalog["vectorised"].params))
    first = [m for m in dict.fromkeys(round(m, 9) for m in merits) if m != round(default, 9)]
    assert first == sorted(first, reverse=True) and len(first) > 20  # one tile of each merit
    seen = [t for n, t in order if n == "vectorised"][:12]
    assert len({(t["BM"], t["BN"], t["TM"], t["TN"]) for t in seen}) >= 4  # no run of variants
    assert all(0 < m <= 1 for m in merits)
    assert len(sweep_section.order(["vectorised"], (4096,) * 3, h200, limit=7)) == 7


def test_every_tile_is_timed_and_the_best_is_found(gpu):
    lines: list[str] = []
    outcome = run("block_1d", say=lines.append)
    legal = tiles.legal_tiles("block_1d", SIZE)
    assert (outcome.measured, outcome.present, outcome.pruned) == (len(legal), 0, 0)
    swept = store.read(outcome.path).of(Swept)
    assert len(swept) == len(legal)
    default, best = sweep_section.default_and_best(swept, "block_1d", SIZE)
    assert default is not None and best is not None
    assert best["params"]["TM"] == 16 and best["gflops"] == pytest.approx(3200, rel=1e-4)
    assert best["ms"] < default["ms"]
    assert best["registers"] >= 16 and best["blocks_per_sm"] >= 1
    assert default["spill_bytes"] == 0
    assert best["cublas_ratio"] == pytest.approx(3200 / 50000, rel=1e-4)
    assert set(store.RECORDED) <= set(best["recorded"])
    assert any("best BM=" in line and "times the default" in line for line in lines)
    assert sum(line.startswith("[") for line in lines) == len(legal)


def test_a_sweep_goes_on_where_it_stopped(gpu):
    stopped = run("block_1d", seconds=0.0)
    assert stopped.measured == 0 and len(stopped.left) == len(tiles.legal_tiles("block_1d", SIZE))
    run("tiled_32", limit=2)
    assert len(store.read(stopped.path).of(Swept)) == 2
    again = run("tiled_32")
    assert (again.present, again.measured) == (2, 2)
    assert run("tiled_32").measured == 0
    assert run("tiled_32", again=True).measured == 4


def test_a_wrong_tile_is_refused_and_the_others_go_on(gpu):
    gpu.wrong_tile = {"TILE": 16}
    outcome = run("tiled_32")
    assert len(outcome.refused) == 1 and "wrong result" in outcome.refused[0]
    assert outcome.measured == 3
    entries = store.read(outcome.path).of(Swept)
    bad = next(e for e in entries if e["params"] == {"TILE": 16})
    assert bad["ms"] is None and "wrong result" in bad["reason"]


def test_a_tile_that_spills_is_pruned_and_it_is_said():
    large = {"BM": 256, "BN": 256, "BK": 8, "TM": 16, "TN": 16}
    built = tile_builds.build("vectorised", large, "sm_90", (4096,) * 3)
    assert built.reason and not built.cubin
    tiles = ({**large, "TM": 8}, {**large, "TN": 8}, large)
    built = (tile_builds.build("vectorised", tile, "sm_75", (4096,) * 3) for tile in tiles)
    spills = next(b for b in built if b.reason)
    assert "spills" in spills.reason or "registers" in spills.reason
    good = tile_builds.build("vectorised", dict(catalog["vectorised"].params), "sm_90", (4096,) * 3)
    assert not good.reason and good.blocks_per_sm >= 1


def test_a_gpu_that_stops_leaves_what_was_timed(gpu):
    gpu.lost = "tiled_32 with TILE=8"
    with pytest.raises(Exception, match="stopped the GPU"):
        run("tiled_32")
    entries = store.read(store.FOLDER / "h200.json").of(Swept)
    assert any(e["reason"] and "stopped" in e["reason"] for e in entries)


def test_tiles_are_compiled_without_a_gpu(tmp_path):
    path = tmp_path / "tiles.json"

    def compile_tiles():
        return tile_builds.compile_tiles(
            ["tiled_32"], ["sm_90"], lambda _: None, path=path, compilers=threads
        )

    assert compile_tiles() == 4
    assert compile_tiles() == 0  # what is there stays
    data = tiles.read(path)
    expected = usage.resources("tiled_32", "sm_90", TILE=16)
    assert data["tiled_32"]["sm_90"]["16"] == [
        expected.registers, expected.spill_loads + expected.spill_stores, expected.shared_bytes
    ]  # fmt: skip
    data["tiled_32"]["source"] = "older"
    path.write_text(json.dumps(data), encoding="utf-8")
    assert compile_tiles() == 4
    path.write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="damaged"):
        tiles.read(path)
    with pytest.raises(UnknownNameError):
        tile_builds.compile_tiles(["tiled_32"], ["sm_12"], path=path)


def test_the_command_lists_the_order_without_a_gpu(capsys):
    from helpers.__main__ import main

    assert main(["sweep", "tiled_32", "--list"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].split()[:2] == ["tiled_32", "TILE=32"]
    if device.current() is None:
        assert main(["sweep", "tiled_32"]) == 2
