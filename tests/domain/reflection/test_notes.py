"""Notes that a user lays down: kept in the third person or as said, and nothing that only looks like one."""

import pytest

from app.domain.reflection.capture import capture_facts
from app.domain.text_rules import TextLimits
from bench.capture import PARTS, shipped_policy
from bench.remember import NEGATIVE, is_kept, keep_texts, load_notes

POLICY = shipped_policy()


def keep(text: str) -> list[tuple[str, str]]:
    """Return category and text of what a turn leaves."""
    return [(fact.category, fact.text) for fact in capture_facts(text, POLICY, TextLimits()).facts]


@pytest.mark.parametrize("part", PARTS)
def test_labelled_turns_are_kept_and_look_alikes_are_not(part: str) -> None:
    rows = [row for row in load_notes() if row["part"] == part]
    kept = [is_kept(row, keep_texts(row["text"], POLICY)) for row in rows if row["kind"] != NEGATIVE]
    assert sum(kept) / len(kept) >= 0.8
    assert [row["text"] for row in rows if row["kind"] == NEGATIVE and keep_texts(row["text"], POLICY)] == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Remember that the gate code is 4471.", ("knowledge", 'The user\'s note: "the gate code is 4471".')),
        ("Please remember: I wear a size 9 boot.", ("preferences", "The user wears a size 9 boot.")),
        ("Remember that I'm vegan.", ("constraints", "The user is vegan.")),
        ("Remember that I'm lactose intolerant.", ("constraints", "The user is lactose intolerant.")),
        (
            "Please never suggest anything with peanuts, I carry an EpiPen.",
            ("constraints", 'The user\'s rule: "never suggest anything with peanuts, I carry an EpiPen".'),
        ),
        (
            "Always answer me in metric units.",
            ("style", "The user's rule is always to answer the user in metric units."),
        ),
        (
            "My daughter Ida turns seven on the 3rd of May.",
            ("relationships", "The user's daughter Ida turns seven on the 3rd of May."),
        ),
    ],
)
def test_a_note_is_kept_in_its_category(text: str, kept: tuple[str, str]) -> None:
    assert keep(text) == [kept]


@pytest.mark.parametrize(
    "text", ["Call me Bex.", "Remember that my name is Bex", "Remember that I live in Graz, not Linz."]
)
def test_a_field_that_the_user_decides_about_is_proposed_and_not_kept(text: str) -> None:
    captured = capture_facts(text, POLICY, TextLimits())
    assert not captured.facts
    assert captured.fields


@pytest.mark.parametrize(
    "text",
    [
        "remember the alamo",
        "Don't change the function signature.",
        "Please don't send me the file yet.",
        "Never mind.",
        "No problem, ever.",
        "Write an email to my boss, always polite.",
        "Keep in mind that the answer must be short.",
    ],
)
def test_the_task_at_hand_leaves_nothing(text: str) -> None:
    assert keep(text) == []
