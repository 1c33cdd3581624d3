"""The copy engine (TMA), instruction by instruction, beside tiles that are built by NumPy here."""

from __future__ import annotations

import numpy as np
import pytest
from foreign_kernels import cuda, locate
from test_emulator_warpgroups import swizzled

from nogpu import emulator
from nogpu.emulator import TensorMap
from nogpu.errors import ConfigError, EmulationError

HEAD = cuda("bulk/head")
KERNEL = """
extern "C" __global__ void k(const __grid_constant__ Map from, const __grid_constant__ Map to,
                             unsigned short* y, int row, int col)
{
    extern __shared__ __align__(1024) unsigned char box[];
    __shared__ u64 bar, other;
    int t = threadIdx.x;
    if (t == 0) { init(&bar, 1); init(&other, 1); }
    __syncthreads();
"""


def run(body, *, rows=40, cols=72, box=(8, 64), swizzle=128, at=(0, 0), shape=None, fill="zeros", threads=64,
        dtype="uint16", blocks=1, shared=4096, kernel=KERNEL, **options):  # fmt: skip
    """Report, the array, what the kernel stored through its second map, and y."""
    x = np.arange(1, rows * cols + 1).reshape(rows, cols).astype(dtype)
    out = np.zeros_like(x)
    y = np.zeros(4096, np.uint16)
    maps = [TensorMap(a, box, swizzle, shape=shape, fill=fill) for a in (x, out)]
    defines = {"BYTES": int(np.prod(box)) * x.itemsize, **options.pop("defines", {})}
    report = emulator.launch(
        HEAD + kernel + body + "\n}\n", "k", blocks, threads, [*maps, y, *at], shared_bytes=shared,
        arch="sm_90", defines=defines, **{"max_steps": 100_000, **options},
    )  # fmt: skip
    return report, x, out, y


LOAD = "if (t == 0) { expect(&bar, BYTES); load(box, &from, &bar, row, col); } wait(&bar, 0);"
DUMP = (
    "for (int i = t; i < BYTES / 2; i += blockDim.x) y[i] = reinterpret_cast<unsigned"
    " short*>(box)[i];"
)


def tile(x, box, at, shape=None):
    """A box of an array; what lies outside reads as zero."""
    height, width = shape or x.shape
    r, c = at[0] + np.arange(box[0])[:, None], at[1] + np.arange(box[1])
    inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
    return np.where(inside, x[r % len(x), c % x.shape[1]], 0).astype(x.dtype)


def laid_out(box, swizzle):
    """Its bytes in shared memory, where a pattern repeats every 1024."""
    raw = np.ascontiguousarray(box).view(np.uint8).reshape(-1)
    out = np.zeros_like(raw)
    out[swizzled(np.arange(raw.size), swizzle)] = raw
    return out.view(np.uint16)


@pytest.mark.parametrize(
    ("swizzle", "box"),
    [(128, (8, 64)), (128, (24, 64)), (64, (12, 32)), (32, (20, 16)), (0, (5, 40)), (0, (3, 72))],
)
@pytest.mark.parametrize("at", [(0, 0), (3, 16), (35, 48), (-2, -16), (39, 64), (100, 0)])
def test_a_box_arrives_swizzled_and_filled(swizzle, box, at):
    report, x, _, y = run(LOAD + DUMP, box=box, swizzle=swizzle, at=at)
    assert report.ok, report
    want = laid_out(tile(x, box, at), swizzle)
    assert (y[: want.size] == want).all()


READ = [
    # a box, its swizzle, where it lies and in what
    ((8, 16), 64, (4, 8), {"dtype": "float32", "shape": (9, 13)}),
    ((8, 16), 0, (0, 24), {"cols": 80}),  # bytes 48 to 79 of each row: two sectors
    ((8, 32), 32, (3, 16), {"cols": 80, "dtype": "uint8"}),
]


@pytest.mark.parametrize(("box", "swizzle", "at", "given"), READ)
def test_what_of_an_array_a_box_reads(box, swizzle, at, given):
    report, x, _, y = run(LOAD + DUMP, box=box, swizzle=swizzle, at=at, **given)
    assert report.ok, report
    shape = given.get("shape", x.shape)
    want = laid_out(tile(x, box, at, shape), swizzle)
    assert (y[: want.size] == want).all()
    r, c = (np.arange(a, min(a + b, n)) for a, b, n in zip(at, box, shape, strict=True))
    sectors = np.unique((r[:, None] * x.shape[1] + c) * x.itemsize // 32)
    (row,) = [a for a in report.accesses if a.space == "global" and a.op == "load"]
    assert (row.array, row.requests) == ("from", 1)
    assert (row.width_bytes, row.sectors) == (np.prod(box) * x.itemsize, len(sectors))


def test_nan_fills_what_lies_outside():
    given = {"rows": 4, "cols": 8, "box": (4, 8), "swizzle": 0, "dtype": "float32"}
    report, x, _, y = run(LOAD + DUMP, fill="nan", shape=(2, 8), **given)
    assert report.ok, report
    got = y[:64].view(np.float32).reshape(4, 8)
    assert (got[:2] == x[:2]).all() and np.isnan(got[2:]).all()


STORE = LOAD + "if (t == 0) { store(&to, box, row, col); commit(); drained(); }"


@pytest.mark.parametrize("swizzle", [0, 128])
@pytest.mark.parametrize("at", [(0, 0), (35, 40), (100, 0), (39, 64), (3, 72)])
def test_a_box_goes_back_where_it_came_from_and_nothing_outside_is_written(swizzle, at):
    report, x, out, _ = run(STORE, swizzle=swizzle, at=at, shape=(40, 70))
    assert report.ok, report
    want = np.zeros_like(x)
    inside = tuple(
        slice(max(a, 0), min(a + b, n)) for a, b, n in zip(at, (8, 64), (40, 70), strict=True)
    )
    want[inside] = x[inside]
    assert (out == want).all()


def test_who_stored_a_wrong_element_is_named():
    [finding] = run(STORE, expect={"to": np.zeros((40, 72), np.uint16)})[0].findings
    assert finding.kind == "wrong-result"
    assert '"l"(map)' in finding.text
    assert "(0, 0, 0)" in finding.message


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_any_number_of_axes(rank):
    shape, box = (3, 4, 5, 3, 16)[-rank:], (2, 3, 2, 2, 8)[-rank:]
    x = np.arange(np.prod(shape)).reshape(shape).astype(np.float32)
    start = (1, 2, 3, 1, 4)[-rank:]  # the slowest axis first
    y = np.zeros(int(np.prod(box)), np.float32)
    source = (
        HEAD
        + """
extern "C" __global__ void k(const __grid_constant__ Map from, float* y, int n) {
    extern __shared__ __align__(128) float box[];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { init(&bar, 1); }
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&bar, n * 4);
        asm volatile("cp.async.bulk.tensor.RANKd.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%0], [%1, {START}], [%2];" :: "r"(at(box)), "l"(&from), "r"(at(&bar)) : "memory");
    }
    wait(&bar, 0);
    for (int i = threadIdx.x; i < n; i += 32) y[i] = box[i];
}""".replace("RANK", str(rank)).replace("START", ", ".join(map(str, start[::-1])))
    )
    report = emulator.launch(source, "k", 1, 32, [TensorMap(x, box), y, y.size], 4096, arch="sm_90")
    assert report.ok, report
    padded = np.zeros([n + 8 for n in shape], np.float32)
    padded[tuple(slice(n) for n in shape)] = x
    want = padded[tuple(slice(s, s + b) for s, b in zip(start, box, strict=True))]
    assert (y.reshape(box) == want).all()


def test_a_map_behind_a_pointer():
    kernel = KERNEL.replace("const __grid_constant__ Map from", "const Map* from")
    report, x, _, y = run(LOAD.replace("&from", "from") + DUMP, kernel=kernel)
    assert report.ok, report
    assert (y[:512] == laid_out(tile(x, (8, 64), (0, 0)), 128)).all()


ROWS = cuda("bulk/rows")


def rows(fence, adds):
    """Report, x and y, of which a row is copied, added to and sent."""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    source = HEAD + ROWS.replace("FENCE\n    __syncthreads();", fence).replace("row[t] += 1;", adds)
    return emulator.launch(source, "k", 1, 64, [x, y, 256], 1024, arch="sm_90"), x, y


# -- faults --------------------------------------------------------------------------------------


def faults(body, **options):
    return run(body, **options)[0].findings


def test_rows_narrower_than_their_swizzle_take_its_width():
    text = LOAD.replace("BYTES", "256")
    report, *_ = run(text, box=(8, 16), shared=256)
    (found,) = [f for f in report.findings if f.kind == "out-of-bounds"]
    assert "256 bytes" in found.message and "swizzle of 128" in found.message
    assert run(text, box=(8, 16), shared=1024)[0].ok


EARLY = LOAD.replace("wait(&bar, 0);", "")
TWICE = "if (t == 40) { box[20] = 1; fence(); arrive(&other); } " + LOAD.replace(
    "load(", "WAIT load("
)
RING = """
    for (int i = 0; i < 3; ++i) {
        if (t == 0) {
            if (i > 0) wait(&other, (i - 1) & 1);
            expect(&bar, BYTES);
            load(box, &from, &bar, row, col + 8 * i);
        }
        wait(&bar, i & 1);
        y[t] += box[t];
        __syncthreads();
        if (t == 32) arrive(&other);
    }
"""
HASTY = RING.replace("if (i > 0) wait(&other, (i - 1) & 1);", "").replace(
    "__syncthreads", "__syncwarp"
)
LATE = STORE.replace("commit(); drained();", "commit();")
ENGINE = '"l"(map)'  # on a line of the finding
FOUND = {
    # body, the kinds of what is found, and what the first kind says; none: nothing is found
    "a barrier of the block waits for threads, not for the engine": (
        EARLY + "__syncthreads();" + DUMP, "race", "may still be under way",
    ),
    "the wrong phase": (LOAD.replace("wait(&bar, 0)", "wait(&bar, 1)") + DUMP, "race divergent-barrier", "under way"),
    "too few bytes announced": (
        LOAD.replace("BYTES)", "BYTES / 2)") + DUMP, "divergent-barrier race", "bytes more have come than",
    ),
    "too few, and nobody waits": (
        EARLY.replace("BYTES)", "BYTES / 2)"), "divergent-barrier", "at the end of the block 512 bytes more have come",
    ),
    "too many, and nobody waits": (
        EARLY.replace("BYTES)", "BYTES + 16)"), "divergent-barrier",
        "at the end of the block 16 bytes that were announced have not come",
    ),
    **{f"{more} too many": (
        LOAD.replace("BYTES)", f"BYTES + {more})") + DUMP, "divergent-barrier race",
        f"{more} bytes that were announced have not come",
    ) for more in (16, 1024)},
    "bytes come before they are announced": (
        "if (t == 0) { load(box, &from, &bar, row, col); expect(&bar, BYTES); } wait(&bar, 0);" + DUMP, "", "",
    ),
    "beyond shared memory": (LOAD.replace("load(box,", "load(box + 3584,") + "__syncthreads();", "out-of-bounds", ""),
    "at no multiple of 128": (LOAD.replace("load(box,", "load(box + 64,") + "__syncthreads();", "misaligned", ""),
    "a box that nobody wrote": (
        "if (t == 0) { store(&to, box, row, col); commit(); drained(); }", "uninitialised", "",
    ),
    "the block ends before": (EARLY, "race", "ends while the copy engine may still write it"),
    "the block ends when one thread has waited": (EARLY + "if (t == 40) wait(&bar, 0);", "", ""),
    # Readers know of the copy, and need not know of what it has overwritten.
    "written before the engine does": (TWICE.replace("WAIT", "wait(&other, 0);") + DUMP, "", ""),
    "written while the engine does": (TWICE.replace("WAIT", "") + DUMP, "race", "it"),
    "one warp waits": (EARLY + "if (t < 32) wait(&bar, 0);" + DUMP, "race", "under way"),
    "one warp waits and hands on": (EARLY + "if (t < 32) wait(&bar, 0); __syncthreads();" + DUMP, "", ""),
    "a ring of one slot": (RING, "", ""),
    "refilled while warp 1 reads": (HASTY, "race", "writes it and"),
    "a store still reads": (LATE + "if (t == 0) { box[5] = 1; drained(); }", "race", "still read it"),
    "a store has read": (LATE + "if (t == 0) { drained(); box[5] = 1; }", "", ""),
    "a store has read for one thread": (
        LATE + "if (t == 0) drained(); if (t == 40) box[5] = 1;", "race", "still read it",
    ),
    "a store has read for all threads": (
        LATE + "if (t == 0) drained(); __syncthreads(); if (t == 40) box[5] = 1;", "", "",
    ),
    "nobody waits for a store": (LATE, "race", "wait_group"),
    "a store in no group": (LATE.replace("commit();", ""), "race", "commit_group"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "kinds", "words"), FOUND.values(), ids=FOUND)
def test_a_fault_of_a_copy_is_found(body, kinds, words):
    found, (first, *_) = faults(body), [*kinds.split(), ""]
    assert {f.kind for f in found} == {*kinds.split()}, found
    matches = [f for f in found if f.kind == first and words in f.message]
    assert bool(matches) == bool(kinds), found
    assert all(ENGINE in f.text + f.other_text for f in matches) or first == "divergent-barrier"


@pytest.mark.parametrize(
    ("adds", "says"),
    [("row[t] += 1;", "an ordinary store wrote it"), ("atomicAdd(&row[t], 1.0f);", "an atomic wrote it without a fence")],
)  # fmt: skip
def test_stores_need_a_proxy_fence_before_the_engine_reads_them(adds, says):
    """Before the barrier or behind it; no line is made up for an atomic."""
    for fence in ("fence(); __syncthreads();", "__syncthreads(); fence();"):
        report, x, y = rows(fence, adds)
        assert report.ok and (y == x + 1).all(), report
    [finding] = rows("__syncthreads();", adds)[0].findings
    assert finding.kind == "race" and says in finding.message
    assert "fence.proxy.async" in finding.message
    assert finding.other_text.strip() == (adds if "=" in adds else "")


def test_all_groups_but_the_latest_have_been_read():
    """Rows of two groups: behind the wait for all but one, only the first may be written."""
    send = f"{SEND} [to + {{1}}], [row + {{0}}], 64; @one cp.async.bulk.commit_group"
    waits = "@one cp.async.bulk.wait_group.read {}"
    for allowed, place, sound in ((1, 0, True), (1, 128, False), (0, 128, True), (2, 0, False)):
        write = f"@one st.shared.b32 [row + {place + 4}], t"
        both = send.format(0, 64), send.format(128, 128)
        steps = *both, waits.format(allowed), write, waits.format(0)
        report, _ = bare(*steps)
        assert report.ok == sound, str(report)
        assert all("still read it" in f.message and f.line == 4 for f in report.findings)


FILL = (
    "for (int i = t; i < 8 * 64; i += 64) if (i % 64 < COLUMNS && i / 64 < ROWS)"
    " reinterpret_cast<unsigned short*>(box)[i] = i; fence(); __syncthreads();"
    "if (t == 0) { store(&to, box, row, col); commit(); drained(); }"
)


@pytest.mark.parametrize(
    ("columns", "rows", "at", "missing"),
    [(60, 8, (0, 0), 0), (60, 5, (35, 0), 0), (59, 8, (0, 0), 8), (60, 4, (35, 0), 60)],
)
def test_what_lies_outside_the_tensor_need_not_be_written(columns, rows, at, missing):
    given = {"COLUMNS": columns, "ROWS": rows}
    report, _, out, _ = run(FILL, swizzle=0, at=at, shape=(40, 60), defines=given)
    assert [(f.kind, f.count) for f in report.findings] == (
        [("uninitialised", missing)] if missing else []
    )
    if not missing:
        want = np.arange(512).reshape(8, 64)[: 40 - at[0], :60]
        assert (out[at[0] : at[0] + 8, :60] == want).all()


SLOTS = """
    if (t == 0) { expect(&bar, BYTES); load(box + 1024, &from, &bar, row, col); }
    if (t == 0) { expect(&other, BYTES); load(box, &from, &other, row, col); }
    wait(&other, 0);
    y[t + 64 * blockIdx.x] = box[t];
    if (t < 32) { wait(&bar, 0); y[t + 64 * blockIdx.x] = box[1024 + t]; }
    __syncthreads();
    if (blockIdx.x == 1) y[t + 64] = box[64 + t];
    if (t == 0) { fence(); store(&to, box + 1024, row + 8 * blockIdx.x, col); commit(); drained(); }
    if (t == 0) { expect(&bar, BYTES); load(box + 1024, &from, &bar, row, col); }
    wait(&bar, 1);
"""


def test_turns_of_two_slots_of_the_first_block():
    report = run(SLOTS, blocks=2, swizzle=0, engines=True)[0]
    assert report.ok, report
    assert [(s.order, s.at, s.fill, s.what) for s in report.engine_steps()] == [
        (0, 2048, 0, "copy begun"),
        (1, 1024, 1, "copy begun"),
        (2, 1024, 1, "copy awaited"),
        (3, 1024, 1, "read begun"),
        (3, 1024, 1, "read ended"),
        (4, 2048, 0, "copy awaited"),
        (5, 2048, 0, "read begun"),
        (6, 2048, 0, "read ended"),  # by the engine, which stores it
        (7, 2048, 2, "copy begun"),
        (8, 2048, 2, "copy awaited"),
    ]


def test_two_blocks_that_store_one_box():
    found = faults(STORE, blocks=2)
    assert {f.kind for f in found} == {"race"}, found
    late = STORE.replace("store(&to", "if (blockIdx.x == 0) store(&from")
    assert {(f.kind, f.array) for f in faults(late, blocks=2)} == {("race", "from")}
    assert not faults(late.replace("blockIdx.x == 0", "false"), blocks=2)
    assert not faults(
        STORE.replace("store(&to, box, row,", "store(&to, box, row + 8 * blockIdx.x,"), blocks=2
    )


FULL_BOX = "for (int i = t; i < 1024; i += 96) if (i != GAP) box[i] = i; fence(); __syncthreads();"
SENT = "if (t == 0) { store(&to, box, row + 8 * blockIdx.x, col); commit(); drained(); }"
ASKED = "if (t == 0) { expect(&bar, BYTES); load(box, &from, &bar, row, col); }"
HERE = "(blockIdx.x == 1 && t == {})"


@pytest.mark.parametrize(
    ("body", "where", "who", "count", "says"),
    [
        (f"{ASKED} if (blockIdx.x == 0) wait(&bar, 0);", "box[0]", (), 64, "still write it"),
        (
            ASKED.replace("BYTES", "BYTES * (1 + blockIdx.x)")
            + "if (t == 64 && blockIdx.x) load(box, &from, &bar, row, col); wait(&bar, 0);",
            "box[0]", (64,), 64, "copies to it while",
        ),
        (
            f"{ASKED} if (t >= 32) wait(&bar, 0); if {HERE.format(5)} y[1] = box[43]; wait(&bar, 0);",
            "box[32]", (5,), 1, "reads it while",
        ),
        (
            f"{ASKED} if (t < 32) wait(&bar, 0); if {HERE.format(40)} box[43] = 1; wait(&bar, 0);",
            "box[32]", (40,), 1, "writes it while",
        ),
        (
            f"{ASKED} if (blockIdx.x == 0) wait(&bar, 0); __syncthreads(); if {HERE.format(40)} y[1] = box[43];"
            " wait(&bar, 0);",
            "box[32]", (40,), 1, "reads it while",
        ),
        (
            f"{ASKED} if (t < 32) {{ wait(&bar, 0); LEAVE }} else if (t < 64) {{ MEET y[blockIdx.x] = box[43]; }}",
            "", (), 0, "",
        ),
        (
            f"{ASKED} if (t < 32) wait(&bar, 0); if (t < 64) {{ MEET }} if {HERE.format(40)} y[1] = box[43];",
            "", (), 0, "",
        ),
        (
            FULL_BOX + SENT.replace("drained();", "") + f"if {HERE.format(40)} box[43] = 1; __syncthreads();"
            "if (t == 0) drained();",
            "box[32]", (40,), 1, "writes it while",
        ),
        (
            FULL_BOX + f"if {HERE.format(33)} box[43] = 1; __syncthreads();" + SENT,
            "box[43]", (0,), 1, "an ordinary store wrote it",
        ),
        (FULL_BOX + f"if {HERE.format(33)} box[43] = 1;" + SENT, "box[43]", (0, 33), 2, "reads it and"),
        (
            FULL_BOX + f"if {HERE.format(3)} box[43] = 1;" + SENT,
            "box[43]", (0,), 2, "an ordinary store wrote it",
        ),
        (
            FULL_BOX + f"if {HERE.format(33)} box[43] = 1; if (blockIdx.x == 0) fence(); __syncthreads();" + SENT,
            "box[43]", (0,), 1, "an ordinary store wrote it",
        ),
        (FULL_BOX.replace("GAP", "43 - 100 * (blockIdx.x == 0)") + SENT, "box[43]", (0,), 1, "written it"),
    ],
)  # fmt: skip
def test_a_fault_of_the_second_block_says_where_it_is_and_whose(body, where, who, count, says):
    meet = 'asm volatile("bar.{} 1, 64;" ::: "memory");'
    body = body.replace("LEAVE", meet.format("arrive")).replace("MEET", meet.format("sync"))
    report = run(body, blocks=2, threads=96, swizzle=0, defines={"GAP": -1})[0]
    threads = tuple((t, 0, 0) for t in who)
    assert locate(report) == ([("box", where, threads, (1, 0, 0), count)] if says else []), report
    assert all(says in f.message for f in report.findings), report
    assert all('"l"(map)' in f.text + f.other_text for f in report.findings), report


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"box": (8, 60)}, "120 bytes"),
        ({"box": (8, 128), "swizzle": 128}, "256 bytes"),
        ({"box": (300, 8)}, "1 to 256"),
        ({"box": (8,)}, "each axis"),
        ({"swizzle": 48, "box": (8, 8)}, "swizzle=48"),
        ({"shape": (41, 8), "box": (8, 8)}, "does not lie"),
        ({"fill": "nan", "box": (8, 8)}, "floats"),
        ({"fill": "ones", "box": (8, 8)}, "self.fill='ones'"),
        ({"box": (257, 8)}, "1 to 256"),
        ({"box": (0, 8)}, "1 to 256"),
        ({"box": (8, 8.0)}, "each axis"),
        ({"shape": (0, 8), "box": (8, 8)}, "does not lie"),
        ({"shape": (40, 73), "box": (8, 8)}, "does not lie"),
        ({"shape": (40,), "box": (8, 8)}, "each axis"),
        ({"box": (8, 24), "swizzle": 32}, "48 bytes; a swizzle of 32"),
        ({"array": [[0.0] * 8], "box": (1, 8)}, "a list"),
        ({"array": np.zeros(()), "box": ()}, "one to five axes"),
        ({"array": np.zeros((1, 1, 1, 1, 1, 8)), "box": (1, 1, 1, 1, 1, 2)}, "one to five axes"),
        ({"array": np.zeros((8, 8), complex), "box": (1, 8)}, "complex128: elements have 1, 2, 4 or 8"),
        ({"array": np.zeros((8, 8), object), "box": (1, 8)}, "object: elements have"),
        ({"array": np.zeros((8, 16), np.float32, "F"), "box": (8, 4)}, "contiguous"),
        ({"array": np.zeros((16, 16, 16), "u2")[:, ::-1], "box": (8, 8, 8)}, "contiguous"),
        ({"array": np.zeros((2, 4, 12), "u2"), "box": (1, 1, 8)}, "along axis 1 it steps by 24"),
        ({"array": np.zeros((8, 64), "u2")[:, 1:33], "box": (8, 8)}, "begins 2 bytes behind its array"),
        ({"array": np.zeros((40, 73), "u2"), "box": (8, 8)}, "146 bytes"),
        ({"array": np.zeros((40, 81), "u2")[:, :72], "box": (8, 8)}, "162 bytes"),
        ({"array": np.zeros((40, 160), "u2")[:, ::2], "box": (8, 8)}, "contiguous"),
        ({"array": np.zeros((40, 80), "u2")[::-1], "box": (8, 8)}, "contiguous"),
    ],
)  # fmt: skip
def test_maps_that_the_driver_would_refuse(options, says):
    array = options.pop("array", np.zeros((40, 72), np.uint16))
    with pytest.raises(ConfigError, match=says):
        TensorMap(array, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"box": (256, 8)}, {"box": (1, 8)}, {"box": (8, 64), "swizzle": 128}, {"box": (8, 16), "swizzle": 32},
        {"box": (8, 8), "shape": (40, 72)}, {"box": (8, 8), "shape": (1, 1)}, {"box": (np.int64(8), 8)},
        {"array": np.zeros((1, 73), "u2"), "box": (1, 8)}, {"array": np.zeros((2, 1, 1, 1, 8)), "box": (1, 1, 1, 1, 2)},
        {"array": np.zeros((4, 16), "u1"), "box": (1, 16), "shape": (4, 3)},
        {"array": np.zeros((8, 8, 8), "f2")[2:][:, 3:5], "box": (8, 1, 8), "fill": "nan"},
    ],
)  # fmt: skip
def test_maps_that_the_driver_takes(options):
    array = options.pop("array", np.zeros((40, 72), np.uint16))
    made = TensorMap(array, **options)
    assert made.sizes == options.get("shape", array.shape)


def test_a_view_of_an_array_is_copied_there_and_back():
    """A corner that begins within its array; the wrong twin is the corner one row further down."""
    whole, out = np.arange(40 * 80, dtype=np.uint16).reshape(40, 80), np.zeros((40, 80), np.uint16)
    maps = [TensorMap(a[4:30, 8:72], (8, 64), 128) for a in (whole, out)]
    given = [*maps, np.zeros(4096, np.uint16), 20, 0]
    source = HEAD + KERNEL + STORE + "\n}\n"
    report = emulator.launch(source, "k", 1, 64, given, 4096, {"BYTES": 1024}, arch="sm_90")
    assert report.ok, report
    want = np.zeros_like(out)
    want[24:30, 8:72] = whole[24:30, 8:72]  # six of eight rows lie within
    assert (out == want).all() and (out != np.roll(want, 1, axis=0)).any()


@pytest.mark.parametrize(
    ("at", "wrong", "says"),
    [(0, np.zeros(128, np.uint8).view("V128")[0], "tensor map"),
     (3, TensorMap(np.zeros((8, 8), "u2"), (8, 8)), "TensorMap was given"),
     (0, TensorMap(np.zeros(64, "u2"), (8,)), r"2 coordinates.* 1 axes")],
    ids=["bytes", "a map for a number", "one axis"],
)  # fmt: skip
def test_a_parameter_that_is_no_map(at, wrong, says):
    x = np.zeros((8, 8), np.uint16)
    given = [TensorMap(x, (8, 8)), TensorMap(x, (8, 8)), x, 0, 0]
    given[at] = wrong
    with pytest.raises(EmulationError, match=says):
        emulator.launch(
            HEAD + KERNEL + LOAD + "}", "k", 1, 32, given, 4096, {"BYTES": 128}, "sm_90"
        )


# -- where rows and boxes lie, in PTX ---------------------------------------------------------------

BARE = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .align 64 .b8 map[128])
{
.shared .align 8 .b64 bar;
.shared .align 8 .b64 two;
.shared .align 128 .b8 row[1024];
.reg .b32 t, a, b, c; .reg .b64 from, to, far, m; .reg .b16 both; .reg .pred one, few, p;
mov.u32 t, %tid.x;
setp.eq.u32 one, t, 0;
setp.lt.u32 few, t, 3;
ld.param.u64 from, [x];
ld.param.u64 to, [y];
mov.b64 m, map; cvta.param.u64 m, m;
mov.u32 a, row;
mad.lo.u32 a, t, 16, a;
st.shared.v4.b32 [a], {t, t, t, t};
st.shared.v4.b32 [a + 512], {t, t, t, t};
mul.wide.u32 far, t, 16;
@one mbarrier.init.shared.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
fence.proxy.async.shared::cta;
barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
BODY
.loc 1 99 1
barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
mov.u32 c, %ctaid.x;
ld.shared.b32 b, [row + 16];
mul.wide.u32 far, c, 4;
add.s64 to, to, far;
@one st.global.b32 [to], b;
ret;
}
"""
FETCH = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
SEND = "@one cp.async.bulk.global.shared::cta.bulk_group"
CLOSE = "@one cp.async.bulk.commit_group; @one cp.async.bulk.wait_group 0"
ANNOUNCE = "@one mbarrier.arrive.expect_tx.shared::cta.b64 far, [bar], {}"
TO_COME = "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0; @!p bra AGAIN"


def bare(*statements, blocks=1, dtype="f4", writeable=True, source=BARE, **options):
    """The report of a kernel of PTX, each statement on a line of its number, and 64 numbers."""
    body = "".join(f".loc 1 {i} 1\n{text};\n" for i, text in enumerate(statements, 1))
    x, y, boxed = np.arange(64, dtype="i4"), np.zeros(64, "i4"), np.zeros((8, 16), dtype)
    for array in (y, boxed):
        array.setflags(write=writeable)
    report = emulator.launch(
        source.replace("BODY", body), "k", blocks, 32, [x, y, TensorMap(boxed, (4, 16))],
        arch="sm_90", cluster=blocks, **options,
    )  # fmt: skip
    return report, y


OUT, ODD = "out-of-bounds", "misaligned"
PLACES = [
    # bytes from the start of the row, from that of 256 bytes of global memory, how many; a fault
    (0, 0, 16, ""), (992, 224, 32, ""), (0, 240, 16, ""), (0, 0, 256, ""),
    (1008, 0, 32, OUT, "thread (0, 0, 0) of block (0, 0, 0) copies 32 bytes at row[7]: a block has 1152 bytes"),
    (8, 0, 16, ODD, "copies 16 bytes at row[0]: size and address are multiples of 16"),
    (0, 0, 24, ODD, "copies 24 bytes at row[0]"), (-144, 0, 16, OUT, "copies 16 bytes at"),
    (0, 240, 32, OUT, "copies 32 bytes WAY ARRAY[60], which do not lie in ARRAY (256 bytes)"),
    (0, -16, 16, OUT, "copies 16 bytes WAY ARRAY[-4], which do not lie in ARRAY"),
    (0, 8, 16, ODD, "copies 16 bytes WAY ARRAY[2]: the engine DOES arrays at multiples of 16 bytes alone"),
    (0, 250, 32, ODD, "copies 32 bytes WAY ARRAY[62]: the engine DOES"), (0, 1 << 40, 16, OUT, "bytes WAY 0x"),
]  # fmt: skip


@pytest.mark.parametrize("there", [True, False], ids=["fetched", "sent"])
@pytest.mark.parametrize("case", PLACES, ids=lambda c: " ".join(map(str, c[:4])))
def test_where_rows_may_lie(case, there):
    row, other, size, kind, *words = case
    if there:
        copy = f"@one {FETCH} [row + {row}], [from + {other}], {size}, [bar]"
        report, y = bare(ANNOUNCE.format(size), copy, TO_COME)
    else:
        report, y = bare("", f"{SEND} [to + {other}], [row + {row}], {size}", CLOSE)
    found = [f for f in report.findings if f.line == 2]
    assert [f.kind for f in found] == ([kind] if kind else []), str(report)
    for f in found:
        says = words[0].replace("ARRAY", f"argument {1 - there}")
        says = says.replace("WAY", "from" if there else "to").replace(
            "DOES", "reads" if there else "writes"
        )
        assert says in f.message
        assert f.threads == ((0, 0, 0),)
    if not kind:
        assert report.ok, str(report)
        want = np.zeros(64, int)
        if not there:
            want[other // 4 : (other + size) // 4] = np.arange(row, row + size, 4) % 512 // 16
        want[0] = 4 if there and size == 256 else 1  # the row's fifth word: what came, or was there
        np.testing.assert_array_equal(y, want)


def test_the_first_of_the_rows_that_do_not_fit_is_named():
    """Three threads send a row each: of two the place is wrong, in shared or in global memory."""
    away = "setp.ge.u32 p, t, 1; @p add.s64 from, from, 8192; add.s64 from, from, far"
    fetch = f"@few {FETCH} [a], [from], 16, [bar]"
    near = "setp.ge.u32 p, t, 1; @p add.u32 a, a, 1032; add.s64 from, from, far"
    for change, kind in ((away, OUT), (near, ODD)):
        report, _ = bare(change, fetch, ANNOUNCE.format(16), TO_COME)
        (found,) = report.findings
        assert (found.kind, found.line, found.count) == (kind, 2, 2), str(report)
        assert found.threads[0] == (1, 0, 0)


SUM = SEND.replace("cp.", "cp.reduce.") + ".add.s32"
WRITTEN, ONLY_READ = (
    "@one cp.async.bulk.wait_group 0; bar.sync 0",
    "@one cp.async.bulk.wait_group.read 0; bar.sync 0",
)
SECOND = f"{SEND} [to + 112], [row], 64; {CLOSE}".replace("@one", "@p")
TARGETS = [
    # after a copy to [to + 64] and the end of its group: instructions, of which the last is told or not
    ([ONLY_READ, "ld.global.b32 b, [to + 64]"], True), ([ONLY_READ, "setp.eq.u32 p, t, 5", "@p st.global.b32 [to + 64], t"], True),
    ([ONLY_READ, "@one ld.global.b32 b, [to + 124]"], True), (["@one st.global.b32 [to + 64], t"], True),
    ([ONLY_READ.replace("one", "few"), "ld.volatile.global.b32 b, [to + 64]"], True),
    ([WRITTEN, "ld.global.b32 b, [to + 64]"], False), ([WRITTEN, "@one st.global.b32 [to + 64], t"], False),
    ([ONLY_READ, WRITTEN, "ld.global.b32 b, [to + 64]"], False), ([ONLY_READ, "ld.global.b32 b, [to + 128]"], False),
    (["setp.eq.u32 p, t, 1", WRITTEN.replace("one", "p"), "ld.global.b32 b, [to + 64]"], True),
    ([f"{SEND} [to + 128], [row], 64", CLOSE.replace(" 0", " 1"), "@one ld.global.b32 b, [to + 64]"], False),
    ([f"{SEND} [to + 128], [row], 64", CLOSE.replace(" 0", " 1"), "@one ld.global.b32 b, [to + 128]"], True),
    ([ONLY_READ, f"{SEND} [to + 112], [row], 64"], False),  # of one thread: its boxes may overlap
    ([ONLY_READ, "setp.eq.u32 p, t, 1", SECOND], True), ([WRITTEN, "setp.eq.u32 p, t, 1", SECOND], False),
]  # fmt: skip


@pytest.mark.parametrize("clock", [True, False], ids=["mbarriers", "barriers"])
@pytest.mark.parametrize("copy", [SEND, SUM], ids=["copied", "added to"])
@pytest.mark.parametrize(("statements", "early"), TARGETS)
def test_what_the_engine_may_still_write(statements, early, copy, clock):
    """wait_group.read waits for shared memory alone: not even the thread itself may look."""
    source = BARE
    if not clock:
        lines = (line for line in BARE.splitlines() if "barrier" not in line.split(".loc")[0])
        source = "\n".join(lines).replace("BODY", "bar.sync 0;\nBODY\nbar.sync 0;")
    close = "@one cp.async.bulk.commit_group"
    report, _ = bare(
        f"{copy} [to + 64], [row], 64; {close}", *statements, f"{close}; {WRITTEN}", source=source
    )
    found = [(f.kind, f.line, f.other_line) for f in report.findings]
    first = 2 if "128], [row]" in statements[0] and "128" in statements[-1] else 1
    assert found == [("race", 1 + len(statements), first)] * early, report
    assert all("may still write it for the copy of line" in f.message for f in report.findings)


FETCHED = (
    HEAD
    + r"""#define SHOW(space) asm volatile("fence.proxy.async" space ";" ::: "memory")
extern "C" __global__ void k(float* x, float* y) {
    __shared__ __align__(128) float row[64];
    __shared__ u64 bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, 1);
    __syncthreads();
    FIRST
    __syncthreads();
    if (t == 0) {
        expect(&bar, 256);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
            :: "r"(at(row)), "l"(x), "r"(at(&bar)) : "memory");
    }
    wait(&bar, 0);
    y[t] = row[63 - t];
}"""
)


@pytest.mark.parametrize(
    ("first", "early"),
    [('x[t] = t; SHOW("");', 0), ('x[t] = t; SHOW(".global");', 0), ('x[t] = t; SHOW(".shared::cta");', 64),
     ("x[t] = t;", 64), ('SHOW(""); x[t] = t;', 64), ("x[t + 64] = t;", 0), ("if (t == 9) x[t] = t;", 1),
     ('x[t] = t; __syncthreads(); if (t == 0) SHOW("");', 0), ('x[t] = t; __syncthreads(); if (t == 40) SHOW("");', 0),
     ('x[t] = t; if (t == 0) SHOW("");', 32), ('if (t < 32) x[t] = t; SHOW(""); if (t > 61) x[t] = t;', 2)],
)  # fmt: skip
def test_what_is_stored_to_an_array_is_shown_to_the_engine(first, early):
    x, y = np.ones(128, "f4"), np.zeros(64, "f4")
    report = emulator.launch(
        FETCHED.replace("FIRST", first), "k", 1, 64, [x, y], arch="sm_90", max_steps=100_000
    )
    assert [(f.kind, f.array, f.count) for f in report.findings] == [("race", "x", early)] * (
        early > 0
    ), report
    assert all("Put fence.proxy.async after the stores" in f.message for f in report.findings)


def test_what_the_engine_has_written_it_reads_without_a_fence():
    fetch = f"@one {FETCH} [row], [to + 64], 64, [bar]"
    report, _ = bare(f"{SEND} [to + 64], [row], 64", CLOSE, ANNOUNCE.format(64), fetch, TO_COME)
    assert report.ok, report


def test_who_stores_before_a_copy_is_waited_for_is_the_last():
    copy, expect = (
        f"{SEND} [to + 64], [row], 64; @one cp.async.bulk.commit_group",
        np.zeros(64, "i4"),
    )
    expect[0], expect[16:32] = 1, np.repeat(range(4), 4)
    report, _ = bare(
        copy, ONLY_READ, "@few st.global.b32 [to + 64], t", WRITTEN, expect={"argument 1": expect}
    )
    assert [(f.kind, f.line) for f in report.findings if f.kind != "race"] == [("wrong-result", 3)]


@pytest.mark.parametrize("store", ["[to], [row], 64", "[m, {b, b}], [row]"], ids=["a row", "a box"])
def test_what_may_not_be_written_is_told(store):
    send = SEND.replace("bulk.", "bulk.tensor.2d.") if "{" in store else SEND
    report, y = bare("mov.u32 b, 0", f"{send} {store}", CLOSE, writeable=False)
    findings = [f for f in report.findings if f.line == 2]
    assert len(findings) == 1 and "read-only" in findings[0].message, str(report)
    assert not y[1:].any()
    assert bare("mov.u32 b, 0", f"{send} {store}", CLOSE)[0].ok


@pytest.mark.parametrize(
    ("mask", "gets", "nobody"), [(1, [1, 0], 0), (2, [0, 1], 0), (3, [1, 1], 0), (7, [1, 1], 2), (1 << 15, [0, 0], 15)],
)  # fmt: skip
@pytest.mark.parametrize("box", [False, True])
def test_a_row_or_a_box_for_several_blocks(mask, gets, nobody, box):
    """To each block whose bit is set, counted at its own mbarrier."""
    first = "mov.u32 b, %ctaid.x; setp.eq.and.u32 p, b, 0, one; mov.b16 both, " + str(mask)
    copy = f"@p {FETCH}.multicast::cluster [row], [from + 64], 64, [bar], both"
    if box:
        copy = copy.replace("bulk.", "bulk.tensor.2d.").replace("[from + 64], 64", "[m, {b, b}]")
    wait = "setp.eq.u32 p, b, {}; @!p bra PAST{}; {}; PAST{}:"
    waits = [
        wait.format(i, i, TO_COME.replace("AGAIN", f"AGAIN{i}"), i) + " mov.u32 c, 0"
        for i in (0, 1)
        if gets[i]
    ]
    announced = [
        f"setp.eq.and.u32 p, b, {i}, one; @p mbarrier.arrive.expect_tx.shared::cta.b64 far, [bar], {256 if box else 64}"
        for i in (0, 1)
        if gets[i]
    ]
    report, y = bare("mov.u32 b, %ctaid.x", *announced, first, copy, *waits, blocks=2)
    assert y[:2].tolist() == [(0 if box else 20) if got else 1 for got in gets]
    messages = [f.message for f in report.findings]
    assert len(messages) == bool(nobody), str(report)
    assert all(
        f"to the block of rank {nobody} of its cluster, which has 2 blocks" in m for m in messages
    )


REDUCED = [
    # what the engine does not do with which elements, beside one that it does
    ("min", ["f4", "f8", "i2", "i1"], ["f2", "u2", "i4", "u8"]), ("max", ["f4", "f8"], ["f2", "i8"]),
    ("and", ["f2", "u2", "f4"], ["u4", "i8"]), ("inc", ["i4", "u8", "f4"], ["u4"]), ("dec", ["i4", "i8"], ["u4"]),
    ("add", ["u1", "i2"], ["f2", "u2", "f4", "f8", "i4", "u4", "i8", "u8"]),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "refused", "done"), REDUCED, ids=[r[0] for r in REDUCED])
def test_what_the_engine_combines(operation, refused, done):
    reduce = SEND.replace("cp.async.bulk.global", "cp.reduce.async.bulk.tensor.2d.global")
    reduce = reduce.replace(".bulk_group", f".{operation}.tile.bulk_group") + " [m, {b, b}], [row]"
    for dtype in done:
        assert bare("mov.u32 b, 0", reduce, CLOSE, dtype=dtype)[0].ok
    for dtype in refused:
        with pytest.raises(
            EmulationError, match=rf"does not do \.{operation} with {np.dtype(dtype)}"
        ):
            bare("mov.u32 b, 0", reduce, CLOSE, dtype=dtype)


EXPECT = "@one mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], {}"
COMPLETE = "@one mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], {}"
ARRIVE = "mbarrier.arrive.shared::cta.b64 far, [{}]"
INIT = "@one mbarrier.init.shared.b64 [{}], {}"
SECOND = "mov.u32 b, %ctaid.x; setp.eq.and.u32 one, b, 1, one"
GENERIC = "mov.u64 m, bar; {}@one mbarrier.arrive.b64 far, [m]"
COUNTS = {
    # statements, and of each line at fault what is told
    "all that it holds": ([ANNOUNCE.format(2**20 - 1), COMPLETE.format(2**20 - 1), TO_COME], {}),
    "come before": ([COMPLETE.format(2**20 - 1), ANNOUNCE.format(2**20 - 1), TO_COME], {}),
    "one more": (
        [ANNOUNCE.format(2**20), COMPLETE.format(2**20), TO_COME],
        {1: "announces 1048576 bytes at bar[0], which makes 1048576 in this phase: the count of a barrier holds at most 1048575"},
    ),
    "one more in two": (
        [EXPECT.format(2**20 - 600), EXPECT.format(600), COMPLETE.format(2**20)],
        {2: "announces 600 bytes at bar[0], which makes 1048576 in"},
    ),
    "a phase of 2**29": ([INIT.format("bar", 2**29 - 1)], {}),
    "set up again": ([EXPECT.format(64), INIT.format("bar", 1) + "; bar.sync 0", "@one " + ARRIVE.format("bar"), TO_COME], {}),
    "set up by one of many": (["setp.eq.u32 p, t, 7; @p mbarrier.init.shared.b64 [bar], t"], {}),
    "nobody brings them": (
        [SECOND, EXPECT.format(32)], {2: "bar[0] of block (1, 0, 0): at the end of the block 32 bytes that were announced have not come. Announce"},
    ),
    "more than was said": (
        [SECOND, COMPLETE.format(48)],
        {0: "bar[0] of block (1, 0, 0): at the end of the block 48 bytes more have come than were announced: a phase ended"},
    ),
    "between two mbarriers": (
        [f"@one {FETCH} [row], [from], 16, [bar + 4]"],
        {1: "names an mbarrier at byte 4 of shared memory: one lies at a multiple of 8 bytes inside the 1152 of the block"},
    ),
    "behind the last": ([f"@one {FETCH} [row], [from], 16, [row + 1024]"], {1: "names an mbarrier at byte 1152 of"}),
    "before the first": ([f"@one {FETCH} [row], [from], 16, [bar - 8]"], {1: "names an mbarrier at byte -8 of"}),
    "the last": (
        [INIT.format("row + 1016", 1) + "; fence.proxy.async.shared::cta; bar.sync 0", ANNOUNCE.format(16).replace("[bar]", "[row + 1016]"),
         f"@one {FETCH} [row], [from], 16, [row + 1016]", TO_COME.replace("[bar]", "[row + 1016]")], {},
    ),
    "more arrivals than a phase takes": (
        [ANNOUNCE.format(16), "setp.ge.u32 p, t, 29; @p " + ARRIVE.format("bar"), COMPLETE.format(16), TO_COME],
        {2: "thread (29, 0, 0) of block (0, 0, 0) arrives at bar[0] although all arrivals of this phase have come and bytes"},
    ),
    "arrivals of the next phase": (
        [ANNOUNCE.format(16), COMPLETE.format(16), "setp.ge.u32 p, t, 30; @p " + ARRIVE.format("bar"), TO_COME], {},
    ),
    "bytes without the last arrival": (
        [INIT.format("bar", 2) + "; bar.sync 0", ANNOUNCE.format(16), COMPLETE.format(16), TO_COME],
        {4: "waits at bar[0] for a phase that never completes: 1 of its 2 arrivals are missing. Let"},
    ),
    "the last arrival without bytes": (
        [INIT.format("two", 1) + "; bar.sync 0", ANNOUNCE.format(16).replace("[bar]", "[two]"), TO_COME.replace("[bar]", "[two]")],
        {2: "two[0] of block (0, 0, 0): at the end of the block 16 bytes that were announced have not come",
         3: "waits at two[0] for a phase that never completes: 0 of its 1 arrivals are missing, and 16 bytes that were"},
    ),
    "by a generic address": ([GENERIC.format("cvta.shared.u64 m, m; "), TO_COME], {}),
    "by another": ([GENERIC.format(""), TO_COME], {1: "gives an address of shared memory, 0x400, to an instruction that takes"}),
}  # fmt: skip


LANES = "cp.async.ca.shared.global [a{}], [from], 16"
GROUP, READ = "cp.async.commit_group", "ld.shared.b32 c, [a{}]"
TRACKED = "cp.async.mbarrier.arrive.noinc.shared.b64 [{}]"
BOTH = INIT.format("bar", 32) + "; " + INIT.format("two", 32) + "; bar.sync 0"
TWO = [LANES.format(""), GROUP, LANES.format(" + 512"), GROUP]
LATER = "AGAIN: mbarrier.test_wait.parity.shared::cta.b64 p, [two], 0; @!p bra AGAIN"
UNDER_WAY = {
    # statements, the last of which reads; how many threads read what may still be under way
    "the first of two": ([*TWO, "cp.async.wait_group 1", READ.format("")], 0),
    "the second": ([*TWO, "cp.async.wait_group 1", READ.format(" + 512")], 32),
    "neither": ([*TWO, "cp.async.wait_group 2", READ.format("")], 32),
    "both": ([*TWO, "cp.async.wait_group 0", READ.format(" + 512")], 0),
    "in no group": ([LANES.format(""), "cp.async.wait_group 0", READ.format("")], 32),
    "all in no group": ([LANES.format(""), "cp.async.wait_all", READ.format("")], 0),
    "who waits alone": ([LANES.format(""), "@few cp.async.wait_all", READ.format("")], 29),
    "who waits later": ([LANES.format(""), "@few cp.async.wait_all", "@!few cp.async.wait_all", READ.format("")], 0),
    "who closed its group": ([LANES.format(""), "@few " + GROUP, "cp.async.wait_group 0", READ.format("")], 29),
    "who copies": (["@few " + LANES.format(""), READ.format("")], 3),
    "who copies and waits": (["@few " + LANES.format(""), "@one cp.async.wait_all", READ.format("")], 2),
    "what a phase waited for": (
        [BOTH, LANES.format(""), TRACKED.format("bar"), LANES.format(" + 512"), TO_COME, READ.format("")], 0,
    ),
    "what began later": (
        [BOTH, LANES.format(""), TRACKED.format("bar"), LANES.format(" + 512"), TO_COME, READ.format(" + 512")], 32,
    ),
    "what the other phase waited for": (
        [BOTH, LANES.format(""), TRACKED.format("bar"), LANES.format(" + 512"), TRACKED.format("two"), TO_COME,
         READ.format(" + 512")], 32,
    ),
    "what both waited for": (
        [BOTH, LANES.format(""), TRACKED.format("bar"), LANES.format(" + 512"), TRACKED.format("two"), TO_COME,
         LATER.replace("AGAIN", "MORE"), READ.format(" + 512")], 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("statements", "early"), UNDER_WAY.values(), ids=UNDER_WAY)
def test_copies_of_lanes_that_are_under_way(statements, early):
    report, _ = bare(*statements)
    found = [f for f in report.findings if f.line != 99]
    wanted = [("race", len(statements), early)] if early else []
    assert [(f.kind, f.line, f.count) for f in found] == wanted, str(report)
    assert all("cp.async" in f.message for f in found)


def test_a_count_of_arrivals_is_that_of_a_thread_that_sets_up():
    init = "setp.eq.u32 p, t, 5; add.u32 b, t, -5; @p mbarrier.init.shared.b64 [bar], b"
    with pytest.raises(EmulationError, match=r"line 1: mbarrier\.init with a count of 0:"):
        bare(init)


@pytest.mark.parametrize(("statements", "messages"), COUNTS.values(), ids=COUNTS)
def test_what_an_mbarrier_counts(statements, messages):
    report, _ = bare(*statements, blocks=1 + (SECOND in statements))
    all_found = [f for f in report.findings if "ends while the copy engine" not in f.message]
    found = {f.line: f for f in all_found}
    assert sorted(found) == sorted(messages) and len(all_found) == len(messages), str(report)
    for line, words in messages.items():
        assert words in found[line].message
        assert found[line].count == (32 if words.startswith("waits") else 1)


FENCED = cuda("bulk/fenced")


def test_mbarriers_are_shown_to_the_engine_by_a_fence():
    """Either fence does; without one the engine may not see that the mbarrier has been set up."""
    line = '    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");\n'
    assert HEAD.count(line) == 1
    for instead, sound in (
        (line, True),
        (line.replace("mbarrier_init.release.cluster", "proxy.async"), True),
        ("", False),
    ):
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        report = emulator.launch(
            HEAD.replace(line, instead) + FENCED, "k", 2, 32, [x, y], arch="sm_90"
        )
        assert report.ok == sound and (y == x).all(), report
        if not sound:
            (found,) = report.findings
            assert found.kind == "race" and "has initialised" in found.message
            assert found.line > found.other_line > 0


# -- from block to block --------------------------------------------------------------------------

PASS = cuda("bulk/pass")


def passed(*changes, n=256, **options):
    """Report, and what each of four blocks got from its peer."""
    source, out = PASS, np.zeros((4, 256), np.int32)
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    report = emulator.launch(
        source, "k", 4, 64, [out, n], cluster=2, arch="sm_90", max_steps=100_000, **options
    )
    return report, out


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("lanes", [1, 1 << 16])
@pytest.mark.parametrize("n", [4, 136, 256])
def test_a_block_copies_to_its_peer(n, lanes, schedule):
    report, out = passed(n=n, lanes=lanes, schedule=schedule)
    assert report.ok, report
    want = np.array([1, 0, 3, 2])[:, None] * 1000 + np.arange(256)
    np.testing.assert_array_equal(out, np.where(np.arange(256) < n, want, 0))
    sent = [a for a in report.accesses if a.array == "mine" and a.op == "load"]
    assert [(a.requests, a.bytes) for a in sent] == [(4, 4 * 4 * n)]


WAIT = "    barrier_wait(&full, 0);\n"
FULL = "    cluster_sync();\n}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([('    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n', "")], "Put fence.proxy.async after"),
        ([(WAIT, "    __syncthreads();\n")], "may still be under way"),
        ([(FULL, "}")], "ends while the copy engine may still read it for another block"),
        ([(WAIT, "    mine[t] = 1;\n" + WAIT)], "let that block wait for the phase and then arrive"),
        ([(FULL, "    mine[t] = 1;\n}")], "let that block wait for the phase and then arrive"),
    ],
    ids=["no fence", "no wait", "no meeting", "source too early", "source after one's own wait"],
)  # fmt: skip
def test_a_copy_to_a_peer_that_nobody_waits_for_as_he_should(changes, words):
    report, _ = passed(*changes)
    assert any(f.kind == "race" and words in f.message for f in report.findings), report
    later = [(FULL, "    cluster_sync();\n    mine[t] = 1;\n}")]
    assert passed(*later)[0].ok, "when both have met it is one's own again"


MEET = """    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    cluster_sync();
"""
MULTICAST = """        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
            " [%0], [%1], %2, [%3], %4;" :: "r"(to_shared(theirs + 4 * rank)), "l"(out + 100 + 4 * rank),
            "r"(16), "r"(to_shared(&full)), "h"((unsigned short)3) : "memory");
"""


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("multicast", [False, True])
def test_who_lets_an_engine_count_at_a_peers_mbarrier_knows_that_it_is_set_up(multicast, schedule):
    """A barrier of the block, with the fence, tells its own threads alone."""
    changes = []
    if multicast:
        copy = PASS[PASS.index("        unsigned to, bar;") : PASS.index("    }\n    barrier_wait")]
        changes = [
            (copy, MULTICAST),
            ("barrier_arrive_expect(&full, n * 4)", "barrier_arrive_expect(&full, 32)"),
        ]
    assert passed(*changes, n=8, schedule=schedule)[0].ok
    # Whoever arrives in between releases nothing, but the fence of the init stands before it.
    arrive, wait = (
        f'asm volatile("barrier.cluster.{w};" ::: "memory");' for w in ("arrive.relaxed", "wait")
    )
    split = MEET.replace("cluster_sync();", f"__syncthreads(); {arrive} {wait}")
    assert passed(*changes, (MEET, split), n=8, schedule=schedule)[0].ok
    alone = MEET.replace("cluster_sync()", "__syncthreads()")
    report, _ = passed(*changes, (MEET, alone), n=8, schedule=schedule)
    (found,) = report.findings
    assert found.kind == "race" and "counted at full[0] of block" in found.message, report
    assert found.other_line > 0 and "cluster.sync()" in found.message


def test_a_copy_to_a_peer_that_does_not_fit():
    report, _ = passed(n=255)
    assert "1020 bytes at theirs[0]: size and address are multiples of 16" in str(report.findings)
    report, _ = passed(("to_shared(mine)", "to_shared(mine + 1)"))
    assert any(f.kind == "misaligned" and "at mine[1]" in f.message for f in report.findings)
    with pytest.raises(
        EmulationError, match="go to one block of the cluster and are counted in another"
    ):
        passed(('"r"(to_shared(&full)), "r"(rank ^ 1)', '"r"(to_shared(&full)), "r"(rank)'))


# -- reductions ------------------------------------------------------------------------------------

SUMS = cuda("bulk/sums")
NARROW = {"f16": "#include <cuda_fp16.h>\n", "bf16": "#include <cuda_bf16.h>\n"}
OF_TYPE = {"f32": "float", "f64": "double", "s32": "int", "u32": "unsigned", "s64": "long long", "u64": "unsigned long long",
           "f16": "__half", "bf16": "__nv_bfloat16"}  # fmt: skip
ARRAYS = {
    "f32": "f4", "f64": "f8", "s32": "i4", "u32": "u4", "s64": "i8", "u64": "u8", "f16": "f2",
    "bf16": "u2",
}  # fmt: skip


def bf16(values):
    """Bits of whole numbers below 256, which bfloat16 holds exactly."""
    return (np.asarray(values, "f4").view("u4") >> 16).astype("u2")


def reduced(operation, kind, *, blocks=3, at=(0, 0), later="", of_row="", **options):
    """Report, and both arrays as numbers: 40 x 72 to which boxes were added, and 64 beside each
    other; each before.

    of_row: another operation for the 64, with its type.
    """
    whole, line = np.arange(40 * 72).reshape(40, 72) % 97, np.arange(64) % 7
    x, rows, y = (
        bf16(v) if kind == "bf16" else v.astype(ARRAYS[kind]) for v in (whole, line, 0 * line)
    )
    narrow = ".noftz" if kind in NARROW and operation == "add" else ""
    own = f"b{kind[1:]}" if operation in ("and", "or", "xor") else kind
    source = NARROW.get(kind, "") + SUMS.replace("TYPE", OF_TYPE[kind]).replace("LATER", later)
    source = source.replace(".OP.", f".{operation}.")
    source = source.replace("WITH", of_row or f"{operation}{narrow}.{own}")
    report = emulator.launch(
        source, "k", blocks, 64, [TensorMap(x, (8, 64)), rows, y, *at], arch="sm_90",
        max_steps=100_000, **options,
    )  # fmt: skip
    if kind == "bf16":
        x, rows = ((a.astype("u4") << 16).view("f4") for a in (x, rows))
    return report, x, rows, whole, line


NP = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
      "xor": np.bitwise_xor}  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "kind"),
    [("add", kind) for kind in OF_TYPE if kind != "s64"]
    + [(op, kind) for op in ("min", "max") for kind in ("s32", "u32", "s64", "u64", "f16", "bf16")]
    + [(op, kind) for op in ("and", "or", "xor") for kind in ("u32", "u64")],
)
def test_the_engine_combines_what_blocks_bring(operation, kind):
    at = (37, 24)  # three rows and 48 columns are inside
    report, x, rows, whole, line = reduced(operation, kind, at=at)
    assert report.ok, report
    box = (np.arange(512) % 50).reshape(8, 64)
    want, beside = whole.copy(), line.copy()
    for block in range(3):
        part = want[37:40, 24:72]
        part[...] = NP[operation](part, (box + block)[:3, :48])
        beside = NP[operation](beside, np.arange(64) + block)
    np.testing.assert_array_equal(x, want)
    np.testing.assert_array_equal(rows, beside)


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize(("operation", "want"), [("min", [0, 1, 1, 1]), ("max", [0, 0, 0, 1])])
def test_the_engine_orders_zeros(operation, want, kind):
    """By four values what +0, -0, +0, -0 make of +0, +0, -0, -0: their signs."""
    source = NARROW[kind] + SUMS.replace("TYPE", OF_TYPE[kind]).replace("LATER", "")
    source = source.replace("Number(blockIdx.x + t)", "Number(t % 2 ? -0.f : 0.f)")
    source = source.replace(".OP.", ".add.").replace("WITH", f"{operation}.{kind}")
    x, rows, y = (
        np.zeros((8, 64), "u2"),
        np.resize([0, 0, 1, 1], 64).astype("u2") << 15,
        np.zeros(64, "u2"),
    )
    x, rows, y = (a.view("f2") if kind == "f16" else a for a in (x, rows, y))
    report = emulator.launch(
        source, "k", 1, 64, [TensorMap(x, (8, 64)), rows, y, 0, 0], arch="sm_90"
    )
    assert report.ok, report
    np.testing.assert_array_equal(rows.view("u2") >> 15, np.resize(want, 64))


def test_the_last_values_count_round():
    """inc and dec wrap at the value that comes."""
    for operation, step in (("inc", lambda old, new: np.where(old >= new, 0, old + 1)),
                            ("dec", lambda old, new: np.where((old == 0) | (old > new), new, old - 1))):  # fmt: skip
        report, x, rows, whole, line = reduced(operation, "u32", blocks=1)
        assert report.ok, report
        np.testing.assert_array_equal(rows, step(line, np.arange(64)))
        box = (np.arange(512) % 50).reshape(8, 64)
        np.testing.assert_array_equal(x[:8, :64], step(whole[:8, :64], box))


def test_reductions_are_counted_and_judged_as_atomics():
    report, *_ = reduced("add", "f32", blocks=2)
    sums = [a for a in report.accesses if a.space == "global"]
    assert {a.op for a in sums} == {"atomic"}
    assert [(a.requests, a.bytes, a.sectors) for a in sums] == [
        (2, 2 * 8 * 64 * 4, 2 * 8 * 8),
        (2, 2 * 64 * 4, 2 * 8),
    ]
    # A fence makes flags and atomics count: then an ordinary load beside the sums of others races.
    later = "__threadfence(); y[t] = rows[t];"
    report, *_ = reduced("add", "f32", blocks=2, later=later)
    assert {(f.kind, f.array) for f in report.findings} >= {("race", "rows")}
    assert reduced("add", "f32", blocks=2, later="__threadfence();")[0].ok


def test_sums_that_nobody_began_are_told():
    report, *_ = reduced("add", "f32", uninitialised=["rows"])
    assert [(f.kind, f.array) for f in report.findings] == [("uninitialised", "rows")]
    assert "added to" in report.findings[0].message


def test_a_reduction_that_the_engine_does_not_do():
    with pytest.raises(EmulationError, match=r"does not do \.min with float32"):
        reduced("min", "f32", of_row="add.f32")
    peer = SUMS.replace("TYPE", "int").replace("LATER", "").replace(".OP.", ".add.")
    peer = peer.replace(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.WITH [%0], [%1], %2;",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.s32"
        " [%1], [%1], %2, [%1];",
    )
    with pytest.raises(EmulationError, match="in the shared memory of a peer"):
        emulator.launch(peer, "k", 1, 64, [TensorMap(np.zeros((8, 64), "i4"), (8, 64)), np.zeros(64, "i4"),
                                           np.zeros(64, "i4"), 0, 0], arch="sm_90")  # fmt: skip


MANY = cuda("bulk/many")


@pytest.mark.parametrize("skipped", [-1, 0, 80, 149])
def test_each_of_many_mbarriers_is_waited_for(skipped):
    x, y = np.arange(600, dtype=np.int32), np.zeros(600, np.int32)
    report = emulator.launch(HEAD + MANY, "k", 1, 32, [x, y, skipped], arch="sm_90a")
    found = [f for f in report.findings if "may still be under way" in f.message]
    assert bool(found) == (skipped >= 0), str(report)
    assert (y == x).all()


BESIDE = """{
    extern __shared__ __align__(128) unsigned char box[];
    if (blockIdx.x == 0) {
        for (int i = threadIdx.x; i < BYTES / 2; i += blockDim.x) reinterpret_cast<unsigned short*>(box)[i] = i;
        fence();
        __syncthreads();
        if (threadIdx.x == 0) { store(&to, box, 0, 8); commit(); drained(); }
    } else if (threadIdx.x == 0) y[col] = 1;
}
"""


@pytest.mark.parametrize("col", [7, 8, 11, 15, 16])
def test_a_box_races_where_its_elements_lie(col):
    out = np.zeros((4, 80), np.uint16)
    maps = [TensorMap(out, (4, 8), 0)] * 2
    report = emulator.launch(
        HEAD + KERNEL.split("{")[0] + BESIDE, "k", 2, 32, [*maps, out, 0, col], shared_bytes=1024, arch="sm_90",
        defines={"BYTES": 64},
    )  # fmt: skip
    assert [f.kind for f in report.findings] == ["race"] * (8 <= col < 16), str(report)


@pytest.mark.parametrize("body", [LOAD, STORE], ids=["load", "store"])
@pytest.mark.parametrize(
    ("dtype", "col"),
    [("uint8", 8), ("uint8", 1), ("uint16", 4), ("uint16", -4), ("float32", 2), ("float64", 1)],
)
def test_a_box_begins_at_a_chunk_of_the_tensor(body, dtype, col):
    given = {"dtype": dtype, "cols": 96, "box": (8, 16), "swizzle": 0}
    report = run(
        body.replace("store(&to, box, row, col)", "store(&to, box, 3, col)"), at=(3, col), **given
    )[0]
    first = report.findings[0]
    assert first.kind == "misaligned"
    assert (
        f"begins at {first.array}[3, {col}]: its rows must begin at multiples of 16"
        in first.message
    )
    assert run(body, at=(3, 16), **given)[0].ok


@pytest.mark.parametrize("at", [(-3, 0), (0, -8), (-8, 0), (0, -1024), (-2000000, 0)])
def test_a_box_that_is_stored_begins_in_the_tensor_or_behind_it(at):
    alone = "if (t == 0) { for (int i = 0; i < BYTES / 2; ++i) reinterpret_cast<unsigned short*>(box)[i] = 1;" \
        " fence(); store(&to, box, row, col); commit(); drained(); }"  # fmt: skip
    report, _, out, _ = run(alone, at=at)
    (found,) = report.findings
    assert (found.kind, found.array, found.index) == (
        "out-of-bounds",
        "to",
        f"to[{at[0]}, {at[1]}]",
    )
    assert "must not begin before the tensor" in found.message and not out.any()
    assert run(LOAD, at=at)[0].ok
    assert run(alone, at=(-at[0], -at[1]))[0].ok
