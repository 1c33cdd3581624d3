"""What lab 8 asks for: softmax of each row, of numbers of any size."""


def reference(X, t=1.0):
    e = np.exp(t * X - (t * X).max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def softmin(X):
    return reference(-X)
