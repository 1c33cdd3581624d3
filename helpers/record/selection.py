"""Which kernels, sizes and GPU a call is about; and what a record holds, in words."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.ladder.kernel import Kernel, geometry
from helpers.ladder.rungs import catalog
from helpers.record.gpu import BASELINES, PRECISION, Baseline
from helpers.record.store import Size
from nogpu.errors import ConfigError, UnknownKernelError, near_matches

DEFAULT_GPU = "h200"
"""The record that is replayed when a chapter does not name one."""
Selected = tuple[str | Kernel, str, dict[str, int]]
"""A kernel or the name of a baseline, its name, and the tile sizes to run it with."""


def name_of(kernel: str | Kernel) -> str:
    return kernel.name if isinstance(kernel, Kernel) else kernel


def size_of(size: int | Sequence[int]) -> Size:
    """(M, N, K) of an edge or of three numbers."""
    edges = (size,) * 3 if isinstance(size, int) else tuple(size)
    if len(edges) != 3 or any(isinstance(n, bool) or int(n) != n or n < 1 for n in edges):
        raise ConfigError(f"{size=}: give an edge such as 1024, or M, N, K as (1024, 1024, 768)")
    return (int(edges[0]), int(edges[1]), int(edges[2]))


def parse_size(text: str) -> tuple[int, int, int]:
    """(M, N, K) of "1024" or "1024x1024x768"."""
    parts = text.strip().lower().split("x")
    if len(parts) not in (1, 3) or not all(p.isdigit() and int(p) > 0 for p in parts):
        raise ConfigError(f"size {text!r}: give an edge such as 1024, or MxNxK as 1024x1024x768")
    numbers = [int(p) for p in parts]
    m, n, k = numbers * 3 if len(numbers) == 1 else numbers
    return m, n, k


def listing(rows: Iterable[Any], names: Sequence[str] = ()) -> str:
    """What a record holds: each kernel with its sizes (an edge alone where the shape is a cube).

    names: where any of these is held, those alone.
    """
    rows = list(rows)
    rows = [row for row in rows if row["kernel"] in names] or rows
    sizes: dict[str, list[str]] = {}
    for row in rows:
        m, n, k = row["m"], row["n"], row["k"]
        sizes.setdefault(row["kernel"], []).append(str(m) if m == n == k else f"{m}x{n}x{k}")
    texts = (f"{name} at {', '.join(dict.fromkeys(at))}" for name, at in sizes.items())
    return "; ".join(texts) or "nothing yet"


def select(
    kernels: str | Kernel | Sequence[str | Kernel], params: dict[str, int]
) -> list[Selected]:
    """Each kernel or baseline asked for, with its name and the tile sizes that it will run with."""
    items = [kernels] if isinstance(kernels, str | Kernel) else list(kernels)
    result: list[Selected] = []
    for item in items:
        if isinstance(item, str) and item in BASELINES:
            result.append((item, item, {}))
            continue
        if isinstance(item, str) and item not in catalog:
            names = [*catalog, *BASELINES]
            raise UnknownKernelError(f"no kernel is called {item!r}. {near_matches(item, names)}")
        k = item if isinstance(item, Kernel) else catalog[item]
        result.append((k, k.name, dict(geometry(k, 4096, 4096, 4096, **params).params)))
    return result


def runnable_names(supports: Callable[[str], bool], wanted: tuple[str, ...] = ()) -> list[str]:
    """Kernels and baselines to measure, cuBLAS first, so that an early stop leaves the yardstick.

    wanted: names; empty: all that this GPU can run.
    """
    known = [*BASELINES, *catalog]
    able = (name for name in known if wanted or supports(either(name).min_arch))
    return [name for name in able if not wanted or name in wanted]


def either(name: str) -> Baseline | Kernel:
    """A baseline, or a kernel of the catalog, by its name."""
    return BASELINES[name] if name in BASELINES else catalog[name]


def precision(name: str) -> str:
    """Whose peak bounds the rate of a baseline or a kernel: "fp32", "tf32", "int32"."""
    return BASELINES[name].precision if name in BASELINES else PRECISION[catalog[name].dtype]


@dataclass(frozen=True)
class Rows:
    """Rows of a record that are no kernel times, with their provenance in words."""

    gpu: str
    label: str
    rows: tuple[Any, ...]
    live: bool = False
