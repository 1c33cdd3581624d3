"""Bound launches: what reaches the driver, byte by byte; in the emulator, on a pretended GPU, and
on a GPU."""

from __future__ import annotations

import ctypes
import re
import sys
import threading
from dataclasses import dataclass, replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers import catalog, plan
from helpers.ladder import binding, hopper, launch, numbers
from helpers.ladder.kernel import Room
from nogpu import device
from nogpu.errors import ConfigError, DtypeError, EmulationError, NoGPUError, ShapeError
from tests.test_pretended import on, stops, text_of, written

# -- in the emulator -------------------------------------------------------------------------------


def given(name, M, N, K):
    """Operands of a kernel and a poisoned C."""
    A, B = numbers.operands(name, M, N, K)
    k = catalog[name]
    return A, B, np.full((M, N), numbers.poison(k.out_dtype), numbers.STORAGE[k.out_dtype])


@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 31, 17), (64, 65, 7)])
def test_numpy_arrays_are_bound_in_the_emulator(shape):
    A, B, C = given("tiled_32", *shape)
    start = plan("tiled_32", *shape).bind(A, B, C)
    assert np.isnan(C).all()  # nothing runs before the call
    for _ in range(2):
        C.fill(np.nan)
        start()
        assert numbers.wrong_elements("tiled_32", A, B, C) == 0
    A[0, 0] += 64  # the arrays are bound, not what they held
    start()
    assert numbers.wrong_elements("tiled_32", A, B, C) == 0
    assert numbers.wrong_elements("tiled_32", A, B + 1, C) > 0
    assert "tiled_32" in repr(start) and "emulator" in repr(start)


def test_a_graph_needs_a_gpu_and_says_so():
    start = plan("tiled_32", 8).bind(*given("tiled_32", 8, 8, 8))
    with pytest.raises(NoGPUError, match=r"lie in NumPy.*bind CuPy arrays"):
        start.graph()
    with pytest.raises(ConfigError, match="at least one"):
        start.graph(0)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda A, B, C: (A[:, :4], B, C), ShapeError, "contiguous"),
        (lambda A, B, C: (A, B[:4], C), ShapeError, "planned for"),
        (lambda A, B, C: (A, B, C.astype(np.float64)), DtypeError, "float64"),
        (lambda A, B, C: (A, B.astype(float), C), DtypeError, "takes float32"),
        (lambda A, B, C: (A.tolist(), B, C), DtypeError, "list"),
        (lambda A, B, C: (A, B, C.tolist()), DtypeError, "list"),
        (lambda A, B, C: (A, B, C[:5]), ShapeError, "give C as 8x8"),
        (lambda A, B, C: (A, B, np.broadcast_to(np.float32(0), (8, 8))), ShapeError, "contiguous"),
    ],
)
def test_what_a_launch_refuses_is_refused_when_it_is_bound(change, error, says):
    p, arrays = plan("tiled_32", 8), change(*given("tiled_32", 8, 8, 8))
    with pytest.raises(error, match=says) as bound:
        p.bind(*arrays)
    with pytest.raises(error) as launched:
        p.launch(*arrays)
    assert str(bound.value) == str(launched.value)


def test_faults_are_found_at_the_call():
    wrong = catalog["tiled_32"].source.replace("k < TILE", "k < TILE + 1")
    start = plan("tiled_32", 8).with_source(wrong).bind(*given("tiled_32", 8, 8, 8))
    with pytest.raises(EmulationError):
        start()


def test_a_tma_kernel_is_bound_in_the_emulator_too():
    A, B, C = given("hopper_1", 33, 31, 17)
    plan("hopper_1", 33, 31, 17).bind(A, B, C)()
    k = catalog["hopper_1"]
    assert numbers.beyond(k, C, numbers.reference(k, A, B), numbers.error_bound(k, A, B)) == 0


# -- what reaches the driver -----------------------------------------------------------------------


class Array:
    """As much of a CuPy array as a launch looks at; its memory is nobody's."""

    __module__ = "cupy"
    made: list[Array] = []  # noqa: RUF012

    def __init__(self, shape, dtype, row=0, address=0):
        self.shape, self.dtype, self.ndim = shape, np.dtype(dtype), len(shape)
        self.size, item = int(np.prod(shape)), self.dtype.itemsize
        self.nbytes = self.size * item
        self.strides = (row or shape[-1] * item, item)[-self.ndim :]
        self.data = SimpleNamespace(ptr=address or (1 << 40) + (len(Array.made) << 28))
        whole = row in (0, shape[-1] * item)
        self.flags = SimpleNamespace(c_contiguous=whole, writeable=True)
        Array.made.append(self)

    def __getitem__(self, index):
        shape = tuple(len(range(n)[i]) for n, i in zip(self.shape, index, strict=True))
        return Array(shape, self.dtype, self.strides[0], self.data.ptr)


@dataclass
class Launched:
    """One call of the driver: which kernel, how, where, and the bytes of each argument."""

    kernel: int
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    stream: int
    pointers: int

    def bytes(self, sizes):
        """The values of the arguments, which have so many bytes each."""
        at = (ctypes.c_void_p * len(sizes)).from_address(self.pointers)
        return [ctypes.string_at(a, n) for a, n in zip(at, sizes, strict=True)]

    def numbers(self, kinds):
        """The values: "p" an address, "i" an int, "m" the first five words of a tensor map."""
        sizes = {"p": 8, "i": 4, "m": 128}
        types = {"p": np.uint64, "i": np.int32, "m": np.uint64}
        raw = zip(kinds, self.bytes([sizes[kind] for kind in kinds]), strict=True)
        found = [np.frombuffer(value, types[kind]).tolist() for kind, value in raw]
        return [x[0] if len(x) == 1 else x[:5] for x in found]


KERNEL, COPY = 77, 78


@pytest.fixture
def driver(monkeypatch):
    """A CuPy whose driver writes down what it is asked to launch; a GPU that is an H200."""
    calls: list[Any] = []

    def launch_kernel(f, *how):
        assert how[-1] == 0 and len(how) == 10
        calls.append(Launched(f, how[:3], how[3:6], how[6], how[7], how[8]))

    def memset(*arguments):
        calls.append(("memset", *arguments))

    stream = SimpleNamespace(
        ptr=5, synchronize=lambda: calls.append("waited"), is_capturing=lambda: False
    )
    cupy: Any = ModuleType("cupy")
    cuda: Any = ModuleType("cupy.cuda")
    cuda.driver = SimpleNamespace(launchKernel=launch_kernel, CUDADriverError=RuntimeError)
    cuda.runtime = SimpleNamespace(memsetAsync=memset, free=lambda _: None)
    cuda.get_current_stream = lambda: stream
    cuda.Device = lambda: SimpleNamespace(id=0)
    cupy.cuda = cuda
    cupy.empty = cupy.zeros = lambda shape, dtype: Array(
        shape if isinstance(shape, tuple) else (shape,), dtype
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    monkeypatch.setattr(Array, "made", [])

    def entry(cubin, name, shared=0):
        return SimpleNamespace(kernel=SimpleNamespace(ptr=COPY if name == "copy_rows" else KERNEL))

    monkeypatch.setattr(launch, "cuda_entry", entry)
    monkeypatch.setattr(launch, "cuda_function", lambda p, cubin=b"": entry(b"", p.kernel.entry))

    def encode(address, shape, steps, box_rows):
        words = np.zeros(16, np.uint64)
        words[:5] = address, *shape, *steps, box_rows
        return words.view(hopper.TENSOR_MAP)

    monkeypatch.setattr(hopper, "_encode", encode)
    return calls


def arrays(name, M, N, K):
    """A, B and C on the GPU, of a kernel's types."""
    k = catalog[name]
    given, gives = numbers.STORAGE[k.dtype], numbers.STORAGE[k.out_dtype]
    return Array((M, K), given), Array((K, N), given), Array((M, N), gives)


def address(x):
    return int(x.data.ptr)


def test_a_plain_kernel_gets_its_pointers_and_numbers(driver):
    p = plan("vectorised", 130, 70, 33)
    A, B, C = arrays("vectorised", 130, 70, 33)
    start = p.bind(A, B, C)
    assert driver == []
    start()
    start(SimpleNamespace(ptr=9))
    first, second = driver
    assert first.numbers("pppiii") == [address(A), address(B), address(C), 130, 70, 33]
    assert (first.kernel, first.grid, first.block) == (KERNEL, p.grid, p.block)
    assert (first.shared, first.stream, second.stream) == (p.shared_bytes, 5, 9)
    assert first.pointers == second.pointers  # packed once
    assert "on the GPU" in repr(start)


def test_the_arguments_are_still_there_when_only_the_launch_is_kept(driver):
    """What the driver reads at the call must not have been freed: the call alone keeps it."""
    import gc

    start = plan("naive", 3, 5, 7).bind(*arrays("naive", 3, 5, 7))
    gc.collect()
    _noise = [bytearray(512) for _ in range(200)]
    start()
    assert driver[0].numbers("pppiii")[3:] == [3, 5, 7]


def test_the_check_sees_arguments_in_a_wrong_order_or_of_a_wrong_size(driver, monkeypatch):
    A, B, C = arrays("naive", 3, 5, 7)
    right = [address(A), address(B), address(C), 3, 5, 7]
    whole = binding.packed

    def swapped(arguments):
        return whole([arguments[1], arguments[0], *arguments[2:]])

    def too_wide(arguments):
        return whole([np.int64(x << 32) if isinstance(x, np.int32) else x for x in arguments])

    for packed in (whole, swapped, too_wide):
        monkeypatch.setattr(binding, "packed", packed)
        start = plan("naive", 3, 5, 7).bind(A, B, C)
        start()
        assert (driver.pop().numbers("pppiii") == right) is (packed is whole)


def kinds(name):
    """What each parameter of a Hopper kernel is, as declared: a tensor map, an int or a pointer."""
    k = catalog[name]
    found = re.search(rf"\b{k.entry}\s*\(([^)]*)\)", k.source)
    assert found
    declared = found[1].split(",")
    return "".join("m" if "TensorMap" in d else "p" if "*" in d else "i" for d in declared)


@pytest.mark.parametrize("name", [n for n, k in catalog.items() if k.host == "tma"])
def test_a_tma_kernel_gets_its_tensor_maps_by_value(name, driver):
    M, N, K = 264, 520, 136
    p = plan(name, M, N, K)
    A, B, C = arrays(name, M, N, K)
    start = p.bind(A, B, C)
    start()
    [call] = [c for c in driver if isinstance(c, Launched)]
    found = dict(zip(hopper.parameters(p.kernel), call.numbers(kinds(name)), strict=True))
    assert found["A_map"] == [address(A), M, K, 2 * K, 64]
    assert found["B_map"] == [address(B), K, N, 2 * N, 64]
    if "C_map" in found:
        assert found["C_map"] == [address(C), M, N, 2 * N, 16]
    else:
        assert found["C"] == address(C)
    assert [found[n] for n in "MNK"] == [M, N, K]
    assert (call.grid, call.block, call.shared) == (p.grid, p.block, p.shared_bytes)
    at = (ctypes.c_void_p * 1).from_address(call.pointers)[0]
    assert at % 64 == 0  # as a CUtensorMap must start


def copied(call):
    """From, to, rows, columns and steps of a copy."""
    assert call.kernel == COPY
    return call.numbers("ppiiii")


def test_rows_that_are_not_aligned_are_copied_at_each_launch(driver):
    M, N, K = 100, 77, 51
    A, B, C = arrays("hopper_5", M, N, K)
    start = plan("hopper_5", M, N, K).bind(A, B, C)
    assert driver == ["waited"]  # what had the copies' memory before is done, whatever stream comes
    driver.clear()
    made = len(Array.made)
    for _ in range(2):
        start()
    assert len(Array.made) == made  # a call allocates nothing
    assert len(driver) == 8
    for into_A, into_B, kernel, out in (driver[:4], driver[4:]):
        maps = kernel.numbers(kinds("hopper_5"))[:3]
        assert copied(into_A) == [address(A), maps[0][0], M, K, K, 56]
        assert copied(into_B) == [address(B), maps[1][0], K, N, N, 80]
        assert copied(out) == [maps[2][0], address(C), M, N, 80, N]
        assert maps[0][3] == 112 and maps[0][0] != address(A)
    # one that is aligned is taken as it is
    A, B, C = arrays("hopper_5", M, 80, K)
    plan("hopper_5", M, 80, K).bind(A, B, C)()
    assert [c.kernel for c in driver[8:] if c != "waited"] == [COPY, KERNEL]


def test_two_bound_launches_share_no_room(driver):
    name = next(n for n in catalog if catalog[n].host == "tma" and kinds(n).count("p") > 1)
    given = arrays(name, 256, 256, 256)
    first, second = (plan(name, 256).bind(*given) for _ in range(2))
    assert "waited" in driver  # the flags are zero before another stream may begin
    driver.clear()
    first(), second(), first()
    rooms = [call.numbers(kinds(name)) for call in driver]
    pointers = [at for at, kind in enumerate(kinds(name)) if kind == "p"]
    for at in pointers:
        assert rooms[0][at] == rooms[2][at] != rooms[1][at]
    assert len({rooms[0][at] for at in pointers}) == len(pointers) == 2


ROOMY = replace(
    catalog["naive"],
    passed=("BX",),
    room=(Room("partial", "float32", "3 * M"), Room("arrived", "int32", "5")),
)


def test_room_follows_the_numbers(driver):
    A, B, C = arrays("naive", 6, 5, 4)
    p = plan(ROOMY, 6, 5, 4)
    one, two = (p.bind(A, B, C) for _ in range(2))
    rooms = [x for x in Array.made if x.ndim == 1]
    assert [(x.size, str(x.dtype)) for x in rooms] == [(18, "float32"), (5, "int32")] * 2
    driver.clear()
    one(), two()
    found = [call.numbers("pppiiiipp") for call in driver]
    assert found[0][3:7] == [6, 5, 4, p.params["BX"]]
    assert [x for f in found for x in f[7:]] == [address(x) for x in rooms]


def test_counters_of_a_readers_own_text_are_cleared_at_each_launch(driver):
    p = plan(ROOMY.with_source(ROOMY.source), 6, 5, 4)
    start = p.bind(*arrays("naive", 6, 5, 4))
    [counters] = [x for x in Array.made if x.ndim == 1 and str(x.dtype) == "int32"]
    driver.clear()
    start(), start(SimpleNamespace(ptr=9))
    cleared = [c[1:] for c in driver if isinstance(c, tuple)]
    assert cleared == [(address(counters), 0, 20, 5), (address(counters), 0, 20, 9)]
    assert [isinstance(c, Launched) for c in driver] == [False, True] * 2


@pytest.fixture
def rooms(driver):
    """What one launch that is not bound works in, by its numbers; nothing kept from other tests."""
    kept = (launch._room, hopper._hand_over_room)
    for each in kept:
        each.cache_clear()

    def of(p):
        if p.kernel.host == "tma":
            given = arrays("hopper_6", p.M, p.N, p.K)
            return [address(x) for x in hopper.prepare(p, *given).room]
        given = arrays("naive", p.M, p.N, p.K)
        return [address(x) for x in launch.cuda_arguments(p, *given)[-2:]]

    yield of
    for each in kept:
        each.cache_clear()


LONG = plan("hopper_6", 256, 256, 4096)
SHORT = plan(ROOMY, 6, 5, 4)


@pytest.mark.parametrize("p", [LONG, SHORT], ids=["tma", "plain"])
def test_launches_of_one_stream_share_their_room_and_a_readers_text_has_its_own(p, rooms):
    assert len(rooms(p)) == 2 and rooms(p) == rooms(p)
    own = replace(p, kernel=p.kernel.with_source(p.kernel.source))
    assert not set(rooms(own)) & set(rooms(p)) and rooms(own) != rooms(own)


@pytest.mark.parametrize("p", [LONG, SHORT], ids=["tma", "plain"])
def test_the_default_stream_of_each_thread_has_a_room_of_its_own(p, rooms, driver):
    import cupy

    def elsewhere():
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.extend(rooms(p)))
        thread.start(), thread.join()
        return found

    stream = cupy.cuda.get_current_stream()
    assert rooms(p) == elsewhere()  # one stream: its launches follow each other
    stream.ptr = device.PER_THREAD_STREAM
    assert not set(rooms(p)) & set(elsewhere())


def test_blocks_that_wait_for_each_other_all_find_an_sm(rooms, monkeypatch):
    fewer = SimpleNamespace(name="NVIDIA H100 PCIe", arch="sm_90", sms=114)
    monkeypatch.setattr(device, "current", lambda: fewer)
    long = plan("hopper_6", 512, 512, 1 << 15)
    assert hopper.division(long).ranges and long.grid[0] > fewer.sms
    with pytest.raises(ConfigError, match=r"132 blocks that wait for each other.*Give SMS=114"):
        rooms(long)
    rooms(plan("hopper_6", 512, 512, 1 << 15, SMS=114))


def test_what_is_kept_for_a_stream_is_not_put_into_a_graph(rooms, driver):
    """Zeros would be written when the graph runs, and the next would count from what lies there."""
    import cupy

    stream = cupy.cuda.get_current_stream()
    stream.is_capturing = lambda: True
    for p in (LONG, SHORT):
        with pytest.raises(ConfigError, match=rf"{p.kernel.name} works in memory.*bind the launch"):
            rooms(p)
    with pytest.raises(ConfigError, match="bind the launch"):  # copies die with the call
        hopper.prepare(plan("hopper_5", 77, 77, 77), *arrays("hopper_5", 77, 77, 77))
    hopper.prepare(plan("hopper_5", 256), *arrays("hopper_5", 256, 256, 256))
    bound = plan("naive", 6, 5, 4).bind(*arrays("naive", 6, 5, 4))
    bound()
    assert [c.kernel for c in driver if isinstance(c, Launched)] == [KERNEL]


def test_a_thread_without_a_context_gets_one(driver, monkeypatch):
    import cupy

    class Fault(RuntimeError):
        pass

    errors, freed, inner = ["CUDA_ERROR_INVALID_CONTEXT: ..."], [], cupy.cuda.driver.launchKernel

    def refusing(*how):
        if errors:
            raise Fault(errors.pop())
        inner(*how)

    cuda = cupy.cuda
    monkeypatch.setattr(cuda.driver, "launchKernel", refusing)
    monkeypatch.setattr(cuda.driver, "CUDADriverError", Fault)
    monkeypatch.setattr(cuda.runtime, "free", freed.append)
    start = plan("naive", 3, 5, 7).bind(*arrays("naive", 3, 5, 7))
    start()
    assert freed == [0] and len(driver) == 1
    errors.append("CUDA_ERROR_ILLEGAL_ADDRESS: ...")
    with pytest.raises(Fault, match="ILLEGAL"):
        start()


# -- the copies ------------------------------------------------------------------------------------


def run_copy(source, rows, cols, row):
    """The report of a copy in the emulator, from rows of `cols` elements to rows that start `row`
    apart."""
    from nogpu import emulator

    here = np.arange(rows * cols, dtype=np.uint16).reshape(rows, cols)
    there = np.full((rows, row), 9, np.uint16)
    macros = {"COLS": str(hopper.COPY_COLS), "ROWS": str(hopper.COPY_ROWS)}
    grid, block, arguments = hopper.copy_launch(there[:, :cols], here)
    given = [here, there, *arguments[2:]]
    report = emulator.launch(source, "copy_rows", grid, block, given, defines=macros, arch="sm_90")
    return report, here, there


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (37, 300), (9, 256), (8, 513), (250, 31)])
def test_the_copy_fills_rows_and_leaves_what_is_between_them(shape):
    rows, cols = shape
    report, here, there = run_copy(hopper.COPY, rows, cols, cols + 5)
    assert not report.findings
    assert np.array_equal(there[:, :cols], here) and (there[:, cols:] == 9).all()
    wrong = hopper.COPY.replace("(size_t)row * to_step", "(size_t)row * from_step")
    _, _, there = run_copy(wrong, rows, cols, cols + 5)
    assert rows == 1 or not np.array_equal(there[:, :cols], here)


# -- on a pretended GPU ----------------------------------------------------------------------------

CELLS = (
    """
import cupy, numpy as np
from helpers import numbers, plan
shape = (70, 33, 45)
A, B = numbers.operands("tiled_32", *shape)
C = cupy.full((70, 33), np.nan, np.float32)
start = plan("tiled_32", *shape).bind(cupy.asarray(A), cupy.asarray(B), C)
print(np.isnan(C.get()).all())
start()
print("wrong:", numbers.wrong_elements("tiled_32", A, B, C.get()))
C.fill(np.nan)
graph = start.graph(3)
print("captured, not run:", np.isnan(C.get()).all(), graph)
graph.launch()
print("wrong:", numbers.wrong_elements("tiled_32", A, B, C.get()))
""",
    """
other = cupy.cuda.Stream(non_blocking=True)
C.fill(np.nan)
with other:
    other.begin_capture()
    start()
    made = other.end_capture()
print("mine, not run:", np.isnan(C.get()).all())
made.launch(other)
other.synchronize()
print("wrong:", numbers.wrong_elements("tiled_32", A, B, C.get()))
""",
    """
from nogpu.errors import DtypeError, ConfigError
try:
    plan("tiled_32", *shape).bind(A, cupy.asarray(B), C)
except DtypeError as refused:
    print(refused)
k = plan("hopper_1", 8)
X = [cupy.zeros((8, 8), np.uint16) for _ in range(3)]
try:
    k.bind(*X)
except ConfigError as refused:
    print(refused)
""",
    """
shape = (40, 30, 700)
A, B = numbers.operands("fp32_sliced", *shape)
C = cupy.full((40, 30), np.nan, np.float32)
start = plan("fp32_sliced", *shape, SLICES=4).bind(cupy.asarray(A), cupy.asarray(B), C)
for _ in range(2):
    C.fill(np.nan)
    start()
    print("wrong:", numbers.wrong_elements("fp32_sliced", A, B, C.get()))
""",
)


@pytest.mark.nvrtc
def test_on_a_pretended_gpu(tmp_path):
    notebook = written(tmp_path / "bound.ipynb", *CELLS)
    [cells] = on("sm86", notebook, tmp_path / "cells.json", "--once").values()
    assert not stops(cells)
    text = text_of(cells)
    assert text.count("wrong: 0") == 5 and text.count("not run: True") == 2
    assert "launches=3" in text
    assert "must lie together" in text and "hopper_1 needs sm_90a and nothing later" in text


# -- on the device ---------------------------------------------------------------------------------

ON_A_GPU = (
    "naive", "vectorised", "fp32_best", "fp32_sliced", "wmma_tiled", "hopper_1", "hopper_5",
    "hopper_6",
)  # fmt: skip
GPU_SHAPES = ((512, 512, 512), (257, 263, 251), (1, 1, 1))


def able(name):
    """Skip where the GPU cannot run a kernel."""
    from nogpu.toolchain import runs

    gpu = device.current()
    assert gpu is not None
    if not runs(gpu.arch, catalog[name].min_arch):
        pytest.skip(f"{name} does not run on {gpu.arch}: this test did not run")


def cut(name):
    """Slices of K, where a kernel takes them."""
    return {"SLICES": 4} if "SLICES" in catalog[name].params else {}


def on_device(name, M, N, K):
    """Operands on the host, and A, B and C on the GPU."""
    import cupy

    A, B, C = given(name, M, N, K)
    return A, B, cupy.asarray(A), cupy.asarray(B), cupy.asarray(C)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", GPU_SHAPES, ids=str)
@pytest.mark.parametrize("name", ON_A_GPU)
def test_a_bound_launch_is_right(name, shape):
    able(name)
    A, B, dA, dB, C = on_device(name, *shape)
    start = plan(name, *shape, **cut(name)).bind(dA, dB, C)
    poison = numbers.poison(catalog[name].out_dtype)
    start()
    assert numbers.wrong_elements(name, A, B, C.get()) == 0
    graph = start.graph(3)
    C.fill(poison)
    graph.launch()
    assert numbers.wrong_elements(name, A, B, C.get()) == 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_A_GPU)
def test_in_two_streams_and_in_another_thread(name):
    import cupy

    able(name)
    A, B, dA, dB, _ = on_device(name, 300, 301, 303)
    outs = [on_device(name, 300, 301, 303)[-1] for _ in range(3)]
    starts = [plan(name, 300, 301, 303, **cut(name)).bind(dA, dB, C) for C in outs]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    cupy.cuda.runtime.deviceSynchronize()
    for _ in range(50):
        for start, stream in zip(starts, streams, strict=False):
            start(stream)
    faults: list[BaseException] = []

    def elsewhere():
        try:
            starts[2]()
        except BaseException as fault:
            faults.append(fault)

    thread = threading.Thread(target=elsewhere)
    thread.start(), thread.join()
    cupy.cuda.runtime.deviceSynchronize()
    assert not faults
    for C in outs:
        assert numbers.wrong_elements(name, A, B, C.get()) == 0
