"""The token counter and the clock."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ports import Clock, TokenCounter
from app.providers.clock import SystemClock
from app.providers.tokens import WordPieceCounter

WORDS = WordPieceCounter()
PIECES = [
    " ",
    "  ",
    "\x1c",
    "\t",
    "\n",
    "\u00a0",
    "\u2028",
    "\u0300",
    "é",
    "ΑΣ",
    "İ",
    "你好",
    "[MASK]",
    "[",
    "x" * 101,
    "can't",
    "tea",
    "7.",
]


@pytest.fixture(scope="module")
def counter() -> TokenCounter:
    """Return a counter with the real vocabulary."""
    return WordPieceCounter(cache_size=2)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("   ", 0), ("hello world", 2), ("Hello, World!", 4), ("embeddings", 4), ("東京", 2), ("x" * 101, 1)],
)
def test_word_pieces_without_special_tokens(counter: TokenCounter, text: str, tokens: int) -> None:
    assert counter.count_tokens(text) == tokens
    assert counter.count_tokens(text) == tokens


@given(st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_word_by_word_there_are_as_many_as_in_the_whole(text: str) -> None:
    assert WORDS.count_tokens(text) == WORDS._count_wordpieces(text)


def test_nothing_is_cut_off(counter: TokenCounter) -> None:
    assert counter.count_tokens("tea " * 5000) == 5000


def test_the_clock_tells_utc() -> None:
    clock: Clock = SystemClock()
    before = datetime.now(UTC)
    now = clock.now()
    assert now.utcoffset() == timedelta()
    assert before <= now <= datetime.now(UTC)
