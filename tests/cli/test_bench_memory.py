"""mnema bench memory: from a turn to a first-person question in another conversation, end to end over HTTP."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pytest

from bench import memory
from bench.first_person import Person, load_people

CHATS = 2
"""The conversations of the talking person that are told, and asked about."""


def two_people(_parts: Sequence[str]) -> list[Person]:
    """Return a person who talks in a few conversations, and the one whose facts are stored."""
    talker = load_people(["development"])[0]
    chats = list(dict.fromkeys(turn.conversation for turn in talker.turns))[:CHATS]
    turns = tuple(turn for turn in talker.turns if turn.conversation in chats)
    questions = tuple(question for question in talker.questions if {chat for chat, _ in question.evidence} & set(chats))
    return [replace(talker, turns=turns, questions=questions), *load_people(["stored"])]


@pytest.mark.long
def test_most_first_person_questions_find_what_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "load_people", two_people)
    figures = memory.run(["development", "stored"], print)
    answered = defaultdict(list)
    for row in figures.rows:
        answered[row["part"], row["way"]].append(row["answered"])
    rates = {key: sum(found) / len(found) for key, found in answered.items()}
    assert rates["stored", "chat"] > 0.7
    assert rates["stored", "memory.query"] > 0.8
    assert rates["development", "one conversation"] > 0.6
    assert rates["development", "memory.query"] > 0.6
