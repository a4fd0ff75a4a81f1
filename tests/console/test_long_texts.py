"""Texts of the longest allowed size: shown shortened with a button for the rest, in messages of at most 200 KB."""

import json

from hypothesis import given
from hypothesis import strategies as st
from mnema_client import AsyncMnema
from nicegui import ui
from nicegui.testing import User

from console.differences import Piece, compare_words, shorten_pieces
from console.texts import count_bytes, reveal_part, reveal_text, shorten_text
from console.widgets.long_text import PIECE_BYTES, STEP_BYTES, split_steps
from tests.console.people import press, sees

WIDEST = "\ue000"
"""A character that is stored as it is and shown as eight, so that its text grows most."""
TURN = 32_000
TEXTS = st.text(alphabet=st.sampled_from('ab \n"\\é日\u202e\u200d👩\u0301' + WIDEST), max_size=60)


@given(TEXTS, st.integers(min_value=20, max_value=200))
def test_parts_make_the_whole_text_and_keep_to_their_size(text: str, room: int) -> None:
    parts, end = [], 0
    while end < len(text):
        part, end = reveal_part(text, end, room)
        assert len(json.dumps(part, ensure_ascii=False).encode()) - 2 == count_bytes(part) <= room
        parts.append(part)
    whole = reveal_text(text)
    assert "".join(parts) == whole or "\u0301" * 4 in whole  # a part counts marks anew


@given(TEXTS, st.integers(min_value=2, max_value=30))
def test_a_line_is_never_longer_than_its_limit(text: str, limit: int) -> None:
    shown = shorten_text(text, limit)
    assert len(shown) <= limit
    assert "[U" not in shown.rpartition("]")[2].replace("…", "") or "[U" in text


@given(st.lists(TEXTS, max_size=6), st.lists(TEXTS, max_size=6))
def test_steps_hold_every_piece_in_order(old: list[str], new: list[str]) -> None:
    pieces = compare_words(" ".join(old), " ".join(new))
    room = PIECE_BYTES + 40
    steps = list(split_steps(pieces, room))
    for step in steps:
        assert sum(PIECE_BYTES + count_bytes(text) for _kind, text in step) <= room
    for kind in ("same", "removed", "added"):
        shown = "".join(text for step in steps for piece, text in step if piece == kind)
        whole = "".join(reveal_text(text) for piece, text in pieces if piece == kind)
        assert shown.replace("\u0301", "") == whole.replace("\u0301", "")


def test_the_changed_places_have_some_words_of_context() -> None:
    words = " ".join(f"word{number}" for number in range(200))
    pieces = [Piece("same", words), Piece("removed", "oat"), Piece("added", "soy " * 300), Piece("same", words)]
    before, removed, added, after = shorten_pieces(pieces)
    assert before.text.startswith("…word")
    assert before.text.endswith("word199")
    assert removed == Piece("removed", "oat")
    assert added.text.endswith("soy…")
    assert after.text.startswith("word0 ")
    assert after.text.endswith("…")
    assert max(len(piece.text) for piece in (before, added, after)) < 410
    assert shorten_pieces([Piece("same", "short")]) == [Piece("same", "short")]


def shown_lengths(person: User) -> list[int]:
    """Return the lengths of the visible labels."""
    return [len(label.text) for label in person.find(ui.label).elements]


async def test_a_long_turn_is_shortened_until_its_button_is_pressed(person: User, memory: AsyncMnema) -> None:
    text = "Maya plans " + "x" * (TURN - 20) + " the end."
    await memory.add_turn(text, user_id="maya", thread_id="talk", role="user")
    await person.open("/threads?thread_id=talk")
    await sees(person, "Show all")
    await person.should_not_see("the end.")
    assert max(shown_lengths(person)) < 4_000
    await press(person, "Show all")
    await sees(person, text)
    await press(person, "Show less")
    await sees(person, "Show all")
    await person.should_not_see("the end.")


async def test_a_text_that_grows_when_it_is_shown_comes_in_steps(person: User, memory: AsyncMnema) -> None:
    written = await memory.add_turn(
        "Begin " + WIDEST * (TURN - 14) + " the end", user_id="maya", thread_id="talk", role="user"
    )
    await person.open(f"/memories/{written.id}")
    await sees(person, "Show all")
    await press(person, "Show all")
    presses = 0
    while "Show more" in {button.text for button in person.find(ui.button).elements}:
        assert max(shown_lengths(person)) <= STEP_BYTES
        await press(person, "Show more")
        presses += 1
    assert presses == 2
    await sees(person, "the end")


async def test_a_timeline_shows_the_changed_places_of_long_texts(person: User, memory: AsyncMnema) -> None:
    words = " ".join(f"word{number}" for number in range(1700))
    written = await memory.add_turn(f"{words} oat {words}", user_id="maya", thread_id="talk", role="user")
    assert written.id is not None
    await memory.edit(written.id, text=f"{words} soy {words}")
    await person.open(f"/memories/{written.id}")
    await sees(person, "Timeline")
    await sees(person, "oat")
    shown = [label.text for label in person.find(ui.label).elements]
    assert "oat" in shown
    assert "soy" in shown
    assert max(map(len, shown)) < 4_000
