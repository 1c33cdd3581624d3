"""Modules of machine code, loaded from memory."""

from __future__ import annotations

from cupy.cuda.kernels import Function, from_cubin


class Module:
    """A cubin that was compiled in this process."""

    def load(self, cubin):
        self._made = from_cubin(cubin)

    def get_function(self, name):
        return Function(self._made, name)
