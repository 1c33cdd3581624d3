"""What a launch is asked for and cannot be: each error says what was given and what to give."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nogpu import emulator
from nogpu.errors import ConfigError, EmulationError, TileError, UnknownNameError

SOURCE = """
extern "C" __global__ void twice(const float* a, float* o, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) o[i] = 2 * a[i];
}
"""
SHARED = SOURCE.replace(
    "int i", "__shared__ volatile double s; extern __shared__ float4 d[]; s = 1; d[0].x = s; int i"
)  # the dynamic part begins at a multiple of 16
FULL = SOURCE.replace("int i", "__shared__ char s[49152]; s[threadIdx.x] = 1; int i")
A = np.ones(64, np.float32)


def launch(**change):
    """The launch of `twice`, with some of what it is asked for changed."""
    o = np.zeros(64, np.float32)
    request = {"source": SOURCE, "entry": "twice", "grid": 1, "block": 64, "args": [A, o, 64]}
    report = emulator.launch(**{**request, **change})
    assert report.ok, report
    return o


def second(value):
    """The arguments with another first one."""
    return [value, np.zeros(64, np.float32), 64]


def last(value):
    """The arguments with another last one."""
    return [A, np.zeros(64, np.float32), value]


@pytest.mark.parametrize("kind", ["float", "double", "int", "uint"])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_vectors_take_arrays_of_their_element(kind, n):
    source = f"__global__ void k(const {kind}{n}* x, {kind}* y) {{ *y = x->x; }}"
    own = {"float": "f4", "double": "f8", "int": "i4", "uint": "u4"}[kind]
    y = np.zeros(1, own)
    assert emulator.launch(source, "k", 1, 1, [np.full(4, 7, own), y]).ok and y == 7
    with pytest.raises(EmulationError, match=f"{kind}{n}.*takes {np.dtype(own)}"):
        emulator.launch(source, "k", 1, 1, [np.ones(4, "u1"), y])


SCALARS = {  # of C: the smallest and the largest that it takes, and its bytes
    "bool": (-128, 255, "u1"), "char": (-128, 127, "i1"), "unsigned char": (0, 255, "u1"),
    "short": (-(2**15), 2**15 - 1, "i2"), "unsigned short": (0, 2**16 - 1, "u2"),
    "int": (-(2**31), 2**31 - 1, "i4"), "unsigned": (0, 2**32 - 1, "u4"),
    "long long": (-(2**63), 2**63 - 1, "i8"), "size_t": (0, 2**64 - 1, "u8"),
    "Unknown": (-(2**31), 2**32 - 1, "u4"),
}  # fmt: skip


def test_integers_are_taken_from_the_smallest_to_the_largest():
    names = [f"{kind} a{i}" for i, kind in enumerate(SCALARS)]
    source = f"enum Unknown : unsigned {{}}; __global__ void k({', '.join(names)}) {{}}"
    made = emulator.prepared(source, "k")
    for i, (low, high, own) in enumerate(SCALARS.values()):
        for value in (low, high, np.array(high, "u8" if high > 255 else own), np.uint8(3), True):
            args = [0] * len(SCALARS)
            args[i] = value
            want = [np.zeros(1, one[2]).tobytes() for one in SCALARS.values()]
            want[i] = (int(value) % 256 ** np.dtype(own).itemsize).to_bytes(len(want[i]), "little")
            assert made.by_value(args) == want
        for value in (low - 1, high + 1):
            args[i] = value
            with pytest.raises(EmulationError, match=rf"which holds {low} to {high}; {value} was"):
                made.by_value(args)


def test_floats_are_rounded_to_the_type_of_the_parameter():
    source = """#include <cuda_fp16.h>
    #include <cuda_bf16.h>
    __global__ void k(char c, float f, half h, __nv_bfloat16 b, double d, half2 p) {}"""
    made, pair = emulator.prepared(source, "k"), np.array([1, 2], "f2")
    for value in (0.1, 3, np.float32(0.1), np.float64(0.1), np.int8(-3), 1e300):
        with np.errstate(over="ignore"):
            f, h = np.float32(value), np.float16(value)
        b = np.uint16((f.view("u4") + 0x7FFF + (f.view("u4") >> 16 & 1)) >> 16)  # to the nearest
        got = made.by_value([1, value, value, value, value, pair.view("u4")[0]])
        assert got == [w.tobytes() for w in (np.int8(1), f, h, b, np.float64(value), pair)]
    for at, value in (
        (2, "x"),
        (2, np.zeros(1, "f8")[0:0].sum(keepdims=True)),
        (5, 1.0),
        (5, pair),
    ):
        args = [1, 1.0, 1.0, 1.0, 1.0, pair.view("u4")[0]]
        args[at] = value
        with pytest.raises(EmulationError, match=r"a structure of|not a pointer"):
            made.by_value(args)


@pytest.mark.parametrize(
    "members",
    [
        (1, 2.5, True, 3), (True, np.float64(2.5), True), (np.int16(-1), np.int8(2), 2.5),
        (np.uint64(3), np.int8(1)), (True,), (False, np.int16(5), np.int64(-7), 2.5, True),
    ],
)  # fmt: skip
def test_members_of_a_structure_lie_as_c_lays_them(members):
    kinds = {bool: np.dtype("u1"), int: np.dtype("i4"), float: np.dtype("f4")}
    layout = np.dtype(
        [(f"m{i}", kinds.get(type(m)) or m.dtype) for i, m in enumerate(members)], align=True
    )
    param = f".param .align 8 .b8 p[{layout.itemsize}], .param .b32 q, .param .align 8 .b8 r[8]"
    head = ".version 8.0\n.target sm_75\n.address_size 64\n"
    made = emulator.prepared(f"{head}.visible .entry k({param}) {{ ret; }}\n", "k")
    (raw, number, last) = made.by_value([members, 2**32 - 1, (1, 2)])
    want = np.zeros(1, layout)
    want[0] = members
    assert raw == want.tobytes()
    assert (number, last) == (b"\xff" * 4, np.array([1, 2], "i4").tobytes())
    with pytest.raises(EmulationError, match=r"takes .* bytes, the value given has"):
        made.by_value([(*members, 1, 1), 0, (1, 2)])


@pytest.mark.parametrize(
    ("kind", "given", "remedy"),
    [
        ("float2", "c8", "x.view('float32')"), ("float", "c8", "x.view('float32')"),
        ("double2", "c8", "x.astype('complex128').view('float64')"),
        ("float2", "c16", "x.astype('complex64').view('float32')"),
        ("uint4", "f2", "x.view('uint32')"), ("int4", "i1", "x.view('int32')"),
        ("int4", "i8", "x.astype('int32')"), ("float4", "f2", "x.astype('float32')"),
        ("int", "f4", "x.astype('int32')"),
    ],
)  # fmt: skip
def test_an_array_of_other_elements_is_to_be_converted_or_viewed(kind, given, remedy):
    source = f"__global__ void k(const {kind}* x, int* y) {{ y[0] = sizeof(x[0]); }}"
    x = np.ones(8, given)
    with pytest.raises(EmulationError, match=re.escape(remedy) + "$"):
        emulator.launch(source, "k", 1, 1, [x, np.zeros(1, "i4")])
    x = eval(remedy, {"x": x})
    assert emulator.launch(source, "k", 1, 1, [x, np.zeros(1, "i4")]).ok


STRUCTURE = """#define N 3
struct Q { int z; };
struct P { char c; float s[N], *q; int2 pair; short m[2][2]; const float* p; UNKNOWN };
__global__ void k(P p, float* y) {
    if (threadIdx.x < 3) y[threadIdx.x] = p.p[0] * p.s[threadIdx.x] + p.q[0] + p.pair.y + p.m[1][0] + p.c;
}"""


@pytest.mark.parametrize(("unknown", "more"), [("", ()), ("Q z[2];", (0, 0))])
def test_an_array_for_a_member_that_is_one_is_its_elements(unknown, more):
    source = STRUCTURE.replace("UNKNOWN", unknown)
    m = np.array([[1, 2], [3, 4]], "i2")
    for s, pair, four in (
        ((np.array([1, 2, 3], "f4"),), (np.array([5, 6], "i4"),), (m,)),
        ((1.0, 2.0, 3.0), (np.int32([5, 6]),), (m.reshape(4),)),
        ((np.float32([1, 2, 3]),), (5, 6), tuple(m.reshape(4))),
    ):
        y, ten, q = np.zeros(3, "f4"), np.full(1, 10, "f4"), np.full(1, 100, "f4")
        report = emulator.launch(
            source, "k", 1, 4, [(np.int8(1), *s, q, *pair, *four, ten, *more), y]
        )
        assert report.ok and list(y) == [120, 130, 140]
    for wrong in (np.zeros(3), np.zeros(2, "f4"), np.zeros((3, 1), "f4")):
        with pytest.raises(
            EmulationError, match=r"p\.s of k is an array of shape \(3,\), of float32, in"
        ):
            emulator.launch(source, "k", 1, 4, [(np.int8(1), wrong, q, 5, 6, m, ten, *more), y])


@pytest.mark.parametrize("members", ["float* p; int n", "int n; float* p"])
def test_a_structure_that_holds_a_pointer_is_not_handed_to_a_gpu(members):
    plain = "struct S { int n; int m; }; __global__ void k(S s, int* y) { *y = s.n + s.m; }"
    raw = emulator.prepared(plain, "k").by_value([(3, 4), A.astype("i4")])
    assert raw == [np.array([3, 4], "i4").tobytes(), None]
    source = f"struct S {{ {members}; }}; __global__ void k(S s) {{ *s.p = s.n; }}"
    given = (A, 1) if members.startswith("float") else (1, A)
    with pytest.raises(EmulationError, match="structure that holds a pointer"):
        emulator.prepared(source, "k").by_value([given])


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"grid": 1.0}, ConfigError, r"grid=1\.0: give one to three whole numbers"),
        ({"grid": None}, ConfigError, "grid=None"),
        ({"grid": True}, ConfigError, "grid=True"),
        ({"grid": ()}, ConfigError, r"grid=\(\)"),
        ({"grid": np.ones((2, 2), int)}, ConfigError, "one to three whole numbers"),
        ({"grid": -1}, ConfigError, "at least 1"),
        ({"grid": (1, 2, 3, 4)}, ConfigError, "one to three whole numbers"),
        ({"grid": (1, 65536)}, ConfigError, "gridDim.z are at most 65535"),
        ({"grid": (1, 1, 65536)}, ConfigError, "gridDim.z are at most 65535"),
        ({"grid": 2**31}, ConfigError, "gridDim"),
        ({"block": 0}, ConfigError, "block=0: each dimension is at least 1"),
        ({"block": 1025}, ConfigError, "1025 threads; a block holds at most 1024"),
        ({"block": (1, 1, 65)}, ConfigError, "blockDim.z is at most 64"),
        ({"source": SOURCE.replace("void", "void __launch_bounds__(32)")}, ConfigError, "bounds__"),
        ({"shared_bytes": -1}, ConfigError, "shared_bytes=-1: give 0 or more"),
        ({"shared_bytes": 16.0}, ConfigError, "shared_bytes is 16.0 .*whole number"),
        ({"shared_bytes": 65537}, ConfigError, "bytes of shared memory.*Use smaller tiles"),
        (
            {"source": SHARED, "shared_bytes": 65521},
            ConfigError,
            r"65537 bytes .* \(8 static, 65521",
        ),
        ({"defines": 64}, ConfigError, r"defines is 64.*arguments go into one list"),
        ({"defines": ["A=1"]}, ConfigError, "give a dictionary"),
        ({"defines": {1: 2}}, ConfigError, "1 .*is no name of a macro"),
        ({"defines": {"A B": 1}}, ConfigError, "'A B' .*is no name of a macro"),
        ({"defines": {"A": None}}, ConfigError, r"defines\['A'\] is None"),
        ({"arch": 75}, ConfigError, "arch is 75 .*such as 'sm_75'"),
        ({"arch": "7.5"}, UnknownNameError, "Did you mean 'sm_75'"),
        ({"arch": "sm_10"}, UnknownNameError, "no limits are known"),
        ({"source": b"x"}, ConfigError, "source is b'x'.*read_text"),
        ({"source": None}, ConfigError, "source is None"),
        ({"source": Path("a.cu")}, ConfigError, "read_text"),
        ({"source": "kernels/a.cu"}, ConfigError, "is the name of a file"),
        ({"source": ""}, ConfigError, "source is ''"),
        ({"source": "int x;"}, UnknownNameError, "nor any other. Mark one with __global__"),
        ({"entry": None}, ConfigError, "entry is None .*the kernel's name"),
        ({"entry": ""}, ConfigError, "entry is ''"),
        ({"entry": "thrice"}, UnknownNameError, "Did you mean 'twice'"),
        ({"name": 3}, ConfigError, "name is 3"),
        ({"args": None}, EmulationError, "args is None.*in one list"),
        ({"args": "abc"}, EmulationError, "args is 'abc'"),
        ({"args": {"a": 1}}, EmulationError, "in one list, in their order"),
        ({"args": A}, EmulationError, r"one array of shape \(64,\)"),
        ({"args": [A]}, EmulationError, r"1 arguments, but takes 3.*const float\* a"),
        ({"args": second([1.0] * 64)}, EmulationError, "a list was given. Give a NumPy array"),
        ({"args": second(np.array(1.0, "f4"))}, EmulationError, "without dimensions"),
        ({"args": second(3)}, EmulationError, "an int was given"),
        ({"args": second(np.float32(3))}, EmulationError, "a float32 of numpy was given"),
        ({"args": second(b"1234")}, EmulationError, "a bytes was given"),
        ({"args": second(memoryview(A))}, EmulationError, "a memoryview was given"),
        ({"args": second(A.astype("f8"))}, EmulationError, "float64.*astype"),
        ({"args": second(A.astype(">f4"))}, EmulationError, r">f4.*newbyteorder"),
        ({"args": second(A > 0)}, EmulationError, "an array of bool was given"),
        ({"args": second(A.astype(object))}, EmulationError, "Python objects"),
        ({"args": second(np.array(["a"]))}, EmulationError, "no numbers"),
        ({"args": second(np.zeros(4, "M8[s]"))}, EmulationError, "no numbers"),
        ({"args": second(np.ma.array(A, mask=A > 0))}, EmulationError, "masked array.*filled"),
        ({"args": second(np.zeros((64, 2), "f4")[:, 0])}, EmulationError, "not contiguous"),
        ({"args": last(64.0)}, EmulationError, "an integer; 64.0 was given"),
        ({"args": last("64")}, EmulationError, "a str was given"),
        ({"args": last(None)}, EmulationError, "None was given"),
        ({"args": last([64])}, EmulationError, "a list was given. Give a number"),
        ({"args": last(np.array([64]))}, EmulationError, "not a pointer"),
        ({"args": last(1j)}, EmulationError, "a complex was given"),
        ({"args": last(2**40)}, EmulationError, "holds -2147483648 to 2147483647"),
        ({"uninitialised": 3}, ConfigError, "names of array parameters"),
        ({"uninitialised": None}, ConfigError, "uninitialised is None"),
        ({"uninitialised": ("x",)}, UnknownNameError, "no array parameter 'x'"),
        ({"symbols": 3}, ConfigError, "symbols is 3"),
        ({"symbols": {"x": A}}, UnknownNameError, "There are none"),
        ({"symbols": {"x": "a"}}, ConfigError, "an array of numbers"),
        ({"sample_blocks": 0}, ConfigError, "sample_blocks=0"),
        ({"sample_blocks": "a"}, ConfigError, "sample_blocks is 'a'"),
        ({"sample_blocks": []}, ConfigError, r"sample_blocks is \[\]"),
        ({"sample_blocks": [(0.5, 0, 0)]}, ConfigError, "is no block"),
        ({"sample_blocks": [3]}, ConfigError, r"block \(3, 0, 0\) is outside"),
        ({"max_steps": 0}, ConfigError, "max_steps=0: give 1 or more"),
        ({"max_seconds": -1}, ConfigError, "more than 0 seconds"),
        ({"max_seconds": float("nan")}, ConfigError, "more than 0 seconds"),
        ({"max_seconds": "1"}, ConfigError, "a number of seconds"),
        ({"schedule": ["x"]}, ConfigError, "ascending, permuted"),
        ({"seed": -1}, ConfigError, "seed=-1"),
        ({"seed": "x" * 57}, ConfigError, "seed is 'x{57}' .of type str"),
        ({"seed": "x" * 58}, ConfigError, "seed is a value of type str"),
        ({"lanes": 0}, ConfigError, "lanes=0"),
        ({"expect": [1]}, ConfigError, "expect is"),
        ({"expect": {"o": None}}, ConfigError, r"expect\['o'\] is None"),
        ({"expect": {"x": A}}, UnknownNameError, "no array 'x'"),
    ],
)
def test_it_says_what_was_given_and_what_to_give(change, error, says):
    with pytest.raises(TileError, match=says) as caught:
        launch(**change)
    assert type(caught.value) is error


def test_arguments_one_by_one_instead_of_a_list():
    o = np.zeros(64, np.float32)
    with pytest.raises(ConfigError, match=r"one list: emulator.launch\(source, entry, grid"):
        emulator.launch(SOURCE, "twice", 1, 64, A, o, 64)


@pytest.mark.parametrize(
    "change",
    [
        {"grid": np.array(1)},
        {"grid": np.array([1, 1])},
        {"grid": [np.int64(1)], "block": (64,)},
        {"args": last(np.int64(64))},
        {"args": last(np.array(64))},
        {"args": tuple(last(64))},
        {"args": iter(last(64))},
        {"args": second(A.view(np.recarray))},
        {"shared_bytes": np.int32(64)},
        {"shared_bytes": 100_000, "arch": "sm_80"},
        {"shared_bytes": 65536},
        {"source": FULL, "shared_bytes": 16384},
        {"source": SHARED, "shared_bytes": 65520, "analyse": False},
        {"source": SOURCE.replace("void", "void __launch_bounds__(64)")},
        {"grid": 2**31 - 1, "sample_blocks": 1},
        {"grid": (1, 65535, 65535), "sample_blocks": 1},
        {"block": (1, 1, 64), "analyse": False},
        {"block": 1024},
        {"defines": {"A": True, "B": "", "F(x)": "x"}},
        {"uninitialised": "o"},
        {"sample_blocks": [0]},
    ],
)
def test_what_means_the_same_is_taken(change):
    launch(**change)


def test_a_bool_is_a_macro_of_one_or_zero():
    source = SOURCE.replace("2 * a[i]", "(FAST ? 2 : 3) * a[i]")
    for fast, want in ((True, 2), (np.False_, 3)):
        assert (launch(source=source, defines={"FAST": fast}) == want).all()


def test_an_output_that_may_not_be_written_is_a_finding():
    o = np.zeros(64, np.float32)
    o.flags.writeable = False
    report = emulator.launch(SOURCE, "twice", 1, 64, [A, o, 64])
    assert "Give a writeable array" in report.findings[0].message
    assert not o.any()


@pytest.mark.parametrize(
    ("rule", "change", "says"),
    [
        ("reqntid 32, 2", {"block": (32, 2)}, ""),
        ("reqntid 32, 2", {"block": 64}, r"k requires a block of \(32, 2.*\(64, 1, 1\) was given"),
        ("reqntid 32", {"block": (32, 2)}, r"k requires a block of \(32"),
        ("maxntid 32, 2", {"block": (8, 8)}, ""),
        ("maxntid 32, 2", {"block": 65}, "k is compiled for at most 64 threads a block"),
        ("reqnctapercluster 2", {"grid": (2, 1, 3)}, ""),
        ("reqnctapercluster 2", {"grid": (2, 1, 3), "cluster": (2, 1)}, ""),
        ("reqnctapercluster 2", {"grid": (3, 2)}, r"no multiple of the cluster \(2, 1, 1\)"),
        ("reqnctapercluster 2", {"cluster": (1, 2)}, r"compiled for clusters of \(2, 1, 1\)"),
        ("reqnctapercluster 2, 1, 2", {"grid": (2, 2, 3)}, r"of the cluster \(2, 1, 2\)"),
        ("reqnctapercluster 2, 2, 2", {"grid": (2, 2, 2)}, ""),
        ("reqnctapercluster 9", {"grid": 9}, "has 9 blocks; 8 is the most"),
    ],
)
def test_a_kernel_may_say_of_what_sizes_its_blocks_and_clusters_are(rule, change, says):
    head = ".version 8.0\n.target sm_90\n.address_size 64\n"
    options = {"grid": 1, "block": 1, "arch": "sm_90", **change}
    ptx = f"{head}.visible .entry k() .{rule} {{ ret; }}\n"
    if not says:
        assert emulator.launch(ptx, "k", args=[], **options).ok
        return
    with pytest.raises(ConfigError, match=says):
        emulator.launch(ptx, "k", args=[], **options)
