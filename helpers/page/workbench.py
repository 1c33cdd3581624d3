"""The loop, write, run, look, improve, in one cell: your kernel run, judged, counted and timed.

    %%cuda tiled_32 TILE=16            a text in place of a rung's kernel, with these tile sizes
    ...CUDA C++...

    %%cuda add grid=(4, 1) block=256 args=(a, b, c, n) expect={"c": a + b}      any kernel, any
    arrays ...CUDA C++, or a whole .cu file...

`mine(text, "tiled_32", TILE=16)` is the same as a call. What they give is also in the name
`verdict`. Facts come from `helpers.page.judging`; here they are put into words, the same with a GPU
and without. Importing this module inside IPython (Jupyter, Colab, VS Code) brings `%%cuda`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from helpers.ladder.kernel import Kernel
from helpers.ladder.launch import Trace
from helpers.ladder.rungs import catalog, cores, find
from helpers.notebook.remarks import TAKERS, Remark, as_html, as_text
from helpers.page import Html, judging, table
from helpers.page.judging import Judged, Tried
from helpers.page.judging.outcomes import STOPS
from helpers.record import DEFAULT_GPU, measure
from nogpu.emulator import Finding, LineAccess, Report
from nogpu.errors import (
    CompileError,
    ConfigError,
    DataError,
    ToolchainError,
    UnknownKernelError,
    near_matches,
)
from nogpu.text import without_comments

if TYPE_CHECKING:
    import pandas

    from helpers.record.turns import Turns

_SHOWN = 6  # findings that are written out
_FEW = 8  # lines whose table stands open


@dataclass(frozen=True, repr=False)
class Verdict:
    """What running a kernel showed, in order: compiled, right, clean, its memory, how fast.

    facts: the same as data. Shown as HTML in a notebook, as text elsewhere.
    """

    facts: Judged | Tried
    remarks: tuple[Remark, ...]
    parts: tuple[Any, ...] = ()

    @property
    def ok(self) -> bool:
        """It compiled, is right wherever it was tried, and nothing was found."""
        return self.facts.ok

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The emulator's findings, wrong results of `expect` included."""
        if isinstance(self.facts, Tried):
            return self.facts.report.findings if self.facts.report else ()
        return self.facts.findings

    @cached_property
    def frame(self) -> pandas.DataFrame:
        """Memory accesses by line of your kernel as a pandas DataFrame; empty if it did not run."""
        import pandas as pd

        report = _report(self.facts)
        return pd.DataFrame() if report is None else report.frame()

    @cached_property
    def times(self) -> pandas.DataFrame:
        """Times of yours, the book's kernel and cuBLAS as a DataFrame; empty without a GPU."""
        import pandas as pd

        timed = self.facts.timed if isinstance(self.facts, Judged) else None
        return pd.DataFrame(timed.rows() if timed else [])

    def __repr__(self) -> str:
        return "\n".join([as_text(self.remarks), *(f"\n{part!r}" for part in self.parts)])

    def _repr_html_(self) -> str:
        head = as_html(self.remarks, self.ok, "What was found of your kernel")
        return head + "".join(str(part._repr_html_()) for part in self.parts)


# -- the call --------------------------------------------------------------------------------------


def mine(
    source: str, kernel: Kernel | str | None = None, *, grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None, args: Sequence[Any] | None = None, entry: str = "",
    expect: Mapping[str, Any] | None = None, shared_bytes: int = 0,
    defines: Mapping[str, Any] | None = None, arch: str = "", size: int = 1024,
    backend: str | None = None, seconds: float = 20.0, **tiles: int,
) -> Verdict:  # fmt: skip
    """Run a kernel of your own: on the GPU where there is one, in the emulator where there is none.

    kernel: the rung whose place `source` takes: its entry, parameters and launch. tiles: its tile
    sizes; size: the edge of the matrices that a GPU times. Without a kernel: grid, block and args
    launch `entry` (may be left out where there is one kernel) of any source or whole .cu file;
    arrays (NumPy or CuPy) are changed in place; expect, shared_bytes, defines, arch as for
    `emulator.launch`. backend: "emulator" leaves a GPU alone, "cuda" launches whatever the emulator
    found. seconds: for one launch in the emulator. What is wrong with the source is said in the
    Verdict. Raises UnknownKernelError, ConfigError or EmulationError for a call that fits no
    kernel, NoGPUError for "cuda" where there is no GPU.
    """
    if not isinstance(source, str) or not source.strip():
        raise ConfigError(
            f"the source is {type(source).__name__ if source else 'empty'}: give CUDA C++ as text"
        )
    launch = {"grid": grid, "block": block, "args": args}
    if kernel is None:
        lacking = [name for name, value in launch.items() if value is None]
        if lacking:
            raise ConfigError(
                f"no rung is named, and {', '.join(lacking)} is not given: name the rung whose"
                ' place your kernel takes, mine(source, "tiled_32"), or give grid, block and'
                " args"
            )
        if tiles:
            raise ConfigError(
                f"{', '.join(tiles)}: tile sizes belong to a rung; give macros as "
                f"defines={dict(tiles)}"
            )
        assert grid is not None and block is not None and args is not None
        return of_program(
            judging.try_program(
                source, grid, block, args, entry=entry, expect=expect, shared_bytes=shared_bytes,
                defines=defines, arch=arch, backend=backend, seconds=seconds,
            )
        )  # fmt: skip
    options = [name for name, value in launch.items() if value is not None]
    if options:
        raise ConfigError(
            f"{kernel if isinstance(kernel, str) else kernel.name} brings its own launch: leave "
            f"{', '.join(options)} out, or leave the rung out and give entry={entry or 'name'!r}"
        )
    k = find(kernel).with_params(**tiles)
    return of_rung(judging.judge(source, k, size=size, backend=backend, seconds=seconds))


# -- words: a rung ---------------------------------------------------------------------------------


def of_rung(j: Judged) -> Verdict:
    """The words of a text in place of a rung's kernel."""
    remarks = [*_compiled(j)]
    if isinstance(j.fault, CompileError | ConfigError | ToolchainError) and not j.cases:
        return Verdict(j, tuple(remarks))
    if j.fault is not None:
        remarks.append(
            Remark(f"The emulator does not run it: {j.fault}", None if j.cases else False)
        )
    remarks += [*_results(j), *_findings(j.findings)]
    if j.lost:
        remarks.append(Remark(j.lost, False))
    remarks += _time(j)
    parts: list[Any] = []
    if j.counted:
        parts.append(memory(*j.counted))
        parts.append(_folded("Line by line", by_line(j.counted[0].report)))
    if j.timed:
        parts.append(_bars(j.rival.kernel, j.timed))
    return Verdict(j, tuple(remarks), tuple(parts))


def _compiled(j: Judged) -> Iterator[Remark]:
    if isinstance(j.fault, CompileError):
        yield _refused(j.fault)
        return
    if isinstance(j.fault, ToolchainError):
        yield Remark(f"it was not compiled: {j.fault}", False)
        return
    if isinstance(j.fault, ConfigError):
        yield Remark(f"It compiles, and cannot be launched: {j.fault}", False)
        return
    yours, books = j.resources
    what = f"compiled for {j.arch} by {j.compiler}"
    if yours is None:
        yield Remark(f"{what}; registers and spills are not known here", True)
        return
    beside = f" ({j.book.kernel.name}: {books.registers})" if books else ""
    yield Remark(
        f"{what}: {yours.registers} registers a thread{beside}, {_spills(yours)}, "
        f"{yours.shared_bytes:,} bytes of shared memory a block",
        True,
    )
    try:
        _ = yours.occupancy  # refused where not one block fits on an SM
    except ConfigError as lacking:
        yield Remark(f"a GPU of {j.arch} refuses this launch: {lacking}")


def _spills(r: Any) -> str:
    spilled = r.spill_stores + r.spill_loads
    return f"{spilled} bytes spilled to local memory" if spilled else "no spills"


_NO_ERROR = re.compile(r": warning|^Remark: ")
"""Marks a paragraph of a compiler's log that names no error."""


def _refused(fault: CompileError) -> Remark:
    parts = re.split(r"\n\s*\n", fault.log)
    log = "\n\n".join(p for p in parts if not _NO_ERROR.search(p)).strip()
    hint = f" {fault.hint}" if fault.hint else ""
    return Remark(f"it does not compile.{hint}", False, log or str(fault))


def _shape(shape: tuple[int, int, int]) -> str:
    return "x".join(map(str, shape))


def _results(j: Judged) -> Iterator[Remark]:
    """For each place where it ran: right at which shapes, or where it is wrong first."""
    for where in dict.fromkeys(case.where for case in j.cases):
        cases = [case for case in j.cases if case.where == where]
        place = "in the emulator" if where == "emulator" else f"on the {where}"
        failed = next((case for case in cases if not case.right), None)
        if failed is None:
            at = f"{', '.join(_shape(c.shape) for c in cases)} (MxNxK)"
            if any(f.kind in STOPS for case in cases for f in case.findings):
                yield Remark(
                    f"a GPU would stop at what is found below, or wait for ever; {place}, which "
                    f"goes on, C is right at {at}"
                )
            else:
                yield Remark(f"right {place} at {at}", True)
            continue
        head = f"wrong {place} at {_shape(failed.shape)} (MxNxK)"
        if failed.turned:
            head += ", with warps in another order"
        if failed.changed:
            names = " and ".join(failed.changed)
            yield Remark(f"{head}: it writes to {names}, which its caller may read again", False)
            continue
        by = next((f for f in failed.findings if f.kind == "wrong-result"), None)
        if by is None:
            yield Remark(
                f"{head}: {failed.first or f'{failed.wrong_elements} elements of C differ'}", False
            )
        else:
            code = f"{by.line:4d} | {by.text.strip()}" if by.text.strip() else ""
            yield Remark(f"{head}, line {by.line}: {by.message}", False, code)


def _findings(findings: Sequence[Finding], clean: str = "") -> Iterator[Remark]:
    for f in findings[:_SHOWN]:
        times = f" ({f.count} times)" if f.count > 1 else ""
        code = f"{f.line:4d} | {f.text.strip()}" if f.text.strip() else ""
        if f.other_line and f.other_line != f.line:
            code += f"\n{f.other_line:4d} | {f.other_text.strip()}"
        yield Remark(f"line {f.line}, {f.kind}{times}: {f.message}", False, code)
    if len(findings) > _SHOWN:
        yield Remark(f"{len(findings) - _SHOWN} more findings: `verdict.findings` holds all", False)
    if not findings and clean:
        yield Remark(clean, True)


def _time(j: Judged) -> Iterator[Remark]:
    t = j.timed
    if t is None:
        yield Remark(f"not timed: {j.untimed}" if j.untimed else "not timed")
        return
    unit = "Gop/s" if j.book.kernel.flop_item == "op" else "GFLOP/s"
    over = t.over_book.median
    versus = (
        f"as fast as {j.rival.kernel.name}, within the spread of the pairs"
        if t.over_book.q1 <= 1 <= t.over_book.q3
        else f"{over:.2f} times as fast as {j.rival.kernel.name}"
    )
    ratio = f"{100 * t.over_library.median:.1f} %" if t.over_library else ""
    library = f", {ratio} of cuBLAS ({j.book.kernel.baseline})" if ratio else ""
    yield Remark(
        f"{t.ms['yours'].median:.4g} ms at {_shape(t.size)} on the {t.gpu}, "
        f"{t.rates['yours']:,.0f} {unit}: {versus}{library}, timed in turn",
        True if over >= 1 or t.over_book.q3 >= 1 else None,
    )


def memory(yours: Trace, books: Trace) -> Html:
    """A table of what your kernel and the book's ask of memory, on the same shape."""
    name = books.plan.kernel.name
    shape = _shape((yours.plan.M, yours.plan.N, yours.plan.K))

    # The operation of a Tensor Core multiplies whole tiles.
    tensor = any("mma." in op for op in yours.report.instructions)
    work = "tile products" if tensor else "multiply-adds"

    def row(what: str, of: Any) -> dict[str, Any]:
        ours, theirs = of(yours), of(books)
        times = ours / theirs if ours and theirs and ours != theirs else None
        return {"asked of memory": what, "yours": ours, name: theirs, "times the book's": times}

    def ratio(t: Trace, space: str, what: str) -> float | None:
        rows = [r for r in t.by_line() if r.space == space]
        requests = sum(r.requests for r in rows)
        return sum(getattr(r, what) for r in rows) / requests if requests else None

    rows = [
        row("loads from global memory (requests)", lambda t: t.requests("global")),
        row("their sectors of 32 bytes", lambda t: t.sectors()),
        row("sectors of the stores", lambda t: t.sectors("store")),
        row("sectors a request", lambda t: ratio(t, "global", "sectors")),
        row(
            "requests to shared memory",
            lambda t: t.requests("shared") + t.requests("shared", "store"),
        ),
        row("their wavefronts", lambda t: t.wavefronts),
        row("wavefronts a request", lambda t: ratio(t, "shared", "wavefronts")),
        row(f"{work} of a warp", lambda t: t.multiply_adds),
        row(
            f"{work} for each wavefront",
            lambda t: t.multiply_adds / t.wavefronts if t.wavefronts else None,
        ),
    ]
    shown = [r for r in rows if any(r[c] for c in ("yours", name))]
    if not any(r["times the book's"] for r in shown):
        shown = [{c: r[c] for c in ("asked of memory", "yours", name)} for r in shown]
    caption = f"{shape} (MxNxK), counted in the emulator: yours beside the book's {name}"
    if yours.plan.params != books.plan.params:
        caption += ", which has " + ", ".join(f"{n}={v}" for n, v in books.plan.params.items())
    return table(shown, caption=f"{caption}.", formats=dict.fromkeys(list(shown[0])[1:], _count))


def _count(value: float) -> str:
    """Counts as whole numbers, ratios with three digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def by_line(report: Report) -> Html | None:
    """A table of every line that touches memory."""
    rows = [_access(a) for a in report.by_line()]
    if not rows:
        return None
    return table(
        rows, columns=list(rows[0]), caption="What each line asks of memory, summed over all warps."
    )


def _access(a: LineAccess) -> dict[str, Any]:
    glob = a.space == "global"
    return {
        "line": a.line, "source": a.text.strip(), "array": a.array, "op": f"{a.space} {a.op}",
        "requests": a.requests,
        "sectors a request": a.sectors_per_request if glob else None,
        "wavefronts a request": a.wavefronts_per_request if a.space == "shared" else None,
    }  # fmt: skip


def _folded(title: str, inside: Html | None) -> Html:
    if inside is None:
        return Html("", "")
    return Html(f"<details><summary>{title}</summary>{inside.html}</details>", inside.text)


def _bars(book: Kernel, t: Turns) -> Any:
    """Yours, the book's and cuBLAS as measured here, over what is recorded of the last two."""
    from helpers import draw as plots

    recorded = []
    for name in (book.name, book.baseline):
        with suppress(DataError, UnknownKernelError, ConfigError):
            recorded.append(measure(name, t.size[0], gpu=DEFAULT_GPU))
    return plots.bars([*t.rows(), *recorded])


# -- words: any program ----------------------------------------------------------------------------


def of_program(t: Tried) -> Verdict:
    """The words of any kernel of any source."""
    if isinstance(t.fault, CompileError):
        return Verdict(t, (_refused(t.fault),))
    if isinstance(t.fault, ToolchainError):
        return Verdict(t, (Remark(f"it was not compiled: {t.fault}", False),))
    remarks = [Remark(_built(t), True)]
    if t.left_out:
        remarks.append(
            Remark(
                "left out, since only the host runs it: "
                f"{t.left_out.removeprefix('not compiled: ')}"
            )
        )
    if t.fault is not None:
        remarks.append(Remark(f"it did not run: {t.fault}", False))
    if t.refused:
        remarks.append(Remark(f"the emulator does not run it: {t.refused}"))
    differ = [f for f in t.report.findings if f.kind == "wrong-result"] if t.report else []
    other = [f for f in t.report.findings if f.kind != "wrong-result"] if t.report else []
    if t.where:
        place = f"on the {t.where}; the arrays hold its results"
        place = "in the emulator" if t.where == "emulator" else place
        remarks.append(Remark(f"ran {place}"))
    clean = "nothing found: no race, every access in bounds" if t.report and t.fault is None else ""
    remarks += [*_findings(differ), *_findings(other, clean)]
    remarks += [Remark(f"on the {t.where}: {words}", False) for words in t.differs]
    if t.lost:
        remarks.append(Remark(t.lost, False))
    if t.ms:
        remarks.append(
            Remark(f"{t.ms.median:.4g} ms a launch on the {t.where} ({t.ms.count} launches)")
        )
    elif t.untimed:
        remarks.append(Remark(f"not timed: {t.untimed}"))
    if t.report and t.report.output:
        remarks.append(Remark("it printed:", None, t.report.output.rstrip("\n")))
    lines = by_line(t.report) if t.report else None
    if t.report and lines and len(t.report.by_line()) > _FEW:
        lines = _folded("Line by line", lines)
    return Verdict(t, tuple(remarks), (lines,) if lines else ())


def _built(t: Tried) -> str:
    head = f"`{t.entry}` compiled for {t.arch} by {t.compiler}"
    if t.resources is None:
        return f"{head}; registers and spills are not known here"
    r = t.resources
    return (
        f"{head}: {r.registers} registers a thread, {_spills(r)}, {r.shared_bytes:,} bytes of "
        "static shared memory"
    )


def _report(facts: Judged | Tried) -> Report | None:
    if isinstance(facts, Tried):
        return facts.report
    return facts.counted[0].report if facts.counted else None


# -- the magic -------------------------------------------------------------------------------------


def cell_magic(line: str, body: str, names: MutableMapping[str, Any] | None = None) -> Any:
    """What `%%cuda LINE` over BODY does; names: the notebook's, for values of the line.

    A body without code stands for the book's own text of that rung. A name of `TAKERS` is theirs,
    but for one with arrays of the reader's own. Lines are counted as in the cell. Raises
    ConfigError for a line that is no rung or kernel followed by name=value.
    """
    space: MutableMapping[str, Any] = {} if names is None else names
    head, options = _options(line, space)
    if head in TAKERS and "args" not in options:
        if options:
            raise ConfigError(
                f"%%cuda {head}: it is launched as it is asked for; leave {', '.join(options)} out"
            )
        space["verdict"] = taken = TAKERS[head](f"\n{body.rstrip()}\n")
        return taken
    if _PYTHON.search(body) and "__global__" not in body:
        raise ConfigError(
            f"%%cuda {head}: this cell holds Python. Without its first line it runs as Python; a "
            "cell of %%cuda holds CUDA C++ alone"
        )
    empty = not without_comments(body).strip()
    if (head in catalog or head in cores) and "args" not in options:
        text = find(head).source if empty else f"\n{body.rstrip()}\n"
        verdict = mine(text, head, **options)
    elif "args" in options:
        if empty:
            raise ConfigError(
                f"%%cuda {head}: the cell has no code below this line; write the kernel there"
            )
        verdict = mine(f"\n{body.rstrip()}\n", entry=head, **options)
    elif re.fullmatch(r"lab\d+", head):
        raise UnknownKernelError(
            f"%%cuda {head}: no such lab was begun here; run the first cell of its notebook, then "
            "this one"
        )
    else:
        raise UnknownKernelError(
            f"%%cuda {head or '(nothing)'}: name a rung first, as in `%%cuda tiled_32 TILE=16`, or "
            "a kernel of your own with grid=, block= and args=. "
            f"{near_matches(head, [*catalog, *cores])}"
        )
    space["verdict"] = verdict
    return verdict


_PYTHON = re.compile(r"^(?:import \w|from [\w.]+ import |def \w+\(.*\):|print\()", re.MULTILINE)
"""A line as Python has it, and CUDA C++ has not at its left edge."""


def _options(line: str, names: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The first word, and the values of name=value after it, with commas or without."""
    text = line.strip()
    first = re.match(r"[\w:]+(?:<[^=]*>)?(?=\s|,|$)", text)
    head = first.group() if first else ""
    rest = text[len(head) :].strip(" ,")
    spaced = ", ".join(re.split(r"[\s,]+(?=\w+\s*=[^=])", rest))
    for candidate in (rest, spaced):
        try:
            call = ast.parse(f"f({candidate})", mode="eval").body
        except SyntaxError:
            continue
        assert isinstance(call, ast.Call)
        if not call.args and all(k.arg for k in call.keywords):
            return head, {str(k.arg): _value(k.value, names) for k in call.keywords}
    raise ConfigError(
        f"%%cuda {text}: after the kernel's name come options such as TILE=16, size=2048, or "
        "grid=(4, 1) block=256 args=(a, b, n)"
    )


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    code = compile(ast.Expression(node), "<%%cuda>", "eval")
    try:
        return eval(code, dict(names))  # the reader's own notebook, in which they may run anything
    except NameError as fault:
        raise ConfigError(f"%%cuda: {fault}; run the cell that makes it first") from None


def register() -> bool:
    """Bring `%%cuda` to the running IPython; whether there is one."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return False

    def cuda(line: str, cell: str) -> Any:
        return cell_magic(line, cell, shell.user_ns)

    shell.register_magic_function(cuda, "cell", "cuda")
    return True


register()
