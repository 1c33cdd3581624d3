"""What a GPU does for recordings alone: other builds, launches by the host's clock, copies, errors.

It touches CuPy as helpers.record.gpu does: on one stream, imported when a session is opened.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from helpers.ladder import binding, launch, numbers
from helpers.ladder.kernel import Geometry
from helpers.record.gpu import _FAST_16BF, BASELINES, Session, host_operands, to_tf32
from nogpu import bfloat16, toolchain


class RecordingSession(Session):
    """A GPU opened for recording. Raises as `Session`."""

    def build_operation(
        self, plan: Geometry, source: str, options: tuple[str, ...], A: Any, B: Any, C: Any
    ) -> Callable[[], None]:
        """A function that launches a plan's kernel compiled from other source or with other
        options.

        The kernel's shared memory is static.
        """
        k = plan.kernel
        compiled = toolchain.compile(
            source, name=k.file, arch=self.gpu.arch, defines=plan.defines, options=options
        )
        module = self.cupy.cuda.function.Module()
        module.load(compiled.cubin)
        function = module.get_function(k.entry)
        arguments = (A, B, C, np.int32(plan.M), np.int32(plan.N), np.int32(plan.K))

        def launch_build(_keep: Any = module) -> None:  # the function dies with its module
            with self.stream:
                function(plan.grid, plan.block, arguments)

        return launch_build

    def ways_to_launch(
        self, plan: Geometry, A: Any, B: Any, C: Any, in_a_graph: int = 20
    ) -> dict[str, tuple[Callable[[], None], int]]:
        """Calls that launch a plan on CuPy arrays in the current stream, and the products of one
        call.

        "matmul" and "run" look everything up; "cupy" has function and arguments at hand (plain
        kernels only); "bound" is `binding.bind`; "graph" is that, so many times in one CUDA graph.
        All but matmul, which makes its own result and waits for it, write C.
        """
        ways: dict[str, tuple[Callable[[], None], int]] = {
            "matmul": (lambda: launch.product(plan, A, B), 1),
            "run": (partial(launch.run, plan, A, B, C), 1),
        }
        with self.on_stream():
            bound = binding.bind(plan, A, B, C)
            if plan.kernel.host == "plain":
                function = launch.cuda_function(plan)
                arguments = plan.grid, plan.block, launch.cuda_arguments(plan, A, B, C)
                ways["cupy"] = (partial(function, *arguments, shared_mem=plan.shared_bytes), 1)
            captured = bound.graph(in_a_graph)
        return {**ways, "bound": (bound, 1), "graph": (captured.launch, in_a_graph)}

    def host_times(self, ask: Callable[[], None], calls: int, batches: int) -> list[float]:
        """Seconds by the host's clock of each batch of calls; it waits between batches, not within
        one."""
        times = []
        with self.on_stream():
            for _ in range(batches):
                self.stream.synchronize()
                started = time.perf_counter()
                for _ in range(calls):
                    ask()
                times.append(time.perf_counter() - started)
            self.stream.synchronize()
        return times

    def copies(self, nbytes: int, direction: str, pinned: bool, count: int) -> list[float]:
        """Milliseconds of each of `count` copies of nbytes: "h2d" or "d2h", by CUDA events."""
        cp = self.cupy
        memory = cp.cuda.alloc_pinned_memory(nbytes) if pinned else np.empty(nbytes, np.uint8)
        host = np.frombuffer(memory, np.uint8, nbytes)
        host[:] = 1  # touch every page
        with self.on_stream():
            there = cp.ones(nbytes, np.uint8)
        here, device_side, runtime = host.ctypes.data, there.data.ptr, cp.cuda.runtime
        if direction == "h2d":
            arguments = (device_side, here, nbytes, runtime.memcpyHostToDevice)
        else:
            arguments = (here, device_side, nbytes, runtime.memcpyDeviceToHost)
        start, end, times = cp.cuda.Event(), cp.cuda.Event(), []
        for _ in range(count):
            self.stream.synchronize()
            start.record(self.stream)
            runtime.memcpyAsync(*arguments, self.stream.ptr)
            end.record(self.stream)
            end.synchronize()
            times.append(float(cp.cuda.get_elapsed_time(start, end)))
        return times

    def accuracy(self, name: str, n: int, seed: int = 1) -> dict[str, float | None]:
        """Errors of a baseline on N(0, 1) float32 matrices of edge n, against the float64 product.

        max_error is absolute, frobenius is relative in the Frobenius norm: of the float32 inputs,
        and (..._rounded_inputs) of those inputs rounded to the type that the Tensor Cores take;
        None where the library chooses that type itself.
        """
        b, cp = BASELINES[name], self.cupy
        A32, B32 = host_operands("float32", n, n, n, seed)
        errors: dict[str, float | None] = {}
        with self.on_stream():
            full = [cp.asarray(x) for x in (A32, B32)]
            if b.dtype == "bfloat16":
                rounded = [cp.asarray(bfloat16.to_bfloat16(x)) for x in (A32, B32)]
            else:
                rounded = [x.astype(numbers.STORAGE[b.dtype]) for x in full]
            C = cp.full((n, n), np.nan, np.float32)
            self.baseline_operation(name, rounded[0], rounded[1], C)()
            product = C.astype(np.float64)
            wanted = cp.empty((n, n), np.float64)
            taken = (
                [cp.asarray(to_tf32(x)) for x in (A32, B32)] if b.precision == "tf32" else rounded
            )
            for suffix, inputs, dtype in (
                ("", full, "float32"),
                ("_rounded_inputs", taken, b.dtype),
            ):
                if suffix and b.compute == _FAST_16BF:
                    errors |= {f"max_error{suffix}": None, f"frobenius{suffix}": None}
                    continue
                A64, B64 = (self._float64(x, dtype) for x in inputs)
                self._gemm64(A64, B64, wanted)
                difference = product - wanted
                errors[f"max_error{suffix}"] = float(cp.abs(difference).max())
                norms = cp.sqrt(cp.square(difference).sum()), cp.sqrt(cp.square(wanted).sum())
                errors[f"frobenius{suffix}"] = float(norms[0] / norms[1])
        return errors
