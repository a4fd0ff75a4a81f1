"""Which texts of a row can be written together: those that have nothing to say to each other."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def independent_batches(
    vectors: Sequence[NDArray[np.float32]], keys: Sequence[bytes | None], closest: float, most: int
) -> list[range]:
    """Cut a row of texts, in order, into runs of at most `most`.

    `vectors` are unit vectors; `keys` are equal for equal texts and None for a text that is compared with none. Within
    a run no two compared texts are equal or have a cosine of `closest` or more, so comparing each with what is stored
    finds all that comparing it after the ones before it would.
    """
    found, start = [], 0
    for at in range(len(vectors)):
        if at - start == most or _conflicts_with_batch(vectors, keys, range(start, at), at, closest):
            found.append(range(start, at))
            start = at
    return [*found, range(start, len(vectors))] if len(vectors) else []


def _conflicts_with_batch(
    vectors: Sequence[NDArray[np.float32]], keys: Sequence[bytes | None], before: range, at: int, closest: float
) -> bool:
    if keys[at] is None:
        return False
    compared = [one for one in before if keys[one] is not None]
    if any(keys[one] == keys[at] for one in compared):
        return True
    return bool(compared) and float(np.max(np.stack([vectors[one] for one in compared]) @ vectors[at])) >= closest
