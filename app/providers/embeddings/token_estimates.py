"""Estimates of the tokens of texts for models whose tokenizer is not known, and texts cut to fit a window."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

UNIT: Final = 10
"""The weights are tenths of a token, so that their sums are exact."""
LONGEST_WORD: Final = 60
"""The most characters that are left out so that a cut text ends with a whole word."""


def _make_weights() -> NDArray[np.int64]:
    """Return the weight of each byte of UTF-8.

    Tokenizers keep common words whole and fall back to digits, characters and bytes. The weights are above what
    English, German, Russian and Chinese take with the tokenizers of current models: about 1.3 tokens an English word,
    and one and a half a Chinese character.
    """
    weights = np.full(256, UNIT, np.int64)  # digits and punctuation
    weights[[*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1)]] = 3
    weights[[ord(blank) for blank in " \t\n\r"]] = 4
    weights[128:] = 5  # a byte of another script: a letter has two or three
    return weights


_WEIGHTS: Final = _make_weights()


def estimate_text_tokens(text: str) -> int:
    """Return an estimate of the tokens of `text`, rather too high than too low."""
    return -(-int(_WEIGHTS[_to_bytes(text)].sum()) // UNIT)


def cut_to_tokens(text: str, most: int) -> str:
    """Return the beginning of `text` that has at most `most` tokens by estimate, cut at a word end if possible."""
    content = _to_bytes(text[: 4 * most + 1])  # no four characters are less than a token
    sums = np.cumsum(_WEIGHTS[content])
    if not sums.size or sums[-1] <= most * UNIT:
        return text
    end = int(np.searchsorted(sums, most * UNIT, side="right"))
    fitting = content[:end].tobytes().decode("utf-8", "ignore")
    whole_words, _, rest = fitting.rpartition(" ")
    shown = whole_words if whole_words and len(rest) <= LONGEST_WORD else fitting
    return text[: len(shown) or 1]


def _to_bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
