"""The pool of device memory, which here is the host's."""

from __future__ import annotations


class OutOfMemoryError(MemoryError):
    def __init__(self, size, allocated):
        super().__init__(
            f"Out of memory allocating {size:,} bytes (allocated so far: {allocated:,} bytes)."
        )


class MemoryPool:
    def free_all_blocks(self):
        """Nothing is kept."""
