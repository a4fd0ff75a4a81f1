"""Capture of plain statements, and the gate that shares its classifier, on turns labelled before the rules."""

from pathlib import Path
from string import ascii_lowercase

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.config.loader import load_capture, load_categories
from app.config.yaml_files import CONFIG_DIR
from app.domain.errors import ConfigError
from app.domain.memory.instructions import read_instruction
from app.domain.memory.memory import MemoryType
from app.domain.reflection.capture import CapturePolicy, CaptureRule, capture_facts
from app.domain.reflection.self_disclosure import discloses_fact
from app.domain.reflection.writing_rules import broken_rule
from app.domain.text_rules import TextLimits
from bench import capture as bench

POLICY, LIMITS = bench.shipped_policy(), TextLimits()
TURNS = bench.load_turns()


def captured(text: str, policy: CapturePolicy = POLICY) -> list[tuple[str, str]]:
    """Return the sentences and categories of what is captured."""
    return [(fact.text, fact.category) for fact in capture_facts(text, policy, LIMITS).facts]


@pytest.mark.parametrize("part", bench.PARTS)
def test_hardly_anything_wrong_is_captured_and_most_that_is_plain(part: str) -> None:
    turns = [turn for turn in TURNS if turn.part == part]
    figures = bench.measure_capture(turns, POLICY)
    print(f"capture, {part}: precision {figures.precision:.3f}, recall {figures.recall:.3f}")
    assert figures.precision >= 0.95, figures.wrong
    assert figures.recall >= 0.7, figures.missed


@pytest.mark.parametrize("part", bench.PARTS)
def test_the_gate_lets_through_what_is_worth_a_models_time(part: str) -> None:
    figures = bench.measure_gate([turn for turn in TURNS if turn.part == part])
    print(f"gate, {part}: precision {figures.precision:.3f}, recall {figures.recall:.3f}")
    assert figures.precision >= 0.9, figures.wrong
    assert figures.recall >= 0.85, figures.missed


def test_the_turns_are_many_and_distinct_and_most_of_them_are_to_mislead() -> None:
    assert len(TURNS) == len({turn.text for turn in TURNS}) >= 400
    assert sum(not turn.facts for turn in TURNS) >= 250
    assert {category for turn in TURNS for _, category in turn.facts} == set(POLICY.categories)


@pytest.mark.parametrize("title", ["Dr.", "Mr.", "Ms.", "Mrs.", "Prof."])
def test_a_title_ends_no_sentence(title: str) -> None:
    texts = [text for text, _ in captured(f"My dentist is {title} Okafor. I like tea a lot.")]
    assert texts == ["The user likes tea a lot."]


def test_what_is_captured_also_passes_the_gate_and_the_writing_rules() -> None:
    found = [turn for turn in TURNS if captured(turn.text)]
    assert len(found) > 150
    assert all(discloses_fact(turn.text) or read_instruction(turn.text) for turn in found)
    texts = [text for turn in found for text, _ in captured(turn.text)]
    assert {broken_rule(text, MemoryType.semantic, LIMITS) for text in texts} == {None}


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("I'm allergic to peanuts.", ("The user is allergic to peanuts.", "constraints")),
        ("we go with Stripe", ("The user decided to go with Stripe.", "projects")),
        ("the launch moved to 17 March", ("The launch moved to 17 March.", "projects")),
        (
            "never send anything without my approval",
            ("The user's rule is never to send anything without the user's approval.", "constraints"),
        ),
        ("I report to Helena", ("The user reports to Helena.", "relationships")),
        ("I work nights from December", ("The user works nights from December.", "profile")),
    ],
)
def test_a_plain_statement_is_said_in_the_third_person(text: str, fact: tuple[str, str]) -> None:
    assert captured(text) == [fact]


@pytest.mark.parametrize("text", ["Momo died last week.", "My daughter turns 4 on Friday.", "I just got promoted."])
def test_what_is_only_true_today_is_for_a_model_and_not_stored_as_it_is(text: str) -> None:
    assert discloses_fact(text)
    assert captured(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "I'm allergic to nuts.\n\nI hate coriander.",
        f"I'm allergic to nuts. {'Long is the river. ' * 60}",
        "He said so. > I'm allergic to nuts.",
        "She told me that I'm allergic to nuts.",
        "I'm allergic to nuts, haha.",
    ],
)
def test_what_may_be_anothers_words_is_left(text: str) -> None:
    assert captured(text) == []


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [("My name is Yusuf.", "preferred_name", "Yusuf"), ("I live in Porto.", "city", "Porto")],
)
def test_a_sensitive_field_is_no_fact_whatever_the_table_says(text: str, field: str, value: str) -> None:
    every = CapturePolicy(tuple(CaptureRule(form, "profile") for form in ("belonging", "habit")))
    found = capture_facts(text, every, LIMITS)
    assert found.facts == []
    assert [(one.field, one.value) for one in found.fields] == [(field, value)]


def test_a_project_with_a_name_is_not_the_users_name() -> None:
    assert capture_facts("The project is called Nightingale.", POLICY, LIMITS).fields == []


def test_the_first_rule_that_matches_counts() -> None:
    goals, tastes = CaptureRule("preference", "goals", ("jazz",)), CaptureRule("preference", "style")
    policy = CapturePolicy((goals, tastes))
    assert captured("I hate jazz. I hate rain.", policy) == [
        ("The user hates jazz.", "goals"),
        ("The user hates rain.", "style"),
    ]
    assert captured("I hate jazz.", CapturePolicy(())) == []
    assert captured("I hate jazz.", CapturePolicy((tastes,), per_turn=0)) == []
    assert captured("I hate jazz. I hate rain.", CapturePolicy((tastes,), per_turn=1)) == [
        ("The user hates jazz.", "style")
    ]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"form": "wish", "category": "goals"}, "rule 2.form: 'wish'"),
        ({"form": "plan", "category": "goal"}, "rule 2: unknown category 'goal'; the known ones are: .*goals"),
        ({"form": "plan", "category": "procedural"}, "rule 2: unknown category 'procedural'"),
        ({"form": "plan", "category": "goals", "word": []}, "rule 2: unknown word"),
        ({"form": "plan", "category": "goals", "words": ["Two words"]}, "single words in lower case: Two words"),
        ({"form": "plan", "category": "goals", "importance": 9}, "importance must be from 1 to 5"),
        ({"category": "goals"}, "rule 2.form"),
        ("plan", "rule 2: must be a mapping"),
    ],
)
def test_a_rule_that_is_not_valid_is_named(tmp_path: Path, entry: object, message: str) -> None:
    file = tmp_path / "capture.yaml"
    file.write_text(yaml.safe_dump({"rules": [{"form": "plan", "category": "goals"}, entry]}))
    categories = load_categories(CONFIG_DIR / "memory_cat_config.yaml", 30)
    with pytest.raises(ConfigError, match=message):
        load_capture(file, categories)


@pytest.mark.parametrize(
    ("content", "message"),
    [({}, "must have: rules"), ({"rules": [], "per_turn": 11}, "per_turn"), ({"rules": [], "daily": 1}, "daily")],
)
def test_a_table_that_is_not_valid_is_named(tmp_path: Path, content: object, message: str) -> None:
    file = tmp_path / "capture.yaml"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match=f"capture.yaml.*{message}"):
        load_capture(file, load_categories(CONFIG_DIR / "memory_cat_config.yaml", 30))


starts = st.sampled_from(["I ", "I'm ", "My ", "We go with ", "Never send ", "The launch moved to ", "I have "])


@given(st.builds(str.__add__, starts, st.text(max_size=200)) | st.text(max_size=200))
def test_of_any_text_the_quotes_stand_in_it_and_the_facts_pass_the_rules(text: str) -> None:
    for fact in capture_facts(text, POLICY, LIMITS).facts:
        assert fact.text.startswith(("The ", "Go-live", "Kick"))
        assert broken_rule(fact.text, MemoryType.semantic, LIMITS) is None
        assert fact.quote
    assert captured(" ".join(text.replace(".", "").replace("!", "").split()).rstrip("?") + " or?") == []


def test_a_long_list_after_a_clause_belongs_to_it() -> None:
    fruit = ", ".join(letter * 2 for letter in ascii_lowercase)
    assert captured(f"I am allergic to {fruit}") == [(f"The user is allergic to {fruit}.", "constraints")]
