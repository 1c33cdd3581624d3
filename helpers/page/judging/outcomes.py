"""What came of a reader's kernel, as data."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from helpers.ladder.launch import Trace
from helpers.ladder.usage import Resources
from helpers.record.plans import Plan, plan
from helpers.record.protocol import Spread
from helpers.record.turns import Turns
from nogpu import device
from nogpu.emulator import Finding, Report
from nogpu.errors import TileError

STOPS = frozenset(
    {
        "out-of-bounds", "misaligned", "divergent-barrier", "deadlock", "step-budget", "assert",
        "trap",
    }
)  # fmt: skip
"""Kinds of findings that may stop a GPU, or never end on it: such a kernel is not launched there.
"""


def no_time(gpu: device.LiveGpu | None, backend: str | None) -> str:
    """Why nothing runs on a GPU here, or ""."""
    if gpu is None:
        return "no GPU answers here"
    if backend == "emulator":
        return "only the emulator was asked"
    return f"the GPU no longer answers this process ({device.lost()})" if device.lost() else ""


def unsafe(findings: Iterable[Finding], backend: str | None) -> str:
    """Why a kernel that the emulator saw is kept from the GPU, or ""."""
    stops = [f.kind for f in findings if f.kind in STOPS and backend != "cuda"]
    return f"a fault of the kind {stops[0]} may stop a GPU" if stops else ""


@dataclass(frozen=True)
class Case:
    """One shape: M, N, K, where it ran ("emulator" or the GPU's name), and how C came out.

    wrong_elements: of C beyond the error bound. first: the first of them, in words. findings: the
    emulator's; of a GPU there are none. changed: those of "A" and "B" that were written to. turned:
    whether warps ran in another order than their own.
    """

    shape: tuple[int, int, int]
    where: str
    wrong_elements: int
    first: str = ""
    findings: tuple[Finding, ...] = ()
    changed: str = ""
    turned: bool = False

    @property
    def right(self) -> bool:
        """Every element of C lies within the error bound, and A and B are as they were."""
        return self.wrong_elements == 0 and not self.changed


@dataclass(frozen=True)
class Judged:
    """A text in place of a rung's kernel. plan, book: the launch that is timed, of either kernel,
    the book's with its default tile.

    arch, compiler: what it was compiled for, by whom. fault: what the compiler or the emulator
    refused; then what follows from it is missing. resources: (yours, the book's); None where no
    machine code is known. counted: traces of the two at `trying.common_tiles`. timed: in turn with
    `rival` and cuBLAS. untimed: why there is no time. lost: what the GPU said before it stopped
    answering this process.
    """

    plan: Plan
    book: Plan
    arch: str
    compiler: str = ""
    fault: TileError | None = None
    resources: tuple[Resources | None, Resources | None] = (None, None)
    cases: tuple[Case, ...] = ()
    counted: tuple[Trace, Trace] | None = None
    timed: Turns | None = None
    untimed: str = ""
    lost: str = ""

    @property
    def rival(self) -> Plan:
        """What yours is timed beside: the book's kernel, of a core the whole one."""
        b = self.book
        return plan(b.kernel.core_of, b.M, b.N, b.K) if b.kernel.core_of else b

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The faults that the emulator found, each once by kind and line, wrong results apart."""
        by_place: dict[tuple[str, int, str], Finding] = {}
        for case in self.cases:
            for f in case.findings:
                if f.kind != "wrong-result":
                    by_place.setdefault((f.kind, f.line, f.array), f)
        return tuple(by_place.values())

    @property
    def wrong_case(self) -> Case | None:
        """The first shape that came out wrong."""
        return next((case for case in self.cases if not case.right), None)

    @property
    def ok(self) -> bool:
        """It compiled, every shape is right, and nothing was found."""
        return not (self.fault or self.lost or self.findings or self.wrong_case) and bool(
            self.cases
        )


@dataclass(frozen=True)
class Tried:
    """Any kernel of any source. entry: its name. report: the emulator's; None where it refused.

    where: on what the arrays were computed that the caller's now hold. refused: what the emulator
    does not model, where a GPU ran it unseen. resources: registers, spills, stack and shared
    memory, where known. ms: a launch on the GPU. differs: from `expect` there, in
    words, an array each. left_out: what of a whole program was not compiled.
    """

    entry: str
    arch: str
    where: str = ""
    compiler: str = ""
    fault: TileError | None = None
    resources: Any = None
    report: Report | None = None
    refused: str = ""
    differs: tuple[str, ...] = ()
    ms: Spread | None = None
    untimed: str = ""
    left_out: str = ""
    lost: str = ""

    @property
    def ok(self) -> bool:
        """It ran, and nothing was found or differs."""
        clean = self.report is None or not self.report.findings
        return bool(self.where) and clean and not (self.fault or self.differs or self.lost)
