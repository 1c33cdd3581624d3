"""Products with an epilogue, and stacks of them: the launch, what it should give, two launches.

kernels/beside/22_epilogue.cu is no rung of the catalog: it has a bias, a residual, and operands of
three dimensions. Elements are bfloat16, as uint16 bits. GELU is the form with tanh, as cuBLASLt has
it (CUBLASLT_EPILOGUE_GELU_BIAS).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from helpers.ladder import hopper, launch
from helpers.ladder.hopper import BOX_COLS, BOX_ROWS, ITEM_BYTES, ROW_BYTES, ROW_SWIZZLE
from helpers.ladder.kernel import KERNELS, Geometry, cdiv, geometry
from helpers.ladder.numbers import UNIT_ROUNDOFF, error_bound, poison, reference, values
from helpers.ladder.rungs import find
from nogpu import device, toolchain
from nogpu.emulator import Report
from nogpu.errors import EmulationError, ShapeError
from nogpu.text import read_source

KERNEL = replace(
    find("hopper_5"), name="epilogue", title="bias, GELU and residual; many products in a launch",
    file="beside/22_epilogue.cu", entry="wgmma_epilogue", candidates=(),
)  # fmt: skip
MAPS = {"A_map": 64, "B_map": 64, "C_map": BOX_ROWS["C_map"], "R_map": 64}
"""Rows of a box, by the kernel's parameter."""
PASS = "beside/22_epilogue_pass.cu"
"""The same epilogue as a launch of its own, its entry and its threads a block."""
PASS_ENTRY, PASS_THREADS = "epilogue_pass", 256
CHUNK = ROW_BYTES // ITEM_BYTES
TANH_ERROR = 2.0**-10.9
"""Relative error of tanh.approx.f32 at most (PTX ISA: about 2^-11)."""


@dataclass(frozen=True)
class End:
    """f of C = f(A B + residual + bias): uint16 arrays or None; whether f is GELU, else nothing."""

    bias: Any = None
    residual: Any = None
    gelu: bool = False

    @property
    def macros(self) -> dict[str, str]:
        """What a kernel is compiled with."""
        has = {"BIAS": self.bias is not None, "GELU": self.gelu,
               "RESIDUAL": self.residual is not None}  # fmt: skip
        return {name: str(int(there)) for name, there in has.items()}

    def wanted(self, x: np.ndarray, off: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """C in float64 of sums x, and the largest accepted error of each element.

        off: that of x. What GELU makes of it (its slope is below 1.13), of tanh.approx.f32, and of
        the rounding to bfloat16.
        """
        for more in (self.residual, self.bias):
            x = x if more is None else x + values("bfloat16", more)
        off = np.maximum(off, 0) + 2.0**-22 * np.abs(x)
        if self.gelu:
            off, x = 1.13 * off + TANH_ERROR * np.abs(x) / 2, gelu(x)
        return x, off + UNIT_ROUNDOFF["bfloat16"] * (np.abs(x) + off)


@dataclass(frozen=True)
class Layer:
    """C = f(A B + residual + bias) for each slice of a stack, or for one matrix.

    A: (S, M, K), B: (S, K, N), bias: (S, N) or None, residual: (S, M, N) or None; NumPy or CuPy,
    uint16. gelu: whether f is GELU, else nothing. rows: of each slice that count, of A and C; what
    C holds beyond them is unspecified.
    """

    A: Any
    B: Any
    bias: Any
    residual: Any
    gelu: bool
    rows: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """S, M, N, K."""
        return (*self.A.shape[:2], *self.B.shape[:0:-1])

    @property
    def macros(self) -> dict[str, str]:
        """What the kernels are compiled with."""
        return End(self.bias, self.residual, self.gelu).macros


def layer(
    A: Any, B: Any, *, bias: Any = None, residual: Any = None, gelu: bool = False,
    rows: Sequence[int] | None = None,
) -> Layer:  # fmt: skip
    """A Layer of matrices, or of stacks of them with one axis more in front.

    rows: of each slice; None: all. Raises ShapeError where shapes do not fit together.
    """
    if A.ndim not in (2, 3) or B.ndim != A.ndim:
        raise ShapeError(
            f"A has {A.ndim} axes and B {B.ndim}: give matrices, or a stack of matrices for both"
        )
    if A.ndim == 2:
        A, B, bias, residual = (None if x is None else x[None] for x in (A, B, bias, residual))
    (S, M, K), N = A.shape, B.shape[2]
    wanted = {"B": (B, (S, K, N)), "bias": (bias, (S, N)), "residual": (residual, (S, M, N))}
    for name, (given, shape) in wanted.items():
        if given is not None and given.shape != shape:
            raise ShapeError(
                f"{name} of shape {given.shape} beside A of {A.shape}, of a stack of {S}: it "
                f"takes {shape}"
            )
    many = (M,) * S if rows is None else tuple(int(m) for m in rows)
    if len(many) != S or not all(0 <= m <= M for m in many) or not any(many):
        raise ShapeError(
            f"rows={many} for a stack of {S} slices of {M} rows: give for each slice a number from "
            f"0 to {M}, not all 0"
        )
    return Layer(A, B, bias, residual, gelu, many)


def plan(given: Layer, **params: int) -> Geometry:
    """The launch of a layer; its M counts the rows of all slices, each filled up to whole clusters.

    params: the tile, as of hopper_5. Raises ConfigError for a rule of it.
    """
    _, _, N, K = given.shape
    kernel = replace(KERNEL, defines={**KERNEL.defines, **given.macros})
    tall = _tall({**KERNEL.params, **params})
    return geometry(kernel, sum(cdiv(m, tall) * tall for m in given.rows), N, K, **params)


def _tall(params: Any) -> int:
    """Rows of C that a cluster computes."""
    return int(params["CLUSTER_M"] * params["BM"])


def numbers(p: Geometry) -> tuple[int, int, int]:
    """The kernel's last arguments: clusters' tiles, N, K."""
    wide = p.params["CLUSTER_N"] * p.params["BN"]
    return cdiv(p.M, _tall(p.params)) * cdiv(p.N, wide), p.N, p.K


def long_row(cols: int) -> int:
    """Elements of a row that ends at a multiple of ROW_BYTES."""
    return cdiv(cols, CHUNK) * CHUNK


def padded(x: np.ndarray) -> np.ndarray:
    """x with rows that end at multiples of ROW_BYTES, filled up with NaN."""
    full = np.full((*x.shape[:-1], long_row(x.shape[-1])), poison("bfloat16"), np.uint16)
    full[..., : x.shape[-1]] = x
    return full


def multiply(given: Layer, *, backend: str | None = None, **params: int) -> np.ndarray:
    """C of a layer, (S, M, N), bfloat16 bits (uint16).

    backend: "cuda", "emulator", or None for a Hopper GPU where there is one. params: the tile.
    Raises ConfigError, NoGPUError, and EmulationError for what the emulator finds.
    """
    p = plan(given, **params)
    return computed(
        p, given.shape[:3], backend, lambda: emulated(p, given), lambda C: on_gpu(p, given, C)
    )


def computed(
    p: Geometry, shape: tuple[int, ...], backend: str | None,
    emulate: Callable[[], tuple[np.ndarray, Report]], start: Callable[[Any], Callable[[], None]],
) -> np.ndarray:  # fmt: skip
    """C of this shape, as `multiply` gives it, by the emulator or on the GPU."""
    gpu = device.current()
    able = gpu is not None and toolchain.runs(gpu.arch, p.kernel.min_arch)
    if (backend or ("cuda" if able else "emulator")) == "emulator":
        C, report = emulate()
        if report.findings:
            raise EmulationError(f"{p.kernel.name} ran with faults:\n{report}")
        return C
    if gpu is None:
        launch.cuda_function(p)  # raises NoGPUError with what to do
    with device.faults(f"{p.kernel.name} at {' x '.join(map(str, shape))}"):
        C = blank(shape)
        start(C)()
        return np.asarray(C.get())


def emulated(
    p: Geometry, given: Layer, *, schedule: str = "ascending", source: str = ""
) -> tuple[np.ndarray, Report]:
    """C of a launch, as `multiply` gives it, by the emulator, and its report.

    source: in place of the file's.
    """
    from nogpu import emulator

    S, M, N, _ = given.shape
    C = padded(np.full((S, M, N), poison("bfloat16"), np.uint16))
    R = C if given.residual is None else padded(given.residual)
    bias = np.zeros((S, N), np.uint16) if given.bias is None else given.bias
    maps = [
        emulator.TensorMap(x, (1, MAPS[name], BOX_COLS), ROW_SWIZZLE, shape=shape)
        for name, x, shape in (
            ("A_map", padded(given.A), given.A.shape),
            ("B_map", padded(given.B), given.B.shape),
            ("C_map", C, (S, M, N)),
            ("R_map", R, (S, M, N)),
        )
    ]
    report = emulator.launch(
        source or KERNEL.source, KERNEL.entry, p.grid, p.block,
        [*maps, padded(bias), np.array(given.rows, np.int32), *numbers(p)],
        uninitialised=("C_map",), shared_bytes=p.shared_bytes, defines=p.defines,
        arch=KERNEL.min_arch, name=KERNEL.source_name, schedule=schedule,
    )  # fmt: skip
    return np.ascontiguousarray(C[..., :N]), report


def blank(shape: tuple[int, ...]) -> Any:
    """CuPy uint16 of this shape, filled with NaN, its rows at ROW_BYTES."""
    import cupy

    *many, N = shape
    return cupy.full((*many, long_row(N)), poison("bfloat16"), np.uint16)[..., :N]


def room(given: Layer) -> Any:
    """A C for `on_gpu`, (S, M, N)."""
    return blank(given.shape[:3])


def there(x: Any) -> Any:
    """x on the GPU, its rows at ROW_BYTES."""
    import cupy

    x = cupy.asarray(x)
    if hopper.rows_aligned(x):
        return x
    full = cupy.zeros((*x.shape[:-1], long_row(x.shape[-1])), x.dtype)
    full[..., : x.shape[-1]] = x
    return full[..., : x.shape[-1]]


def on_gpu(p: Geometry, given: Layer, C: Any) -> Callable[[], None]:
    """A function that launches p in CuPy's current stream; C: as `room` gives it."""
    import cupy

    A, B = there(given.A), there(given.B)
    R = C if given.residual is None else there(given.residual)
    bias = C if given.bias is None else there(given.bias)
    rows = cupy.asarray(np.array(given.rows, np.int32))
    maps = (
        hopper.build_descriptor(x, MAPS[name])
        for name, x in zip(MAPS, (A, B, C, R), strict=True)
    )  # fmt: skip
    function = launch.cuda_function(p)
    arguments = (*maps, bias, rows, *(np.int32(n) for n in numbers(p)))

    def start(_kept: Any = (A, B, C, R)) -> None:
        function(p.grid, p.block, arguments, shared_mem=p.shared_bytes)

    return start


def pass_on_gpu(given: Layer, C: Any) -> Callable[[], None]:
    """A function that launches the epilogue alone, on a C of one slice that holds A B.

    C: as `room` gives it. Raises ShapeError for a stack.
    """
    S, M, N, _ = given.shape
    if S > 1:
        raise ShapeError(f"a stack of {S}: the second launch takes one product; give each its own")
    gpu, chunks = device.current(), long_row(N) // CHUNK
    built = toolchain.compile(
        read_source(KERNELS / PASS), name=PASS, arch=gpu.arch if gpu else "sm_90",
        defines=given.macros,
    )  # fmt: skip
    function = launch.cuda_entry(built.cubin, PASS_ENTRY)
    R = C if given.residual is None else there(given.residual)
    bias = C if given.bias is None else there(given.bias)
    grid, arguments = (cdiv(M * chunks, PASS_THREADS),), (C, R, bias, np.int32(M), np.int32(chunks))

    def start() -> None:
        function(grid, (PASS_THREADS,), arguments)

    return start


def pass_emulated(given: Layer, product: np.ndarray) -> tuple[np.ndarray, Report]:
    """What the epilogue alone makes of a product (M, N) by the emulator, and its report."""
    from nogpu import emulator

    C = padded(product)
    R = C.copy() if given.residual is None else padded(given.residual[0])
    bias = C[0].copy() if given.bias is None else padded(given.bias[0])
    M, cols = C.shape
    arrays = [x.view(np.uint32) for x in (C, R, bias)]
    report = emulator.launch(
        read_source(KERNELS / PASS), PASS_ENTRY, (cdiv(M * cols // CHUNK, PASS_THREADS), 1, 1),
        (PASS_THREADS, 1, 1), [*arrays, M, cols // CHUNK], defines=given.macros, arch="sm_90",
        name=PASS,
    )  # fmt: skip
    return np.ascontiguousarray(C[:, : product.shape[1]]), report


def gelu(x: Any) -> Any:
    """x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))); NumPy or CuPy."""
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def wanted(given: Layer) -> tuple[np.ndarray, np.ndarray]:
    """C in float64, (S, M, N), and the largest accepted error of each element.

    That of the sums in any order (`numbers.error_bound`), and what the end makes of it.
    """
    C, bounds = [], []
    for s in range(given.shape[0]):
        pair = given.A[s], given.B[s]
        x = reference("hopper_5", *pair)
        off = error_bound("hopper_5", *pair) - UNIT_ROUNDOFF["bfloat16"] * np.abs(x)
        bias, residual = (None if y is None else y[s] for y in (given.bias, given.residual))
        x, off = End(bias, residual, given.gelu).wanted(x, off)
        C.append(x)
        bounds.append(off)
    return np.stack(C), np.stack(bounds)


def wrong(given: Layer, C: np.ndarray) -> int:
    """Elements of C in the rows that count that are off by more than is accepted; NaN always is."""
    want, bound = wanted(given)
    beyond = ~(np.abs(values("bfloat16", C) - want) <= bound)
    return int(sum(np.count_nonzero(beyond[s, :m]) for s, m in enumerate(given.rows)))
