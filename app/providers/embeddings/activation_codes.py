"""Codes of the activations of an encoder: how the inputs of its dense layers become 8 bits, fitted for one model.

A channel of an input is `center + step * (code - zero)`. Centers and steps are constants, so that a graph quantises in
one node, and multiplies, scales and adds the bias in another one. A text's vector depends on no other of its batch.

Each layer has four inputs: of the attention, of its output, and of the two inner layers. The last one comes from GELU,
which has no large negative values, so it has no center, and fewer codes below zero than above.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

ZERO: Final = 128
"""The code of the center of a channel."""
GELU_ZERO: Final = 32
"""The code of 0 in the channels that come from GELU."""
CODES: Final = 255
"""The highest code."""


@dataclass(frozen=True, slots=True)
class ActivationCodes:
    """The codes of all layers.

    `center` and `step` are of the first three inputs, shape (layers, 3, width), `inner_step` of the last one, shape
    (layers, inner width).
    """

    center: NDArray[np.float32]
    step: NDArray[np.float32]
    inner_step: NDArray[np.float32]


def read_codes(path: Path) -> ActivationCodes:
    """Return the codes of a file."""
    with np.load(path, allow_pickle=False) as stored:
        return ActivationCodes(*(stored[name].astype(np.float32) for name in ActivationCodes.__slots__))


def write_codes(codes: ActivationCodes, path: Path) -> None:
    """Write the codes into a file, as float16."""
    arrays = {name: getattr(codes, name).astype(np.float16) for name in ActivationCodes.__slots__}
    np.savez_compressed(path, **arrays)
