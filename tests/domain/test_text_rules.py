"""Normalisation, limits, trimming and text keys."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.code_points import MAX_MARKS
from app.domain.errors import EmptyText, InvalidInput, NulByte, TextTooLong, TooManyMarks
from app.domain.text_rules import (
    TextLimits,
    check_text,
    cut_at_word,
    keeps_lines,
    normalise_text,
    one_line,
    split_text,
    text_key,
    trim_text,
)

TYPES = ("semantic", "episodic", "insight", "turn", "summary", "chunk", "procedural")
STORABLE = st.text(st.characters(exclude_categories=("Cs",)))
HOSTILE = st.text(
    st.one_of(
        st.characters(exclude_categories=("Cs",)),
        st.sampled_from(
            "\x00\t\n\r\x0b\x0c\x1c\x85\xa0\xad\u0301\u0345\u200b\u200d\u200f\u2028\u202e\u3000\ufeff’“ .e"
            "\u034f\u0338\u0627\u0654\u0915\u093c\u094d\u09c7\u09be\u0f73\u200c\u2194\u2adc\u2764\ufe0f\U0001f469\U000e0041"
        ),
    )
)


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("  likes \t wine \n a lot ", "likes wine a lot"),
        ("Ana’s “best” friend‘s ‚note‘ „so‟", "Ana's \"best\" friend's 'note' \"so\""),
        ("cafe\u0301", "café"),
        ("a\x00b\x07c\x7fd\x9fe", "abcde"),
        ("pass\u200bword \u202eevil\u202c \u2066x\u2069\ufeff\u200e\u200f", "password evil x"),
        ("soft\xadhyphen", "softhyphen"),
        ("e\u200b\u0301", "é"),
        ("non\xa0breaking\u3000wide", "non breaking wide"),
        ("one\x85two\u2028three", "one two three"),
        ("👩\u200d👩\u200d👧 می\u200cخواهم", "👩\u200d👩\u200d👧 می\u200cخواهم"),
        ("👩🏽\u200d🚀 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3", "👩🏽\u200d🚀 ❤\u200d🔥 1\u20e3"),
        ("क्\u200dष ക്\u200d ශ්\u200dරී", "क्\u200dष ക്\u200d ශ්\u200dරී"),
        ("pass\u200cword\u200d 1\u200d2 👍\u200d\u200d👍 می\u200c\u200c\u200dخواهم", "password 12 👍👍 می\u200cخواهم"),
        ("e\u094d\u200dx", "e\u094dx"),  # a mark is no joining letter
        ("tags\U000e0001\U000e0020\U000e0041\U000e007f vs\ufe01\ufe0f\U000e0100", "tags vs"),
        ("a\u180eb\u2061c\u2064d\u206ae\u115ff\u1160g\u3164h\uffa0i\u034fj\ufff9k\U0001d173l", "abcdefghijkl"),
        ("٥\u06dd آية \u0600١", "٥\u06dd آية \u0600١"),  # visible, though of category Cf
        ("a\u2800b", "a b"),
        ("\n \t", ""),
    ],
)
def test_normalise(raw: str, clean: str) -> None:
    assert normalise_text(raw) == clean


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("one\r\ntwo\rthree\nfour", "one\ntwo\nthree\nfour"),
        ("a  \n\n\n\n  b   c  ", "a\n\n b c"),
        ("\n\n a \n\n", "a"),
        ("1. open\n\t2.  close ", "1. open\n 2. close"),
        ("one\x85two\u2029three", "one\ntwo\nthree"),
        ("a\n \u200b \n\nb", "a\n\nb"),
    ],
)
def test_normalise_keeps_lines(raw: str, clean: str) -> None:
    assert normalise_text(raw, keep_lines=True) == clean


@pytest.mark.parametrize("raw", ["\ud800", "text \udfff", "\ud83d and \ude00"])
def test_lone_surrogates_are_refused(raw: str) -> None:
    with pytest.raises(NulByte) as refused:
        normalise_text(raw)
    assert refused.value.code == "invalid_characters"


@given(HOSTILE, st.booleans())
@example("e\u200b\u0301\n\n \n\nx", True)
def test_normalise_is_idempotent_and_clean(raw: str, keep_lines: bool) -> None:
    clean = normalise_text(raw, keep_lines=keep_lines)
    assert normalise_text(clean, keep_lines=keep_lines) == clean
    assert unicodedata.is_normalized("NFC", clean)
    assert clean == clean.strip()
    assert "  " not in clean
    assert "\n\n\n" not in clean
    allowed = {"\n"} if keep_lines else set()
    assert not {char for char in clean if unicodedata.category(char) == "Cc"} - allowed


@given(HOSTILE)
def test_folding_lines_away_gives_the_one_line_form(raw: str) -> None:
    assert one_line(normalise_text(raw, keep_lines=True)) == normalise_text(raw)


@pytest.mark.parametrize(
    ("type_", "limit", "lines"),
    [
        ("semantic", 280, False),
        ("episodic", 280, False),
        ("insight", 280, False),
        ("turn", 32_000, True),
        ("summary", 8_000, True),
        ("chunk", 8_000, True),
        ("procedural", 8_000, True),
    ],
)
def test_limits_of_each_type(type_: str, limit: int, lines: bool) -> None:
    assert TextLimits().limit_for(type_) == limit
    assert keeps_lines(type_) is lines


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="turn"):
        TextLimits(turn=0)
    with pytest.raises(InvalidInput, match="poem"):
        TextLimits().limit_for("poem")


def test_what_is_not_seen_is_in_no_text() -> None:
    """Return every format character of Unicode except visible signs."""
    seen = {
        char
        for char in map(chr, range(0x110000))
        if unicodedata.category(char) == "Cf" and normalise_text(f"a{char}b") != "ab"
    }
    assert {unicodedata.name(char).split()[0] for char in seen} == {"ARABIC", "SYRIAC", "KAITHI"}
    assert text_key("".join(("a", *sorted(seen), "b"))) == text_key("ab")


@pytest.mark.parametrize("mark", ["\u0301", "\u0316", "\u0344", "\u0f73", "\u0301\u200b", "\u0327\u0301\U000e0020"])
def test_a_run_of_marks_is_cut(mark: str) -> None:
    clean = normalise_text("x" + mark * 5000 + "y")
    assert 2 + MAX_MARKS - 1 <= len(clean) <= 2 + MAX_MARKS
    assert normalise_text(clean) == clean
    assert unicodedata.is_normalized("NFC", clean)


@pytest.mark.parametrize("type_", ["semantic", "turn", "procedural"])
def test_a_run_of_marks_is_refused_unless_it_may_be_trimmed(type_: str) -> None:
    allowed, long = "x" + "\u0316" * MAX_MARKS, "x" + "\u0316\u200b" * (MAX_MARKS + 1)
    assert check_text(allowed, type_, TextLimits(), trim=False) == allowed
    with pytest.raises(TooManyMarks) as refused:
        check_text(long, type_, TextLimits(), trim=False)
    assert refused.value.code == "too_many_marks"
    assert check_text(long, type_, TextLimits(), trim=True) == allowed


@pytest.mark.parametrize(
    "raw", ["", " \n\t ", "\u200b\ufeff", "\x00", "\u200d\u200c", "\ufe0f", "\u3164\u115f", "\u2800"]
)
def test_nothing_visible_is_empty(raw: str) -> None:
    with pytest.raises(EmptyText):
        check_text(raw, "semantic", TextLimits(), trim=True)


def test_the_limit_holds_after_normalisation() -> None:
    assert check_text("x" * 280 + "  \u200b", "semantic", TextLimits(), trim=False) == "x" * 280


def test_too_long_says_limit_and_length() -> None:
    with pytest.raises(TextTooLong, match=r"280.*281") as refused:
        check_text("x" * 281, "semantic", TextLimits(), trim=False)
    assert refused.value.extra == {"limit": 280, "length": 281}


def test_length_comes_before_normalisation() -> None:
    """Check that a text is not read beyond RAW_LIMIT times its limit."""
    limits = TextLimits(semantic=10)
    for blank in (" ", "\u200b"):
        assert check_text("x" + blank * 38 + "y", "semantic", limits, trim=False).replace(" ", "") == "xy"
        for trim in (False, True):
            with pytest.raises(TextTooLong) as refused:
                check_text("x" + blank * 39 + "y", "semantic", limits, trim)
            assert refused.value.extra == {"limit": 10, "length": 41}
    assert check_text("several words " * 100_000, "semantic", limits, trim=True) == "several"


def test_turns_keep_lines_and_facts_do_not() -> None:
    assert check_text("a\nb", "turn", TextLimits(), trim=False) == "a\nb"
    assert check_text("a\nb", "semantic", TextLimits(), trim=False) == "a b"


@given(HOSTILE, st.sampled_from(TYPES), st.integers(1, 40))
def test_checked_text_fits_and_stays_checked(raw: str, type_: str, limit: int) -> None:
    limits = TextLimits(**dict.fromkeys(TYPES, limit))
    try:
        text = check_text(raw, type_, limits, trim=True)
    except (EmptyText, TextTooLong):
        return
    assert 0 < len(text) <= limit
    assert normalise_text(text, keep_lines=keeps_lines(type_)) == text


@pytest.mark.parametrize(
    ("text", "limit", "trimmed"),
    [
        ("Likes tea. Hates coffee.", 40, "Likes tea. Hates coffee."),
        ("Likes tea. Hates coffee a lot.", 15, "Likes tea."),
        ("Likes green tea. Hates coffee.", 16, "Likes green tea."),
        ("No. Likes green tea with lemon", 20, "No. Likes green tea"),  # the sentence end is too early
        ("Lives at 3.5 km from the sea", 14, "Lives at 3.5"),
        ("Went to see Dr. Novak about it", 16, "Went to see Dr."),  # an abbreviation is a word end at best
        ("Works at home, i.e. in Porto now", 22, "Works at home, i.e. in"),
        ('She said "stop it." Then left.', 20, 'She said "stop it."'),
        ("word", 2, "wo"),
        ("one two three", 7, "one two"),
        ("one two three", 6, "one"),
        ("first line\nsecond line", 15, "first line"),
        ("彼は緑茶が好きです。でもコーヒーは嫌い。", 12, "彼は緑茶が好きです。"),
        ("彼は緑茶が好きです", 4, "彼は緑茶"),
        ("xe\u0301\u0302y", 3, "x"),
        ("👩\u200d👩\u200d👧👍🏽!", 7, "👩\u200d👩\u200d👧👍🏽"),
        ("👩\u200d👩\u200d👧👍🏽!", 6, "👩\u200d👩\u200d👧"),
        ("👩\u200d👩\u200d👧", 2, "👩\u200d"),  # no earlier cut: cut inside rather than return nothing
    ],
)
def test_trim(text: str, limit: int, trimmed: str) -> None:
    assert trim_text(text, limit) == trimmed


@given(STORABLE, st.integers(1, 60))
def test_trim_fits_is_a_prefix_and_never_empty(raw: str, limit: int) -> None:
    text = normalise_text(raw, keep_lines=True)
    trimmed = trim_text(text, limit)
    assert len(trimmed) <= limit
    assert text.startswith(trimmed)
    assert bool(trimmed) == bool(text)
    assert trim_text(trimmed, limit) == trimmed


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="limit"):
        cut_at_word("some text", 0)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Likes wine", "likes wine."),
        ("Likes  wine!", "LIKES WINE …"),
        ("Don’t like it", "don't like it"),
        ("STRASSE", "straße"),
        ("cafe\u0301", "CAFÉ"),
        ("likes\u200b wine ?!", "likes\nwine"),
        ("likes\U000e0020 wi\ufe0fne\u3164", "likes wine"),
        ("👩\u200d🚀 می\u200cخواهم", "👩🚀 میخواهم"),
        ("likes\u070f wine", "likes wine"),
    ],
)
def test_equal_keys(a: str, b: str) -> None:
    assert text_key(a) == text_key(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Likes wine", "Likes wines"),
        ("Likes C++", "Likes C#"),
        ("Likes wine, red", "Likes wine red"),
        ("!!!", "???"),
        ("Is 3", "Is 3%"),
        ("Likes wine", "Does not like wine"),
    ],
)
def test_different_keys(a: str, b: str) -> None:
    assert text_key(a) != text_key(b)


@given(HOSTILE)
def test_key_is_32_bytes_and_blind_to_normalisation(raw: str) -> None:
    key = text_key(raw)
    assert len(key) == 32
    assert key == text_key(normalise_text(raw)) == text_key(raw + "  ")


@given(st.text(max_size=400), st.integers(1, 60))
def test_pieces_are_all_of_a_text_and_none_is_too_long(text: str, limit: int) -> None:
    parts = split_text(text, limit)
    assert all(0 < len(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())
