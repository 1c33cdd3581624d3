"""What lab 7 asks for: a number, and the sum of a vector's elements added to it."""


def reference(x, s):
    return s + x.sum()


def squares(x, s):
    return s + (x * x).sum()


def sizes(x, s):
    return s + abs(x).sum()


def magnitude(x, s):
    return abs(s) + (abs(x) + x * x).sum()
