"""The other half, waiting: clocks in which one warp alone waits for what it asked, by its machine
code."""

import re
from collections.abc import Mapping, Sequence

from nogpu.toolchain import SassInstruction

ALU_CLOCKS = 4
"""Clocks from an arithmetic instruction to one that needs it (Jia et al., arXiv 1804.06826, Volta).
"""
_REGISTER = re.compile(r"\bR(\d+)\b")
_ALLOWED = re.compile(r"SB\d+, 0x([0-9a-f]+)")
_READ_ONLY = ("STS", "STG", "LDGSTS", "BAR", "ISETP", "FSETP", "BRA")
"""Opcodes whose first operand is no register that they write."""


def waits(loop: Sequence[SassInstruction], latencies: Mapping[str, float]) -> float:
    """Clocks in which a warp alone waits in one round of a main loop for what it loads.

    The warp walks the loop in order, one instruction a clock, and stops where a register that it
    reads has not come; what it waits for arithmetic is not counted. latencies: clocks of "LDG",
    "LDS", "LDSM", and of "LDGSTS" (cp.async: DEPBAR waits for the groups that may not be under way
    any more). The last of four rounds counts, so that what was asked for a round ahead has come.
    Barriers and busy units cost nothing.
    """
    ready: dict[int, tuple[float, bool]] = {}
    groups: list[float] = []
    group = clock = waited = 0.0
    for _ in range(4):
        waited = 0.0
        for i in loop:
            kind, *words = i.opcode.split(".")
            registers = [int(r) for r in _REGISTER.findall(i.operands)]
            writes_none = kind in _READ_ONLY
            reads = registers if writes_none else registers[1:]
            clock += 1
            known = [ready[r] for r in reads if r in ready]
            arithmetic = max([clock, *(at for at, loaded in known if not loaded)])
            loads = max([arithmetic, *(at for at, loaded in known if loaded)])
            if kind == "DEPBAR":
                allowed = _ALLOWED.search(i.operands)
                left = int(allowed[1], 16) if allowed else 0
                loads = max([loads, *groups[: max(0, len(groups) - left)]])
            waited += loads - arithmetic
            clock = loads
            if kind == "LDGSTS":
                group = max(group, clock + latencies["LDGSTS"])
            elif kind == "LDGDEPBAR":
                groups.append(group)
            elif registers and not writes_none:
                loaded = kind in latencies
                came = clock + latencies.get(kind, ALU_CLOCKS)
                for r in range(registers[0], registers[0] + _wide(kind, words)):
                    ready[r] = came, loaded
    return waited


def _wide(kind: str, words: Sequence[str]) -> int:
    """How many registers an instruction writes."""
    if kind == "HMMA":
        return 4
    if kind == "LDSM":
        return int(words[-1]) if words[-1] in ("2", "4") else 1
    return next((int(w) // 32 for w in words if w in ("64", "128")), 1)
