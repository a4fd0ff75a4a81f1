"""Batches of texts that can be written together, because no text of a batch can match another one."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def independent_batches(
    vectors: Sequence[NDArray[np.float32]], keys: Sequence[bytes | None], closest: float, most: int
) -> list[range]:
    """Cut a sequence of texts, in order, into batches of at most `most`.

    `vectors` are unit vectors. `keys` are equal for equal texts, and None for a text that is not compared. In a batch
    no two compared texts are equal or have a cosine of `closest` or more. So comparing each text with the stored ones
    gives the same result as writing the texts one after the other.
    """
    batches = []
    start = 0
    for at in range(len(vectors)):
        if at - start == most or _conflicts_with_batch(vectors, keys, range(start, at), at, closest):
            batches.append(range(start, at))
            start = at
    return [*batches, range(start, len(vectors))] if len(vectors) else []


def _conflicts_with_batch(
    vectors: Sequence[NDArray[np.float32]], keys: Sequence[bytes | None], before: range, at: int, closest: float
) -> bool:
    if keys[at] is None:
        return False
    compared = [earlier for earlier in before if keys[earlier] is not None]
    if any(keys[earlier] == keys[at] for earlier in compared):
        return True
    return bool(compared) and float(np.max(np.stack([vectors[i] for i in compared]) @ vectors[at])) >= closest
