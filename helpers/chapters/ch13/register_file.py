"""What a main loop's multiply-adds ask of the register file, read off its machine code."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from helpers.ladder.kernel import Kernel
from helpers.ladder.rungs import find
from nogpu import toolchain
from nogpu.toolchain import SassInstruction

VEC = 4
"""Registers that a 16-byte read of shared memory fills."""


@dataclass(frozen=True)
class Operands:
    """The main loop's FFMA and their operands.

    ffma: how many there are. reuse: those that keep an operand for the next one (.reuse). alike:
    those whose three sources are registers of one parity. behind: FFMA behind the last barrier
    before the first that needs a fragment read there; after the loop's end comes its beginning.
    registers: of a thread. instructions: of the loop.
    """

    ffma: int
    reuse: int
    alike: int
    behind: int
    registers: int
    instructions: int

    @property
    def share(self) -> float:
        """Percent of the loop that multiplies."""
        return 100 * self.ffma / self.instructions


def sources(operands: str) -> list[int]:
    """Registers that an FFMA reads, by number; fewer than three where one is RZ or a constant."""
    return [int(number) for number in re.findall(r"\bR(\d+)", operands.split(",", 1)[1])]


def behind(loop: Sequence[SassInstruction]) -> int:
    """FFMA between the loop's last barrier and the first that needs a 16-byte read behind it."""
    barrier = max((at for at, i in enumerate(loop) if i.opcode.startswith("BAR")), default=-1)
    filled: set[int] = set()
    passed = 0
    for i in (*loop[barrier + 1 :], *loop[: max(barrier, 0)]):
        if i.opcode.startswith("LDS.128"):
            first = int(re.findall(r"\bR(\d+)", i.operands)[0])
            filled |= set(range(first, first + VEC))
        elif i.opcode.startswith("FFMA"):
            if filled & set(sources(i.operands)):
                break
            passed += 1
    return passed


def operands(kernel: Kernel | str, *, arch: str = "sm_90", **defines: int) -> Operands:
    """The operands of a kernel's main loop, compiled with its tile and with other macros.

    defines: macros of its file, tile sizes among them. Raises CompileError where they do not fit,
    and what the compiler raises.
    """
    k = find(kernel)
    macros = {name: str(value) for name, value in {**k.params, **defines}.items()}
    built = toolchain.compile(k.source, name=k.file, arch=arch, defines=macros)
    loop = toolchain.main_loop(*toolchain.sass_instructions(built.cubin, k.entry))
    ffma = [i.operands for i in loop if i.opcode.startswith("FFMA")]
    three = [sources(each) for each in ffma]
    return Operands(
        ffma=len(ffma), reuse=sum(".reuse" in each for each in ffma),
        alike=sum(len(s) == 3 and len({number % 2 for number in s}) == 1 for s in three),
        behind=behind(loop), registers=built.kernels[k.entry].registers, instructions=len(loop),
    )  # fmt: skip
