"""Codes of the activations of an encoder: how the inputs of its dense layers become 8 bits, fitted for one model.

A channel of an input is `center + step * (code - zero)`. Centers and steps are constants, so that a graph quantises in
one node, and multiplies, scales and adds the bias in another one. A text's vector depends on no other of its batch.

Each layer has four inputs: of the attention, of its output, and of the two inner layers. The last one comes from GELU,
which has no large negative values, so it has no center, and fewer codes below zero than above.
"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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
    """Return the codes of a file: each array as its shape, and as float16 in lines of base64."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    return ActivationCodes(
        center=_read_array(stored["center"]),
        step=_read_array(stored["step"]),
        inner_step=_read_array(stored["inner_step"]),
    )


def _read_array(stored: dict[str, Any]) -> NDArray[np.float32]:
    values = np.frombuffer(base64.b64decode("".join(stored["lines"])), "<f2")
    return values.reshape(stored["shape"]).astype(np.float32)
