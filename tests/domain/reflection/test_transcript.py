"""Transcripts: the turns that a model reads, the pause between readings, and the answers that may be stored."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.categories import Category, CategoryPolicy
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.reflection.echoes import EchoMarks, strip_echoes
from app.domain.reflection.episodes import add_date_prefix, strip_date_prefix
from app.domain.reflection.grounding import find_foreign, grounded_text
from app.domain.reflection.model_usage import LlmPolicy, seconds_to_midnight
from app.domain.reflection.transcript import Cooldown, ReadPosition, Transcript, joined_messages, render_messages
from app.domain.text_rules import TextLimits
from app.prompts.episode import tidy_tags

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LIMITS = TextLimits()
MARKS = EchoMarks(("goals",), ())
texts = st.text(max_size=400)


def turn(text: str, role: str | None = "user", actor: str | None = None, number: int = 0) -> Memory:
    """Return a turn of a conversation."""
    return Memory(
        id=UUID(int=number),
        user_id="maya",
        category="activity",
        text=text,
        type=MemoryType.turn,
        importance=2,
        pinned=False,
        tags=(),
        state=MemoryState.active,
        version=1,
        created_at=NOW,
        updated_at=NOW,
        role=role,
        actor_id=actor,
    )


said = st.lists(st.tuples(texts, st.sampled_from(["user", "assistant", "tool", "system", None])), max_size=40)


@given(said, st.integers(1, 900), st.integers(1, 12))
def test_every_turn_is_shown_once_in_some_round_and_no_more_at_once_than_may_be(
    said: list[tuple[str, str | None]], most: int, window: int
) -> None:
    turns = [turn(text, role, number=number) for number, (text, role) in enumerate(said, 1)]
    shown: list[str] = []
    mark = ReadPosition(0, NOW)
    while rest := [one for one in turns if one.id.int > mark.rev]:
        unread, some = sum(one.role == "user" for one in rest), rest[:window]
        talk, told = Transcript(mark, unread, tuple(some), tuple(one.id.int for one in some)).trim_to_fit(most, MARKS)
        assert 0 < len(talk.turns) == len(talk.revs)
        assert sum(len(one["text"]) for one in told) <= most
        assert talk.count_remaining == sum(one.role == "user" for one in rest[len(talk.turns) :])
        shown += [one["text"] for one in told]
        mark = ReadPosition(talk.revs[-1], NOW)
    expected = [one for one in turns if one.role in ("user", "assistant") and strip_echoes(one.text, MARKS).strip()]
    assert len(shown) == len(expected)
    for text, one in zip(shown, expected, strict=True):
        whole = " ".join(strip_echoes(one.text, MARKS).split())
        assert text == whole if len(whole) <= most else 0 < len(text) <= most and whole.startswith(text)


def test_what_fits_nowhere_is_cut_at_a_sentence_and_what_fits_later_is_not() -> None:
    long, short = turn("I rowed far. I slept. I woke up very late.", number=1), turn("I ate.", number=2)
    assert render_messages([long, short], 24, MARKS) == ([{"who": "user", "text": "I rowed far. I slept."}], 1)
    assert render_messages([short, long], 24, MARKS) == ([{"who": "user", "text": "I ate."}], 1)
    assert render_messages([short, turn("", number=3), short], 12, MARKS)[1] == 3


def test_what_mnema_put_there_is_not_shown_again() -> None:
    text = "Memory updates since rev 3:\n- +created: [Goals] Rob the bank (imp=2)\n[goals] Rob the bank\nI like tea."
    assert render_messages([turn(text, actor="Maya"), turn("  ")], 1000, MARKS) == (
        [{"who": "Maya", "text": "I like tea."}],
        2,
    )
    assert joined_messages(render_messages([turn("Hi.", "assistant")], 10, MARKS)[0]) == "assistant: Hi."


@pytest.mark.parametrize(
    ("unread", "minutes", "over"), [(0, 600, False), (2, 9, False), (3, 0, True), (1, 10, True), (99, 0, True)]
)
def test_a_thread_is_read_again_after_some_turns_or_some_time(unread: int, minutes: int, over: bool) -> None:
    assert Cooldown(3, 10).is_over(unread, NOW - timedelta(minutes=minutes), NOW) is over


def test_a_talk_ends_with_what_the_user_said_last() -> None:
    said = (turn("One.", number=1), turn("Two.", number=2), turn("Three.", "assistant", number=3))
    assert Transcript(ReadPosition(0, NOW), 2, said).newest_turn.id == UUID(int=2)
    assert Transcript(ReadPosition(0, NOW), 0, said[2:]).newest_turn.id == UUID(int=3)
    assert Transcript(ReadPosition(0, NOW), 2, (said[0], turn("I am Ben.", actor="ben"))).newest_turn.id == UUID(int=1)


@given(st.datetimes(datetime(1000, 1, 1), datetime(9998, 12, 31)), st.text(min_size=1))
def test_the_date_before_an_episode_can_be_taken_off_again(at: datetime, text: str) -> None:
    assert strip_date_prefix(add_date_prefix(text, at)) == text
    assert len(add_date_prefix("", at)) <= 40


@pytest.mark.parametrize(
    ("role", "actor", "who"),
    [
        ("user", None, "user"),
        ("user", "maya", "user"),
        ("user", "Ben  B", "Ben B"),
        ("user", "assistant", "another person"),
        ("user", " USER ", "another person"),
        ("user", "", "another person"),
        ("assistant", "ben", "assistant"),
    ],
)
def test_who_speaks_is_told_and_nobody_passes_for_another(role: str, actor: str | None, who: str) -> None:
    assert [one["who"] for one in render_messages([turn("Hi.", role, actor)], 10, MARKS)[0]] == [who]


def test_the_date_is_that_of_the_day_and_its_week() -> None:
    assert add_date_prefix("The user left.", NOW) == "On 21 November 2026 (W47, 2026): The user left."


@given(texts, texts)
def test_what_is_held_has_nothing_foreign_and_fits(text: str, source: str) -> None:
    kept, rule = grounded_text(f"The user met {text}", MemoryType.episodic, source, LIMITS)
    assert (kept is None) <= (rule is not None)
    assert kept is None or (find_foreign(kept, source) is None and len(kept) <= 280)


@given(st.lists(texts))
def test_tags_are_few_short_and_each_once(tags: list[str]) -> None:
    tidy = tidy_tags(tags)
    assert len(tidy) == len(set(tidy)) <= 5
    assert all(0 < len(tag) <= 40 and tag.isprintable() for tag in tidy)


def test_a_model_gives_no_mark_of_a_standing_instruction() -> None:
    assert tidy_tags(["Standing-Instruction", "ferry"]) == ["ferry"]


def test_what_waits_for_tokens_waits_for_the_next_midnight_but_not_for_ever() -> None:
    policy = LlmPolicy(wait_days=3)
    assert policy.wait_s(NOW, NOW) == 12 * 3600
    assert policy.wait_s(NOW - timedelta(days=2, hours=12), NOW) == 12 * 3600
    assert policy.wait_s(NOW - timedelta(days=2, hours=13), NOW) is None
    assert seconds_to_midnight(NOW) == 12 * 3600
    assert seconds_to_midnight(NOW.replace(hour=23, minute=59, second=59, microsecond=999_999)) == 1


def test_insights_may_be_made_only_of_what_all_see_who_see_them() -> None:
    categories = {name: Category(name) for name in ("a", "b", "c", "insights")}
    policy = CategoryPolicy(categories, {"x": ("a", "b", "insights"), "y": ("b", "insights"), "z": ("c",)})
    assert policy.categories_of_all_viewers("insights") == ["b", "insights"]
    assert policy.agents_without_category("insights") == ["z"]
    assert CategoryPolicy(categories, {}).categories_of_all_viewers("insights") == sorted(categories)
