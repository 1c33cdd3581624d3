"""What lab 9 asks for: each element and its four neighbours, with three ways beyond the edge."""


def stencil(X, a, b, mode):
    wide = np.pad(X, 1, mode=mode)
    return a * X + b * (wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:])


def reference(X, a, b):
    return stencil(X, a, b, "constant")


def clamped(X, a, b):
    return stencil(X, a, b, "edge")


def around(X, a, b):
    return stencil(X, a, b, "wrap")


def magnitude(X, a, b):
    """As large as any of the three."""
    return abs(a * X) + 4 * abs(b) * abs(X).max()
