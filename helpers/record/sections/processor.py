"""Section "host": times of the CPU loops and of NumPy, which helpers.record.host takes and merges."""

from __future__ import annotations

from dataclasses import dataclass

from helpers.record.store import Count, Entry, Key, Note, Positive, Text


@dataclass(frozen=True)
class HostTime(Entry, section="host", required=True):
    """One product on one core of the machine that the GPU is in; runs: how many were timed."""

    kernel: Key[Text]
    m: Key[Count]
    n: Key[Count]
    k: Key[Count]
    ms: Positive
    q1: Positive
    q3: Positive
    runs: Count
    gflops: Positive
    cpu: Text
    threads: Count
    compiler: Text
    recorded: Note
