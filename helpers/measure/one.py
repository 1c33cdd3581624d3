"""Launch each job of a file once on the GPU: the program that ncu profiles.

python -m helpers.measure.one JOBS.json     (a list of {kernel, M, N, K, params})
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from helpers.catalog import find, plan
from helpers.launch import cuda_launch, operands


def main(path: str) -> None:
    """Run the jobs in order, one launch each; operands come from the host, so nothing else is profiled."""
    import cupy

    from helpers.launch import STORAGE

    for job in json.loads(Path(path).read_text(encoding="utf-8")):
        k = find(job["kernel"])
        p = plan(k, job["M"], job["N"], job["K"], **job["params"])
        A, B = (cupy.asarray(x) for x in operands(k, p.M, p.N, p.K))
        C = cupy.empty((p.M, p.N), STORAGE[k.out_dtype])
        cuda_launch(p, A, B, C)
        cupy.cuda.get_current_stream().synchronize()


if __name__ == "__main__":
    main(sys.argv[1])
