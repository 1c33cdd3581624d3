"""As much of CuPy as this book uses, on NumPy: for a process that pretends to have a GPU."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from tests.pretended import machines, products

__version__ = "14.0.1"

_used_bytes = 0


def _need_room(nbytes):
    """Raise OutOfMemoryError as CuPy does where an array does not fit."""
    total = machines.here().properties["totalGlobalMem"]
    if _used_bytes + nbytes > total:
        from cupy.cuda.memory import OutOfMemoryError

        raise OutOfMemoryError(nbytes, _used_bytes)


def _allocate(nbytes, owner):
    """Count the memory of an array, until nobody holds it."""
    global _used_bytes
    _need_room(nbytes)
    _used_bytes += nbytes
    weakref.finalize(owner, _release, nbytes)


def _release(nbytes):
    global _used_bytes
    _used_bytes -= nbytes


_arrays: dict[int, list[weakref.ref[ndarray]]] = {}
"""Arrays of the device by address, as long as somebody holds them."""


def _at(address):
    """The array that begins at an address: of several the largest."""
    live = [x for ref in _arrays.get(address, []) if (x := ref()) is not None]
    _arrays[address] = [weakref.ref(x) for x in live]
    return sorted(live, key=lambda x: x._host.size)[-1]


class _Owner:
    """Stands for a piece of device memory."""


def _bare(x):
    return x._host if isinstance(x, ndarray) else x


class ndarray(NDArrayOperatorsMixin):
    """An array on the device. Like CuPy's it does not turn into a NumPy array by itself."""

    __array_priority__ = 100

    def __init__(self, host, owner=None):
        self._host = host
        if owner is None:
            owner = _Owner()
            _allocate(host.nbytes, owner)
        self._owner = owner
        beside = _arrays.setdefault(host.ctypes.data, [])
        beside[:] = [ref for ref in beside if ref() is not None]
        beside.append(weakref.ref(self))

    def __getattr__(self, name):
        if name.startswith("__"):  # an array of the host tells NumPy where its numbers lie
            raise AttributeError(name)
        found = getattr(self.__dict__["_host"], name)  # shape, dtype, strides, flags, size ...
        if not callable(found):
            return found

        def method(*args, **named):
            named = {k: _bare(v) for k, v in named.items()}
            return _made(found(*(_bare(a) for a in args), **named))

        return method

    @property
    def data(self):
        return SimpleNamespace(ptr=self._host.ctypes.data)

    @property
    def T(self):
        return ndarray(self._host.T, self._owner)

    def get(self, stream=None, out=None, blocking=True):
        from cupy import cuda

        stream = stream or cuda.get_current_stream()
        stream._copy(self._host.nbytes, "d2h")
        if out is None:
            out = np.empty_like(self._host)
        out[...] = self._host
        if blocking:
            stream.synchronize()
        return out

    def set(self, arr, stream=None):
        from cupy import cuda

        if not isinstance(arr, np.ndarray) or arr.shape != self.shape or arr.dtype != self.dtype:
            raise TypeError(
                "Only numpy.ndarray of the same shape and dtype can be set to cupy.ndarray"
            )
        (stream or cuda.get_current_stream())._copy(arr.nbytes, "h2d")
        self._host[...] = arr

    def view(self, dtype):
        return ndarray(self._host.view(dtype), self._owner)

    def reshape(self, *shape):
        return ndarray(self._host.reshape(*shape), self._owner)

    def __getitem__(self, index):
        if isinstance(index, ndarray) and self.ndim == 2:
            products.rows_of[:] = [index._host]
        index = tuple(map(_bare, index)) if isinstance(index, tuple) else _bare(index)
        found = np.asarray(self._host[index])
        own = None if found.base is None else self._owner
        return ndarray(found, own)

    def __setitem__(self, index, value):
        _refuse_host(value)
        index = tuple(map(_bare, index)) if isinstance(index, tuple) else _bare(index)
        self._host[index] = _bare(value)

    def __array__(self, *_, **__):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct"
            " a NumPy array explicitly."
        )

    def __array_ufunc__(self, ufunc, method, *inputs, **named):
        for x in (*inputs, *named.get("out", ())):
            _refuse_host(x)
        if "out" in named:
            named["out"] = tuple(map(_bare, named["out"]))
        return _made(getattr(ufunc, method)(*map(_bare, inputs), **named))

    def __array_function__(self, function, _types, args, named):
        return _made(function(*map(_bare, args), **{k: _bare(v) for k, v in named.items()}))


for _name in ("len", "float", "int", "bool", "repr", "str"):  # as of the numbers themselves
    setattr(ndarray, f"__{_name}__", lambda self, _of=f"__{_name}__": getattr(self._host, _of)())


def _refuse_host(x):
    if isinstance(x, np.ndarray) and x.ndim:
        raise TypeError(f"Unsupported type {type(x)}")


def _made(x):
    """An array of the device, from what NumPy made of its arrays."""
    return ndarray(np.asarray(x)) if isinstance(x, np.ndarray | np.generic) else x


def asarray(a, dtype=None):
    if isinstance(a, ndarray) and (dtype is None or a.dtype == dtype):
        return a
    from cupy import cuda

    host = np.array(_bare(a), dtype=dtype, order="C", copy=True)
    cuda.get_current_stream()._copy(host.nbytes, "h2d")
    return ndarray(host)


def _new(maker):
    def make(*args, **named):
        return ndarray(maker(*map(_bare, args), **named))

    return make


def _touched(shape, dtype=np.float64, order="C"):
    _need_room(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize)
    return np.zeros(shape, dtype, order)


empty, zeros, ones, full = _new(_touched), _new(np.zeros), _new(np.ones), _new(np.full)
empty_like = zeros_like = _new(np.zeros_like)


def _applied(function):
    def apply(*args, **named):
        for x in args:
            _refuse_host(x)
        return _made(function(*map(_bare, args), **{k: _bare(v) for k, v in named.items()}))

    return apply


sqrt, square, abs, isnan, where = map(_applied, (np.sqrt, np.square, np.abs, np.isnan, np.where))
inf, nan = np.inf, np.nan


def dot(a, b, out=None):
    """The library's product."""
    from cupy import cuda

    for x in (a, b):
        _refuse_host(x)
    result = np.matmul(a._host, b._host)
    (m, k), n = a.shape, b.shape[1]
    cuda.get_current_stream()._work(cuda._seconds("dot", m, n, k, str(a.dtype), library=True))
    if out is None:
        return ndarray(result)
    out._host[...] = result
    return out


def get_default_memory_pool():
    from cupy.cuda import memory

    return memory.MemoryPool()


from cupy import cuda  # noqa: E402
from cupy.cuda.kernels import RawKernel, RawModule  # noqa: E402

__all__ = ["RawKernel", "RawModule", "asarray", "cuda", "ndarray"]


def __getattr__(name):
    raise AttributeError(
        f"the pretended CuPy has no {name}; add it in tests/pretended/site/cupy if a page uses it"
    )
