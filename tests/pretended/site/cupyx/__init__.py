"""As much of cupyx as this book uses."""

from __future__ import annotations

from typing import Any

import numpy as np


def empty_pinned(shape: Any, dtype: Any = float, order: str = "C") -> np.ndarray:
    return np.empty(shape, dtype, order)
