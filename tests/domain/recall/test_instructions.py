"""The choice of the instructions that come with an answer."""

from datetime import UTC, datetime
from uuid import UUID

from app.domain.recall.instructions import FoundInstruction, NearnessModel, choose_instructions
from app.domain.recall.relevance import Spread

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MODEL = NearnessModel(dense=Spread(0.5, 0.1), words=Spread(0.5, 0.1), least=2.0)
GRAMS = "When I ask for a recipe, list grams."
CODE = "When I ask for code, use TypeScript."
GERMAN = "Always answer in German."
EMOJIS = "Never use emojis in your replies."


def found(number: int, text: str, similarity: float | None = None, turn_id: UUID | None = None) -> FoundInstruction:
    """Return a memory that states an instruction; one that was not drawn from a turn is a turn."""
    drawn = str(turn_id) if turn_id else None
    return FoundInstruction(UUID(int=number), text, NOW, turn_id is None, drawn, similarity)


def chosen(*memories: FoundInstruction, most: int = 3, model: NearnessModel | None = MODEL) -> list[int]:
    """Return the numbers of the chosen instructions."""
    return [one.id.int for one in choose_instructions(memories, None, model, most)]


def test_the_near_come_before_those_that_always_apply() -> None:
    memories = found(1, GERMAN), found(2, GRAMS, 0.87), found(3, CODE, 0.9), found(4, EMOJIS)
    assert chosen(*memories) == [3, 2, 1]
    assert chosen(*memories, most=10) == [3, 2, 1, 4]


def test_a_condition_that_is_not_near_does_not_apply() -> None:
    assert chosen(found(1, GRAMS, 0.69), found(2, CODE, 0.71)) == [2]
    assert chosen(found(1, GRAMS)) == []  # it has no vector
    assert chosen(found(1, GRAMS, 0.9), model=None) == []  # nothing tells what is near


def test_a_more_specific_condition_leaves_out_the_others() -> None:
    assert chosen(found(1, GRAMS, 0.85), found(2, CODE, 0.9)) == [2]
    assert chosen(found(1, GRAMS, 0.87), found(2, CODE, 0.9)) == [2, 1]


def test_what_was_drawn_from_a_turn_stands_for_it() -> None:
    turn, drawn = UUID(int=7), found(8, f'The user\'s rule: "{GERMAN[:-1]}".', turn_id=UUID(int=7))
    [one] = choose_instructions([found(7, GERMAN), drawn], None, MODEL, 3)
    assert one.id == drawn.id
    assert one.also == (turn,)


def test_equal_texts_are_told_once() -> None:
    drawn = found(8, f'The user\'s rule: "{GERMAN[:-1]}".', turn_id=UUID(int=1))
    [one] = choose_instructions(
        [found(9, GERMAN), drawn, found(2, "always answer in German"), found(1, GERMAN)], None, MODEL, 3
    )
    assert one.id.int == 8  # no turn
    assert {id_.int for id_ in one.also} == {9, 2, 1}


def test_of_two_languages_of_answers_the_newest_counts() -> None:
    english = found(1, "From now on answer me in English.")
    assert chosen(english, found(2, EMOJIS), found(3, GERMAN)) == [1, 2]
    assert chosen(found(1, "Never answer me in English."), found(2, GERMAN)) == [1, 2]
    assert chosen(found(1, "Always answer in short sentences."), found(2, GERMAN)) == [1, 2]
