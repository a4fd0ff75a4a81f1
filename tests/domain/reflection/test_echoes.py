"""Removal of Mnema's own text from turns: it is never read as somebody's words."""

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.loader import load_policies
from app.domain.consent.patches import ContextValue, render_profile
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.memory.presentation import render_bullet
from app.domain.recall.delta_header import DeltaEntry, render_header
from app.domain.reflection.echoes import strip_echoes

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
MARKS = load_policies("all-MiniLM-L6-v2").echo_marks


def own(turn: str) -> str:
    return strip_echoes(turn, MARKS)


def lines(turn: str) -> list[str]:
    return [line for line in own(turn).split("\n") if line.strip()]


def memory(text: str, category: str = "tasks", steps: str | None = None) -> Memory:
    return Memory(
        id=UUID(int=1),
        user_id="maya",
        category=category,
        text=text,
        type=MemoryType.semantic,
        importance=2,
        pinned=False,
        tags=(),
        state=MemoryState.active,
        version=1,
        created_at=NOW,
        updated_at=NOW,
        steps_text=steps,
    )


def values(*pairs: tuple[str, str]) -> list[ContextValue]:
    return [ContextValue(field, value, UUID(int=2), NOW) for field, value in pairs]


ANA = values(("preferred_name", "Ana"), ("city", "Lisbon"), ("goals_add", "ship v1"), ("goals_add", "learn Greek"))
ENTRIES = [
    DeltaEntry(7, "created", "profile", "Personal", "Preferred name is Ana", 4),
    DeltaEntry(8, "updated", "goals", None, "Ship v1 by Sep", 3),
    DeltaEntry(9, "merged", "profile", None, "lactose intolerance", 2, combined=2),
]
RENDERED = render_header(6, ENTRIES)
assert RENDERED is not None
HEADER = [line.text for line in RENDERED.lines]
DELETED = render_header(6, [DeltaEntry(9, "deleted", "goals", None, "", 2)])
assert DELETED is not None
BULLETS = [
    render_bullet(memory("Ana books the hall [really]")).text,
    render_bullet(memory("Tea", "procedural", "1. Boil.\n2. Pour.")).text,
]
PROMPT = "\n".join([*HEADER, *BULLETS])
ANSWER = {
    "items": [{"id": str(UUID(int=1)), "category": "tasks", "text": BULLETS[0], "strength": None}],
    "related": [],
    "header": "\n".join(HEADER),
    "delta": {"since_rev": 6, "rev": 9, "more": 0, "truncated": False},
    "tokens": 40,
    "took_ms": 3.5,
    "query_id": str(UUID(int=2)),
}
WHOLE = {**ANSWER, "items": [{"id": "1", "category": "profile", "text": "Ana is {vegan}.", "metadata": {"a": [1]}}]}
HISTORY = {"items": [{"id": "1", "memory_id": "2", "event": "ADD", "meta": {"after": {"text": "Ana is vegan."}}}]}
KNOWN = {
    "user_id": "maya",
    "values": [{"field": "preferred_name", "value": "Ana"}],
    "profile": render_profile(ANA[:1]).text,
}
OBJECTS = [
    ANSWER,
    WHOLE,
    {"items": [], "header": "\n".join(HEADER)},
    HISTORY,
    KNOWN,
    {"result": {"structuredContent": ANSWER}},
]
ALONE = ["[M1] Ana was born in Oslo", "[user] I keep bees", render_profile(ANA[1:2]).text]
"""Known where they begin a line."""
ANYWHERE = [
    *HEADER,
    *(line.text for line in DELETED.lines),
    *BULLETS,
    render_profile(ANA).text,
    render_profile(ANA[:2]).text,
    "2026-11-21 12:00:00 ADD by key 7: Ana is vegan.",
    *(json.dumps(one, ensure_ascii=ascii_) for one in OBJECTS for ascii_ in (True, False)),
]
FORMS = [
    *(
        before + line
        for line in ALONE + ANYWHERE
        for before in ("", "> ", "- ", "* ", "1. ", ">> 12) ", "  - > ", "a) ", "**")
    ),
    PROMPT,
    *(json.dumps(one, indent=2) for one in OBJECTS),
    *(f"```json\n{json.dumps(one, indent=1)}\n```" for one in OBJECTS),
    json.dumps(ANSWER["items"]),
    "Long-term memory (most relevant first)\n[user] I keep bees\nand wasps\n",
]
SAID = """I [really] like tea, see [the list](http://x) and [tasks](http://y).
- [ ] buy milk
[1] The first of {two} things: {"a": {"b": 1}} and {"items": [1, 2]}.
[sic] is what I wrote. Note: city halls; language schools.
Goals: to run in 2027
My name: Ana; my city: Lisbon. I moved on 2026-11-21 12:00.
1. Lena {turned 7} - +1 for her!"""


@pytest.mark.parametrize("form", FORMS)
def test_of_what_mnema_rendered_nothing_is_left(form: str) -> None:
    assert own(form) == ""
    assert lines(f"{SAID}\n{form}\nI like tea.") == [*SAID.split("\n"), "I like tea."]


@pytest.mark.parametrize("line", ANYWHERE)
def test_in_the_midst_of_a_line_it_begins_there(line: str) -> None:
    assert own(f"Here is what I know: {line}\nI like tea.") == "Here is what I know:\nI like tea."


def test_what_somebody_says_behind_an_object_is_theirs() -> None:
    assert own(f"It says {json.dumps(ANSWER)} but I like tea.") == "It says  but I like tea."


def test_what_only_looks_alike_stays() -> None:
    assert own(SAID) == SAID
    assert own('{"id": 1, "category": ["tasks"], "text": "mine"}') == '{"id": 1, "category": ["tasks"], "text": "mine"}'


def test_an_answer_that_was_cut_off_tells_nothing() -> None:
    assert "hall" not in own(json.dumps(ANSWER)[:150])
    assert own('{"a":' * 6000 + "I like tea.").endswith("I like tea.")


words = st.text(st.characters(exclude_categories=["C"], exclude_characters="\u2028\u2029\x85"), max_size=60)


@given(st.lists(words, max_size=4), st.lists(st.sampled_from(FORMS), min_size=5, max_size=5))
def test_whatever_is_said_around_it_is_read_as_if_it_were_not_there(said: list[str], forms: list[str]) -> None:
    mixed = "\n".join(part for form, text in zip(forms, [*said, ""], strict=False) for part in (form, text))
    assert lines(mixed) == lines("\n".join(said))
