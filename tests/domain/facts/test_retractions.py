"""Retractions of stored facts: read, in doubt, or none."""

import pytest

from app.domain.facts.fact import FactOperation
from app.domain.facts.retractions import KnownFact, ThreadOperation, read_retractions
from bench.fact_rules import load_rows, read_thread
from bench.retractions import OUTCOMES, PARTS, Memory, is_right, load_threads, load_topics

TOPICS = load_topics()
TEAL = KnownFact("one", "favorite_colors", None, "teal", latest=True)
PULP = KnownFact("two", "favorite_bands", 2, "Pulp")
LEAST = {"removed": 1.0, "corrected": 0.84, "unchanged": 0.93, "unsure": 0.45}
"""The least share of threads of either half that are answered right, by outcome."""


def read(text: str) -> list[tuple[str, str | None, str | None]]:
    """Return operation, thread and value of what a message takes back."""
    done = read_retractions(text, [TEAL, PULP], TOPICS)
    return [(one.operation.op, one.thread_id, one.operation.entries[0][1]) for one in done]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_labelled_threads_are_answered_right(part: str, outcome: str) -> None:
    rows = [row for row in load_threads() if row["part"] == part and row["outcome"] == outcome]
    right = sum(is_right(row, TOPICS)[0] for row in rows)
    assert right / len(rows) >= LEAST[outcome]


@pytest.mark.parametrize("part", ["development", "held_out"])
def test_a_message_that_states_or_asks_changes_nothing_else(part: str) -> None:
    for row in load_rows(part, "messages"):
        memory = Memory(TOPICS, read_thread(row["stored"]))
        memory.read_message(row["text"])
        assert memory.facts == read_thread(row["after"]), row["text"]


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("I don't like teal anymore.", [("remove", "one", "teal")]),
        ("im so over pulp", [("remove", "two", "Pulp")]),
        ("Actually, it's navy.", [("set", "one", "navy")]),
        ("It's not Pulp, it's Suede.", [("put", "two", "Suede")]),
        ("I don't like Pulp or teal anymore", [("remove", "two", "Pulp"), ("remove", "one", "teal")]),
        ("I don't like any of those colors anymore", [("doubt", "one", "teal")]),
        ("I don't like any of them anymore", [("doubt", "one", "teal")]),
        ("Pulp? Nah, not my favorite any more.", [("doubt", "two", "Pulp")]),
        ("I take that back.", [("doubt", "one", "teal")]),
        ("Undo that.", [("doubt", "one", "teal")]),
        ("Actually no.", [("doubt", "one", "teal")]),
        ("Actually no problem.", []),
        ("I think I'm done with teal", [("doubt", "one", "teal")]),
        ("Is teal really my favorite color?", [("doubt", "one", "teal")]),
        ("Forget everything I told you.", [("doubt", "one", "teal"), ("doubt", "two", "Pulp")]),
        ("What goes with teal?", []),
        ("I painted the hall teal.", []),
        ("Actually, that's great, thanks!", []),
        ("no problem, thanks", []),
        ("I never get tired of teal.", []),
        ("Everyone in the office hates teal.", []),
        ('Translate into German: "I don\'t like teal anymore."', []),
        ("", []),
    ],
)
def test_a_message_is_read_or_puts_in_doubt_or_does_nothing(text: str, done: list[tuple[str, str, str]]) -> None:
    assert read(text) == done


def test_a_request_that_the_grammar_has_read_is_not_read_again() -> None:
    request = FactOperation("remove", "favorite_bands", ranks=(2,))
    assert read_retractions("Remove my second favorite band.", [PULP], TOPICS, [request], "two") == []


def test_a_topic_is_forgotten_in_every_thread() -> None:
    other = KnownFact("two", "favorite_colors", None, "navy")
    done = read_retractions("Forget what I said about my favorite color.", [TEAL, other], TOPICS)
    removed = [FactOperation("remove", "favorite_colors", ((None, value),)) for value in ("teal", "navy")]
    assert done == [ThreadOperation("one", removed[0]), ThreadOperation("two", removed[1])]
