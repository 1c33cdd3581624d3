"""The emulator through its public call: results, launches, arguments, reports."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from test_emulator_instructions import check

from nogpu import emulator, toolchain
from nogpu.emulator.launching.run import program_of_ptx
from nogpu.emulator.observe import interval
from nogpu.errors import CompileError, ConfigError, EmulationError, UnknownNameError

SAXPY = """
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a * x[i] + y[i];
    }
}
"""


def saxpy(n=100, **options):
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    report = emulator.launch(SAXPY, "saxpy", -(-n // 64), 64, [x, y, 2.0, n], **options)
    return x, y, report


TOLD = """extern "C" __global__ void k(int* o)
{
    __shared__ int s[64];
    s[threadIdx.x] = 1;
    o[threadIdx.x + 1] = s[threadIdx.x ^ 32];
    if (threadIdx.x == 0) printf("done\\n");
}"""
TEXT = """\
k (told.cu), grid 2x1x1, block 64x1x1: a sample of 1 of 2 blocks, compiled by COMPILER
2 finding(s):
told.cu:4: race (64 times): s[0]: thread (0, 0, 0) writes it and thread (32, 0, 0) reads it (line 5) \
with no barrier in between. Put __syncthreads() between the accesses
       4 | s[threadIdx.x] = 1;
       5 | o[threadIdx.x + 1] = s[threadIdx.x ^ 32];
told.cu:5: out-of-bounds: thread (63, 0, 0) of block (0, 0, 0) writes o[64], 1 element past its end: \
o has 64 elements. Guard the access with the bounds
       5 | o[threadIdx.x + 1] = s[threadIdx.x ^ 32];
 line space  op     array        bytes   requests sect/req wave/req  source
    4 shared store  s                4          2              1.00  s[threadIdx.x] = 1;
    5 global store  o                4          2     4.50           o[threadIdx.x + 1] = s[threadIdx.x ^ 32];
    5 shared load   s                4          2              1.00  o[threadIdx.x + 1] = s[threadIdx.x ^ 32];
counts are of 1 of 2 blocks; the others were not run and their results are missing
printed:
done"""


def test_a_report_reads_as_a_table_between_findings_and_notes():
    o = np.zeros(64, np.int32)
    report = emulator.launch(TOLD, "k", 2, 64, [o], sample_blocks=1, name="told.cu")
    assert str(report) == TEXT.replace("COMPILER", report.compiler)
    assert "k (told.cu), grid 2x1x1, block 64x1x1" in repr(report)
    assert list(report.frame()["requests"]) == [a.requests for a in report.accesses]
    ptx = (
        ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() { .reg .u32 a;"
        " mov.u32 a, 1; mul.lo.u32 a, a, a; add.u32 a, a, 1; add.u32 a, a, 1; mov.u32 a, 2; ret; }"
    )
    report = emulator.launch(ptx, "k", 1, 64, [])
    assert str(report) == "k (kernel.cu), grid 1x1x1, block 64x1x1: 1 blocks\nno findings"
    counts = [("add.u32", 4), ("mov.u32", 4), ("mul.lo.u32", 2), ("ret", 2)]  # of two warps
    assert [*report.instructions.items()] == counts  # the most frequent first, then by name


def test_lanes_show_who_reads_what():
    _, _, report = saxpy(40, samples=True)
    rows = {(a.op, a.array): a for a in report.by_line()}
    assert set(rows) == {("load", "x"), ("load", "y"), ("store", "y")}
    load = rows["load", "x"]
    assert (load.line, load.space, load.width_bytes, load.bytes) == (6, "global", 4, 160)
    assert load.sectors_per_request == load.ideal_sectors_per_request == 2.5
    array, elements = report.lanes(6, "global", "load", 0)
    assert array in ("x", "y")
    np.testing.assert_array_equal(elements, np.arange(32))
    _, ragged = report.lanes(6, "global", "store", 1)
    np.testing.assert_array_equal(ragged, [*range(32, 40), *[-1] * 24])
    with pytest.raises(EmulationError, match="line 5 made no global load"):
        report.lanes(5)
    with pytest.raises(EmulationError, match="give 0 to"):
        report.lanes(6, request=99)


def test_lanes_and_ideals_are_kept_for_those_who_ask():
    _, _, report = saxpy(40)
    load, *_ = report.by_line()
    assert (load.ideal_sectors, load.ideal_wavefronts) == (None, None)
    for ask in (lambda: report.lanes(6), lambda: load.ideal_sectors_per_request):
        with pytest.raises(EmulationError, match="Give samples=True"):
            ask()
    with pytest.raises(ConfigError, match="samples=True needs counts"):
        saxpy(40, samples=True, analyse=False)


def test_counts_alone_are_those_of_a_whole_analysis():
    whole = saxpy(uninitialised=("x",))[2]
    x, y, counts = saxpy(uninitialised=("x",), analyse="counts")
    np.testing.assert_array_equal(y, 2 * x + 1)
    assert counts.by_line() == whole.by_line()
    assert [f.kind for f in whole.findings] == ["uninitialised"]
    assert counts.findings == ()
    assert saxpy(analyse=False)[2].accesses == ()
    with pytest.raises(ConfigError, match="analyse is 'count'"):
        saxpy(analyse="count")


def test_a_sample_of_blocks_says_so():
    x, y, report = saxpy(6400, sample_blocks=10)
    assert report.blocks_run == 10
    assert report.blocks_total == 100
    assert "10 of 100 blocks" in str(report)
    assert np.count_nonzero(y != 1) == 639  # x[0] is 0
    np.testing.assert_array_equal(y[:64], 2 * x[:64] + 1)  # the first block and the last are in it
    np.testing.assert_array_equal(y[-64:], 2 * x[-64:] + 1)


@pytest.mark.parametrize("lanes", [64, 100, 1 << 12])
def test_results_do_not_depend_on_how_many_threads_run_together(lanes):
    x, y, report = saxpy(1000, lanes=lanes)
    np.testing.assert_array_equal(y, 2 * x + 1)
    assert report.ok and report.blocks_run == report.blocks_total == 16
    assert report.by_line() == saxpy(1000)[2].by_line()


# -- geometry ------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [(1,), (3, 2), (2, 3, 4), (1, 1, 5)])
@pytest.mark.parametrize(
    "block", [(1,), (7, 5), (32, 2), (4, 3, 3), (16, 16), (64,), (1, 33), (5, 1, 9)]
)
def test_every_block_and_thread_runs_once(grid, block):
    blocks, threads = int(np.prod(grid)), int(np.prod(block))
    where = np.arange(blocks * threads, dtype="u4")
    report = check({"mov.b32 r9, r1": where}, grid, block, options={"lanes": 200}, r1=where)
    (store,) = (a for a in report.by_line() if a.op == "store")
    assert store.requests == blocks * -(-threads // 32)


# -- arguments -----------------------------------------------------------------------------------


def test_source_that_does_not_compile_gives_the_compilers_log():
    with pytest.raises(CompileError, match=r"kernel\.cu\(3\).*undefined") as caught:
        emulator.launch('extern "C" __global__ void k()\n{\n    nonsense();\n}', "k", 1, 1, [])
    assert "nonsense" in caught.value.log


def test_all_scalar_types_arrive():
    given = {
        "bool": True, "char": -5, "unsigned char": 250, "short": -30000, "unsigned short": 60000,
        "int": -(2**31), "unsigned": 2**32 - 1, "long long": -(2**40),
        "unsigned long long": 2**50, "float": 1.5, "double": 1e-100, "half": np.float16(0.25),
    }  # fmt: skip
    params = ", ".join(f"{kind} a{i}" for i, kind in enumerate(given))
    stores = " ".join(
        f"o[{i}] = {'(float)' * (kind == 'half')}a{i};" for i, kind in enumerate(given)
    )
    source = f"#include <cuda_fp16.h>\n__global__ void k(double* o, {params}) {{ {stores} }}"
    out = np.zeros(len(given))
    assert emulator.launch(source, "k", 1, 1, [out, *given.values()]).ok
    np.testing.assert_array_equal(out, [float(value) for value in given.values()])


def test_a_structure_is_a_tuple_of_its_members():
    source = """
    struct Matrix { int width; int height; float* elements; };
    extern "C" __global__ void fill(Matrix A, float value)
    {
        const int i = threadIdx.x;
        if (i < A.width * A.height) A.elements[i] = value;
    }
    """
    data = np.zeros((3, 4), np.float32)
    report = emulator.launch(source, "fill", 1, 32, [(4, 3, data), 7.0])
    assert report.ok
    assert (data == 7).all()
    beyond = source.replace("elements[i]", "elements[i + 1]")
    report = emulator.launch(beyond, "fill", 1, 32, [(4, 3, data), 7.0])
    assert report.findings[0].array == "A.elements"
    with pytest.raises(EmulationError, match="tuple of its members"):
        emulator.launch(source, "fill", 1, 32, [(4, 3, 5, data), 7.0])
    # Arrays that nothing is stored to are not looked at; this one is stored to by a member.
    other = source.replace("= value", "+= A.elements[(i ^ 32) % 12]")
    report = emulator.launch(other, "fill", 1, 64, [(8, 8, np.ones(64, "f4")), 7.0])
    assert {f.kind for f in report.findings} == {"race"}


def test_one_array_given_twice_is_one_memory():
    x = np.arange(32, dtype=np.float32)
    emulator.launch(SAXPY, "saxpy", 1, 32, [x, x, 2.0, 32])
    np.testing.assert_array_equal(x, 3 * np.arange(32))


def test_templates_defines_and_aliases_name_the_argument_types():
    source = """
    #include <cuda_fp16.h>
    using U = OUTPUT;
    template <int SCALE, typename T> __global__ void scaled(const T* in, U* out)
    {
        out[threadIdx.x] = SCALE * FACTOR * float(in[threadIdx.x]);
    }
    """
    x, out = np.arange(32, dtype=np.float16), np.zeros(32, np.int32)
    defines = {"OUTPUT": "int", "FACTOR": 5}
    report = emulator.launch(source, "scaled<3, half>", 1, 32, [x, out], defines=defines)
    assert report.ok and {a.array for a in report.accesses} == {"in", "out"}
    np.testing.assert_array_equal(out, 15 * x)
    with pytest.raises(EmulationError, match="int32"):
        emulator.launch(source, "scaled<3, half>", 1, 32, [x, out.astype("f4")], defines=defines)


# -- memory spaces and control flow --------------------------------------------------------------


VARIABLES = """
__constant__ int fixed[2] = {1, 2};
__device__ short d[3] = {4, 5, 6};
__device__ __align__(16) short e[3] = {7, 8, 9};
__device__ int pool[4] = {5, 6, 7, 8};
__device__ int* at[2] = {pool, pool + 2};
namespace a { __device__ int x = 1; }
namespace b { __device__ int x = 2; }
extern "C" __global__ void k(int* o)
{
    const int t = threadIdx.x;
    d[t] += fixed[0];
    o[t] = *at[1] + d[t] + e[t];
    if (t == 0) { a::x += 1; b::x += 10; }
}
"""


def test_variables_stay_from_launch_to_launch():
    o, kept = np.zeros(3, np.int32), {}
    for times in (1, 2):
        assert emulator.launch(VARIABLES, "k", 1, 3, [o], variables=kept).ok
        assert o.tolist() == [18 + times, 20 + times, 22 + times]
        assert kept.keys() == {"d", "e", "pool", "at", "_ZN1a1xE", "_ZN1b1xE"}
        assert kept["d"].view(np.int16).tolist() == [4 + times, 5 + times, 6 + times]
        assert [kept[n].view(np.int32) for n in ("_ZN1a1xE", "_ZN1b1xE")] == [
            1 + times,
            2 + 10 * times,
        ]
    # What is set keeps its type where that fits; what is longer is cut, what is shorter leaves a rest.
    given = {"d": np.full(4, 9, np.int16), "pool": np.array([1, 2, 30], np.int32)}
    assert emulator.launch(VARIABLES, "k", 1, 3, [o], variables=given).ok
    assert o.tolist() == [47, 48, 49]
    assert given["d"].tolist() == [10] * 3 and given["pool"].tolist() == [1, 2, 30, 8]
    given = {"d": np.full(1, 9, np.int32)}
    assert emulator.launch(VARIABLES, "k", 1, 3, [o], variables=given).ok
    assert given["d"].tolist() == [10, 0, 1, 0, 7, 0]
    own, fixed = np.full(3, 100, np.int16), np.array([9, 0], np.int32)
    assert emulator.launch(VARIABLES, "k", 1, 3, [o], symbols={"d": own, "fixed": fixed}).ok
    assert own.tolist() == [109] * 3 and o.tolist() == [123, 124, 125]
    with pytest.raises(UnknownNameError, match="'fixed'"):
        emulator.launch(VARIABLES, "k", 1, 3, [o], symbols={"fixd": fixed})
    found = emulator.launch(VARIABLES, "k", 1, 4, [np.zeros(4, np.int32)]).findings
    assert {f.index for f in found} == {"d[3]", "e[6]"}  # where it is aligned to more, its bytes


def test_a_kernel_is_found_without_its_namespaces():
    source = """struct zz { int a[3]; };
    namespace outer { namespace in { __global__ void kern(int* o, zz s) { *o = s.a[2]; } } }
    __global__ void other(zz s, int* o) { *o = s.a[1]; }"""
    o = np.zeros(1, np.int32)
    assert emulator.launch(source, "kern", 1, 1, [o, (1, 2, 3)]).ok and o == 3
    assert emulator.launch(source, "other", 1, 1, [(1, 2, 3), o]).ok and o == 2
    with pytest.raises(UnknownNameError, match=r"no kernel 'zz'\. Known names: kern, other"):
        emulator.launch(source, "zz", 1, 1, [o])


def test_parameters_and_maps_are_memory_that_nobody_writes():
    source = """struct S { int a[8]; };
    __global__ void k(const __grid_constant__ S s, int n, int* o) { *o = s.a[n]; }"""
    o = np.zeros(1, np.int32)
    assert emulator.launch(source, "k", 1, 1, [tuple(range(8)), 7, o]).ok and o == 7
    (found,) = emulator.launch(source, "k", 1, 1, [tuple(range(8)), 12, o]).findings
    assert found.index == "parameters[12]" and "1 element past its end" in found.message
    source = "struct Map { char b[128]; }; __global__ void k(Map* m) { m->b[0] = 1; }"
    tiles = emulator.TensorMap(np.zeros((8, 16), np.float32), (8, 16))
    (found,) = emulator.launch(source, "k", 1, 1, [tiles], arch="sm_90").findings
    assert "map of m cannot be written" in found.message


def test_steps_are_those_of_the_longest_path():
    source = """__global__ void k(int* o) {
    for (int i = 0; i < 3 * int(2 - blockIdx.x); ++i) atomicAdd(o, i); }"""
    o = np.zeros(1, np.int32)
    steps = emulator.launch(source, "k", 3, 32, [o], lanes=32).steps
    blocks = [emulator.launch(source, "k", 3, 32, [o], sample_blocks=[b]).steps for b in range(3)]
    assert steps == max(blocks) > blocks[1] > blocks[2]


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])  # shared memory begins at 0, and at 1024
def test_generic_pointers_reach_every_space(arch):
    source = """
    __device__ __noinline__ void more(int* p, bool atomic) { *p += 1; if (atomic) atomicAdd(p, 2); }
    extern "C" __global__ void k(int* g, int which)
    {
        __shared__ int s[32];
        int l[2] = {100, 200}, t = threadIdx.x;
        s[t] = t;
        int* p = t % 3 == 0 ? &s[t] : t % 3 == 1 ? &l[which] : &g[t];
        more(p, t % 3 != 1);
        g[t + 32] = *p;
    }
    """
    g, t = np.arange(64, dtype=np.int32) * 10, np.arange(32)
    report = emulator.launch(source, "k", 1, 32, [g, 1], arch=arch)
    assert report.ok, report
    np.testing.assert_array_equal(
        g[32:], np.select([t % 3 == 0, t % 3 == 1], [t + 3, 201], 10 * t + 3)
    )


PRINTED = {
    ("%i|%+d|% d|%05d|%-6d|", "-1, 2, 3, -4, 5"): "-1|+2| 3|-0004|5     |",
    ("%u %x %#X %o", "-1, -1, 255, 8"): f"{2**32 - 1} ffffffff 0XFF 10",
    ("%ld %lu %llx %zd %lli", "-1ll, -1ll, -1ll, 1ll << 40, 1ll << 63"):
        f"-1 {2**64 - 1} {'f' * 16} {2**40} {-(2**63)}",
    ("%d %lld %d %f %d", "1, 2ll, 3, 4.5, 5"): "1 2 3 4.500000 5",
    ("%hd %hhu %c%c", "3, 4, 65, 321"): "3 4 AA",
    ("%.3f %8.2f|%-8.1e|%g %G", "1.0 / 3, -2.5, 12345.0, 1e-7, 1e20"):
        "0.333    -2.50|1.2e+04 |1e-07 1E+20",
    ("%a", "1.0"): "0x1.0000000000000p+0",
    ("%p", "(void*)255"): "0xff",
    ("%5s|%-5s|%.2s", '"ab", "cd", "efg"'): "   ab|cd   |ef",
    ("100%% %d%%", "7"): "100% 7%",
    ("%1000d", "1"): " " * 999 + "1",
    ("%s|%*d|%.*f|%-*.*f|%.*d", '"a", 6, 3, 2, 1.5, -6, 1, 2.25, -1, 7'): "a|     3|1.50|2.2   |7",
    ("%*d", "1001, 5"): "%*d",
    ("a %2000000000d b", "7"): "a %2000000000d b", ("a %20000000d b", "7"): "a %20000000d b",
    ("a %-1001d b", "7"): "a %-1001d b", ("a %.1001f b", "1.5"): "a %.1001f b",
    ("a %.2000000000f b", "1.5"): "a %.2000000000f b",
    ("no more", "0"): "no more",
}  # fmt: skip


@pytest.mark.parametrize(("spec", "given"), PRINTED)
def test_printf_writes_what_c_writes(spec, given):
    source = f'extern "C" __global__ void k() {{ printf("{spec}", {given}); }}'
    assert emulator.launch(source, "k", 1, 1, []).output == PRINTED[spec, given]


def test_what_is_printed_goes_thread_by_thread_into_the_report_and_has_an_end():
    def printed(text, blocks, threads):
        source = f'extern "C" __global__ void k(int n) {{ int t = threadIdx.x; printf({text}); }}'
        return emulator.launch(source, "k", blocks, threads, [7])

    report = printed(r'"%d: %s\n", t, "text"', 2, 2)
    assert report.output == "0: text\n1: text\n" * 2 and report.output[:-1] in str(report)
    output = printed('"%d,", blockIdx.x * 64 + t', 5, 64).output
    assert output == "".join(f"{i}," for i in range(200))
    output = printed('"%1000d%1000d%1000d", n, n, n', 1, 1).output
    assert output.startswith(" " * 999 + "7") and output.endswith("... (cut: 3,000 characters)\n")
    assert len(output) < 2100


ASKING = """
extern "C" __global__ void k(long long* out)
{
    long long* mine = out + 5 * (blockIdx.x * blockDim.x + threadIdx.x);
    int sm, sms, warps;
    mine[0] = clock64();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(mine[1]));
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(sms));
    asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(warps));
    mine[2] = sm, mine[3] = sms, mine[4] = warps;
}"""


def test_a_kernel_that_asks_where_it_is_reads_what_a_gpu_tells():
    """No register has a value by which a kernel could know the emulator."""

    def ask(arch="sm_75", **options):
        out = np.zeros((50, 64, 5), np.int64)
        report = emulator.launch(ASKING, "k", 50, 64, [out], arch=arch, **options)
        assert report.ok, report
        return np.moveaxis(out, 2, 0)

    start, t, sm, sms, warps = ask()
    assert (start > 1 << 32).all() and (t > 1e18).all() and (t % 32 == 0).all()
    assert len(np.unique(start)) > 50  # SMs and warps have their own
    assert set(sm[:, 0]) == set(range(40)) and (sm == sm[:, :1]).all()
    assert (sms == 40).all() and (warps == 32).all() and (ask("sm_120")[4] == 48).all()
    assert (ask() == ask()).all()
    start = ask(lanes=64)[0]  # one block at a time: the next one of an SM is later
    assert (start > 1 << 32).all() and (start[40:] > start[:10]).all()
    one, other = ask(seed=1), ask(seed=2)
    assert (one[:2] != other[:2]).all() and (one[2] != other[2]).any()


# -- atomics -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "fine"),
    [
        ("atomicAdd(&total, 1)", "out[0] = total", False),
        ("total = 2", "out[0] = total", False),
        ("total = 2", "atomicAdd(&total, 1)", False),
        ("out[0] = total", "out[1] = total", True),
        ("atomicAdd(&total, 1)", "atomicAdd(&total, 1)", True),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_one_thread_meets_another(first, second, fine, turned):
    """Whichever of the two has the number 0."""
    one, other = (second, first) if turned else (first, second)
    source = f"""
    extern "C" __global__ void k(int* out)
    {{
        __shared__ int total;
        if (threadIdx.x == 0) total = 0;
        __syncthreads();
        if (threadIdx.x == 0) {one};
        if (threadIdx.x == 40) {other};
    }}
    """
    report = emulator.launch(source, "k", 1, 64, [np.zeros(2, np.int32)])
    assert report.ok == fine, report
    same = source.replace("== 0", "== 40")
    assert emulator.launch(same, "k", 1, 64, [np.zeros(2, np.int32)]).ok


# -- hostile input -------------------------------------------------------------------------------


def test_damaged_ptx_ends_in_the_emulators_own_error():
    text = toolchain.ptx(SAXPY, name="kernel.cu")
    rng = np.random.default_rng(0)
    good = 0
    for _ in range(300):
        damaged = bytearray(text.encode())
        for _ in range(rng.integers(1, 6)):
            at = int(rng.integers(200, len(damaged)))
            what = rng.integers(3)
            if what == 0:
                damaged[at] = int(rng.integers(32, 127))
            elif what == 1:
                del damaged[at : at + int(rng.integers(1, 30))]
            else:
                damaged[at:at] = damaged[at : at + int(rng.integers(1, 30))]
        try:
            program_of_ptx(damaged.decode("latin-1"), "saxpy", "saxpy", SAXPY, {}, "kernel.cu")
            good += 1
        except (EmulationError, UnknownNameError):
            pass
    assert good < 300
    for _ in range(50):
        junk = bytes(rng.integers(0, 256, 300, dtype=np.uint8)).decode("latin-1")
        with pytest.raises((EmulationError, UnknownNameError)):
            program_of_ptx(junk, "k", "k", "", {}, "kernel.cu")


def test_threads_may_end_inside_a_device_function():
    source = """
    __device__ __noinline__ int half_of(int v) { if (v & 1) asm volatile("exit;"); return v / 2; }
    extern "C" __global__ void k(int* out, int n)
    {
        const int v = half_of(threadIdx.x);
        out[threadIdx.x] = v;
        for (int i = 0; i < n; ++i) out[threadIdx.x] += half_of(2 * v);
    }
    """
    out = np.full(64, -1, np.int32)
    report = emulator.launch(source, "k", 1, 64, [out, 3])
    assert report.ok, report
    t = np.arange(64)
    np.testing.assert_array_equal(out, np.where(t % 2, -1, t // 2 * 4))


def test_memory_stays_bounded():
    """Large local arrays and shared memory make fewer threads run together, not more memory."""
    source = """
    extern "C" __global__ void k(int* out, int n)
    {
        extern __shared__ int s[];
        int big[4096];
        for (int i = 0; i < n; ++i) big[(i * 7) & 4095] = i;
        s[threadIdx.x] = big[(n - 1) * 7 & 4095];
        __syncthreads();
        out[blockIdx.x * blockDim.x + threadIdx.x] = s[31 - threadIdx.x];
    }
    """
    out = np.zeros(32 * 512, np.int32)
    tracemalloc.start()
    report = emulator.launch(source, "k", 512, 32, [out, 3], shared_bytes=48 * 1024)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.ok, report
    assert peak < 700 << 20


@pytest.mark.parametrize("other", [0, 32])
@pytest.mark.parametrize("fence", ["", "__threadfence();"])  # without a clock, and with one
@pytest.mark.parametrize(
    ("writes", "reads"),
    [
        ("s[(threadIdx.x + i * blockDim.x) & 1023] = i;", "s[((threadIdx.x ^ other) + i * blockDim.x) & 1023]"),
        ("if (i == 0) p[threadIdx.x & ~other] = threadIdx.x;", "s[threadIdx.x + i]"),
    ],
)  # fmt: skip
def test_a_long_interval_without_barriers_is_judged_too(writes, reads, fence, other, monkeypatch):
    """What happens in every round, and what happens in the first alone."""
    source = f"""
    extern "C" __global__ void k(int* out, int n, int other)
    {{
        __shared__ int s[1024], p[64];
        {fence}
        for (int i = 0; i < 16; ++i) s[threadIdx.x + i * 64] = i;
        __syncthreads();
        for (int i = 0; i < n; ++i) {{
            {writes}
            out[threadIdx.x] += {reads};
        }}
        __syncthreads();
        if (n < 0) out[threadIdx.x] = p[63 - threadIdx.x];
    }}
    """
    monkeypatch.setattr(interval, "MAX_LOG", 1 << 16)
    report = emulator.launch(source, "k", 1, 64, [np.zeros(64, np.int32), 400, other])
    assert report.ok == (other == 0), report
    assert {f.kind for f in report.findings} <= {"race"}


def test_who_does_not_wait_may_look_at_a_flag():
    """A volatile read of what another waits for does not race with the store that sets it."""
    source = """
    extern "C" __global__ void k(int* out, int n)
    {
        __shared__ int flag[1];
        if (threadIdx.x == 0) flag[0] = 0;
        __syncthreads();
        volatile int* f = flag;
        if (threadIdx.x == 0) f[0] = 1;
        if (threadIdx.x == 32) out[0] = LOOK[n];
        if (threadIdx.x == 64) { while (f[0] == 0) {} }
    }
    """
    out = np.zeros(1, np.int32)
    report = emulator.launch(source.replace("LOOK", "f"), "k", 1, 96, [out, 0])
    assert report.ok, report
    plain = emulator.launch(source.replace("LOOK", "flag"), "k", 1, 96, [out, 0])
    assert {f.kind for f in plain.findings} == {"race"}
