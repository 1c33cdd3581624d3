"""A launch of one thread, whose registers are numbers: the same bits, counts and words as arrays.
What differs is a fault of `ptx.scalars` or `machine.ports`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from nogpu import emulator
from nogpu.emulator.launching import run
from nogpu.emulator.launching.report import Report
from nogpu.emulator.machine import ports

Array = np.ndarray[Any, np.dtype[Any]]

KERNELS, STATEMENTS, ROUNDS = 10, 40, 24
TYPES = {
    "int": "i4", "unsigned": "u4", "long long": "i8", "unsigned long long": "u8", "short": "i2",
    "unsigned short": "u2", "signed char": "i1", "unsigned char": "u1", "float": "f4",
    "double": "f8",
}  # fmt: skip
WHOLE = [t for t in TYPES if TYPES[t][0] != "f"]


class Writer:
    """Draws statements over two variables of each type."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)

    def name(self, kind: str) -> str:
        return f"{TYPES[kind]}_{self.rng.randrange(2)}"

    def statement(self) -> str:
        rng = self.rng
        kind = rng.choice(list(TYPES))
        d, a, b, c = (self.name(kind) for _ in range(4))
        other = self.name(rng.choice(list(TYPES)))
        n = rng.choice((0, 1, 3, 8, 17, 31))
        if kind in WHOLE:
            # What C++ leaves open at overflow the type without a sign defines.
            free = kind if "unsigned" in kind else f"unsigned {kind.removeprefix('signed ')}"
            wide = "unsigned long long" if TYPES[kind][1] == "8" else "unsigned"
            forms = [
                f"{d} = ({wide}){a} {rng.choice('+-*')} ({wide}){b};",
                f"{d} = ({wide}){a} * ({wide}){b} + ({wide}){c};",
                f"{d} = {a} {rng.choice('&|^')} {b};",
                f"{d} = {a} / {b}; {c} = {b} % {a};",
                f"{d} = {a} / {rng.choice((3, 7, 10))}; {c} = {b} % {rng.choice((3, 8, 10))};",
                f"{d} = ({free}){a} << {n % (8 * int(TYPES[kind][1]))};",
                f"{d} = {a} >> {n % (8 * int(TYPES[kind][1]))};",
                f"{d} = ({wide}){a} << ({b} & 31); {c} = {a} >> ({b} & 7);",
                f"{d} = ~{a}; {c} = -({wide}){b};",
                f"{d} = {a} < {b} ? {a} : {b}; {c} = {c} > {a} ? {c} : {a};",
                f"if ({a} {rng.choice(('<', '<=', '==', '!=', '>', '>='))} {b}) {d} = {c};",
                f"if ({a} < {b} && {b} != {c} || {d} > {a}) {d} = {other};",
                f"{d} = {other} > -100 && {other} < 100 ? ({kind}){other} : ({kind})3;",
            ]
            if kind in ("int", "unsigned"):
                unsigned = "u" if kind == "unsigned" else ""
                forms += [
                    f"{d} = __{unsigned}mulhi({a}, {b});",
                    f"{d} = __popc({a}) + __clz({b}); {c} = __brev({c});",
                    "i8_0 += (long long)i4_0 * i4_1; u8_0 += (unsigned long long)u4_0 * u4_1;",
                    f"f4_0 = __int_as_float({a}); {d} = __float_as_int(f4_1);",
                    f"{d} = atomicAdd(&{'uints' if unsigned else 'ints'}[i], {a});",
                    f"few[{a} & 7] = {b}; {d} = few[({c} + 1) & 7];",
                    f"tile[{a} & 15] = {b}; {d} = tile[{a} & 15];",
                ]
            if kind not in ("int", "unsigned"):
                forms.append(f"{d} = {other} > -100 && {other} < 100 ? ({kind}){other} : {a};")
        else:
            forms = [
                f"{d} = {a} {rng.choice('+-*')} {b};",
                f"{d} = {a} / {b};",
                f"{d} = fma({a}, {b}, {c});",
                f"{d} = fma({a}, {b}, {c}); {d} = fma({d}, {b}, {a});",
                f"{d} = -{a}; {c} = fabs({b});",
                f"{d} = fmin({a}, {b}); {c} = fmax({b}, {c});",
                f"{d} = ({kind}){other};",
                f"if ({a} {rng.choice(('<', '<=', '==', '!=', '>', '>='))} {b}) {d} = {c};",
                f"if (!({a} < {b}) || {a} != {a}) {d} = {c} * 0.5f;",
                f"{d} = sqrt(fabs({a})); {c} = {b} * {b} + {a};",
                f"if ({a} == {a}) i4_0 = (int){a}; u8_1 = (unsigned long long)fabs({b});",
            ]
        return rng.choice(forms)


def kernel(seed: int) -> str:
    """A kernel over an array of each type, in which loops and conditions end blocks."""
    w = Writer(seed)
    params = ", ".join(f"{kind}* {TYPES[kind]}s" for kind in TYPES)
    loads = " ".join(
        f"{kind} {TYPES[kind]}_0 = {TYPES[kind]}s[i], {TYPES[kind]}_1 = {TYPES[kind]}s[i + 1];"
        for kind in TYPES
    )
    stores = " ".join(f"{t}s[i] = {t}_0; {t}s[i + n] = {t}_1;" for t in TYPES.values())
    body = "\n        ".join(w.statement() for _ in range(STATEMENTS))
    return f"""
extern "C" __global__ void k({params}, int* ints, unsigned* uints, int n) {{
    __shared__ int tile[16];
    int few[8];
    for (int i = 0; i < 8; ++i) {{ few[i] = i * n; tile[i] = tile[i + 8] = few[i]; }}
    for (int i = 0; i < n; ++i) {{
        {loads}
        {body}
        {stores}
        i4_0 ^= few[i4_1 & 7] + tile[u4_1 & 15];
        if (i % 5 == 1) __syncthreads();
    }}
}}"""


def operands(seed: int) -> list[Any]:
    """Arrays of each type: small numbers, ends of the range, NaN of both kinds, subnormals."""
    rng = np.random.default_rng(seed)
    out: list[Any] = []
    for kind in map(np.dtype, TYPES.values()):
        size = 2 * ROUNDS + 1
        if kind.kind == "f":
            whole = np.dtype(f"u{kind.itemsize}")
            some = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 3e38, 16777217], kind)
            quiet = rng.integers(0, 1 << 63, size, "u8").astype(whole).view(kind)
            values = np.where(rng.random(size) < 0.4, rng.choice(some, size), quiet)
            values = np.where(
                rng.random(size) < 0.5, rng.standard_normal(size).astype(kind), values
            )
            if kind == "f4":
                values.view("u4")[:3] = 0x7F800001, 0xFFA00000, 0x7FC00123
        else:
            ends = np.iinfo(kind)
            some = np.array([0, 1, 2, ends.max, ends.min, ends.max - 1], kind)
            drawn = rng.integers(ends.min, ends.max, size, kind, endpoint=True)
            values = np.where(rng.random(size) < 0.5, rng.choice(some, size), drawn)
        out.append(values.astype(kind))
    return [*out, np.zeros(ROUNDS, "i4"), np.zeros(ROUNDS, "u4"), ROUNDS]


Launch = Callable[..., Report]


@pytest.fixture
def usual(monkeypatch: pytest.MonkeyPatch) -> Launch:
    """`launch` by the code that is made for many threads."""
    whole = run._as_it_compiles

    def launch(*args: Any, **options: Any) -> Report:
        with monkeypatch.context() as m:
            m.setattr(run, "_as_it_compiles", lambda *a, alone=False: whole(*a))
            return emulator.launch(*args, **options)

    return launch


def same(launch: Launch, source: str, args: list[Any], **options: Any) -> bool:
    """Whether a kernel does the same by both ways: arrays to the bit, and the whole report."""
    copies = [[a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2)]
    quick = emulator.launch(source, "k", 1, 1, copies[0], **options)
    slow = launch(source, "k", 1, 1, copies[1], **options)
    pairs = [(a, b) for a, b in zip(*copies, strict=True) if isinstance(a, np.ndarray)]
    bits = all(a.tobytes() == b.tobytes() for a, b in pairs)
    assert repr(quick.samples) == repr(slow.samples)
    return bits and replace(quick, samples=None) == replace(slow, samples=None)


def program(source: str) -> Any:
    """What the launch of one thread runs."""
    compilation, _ = run._as_it_compiles(source, "k", "sm_75", {}, "kernel.cu", alone=True)
    return run._program(compilation)[0]


@pytest.mark.parametrize("seed", range(KERNELS))
def test_random_kernels_do_the_same(seed: int, usual: Launch) -> None:
    source = kernel(seed)
    assert program(source).scalar
    assert same(usual, source, operands(seed))


def floored(a: int, b: int) -> int:
    return a // b if b else -1


def without_repair(a: float, b: float, c: float) -> float:
    return float(np.float32(a * b + c))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("quotient", floored),
        ("remainder", lambda a, b: a % b if b else a),
        ("divided", lambda a, b: a * (1 / b) if b else 0.0),
        ("unbox_i4", lambda array: abs(array.item())),
        ("box_i4", lambda value: np.full((1, 1, 1, 1), value & 0x7FFFFFFF, "i4")),
    ],
)
def test_a_wrong_operation_is_noticed(
    name: str, wrong: Any, usual: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ports.FUNCTIONS, name, wrong)
    twins = [f"{kernel(seed)} // {name}" for seed in range(KERNELS)]  # linked anew
    assert not all(same(usual, source, operands(i)) for i, source in enumerate(twins))


def test_a_nan_that_loses_its_bits_is_noticed(
    usual: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "_nan_of", lambda array: float(array.item()))
    assert not all(same(usual, kernel(seed), operands(seed)) for seed in range(3))


HALFWAY = """extern "C" __global__ void k(const float* x, float* y) {
    y[0] = fmaf(x[0], x[1], x[2]); y[1] = fmaf(x[0], x[1], -x[2]);
}"""


@pytest.mark.parametrize("right", [True, False])
def test_a_sum_that_float64_rounds_to_halfway_is_rounded_once(
    right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not right:
        monkeypatch.setitem(ports.FUNCTIONS, "fused", without_repair)
    x = np.array([1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60], "f4")
    y = np.zeros(2, "f4")
    emulator.launch(f"{HALFWAY} // {right}", "k", 1, 1, [x, y])
    above, below = 1 + 2.0**-11 + 2.0**-23, 1 + 2.0**-11
    assert (y.tolist() == [above, below]) is right


FAULTS = """extern "C" __global__ void k(float* x, double* y, int n) {
    __shared__ float s[4];
    for (int i = 0; i < n; ++i) x[i] = s[i & 3] + y[i & 7];
    for (int i = 0; i < n; ++i) { s[i & 3] = x[i * 3]; *(double*)((char*)y + 4) = 1; }
    float4 v = ((float4*)x)[n - 18]; x[1] = v.x + v.w;
    while (x[0] == x[0]) x[2] += 1;
}"""


@pytest.mark.parametrize("options", [{}, {"samples": True}, {"engines": True}, {"analyse": False}])
def test_faults_and_counts_are_told_alike(options: dict[str, Any], usual: Launch) -> None:
    args = [np.ones(20, "f4"), np.ones(8), 20]
    options = {**options, "max_steps": 20_000, "uninitialised": ["y"]}
    assert emulator.launch(FAULTS, "k", 1, 1, args, **options).findings
    assert same(usual, FAULTS, [np.ones(20, "f4"), np.ones(8), 20], **options)


def test_accesses_that_nobody_tells_are_noticed(
    usual: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports.Port, "settle", lambda self: None)
    assert not same(usual, kernel(0), operands(0))


def test_what_waits_or_calls_is_left_to_arrays() -> None:
    waits = """extern "C" __global__ void k(volatile int* x) { while (x[0] == 0) x[1] += 1; }"""
    calls = """__noinline__ __device__ int f(int* x) { return x[0] * x[1] + *x; }
extern "C" __global__ void k(int* x) { x[2] = f(x); }"""
    assert program(kernel(0)).scalar
    assert not program(waits).scalar
    assert not program(calls).scalar
