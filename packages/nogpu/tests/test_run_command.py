"""`python -m nogpu run`: a file as it is, what it took from where, what it found, and its status."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from foreign_kernels import cuda

from nogpu.command import sources
from nogpu.command.host import MOST_TURNS, Program
from nogpu.command.line import main
from nogpu.command.session import _shaped
from nogpu.command.settings import Argument
from nogpu.command.values import Launched, Unknown
from nogpu.emulator import TensorMap
from nogpu.emulator.launching.declarations import Formal
from nogpu.errors import SourceError


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    """Runs a text with words of the command line: the status, what it printed, its errors."""
    monkeypatch.chdir(tmp_path)

    def run(text, *words):
        Path("my.cu").write_text(text, encoding="utf-8")
        status = main(["run", "my.cu", *words])
        return status, *capsys.readouterr()

    return run


def program(kernel, launch, sizes="n, n, n"):
    """A whole program around a kernel, as one is written for a GPU."""
    a, b, c = sizes.split(", ")
    return f"""#include <cstdio>
#include <vector>
#define CHECK(call) do {{ cudaError_t e = (call); if (e != cudaSuccess) exit(1); }} while (0)
using namespace std;
static int blocks_for(int n, int block) {{ return (n + block - 1) / block; }}
{kernel}
int main(int argc, char** argv) {{
    const int n = 1000;
    vector<float> h(n);
    for (int i = 0; i < n; ++i) h[i] = i;
    float *a, *b, *c;
    CHECK(cudaMalloc(&a, ({a}) * sizeof(float)));
    CHECK(cudaMalloc((void**)&b, ({b}) * sizeof(*b)));
    CHECK(cudaMalloc(&c, sizeof(float) * ({c})));
    CHECK(cudaMemcpy(a, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    cudaMemcpy(b, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    for (int turn = 0; turn < 3; turn++) {{
        {launch}
    }}
    if (cudaDeviceSynchronize()) return 1;
    CHECK(cudaMemcpy(h.data(), c, n * sizeof(float), cudaMemcpyDeviceToHost));
    printf("%f\\n", h[0]);
}}
"""


ADD = """__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}"""
LAUNCH = "dim3 block(256); add<<<blocks_for(n, block.x), block>>>(a, b, c, n);"
GOOD = program(ADD, LAUNCH)


def test_a_clean_program_says_what_it_took_and_from_where(shell):
    status, out, _ = shell(GOOD)
    assert status == 0, out
    assert "grid 4x1x1" in out and "block 256x1x1" in out and "n = 1000" in out
    line = GOOD[: GOOD.index("<<<")].count("\n") + 1
    assert out.count(f"from the launch in line {line}") == 6
    assert "c = 1000 float32, never set" in out and "a = 1000 float32, random" in out
    assert out.count("== add") == 1  # three turns with the same arguments
    assert "no thread wrote" not in out
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum" in out and "occupancy" in out


@pytest.mark.parametrize("zeros", ["", " = {0}", " = {}"])
def test_a_launch_by_its_configuration(shell, zeros):
    launch = f"""cudaLaunchConfig_t config{zeros};
    config.gridDim = dim3(4); config.blockDim = dim3(256);
    cudaLaunchKernelEx(&config, add, (const float*)a, (const float*)b, c, n);"""
    status, out, err = shell(program(ADD, launch))
    assert status == 0, out + err
    assert "grid 4x1x1" in out and "block 256x1x1" in out and "no thread wrote" not in out
    assert "no thread wrote 744 of 1,000" in shell(program(ADD, launch.replace("dim3(4)", "1")))[1]


REVERSE = """__global__ void reverse(const float* a, float* c, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) tile[threadIdx.x] = a[i];
    BARRIER
    int j = 255 - threadIdx.x;
    if (blockIdx.x * 256 + j < n) c[i < n ? i : 0] = i < n ? tile[j] : 0;
}"""
COPY = """__global__ void copy(const float* a, float* c, int n) {
    int i = threadIdx.x;
    while (i < n) { c[i] = a[i]; i += STEP; }
}"""
COLUMN = """__global__ void column(const float* a, float* c, int n) {
    int i = threadIdx.x;
    c[i] = a[i * STRIDE];
}"""

MISTAKES = {
    # name: kernel, launch, what makes the twin wrong, the kind that is found, a line of it
    "missing barrier": (
        REVERSE, "reverse<<<1, 256>>>(a, c, 256);", ("BARRIER", "__syncthreads();", ""), "race", "tile[threadIdx.x]",
    ),
    "off by one": (ADD, LAUNCH, ("i < n", "i < n", "i <= n"), "out-of-bounds", "c[i] = a[i]"),
    "endless loop": (COPY, "copy<<<1, 32>>>(a, c, n);", ("STEP", "32", "0"), "step-budget", "while"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_beginners_mistake_is_found_on_its_line(name, shell):
    kernel, launch, (word, right, wrong), kind, line = MISTAKES[name]
    status, out, err = shell(program(kernel.replace(word, right), launch), "--seconds", "8")
    assert status == 0, out + err
    status, out, err = shell(
        program(kernel.replace(word, wrong), launch), "--seconds", "8", "--json"
    )
    assert status == 1, out + err
    found = [f for x in json.loads(out)["launches"] for f in x["findings"]]
    assert any(f["kind"] == kind and line in f["text"] for f in found), found


def test_an_uncoalesced_load_is_named_beside_its_count(shell):
    text = program(COLUMN, "column<<<1, 64>>>(a, c, n);", "n * 16, n, n")
    _, out, _ = shell(text.replace("STRIDE", "1"))
    assert "uncoalesced" not in out
    _, out, _ = shell(text.replace("STRIDE", "8"))
    assert "uncoalesced: 32.0 sectors a request, and 4.0 would" in out


WANT = """import numpy as np
def add(a, b): return a + b
def every(**of): return of["a"] + of["b"]
def named(a, b): return {"c": a - b}
def rest(a, **of): return a - of["b"]
def stranger(x): return x
def other(q, **of): return q
def broken(a): return a / missing
"""


def test_a_wrong_grid_leaves_wrong_results(shell):
    Path("want.py").write_text(WANT)
    for name, status in (("add", 0), ("every", 0), ("named", 1), ("rest", 1)):
        assert shell(GOOD, "--expect", f"want.py:{name}")[0] == status, name
    few = GOOD.replace("blocks_for(n, block.x)", "n / 256")
    status, out, _ = shell(few, "--expect", "want.py:add")
    assert status == 1 and "wrong-result" in out and "c[768]" in out
    gap = "c: no thread wrote 232 of 1,000 elements, which nobody had set; the first is c[768]"
    assert gap in shell(few)[1] and "no thread wrote" not in shell(few, "--blocks", "2")[1]
    for name, words in (
        ("stranger", "as the kernel does: add(a, b, c, n)"),
        ("other", "parameters that no"),
        ("broken", "NameError"),
        ("nothing", "no function nothing"),
    ):
        status, _, err = shell(GOOD, "--expect", f"want.py:{name}")
        assert status == 2 and words in err, err


def test_float64_for_a_pointer_to_float_is_refused(shell, tmp_path):
    np.save("a.npy", np.ones(1000))
    status, _, err = shell(GOOD, "--arg", "a=a.npy")
    assert status == 2 and "float64" in err and "astype" in err
    np.save("a.npy", np.ones(1000, np.float32))
    assert shell(GOOD, "--arg", "a=a.npy")[0] == 0


BARE = """//! low: grid=(n+63)/64 block=64 x=n y=empty:n n=100
__global__ void low(const float* x, float* y, uint n) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    float best = INFINITY;
    static_assert(std::is_same_v<uint, unsigned>);
    for (uint j = 0; j < n; j++) best = std::min(best, x[j] * float(M_PI) / FLT_MAX);
    if (i < n) y[i] = best;
}
"""


def test_a_bare_kernel_runs_by_a_line_of_its_own(shell):
    status, out, err = shell(BARE)
    assert status == 0, out + err
    assert "grid 2x1x1" in out and "from //! in line 1" in out
    assert "n = 50" in shell(BARE, "--arg", "n=50")[1]
    assert shell(BARE, "--arg", "n=101")[0] == 0
    status, out, _ = shell(BARE.replace("i < n) y", "i <= n) y"))
    assert status == 1 and "y[100]" in out
    assert shell("//! Another tool's comment: what's below\n" + BARE)[0] == 0
    for wrong, word in (("x==n", "x==n"), ("x=n z", "'z' is no NAME"), ("'x=n", "No closing")):
        status, _, err = shell(BARE.replace("x=n", wrong))
        assert status == 2 and word in err
    status, _, err = shell(BARE.replace("std::min(best", "std::mni(best"))
    assert status == 2 and 'no member "mni"' in err and "warning" not in err
    assert err.index("my.cu(6)") < 400


def test_what_nothing_tells_is_asked_for(shell):
    text = "__global__ void f(float* a, int* b) { a[threadIdx.x] = b[0]; }\n"
    status, _, err = shell(text)
    assert status == 2 and "--arg a=1000" in err
    status, out, _ = shell(
        text, "--grid", "1", "--block", "32", "--arg", "a=32", "--arg", "b=ones:1"
    )
    assert status == 0 and "from --grid" in out
    status, _, err = shell(text, "--arg", "q=1", "--arg", "a=1", "--arg", "b=1")
    assert status == 2 and "no parameter q" in err
    status, out, _ = shell(ADD)
    assert status == 0 and "n = 1000" in out and "from a guess" in out
    status, out, _ = shell(ADD.replace("i < n", "i <= n"))
    assert status == 1 and "was a guess" in out
    assert "no kernel" in shell("__device__ int f() { return 1; }")[2]
    source = GOOD.replace("const int n = 1000", "const int n = atoi(argv[1])")
    status, out, _ = shell(source)
    assert status == 0 and re.search("n = 1000 +from a guess", out), out
    status, out, _ = shell(source, "--set", "n=300")
    assert status == 0 and "n = 300 " in out and "guess" not in out
    source = source.replace("block(256)", "block(atoi(argv[2]))")
    status, _, err = shell(source, "--set", "n=300")
    assert status == 2 and "it comes from atoi()" in err and "--grid" in err
    assert "no variable" in shell(GOOD, "--set", "mm=3")[2]


def test_the_facts_as_json(shell):
    _, out, _ = shell(GOOD, "--json")
    facts = json.loads(out)
    assert facts["schema"] == 1 and facts["status"] == "clean" and facts["file"] == "my.cu"
    [launch] = facts["launches"]
    assert {"kernel", "grid", "block", "shared_bytes", "from", "arguments", "findings", "lines",
            "metrics", "resources", "occupancy", "notes", "left_out"} <= set(launch)  # fmt: skip
    assert launch["metrics"]["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 64
    assert launch["metrics"]["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 125
    assert launch["unset"] == ["c"]
    assert shell(GOOD, "--json", "--seed", "1")[0] == 0


STEPS = """__global__ void step(float* a, int k) { a[threadIdx.x] += k; }
int main() {
    float* a;
    cudaMalloc(&a, 128);
    cudaMemset(a, 0, 128);
    for (int k = 0; k < 20; ++k) step<<<1, 32>>>(a, k);
    step<<<1, 33>>>(a, 5);
}
"""


def test_launches_share_their_arrays_and_are_limited(shell):
    _, out, _ = shell(STEPS, "--json")
    facts = json.loads(out)
    assert len(facts["launches"]) == 16 and "16 of 21 launches are run" in facts["host"]
    status, out, _ = shell(STEPS, "--json", "--launches", "21")
    facts = json.loads(out)
    assert status == 1 and facts["host"] == "" and len(facts["launches"]) == 21
    assert [len(x["findings"]) for x in facts["launches"]] == [0] * 20 + [1]
    never = STEPS.replace("cudaMemset(a, 0, 128);", "")
    kinds = [
        {f["kind"] for f in x["findings"]}
        for x in json.loads(shell(never, "--json")[1])["launches"]
    ]
    assert kinds[0] == {"uninitialised"} and kinds[1] == set()


def test_what_has_run_is_shown_though_a_later_launch_cannot(shell):
    status, out, err = shell(STEPS.replace("<1, 33>", "<1, 2048>"), "--launches", "21")
    assert status == 2 and out.count("\n== step: ") == 20 and "2048 threads" in err
    assert out.count("compiled by") == 1 and "null" not in out
    status, out, err = shell(STEPS.replace("<1, 33>", "<1, 2048>"), "--launches", "21", "--json")
    assert status == 2 and not out and "2048 threads" in err  # data comes whole or not at all


def test_the_page_has_the_source_with_counts_and_faults(shell):
    assert shell(GOOD.replace("i < n) c", "i <= n) c"), "--html", "out.html")[0] == 1
    page = Path("out.html").read_text(encoding="utf-8")
    assert not re.search(r"<script|<link|\b(?:src|href)=", page)
    rows = [unescape(re.sub("<[^>]*>", "", row)) for row in re.split("<tr[^>]*>", page)]
    [row] = [i for i, r in enumerate(rows) if "c[i] = a[i] + b[i]" in r]
    assert "a load: 32 x 3.9 sectors" in rows[row]
    assert rows[row + 1].startswith("out-of-bounds") and "a[1000]" in rows[row + 1]
    assert "<vector>" in "".join(rows)


def test_the_page_opens_light_and_dark(shell):
    playwright = pytest.importorskip("playwright.sync_api")
    if not Path("/usr/bin/chromium").is_file():
        pytest.skip("there is no Chromium")
    shell(GOOD, "--html", "out.html")

    def look():
        """Colours of the background, light and dark."""
        backs = []
        with playwright.sync_playwright() as p:
            browser = p.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            for scheme in ("light", "dark"):
                page = browser.new_page(color_scheme=scheme, viewport={"width": 400, "height": 800})
                page.goto(Path("out.html").resolve().as_uri())
                backs.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
                assert page.evaluate("document.documentElement.scrollWidth") <= 400
            browser.close()
        return backs

    # Another test's browser may hold this thread's event loop: playwright wants one of its own.
    with ThreadPoolExecutor(1) as pool:
        backs = pool.submit(look).result()
    assert backs[0] != backs[1]


# -- host code ------------------------------------------------------------------------------------


def followed(text, **values):
    """The launches of a program."""
    one = Program(text, values, {})
    one.run()
    return [e for e in one.events if isinstance(e, Launched)]


HOST = cuda("run/host")


def test_host_code_is_followed_to_its_launches():
    first, second, third = followed(HOST)
    assert first.entry == "lab::tile<16, double>" and first.grid == (32, 2, 1)
    assert first.block == (16, 16, 1) and first.shared == 64 and first.fills[0] == 0
    assert second.entry == "lab::tile<32, double>" and second.args[0].offset == 64
    assert second.args[0].array is first.args[0].array and second.args[1] == 512
    assert (third.grid, third.args[1]) == ((1024, 1, 1), 1024)
    assert followed(HOST.replace("1 << 10", "1 << 9"))[0].grid == (16, 2, 1)
    unknown = followed(HOST.replace("int n = N;", "int n; std::cin >> n;"))[0]
    assert isinstance(unknown.grid, Unknown)
    member = "dim3 blocks; blocks.y = DIV(n, 16); lab::tile<16><<<blocks, 8>>>"
    assert followed(HOST.replace("lab::tile<8, double><<<s, 8>>>", member))[2].grid == (1, 64, 1)


def test_a_long_loop_over_data_is_left_and_changes_nothing_else():
    loop = "for (long i = 0; i < 1000000000; ++i) { h[i] = i; count += 1; }"
    text = "__global__ void k(int n) {}\nint main() { int count = 0, n = 7; float* h; LOOP k<<<n, 1>>>(count); }"
    [kept] = followed(text.replace("LOOP", ""))
    [left] = followed(text.replace("LOOP", loop))
    assert kept.args == (0,) and left.grid == (7, 1, 1) and isinstance(left.args[0], Unknown)
    assert MOST_TURNS < 1000000000


HOPPER = cuda("run/hopper")


def test_a_tensor_map_is_taken_from_the_host_code(shell):
    Path("want.py").write_text(
        "import numpy as np\n"
        "def bits(x): return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)\n"
        "def copy(map): return bits(map.reshape(-1))\n"
        "def wrong(map): return bits(map.transpose(1, 0, 2).reshape(-1))\n"
    )
    text = HOPPER.replace("ROWS", "32")
    status, out, err = shell(text, "--expect", "want.py:copy")
    assert status == 0, out + err
    assert "tensor map of p: 2x32x64, boxes of 2x32x64" in out and "for sm_90a" in out
    assert shell(text, "--expect", "want.py:wrong")[0] == 1
    wider = HOPPER.replace("ROWS", "40")  # a box beyond its tensor: zeros
    status, out, err = shell(wider)
    assert status == 0, out + err
    status, _, err = shell(text.replace("(p, 32, 128)", "(p, 64, 128)"))
    assert status == 2 and "sizes and strides that fit" in err
    words = ["--arg", "map=map:q,box=32x64", "--arg", "q=half:32x64", "--arg", "out=4096"]
    assert "an array of 2 axes" in shell(text, *words)[2]  # a map of two axes for a copy of three


def test_an_array_behind_a_map_that_nobody_sets(shell):
    text = HOPPER.replace("ROWS", "32")
    copied = "    cudaMemcpy(p, host, 32 * 128 * sizeof(bf16), cudaMemcpyHostToDevice);\n"
    assert copied in text and shell(text)[0] == 0
    status, out, err = shell(text.replace(copied, ""))
    assert status == 1 and "swizzle 0, never set" in out and "p[0] is copied for" in out, out + err


def test_an_expected_map_is_compared_in_the_order_of_its_memory():
    base = np.arange(32, dtype=np.float32)
    view = base.reshape(4, 2, 4).transpose(1, 0, 2)
    for have, right in ((TensorMap(view, (1, 1, 4)), True), (view, False)):
        got, bound = _shaped((view.copy(), 0.5), Argument(Formal("a", "", 1, ""), have, "", ""))
        assert bound == 0.5 and np.array_equal(got.reshape(-1), base) == right


def test_what_a_file_includes_is_read_with_it(shell):
    Path("deep").mkdir()
    Path("deep/add.cuh").write_text("#pragma once\n" + ADD.replace("i < n)", "i <= n)"))
    text = GOOD.replace(ADD, '#include "deep/add.cuh"')
    status, out, err = shell(text)
    assert status == 1 and "add.cuh:4: out-of-bounds" in out, out + err
    Path("deep/add.cuh").write_text("#pragma once\n" + ADD.replace("a[i] + b", "a[i] + bb"))
    status, _, err = shell(text)
    assert status == 2 and "add.cuh(4)" in err
    with pytest.raises(SourceError, match="is no file"):
        sources.read(Path("none.cu"))


# -- what programs hold beside arrays and numbers ------------------------------------------------

DEVICE = cuda("run/device")
RIGHT = """
import numpy as np
def use(p, weights, log_):
    assert weights.dtype == np.float32
    return np.tile(weights * 2 + 9 + log_.view(np.int32), 8)
def rows(data, pitch):
    return data.view(np.float32)[::pitch // 4]
"""


def test_variables_of_the_device_structures_and_methods_are_followed(shell):
    file = Path("want.py")
    file.write_text(RIGHT, encoding="utf-8")
    status, out, err = shell(DEVICE, "--expect", "want.py:use", "--json")
    assert status == 0, out + err
    launches = json.loads(out)["launches"]
    assert [x["kernel"] for x in launches] == ["count", "count", "use", "rows"]
    assert launches[2]["variables"] == ["weights (16 bytes)", "calls (4 bytes)", "log_ (16 bytes)"]
    assert launches[3]["arguments"][0]["value"].startswith(f"{512 * 6} int8")
    assert launches[3]["grid"] == [1, 1, 1]
    assert shell(DEVICE, "--expect", "want.py:rows")[0] == 0
    known = RIGHT.replace("weights * 2", "np.float32([1, 2, 3, 4]) * 2")
    file.write_text(
        known.replace("log_.view(np.int32)", "np.array([1, 1, 7, 7])"), encoding="utf-8"
    )
    assert shell(DEVICE, "--expect", "want.py:use")[0] == 0
    for right, wrong in (
        ("w[4] = {1, 2,", "w[4] = {1, 7,"), ("p.scale = 2", "p.scale = 3"), ("{{5, 9}}", "{{9, 5}}"),
        ("add.clear();", ""), ("n = 32", "n = 31"), ("= {7, 7, 7, 7}", "= {7, 7, 7, 8}"),
    ):  # fmt: skip
        text = DEVICE.replace(right, wrong, 1)
        assert text != DEVICE and shell(text, "--expect", "want.py:use")[0] == 1, (right, wrong)
    wrong = DEVICE.replace("threadIdx.x * pitch", "threadIdx.x * 40")
    assert shell(wrong, "--expect", "want.py:rows")[0] == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("p.scale = 2;", "", "p.scale is not known: Params.scale was not set"),
        ("p.scale = 2;", "p.scale = rand();", "p.scale is not known: it comes from rand()"),
        ("add.get();", "w;", "p.add is passed memory of the host (an array), which a kernel"),
        ("cudaMalloc(&first,", "cudaMalloc(first,", "cudaMalloc takes the address of first"),
        ("pitch, first);", "first);", "launches rows with 2 argument(s), and it takes 3"),
        ("char tag;", "char tag; int (*f)(int);", "the size of Params is not known"),
        ("char tag;", "char tag; int bits : 3;", "the size of Params is not known"),
        ("(const char* data", "(const Params* data", "has elements that hold pointers"),
        ("(const char* data", "(char** data", "'char** data' has elements that hold pointers"),
        ("(const char* data", "(char* const* data", "has elements that hold pointers"),
        ("(const char* data", "(char* data[]", "has elements that hold pointers"),
        ("if (i < p.n) out", "if (i < main()) out", "main is a function of the host"),
        ("__global__ void count() {", "__global__ void count(int n = 1) { __shared__ int s[n];",
         "its bytes are the third number in <<<>>>"),
    ],
)  # fmt: skip
def test_what_is_not_followed_is_refused_by_name(old, new, words, shell):
    assert old in DEVICE
    status, out, err = shell(DEVICE.replace(old, new))
    assert status == 2 and words in err, out + err


def test_a_kernel_of_another_name_and_memory_of_the_host_are_refused(shell):
    status, _, err = shell(GOOD.replace("add<<<", "ad<<<"))
    assert status == 2 and "ad is launched, and no kernel here has that name. Did you mean" in err
    status, _, err = shell(GOOD.replace("(a, b, c, n);", "(a, h.data(), c, n);"))
    assert status == 2 and "b is passed memory of the host (h)" in err
    pinned = GOOD.replace("cudaMalloc(&a,", "cudaMallocHost(&a,")
    assert pinned != GOOD and shell(pinned)[0] == 0


PAIR = """__global__ void a(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 0; }
__global__ void b(float* x, int n) { if (threadIdx.x <= n) x[threadIdx.x] = 1; }
void again(float* x) { b<<<1, 128>>>(x, 64); }
#define LAUNCH(kernel, blocks) kernel<<<blocks, 128>>>(x, 64)
int main(int argc, char** argv) {
    float* x; cudaMalloc(&x, 256); a<<<1, 64>>>(x, 64);
    BODY
}
"""
LEFT = "not followed, so not run: "


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("try { again(x); } catch (const E& e) { a<<<2, 1>>>(x, 1); } catch (...) {}", 1, "launch in line 3"),
        ("goto next; a<<<2, 1>>>(x, 1); next: b<<<1, 128>>>(x, 64);", 1, "launch in line 7"),
        ("int i = 0; more: if (i++ < 2) goto more; if (i == 3) { goto out; } return 0; out: again(x);", 1, "== b"),
        ("for (;;) { switch (argc) { case 1: goto out; } } out: again(x);", 1, "== b"),
        ("LAUNCH(b, 1);", 1, "launch in line 7"),
        ("for (auto& [name, f] : table) f<<<1, 128>>>(x, 64);", 2, LEFT + "a kernel in line 7 (--kernel"),
        ("for (auto& [i, j] : table) a<<<1, 64>>>(x, 64);", 0, LEFT + "a in line 7 (--kernel"),
        ("for (auto& [i, j] : table) a<<<1, 64>>>(x, 64); again(x);", 1, LEFT + "a in line 7"),
        ("if (rand()) a<<<2, 64>>>(x, 64); else LAUNCH(b, 1);", 2, LEFT + "b in line 7"),
        ("std::thread t([&] { b<<<1, 128>>>(x, 64); });", 2, LEFT + "b in line 7"),
        ("each(v, [&](int i) { b<<<1, 128>>>(x, i); });", 2, LEFT + "b in line 7"),
        ("cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);", 2, LEFT + "f in line 7"),
        ("lost<<<1, 1>>>(x); again(x);", 2, "lost is launched, and no kernel here has that name; " + LEFT + "lost in"),
        ("for (int i = 2; i < 20; i++) a<<<i, 64>>>(x, 64); again(x);", 2, "16 of 20 launches are run"),
        ("if (argc > 1) again(x);", 0, "not come to, so not run: b in line 3 (--kernel"),
        ("if (argc > 1) a<<<1, 1>>>(x, 1); again(x);", 1, "no GPU was used\n\n== a"),
    ],
)  # fmt: skip
def test_a_launch_that_is_not_run_is_never_unsaid(body, status, words, shell):
    got, out, err = shell(PAIR.replace("BODY", body))
    assert got == status and words in out and ("error: not every kernel" in err) == (status == 2), (
        out + err
    )
    assert "== a: 1 of 2" not in out or "rand" in body
    assert shell(PAIR.replace("BODY", body), "--kernel", "a")[0] == 0


DEFINE = """#define DEFINE(name) HEAD(name)
#define HEAD(name) __global__ void name(float* x) { x[0] = 1; }
#define UNUSED __global__
"""
MAIN = "int main() { float* x; double* y; cudaMalloc(&x, 40); cudaMalloc(&y, 80); BODY }"


@pytest.mark.parametrize(
    ("text", "body", "words"),
    [
        (DEFINE + "HEAD(f)\n", "f<<<1, 1>>>(x);", "no kernel: the macro HEAD defines kernels"),
        (DEFINE + "DEFINE(f)\n", "f<<<1, 1>>>(x);", "no kernel: the macro DEFINE defines kernels"),
        ("#define KERNEL __global__\nKERNEL void f(float* x) {}\n", "", "no kernel: the macro KERNEL"),
        (DEFINE, "", "no kernel: mark one"),
        (DEFINE + "HEAD(f)\n__global__ void g(float* x) { x[0] = 2; }\n", "g<<<1, 1>>>(x); f<<<1, 1>>>(x);",
         "f is launched, and no kernel here has that name: the macro HEAD"),
        ("__global__ void f(float* x) {}\n__global__ void f(double* x) {}\n", "f<<<1, 1>>>(y);",
         "f has overloads, (float* x) and (double* x), and which"),
        ("#include <curand_kernel.h>\n__global__ void f(float* x) { x[0] = 1; }\n", "f<<<1, 1>>>(x);",
         "curand_kernel.h is of curand, which is not part of nogpu (<cuda_fp16.h>"),
    ],
)  # fmt: skip
def test_a_kernel_that_the_text_does_not_show_is_refused(text, body, words, shell):
    status, out, err = shell(text + MAIN.replace("BODY", body))
    assert status == 2 and words in err, out + err


def test_a_specialisation_of_a_kernel_is_no_overload(shell):
    text = """template <typename T> __global__ void f(T* x) { x[0] = 1; }
    template <> __global__ void f<double>(double* x) { x[1] = 1; }
    """
    assert shell(text + MAIN.replace("BODY", "f<<<1, 1>>>(x); f<double><<<1, 1>>>(y);"))[0] == 0


def test_methods_that_are_defined_behind_their_class_are_followed():
    text = """__global__ void k(float* x, int n) {}
    void each(int turns) {}
    struct Solver { float* x; int n; Solver(int n); void step(int turns); void each(int turns); };
    Solver::Solver(int many) : n(many) { cudaMalloc(&x, n * sizeof(float)); }
    void Solver::step(int turns) { each(turns + 1); }
    void Solver::each(int turns) { k<<<turns, 128>>>(x, n); }
    int main() { Solver s(100); s.step(2); each(5); }
    """
    [got] = followed(text)
    assert got.grid == (3, 1, 1) and got.args[1] == 100 and got.args[0].array.bytes == 400


@pytest.mark.parametrize(
    ("call", "entry"),
    [
        ("launch(y, 2.0, 10)", "scale<double, 4>"), ("launch(x, 2.0f, 10)", "scale<float, 4>"),
        ("launch<float, 8>(x, 2, 10)", "scale<float, 8>"), ("outer(y)", "scale<double, 4>"),
    ],
)  # fmt: skip
def test_a_template_of_the_host_takes_its_types_from_its_arguments(call, entry):
    text = """template <typename T, int N> __global__ void scale(T* x, T s, int n) {}
    template <typename T, int N = 4> void launch(T* x, T s, int n) { scale<T, N><<<n, sizeof(T)>>>(x, s, n); }
    template <class U> void outer(const U* x) { launch((U*)x, U(3), 10); }
    """
    [got] = followed(text + MAIN.replace("BODY", call + ";"))
    assert got.entry == entry and got.block == (8 if "double" in entry else 4, 1, 1)


def test_the_address_of_a_function_is_refused_by_name(shell):
    text = """typedef int (*Op)(int);
    __device__ int twice(int x) { return 2 * x; }
    __device__ Op twice_ = twice;
    __global__ void apply(Op op, int* y) { y[threadIdx.x] = op(threadIdx.x); }
    int main() {
        int* y; cudaMalloc(&y, 128);
        Op op; cudaMemcpyFromSymbol(&op, twice_, sizeof(Op));
        apply<<<1, 32>>>(op, y);
    }"""
    status, out, err = shell(text)
    assert status == 2 and "it is what twice_ holds on the device, and no option" in err, out + err


def test_an_index_out_of_random_numbers_is_named_as_such(shell):
    text = """__global__ void k(const int* at, float* y) { y[at[threadIdx.x] * GAP] = 1; }
    int main() {
        int* at; float* y;
        cudaMalloc(&at, 32 * sizeof(int)); cudaMalloc(&y, 10 * sizeof(float));
        int h[32]; for (int i = 0; i < 32; i++) h[i] = i % 2;
        cudaMemcpy(at, h, sizeof h, cudaMemcpyHostToDevice);
        k<<<1, 32>>>(at, y);
    }"""
    status, out, err = shell(text.replace("GAP", "5"))
    assert status == 1 and "if the index comes from at:" in out, out + err
    out = shell(text.replace("* GAP", "% 2"))[1]
    assert "if the index" not in out and "random, not the host's (--arg at=FILE.npy)" in out


def test_an_index_of_bf16_numbers_is_not_named_as_random(shell):
    text = """#include <cuda_bf16.h>
    __global__ void k(const TYPE* a, float* y) { y[threadIdx.x] = (float)a[threadIdx.x + 1]; }
    int main() {
        TYPE* a; float* y;
        cudaMalloc(&a, 32 * sizeof(TYPE)); cudaMalloc(&y, 32 * sizeof(float));
        cudaMemcpy(a, host, 32 * sizeof(TYPE), cudaMemcpyHostToDevice);
        k<<<1, 32>>>(a, y);
    }"""
    status, out, _ = shell(text.replace("TYPE", "__nv_bfloat16"))
    assert status == 1 and "past its end" in out and "FILE.npy" not in out
    assert "FILE.npy" in shell(text.replace("TYPE", "unsigned short"))[1]


CLUSTER = cuda("run/cluster")


@pytest.mark.parametrize(
    "how", ["given[1].val.clusterDim.x = 2; given[1].val.clusterDim.y = given[1].val.clusterDim.z = 1;",
            "given[1].val.clusterDim = {2, 1, 1};"],
)  # fmt: skip
def test_a_cluster_among_the_attributes_of_a_launch(how, shell):
    Path("want.py").write_text("import numpy as np\ndef k(): return np.full(4, 2)\n")
    status, out, err = shell(CLUSTER.replace("HOW", how), "--expect", "want.py:k")
    assert status == 0 and "cluster 2x1x1" in out, out + err
    assert shell(CLUSTER.replace("HOW", ""), "--expect", "want.py:k")[0] == 1  # clusters of one
    unknown = how.replace("2", "atoi(argv[1])", 1)
    assert "cluster" in shell(CLUSTER.replace("HOW", unknown))[2]


COOPERATIVE = """#include <cooperative_groups.h>
__global__ void turn(float* x, int n) {
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    float v = i < n ? x[n - 1 - i] : 0;
    grid.sync();
    if (i < n) x[i] = v;
}
int main() {
    int n = 512; float* x; cudaMalloc(&x, n * sizeof(float)); cudaMemset(x, 0, n * sizeof(float));
    void* args[] = {&x, &n};
    cudaLaunchAttribute each[1]; each[0].id = cudaLaunchAttributeCooperative; each[0].val.cooperative = 1;
    cudaLaunchConfig_t config = {0}; config.gridDim = 4; config.blockDim = 128; config.attrs = each;
    LAUNCH;
}
"""


@pytest.mark.parametrize(
    ("launch", "status"),
    [
        ("cudaLaunchCooperativeKernel((void*)turn, dim3(4), dim3(128), args, 0, 0)", 0),
        ("cudaLaunchKernelEx(&config, turn, x, n)", 0),
        ("each[0].val.cooperative = 0; cudaLaunchKernelEx(&config, turn, x, n)", 1),
    ],
)
def test_a_cooperative_launch_is_one(launch, status, shell):
    got, out, err = shell(COOPERATIVE.replace("LAUNCH", launch), "--blocks", "4" if status else "2")
    assert got == status and ("trap" in out) == (status == 1), out + err
    assert ("   cooperative" in out) == (status == 0) and "from the launch in line 14" in out


def test_tuples_and_pairs_of_the_host_library_run_on_the_device(shell):
    text = """#include <tuple>
    #include <utility>
    __global__ void k(int* y) {
        auto place = [](int i) -> std::tuple<int, int> { return {i / 4, i % 4}; };
        auto [row, column] = place(threadIdx.x);
        auto [first, second, third] = std::make_tuple(row, column, 100);
        std::pair<int, int> both = std::make_pair(first, third);
        y[threadIdx.x] = both.first * 10 + second + both.second;
    }
    int main() { int* y; cudaMalloc(&y, 32 * sizeof(int)); k<<<1, 32>>>(y); }"""
    Path("want.py").write_text(
        "import numpy as np\n"
        "def k(): return 100 + 10 * (np.arange(32) // 4) + np.arange(32) % 4\n"
        "def wrong(): return 100 + np.arange(32)\n"
    )
    status, out, err = shell(text, "--expect", "want.py:k")
    assert status == 0, out + err
    assert shell(text, "--expect", "want.py:wrong")[0] == 1


TENSOR = cuda("run/tensor")


def test_the_architecture_of_tensor_memory_is_taken_from_the_text(shell):
    Path("want.py").write_text("import numpy as np\ndef k(): return np.arange(32) + 1\n")
    status, out, err = shell(TENSOR, "--expect", "want.py:k")
    assert status == 0 and "for sm_100a" in out, out + err
    assert shell(TENSOR, "--arch", "sm_90a")[0] == 2
    plain = GOOD.replace("__global__ void add", "// no tcgen05 here\n__global__ void add")
    assert "for sm_80" in shell(plain)[1]
