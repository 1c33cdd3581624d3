"""What runs of a source say: counts, the line to look at, operands, heads; of PTX, no compiler."""

from __future__ import annotations

from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest

from nogpu.emulator.launching.report import LineAccess
from nogpu.errors import DataError
from tilelabs.judging import running
from tilelabs.judging.marking import Argument, Case, Specification

# -- counts ----------------------------------------------------------------------------------------


def row(line, space, op, width, array, *of):
    """of: requests, sectors, wavefronts."""
    requests, sectors, wavefronts = of
    return LineAccess(line, "", space, op, width, array, requests, sectors, wavefronts, 0)


ROWS = [
    row(3, "global", "load", 4, "A", 10, 40, 0),
    row(3, "global", "load", 16, "A", 10, 80, 0),
    row(4, "global", "store", 4, "C", 5, 100, 0),
    row(5, "global", "atomic", 4, "n", 2, 2, 0),
    row(6, "shared", "store", 4, "tile", 10, 0, 20),
    row(7, "shared", "load", 2, "tile", 40, 0, 40),
    row(7, "shared", "load", 16, "tile", 20, 0, 80),
    row(8, "shared", "atomic", 8, "sums", 3, 0, 5),
    row(9, "local", "load", 4, "a", 99, 99, 99),
]


TOLD = SimpleNamespace(
    accesses=ROWS, instructions={"fma.rn.f32": 5, "add.f64": 1, "add.s32": 7, "mul.f16x2": 2}
)
MORE = SimpleNamespace(accesses=[], instructions={
    "fma.rn.f32": 1, "bar.sync": 2, "barrier.cluster.wait": 1, "bar.warp.sync": 4,
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32": 3, "wmma.mma.sync.m16n16k16.f32": 2,
    "ld.global.f32": 1,
})  # fmt: skip


def test_launches_are_counted_in_totals():
    """Of shared memory a request needs a wavefront for each four bytes of a lane, one at least."""
    assert running.counted([TOLD, MORE]) == {
        "sectors": 222, "requests": 27, "atomics": 5, "wavefronts": 145, "conflicts": 10,
        "instructions": 29, "scalar": 9, "barriers": 3, "tensor": 3 * 1024 + 2 * 4096,
    }  # fmt: skip


def test_the_line_to_look_at_is_the_one_that_makes_most_or_loses_most():
    row = {"line": 3, "op": "load", "array": "A", "share": 120 / 222, "each": 6, "meets": False}
    assert running.heaviest(ROWS)["sectors"] == row
    most = {"line": 7, "op": "load", "array": "tile", "share": 120 / 145, "each": 2}
    assert running.heaviest(ROWS)["wavefronts"] == most | {"meets": False}  # 10 of 145 are lost
    lossy = [one for one in ROWS if one.width_bytes != 2][:-2]  # 10 of 100, at another line
    most = {"line": 6, "op": "store", "array": "tile", "share": 20 / 100, "each": 2}
    assert running.heaviest(lossy)["wavefronts"] == most | {"meets": True}
    assert running.heaviest(ROWS[:4]).keys() == {"sectors"}


# -- operands --------------------------------------------------------------------------------------

SPEC = Specification(
    "k",
    (
        Argument("x", "float32", ("n", "3")), Argument("i", "int32", ("n",), most=2),
        Argument("r", "float64", ("n",), scale=5.0),
        Argument("y", "float32", ("n", "3"), out=True),
        Argument("z", "float32", ("n", "3"), out=True, given=True),
        Argument("n"), Argument("twice", value="2 * n"), Argument("a", pick=(0.5, 8.0)),
    ),
    tile={"n": 1}, shapes=(), work="n", transposed="xy", roundings="n",
    reference=(
        "def reference(x, r, z, a, twice):\n    return a * x, z - twice\n"
        "def magnitude(x, z):\n    return 0 * x + 4, 0 * z - 4"
    ),
)  # fmt: skip


def drawn(spec, kind, n=5000, seed=1):
    return running.operands(spec.as_data, asdict(Case((("n", n),), seed, kind)))


def test_operands_are_what_their_arguments_say_and_results_a_float64_reference():
    made = drawn(SPEC, "integers")
    given, x = made["given"], made["given"]["x"].T.astype(float)
    assert list(given) == ["x", "i", "r", "y", "z", "n", "twice", "a"]
    assert [*np.unique(x)] == [*range(-63, 64)] and [*np.unique(given["i"])] == [*range(-2, 3)]
    assert given["x"].shape == given["y"].shape == (3, 5000) and given["x"].flags.c_contiguous
    assert np.isnan(given["y"]).all() and given["z"].shape == (5000, 3)
    assert (given["n"], given["twice"]) == (5000, 10_000) and given["a"] in (0.5, 8.0)
    assert {float(drawn(SPEC, "reals", 1, seed)["given"]["a"]) for seed in range(9)} == {0.5, 8.0}
    assert np.array_equal(made["want"]["y"], given["a"] * x)
    assert np.array_equal(made["want"]["z"], given["z"].astype(float) - 10_000)
    assert not made["bound"]["y"].any() and not made["bound"]["z"].any()
    reals = drawn(SPEC, "reals")
    assert set(np.unique(reals["given"]["i"])) == set(range(-2, 3))
    deviations = [float(np.std(reals["given"][name])) for name in "xr"]
    assert deviations == pytest.approx([1, 5], rel=0.05)


def test_reals_may_be_off_by_as_many_roundings_as_a_lab_says():
    """n u / (1 - n u) of what the terms come to, and what float32 flushes to zero."""
    n, u = 5000, 2.0**-24
    bound = drawn(SPEC, "reals", n)["bound"]
    assert bound["y"] == pytest.approx(np.full((n, 3), 4 * n * u / (1 - n * u)), rel=1e-9)
    assert np.array_equal(bound["y"], bound["z"])
    nothing = Specification(
        "k", (Argument("y", shape=("n",), out=True),), tile={"n": 1}, shapes=(), work="n",
        reference="def reference(n):\n    return np.zeros(int(n))",
    )  # fmt: skip
    assert set(drawn(nothing, "reals", 3)["bound"]["y"]) == {2.0**-126}
    for wrong in ("np.zeros(4)", "np.full(int(n), np.inf)", "np.full(int(n), np.nan)"):
        text = nothing.reference.replace("np.zeros(int(n))", wrong)
        with pytest.raises(DataError, match=r"y should be \[3\] finite numbers"):
            drawn(replace(nothing, reference=text), "reals", 3)
    two = nothing.reference + ", 1"
    with pytest.raises(DataError, match=r"of k's reference.py: ValueError: zip"):
        drawn(replace(nothing, reference=two), "reals", 3)


# -- a run -----------------------------------------------------------------------------------------

HEAD = 'extern "C" __global__ void k(const half* x, float* y, int n)'
HALF = Specification(
    "k", (Argument("x", "float16", ("16", "8")), Argument("y", shape=("16", "8"), out=True), Argument("n")),
    tile={"n": 1}, shapes=(), work="n", block=("32",), reference="def reference(x):\n    return 0 * x",
)  # fmt: skip
MMA = """.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .b64 %a<4>;
    .reg .b32 %r<8>;
    .reg .f32 %f<8>;
    ld.param.u64 %a0, [x];
    ld.param.u64 %a1, [y];
    mov.u32 %r0, %tid.x;
    mad.wide.u32 %a2, %r0, 8, %a0;
    mad.wide.u32 %a3, %r0, 16, %a1;
    ld.global.b32 %r1, [%a2];
    ld.global.b32 %r2, [%a2+4];
    mov.b32 %r3, 0;
    mov.f32 %f4, 0f00000000;
    mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r2}, {%r3}, {%f4, %f4, %f4, %f4};
    st.global.f32 [%a3], %f0;
    st.global.f32 [%a3+4], %f1;
    st.global.f32 [%a3+8], %f4;
    st.global.f32 [%a3+12], %f4;
    ret;
}
"""
"""Half of y is what a Tensor Core makes of x and of zeros, half the zeros of threads."""
CASES = [Case((("n", 1),), seed) for seed in range(3)]


def ran(ptx, spec=HALF, head=HEAD, **more):
    text = f"{head} {{}}  // {ptx}"  # programs are kept by their text
    job = {
        "source": text, "device": text, "ptx": ptx, "compiler": "", "arch": "sm_75",
        "constants": {}, "cases": [asdict(one) for one in CASES],
    }  # fmt: skip
    return running.run_cases(job | spec.as_data | more)


def test_a_product_leans_on_tensor_cores_by_the_elements_that_they_make():
    found = ran(MMA)
    assert found["leans"] == 0.5 and found["asks"] == []
    runs = [(r["wrong"], r["of"], r["tensor"], r["ended"]) for r in found["runs"]]
    assert runs == [(0, 128, 1024, "")] * 6
    assert [r["schedule"] for r in found["runs"]] == [*running.SCHEDULES] * 3
    assert {r["heaviest"]["sectors"]["array"] for r in found["runs"]} == {"y"}
    one = MMA.replace("ld.global.b32 %r1, [%a2]", "mov.b32 %r1, 0")
    assert ran(one)["leans"] == 0.5
    constant = one.replace("ld.global.b32 %r2, [%a2+4]", "mov.b32 %r2, 0")
    assert ran(constant)["leans"] == 0  # a product that only tries the machine
    threads = MMA.replace("%f0;", "%f4;").replace("%f1;", "%f4;")
    assert ran(threads)["leans"] == 0
    without = "\n".join(text for text in threads.splitlines() if "mma.sync" not in text)
    assert ran(without)["leans"] == -1
    first = """    ld.param.u32 %r4, [n];
    setp.eq.u32 %p0, %r4, 1;
    @%p0 mov.f32 %f0, %f4;
    @%p0 mov.f32 %f1, %f4;
    st.global.f32 [%a3], %f0;"""
    by_size = MMA.replace("    .reg .b64", "    .reg .pred %p<2>;\n    .reg .b64")
    by_size = by_size.replace("    st.global.f32 [%a3], %f0;", first)
    sizes = [asdict(Case((("n", n),), 1)) for n in (1, 2)]
    for of, share in ((sizes, 0), (sizes[::-1], 0.5), (sizes[1:], 0.5)):
        assert ran(by_size, cases=of)["leans"] == share


def test_what_a_machine_is_asked_for_is_told():
    ptx = MMA.replace("mov.u32 %r0, ", "mov.u32 %r0, %warpid;\n    mov.u32 %r0, /* %smid */")
    head = HEAD.replace("int n", "int n /* __CUDA_ARCH__ */")
    assert ran(ptx, head=head)["asks"] == ["warpid"]
    head = "#ifdef __CUDA_ARCH__\n#endif\n" + HEAD
    assert ran(ptx, head=head)["asks"] == ["warpid", "__CUDA_ARCH__"]


def test_a_run_stops_where_it_is_wrong_or_does_not_end():
    wrong = MMA.replace("[%a3+12], %f4", "[%a3+4], %f4")
    for stop, tried in ((False, 6), (True, 2)):
        runs = ran(wrong, stop=stop)["runs"]
        assert len(runs) == tried and all(r["wrong"] == 32 and r["of"] == 128 for r in runs)
        assert runs[0]["first"] == {"array": "y", "at": [0, 3], "expected": 0.0, "got": "nan"}
    off = ran(MMA.replace("mov.f32 %f4, 0f00000000", "mov.f32 %f4, 0f3F800000"))["runs"][0]
    assert off["first"] == {"array": "y", "at": [0, 0], "expected": 0.0, "got": "1.0"}
    assert (off["wrong"], off["found"], off["findings"]) == (128, 0, [])
    reads = ran(MMA.replace("ld.global.b32 %r1, [%a2]", "ld.global.b32 %r1, [%a3]"))["runs"][0]
    assert {kind for kind, _, _ in reads["findings"]} == {"uninitialised"} and reads["found"] >= 1
    changed = MMA.replace("    ret;", "    st.global.b32 [%a2], %r0;\n    ret;")
    for stop, tried in ((False, 6), (True, 2)):
        runs = ran(changed, stop=stop)["runs"]
        assert len(runs) == tried and all((r["wrong"], r["changed"]) == (0, ["x"]) for r in runs)
    for refused in (ran(MMA.replace("k(", "q(")), ran(MMA, head="void k(int n)")):
        assert refused.keys() == {"refused"}
    wide = ran(MMA, replace(HALF, block=("2048",)))["runs"]
    assert len(wide) == 1 and "1024" in wide[0]["ended"] and wide[0]["case"]["seed"] == 0
    for stop in ("trap", "brkpt"):
        found = ran(MMA.replace("    ret;", f"    {stop};"))
        assert len(found["runs"]) == 1 and found["leans"] == -1
        assert stop in found["runs"][0]["ended"]


@pytest.mark.parametrize(
    ("head", "ptx", "host", "words"),
    [
        (HEAD, ".entry k(", False, ""),
        (HEAD.replace("half", "__half"), ".entry k(", False, ""),
        (HEAD, ".entry _Z1k(", False, 'k is not extern "C": write extern "C" __global__ void k(const half* x,'),
        (HEAD, ".entry a( .entry b( .entry c( .entry d(", False, "no kernel called q (there is a, b, c): write"),
        (HEAD, "", False, "there is no kernel called k: write"),
        ("MACRO(x)", ".entry k(", False, "the head of k cannot be read"),
        (HEAD.replace(", int n", ""), ".entry k(", False, "k has 2 parameters and is called with 3: write"),
        (HEAD.replace("float*", "int*"), ".entry k(", False, "parameter 2 of k is 'int* y': write"),
        (HEAD.replace("half*", "half**"), ".entry k(", False, "parameter 1 of k is 'const half** x': write"),
        ("void k(const half* x, float* y, int n)", "", True, ""),
        ("void kk(const half* x, float* y, int n)", "", True, "no host function called k: write void k(const half* x,"),
        ("void k(const half* x, float* y, long n)", "", True, "parameter 3 of k is 'long n': write void k("),
    ],
)  # fmt: skip
def test_another_head_is_told_in_one_line(head, ptx, host, words):
    entry = "q" if "called q" in words else "k"
    message = running.head(head + " {}", ptx, entry, HALF.types, host)
    assert (words in message) if words else message == "", message


def test_of_many_findings_twenty_are_told_and_their_words_are_cut():
    calls = "".join(f"cuda{'A' * 2000}{n}(); " for n in range(30))
    spec = Specification(
        "k", (Argument("y", shape=("n",), out=True), Argument("n")), tile={"n": 1}, shapes=(),
        work="n", host=True, reference="def reference(n):\n    return np.ones(int(n))",
    )  # fmt: skip
    job = {"head": f"void k(float* y, int n) {{ for (int i = 0; i < n; ++i) y[i] = 1; {calls} }}"}
    run = ran("", spec, cases=[asdict(CASES[0])], **job)["runs"][0]
    assert run["found"] >= 30 and len(run["findings"]) == 20
    assert {kind for kind, _, _ in run["findings"]} == {"not-followed"}
    assert {len(words) for _, _, words in run["findings"]} == {2000}
