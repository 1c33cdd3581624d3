"""A host function that nobody trusts: followed, and what it asks of a device done in its place.

`nogpu.command.host` reads it and follows it to each call; here memory is arrays of bytes, a copy
copies them, and a launch runs in the emulator. What no GPU would do, and what luck alone orders, is
a finding. Nothing of it is compiled or run on this machine. Source: CUDA runtime API, memory
management, stream management, and API synchronization behavior.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from nogpu.command.host import Program
from nogpu.command.library import FUNCTIONS
from nogpu.command.values import Array, Cell, Launched, Pointer, Stop, Unknown
from nogpu.emulator import Report
from nogpu.emulator.launching.declarations import C_TYPES
from nogpu.errors import TileError
from nogpu.text import without_comments

MOST_BYTES = 1 << 28
"""Of all arrays that are there at a time."""
_HARMLESS = re.compile(r"cuda(?:Get|Peek|Event|Func|Device|Set)")
Finding = tuple[str, int, str]
Touched = tuple[Pointer, int, int, bool]


@dataclass
class Did:
    """What was done so far. own: arrays and streams to be given back, by id; pending: (stream,
    array, from, to, written) of what the host has not waited for; used: by stream how far each
    kind of work reached in its arrays.
    """

    text: str
    launch: Callable[..., Report]
    own: dict[int, Any] = field(default_factory=dict)
    pending: list[tuple[int, Array, int, int, bool]] = field(default_factory=list)
    used: dict[int, Counter[str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    copied: int = 0

    def say(self, kind: str, name: str, words: str, line: int = 0) -> None:
        """Note a finding about a call, with its line where there is one such call."""
        places = [m.start() for m in re.finditer(rf"\b{name}\s*\(", self.text)]
        line = line or (self.text[: places[0]].count("\n") + 1 if len(places) == 1 else 0)
        self.findings.append((kind, line, f"{name} {words}"))

    def place(self, pointer: Any, size: Any, name: str, does: str, line: int = 0) -> Any:
        """The bytes of memory that a call means (size None: to the end), or None and a finding."""
        unread = [
            v for v in (pointer, size, getattr(pointer, "offset", None)) if isinstance(v, Unknown)
        ]
        raw = vars(pointer.array).get("room") if isinstance(pointer, Pointer) else None
        if unread:
            self.say("not-followed", name, f"{does} what is not known here: {unread[0].why}", line)
        elif raw is None:
            self.say("out-of-bounds", name, f"{does} memory that is not there, or was freed", line)
        else:
            at, array = int(pointer.offset), pointer.array
            end = len(raw) if size is None else at + int(size)
            if 0 <= at <= end <= len(raw):
                return raw[at:end]
            words = f"{does} bytes {at:,} to {end:,} of {array.name}, which has {len(raw):,}"
            self.say("out-of-bounds", name, words, line)
        return None

    def order(self, stream: Any, does: str, touched: Sequence[Touched], name: str,
              line: int = 0) -> None:  # fmt: skip
        """Enter what a stream does (pointer, first and last byte behind it, whether it writes)."""
        stream = stream if isinstance(stream, int) else 0
        self.used.setdefault(stream, Counter())[does] += sum(b for _, _, b, _ in touched)
        new = [(stream, p.array, p.offset + a, p.offset + b, w) for p, a, b, w in touched]
        for _, array, a, b, w in new:
            if stream and any(
                s not in (0, stream) and other is array and a < d and c < b and (w or x)
                for s, other, c, d, x in self.pending
            ):
                where = f"touches {array.name} in one stream while another does"
                self.say("race", name, f"{where}, and nothing orders", line)
        self.pending += new


def _allocated(did: Did, values: Any, name: str, answer: Any) -> None:
    pointer = answer if isinstance(answer, Pointer) else getattr(values[0], "value", None)
    size = pointer.array.bytes if isinstance(pointer, Pointer) else Unknown("no pointer is given")
    left = MOST_BYTES - sum(a.bytes for a in did.own.values() if isinstance(a, Array))
    if isinstance(pointer, Pointer) and isinstance(size, int) and 0 < size <= left:
        vars(pointer.array)["room"] = np.full(size, 255, np.uint8)  # as floats they are no numbers
        did.own[id(pointer.array)] = pointer.array
    else:
        why = size.why if isinstance(size, Unknown) else f"{size:,} bytes"
        did.say("not-followed", name, f"asks for what is not known, for none or too much: {why}")


def _freed(did: Did, values: Any, name: str, answer: Any) -> None:
    if "Async" not in name:
        did.pending.clear()
    array = getattr(values[0], "array", None)
    if array is not None and id(array) in did.own and values[0].offset == 0:
        del did.own[id(array)], vars(array)["room"]
    elif values[0] is not None:
        did.say("invalid-free", name, "is given what was not asked for, or was freed before")


def _copied(did: Did, values: Any, name: str, answer: Any) -> None:
    to, source, size, kind, stream = (*values, "", "")[:5]
    target = did.place(to, size, name, "writes")
    origin = did.place(source, size, name, "reads")
    if target is None or origin is None:
        return
    ends = ["Device" if p.array.device else "Host" for p in (source, to)]
    real = f"cudaMemcpy{ends[0]}To{ends[1]}"
    stated = kind[-1] if isinstance(kind, tuple) else f"{kind!r}"
    direction = "cudaMemcpyHostToHost" if name == "memcpy" else stated
    if direction not in (real, "cudaMemcpyDefault"):
        stated = f"is told {direction} from {source.array.name} to {to.array.name}, which is {real}"
        did.say("wrong-direction", name, stated)
        return
    target[:] = origin
    if ends[0] != ends[1]:
        did.copied += len(origin)
    if "Async" in name:
        touched = [(source, 0, len(origin), False), (to, 0, len(origin), True)]
        did.order(stream, "copy", touched, name)
    elif name != "memcpy":
        did.pending.clear()


def _set(did: Did, values: Any, name: str, answer: Any) -> None:
    pointer, value, size, stream = (*values, 0)[:4]
    target = did.place(pointer, size, name, "writes")
    if target is not None:
        target[:] = int(value) & 255
        did.order(stream, "set", [(pointer, 0, len(target), True)], name)


def _stream(did: Did, values: Any, name: str, answer: Any) -> None:
    one = values[0]
    if "Create" in name and isinstance(one, Cell):
        one.value = len(did.used) + 1
        did.used[one.value] = Counter()
        did.own[-one.value] = name
    elif not (isinstance(one, int) and did.own.pop(-one, "")):
        did.say("invalid-free", name, "is given what is no stream, or no longer")


def _waited(did: Did, values: Any, name: str, answer: Any) -> None:
    [one] = values if name == "cudaStreamSynchronize" else [0]
    did.pending[:] = [p for p in did.pending if one and p[0] not in (one, 0)]


_DOES = (
    ("cudaMalloc cudaMallocAsync cudaMallocManaged cudaMallocHost cudaHostAlloc", _allocated),
    ("malloc calloc", _allocated),
    ("cudaFree cudaFreeAsync cudaFreeHost free", _freed),
    ("cudaMemcpy cudaMemcpyAsync memcpy", _copied),
    ("cudaMemset cudaMemsetAsync memset", _set),
    ("cudaStreamCreate cudaStreamCreateWithFlags cudaStreamDestroy", _stream),
    ("cudaDeviceSynchronize cudaStreamSynchronize", _waited),
    ("cudaEventSynchronize cudaStreamWaitEvent", _waited),  # a kind reading: all of it is over
)
CALLS = {name: does for names, does in _DOES for name in names.split()}
"""What is done in place of which of CUDA's functions."""


class _Followed(Program):
    """A program whose launches run where they stand, each time they are made."""

    did: Did

    def launch(self, name: str, given: Any, grid: Any, block: Any, shared: Any, cluster: Any,
               args: Sequence[Any], scope: Any, cooperative: bool = False) -> None:  # fmt: skip
        self._launched.clear()
        before = len(self.events)
        super().launch(name, given, grid, block, shared, cluster, args, scope, cooperative)
        for event in self.events[before:]:
            if isinstance(event, Launched):
                _launched(self.did, event, self.stream, event.line)


def _launched(did: Did, event: Launched, stream: Any, line: int) -> None:
    """Run a launch. What it reads of other arrays is taken to be as long as what it writes."""
    args, arrays = [], []
    for value in event.args:
        if isinstance(value, Pointer):
            raw = did.place(value, None, event.entry, "is given", line)
            if raw is None:
                return
            if not value.array.device:
                message = f"is given {value.array.name}, which is memory of the host"
                did.say("out-of-bounds", event.entry, message, line)
                return
            kind = np.dtype(C_TYPES.get(value.kind or value.array.kind, ("float32",))[0])
            arrays.append((value, raw, raw.copy()))
            value = raw[: len(raw) // kind.itemsize * kind.itemsize].view(kind)
        args.append(value)
    for unknown in (v for v in (event.grid, event.block, *args) if isinstance(v, Unknown)):
        message = f"is launched with what is not known: {unknown.why}"
        did.say("not-followed", event.entry, message, line)
        return
    try:
        did.reports.append(did.launch(event.entry, event.grid, event.block, args, event.shared))
    except TileError as error:
        did.say("refused-launch", event.entry, f"is refused: {error}", line)
        return
    changed = [(pointer, np.flatnonzero(raw != was)) for pointer, raw, was in arrays]
    spans = [(int(at[0]), int(at[-1]) + 1) for _, at in changed if len(at)]
    if spans:
        first, last = min(a for a, _ in spans), max(b for _, b in spans)
        touched = [(pointer, first, last, bool(len(at))) for pointer, at in changed]
        did.order(stream, "launch", touched, event.entry, line)


def run(
    source: str, entry: str, given: Mapping[str, Any], launch: Callable[..., Report]
) -> tuple[list[Report], list[Finding], dict[str, int]]:
    """Follow a function that is given these arrays and numbers; arrays are changed in place.

    launch: runs (entry, grid, block, args, shared). Returned are the launches, what was found
    beside them (kind, line or 0, words), and counts: bytes `copied` between host and device, what
    was `leaked` (arrays and streams), `streams` that launched, and copied an eighth of it or more.
    """
    did, values = Did(without_comments(source), launch), []
    program = _Followed(source, {}, {})
    program.did = did
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            array = Array(name, value.nbytes, device=False)
            vars(array)["room"] = value.ravel().view(np.uint8)
            value = Pointer(array, 0, "")
        values.append(value if isinstance(value, int | Pointer) else float(value))

    def called(does: Any, before: Any, program: Any, values: Any, scope: Any, name: str) -> Any:
        answer = before(program, values, scope, name) if before else 0
        try:
            does(did, values, name, answer)
        except (TypeError, ValueError, IndexError, AttributeError):
            did.say("not-followed", name, "is called with other arguments than it has")
        return answer

    for name in sorted(set(re.findall(r"\b(cuda[A-Z]\w*)\s*\(", did.text))):
        if name not in CALLS | dict(FUNCTIONS) and not _HARMLESS.match(name):
            did.say("not-followed", name, "is no function that is known here")
    calls = {name: partial(called, does, FUNCTIONS.get(name)) for name, does in CALLS.items()}
    with mock.patch.dict(FUNCTIONS, calls):  # type: ignore[arg-type]
        try:
            program.call(program.functions[entry][0], values, [])
        except (Stop, RecursionError) as stop:
            did.findings.append(("not-followed", 0, f"{entry} ends there: {stop}"))
    if any(not array.device for _, array, *_ in did.pending):
        did.say("unsynchronised", entry, "returns while copies of the host's are on their way")
    both = sum(
        bool(stream and what["launch"] and what["copy"] * 4 >= did.copied)  # touched at both ends
        for stream, what in did.used.items()
    )
    counts = {"copied": did.copied, "leaked": len(did.own), "streams": both}
    return did.reports, did.findings, counts
