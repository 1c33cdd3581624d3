"""Random programs of a warp: one kernel in the emulator, loops over 32 threads for g++."""

from __future__ import annotations

import shutil
import subprocess
from random import Random

import numpy as np
import pytest

from nogpu import emulator, toolchain

PROGRAMS, STATEMENTS = 24, 12
N, SIZE = 32, 8  # threads, elements of each array
TYPES = ("unsigned", "unsigned", "unsigned short", "unsigned char", "unsigned long long")

HEAD = """
typedef unsigned u32;
struct State { u32 x, y; %s };
"""


class Writer:
    """Draws statements; `s` is the thread's state, `t` its number, `n` and `in` are arguments."""

    def __init__(self, seed):
        self.rng = Random(seed)
        self.arrays = {name: self.rng.choice(TYPES) for name in ("a", "b")}
        # Arrays that lie in memory at addresses equal for all threads are the rule: loops make
        # them.
        self.even = seed % 3 != 0

    def index(self):
        """An index that the compiler does not know; of an even program, one for all threads."""
        parts = ["n", f"n * {self.rng.randint(1, 5)}", str(self.rng.randrange(SIZE))]
        if not self.even:
            parts += ["t", "s.x", "(s.y >> 3)"]
        return f"(({self.rng.choice(parts)} + {self.rng.randrange(SIZE)}) % {SIZE})"

    def array(self):
        return "s." + self.rng.choice(list(self.arrays))

    def condition(self):
        by_thread = f"(t % {self.rng.randint(2, 5)} == 1)"
        return self.rng.choice(("(s.x & 1)", "(s.y > s.x)", by_thread, "(n > 3)", "(t < 7)"))

    def value(self):
        one = self.rng.choice(("s.x", "s.y", "(u32)t", "n", f"(u32){self.array()}[{self.index()}]"))
        return f"({one} * {self.rng.randint(1, 9)}u + {self.rng.randrange(99)}u)"

    def statement(self, depth=0):
        a, b, i, j = self.array(), self.array(), self.index(), self.index()
        loop = "_Pragma(UNROLL) for (u32 i = 0; i < n % 5 + 3; ++i)"
        kinds = [
            f"{{ auto w = {a}[{i}]; {a}[{i}] = {a}[{j}]; {a}[{j}] = w; }}",
            f"{loop} {{ auto w = {a}[i % {SIZE}]; {a}[i % {SIZE}] = {a}[{i}]; {a}[{i}] = w; }}",
            f"{loop} {a}[(i + 1) % {SIZE}] += {a}[i % {SIZE}];",
            (
                f"for (u32 i = 1; i < {SIZE}; ++i) _Pragma(UNROLL) for (u32 k = i; k && {a}[k - 1]"
                f" > {a}[k]; --k) {{ auto w = {a}[k]; {a}[k] = {a}[k - 1]; {a}[k - 1] = w; }}"
            ),
            f"{loop} {{ s.x += {a}[{i}]; {a}[{i}] = {a}[(i + n) % {SIZE}]; s.y ^= {a}[{i}]; }}",
            (
                f"{{ auto w = {a}[0]; _Pragma(UNROLL) for (u32 i = 0; i + 1 < {SIZE}; ++i) {a}[i] ="
                f" {a}[i + 1]; {a}[{SIZE - 1}] = w; }}"
            ),
            f"{a}[{i}] = {self.value()};",
            f"s.x = {self.value()} + {b}[{j}]; {b}[{j}] = s.y;",
            f"if {self.condition()} s.y += in[s.x % 64];",
            f"s.x ^= {self.condition()} ? in[{self.value()} % 64] : {self.value()};",
            f"{{ auto w = {a}[{i}]; {b}[{j}] = {a}[{i}] + 1; s.y += (u32)w * 3u; }}",
        ]
        if depth < 2:
            inner = self.statement(depth + 1)
            kinds += [
                f"if {self.condition()} {{ {inner} }} else {{ {self.statement(depth + 1)} }}",
                f"_Pragma(UNROLL) for (u32 o = 0; o < n % 3 + 1; ++o) {{ {inner} s.x += o; }}",
            ]
        return self.rng.choice(kinds)

    def shuffle(self):
        """(which lane t reads, its value for the kernel): both of `s.y` of all lanes."""
        by = self.rng.choice((1, 2, 4, 8, 16))
        return self.rng.choice(
            (
                (f"(t ^ {by})", f"__shfl_xor_sync(~0u, s.y, {by})"),
                (f"(t + {by} < 32 ? t + {by} : t)", f"__shfl_down_sync(~0u, s.y, {by})"),
                (f"(t >= {by} ? t - {by} : t)", f"__shfl_up_sync(~0u, s.y, {by})"),
                (f"((t * 5 + {by}) % 32)", f"__shfl_sync(~0u, s.y, (t * 5 + {by}) % 32)"),
                (f"(t / 8 * 8 + {by} % 8)", f"__shfl_sync(~0u, s.y, {by} % 8, 8)"),
            )
        )


def program(seed):
    """(CUDA source of kernel p<seed>, C++ source of function p<seed>)."""
    w = Writer(seed)
    fields = " ".join(f"{kind} {name}[{SIZE}];" for name, kind in w.arrays.items())
    body, host = [], []
    for _ in range(STATEMENTS):
        if w.rng.random() < 0.2:
            lane, call = w.shuffle()
            body.append(f"s.x += {call};")
            host.append("for (int t = 0; t < 32; ++t) old[t] = all[t].y;")
            host.append(f"for (int t = 0; t < 32; ++t) all[t].x += old[{lane}];")
        else:
            text = w.statement()
            body.append(text)
            host.append(f"for (int t = 0; t < 32; ++t) {{ State& s = all[t]; {text} }}")
    begin = (
        f"s.x = in[t]; s.y = in[t + 32]; for (int i = 0; i < {SIZE}; ++i) "
        "{ s.a[i] = in[(t + i * 7) % 64]; s.b[i] = in[(t * 3 + i) % 64] >> 5; }"
    )
    end = (
        f"u32* o = out + t * {2 * SIZE + 2}; o[0] = s.x; o[1] = s.y; for (int i = 0; i < {SIZE};"
        " ++i) { o[2 + i] = (u32)s.a[i]; o[2 + " + str(SIZE) + " + i] = (u32)s.b[i]; }"
    )
    head = f"namespace n{seed} {{ {HEAD % fields} }}\n"
    kernel = (
        f'{head}extern "C" __global__ void p{seed}(const unsigned* in, unsigned* out, unsigned n)\n'
        f"{{ using namespace n{seed}; const int t = threadIdx.x; State s; {begin}\n"
        + "\n".join(body)
        + f"\n{end} }}\n"
    )
    function = (
        f"{head}void p{seed}(const unsigned* in, unsigned* out, unsigned n)\n"
        f"{{ using namespace n{seed}; State all[32]; u32 old[32]; (void)old;\n"
        f"for (int t = 0; t < 32; ++t) {{ State& s = all[t]; {begin} }}\n"
        + "\n".join(host)
        + f"\nfor (int t = 0; t < 32; ++t) {{ State& s = all[t]; {end} }} }}\n"
    )
    return kernel, function


SOURCES = [program(seed) for seed in range(PROGRAMS)]
PER_THREAD = 2 * SIZE + 2
PARAMETER = 4
INPUT = np.random.default_rng(5).integers(0, 1 << 32, 64, dtype=np.uint32)
CUDA = '#define UNROLL "unroll 1"\n' + "".join(kernel for kernel, _ in SOURCES)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What g++ makes of all programs, uint32 (program, thread, element); skipped without it."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ here, and it is what the emulator is compared with: this did not run")
    numbers = ", ".join(f"{v}u" for v in INPUT)
    names = ", ".join(f"p{seed}" for seed in range(PROGRAMS))
    main = f"""
#include <cstdio>
int main() {{
    static const unsigned in[64] = {{{numbers}}};
    static unsigned out[32 * {PER_THREAD}];
    void (*const all[])(const unsigned*, unsigned*, unsigned) = {{{names}}};
    for (auto p : all) {{ p(in, out, {PARAMETER}); fwrite(out, sizeof out, 1, stdout); }}
}}
"""
    text = '#define UNROLL "GCC unroll 1"\n' + "".join(f for _, f in SOURCES) + main
    folder = tmp_path_factory.mktemp("programs")
    (folder / "programs.cpp").write_text(text)
    command = ["g++", "-O1", "-std=c++17", "-w", "-o", "programs", "programs.cpp"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    raw = subprocess.run([folder / "programs"], check=True, capture_output=True).stdout
    return np.frombuffer(raw, np.uint32).reshape(PROGRAMS, N, PER_THREAD)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_random_program_does_in_the_emulator_what_it_does_on_a_cpu(seed, expected):
    out = np.zeros((N, PER_THREAD), np.uint32)
    report = emulator.launch(CUDA, f"p{seed}", 1, N, [INPUT, out, PARAMETER])
    assert report.ok, report
    np.testing.assert_array_equal(out, expected[seed])


def test_the_programs_are_what_they_are_meant_to_be():
    """Most of them hold arrays in memory, and all of them change what they began with."""
    ptx = toolchain.ptx(CUDA)
    assert ptx.count(".local .align") >= PROGRAMS // 2
    assert ptx.count("shfl.sync") >= PROGRAMS
    assert ptx.count("ld.local") > 100 and ptx.count("st.local") > 100
