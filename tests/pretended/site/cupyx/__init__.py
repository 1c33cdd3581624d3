"""As much of cupyx as this book uses."""

from __future__ import annotations

import numpy as np


def empty_pinned(shape, dtype=float, order="C"):
    return np.empty(shape, dtype, order)
