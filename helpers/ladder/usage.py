"""What a compiled kernel uses: registers, spills, shared memory, instructions of its loop."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from helpers.ladder.kernel import Geometry, Kernel
from helpers.ladder.model import Occupancy, occupancy
from helpers.ladder.rungs import lay_out
from nogpu import toolchain
from nogpu.device import limits
from nogpu.errors import ConfigError

_ANY = (4096, 4096, 4096)
"""A shape that every kernel takes: what is compiled does not depend on it."""


def compile_launch(launch: Geometry, arch: str = "") -> toolchain.Compiled:
    """Compile the kernel of a launch with its tile sizes for arch (default: its min_arch).

    Raises ConfigError if the source holds no entry under its plain name, and the errors of
    `toolchain.compile`.
    """
    k = launch.kernel
    built = toolchain.compile(
        k.source, name=k.source_name, arch=arch or k.min_arch, defines=launch.defines
    )
    if k.entry not in built.kernels and not isinstance(built.kernels, toolchain.Unassembled):
        raise ConfigError(
            f"{k.source_name} has no kernel {k.entry}, but {', '.join(built.kernels) or 'none'}: "
            f'declare it as extern "C" __global__ void {k.entry}(...)'
        )
    return built


@dataclass(frozen=True)
class Resources:
    """Registers (a thread), spills, stack and shared memory (bytes) of one compiled kernel."""

    kernel: str
    arch: str
    params: Mapping[str, int]
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared_bytes: int
    threads: int
    compiler: str = ""

    @property
    def occupancy(self) -> Occupancy:
        """Resident warps of one SM of this architecture, and what limits them."""
        return occupancy(limits(self.arch), self.threads, self.registers, self.shared_bytes)


def resources(kernel: Kernel | str, arch: str = "sm_75", **params: int) -> Resources:
    """`resources_of` a kernel of the catalog, by its name."""
    return resources_of(lay_out(kernel, *_ANY, **params), arch)


def resources_of(launch: Geometry, arch: str) -> Resources:
    """Compile the kernel of a launch for arch and report what a thread and a block of it need.

    Raises ConfigError if the tile is illegal, needs a newer arch, or exceeds a block's shared
    memory.
    """
    k = launch.kernel
    if toolchain.arch_number(arch) < toolchain.arch_number(k.min_arch):
        raise ConfigError(f"{k.name} needs {k.min_arch} or later, and {arch} was asked for")
    built = compile_launch(launch, arch)
    r = built.kernels[k.entry]
    shared = r.shared_bytes + launch.shared_bytes
    most = limits(arch).shared_per_block_optin
    if shared > most:
        raise ConfigError(
            f"{k.name} with {dict(launch.params)} needs {shared} bytes of shared memory a block; "
            f"{arch} has at most {most}. Choose smaller tiles or fewer stages."
        )
    return Resources(
        k.name,
        arch,
        launch.params,
        r.registers,
        r.spill_stores,
        r.spill_loads,
        r.stack,
        shared,
        launch.threads,
        built.assembler,
    )


def _family(opcode: str) -> str:
    """Opcode without the modifiers that do not matter to a reader; access widths stay."""
    parts = opcode.split(".")
    width = next((p for p in parts[1:] if p in ("64", "128")), "")
    return parts[0] + (
        f".{width}" if width and parts[0] in ("LDS", "STS", "LDG", "STG", "LDGSTS") else ""
    )


def instruction_mix(kernel: Kernel | str, arch: str = "sm_75", **params: int) -> dict[str, int]:
    """Instructions of the main loop by family (FFMA, LDS.128, LDG ...), most frequent first."""
    return instruction_mix_of(lay_out(kernel, *_ANY, **params), arch)


def instruction_mix_of(launch: Geometry, arch: str) -> dict[str, int]:
    """`instruction_mix` of a launch."""
    built = compile_launch(launch, arch)
    loop = toolchain.main_loop(*toolchain.sass_instructions(built.cubin, launch.kernel.entry))
    return dict(Counter(_family(i.opcode) for i in loop).most_common())
