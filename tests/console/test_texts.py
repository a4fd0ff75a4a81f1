"""Texts made visible, and the words that a change removed and added: correct, and linear in their length."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mnema_client import NotAllowed

from console.differences import compare_words
from console.errors import explain_error
from console.texts import reveal_text, shorten_text
from tests.effort import tries

LONG = 2 << 20
MOST_S = 5.0
SHORT_WORDS = st.lists(st.sampled_from(["a", "b", "  ", "é", ".", "word", "\n"]), max_size=40).map("".join)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pay\u202egnp.exe", "pay[U+202E]gnp.exe"),
        ("a\u2066b\u2069", "a[U+2066]b[U+2069]"),
        ("ad\u200bmin", "ad[U+200B]min"),
        ("ad\u200cmin", "ad[U+200C]min"),
        ("\ufeffx\x00\x1b[31m", "[U+FEFF]x[U+0000][U+001B][31m"),
        ("\U000e0041", "[U+E0041]"),
        ("a\u3164b\u2800", "a[U+3164]b[U+2800]"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("क्\u200dष", "क्\u200dष"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("x\ufe0f", "x[U+FE0F]"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("10\u00a0000", "10 000"),
        ("Z" + "\u0301" * 50, "Z" + "\u0301" * 4),
        ("Zoë, naïve, Ωmega, 日本語", "Zoë, naïve, Ωmega, 日本語"),
        ("<b>&amp;</b>", "<b>&amp;</b>"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_a_code(text: str, shown: str) -> None:
    assert reveal_text(text) == shown


@given(st.text(alphabet=st.characters(), max_size=200))
def test_nothing_that_reorders_or_hides_is_left(text: str) -> None:
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    shown = reveal_text(text)
    assert not [char for char in shown if unicodedata.bidirectional(char) in bidi]
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cs", "Co", "Cn") and char not in "\n\t"]


def test_a_long_text_is_cut_and_says_so() -> None:
    assert reveal_text("x" * 30, limit=10) == "xxxxxxxxxx… [20 more characters]"
    assert shorten_text("many   words\nof a text", 12) == "many words…"


@pytest.mark.long
@pytest.mark.parametrize("unit", ["a", "\u0301", "\u202e", "👩\u200d", "a ", "word, "])
def test_making_visible_is_linear(unit: str) -> None:
    text = unit * (LONG // len(unit))
    began = time.process_time()
    reveal_text(text, limit=len(text))
    shorten_text(text)
    assert time.process_time() - began < MOST_S


def test_differences_are_words() -> None:
    pieces = compare_words("Maya drinks oat milk.", "Maya drinks soy milk today.")
    assert [(piece.kind, piece.text) for piece in pieces] == [
        ("same", "Maya drinks "),
        ("removed", "oat"),
        ("added", "soy"),
        ("same", " milk"),
        ("added", " today"),
        ("same", "."),
    ]


@given(SHORT_WORDS, SHORT_WORDS)
def test_differences_make_the_new_text_from_the_old_one(old: str, new: str) -> None:
    pieces = compare_words(old, new)
    assert "".join(piece.text for piece in pieces if piece.kind != "added") == old
    assert "".join(piece.text for piece in pieces if piece.kind != "removed") == new
    assert all(piece.text for piece in pieces)


@pytest.mark.parametrize(("old", "new"), [("a b ", "b a "), ("x", "y"), ("a ", "a ")])
def test_differences_of_long_texts_take_bounded_time(old: str, new: str) -> None:
    began = time.process_time()
    compare_words(old * tries(100_000), new * tries(100_000))
    assert time.process_time() - began < 2 * MOST_S


def test_an_unknown_agent_is_not_a_matter_of_the_key() -> None:
    error = NotAllowed({"status": 403, "code": "unknown_agent", "detail": "did you mean 'planner'?"})
    assert explain_error(error)[0] == "No such agent"


def test_an_unknown_error_shows_no_detail() -> None:
    title, reason = explain_error(RuntimeError("secret"))
    assert "secret" not in title + reason
