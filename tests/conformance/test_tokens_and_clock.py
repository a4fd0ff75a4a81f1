"""The token counter and the clock."""

from datetime import UTC, datetime, timedelta

import pytest

from app.ports import Clock, TokenCounter
from app.providers.clock import SystemClock
from app.providers.tokens import WordPieceCounter


@pytest.fixture(scope="module")
def counter() -> TokenCounter:
    """The real vocabulary."""
    return WordPieceCounter(cache_size=2)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("   ", 0), ("hello world", 2), ("Hello, World!", 4), ("embeddings", 4), ("東京", 2), ("x" * 101, 1)],
)
def test_word_pieces_without_special_tokens(counter: TokenCounter, text: str, tokens: int) -> None:
    assert counter.count(text) == tokens
    assert counter.count(text) == tokens


def test_nothing_is_cut_off(counter: TokenCounter) -> None:
    assert counter.count("tea " * 5000) == 5000


def test_the_clock_tells_utc() -> None:
    clock: Clock = SystemClock()
    before = datetime.now(UTC)
    now = clock.now()
    assert now.utcoffset() == timedelta()
    assert before <= now <= datetime.now(UTC)
