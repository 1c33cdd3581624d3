"""Exercises that are answered with a kernel: other right ones pass, each fault gets a true hint.

A kernel is the solution that a page prints, with texts replaced that stand in it once. That the
solutions themselves pass is tested in tests/test_exercises.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest

from helpers.page.exercises import check
from tests.common import texts_of

Swaps = Sequence[tuple[str, str]]
Kernel = str | Swaps
"""A text of its own, or what is another in the solution."""


def kernels(exercise):
    """The kernel that a reader starts from, and the solution's; the starter's may be missing."""
    [text] = [text for text in texts_of(exercise[:2]) if f"### Exercise {exercise}" in text]
    part = text.split(f"### Exercise {exercise}")[1]
    starter, solution = part.split("{dropdown} Solution", 1)
    pattern = r'(?s)mine = """(.*?)"""'
    return [*re.findall(pattern, starter), re.findall(pattern, solution)[0]]


def twin(exercise, kernel):
    """The text of a kernel."""
    if isinstance(kernel, str):
        return kernel
    source = kernels(exercise)[-1]
    for old, new in kernel:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def result(exercise, kernel):
    return check(exercise, twin(exercise, kernel))


REVERSE = 'extern "C" __global__ void reverse(const float* x, float* y, int n) {{ {} }}'
FLAT = (
    'extern "C" __global__ void flat(const float* A, const float* B, float* C, int M, int N, int K)'
    "{{ int t = blockIdx.x * blockDim.x + threadIdx.x; {} }}"
)
NUMBER = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
ELEMENT = (
    "float s = 0; for (int k = 0; k < K; ++k) s += A[r * K + k] * B[k * N + c]; C[r * N + c] = s;"
)

FIXED_BY_ONE_THREAD = [
    ("const int t = threadIdx.y * 32 + threadIdx.x;",
     "if (threadIdx.x || threadIdx.y) return;\n    for (int t = 0; t < 256; ++t) {"),
    ("return;\n    float", "continue;\n    float"), ("= sum;", "= sum; }"),
]  # fmt: skip
TRANSPOSED_BY_ONE_THREAD = """
extern "C" __global__ void transpose(const float* x, float* y, int rows, int cols)
{
    if (threadIdx.x || threadIdx.y) return;
    for (int r = blockIdx.y * 32; r < rows && r < blockIdx.y * 32 + 32; ++r)
        for (int c = blockIdx.x * 32; c < cols && c < blockIdx.x * 32 + 32; ++c)
            y[c * rows + r] = x[r * cols + c];
}
"""
COPY_BY_ONE_THREAD = [
    ("int t = blockIdx.x * blockDim.x + threadIdx.x;",
     "if (blockIdx.x + threadIdx.x) return;\n    for (int t = 0; 4 * t < n; ++t) {"),
    ("y[i] = x[i];\n    }", "y[i] = x[i];\n    }}"),
]  # fmt: skip
SCALAR = (
    "wmma::mem_row_major);\n    }",
    """wmma::mem_row_major);
    }
    __syncwarp();
    for (int i = 0; i < 16; ++i) {
        float sum = 0;
        for (int k = 0; k < K; ++k)
            sum += __half2float(A[(row + i) * K + k]) * __half2float(B[k * N + col + threadIdx.x]);
        C[(row + i) * N + col + threadIdx.x] = sum;
    }""",
)
"""What the Tensor Cores stored is computed again without them."""
STORE = "if (yr < cols && yc < rows) y[yr * rows + yc]"
PLACES = "int yr = blockIdx.x * 32 + threadIdx.y, yc = blockIdx.y * 32 + threadIdx.x;"


def global_a(row):
    return f"({row} < M && k0 + k < K ? A[({row}) * K + k0 + k] : 0.0f)"


def global_b(col):
    return f"(k0 + k < K && {col} < N ? B[(k0 + k) * N + {col}] : 0.0f)"


PATCH_B = global_b("n0 + tx + j * T")
PRODUCTS = """for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) sum[i][j] += a[i] * b[j];"""
LOAD_A = "wmma::load_matrix_sync(a, A + row * K + k, K);"
LDMATRIX = "ldmatrix_x4(r, shared_address(&tile[place(lane % 16, k + lane / 16 * 8)]));"
FOR_SHOW = """for (int i = 0; i < 4; ++i) {
            const int row = lane / 4 + i % 2 * 8, col = k + i / 2 * 8 + lane % 4 * 2;
            r[i] = reinterpret_cast<const unsigned*>(x)[(row * 64 + col) / 2];
        }"""
WAIT = "wait_groups<STAGES - 2>();"
AHEAD = "copy_slot(slots + ahead % STAGES * SLOT, A, B, ahead, K);"
ASKED = ("            barrier_wait(&empty[at], step / STAGES % 2 ^ 1);\n", "")
GIVEN = ("            barrier_arrive(&empty[at]);\n", "")
FIXED = ("full[at], step / STAGES % 2)", "full[at], 0)")
SHALLOW = ("STAGES = 3", "STAGES = 2")
FEW = ("&full[at], sizeof(stage[at])", "&full[at], COLS * sizeof(float)")
SHOWN = ("        tma_store_fence();  // what was stored, an engine may read\n", "")
AWAITED = ("        wgmma_finish(sum);\n", "")
LOWER = (" + i / 2 % 2 * 8", "")
ADDS = ("k0 + k > 0", "true")
ISSUED = ("tensor_commit(&empty[", "barrier_arrive(&empty[")
UNAWAITED = ("        tensor_load_wait();\n", "")
OF_ONE = ("PAIR * sizeof(Stage)", "sizeof(Stage)")
TO_ONE = ("&empty, 3", "&empty, 1")
SAME_HALF = ("k0, rank * HALF", "k0, 0")

RIGHT: Mapping[str, Sequence[Kernel]] = {
    "01.4": [REVERSE.format(f"{NUMBER} if (i < n) {body}") for body in (
                 "y[i] = x[n - 1 - i];", "y[n - 1 - i] = x[i];",
                 "for (; i < n; i += gridDim.x * blockDim.x) y[i] = x[n - 1 - i];")],
    "04.2": [FLAT.format(body) for body in (
                 f"if (t >= M * N) return; int r = t / N, c = t % N; {ELEMENT}",
                 f"if (t < M * N) {{ int r = t % M, c = t / M; {ELEMENT} }}",
                 "for (int e = t; e < M * N; e += gridDim.x * blockDim.x)"
                 f" {{ int r = e / N, c = e % N; {ELEMENT} }}",
                 "if (t >= M * N) return; C[t] = 0;"
                 " for (int k = 0; k < K; ++k) C[t] += A[t / N * K + k] * B[k * N + t % N];")],
    # a tile in shared memory
    "05.2": [[("float sum = 0.0f;", "__shared__ float kept[256];\n    float sum = 0.0f;"),
              ("C[row * N + col] = sum;", "kept[t] = sum;\n    C[row * N + col] = kept[t];")]],
    "11.3": [[("__syncthreads();", "__syncthreads_count(1);")],
             [("int buffer = 0;", "int buffer = 0;  // __syncthreads() below")]],
    # the wait behind the next copies
    "19.2": [[(WAIT, ""), (AHEAD, f"{AHEAD} wait_groups<STAGES - 1>(); __syncwarp();")]],
    # barriers to spare; one arrival for all lanes; bytes as a number
    "20.2": [[("full[STAGES], empty[STAGES]", "full[4], empty[4]")],
             [("threadIdx.x], 32", "threadIdx.x], 1"), GIVEN,
              (" + threadIdx.x] = sum;\n", " + threadIdx.x] = sum; __syncwarp();\n"
               "if (threadIdx.x == 0) barrier_arrive(&empty[at]);\n")],
             [("ROWS = 8, COLS", "ROWS = 8, ALL = 1024, COLS"),
              ("&full[at], sizeof(stage[at])", "&full[at], ALL")]],
    # a bare wait; the fence behind the barrier
    "21.2": [[("wgmma_finish(sum)", "wgmma_wait<0>()")],
             [SHOWN, ("        wgmma_boxes", "        tma_store_fence();\n        wgmma_boxes")]],
    # the flag in other words; no ring at all
    "25.6": [[("k0 + k > 0", "k0 > 0 || k > 0")],
             [("STAGES = 2", "STAGES = 1")]],
    "25.7": [[("&empty, 3", "&empty, 1 | 1 << 1")], [("PAIR * sizeof(Stage)", "2 * sizeof(Stage)")],
             [("    cluster_sync();\n    if (warp == 0) tensor_free",
               "    __syncthreads();\n    if (warp == 0) tensor_free")]],
}  # fmt: skip

WRONG: Mapping[str, Sequence[tuple[Kernel, str]]] = {
    "01.4": [(REVERSE.format(f"{NUMBER} y[i] = x[n - 1 - i];"), "out-of-bounds"),
             (REVERSE.format(f"{NUMBER} if (i < n) y[i] = x[n - i];"), "differ"),
             (REVERSE.format("int i = threadIdx.x; if (i < n) y[i] = x[n - 1 - i];"), "differ")],
    "04.2": [(FLAT.format(f"int r = t / N, c = t % N; {ELEMENT}"), "out-of-bounds"),
             (FLAT.format(f"if (t >= M * N) return; int r = t / M, c = t % M; {ELEMENT}"),
              "differ"),
             (FLAT.format("C[t] = ;"), "the source compiles")],
    "06.2": [([("float sum", "if (row >= M || col >= N) return;\n    float sum")],
              "divergent-barrier"),
             ([("row < M && k0", "ty < M && k0")], "Guard the access"),
             ([("col < N && k0", "tx < N && k0")], "Guard the access"),
             ([("\n        __syncthreads();\n    }", "\n    }")], "__syncthreads"),
             ([("sum += A_tile[ty][k] * B_tile[k][tx]",
                "if (row < M && k0 + k < K) sum += A[row * K + k0 + k] * B_tile[k][tx]")], "")],
    "11.3": [([("__syncthreads();", "")], "one belongs between the stores and the reads"),
             ([("__syncthreads();", "__syncthreads(); __syncthreads();")], "Keep the one between"),
             ([("__syncthreads();", "__syncthreads(); __syncwarp();")], "__syncwarp is not used")],
    "17.3": [([("+ col + 16 * j, c[j]", "+ col, c[j]")], ""),
             ([("blockIdx.x * 32", "blockIdx.x * 16")], ""),
             (kernels("17.3")[0], "where do they begin")],
    "18.3": [([("k + lane / 16 * 8)]", "k)]")], "must be read from where it was stored"),
             (kernels("18.3")[0], "chunks of eight neighbouring rows")],
    "19.2": [([(WAIT, "")], "before the barrier"),
             ([(WAIT, "wait_groups<STAGES - 1>();")], "before the barrier"),
             ([(WAIT, "wait_groups<0>();")], "how many tiles"),
             ([(WAIT, 'asm volatile("cp.async.wait_all;" ::: "memory");')], "how many"),
             ([(WAIT, ""), (AHEAD, f"{AHEAD} wait_groups<STAGES - 1>();")],
              "the barrier must come after it"),
             ([("0, j * 8, sum", "0, 8 - j * 8, sum")], "keep the copies"),
             (kernels("19.2")[0], "no race at K = 16")],
    "20.2": [([FEW], "engine bring for one box"),
             ([("sizeof(stage[at])", "2 * sizeof(stage[at])")], "engine bring for one box"),
             ([ASKED, GIVEN], "the producer waits for empty before it asks"),
             ([ASKED], "the producer waits for empty before it asks"),
             ([GIVEN], "the consumer has arrived once it has read"),
             ([FIXED], "Which parity has the round"),
             ([("step / STAGES % 2 ^ 1", "1")], "Which parity has the round"),
             ([("% 2 ^ 1", "% 2")], "first round must not wait"),
             ([("barrier_arrive(&e", "if (threadIdx.x == 0) barrier_arrive(&e")],
              "as many threads must"),
             ([("            barrier_wait(&full[at], step / STAGES % 2);\n", "")],
              "consumer waits for full"),
             ([("tma_load(stage[at]", "tma_load(&stage[at][0][4]")], "how stage is declared"),
             ([("float sum = 0;", "float sum = 0; __syncthreads();")],
              "meet at full and empty alone"),
             ([("step * ROWS, 0", "0, step * ROWS")], "in the same order"),
             ([("sum += stage", "sum = stage")], "in the same order"),
             ([SHALLOW], "see what each of them hangs on"),
             ([("STAGES = 3", "STAGES = 4")], "see what each of them hangs on"),
             ([("at = step % STAGES;\n            barrier_wait(&e",
                "at = step % 2;\n            barrier_wait(&e")],
              "a phase of empty that does not end"),
             # from fault to fault
             (kernels("20.2")[0], "engine bring for one box"),
             ([ASKED, GIVEN, FIXED], "the producer waits for empty")],
    "21.2": [([SHOWN], "Each thread says of its own stores"),
             ([SHOWN, AWAITED], "Each thread says of its own stores"),
             ([("tma_store_fence();", "wgmma_fence();")], "Each thread says of its own stores"),
             ([("tma_store_fence();", "if (threadIdx.x == 0) tma_store_fence();")],
              "Each thread says of its own stores"),
             ([AWAITED], "nobody may refill the tiles or read the sums"),
             ([AWAITED, ("wgmma_boxes(", "wgmma_finish(sum); wgmma_boxes(")], "nobody may refill"),
             ([("        __syncthreads();\n        wgmma_boxes", "        wgmma_boxes")],
              "stands a barrier of the block"),
             ([LOWER], "two of the row eight further down"),
             ([("lane % 4 * 2", "lane % 4")], "look at the picture"),
             ([("k0 > 0", "false")], "the first tiles are right"),
             (kernels("21.2")[0], "says of its own stores")],
    "25.6": [([ADDS], "the first product must overwrite"),
             ([ISSUED], "lets the products arrive themselves"),
             ([UNAWAITED], "tcgen05.ld goes on by itself"),
             ([ISSUED, UNAWAITED], "tcgen05.ld goes on by itself"),
             ([("tensor_commit(&complete)", "barrier_arrive(&complete)")],
              "lets the products arrive themselves"),
             ([("k0 + k > 0", "k > 0")], "which steps of k"),
             ([("tensor_alloc<SUMS>", "tensor_alloc<64>")], "as many columns as"),
             (kernels("25.6")[0], "the first product must overwrite")],
    "25.7": [([OF_ONE], "how many bytes are that"),
             ([TO_ONE], "whose bits its mask has"),
             ([SAME_HALF], "which are those of the second"),
             ([OF_ONE, TO_ONE], "how many bytes are that"),
             ([("PAIR * ROWS, SUMS), k0", "ROWS, SUMS), k0")], "the finding says"),
             (kernels("25.7")[0], "how many bytes are that")],
}  # fmt: skip
"""What is wrong, and words of the hint; from chapter 17 on, to the first check that fails."""

FAILED: Mapping[str, Sequence[tuple[Kernel, str]]] = {
    "01.4": [(REVERSE.format(body), "Let no thread do the work of others") for body in (
                 f"{NUMBER} if (i == 0) for (int j = 0; j < n; ++j) y[j] = x[n - 1 - j];",
                 "if (threadIdx.x == 0) { int s = blockIdx.x * 256;"
                 " for (int j = s; j < min(s + 256, n); ++j) y[j] = x[n - 1 - j]; }")],
    "04.2": [(FLAT.format(body), "Let no thread do the work of others") for body in (
                 "if (t == 0) for (int e = 0; e < M * N; ++e)"
                 f" {{ int r = e / N, c = e % N; {ELEMENT} }}",
                 f"if (t < M) for (int c = 0; c < N; ++c) {{ int r = t; {ELEMENT} }}",
                 f"if (t < N) for (int r = 0; r < M; ++r) {{ int c = t; {ELEMENT} }}")],
    "05.2": [(FIXED_BY_ONE_THREAD, "ask together")],
    "06.2": [([("A_tile[ty][k] * B_tile[k][tx];", f"{global_a('row')} * {global_b('col')};")],
              "read the operands of the product from there")],
    "07.3": [(TRANSPOSED_BY_ONE_THREAD, "ask together")],
    "08.2": [([("A_tile[ty + i * T][k] * b;", f"{global_a('row0 + i * T')} * {global_b('col')};")],
              "come from A_tile and B_tile")],
    "09.2": [([("a[i] * b[j];", f"{global_a('m0 + ty + i * T')} * {PATCH_B};")],
              "come from A_tile and B_tile"),
             ([("a[i] * b[j];", f"a[i] * {PATCH_B};")], "global loads for each multiply-add"),
             # the compiler merges plain reads of one value; `volatile` keeps all eight
             ([("__shared__ float A_tile", "__shared__ volatile float A_tile"),
               ("__shared__ float B_tile", "__shared__ volatile float B_tile"),
               ("a[i] * b[j];", "A_tile[ty + i * T][k] * B_tile[k][tx + j * T];")],
              "use each of them twice")],
    "10.3": [(COPY_BY_ONE_THREAD, "1024 floats take 8 requests to load and 8 to store")],
    "11.3": [([("A_tile[buffer][ty][k] * B_tile[buffer][k][tx]",
                f"{global_a('row')} * {global_b('col')}")], "from shared memory")],
    "17.3": [([SCALAR, ("k < K; k += 16", "k < 16; k += 16")], "the Tensor Cores do the work"),
             ([SCALAR], "the Tensor Cores do the work"),
             ([(LOAD_A, ""), ("wmma::mma_sync(c[j]", f"{LOAD_A} wmma::mma_sync(c[j]")],
              "load it once a step")],
    "18.3": [([(LDMATRIX, f"{LDMATRIX}\n        {FOR_SHOW}")], "ldmatrix does the reading")],
}  # fmt: skip
"""What computes the right numbers in another way than is asked, and words of what fails alone."""


def cases(table):
    return [(exercise, at) for exercise, all_ in table.items() for at in range(len(all_))]


@pytest.mark.parametrize(("exercise", "at"), cases(RIGHT))
def test_another_right_kernel_passes(exercise, at):
    verdict = result(exercise, RIGHT[exercise][at])
    assert verdict.passed, verdict


@pytest.mark.parametrize(("exercise", "at"), cases(WRONG))
def test_each_fault_gets_a_hint_that_is_true_of_it(exercise, at):
    kernel, words = WRONG[exercise][at]
    verdict = result(exercise, kernel)
    failed = [c for c in verdict.checks if not c.ok]
    assert failed and words.casefold() in repr(verdict).casefold(), verdict
    assert exercise < "17" or words.casefold() in str(failed[0]).casefold(), verdict


@pytest.mark.parametrize(("exercise", "at"), cases(FAILED))
def test_right_numbers_by_other_means_are_refused(exercise, at):
    kernel, words = FAILED[exercise][at]
    verdict = result(exercise, kernel)
    failed = " ".join(str(c) for c in verdict.checks if not c.ok)
    assert words.casefold() in failed.casefold(), verdict
    assert all(c.ok for c in verdict.checks if re.search(r"\bright\b", c.what)), verdict


FAULTS_07_3 = [
    # the blocks stay in their places; the bounds of x for the store to y; the tile is not turned;
    # the padding is missing
    (PLACES, "int yr = blockIdx.y * 32 + threadIdx.y, yc = blockIdx.x * 32 + threadIdx.x;",
     "Swap blockIdx.x and blockIdx.y"),
    (STORE, STORE.replace("yr < cols && yc < rows", "yr < rows && yc < cols"), "bounds of y"),
    (STORE, "if (r < rows && c < cols) y[yr * rows + yc]", "bounds of y"),
    ("tile[threadIdx.x][threadIdx.y];", "tile[threadIdx.y][threadIdx.x];", "belongs in row c"),
    ("tile[32][33]", "tile[32][32]", "give its rows a word more"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "hint"), FAULTS_07_3)
def test_07_3_gives_each_fault_its_own_hint(old, new, hint):
    text = repr(result("07.3", [(old, new)]))
    others = {"Swap blockIdx.x", "bounds of y", "belongs in row c", "a word more"}
    assert hint in text and not any(o in text for o in others if o not in hint)


@pytest.mark.parametrize(
    "half",
    ["for (int i = 0; i < 2; ++i) sum[i][i] += a[i] * b[i];",
     "sum[0][0] += a[0] * b[0]; sum[0][1] += a[0] * b[1];"],
)  # fmt: skip
def test_half_an_outer_product_is_told_what_it_leaves_out(half):
    text = str(result("09.2", [(PRODUCTS, half)]))
    assert "2 of 4 right" in text and "each value of A goes with each value of B" in text
    # where all four are wrong, that is not what is missing
    none = result("09.2", [("a[i] * b[j];", "a[i] - b[j];")])
    assert "four sums" not in " ".join(str(c) for c in none.checks if not c.ok).casefold()


@pytest.mark.parametrize(
    ("place", "barrier"),
    [("        for (int k = 0;", ""), ("        A_tile[buffer]", "__syncthreads();")],
)
def test_a_race_within_a_warp_asks_for_no_barrier_that_the_exercise_forbids(place, barrier):
    """B is stored before the barrier and A after it, or both without one."""
    [b_store] = re.findall(r" {8}B_tile\[buffer\]\[ty\]\[tx\] =[^;]*;\n", kernels("11.3")[-1])
    later = (place, f"{b_store}        {barrier}\n{place}")
    verdict = result("11.3", [("        __syncthreads();\n", ""), (b_store, ""), later])
    assert not verdict.passed
    assert "race" in str(verdict) and "Put __syncthreads()" in str(verdict)
    assert "syncwarp" not in str(verdict)


def test_what_is_to_be_mended_has_these_faults_and_no_others():
    assert kernels("20.2")[0] == twin("20.2", [FEW, ASKED, GIVEN, FIXED, SHALLOW])
    assert kernels("21.2")[0] == twin("21.2", [SHOWN, AWAITED, LOWER])
    assert kernels("25.6")[0] == twin("25.6", [ADDS, ISSUED, UNAWAITED])
    assert kernels("25.7")[0] == twin("25.7", [OF_ONE, TO_ONE, SAME_HALF])
    failed = [c.hint for c in result("21.2", [AWAITED, LOWER]).checks if not c.ok]
    assert len(failed) == 2 and "32 rows were never written" in failed[1]
