"""C = alpha A B + beta C of float64 arrays, whatever holds them (NumPy, or CuPy on a GPU)."""


def reference(A, B, C=0.0, alpha=1.0, beta=0.0):
    return alpha * (A @ B) + beta * C


def magnitude(A, B, C=0.0, alpha=1.0, beta=0.0):
    """How large the terms of each sum are together, of which a rounding takes its share."""
    return reference(abs(A), abs(B), abs(C), abs(alpha), abs(beta))
