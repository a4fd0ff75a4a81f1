"""The form of procedures: steps are numbered from 1 and are instructions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import InvalidInput
from app.domain.memory.procedures import MAX_STEPS, check_steps

VERBS = st.sampled_from(["Open the lid.", "Wait 10 minutes", "Call Jonas at 16:00.", "Ask: who is it?", "Gieße ab;"])
WRONG = [
    "",
    "0. Open.",
    "2. Open.",
    "1 Open.",
    "First: 1. Open.",
    "1. ",
    "1. 2. Pour.",
    "1. I open the lid.",
    "1. Open.\n2. You pour.",
    "1. The lid is opened.",
    "1. ...",
    "I open the lid.",
    "- Open the lid.\n- ...",
]
UNNUMBERED = [
    ("Open the lid.", "1. Open the lid."),
    ("Open the lid; wait 10 minutes; pour.", "1. Open the lid;\n2. wait 10 minutes;\n3. pour."),
    ("- Open the lid.\n\n* Wait until 10.\n• Pour.", "1. Open the lid.\n2. Wait until 10.\n3. Pour."),
    ("Öffne den Deckel\nGieße ab", "1. Öffne den Deckel\n2. Gieße ab"),
]


@given(st.lists(VERBS, min_size=1, max_size=MAX_STEPS), st.sampled_from(["\n", " "]), st.sampled_from([".", ")"]))
def test_numbered_steps_stay_as_they_are(steps: list[str], between: str, mark: str) -> None:
    text = between.join(f"{n}{mark} {step}" for n, step in enumerate(steps, 1))
    assert check_steps(text) == text


@pytest.mark.parametrize(("text", "numbered"), UNNUMBERED)
def test_unnumbered_steps_are_numbered(text: str, numbered: str) -> None:
    assert check_steps(text) == numbered
    assert check_steps(numbered) == numbered


@pytest.mark.parametrize("text", WRONG)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="steps_text"):
        check_steps(text)


def test_there_is_a_limit_to_the_steps() -> None:
    with pytest.raises(InvalidInput, match="at most 50 steps"):
        check_steps("\n".join(f"{n}. Go on." for n in range(1, MAX_STEPS + 2)))


@given(st.text(max_size=200))
def test_any_text_is_judged_without_failing(text: str) -> None:
    try:
        steps = check_steps(text)
    except InvalidInput:
        return
    assert steps.lstrip().startswith("1")
    assert check_steps(steps) == steps
