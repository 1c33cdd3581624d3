"""Which lane holds which element of the operands of mma.sync.m16n8k16, by the PTX manual."""


def holder_a(row: int, k: int) -> tuple[int, int]:
    """Lane, slot 0 to 7 of A[row, k]; slots 2i, 2i + 1 share register i."""
    return row % 8 * 4 + k % 8 // 2, (row // 8 + k // 8 * 2) * 2 + k % 2


def holder_b(k: int, col: int) -> tuple[int, int]:
    """Lane, slot 0 to 3 of B[k, col]."""
    return col * 4 + k % 8 // 2, k // 8 * 2 + k % 2


def holder_c(row: int, col: int) -> tuple[int, int]:
    """Lane, slot 0 to 3 of C[row, col]."""
    return row % 8 * 4 + col // 2, row // 8 * 2 + col % 2


OPERANDS = {"A": (16, 16, holder_a), "B": (16, 8, holder_b), "C": (16, 8, holder_c)}
"""Rows, columns and holder of each operand."""
