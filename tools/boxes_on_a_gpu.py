"""Which boxes of a tensor the copy engine takes, and which end the kernel, asked of the GPU at
hand: data/validation/boxes_<gpu>.json.

    python -m tools.boxes_on_a_gpu [--out data/validation/boxes_GPU.json]

Each case is launched in a process of its own, since a kernel that is ended takes its context with
it. tests/test_boxes.py holds the emulator to them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, astuple, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from nogpu import emulator, toolchain
from tools import beside

ROOT = Path(__file__).resolve().parent.parent
SHAPE, ROWS, ROW_BYTES = (64, 256), 8, 128
SOURCE = """
struct alignas(64) Map { unsigned long long opaque[16]; };
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void k(const __grid_constant__ Map map, int row, int col, int shift)
{
    __shared__ __align__(1024) unsigned char room[4096];
    __shared__ unsigned long long bar;
    for (int i = threadIdx.x; i < sizeof room; i += blockDim.x) room[i] = 0;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&bar)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x > 0) return;
    const unsigned box = at(room) + shift;
#ifdef LOAD
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(&bar)), "n"(BYTES) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4}], [%2];" :: "r"(box), "l"(&map), "r"(at(&bar)), "r"(col), "r"(row) : "memory");
    asm volatile("{.reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN;}"
        :: "r"(at(&bar)) : "memory");
#else
    asm volatile("cp.STORE.2d.global.shared::cta.OP.bulk_group [%0, {%2, %3}], [%1];"
        :: "l"(&map), "r"(box), "r"(col), "r"(row) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}
"""
WORDS = {"store": ("async.bulk.tensor", "tile"), "add": ("reduce.async.bulk.tensor", "add")}
DTYPES = {"uint8": "UINT8", "float16": "FLOAT16", "float32": "FLOAT32", "float64": "FLOAT64"}
"""NumPy's name of an element and the driver's."""
ENDS = {"IllegalInstruction": "illegal instruction", "MisalignedAddress": "misaligned address"}


@dataclass(frozen=True)
class Box:
    """A box of 8 rows of 128 bytes that is loaded, stored or added. row, col: where it begins in a
    tensor of 64 x 256. shift: bytes from a multiple of 1024 to where it lies in shared memory.
    """

    does: str
    dtype: str
    row: int
    col: int
    swizzle: int = 0
    shift: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """Its rows and columns."""
        return ROWS, ROW_BYTES // np.dtype(self.dtype).itemsize

    @property
    def source(self) -> str:
        """What is launched."""
        bulk, op = WORDS.get(self.does, ("", ""))
        text = SOURCE.replace("cp.STORE", f"cp.{bulk}").replace(".OP.", f".{op}.")
        return f"#define {self.does.upper()}\n#define BYTES {ROWS * ROW_BYTES}\n" + text


CASES = tuple(
    [Box(does, dtype, *at) for does in ("load", "store") for dtype in DTYPES for at in product(
        (0,), (0, 1, 2, 4, 8, 12, 15, 16, 240, 255, 256, 272, -1, -2, -4, -8, -16, -256))]
    + [Box("add", dtype, 0, col) for dtype in ("float16", "float32")
       for col in (0, 1, 2, 4, 8, 16, 255, 256, -4, -8)]
    + [Box(does, "float32", row, col) for does in ("load", "store", "add")
       for row in (-100, -8, -3, 3, 60, 64, 1000) for col in (0, 4, 256, -4)]
    + [Box(does, "float16", 0, 0, swizzle, shift) for does in ("load", "store", "add")
       for swizzle in (0, 128) for shift in (8, 16, 32, 64, 128, 256)]
)  # fmt: skip


def in_the_emulator(case: Box) -> emulator.Report:
    """The emulator's report of it."""
    array = np.zeros(SHAPE, case.dtype)
    tensor_map = emulator.TensorMap(array, case.size, case.swizzle)
    given = [tensor_map, case.row, case.col, case.shift]
    return emulator.launch(case.source, "k", 1, 32, given, arch="sm_90", max_steps=10_000)


def on_this_gpu(number: int) -> str:
    """How a launch of CASES[number] ends: "ok", or one of ENDS. Loses the context if it is not."""
    import cupy
    from cuda.bindings import driver

    case = CASES[number]
    array = cupy.zeros(SHAPE, case.dtype)
    long, short = driver.cuuint64_t, driver.cuuint32_t
    status, made = driver.cuTensorMapEncodeTiled(
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{DTYPES[case.dtype]}"),
        2, array.data.ptr, [long(n) for n in SHAPE[::-1]], [long(array.strides[0])],
        [short(n) for n in case.size[::-1]], [short(1)] * 2,
        driver.CUtensorMapInterleave(0), driver.CUtensorMapSwizzle((0, 32, 64, 128).index(case.swizzle)),
        driver.CUtensorMapL2promotion(0), driver.CUtensorMapFloatOOBfill(0),
    )  # fmt: skip
    assert not int(status), (case, status)
    words = np.array([int(word) for word in made.opaque], np.uint64)
    module = cupy.cuda.function.Module()
    module.load(toolchain.compile(case.source, name="boxes.cu", arch="sm_90").cubin)
    given = words.view([("opaque", np.uint64, 16)]), *map(np.int32, astuple(case)[2:4])
    try:
        module.get_function("k")((1,), (32,), (*given, np.int32(case.shift)))
        cupy.cuda.Device().synchronize()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return next(says for name, says in ENDS.items() if name in str(error))
    return "ok"


def _apart(number: int) -> str:
    code = f"import os; from tools import boxes_on_a_gpu as t; print(t.on_this_gpu({number}), flush=True); os._exit(0)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@cache
def read(gpu: str = "h200") -> dict[str, Any]:
    """The record of a GPU."""
    path = ROOT / "data" / "validation" / f"boxes_{gpu}.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


def main(given: Sequence[str] | None = None) -> int:
    """The command line. Status 2 where no GPU answers."""

    def asked(*_: Any) -> dict[str, Any]:
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 2)) as pool:
            ends = list(pool.map(_apart, range(len(CASES))))
        return {"boxes": [{**asdict(c), "end": e} for c, e in zip(CASES, ends, strict=True)]}

    return beside.main("boxes", __doc__, given, times=asked)


if __name__ == "__main__":
    sys.exit(main())
