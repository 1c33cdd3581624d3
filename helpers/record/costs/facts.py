"""What a kernel needs that a GPU may lack: by the table of kernels and features by architecture."""

import re
from collections.abc import Mapping

from helpers.ladder.kernel import Kernel
from nogpu.device import Gpu
from nogpu.text import headers, read_source, without_comments
from nogpu.toolchain import arch_number

BF16 = "BF16 on Tensor Cores"
FEATURES: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "cp.async": (
        "sm_80",
        (r"cp\.async\.c[ag]", "__pipeline_memcpy_async"),
        "PTX ISA, cp.async",
    ),
    BF16: ("sm_80", ("__nv_bfloat16",), "PTX ISA, mma"),
    "TMA": ("sm_90", (r"cp\.async\.bulk",), "PTX ISA, cp.async.bulk.tensor"),
    "wgmma": ("sm_90a", ("wgmma",), "PTX ISA, wgmma.mma_async"),
    "thread block clusters": ("sm_90", ("CLUSTER_M",), "CUDA C++ Programming Guide, clusters"),
}
"""By name: the first architecture that has it, patterns of a source that uses it, and who says so.
"""
M16N8K16 = "sm_80"
"""First architecture whose mma.sync takes 16 values of k of 16 bits; before it 8 (PTX ISA, mma)."""


def uses(kernel: Kernel) -> tuple[str, ...]:
    """Names of FEATURES that a kernel's source, its headers or its macros speak of."""
    texts = [kernel.source, *(read_source(path) for path in headers(kernel.source))]
    text = "\n".join([*map(without_comments, texts), *kernel.defines.values(), *kernel.params])
    return tuple(
        name
        for name, (_, words, _) in FEATURES.items()
        if any(re.search(word, text) for word in words)
        and (
            name != BF16 or kernel.dtype == "bfloat16"
        )  # headers speak of it to kernels of FP16 too
    )


def missing(kernel: Kernel, gpu: Gpu) -> tuple[str, ...]:
    """What this kernel needs and this GPU lacks; empty where the GPU runs it."""
    here = arch_number(gpu.arch)
    needed = arch_number(kernel.min_arch)
    exact = kernel.min_arch.endswith("a")
    if here >= needed and not (exact and here != needed):
        return ()
    lacking = []
    for name in uses(kernel):
        since = FEATURES[name][0]
        number = arch_number(since)
        if here < number or (since.endswith("a") and here != number):
            lacking.append(
                f"{name} (from {since} on)" if not since.endswith("a") else f"{name} ({since} only)"
            )
    return tuple(lacking) or (f"{kernel.min_arch} (it is {gpu.arch})",)


def remarks(kernel: Kernel, gpu: Gpu) -> tuple[str, ...]:
    """What is slower there than on the GPUs of the record, for a kernel that runs."""
    found = []
    if gpu.arch == "sm_75":
        found.append(
            "shared memory and L1 deliver at half the rate a clock (Jia et al., arXiv 1903.07486)"
        )
        if kernel.dtype == "float16":
            found.append(
                f"`mma.sync` takes 8 values of k at a time: m16n8k16 comes with {M16N8K16}"
            )
    if gpu.arch in ("sm_75", "sm_80") and kernel.dtype == "float32":
        found.append("an SM has 64 FP32 lanes, so half of the issue slots are free for other work")
    return tuple(found)
