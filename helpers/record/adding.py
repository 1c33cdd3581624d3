"""A reader's own measurements, taken into the records of their copy.

Both ways out of a GPU make one form of file: `python -m helpers record` and `Measurement.save`.
What comes in is checked as what is recorded here: its form, whose it is, and whether its numbers
can be.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import catalog
from helpers.record import protocol, store
from helpers.record.entries import Point
from helpers.record.gpu import BASELINES
from helpers.record.protocol import PROTOCOL
from helpers.record.reading import outdated
from helpers.record.selection import DEFAULT_GPU, either, precision
from helpers.record.stamps import slug
from helpers.record.store import Entry, Record, shape
from nogpu import device
from nogpu.device import Gpu
from nogpu.errors import ConfigError, DataError, TileError, UnknownNameError, near_matches

OVERCLOCK = 1.35
"""How far a card's highest clock may lie above the boost clock of the table: cards are sold so."""
PAIR_SLACK = 1.5
"""How far the median of paired ratios and the ratio of the medians may lie apart."""


@dataclass(frozen=True)
class Added:
    """What was put into a record: its file, whose it is, entries new and in place of others, and,
    of those, the kernels whose code has changed since they were measured."""

    path: Path
    key: str
    gpu: str
    new: int
    replaced: int
    stale: tuple[str, ...]


def add_record(path: Path, gpu: str | None = None, *, published: bool = False) -> Added:
    """Put a file of a reader's measurements into data/measurements/<gpu>.json of their copy.

    The GPU is the one that the file names: a card of device.GPUS, or one that the file describes,
    which then stands in the table too. gpu: the record's name, where it is not a card of the table
    or shall stand apart from the book's own. What the file only repeats of the book's own record is
    left out. Entries of the file take the place of those about the same kernel, tile and size. It
    is written whole or not at all. published: whether the book's own record may be changed. Raises
    DataError for a file that is damaged, incomplete, of another version, or that holds what cannot
    be; ConfigError for a wrong name and for the published record; ImplausibleError for a rate above
    the peak.
    """
    if not path.is_file():
        raise DataError(f"there is no file {path}. Make one on the GPU: {_HOW}")
    added = store.read(path, again=f"Make the file again on that GPU: {_HOW}")
    card, key = _owner(added, gpu)
    if not any(added.data.values()):
        raise DataError(f"{path} holds no measurement. Make it again on that GPU: {_HOW}")
    for where, entry in _entries(added):
        _check(f"{path}: {where}", entry, card)
    target = store.FOLDER / f"{key}.json"
    if path.resolve() == target.resolve():
        raise ConfigError(f"{path} is the record of {key} itself: there is nothing to add")
    if key == DEFAULT_GPU and not published:
        raise ConfigError(
            f"{target.name} is the book's own record, which its sentences are held to, and this"
            f" file is of a {added.gpu['name']} too. Keep yours apart with --gpu my_{key}, or say"
            " --published to add to the book's"
        )
    books = _books_own(str(added.gpu["name"]))
    theirs = [e for _, e in _entries(added) if books.get((e.section, e.about)) != e]
    if not theirs:
        raise DataError(
            f"{path} holds the book's own times of the {added.gpu['name']} and no other: `record`"
            " goes on from them. Measure again, with --again, and add the file then"
        )
    record = store.read(target) if target.exists() else store.empty(target, added.gpu, PROTOCOL)
    if record.gpu["name"] != added.gpu["name"]:
        raise ConfigError(
            f"{target} holds times of a {record.gpu['name']}, and {path} of a {added.gpu['name']}:"
            " give the record another name with --gpu"
        )
    before, new, replaced = {(e.section, e.about) for _, e in _entries(record)}, 0, 0
    for entry in theirs:
        there = (entry.section, entry.about) in before
        record.merge(entry)
        new, replaced = new + (not there), replaced + there
    record.set_head(gpu={**record.gpu, **added.gpu})
    record.write()
    device.admit(card)
    stale = dict.fromkeys(p.kernel for p in added.of(Point) if outdated(p))
    return Added(target, key, str(added.gpu["name"]), new, replaced, tuple(stale))


def _books_own(name: str) -> dict[tuple[Any, ...], Entry]:
    """The entries of the book's own record by what they are about, if of the GPU of this name."""
    path = store.FOLDER / f"{DEFAULT_GPU}.json"
    record = store.read(path) if path.exists() else None
    if record is None or record.gpu["name"] != name:
        return {}
    return {(e.section, e.about): e for _, e in _entries(record)}


_HOW = 'python -m helpers record --out mine.json, or m.save("mine.json") in a page'


def _entries(record: Record) -> Iterator[tuple[str, Entry]]:
    for section, entries in record.data.items():
        for number, entry in enumerate(entries):
            yield f"entry {number} of {section!r}", entry


# -- whose it is -----------------------------------------------------------------------------------


def _owner(added: Record, gpu: str | None) -> tuple[Gpu, str]:
    """The GPU of a file, from the table or as the file describes it, and the name of its record."""
    facts = added.gpu
    name = str(facts["name"])
    lacking = [n for n in ("arch", "sms", "max_clock_mhz") if not facts.get(n)]
    if lacking:
        raise DataError(
            f"{added.path} does not say the {', '.join(lacking)} of its {name}: no number in it can"
            f" be held against a peak. Make the file again on that GPU: {_HOW}"
        )
    if gpu is not None and not re.fullmatch(r"[a-z0-9_]+", gpu):
        raise ConfigError(f"--gpu {gpu!r}: use lower-case letters, digits and _ (a file name)")
    known = device.named(name)
    if known is not None and not _same(added, known):
        known = None
    own = known.key if known else slug(name)
    if gpu is not None and gpu != own and gpu in device.TABLED:
        raise ConfigError(
            f"--gpu {gpu} was asked for, and {added.path} holds times of a {name}: they would stand"
            f" under the wrong name. Use --gpu {own}, or leave --gpu out"
        )
    key = gpu or own
    if known is not None and key == own:
        return known, key
    try:
        device.limits(str(facts["arch"]))
        return device.card_of(key, facts), key
    except (ConfigError, UnknownNameError) as fault:
        raise DataError(f"{added.path}: {fault}") from fault


def _same(added: Record, known: Gpu) -> bool:
    """Whether a file that bears the name of a card of the table is of that card.

    A longer name may be another card ("H100 PCIe"). The same name with other facts is somebody
    else's.
    """
    facts, name = added.gpu, str(added.gpu["name"])
    differ = [
        f"{what} {facts[field]} and not {value}"
        for field, what, value in (("arch", "architecture", known.arch), ("sms", "SMs", known.sms))
        if facts[field] != value
    ]
    if facts["max_clock_mhz"] > OVERCLOCK * known.boost_mhz:
        differ.append(f"a clock of {facts['max_clock_mhz']} MHz and not {known.boost_mhz}")
    if not differ:
        return True
    words = set(re.findall(r"[a-z0-9]+", name.lower()))
    if words - {*re.findall(r"[a-z0-9]+", known.name.lower()), "nvidia", "geforce", "tesla"}:
        return False
    raise DataError(
        f"{added.path} says that it is of a {name}, but with {', '.join(differ)}: it is not of that"
        f" card, and its times would stand under the wrong name. Make it again on that GPU: {_HOW}"
    )


# -- whether it can be -----------------------------------------------------------------------------


def _check(where: str, entry: Entry, card: Gpu) -> None:
    """Raise DataError or ImplausibleError, naming the entry, if it holds what cannot be."""
    day = str(entry.recorded["date"])
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", day) or not _is_past(day):
        raise DataError(
            f"{where} was recorded on {day!r}: that is no day of the past, as 2026-01-31"
        )
    if isinstance(entry, Point):
        _check_point(where, entry)
    name, ms = str(entry.get("kernel", "")), entry.get("ms")
    if not ms or (name not in catalog and name not in BASELINES):
        return
    size = (entry["m"], entry["n"], entry["k"])
    subject = f"{where}, {name} at {shape(size)},"
    protocol.refuse_above_peak(
        subject, protocol.gflops(*size, ms), card.peak_gflops(precision(name))
    )
    beside = entry.get("baseline_ms")
    if isinstance(entry, Point) and beside and entry.baseline in BASELINES:
        rate, peak = protocol.gflops(*size, beside), card.peak_gflops(precision(entry.baseline))
        protocol.refuse_above_peak(f"{subject} {entry.baseline} beside it,", rate, peak)


def _is_past(day: str) -> bool:
    try:
        return date.fromisoformat(day) <= date.today() + timedelta(days=1)  # the file's is UTC
    except ValueError:
        return False


def _check_point(where: str, p: Point) -> None:
    """A point's own numbers: a kernel of the book at a legal tile, figures that fit each other."""
    if p.kernel not in catalog and p.kernel not in BASELINES:
        known = near_matches(p.kernel, [*catalog, *BASELINES])
        raise DataError(f"{where} is about a kernel {p.kernel!r}, which the book has not. {known}")
    if p.kernel in catalog:
        try:
            geometry(catalog[p.kernel], *p.size, **{n: int(v) for n, v in p.params.items()})
        except TileError as refusal:
            raise DataError(f"{where}, {p.kernel}: {refusal}") from refusal
    rate, fault = protocol.gflops(*p.size, p.ms), ""
    wanted = either(p.kernel).dtype
    if not math.isclose(rate, p.gflops, rel_tol=0.01):
        fault = f"says {p.gflops:g} GFLOP/s, and {p.ms:g} ms are {rate:g}"
    elif not p.q1 <= p.ms <= p.q3:
        fault = f"has the quartiles {p.q1:g} and {p.q3:g} ms around a median of {p.ms:g}"
    elif p.dtype != wanted:
        fault = f"was measured with {p.dtype}, and {p.kernel} takes {wanted}"
    elif p.error_over_tolerance > 1:
        fault = f"is of a wrong result: its error is {p.error_over_tolerance:g} times what may be"
    elif p.cublas_ratio and p.baseline_ms:
        of = p.baseline_ms / p.ms
        if not 1 / PAIR_SLACK < p.cublas_ratio / of < PAIR_SLACK:
            fault = f"says {p.cublas_ratio:g} of {p.baseline}, whose time makes it {of:g}"
    if fault:
        raise DataError(
            f"{where}, {p.kernel} at {shape(p.size)}, {fault}: nothing is added. Make the file"
            f" again on that GPU: {_HOW}"
        )
