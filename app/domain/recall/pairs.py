"""Pairs of texts that agree in something, found for all texts together."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray


def equal_pairs(keys: Sequence[Hashable | None]) -> NDArray[np.bool_]:
    """Return which keys are equal, shape (keys, keys). A None equals nothing."""
    numbers: dict[Hashable, int] = {}
    found = np.array([-1 if key is None else numbers.setdefault(key, len(numbers)) for key in keys], np.intp)
    equal: NDArray[np.bool_] = (found >= 0) & (found[:, None] == found)
    return equal
