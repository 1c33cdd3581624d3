"""What lab 10 asks for, of each element."""


def reference(x, y, a):
    return a * x + y


def product(x, y, a):
    return a * x * y


def larger(x, y, a):
    return np.maximum(a * x, y)


def magnitude(x, y, a):
    return abs(a * x) + abs(y) + abs(a * x * y)
