"""The explorers: what the page shows is what Python computes, in a real browser, network off."""

from __future__ import annotations

import random
import re
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe

from helpers import matmul, trace
from helpers.ladder import model
from helpers.ladder.jobs import duties
from helpers.ladder.kernel import broken_rules
from helpers.ladder.rungs import catalog
from helpers.page import explorers
from helpers.page.explorers import _banks as bank_room
from helpers.page.explorers import _coalescing as sector_room
from helpers.page.explorers import _request as request_room
from helpers.page.explorers import _stepper as step_room
from helpers.page.explorers import _tile as tile_room
from helpers.page.explorers.core import Explorer, script, significant, text
from helpers.record import load, store
from helpers.record.entries import Point, Swept
from nogpu import device, emulator
from nogpu.errors import ConfigError
from tests.common import ROOT, serve
from tests.pages_check import FIND_CRAMPED

STEPPED = (
    "tiled_32_core",
    "warp_tiled_core",
    "block_1d_core",
    "block_2d_core",
    "vectorised_core",
    "cp_async_core",
)
LANES = "WM WN TM TN"
"""Sizes that the 32 lanes of a warp tie."""
MAKE: dict[str, Callable[[], Explorer]] = {
    "coalescing": explorers.coalescing,
    "request": explorers.request,
    "banks": explorers.banks,
    "occupancy": explorers.occupancy,
    "tile_tiled": lambda: explorers.tile("tiled_32"),
    "tile_1d": lambda: explorers.tile("block_1d"),
    "tile_2d": lambda: explorers.tile("block_2d"),
    "tile_warp": lambda: explorers.tile("warp_tiled", together=LANES),
    "tile_column": lambda: explorers.tile("block_1d", together="BM BN BK TM"),
    "roofline": explorers.roofline,
    "ladder": explorers.ladder,
    "hierarchy": explorers.hierarchy,
    "pipeline": explorers.pipeline,
    **{f"stepper_{name}": partial(explorers.stepper, name) for name in STEPPED},
}
COMBINATIONS = 2000
_made: dict[str, Explorer] = {}


def made(name: str) -> Explorer:
    """An explorer, made once for all tests."""
    if name not in _made:
        _made[name] = MAKE[name]()
    return _made[name]


def states(explorer: Explorer, most: int = COMBINATIONS) -> list[dict[str, Any]]:
    """Every state, or a random sample that holds the default and each control at both its ends."""
    if explorer.count() <= most:
        return list(explorer.states())
    rng = random.Random(5)
    found = [explorer.default]
    for c in explorer.controls:
        found += [{**explorer.default, c.name: v} for v in c.values]
    while len(found) < most:
        found.append({c.name: rng.choice(c.values) for c in explorer.controls})
    return found


PAGE = """<!DOCTYPE html><html lang="en"{attributes}><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Explorers</title>
<link rel="icon" href="data:,"><style>:root{{color-scheme:light dark}}
body{{font-family:sans-serif;background:Canvas;color:CanvasText;margin:0 auto;padding:0 12px;max-width:760px}}
</style></head><body><main><h1>Explorers</h1>{body}</main></body></html>"""


# -- Python alone ---------------------------------------------------------------------------------


def test_text_rounds_as_the_page_does() -> None:
    assert [text(x) for x in (0.5, 1.5, 2.5, 1234567.0)] == ["1", "2", "3", "1,234,567"]
    assert [text(x, 1) for x in (0.25, 0.05, 12.349)] == ["0.3", "0.1", "12.3"]
    assert [significant(x) for x in (0, 0.001234, 12.345, 98765.4)] == [
        "0",
        "0.00123",
        "12.3",
        "98,765",
    ]


READ = """
extern "C" __global__ void read(const TYPE* x, const int* where, TYPE* out)
{
    const int i = threadIdx.x;
    const int at = where[i];
    out[i] = x[at];
}
"""


@pytest.mark.parametrize("size,name", [(1, "char"), (2, "short"), (4, "int"), (8, "double")])
def test_sectors_are_those_that_the_emulator_counts(size: int, name: str) -> None:
    dtype = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.float64}[size]
    for follows, stride, offset in (
        ("column", 1, 0),
        ("column", 1, 1),
        ("column", 7, 3),
        ("row", 1, 0),
        ("row", 32, 32),
        ("none", 4, 9),
    ):
        where = sector_room.lanes(follows, stride, offset).astype(np.int32)
        x, out = np.zeros(int(where.max()) + 1, dtype), np.zeros(32, dtype)
        report = emulator.launch(
            READ, "read", (1, 1, 1), (32, 1, 1), [x, where, out], defines={"TYPE": name}
        )
        counted = next(row.sectors for row in report.by_line() if row.array == "x")
        shown = explorers.coalescing().read(
            follows=follows, stride=stride, offset=offset, size=size
        )
        assert int(shown.text["sectors"]) == counted


@pytest.mark.parametrize("name", request_room.KERNELS)
def test_the_requests_are_those_of_the_kernels(name: str) -> None:
    """All requests of the first warp, where rows of A and of B differ in length; and their cost."""
    K, N = 32, 96
    t = trace(f"{name}_core", M=32, N=N, K=K, samples=True)
    seen: dict[str, set[tuple[int, ...]]] = {"A": set(), "B": set()}
    for (_, _, op), samples in t.report.samples.items():
        for array, size, offsets in samples if op == "load" else ():
            seen[array].add(tuple(int(at) // size for at in offsets[0]))  # of the first warp
    own = request_room.loads(name, K)
    for array, step in (("A", 1), ("B", N)):
        of_warp = {tuple(int(e) + k * step for e in own[array]) for k in range(K)}
        assert of_warp == seen[array]
    other = request_room.loads(next(k for k in request_room.KERNELS if k != name), K)
    assert tuple(other["A"]) not in seen["A"] and tuple(other["B"]) not in seen["B"]
    cost = {row.array: row.sectors_per_request for row in t.by_line() if row.op == "load"}
    for array in "AB":
        assert made("request").read(loads=array).text[name].startswith(f"{cost[array]:.0f} sector")


WORDS = """
extern "C" __global__ void words(const int* where, float* out)
{
    __shared__ __align__(16) float tile[8192];
    for (int i = threadIdx.x; i < 8192; i += 32) tile[i] = i;
    __syncthreads();
    const VECTOR v = *reinterpret_cast<const VECTOR*>(&tile[where[threadIdx.x]]);
    out[threadIdx.x] = FIRST;
}
"""


@pytest.mark.parametrize("width", [4, 8, 16])
def test_wavefronts_are_those_that_the_emulator_counts(width: int) -> None:
    vector = {4: "float", 8: "float2", 16: "float4"}[width]
    for columns, pad, walk, stride in (
        (32, 0, "column", 1),
        (32, 1, "column", 1),
        (32, 4, "column", 1),
        (32, 0, "row", 2),
        (8, 0, "row", 1),
        (32, 0, "same", 1),
        (64, 8, "column", 2),
    ):
        state = {"columns": columns, "pad": pad, "walk": walk, "width": width, "stride": stride}
        state["op"] = "load"
        where = bank_room.first_words(state).astype(np.int32)
        shown = explorers.banks().read(**state)
        if (where % (width // 4)).any():
            assert shown.say == "misaligned"
            continue
        if where.max() + width // 4 > 8192:
            continue
        report = emulator.launch(
            WORDS,
            "words",
            (1, 1, 1),
            (32, 1, 1),
            [where, np.zeros(32, np.float32)],
            defines={"VECTOR": vector, "FIRST": "v" if width == 4 else "v.x + v.y"
                     if width == 8 else "v.x + v.y + v.z + v.w"},
        )  # fmt: skip
        counted = next(r for r in report.by_line() if r.space == "shared" and r.op == "load")
        assert int(shown.text["wavefronts"]) == counted.wavefronts, state


def test_tiles_are_legal_as_the_catalog_says() -> None:
    explorer = made("tile_2d")
    for state in states(explorer, 300):
        tile = {n: v for n, v in state.items() if n != "gpu"}
        broken = broken_rules(catalog["block_2d"], **tile)
        shown = explorer.read(**state)
        assert (shown.say == "illegal") == bool(broken)
        if broken:
            assert shown.text["reason"] == broken[0].reason
        else:
            intensity = model.arithmetic_intensity("block_2d", 4096, 4096, 4096, **tile)
            assert float(shown.text["intensity"]) == pytest.approx(intensity, abs=0.006)


def single_steps(explorer: Explorer) -> list[bool]:
    """Whether each tile is legal that one step of one slider leads to from where a page opens."""
    return [
        explorer.read(**{c.name: c.values[at]}).say != "illegal"
        for c in explorer.controls
        if c.name != "gpu"
        for at in (c.values.index(c.value) - 1, c.values.index(c.value) + 1)
        if 0 <= at < len(c.values)
    ]


@pytest.mark.parametrize("name", ["tile_tiled", "tile_2d", "tile_warp", "tile_column"])
def test_a_page_opens_where_half_of_the_steps_are_legal(name: str) -> None:
    legal = single_steps(made(name))
    assert 2 * sum(legal) >= len(legal) > 0, legal
    assert made(name).read().say != "illegal"


@pytest.mark.parametrize(
    ("page", "name"), [("13_loop_registers", "tile_warp"), ("deeper_08_block_1d", "tile_column")]
)
def test_the_pages_ask_for_sizes_that_move_together(page: str, name: str) -> None:
    text = (ROOT / "book" / f"{page}.md").read_text(encoding="utf-8")
    [call] = re.findall(r"(?m)^explorers\.tile\(.*\)$", text)
    asked = eval(call, {"explorers": explorers})
    assert [c.name for c in asked.controls] == [c.name for c in made(name).controls]


def test_what_moves_alone_would_stand_still() -> None:
    """The control: a slider for each size, and two of twelve steps are legal, or none of eight."""
    for kernel, legal, of in (("warp_tiled", 2, 12), ("block_1d", 0, 8)):
        steps = single_steps(explorers.tile(kernel))
        assert (sum(steps), len(steps)) == (legal, of)


def test_one_slider_has_every_set_of_sizes_that_is_legal_somewhere() -> None:
    tied, alone = made("tile_warp"), explorers.tile("warp_tiled")
    names = LANES.split()
    [slider] = [c for c in tied.controls if c.name == tile_room.TOGETHER]
    legal = {tuple(tile[n] for n in names) for tile in tile_room.table("warp_tiled").tiles}
    assert {tuple(map(int, value.split(", "))) for value in slider.values} == legal
    assert slider.label == "WM, WN, TM, TN"
    for state in states(tied, 200):
        sizes = dict(zip(names, map(int, state.pop(tile_room.TOGETHER).split(", ")), strict=True))
        both = tied.read(**state, together=", ".join(map(str, sizes.values())))
        assert both == alone.read(**state, **sizes)


def test_the_reason_stands_before_the_rule() -> None:
    rule = "2 * 4 * BK * (BM + 4 + BN) <= 49152"
    told = made("tile_warp").sentence(BK=16)
    assert f"is not legal: a block's static shared memory holds 48 KB (the rule is {rule})." in told


def test_the_tile_says_what_was_not_timed_and_takes_up_a_sweep(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = store.read(store.FOLDER / "h200.json")
    record.data["sweep"] = []
    own = next(p for p in record.of(Point, kernel="block_1d", m=4096) if p.params["BM"] == 64)
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    record.path = tmp_path / "h200.json"
    record.write()
    other = {"BM": 32, "BN": 32, "BK": 4, "TM": 8}
    before = explorers.tile("block_1d")
    assert before.read().say == "timed"
    assert before.read(**other).say == "legal"
    assert before.read(**other).text["time"] == tile_room.NO_TIME
    assert "were not recorded" in before.note

    entry = {
        **{n: own[n] for n in ("m", "n", "k", "q1", "q3", "gflops", "pairs", "cublas_ratio",
                               "kernel", "source", "recorded")},
        "params": other, "ms": 3.25, "registers": 40, "spill_bytes": 0, "shared_bytes": 1024,
        "blocks_per_sm": 8, "reason": None,
    }  # fmt: skip
    record.merge(Swept(**entry))
    record.write()
    after = explorers.tile("block_1d")
    assert after.read(**other).text["time"] == "3.250 ms"
    assert after.note.startswith("Times of every tile")
    record.merge(Swept(**entry | {"source": "older"}))
    record.write()
    assert explorers.tile("block_1d").read(**other).say == "legal"


def test_a_tile_is_drawn_under_the_roof_of_its_precision() -> None:
    for name, precision in (("block_1d", "fp32"), ("wmma_tiled", "fp16"), ("hopper_2", "bf16")):
        for key, roof in tile_room.roofs(catalog[name]).items():
            assert roof["peak"] == pytest.approx(device.gpu(key).peak_gflops(precision), abs=0.1)


def test_one_code_shares_the_times_of_its_tiles_and_no_other_code_does() -> None:
    timed = tile_room.times(catalog["tiled_32"], "h200").ms
    record, cube = load("h200"), {"m": 4096, "n": 4096, "k": 4096}
    recorded = {p["kernel"]: p["ms"] for p in record.find("points", **cube)}
    expected = {(t,): recorded[f"tiled_{t}"] for t in (8, 16, 32)}
    for section in ("sweep", "tuned"):  # a sweep's time replaces a point's, a confirmed one both
        found = record.find(section, kernel="tiled_32", **cube)
        expected |= {(e["params"]["TILE"],): e["ms"] for e in found}
    assert timed == expected
    integers = tile_room.times(catalog["tiled_int_32"], "h200").ms
    assert integers == {(32,): recorded["tiled_int_32"]}
    assert timed[32,] != integers[32,]


@pytest.mark.parametrize("name", STEPPED)
def test_the_stepper_ends_with_what_the_kernel_computes(name: str) -> None:
    d = duties(name)
    A, B = step_room.example(d)
    C = matmul(name, A.astype(np.float32), B.astype(np.float32), backend="emulator")
    explorer = made(f"stepper_{name}")
    *_, last = explorer.controls[0].values
    for thread in explorer.controls[1].values:
        shown = explorer.read(step=last, thread=thread).text["sums"]
        sums = [int(x) for x in shown.replace(";", "").split()]
        assert sums == [C[at] for at in d.computes[thread]]
        assert sums != [(A @ (B + 1))[at] for at in d.computes[thread]]


def test_the_stepper_says_what_its_thread_copies_and_reads() -> None:
    explorer = explorers.stepper("vectorised_core")
    copy, first = explorer.read(step=9), explorer.read(step=1)
    assert copy.say == "copy" and copy.text["k0"] == "8"
    assert copy.text["a"] == "A[18, 12–15] into rows 4–7, column 18 of A_tile"
    assert copy.text["b"] == "B[9, 20–23] into row 1, columns 20–23 of B_tile"
    assert copy.text["sums"] == explorer.read(step=8).text["sums"] != first.text["sums"]
    a, b = ([int(x) for x in first.text[n].split()] for n in "ab")
    assert first.text["sums"] == "; ".join(" ".join(str(x * y) for y in b) for x in a)
    assert first.text["reuse"] == "4.00" and first.text["madds"] == "64"
    assert explorers.stepper("tiled_32_core").read().text["reuse"] == "0.500"
    with pytest.raises(ConfigError, match="threads 0 to 255"):
        explorers.stepper("vectorised_core", thread=256)


def test_occupancy_is_the_models() -> None:
    explorer = explorers.occupancy()
    for state in states(explorer, 500):
        shown = explorer.read(**state)
        try:
            o = model.occupancy(
                device.gpu(state["gpu"]).limits,
                state["threads"],
                state["registers"],
                state["shared"],
            )
        except ConfigError:
            assert shown.say in ("shared", "file")
        else:
            assert shown.text["blocks"] == str(o.blocks)


@pytest.mark.parametrize("name", MAKE)
def test_sizes(name: str) -> None:
    explorer = made(name)
    assert len(explorer.payload().encode()) <= 150_000  # two on a page, 300 KB together
    scripts = script("core") + script(explorer.kind)
    assert 3 * len(scripts.encode()) <= 60_000
    markup = explorer._repr_html_()
    assert "src=" not in scripts
    assert "http" not in scripts
    assert markup.count("<script") == markup.count("</script>") == 2


PLACES = {
    "ladder": ("ladder", "roofline"),
    "05_coalescing": ("coalescing", "request"),
    "06_tiling": ("stepper", "roofline"),
    "deeper_06_tiling": ("tile",),
    "07_latency": ("occupancy", "banks"),
    "08_block_1d": ("stepper",),
    "deeper_08_block_1d": ("tile",),
    "09_block_2d": ("stepper",),
    "deeper_09_block_2d": ("tile",),
    "10_vectorised": ("banks",),
    "11_pipelining": ("pipeline", "stepper"),
    "12_lane_map": ("hierarchy",),
    "13_loop_registers": ("tile",),
    "25_summit": ("ladder",),
}


@pytest.mark.parametrize("chapter", PLACES)
def test_each_stands_in_its_chapter_behind_a_question(chapter: str) -> None:
    """And the explorers of a page together keep to 60 KB of script and 300 KB of data."""
    source = (ROOT / "book" / f"{chapter}.md").read_text(encoding="utf-8")
    cells = re.findall(
        r"\n([^\n]+)\n\n```\{code-cell\}[^\n]*\n:tags: \[remove-input\]\n"
        r"from helpers import explorers\n\nexplorers\.(\w+)\(([^)]*)\)\n```",
        source,
    )
    assert tuple(kind for _, kind, _ in cells) == PLACES[chapter]
    scripts = data = 0
    for question, kind, given in cells:
        assert "?" in question
        explorer = eval(f"explorers.{kind}({given})", {"explorers": explorers})
        scripts += len((script("core") + script(explorer.kind)).encode())
        data += len(explorer.payload().encode())
    assert scripts <= 60_000
    assert data <= 300_000


@pytest.mark.parametrize("name", MAKE)
def test_words_are_complete(name: str) -> None:
    explorer = made(name)
    seen = set()
    for state in states(explorer, 400):
        said = explorer.sentence(**state)
        assert said and "{" not in said
        seen.add(explorer.read(**state).say)
    assert seen <= set(explorer.sentences)
    assert explorer.caption and explorer.title and explorer.sentence() in repr(explorer)


# -- in a browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A page with all explorers, and one page for each, served."""
    place = tmp_path_factory.mktemp("explorers")
    bodies = {name: made(name)._repr_html_() for name in MAKE}
    bodies["all"] = "\n".join(bodies.values())
    for name, body in bodies.items():
        (place / f"{name}.html").write_text(PAGE.format(body=body, attributes=""), encoding="utf-8")
    server, address = serve(place)
    yield place, address
    server.shutdown()


def opened(
    browser: Any, folder: tuple[Path, str], name: str, **context: Any
) -> tuple[Any, list[str]]:
    """A page of one explorer and the errors on it; nothing but the folder can be reached."""
    _, address = folder
    context.setdefault("viewport", {"width": 1200, "height": 900})
    room = browser.new_context(**context)
    faults: list[str] = []

    def route(handler: Any) -> None:
        if handler.request.url.startswith((address, "data:")):
            handler.continue_()
        else:
            faults.append(f"asks for {handler.request.url}")
            handler.abort()

    room.route("**/*", route)
    page = room.new_page()
    page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{address}/{name}.html")
    return page, faults


MOVE = """
(states) => {
  const host = document.querySelector('.tile-explorer'), root = host.shadowRoot;
  const inputs = [...root.querySelectorAll('input, select')], controls = host.data.controls;
  const times = [], shown = [];
  for (const state of states) {
    const began = performance.now();
    inputs.forEach((input, i) => { input.value = controls[i].values.indexOf(state[controls[i].name]); });
    inputs[0].dispatchEvent(new Event('input', {bubbles: true, composed: true}));
    root.querySelector('svg').getBoundingClientRect();
    times.push(performance.now() - began);
    const cells = Object.fromEntries([...root.querySelectorAll('dd')].map(c => [c.dataset.name, c.textContent]));
    shown.push([root.querySelector('.say').textContent, cells, root.querySelector('svg').getAttribute('aria-label'),
      /NaN|undefined|Infinity/.test(root.querySelector('.drawing').innerHTML)]);
  }
  return {times, shown};
}
"""


@pytest.mark.browser
@pytest.mark.parametrize("name", MAKE)
def test_the_page_shows_what_python_computes(
    browser: Any, folder: tuple[Path, str], name: str
) -> None:
    explorer = made(name)
    page, faults = opened(browser, folder, name)
    chosen = states(explorer)
    result = page.evaluate(MOVE, chosen)
    quick = [statistics.quantiles(result["times"], n=4)[0]]  # a busy machine delays some
    while quick[-1] > 16 and len(quick) < 5:  # or all, for a while
        quick.append(statistics.quantiles(page.evaluate(MOVE, chosen)["times"], n=4)[0])
    assert faults == []
    for state, (said, cells, alt, bad) in zip(chosen, result["shown"], strict=True):
        wanted = explorer.read(**state).text
        assert said == explorer.sentence(**state) == alt, state
        assert cells == {n: wanted.get(n, "–") for n in explorer.labels}, state
        assert not bad, state
    print(f"{name}: {len(chosen)} states, a quarter redrawn within {min(quick):.2f} ms")
    assert min(quick) <= 16
    page.context.close()


TWINS = {
    "coalescing": ("* s.size / 32)", "* s.size / 31)"),
    "request": ("e * 4 / 32", "e * 4 / 36"),
}


@pytest.mark.browser
@pytest.mark.parametrize("name", TWINS)
def test_a_page_that_shows_another_value_is_found(
    browser: Any, folder: tuple[Path, str], name: str
) -> None:
    """The wrong twin: a formula of the script that is off by a little must not pass."""
    place, _ = folder
    right = made(name)._repr_html_()
    body = right.replace(*TWINS[name])
    assert body != right
    (place / "twin.html").write_text(PAGE.format(body=body, attributes=""), encoding="utf-8")
    page, _ = opened(browser, folder, "twin")
    chosen = states(made(name), 100)
    shown = page.evaluate(MOVE, chosen)["shown"]
    assert any(
        said != made(name).sentence(**s) for s, (said, *_) in zip(chosen, shown, strict=True)
    )
    page.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", MAKE)
def test_the_keyboard_reaches_and_moves_every_control(
    browser: Any, folder: tuple[Path, str], name: str
) -> None:
    explorer = made(name)
    page, _ = opened(browser, folder, name)
    where = "document.querySelector('.tile-explorer')"
    for i, c in enumerate(explorer.controls):
        page.keyboard.press("Tab")
        focused = page.evaluate(f"{where}.shadowRoot.activeElement?.dataset.name")
        assert focused == c.name
        at = c.values.index(c.value)
        if len(c.values) > 1:
            page.keyboard.press("ArrowRight" if at + 1 < len(c.values) else "ArrowLeft")
            moved = c.values[at + 1 if at + 1 < len(c.values) else at - 1]
            state = page.evaluate(f"{where}.state()")
            assert state[c.name] == moved
            expected = explorer.sentence(**state)
            assert (
                page.evaluate(f"{where}.shadowRoot.querySelector('.say').textContent") == expected
            )
        spoken = page.evaluate(
            f"{where}.shadowRoot.querySelectorAll('input, select')[{i}].getAttribute('aria-valuetext')"
        )
        if c.kind == "range":
            assert spoken in c.labels
    page.wait_for_timeout(400)  # the words are said once the reader rests
    aloud = page.evaluate(f"{where}.shadowRoot.querySelector('[aria-live=polite]').textContent")
    assert aloud == page.evaluate(f"{where}.shadowRoot.querySelector('.say').textContent")
    outline = page.evaluate(f"getComputedStyle({where}.shadowRoot.activeElement).outlineStyle")
    assert outline == "solid"
    page.context.close()


WIDE = """
() => {
  const room = document.documentElement.clientWidth, found = [];
  if (document.documentElement.scrollWidth > room) found.push('the page scrolls');
  for (const host of document.querySelectorAll('.tile-explorer'))
    for (const node of (host.shadowRoot || host).querySelectorAll('p, dl, dd, svg, input, select, label'))
      if (node.getBoundingClientRect().right > room + 1) found.push(`${host.tagName} ${node.tagName}`);
  return found;
}
"""


@pytest.mark.browser
def test_nothing_overflows_on_a_phone(browser: Any, folder: tuple[Path, str]) -> None:
    page, faults = opened(browser, folder, "all", viewport={"width": 360, "height": 740})
    assert page.evaluate(WIDE) == []
    assert faults == []
    page.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", MAKE)
def test_words_in_a_drawing_can_be_read_on_a_phone(
    browser: Any, folder: tuple[Path, str], name: str
) -> None:
    page, _ = opened(browser, folder, name, viewport={"width": 360, "height": 740})
    for state in states(made(name), 40):
        page.evaluate(MOVE, [state])
        assert page.evaluate(FIND_CRAMPED) == [], state
    page.context.close()


@pytest.mark.browser
def test_a_drawing_follows_its_width(browser: Any, folder: tuple[Path, str]) -> None:
    """It is drawn again when the page grows narrow; one that is only scaled has words too small."""
    place, _ = folder
    whole = made("tile_2d")._repr_html_()
    stiff = whole.replace("new ResizeObserver(", "((_) => ({observe() {}}))(")
    assert stiff != whole
    for name, body in (("follows", whole), ("stiff", stiff)):
        (place / f"{name}.html").write_text(PAGE.format(body=body, attributes=""), encoding="utf-8")
        page, faults = opened(browser, folder, name)
        assert page.evaluate(FIND_CRAMPED) == faults == []
        page.set_viewport_size({"width": 360, "height": 740})
        page.wait_for_timeout(100)
        assert (page.evaluate(FIND_CRAMPED) == []) is (name == "follows")
        page.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1200])
def test_without_script_a_picture_and_a_table_remain(
    browser: Any, folder: tuple[Path, str], width: int
) -> None:
    page, _ = opened(
        browser, folder, "all", java_script_enabled=False, viewport={"width": width, "height": 740}
    )
    for i, name in enumerate(MAKE):
        host = page.locator(".tile-explorer").nth(i)
        picture = host.locator("svg[role=img]:visible")
        assert picture.count() == 1, name
        assert host.locator("table").is_visible(), name
        assert made(name).sentence() in host.inner_text()
        assert picture.bounding_box()["width"] <= width
    assert page.evaluate(FIND_CRAMPED) == []
    page.context.close()


@pytest.mark.browser
def test_an_element_is_defined_once_and_may_stand_twice(
    browser: Any, folder: tuple[Path, str]
) -> None:
    place, _ = folder
    body = explorers.banks()._repr_html_() + explorers.banks(pad=1)._repr_html_()
    (place / "twice.html").write_text(PAGE.format(body=body, attributes=""), encoding="utf-8")
    page, faults = opened(browser, folder, "twice")
    said = page.evaluate(
        "[...document.querySelectorAll('.tile-explorer')].map(e => e.shadowRoot.querySelector('.say').textContent)"
    )
    assert said == [explorers.banks().sentence(), explorers.banks(pad=1).sentence()]
    assert faults == []
    page.context.close()


@pytest.mark.browser
def test_it_works_when_inserted_late_as_jupyterlab_does(
    browser: Any, folder: tuple[Path, str]
) -> None:
    """Output arrives by innerHTML, and its scripts are run again one by one."""
    place, _ = folder
    (place / "late.html").write_text(PAGE.format(body="", attributes=""), encoding="utf-8")
    page, faults = opened(browser, folder, "late")
    for explorer in (made("banks"), explorers.banks(pad=1), made("pipeline")):
        page.evaluate(
            """html => {
              const box = document.createElement('div');
              box.innerHTML = html;
              document.body.append(box);
              for (const old of box.querySelectorAll('script')) {
                const fresh = document.createElement('script');
                for (const a of old.attributes) fresh.setAttribute(a.name, a.value);
                fresh.textContent = old.textContent;
                old.replaceWith(fresh);
              }
            }""",
            explorer._repr_html_(),
        )
    said = page.evaluate(
        "[...document.querySelectorAll('.tile-explorer')].map(e => e.shadowRoot?.querySelector('.say').textContent)"
    )
    assert said == [e.sentence() for e in (made("banks"), explorers.banks(pad=1), made("pipeline"))]
    assert faults == []
    page.context.close()


@pytest.mark.browser
def test_controls_follow_the_theme(browser: Any, folder: tuple[Path, str]) -> None:
    where = "document.querySelector('.tile-explorer')"
    for scheme in ("light", "dark"):
        page, _ = opened(browser, folder, "banks", color_scheme=scheme)
        assert page.evaluate(f"{where}.style.colorScheme") == scheme
        page.evaluate("document.body.style.color = '#fff'")  # the book's own switch
        page.wait_for_timeout(50)
        assert page.evaluate(f"{where}.style.colorScheme") == "dark"
        page.context.close()


def test_nothing_moves_by_itself() -> None:
    """Reduced motion is kept: there are no animations to reduce, and what plays was asked to."""
    for kind in ("core", *{e.kind for e in map(made, MAKE)}):
        assert not re.search(r"animat|transition|requestAnimationFrame", script(kind))
        assert script(kind).count("setInterval") == (kind == "core")  # in play(), below


@pytest.mark.browser
@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_a_request_plays_when_asked(browser: Any, folder: tuple[Path, str], motion: str) -> None:
    """From its end it begins anew, and stops by a press; with less motion a press is a step."""
    page, faults = opened(browser, folder, "request", reduced_motion=motion)
    lanes = "document.querySelector('.tile-explorer').state().lanes"
    button = page.locator(".tile-explorer .play")
    page.wait_for_timeout(600)
    assert page.evaluate(lanes) == 32
    button.click()
    if motion == "reduce":
        assert button.inner_text() == "Next step"
        button.click()
    else:
        assert button.inner_text() == "Pause"
        page.wait_for_function(f"{lanes} === 2")
        button.click()
    stood = page.evaluate(lanes)
    page.wait_for_timeout(600)
    assert page.evaluate(lanes) == stood and 0 < stood < 32
    page.locator(".tile-explorer svg [data-set='lanes=20']").last.click()
    assert page.evaluate(lanes) == 20
    said = page.locator(".tile-explorer .say").inner_text()
    assert said == made("request").sentence(lanes=20) and faults == []
    page.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(browser: Any, folder: tuple[Path, str], scheme: str) -> None:
    axe = Axe()
    page, _ = opened(browser, folder, "all", color_scheme=scheme)
    found = axe.run(page)
    assert [
        (v["id"], [n["target"] for n in v["nodes"]][:3]) for v in found.response["violations"]
    ] == []
    page.context.close()
