"""LLVM IR of CUDA kernels to PTX for the emulator, where clang has no NVPTX target of its own.

In goes the text that `nogpu.clang` gets from clang's optimiser (-O3 -emit-llvm, with line
directives; LLVM 21 or 22). Out comes PTX as LLVM's own back end would write it where the emulator
can see a difference: accesses as wide, products joined with sums at the same places, each
instruction with its line and the call that it was inlined from. There is no register allocation and
no scheduling. What has no translation is refused by name.

    text     the module's text as data: types, variables, functions, instructions
    places   debug locations as .file and .loc
    spaces   which memory a pointer points into
    accesses neighbouring loads and stores as one; products that become part of a sum
    values   which registers or constants a value is made of, and which values share a register
    kernel   a function, instruction by instruction
    calls    intrinsics, inline assembly, calls of functions
"""

from nogpu.ir.module import ptx

__all__ = ["ptx"]
