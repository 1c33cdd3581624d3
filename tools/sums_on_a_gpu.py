"""How Tensor Cores add, asked of a GPU: data/validation/sums_<gpu>.json.

    python -m tools.sums_on_a_gpu --out data/validation/sums_h200.json

Executes one matrix instruction of each kind on operands that NumPy draws, and writes the bits of
its results. The same launch in the emulator must give the same bits (tests/test_sums.py).
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helpers.ladder import launch
from helpers.record import stamps
from nogpu import bfloat16, emulator, toolchain
from nogpu.disk import replace_file
from nogpu.emulator.machine.tensor import a_layout, c_layout
from nogpu.errors import TileError
from tools.recorder import campaign

FILE = Path(__file__).parent.parent / "data" / "validation" / "sums_h200.json"
CASES = 8
"""Launches of each instruction, as blocks of one grid: see `drawn`."""
ARCH = "sm_90a"
Array = np.ndarray[Any, np.dtype[Any]]

STORED = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1}
"""Bytes of an element."""
TINY = {"f16": -14, "bf16": -30, "tf32": -30, "e4m3": -6, "e5m2": -14}
"""The exponent down to which operands are drawn; of f16 and the 8-bit ones, the least of a normal
number."""


@dataclass(frozen=True)
class Instruction:
    """mma.sync (rows 16) or wgmma.mma_async (rows 64), n = 8. kinds: of D and of A and B."""

    rows: int
    k: int
    kinds: tuple[str, str]

    @property
    def name(self) -> str:
        """A word for it, such as "mma k16 f32 f16"."""
        what = "mma" if self.rows == 16 else "wgmma"
        return f"{what} k{self.k} {' '.join(self.kinds)}"

    @property
    def sums(self) -> int:
        """Registers of D a lane."""
        return 2 if self.kinds[0] == "f16" else 4

    @property
    def factors(self) -> tuple[int, int]:
        """Registers of A and, for mma.sync, of B a lane."""
        a = 16 * self.k * STORED[self.kinds[1]] // 128
        return a, a // 2


INSTRUCTIONS = (
    *(Instruction(16, 16, (d, t)) for d, t in (("f32", "f16"), ("f32", "bf16"), ("f16", "f16"))),
    *(Instruction(16, 8, ("f32", t)) for t in ("f16", "bf16", "tf32")),
    Instruction(16, 4, ("f32", "tf32")),
    *(Instruction(16, 32, ("f32", t)) for t in ("e4m3", "e5m2")),
    *(Instruction(64, 16, (d, t)) for d, t in (("f32", "f16"), ("f32", "bf16"), ("f16", "f16"))),
    Instruction(64, 8, ("f32", "tf32")),
    *(Instruction(64, 32, (d, t)) for d in ("f32", "f16") for t in ("e4m3", "e5m2")),
)


def source(i: Instruction) -> str:
    """A kernel of one instruction: registers from A, B and C (block after block, lane after lane),
    and D back.

    Of wgmma A is in registers and B in shared memory, K-major and not swizzled.
    """
    a, b = i.factors
    kind, letter = ("unsigned", "r") if i.kinds[0] == "f16" else ("float", "f")
    d_regs = ", ".join(f"%{j}" for j in range(i.sums))
    a_regs = ", ".join(f"%{i.sums + j}" for j in range(a))
    out = ", ".join(f'"+{letter}"(d[{j}])' for j in range(i.sums))
    a_in = ", ".join(f'"r"(a[{j}])' for j in range(a))
    types = f"{i.kinds[1]}.{i.kinds[1]}"
    if i.rows == 16:
        b_regs = ", ".join(f"%{i.sums + a + j}" for j in range(b))
        b_in = ", ".join(f'"r"(b[{j}])' for j in range(b))
        text = f"""
    unsigned b[{b}];
    for (int j = 0; j < {b}; ++j) b[j] = B[thread * {b} + j];
    asm volatile("mma.sync.aligned.m16n8k{i.k}.row.col.{i.kinds[0]}.{types}.{i.kinds[0]} "
        "{{{d_regs}}}, {{{a_regs}}}, {{{b_regs}}}, {{{d_regs}}};" : {out} : {a_in}, {b_in});"""
    else:
        tail = ", 1, 1, 0" if STORED[i.kinds[1]] == 2 else ", 1, 1"
        text = f"""
    __shared__ __align__(128) unsigned tile[64];
    if (threadIdx.x < 64) tile[threadIdx.x] = B[blockIdx.x * 64 + threadIdx.x];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const unsigned long long at = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    const unsigned long long b = (at & 0x3FFFF) >> 4 | 8ull << 16 | 8ull << 32;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k{i.k}.{i.kinds[0]}.{types} "
        "{{{d_regs}}}, {{{a_regs}}}, %{i.sums + a}, 1{tail};" : {out} : {a_in}, "l"(b));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" : {out} :: "memory");"""
    return f"""
extern "C" __global__ void adds(const unsigned* A, const unsigned* B, const {kind}* C, {kind}* D)
{{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned a[{a}];
    for (int j = 0; j < {a}; ++j) a[j] = A[thread * {a} + j];
    {kind} d[{i.sums}];
    for (int j = 0; j < {i.sums}; ++j) d[j] = C[thread * {i.sums} + j];{text}
    for (int j = 0; j < {i.sums}; ++j) D[thread * {i.sums} + j] = d[j];
}}
"""


# -- operands --------------------------------------------------------------------------------------


def bits_of(x: Array, kind: str) -> Array:
    """Elements of a PTX type, as unsigned integers: x rounded, saturated where it is too large."""
    if kind == "f16":
        return x.astype(np.float16).view(np.uint16)
    if kind == "bf16":
        return bfloat16.to_bfloat16(x.astype(np.float32))
    if kind == "tf32":
        return np.asarray(x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000))
    values = eight(kind)
    known = np.flatnonzero(np.isfinite(values))
    known = known[np.argsort(values[known], kind="stable")]
    at = np.clip(np.searchsorted(values[known], x), 0, len(known) - 1)
    return known[at].astype(np.uint8)


def eight(kind: str) -> Array:
    """The values of all 8-bit floats of a type, float64; NaN for those that are none."""
    from nogpu.emulator.machine.arith import fp8_value

    return np.asarray(fp8_value(np.arange(256, dtype=np.uint8), kind), np.float64)


def drawn(i: Instruction) -> tuple[Array, Array, Array]:
    """A (cases, rows, k), B (cases, k, 8) and C (cases, rows, 8), float64 before they are rounded.

    By cases: normal numbers, C zero; the same with C; exponents apart by 8; by as much as the type
    has; C far above the products, and far below; products that cancel but for the last bits; one
    product a sum.
    """
    rng = np.random.default_rng(sum(map(ord, i.name)))
    A = rng.standard_normal((CASES, i.rows, i.k))
    B = rng.standard_normal((CASES, i.k, 8))
    C = rng.standard_normal((CASES, i.rows, 8))
    C[0] = 0

    def spread(x: Array, low: int, high: int) -> Array:
        return np.asarray(np.sign(x) * 2.0 ** rng.uniform(low, high, x.shape))

    A[2], B[2], C[2] = (spread(x[2], -4, 4) for x in (A, B, C))
    A[3], B[3] = (spread(x[3], TINY[i.kinds[1]], 4) for x in (A, B))
    C[4] *= 2.0**9
    C[5] *= 2.0**-9
    half = i.k // 2
    A[6, :, half:], B[6, half:] = -A[6, :, :half], B[6, :half]
    A[6, :, 0] *= 1 + 2.0**-3
    A[7] = np.where(np.arange(i.k) == 1, A[7], 0)
    return A, B, C


def packed(i: Instruction) -> tuple[Array, Array, Array]:
    """What the kernel is given: registers of A, of B (mma.sync) or its tile (wgmma), of C."""
    A, B, C = drawn(i)
    kind, size = i.kinds[1], STORED[i.kinds[1]]
    a_bits, b_bits = bits_of(A, kind), bits_of(B, kind)
    warps = a_bits.reshape(CASES, i.rows // 16, 16, i.k)
    rows, cols = a_layout(16, i.k, kind)
    a_regs = np.ascontiguousarray(warps[:, :, rows, cols].transpose(0, 1, 3, 2)).view(np.uint32)
    if i.rows == 16:
        per = 4 // size
        ks = np.arange(i.k).reshape(
            -1, 4, per
        )  # a register holds `per` of k; lane % 4 chooses which
        lanes = np.arange(32)
        b_lane = b_bits[:, ks[:, lanes % 4, :], (lanes // 4)[None, :, None]]
        b_regs = np.ascontiguousarray(b_lane.transpose(0, 2, 1, 3)).view(np.uint32)
    else:
        raw = (
            np.ascontiguousarray(b_bits.transpose(0, 2, 1)).view(np.uint8).reshape(CASES, 8, 2, 16)
        )
        b_regs = np.ascontiguousarray(raw.transpose(0, 2, 1, 3)).view(np.uint32)
    rows, cols = c_layout(16, 8)
    out = np.float16 if i.kinds[0] == "f16" else np.float32
    c = C.astype(out).reshape(CASES, i.rows // 16, 16, 8)[:, :, rows, cols].transpose(0, 1, 3, 2)
    return (
        a_regs.reshape(-1),
        b_regs.reshape(-1),
        np.ascontiguousarray(c).view(np.uint32).reshape(-1),
    )


Run = Callable[[str, int, Sequence[Array], Array], None]
"""Launches `adds` of a source with blocks of so many threads on A, B, C and D."""


def in_the_emulator(text: str, block: int, given: Sequence[Array], out: Array) -> None:
    """On the emulator; what it finds is an error."""
    report = emulator.launch(text, "adds", CASES, block, [*given, out], arch=ARCH)
    assert not report.findings, report


def on_a_gpu(text: str, block: int, given: Sequence[Array], out: Array) -> None:
    """On the GPU at hand."""
    import cupy

    cubin = toolchain.compile(text, name="adds.cu", arch=ARCH).cubin
    arrays = [cupy.asarray(x) for x in (*given, out)]
    launch.cuda_entry(cubin, "adds")((CASES,), (block,), tuple(arrays))
    out[...] = arrays[-1].get()


def results(i: Instruction, run: Run) -> Array:
    """The bits of D in the order of its registers: uint32, (cases, threads * registers)."""
    a, b, c = packed(i)
    out = np.full(c.size, 0xFFFFFFFF, np.uint32)
    kind = np.uint32 if i.kinds[0] == "f16" else np.float32
    result = out.view(kind)
    run(source(i), 32 * i.rows // 16, (a, b, c.view(kind)), result)
    return np.asarray(result.view(np.uint32).reshape(CASES, -1))


def read(path: Path = FILE) -> dict[str, Array]:
    """The recorded bits of every instruction, as `results` gives them."""
    recorded = json.loads(path.read_text(encoding="utf-8"))["results"]
    return {
        name: np.frombuffer(base64.b64decode(text), "<u4").reshape(CASES, -1)
        for name, text in recorded.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.sums_on_a_gpu", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the record (JSON)")
    options = parser.parse_args(arguments)
    try:
        campaign.require_gpu()
        session = campaign.RecordingSession()
        stamp = stamps.stamp(session.versions(), stamps.commit())
        words = {i.name: results(i, on_a_gpu) for i in INSTRUCTIONS}
    except TileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    record = {
        "gpu": session.gpu.name,
        "recorded": stamp,
        "results": {
            n: base64.b64encode(x.astype("<u4").tobytes()).decode() for n, x in words.items()
        },
    }
    replace_file(options.out, json.dumps(record, indent=1) + "\n")
    for i in INSTRUCTIONS:
        same = results(i, in_the_emulator) == words[i.name]
        print(
            f"{i.name:18s} {int((~same).sum()):6d} of {same.size} registers have other bits in the"
            " emulator"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
