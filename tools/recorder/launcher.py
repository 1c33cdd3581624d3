"""Launch what a file asks for on the GPU: the program that ncu and compute-sanitizer watch.

python -m tools.recorder.launcher JOBS.json

The file holds a list of launches {kernel, M, N, K, params}, or an object: {"jobs": the same list,
"limit": seconds from the first launch after which this process says {"late"} and ends}. A launch
may name its compiled kernel ("cubin", a file), and ask with "check" that C is compared with
float64; one line "@ {...}" says how it went. A job {kernel, shapes, ...} instead is a test of many
shapes (tools.recorder.sections.shapes.check_shapes).
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from helpers.ladder import hopper
from helpers.ladder.kernel import Geometry, geometry
from helpers.ladder.launch import cuda_launch
from helpers.ladder.numbers import STORAGE, operands, poison, wrong_elements
from helpers.ladder.rungs import find
from tools.recorder.sections.shapes import check_shapes


def matrix(values: np.ndarray, padded: bool, dtype: str) -> tuple[Any, Any]:
    """A matrix on the GPU, copied from the host in one piece, and the array that owns its memory.

    padded: rows begin at multiples of 16 bytes, what is between them is poison. The copy engine
    asks for such rows, and helpers.ladder.hopper would make a copy that the kernel under test is
    not.
    """
    import cupy

    rows, cols = values.shape
    step = hopper.ROW_BYTES // hopper.ITEM_BYTES
    if not padded or cols % step == 0:
        whole = cupy.asarray(values)
        return whole, whole
    wide = np.full((rows, -(-cols // step) * step), poison(dtype), values.dtype)
    wide[:, :cols] = values
    whole = cupy.asarray(wide)
    return whole[:, :cols], whole


def launch_once(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run one launch to its end; what to say of it.

    Operands come from the host, in fresh memory.
    """
    import cupy

    k = find(job["kernel"])
    p: Geometry = geometry(k, job["M"], job["N"], job["K"], **job["params"])
    host_A, host_B = operands(k, p.M, p.N, p.K)
    tma = k.host == "tma"
    A, B = (matrix(x, tma, k.dtype)[0] for x in (host_A, host_B))
    check = job.get("check", False)
    if check or tma:
        poisoned = np.full((p.M, p.N), poison(k.out_dtype), STORAGE[k.out_dtype])
        C, owner = matrix(poisoned, tma and "C_map" in hopper.parameters(k), k.out_dtype)
    else:  # nobody has written it: a kernel that reads it shows itself under initcheck
        C = owner = cupy.empty((p.M, p.N), STORAGE[k.out_dtype])
    cubin = Path(job["cubin"]).read_bytes() if job.get("cubin") else b""
    cuda_launch(p, A, B, C, cubin)
    cupy.cuda.get_current_stream().synchronize()
    report: dict[str, Any] = {"kernel": k.name, "m": p.M, "n": p.N, "k": p.K}
    if check:
        result = owner.get()[:, : p.N]
        report["wrong"] = wrong_elements(k, host_A, host_B, result)
    return report


def give_up(limit: float) -> None:
    """End this process while its main thread waits for a kernel that does not end."""
    print("@ " + json.dumps({"late": limit}), flush=True)
    os._exit(3)


def main(path: str) -> None:
    """Run the jobs in order; only our kernels and copies run on the GPU, unless for shapes."""
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    if isinstance(data, list):
        data = {"jobs": data}
    import cupy

    if not any("shapes" in job for job in data["jobs"]):
        # From the pool, a matrix would lie inside a larger piece of memory: what lies around it
        # would pass for its own.
        cupy.cuda.set_allocator(None)
    cupy.cuda.runtime.deviceSynchronize()  # starts CUDA, which takes as long as it takes
    if data.get("limit"):
        watch = threading.Timer(data["limit"], give_up, (data["limit"],))
        watch.daemon = True
        watch.start()
    for job in data["jobs"]:
        if "shapes" in job:
            report = check_shapes(job)
        else:
            report = launch_once(job)
        print("@ " + json.dumps(report), flush=True)
    print("@ " + json.dumps({"done": len(data["jobs"])}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
