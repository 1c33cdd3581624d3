"""The noun of this package: a launch that is planned, and what may be asked of it.

    p = plan("tiled_32", 4096, 4096, 4096, TILE=16)
    p.grid, p.matmul(A, B), p.trace(), p.resources("sm_75"), p.traffic, p.limits["t4"], p.measure()

It is a Geometry, so everything that takes one takes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from helpers.ladder import binding, choosing, launch, model, usage
from helpers.ladder.binding import Bound
from helpers.ladder.kernel import Geometry, Kernel
from helpers.ladder.launch import Trace
from helpers.ladder.rungs import find, lay_out
from nogpu import device, toolchain
from nogpu.errors import ConfigError, DataError, DtypeError, NoGPUError, ShapeError

if TYPE_CHECKING:
    from helpers.record import Measurement


@dataclass(frozen=True, repr=False)
class Plan(Geometry):
    """One launch of one kernel: its facts (see Geometry), and everything that can be done with it.

    resources, instruction_mix: arch such as "sm_75"; left out, that of the GPU at hand, or of the
    H200.
    """

    def with_source(self, text: str) -> Plan:
        """The same launch of another text: your own kernel, with this entry, geometry and tile
        sizes.

        Its kernel's name is marked, and nothing recorded is ever taken for it. The text of a core
        has its own tile, and is launched by that. Raises ConfigError if the text does not name the
        entry, or if that tile breaks a rule.
        """
        kernel = self.kernel.with_source(text)
        if kernel.core_of:
            return plan(kernel, self.M, self.N, self.K)
        return replace(self, kernel=kernel)

    def matmul(self, A: Any, B: Any, *, backend: str | None = None) -> Any:
        """C (M, N) = A (M, K) B (K, N), as `launch.matmul` gives it.

        Raises its errors, and ShapeError if A or B is not of this launch's M, N and K.
        """
        return launch.product(self, A, B, backend=backend)

    def launch(self, A: Any, B: Any, C: Any, *, backend: str | None = None) -> None:
        """Write A B into C, an array that is there. Arrays and errors as for `launch.run`."""
        launch.run(self, A, B, C, backend=backend)

    def bind(self, A: Any, B: Any, C: Any) -> Bound:
        """This launch with its arrays, to be called often: `plan(...).bind(A, B, C)()` writes A B
        into C.

        All is looked up, checked and made ready once. CuPy arrays run on the GPU, NumPy arrays in
        the emulator. Arrays and errors as for `launch.run`; ConfigError where the GPU is too old.
        """
        return binding.bind(self, A, B, C)

    def trace(
        self, *, seed: int = 0, schedule: str = "ascending", arch: str = "", sass: bool = False,
        samples: bool = False, engines: bool = False,
    ) -> Trace:  # fmt: skip
        """A run in the emulator on random operands: memory accesses by line, findings, result.

        arch, sass, samples, engines: as for `launch.trace`.
        """
        return launch.trace_of(
            self, seed=seed, schedule=schedule, arch=arch, sass=sass, samples=samples,
            engines=engines,
        )  # fmt: skip

    def resources(self, arch: str = "") -> usage.Resources:
        """Registers, spills, shared memory and occupancy, from the compiler."""
        return usage.resources_of(self, arch or _arch(self.kernel))

    def instruction_mix(self, arch: str = "") -> dict[str, int]:
        """Instructions of the main loop by family, most frequent first."""
        return usage.instruction_mix_of(self, arch or _arch(self.kernel))

    @property
    def traffic(self) -> model.Traffic:
        """Bytes asked of global memory by closed formulas: by threads, warps and blocks."""
        return model.traffic_of(self)

    @property
    def intensity(self) -> float:
        """FLOP for each byte of `traffic.block`."""
        return model.intensity_of(self)

    @property
    def limits(self) -> ByGpu:
        """Occupancy by GPU of the table: `limits["h200"].limited_by` says which resource binds."""
        return ByGpu(self)

    def measure(self, *, gpu: str | None = None) -> Measurement:
        """Its time: measured now where there is a GPU, else (or with gpu="h200") from the record.

        What a record holds are the default tile sizes at its sizes (as points), and for some
        kernels every legal tile at 4096 (as a sweep, of fewer samples: the label says so). A text
        of your own or a core is only ever measured now. Raises NoGPUError for it where there is no
        GPU or `gpu` names a record, ConfigError where the GPU is too old; DataError where nothing
        is recorded, and the errors of `measuring.measure`.
        """
        from helpers import record as measuring

        k, size = self.kernel, (self.M, self.N, self.K)
        if k.text is not None or k.core_of:
            _refuse_replay(k, gpu)
        try:
            return measuring.measure(k, size, gpu=gpu, **self.params)
        except DataError:
            swept = None if k.text is not None else _swept(self, gpu or measuring.DEFAULT_GPU)
            if swept is None:
                raise
            return swept

    def __repr__(self) -> str:
        sizes = "".join(f", {name}={value}" for name, value in self.params.items())
        grid, block = ("x".join(map(str, size)) for size in (self.grid, self.block))
        shared = (
            f", {self.shared_bytes} bytes of dynamic shared memory" if self.shared_bytes else ""
        )
        return (
            f"{self.kernel.name}{sizes}, M={self.M}, N={self.N}, K={self.K}: "
            f"{grid} blocks of {block} threads{shared}"
        )


class ByGpu(Mapping[str, model.Occupancy]):
    """Occupancy of a launch by GPU of the table (those that can run it), compiled when asked for.

    A key is a GPU such as "h200" or an architecture such as "sm_86".
    """

    def __init__(self, launch: Geometry) -> None:
        self._launch = launch
        known = device.GPUS.items()
        self._gpus = {k: gpu.arch for k, gpu in known if choosing.runs_on(launch.kernel, gpu)}

    def __getitem__(self, gpu: str) -> model.Occupancy:
        arch = gpu if gpu.startswith("sm_") else self._gpus.get(gpu) or device.gpu(gpu).arch
        return usage.resources_of(self._launch, _target(self._launch.kernel, arch)).occupancy

    def __contains__(self, gpu: object) -> bool:
        return gpu in self._gpus

    def __iter__(self) -> Iterator[str]:
        return iter(self._gpus)

    def __len__(self) -> int:
        return len(self._gpus)

    def __repr__(self) -> str:
        lines = []
        for key, arch in self._gpus.items():
            o = self[key]
            lines.append(
                f"{key} ({arch}): {o.blocks} blocks, {o.warps} warps an SM "
                f"({100 * o.fraction:.0f} %), limited by {' and '.join(o.limited_by)}"
            )
        return "\n".join(lines)


def _target(kernel: Kernel, arch: str) -> str:
    """What to compile a kernel for on a GPU of this architecture: "sm_90a" for what needs it."""
    return f"{arch}a" if kernel.min_arch == f"{arch}a" else arch


def _arch(kernel: Kernel) -> str:
    return _target(kernel, launch.facts().arch)


def _refuse_replay(own: Kernel, gpu: str | None) -> None:
    """A reader's own text is measured now or not at all."""
    live = device.current()
    if live is None or gpu is not None:
        what = "a core" if own.core_of and own.text is None else "your own text"
        raise NoGPUError(
            f"{own.name} is {what}, and a record holds the book's kernels only: run it on a "
            "machine with an NVIDIA GPU to time it (and leave gpu out), or call trace() and "
            "resources() here"
        )
    if not toolchain.runs(live.arch, own.min_arch):
        needed = toolchain.words_for(own.min_arch)
        raise ConfigError(f"{own.name} needs {needed}; this GPU is {live.arch}")


def _swept(p: Geometry, gpu: str) -> Measurement | None:
    """What the sweep of tiles on a GPU says of this tile at this size, or None."""
    from helpers import record as measuring
    from helpers.record.measurement import COLUMNS

    record = measuring.load(gpu)
    wanted = {"kernel": p.kernel.name, "params": dict(p.params), "m": p.M, "n": p.N, "k": p.K}
    timed = [e for e in record.find("sweep", **wanted) if e.ms is not None]
    if not timed:
        return None
    entry = timed[0]
    row: dict[str, Any] = dict.fromkeys(COLUMNS, float("nan"))
    row |= {c: getattr(entry, c) for c in row if getattr(entry, c, None) is not None}
    row["baseline"] = p.kernel.baseline
    row |= {"gpu": record.gpu["name"], "live": False, "record": record.key}
    label = f"{record.label(timed[:1])}; from a sweep of tiles, {entry.pairs} samples"
    if entry.source != measuring.fingerprint(p.kernel):
        label += f"; the code of {p.kernel.name} has changed since"
    return measuring.Measurement(False, record.gpu["name"], record.key, label, (row,))


def _noun(g: Geometry) -> Plan:
    return Plan(**{field.name: getattr(g, field.name) for field in fields(g)})


def plan(
    kernel: Kernel | str, M: int, N: int | None = None, K: int | None = None, **params: int
) -> Plan:
    """The launch of a kernel that computes C (MxN) = A (MxK) B (KxN).

    kernel: a name of the catalog, or a Kernel. plan(kernel, n) stands for M = N = K = n. params
    override tile sizes. Raises UnknownKernelError, ShapeError if M, N or K is below 1 or one of N
    and K is missing, ConfigError naming the broken rule and its reason.
    """
    if (N is None) != (K is None):
        raise ShapeError(
            f"{M=}, {N=}, {K=}: give all three, or M alone for a cube (M = N = K = {M})"
        )
    return _noun(lay_out(kernel, M, M if N is None else N, M if K is None else K, **params))


def choose(
    kernel: Kernel | str, M: int, N: int, K: int, *, gpu: device.Gpu | str | None = None,
    dtype: str | None = None,
) -> Plan:  # fmt: skip
    """The plan with the tile that `launch.choose` picks for this shape; plan.why says why.

    kernel="auto": of all kernels for this dtype ("float32", the default, "float16", "bfloat16"),
    tile and slices of K too, by `choosing.best`. gpu: a row of the GPU table or its key, such as
    "t4"; default the one at hand, or the H200. Raises their errors, UnknownNameError for a key that
    the table lacks, and DtypeError for a dtype that is no name, or not that of the kernel named.
    """
    card = device.gpu(gpu) if isinstance(gpu, str) else gpu
    if dtype is not None and not isinstance(dtype, str):
        raise DtypeError(f'dtype={dtype!r}: give its name, such as dtype="float32"')
    if kernel == choosing.AUTO:
        return _noun(choosing.best(dtype or "float32", M, N, K, card or launch.facts()))
    k = find(kernel)
    if dtype not in (None, k.dtype):
        raise DtypeError(
            f'{k.name} takes {k.dtype}, and {dtype=}: leave dtype out, or ask for "auto"'
        )
    return _noun(launch.choose(k, M, N, K, gpu=card))
