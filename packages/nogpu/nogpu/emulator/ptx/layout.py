"""Where memory lies in the addresses of a program: facts for who translates and for who runs it.

Global arrays live at virtual addresses 64 GiB apart, each in the middle of its own slot, so an
address tells which array was meant, however far outside it lies. Addresses of the other spaces
become generic ones in windows of their own, far above.
"""

from __future__ import annotations

SLOT_BITS = 36
HEAP_SLOT = 1 << 17
HEAPS = 1 << 12
"""The device heap lies in one of so many slots from here on, another one in each launch."""
SYMBOL_SLOT = 1 << 16
"""Module variables live in slots from here on: their addresses are known when translating."""
SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 1 << 57
WINDOW_SIZE = 1 << 32
RANK_SHIFT = 24
"""An address of another block's shared memory carries its rank in the cluster plus one from this
bit on; one of the own block carries nothing there.
"""
RANKS = 254
"""Ranks that such an address can name; a block of a higher one is none, and so is the last of
these.
"""
PARAM_BASE = 1 << 58
"""Kernel parameters, for code that takes their address."""
FUNCTION_BASE = 1 << 59
"""Device functions, for pointers to them."""


def symbol_address(slot: int) -> int:
    """Address of the module variable with this number."""
    return ((SYMBOL_SLOT + slot) << SLOT_BITS) + (1 << (SLOT_BITS - 1))


GRID_WORKSPACE = symbol_address(HEAP_SLOT - 1 - SYMBOL_SLOT)
"""Where the driver keeps the barrier of a cooperative launch: two words, the second counts."""
GROUPS_SCRATCH = "%reserved_smem_offset_1"
"""Where cooperative groups keep what the warps of a tile tell each other, from sm_80 on."""
SCRATCH_BYTES = 288
"""Of that: barriers, room for later, 8 bytes for each warp. Source: multi_warp_scratch in
cooperative_groups/details/memory.h, for 1024 threads.
"""
