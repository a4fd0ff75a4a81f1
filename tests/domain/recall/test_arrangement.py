"""The arrangement of an answer: relevance, later statements, near-duplicates, questions and their answers."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from app.domain.memory.memory import Memory, MemoryType, NewMemory
from app.domain.recall.arrangement import AnswerLimits, RankedItem, arrange_answer
from app.domain.recall.relevance import LeastRelevance
from app.domain.recall.scoring import ScoredCandidate
from app.domain.recall.selection import DroppedCandidate
from tests.domain.candidates import NOW, candidate

ASKED = "How does Nora take her coffee?"
LIMITS = AnswerLimits(5, {"event": LeastRelevance(0.1, 0.1)})


class Found:
    """Scored candidates with their memories, best first."""

    def __init__(self) -> None:
        self.scored: list[ScoredCandidate] = []
        self.memories: dict[UUID, Memory] = {}

    def add(self, text: str, relevance: float | None = 0.5, age_days: float = 0.0, **fields: Any) -> UUID:
        """Add the next best candidate; return its id."""
        made = candidate(len(self.scored) + 1, age_days, **fields)
        at = NOW - timedelta(days=age_days)
        new = NewMemory("nora", made.category, text, MemoryType(made.type), made.thread_id, made.seq, created_at=at)
        self.memories[made.id] = new.to_memory(made.id)
        self.scored.append(ScoredCandidate(made, 1.0, {}, 0, relevance))
        return made.id

    def arrange(self, limits: AnswerLimits = LIMITS) -> tuple[list[RankedItem], list[DroppedCandidate]]:
        """Arrange the answer to ASKED."""
        return arrange_answer(self.scored, self.memories, ASKED, limits)

    def ids(self, limits: AnswerLimits = LIMITS) -> list[UUID]:
        """Return the ids of the answer in order."""
        return [item.scored.candidate.id for item in self.arrange(limits)[0]]


def reasons(dropped: list[DroppedCandidate]) -> dict[UUID, str]:
    """Return the reason for each candidate that is left out."""
    return {one.scored.candidate.id: one.reason for one in dropped}


def test_what_is_not_relevant_is_left_out_unless_it_is_pinned_and_most_important_or_unknown() -> None:
    found = Found()
    kept = found.add("Nora drinks coffee black.", 0.1)
    low = found.add("Nora owns a kayak.", 0.09)
    pinned = found.add("Nora must never eat nuts.", 0.0, importance=5, pinned=True)
    pinned_only = found.add("Nora works in Malmö.", 0.0, importance=4, pinned=True)
    unknown = found.add("Nora has a bicycle.", None)
    elsewhere = found.add("Nora paints boats.", 0.0, category="tasks")
    items, dropped = found.arrange()
    assert [item.scored.candidate.id for item in items] == [kept, pinned, unknown, elsewhere]
    assert reasons(dropped) == {low: "relevance", pinned_only: "relevance"}


def test_the_least_relevance_of_turns_is_their_own_in_every_category() -> None:
    found = Found()
    least = LeastRelevance(turns=0.01, facts=0.1)
    limits = AnswerLimits(5, {"event": least, "activity": least})
    turns = [
        found.add(f"I bought a boat in {category}.", 0.05, type="turn", category=category, thread_id="t", seq=seq)
        for seq, category in enumerate(("event", "activity"), start=1)
    ]
    fact = found.add("Nora owns a kayak.", 0.05)
    items, dropped = found.arrange(limits)
    assert [item.scored.candidate.id for item in items] == turns
    assert reasons(dropped) == {fact: "relevance"}


def test_the_later_statement_comes_before_the_one_that_it_replaces_and_is_admitted_with_it() -> None:
    found = Found()
    best = found.add("Nora buys her coffee in Lund.", 0.6, 1)
    old = found.add("Nora drinks coffee black.", 0.5, 300)
    new = found.add("Nora now drinks coffee with oat milk.", 0.05, 3)
    items, dropped = found.arrange()
    assert [item.scored.candidate.id for item in items] == [best, new, old]
    assert [item.superseded_by for item in items] == [None, None, new]
    assert items[1].scored.relevance == 0.05
    assert dropped == []


def test_the_newest_of_three_statements_comes_first_though_only_the_oldest_is_relevant() -> None:
    found = Found()
    old = found.add("Nora lives in Malmö.", 0.5, 300)
    other = found.add("Nora owns a kayak.", 0.4)
    middle = found.add("Nora lives in Lund.", 0.01, 200)
    new = found.add("Nora now lives in Oslo.", 0.02, 3)
    items, dropped = found.arrange()
    assert [(i.scored.candidate.id, i.superseded_by) for i in items] == [(new, None), (old, new), (other, None)]
    assert reasons(dropped) == {middle: "relevance"}


def test_the_newest_of_three_relevant_statements_comes_first_and_replaces_both() -> None:
    found = Found()
    third, fifth, fourth = (found.add(f"The deadline is {day} June.", 0.5, 10 - day) for day in (3, 5, 4))
    items, _ = found.arrange()
    told = [(item.scored.candidate.id, item.superseded_by) for item in items]
    assert told == [(fifth, None), (third, fifth), (fourth, fifth)]


@pytest.mark.parametrize(("more", "replaces"), [("", True), (" She is fond of it.", False)])
def test_a_turn_of_several_sentences_replaces_nothing(more: str, replaces: bool) -> None:
    found = Found()
    older = found.add("Nora drinks coffee black.", age_days=2)
    newer = found.add(f"Nora now drinks coffee with oat milk.{more}", type="turn")
    items, _ = found.arrange()
    superseded_by = {item.scored.candidate.id: item.superseded_by for item in items}
    assert superseded_by == {older: newer if replaces else None, newer: None}


def test_statements_about_two_users_are_not_compared() -> None:
    found = Found()
    old = found.add("Nora drinks coffee black.", 0.5, 300)
    new = found.add("Nora now drinks coffee with oat milk.", 0.4, 3)
    found.memories[new] = NewMemory(
        "another", "event", "Nora now drinks coffee with oat milk.", created_at=NOW
    ).to_memory(new)
    assert found.ids() == [old, new]


def test_a_profile_with_a_formula_of_its_own_keeps_its_order() -> None:
    found = Found()
    old, new = found.add("Nora drinks coffee black.", 0.5, 300), found.add("Nora now drinks coffee with oat milk.")
    assert found.ids(AnswerLimits(5, {}, compared=False)) == [old, new]


def test_a_turn_equal_to_the_question_is_no_answer_but_a_fact_is() -> None:
    found = Found()
    echo = found.add("how does  Nora take her coffee?", type="turn", thread_id="t", seq=4, asks=True)
    fact = found.add(ASKED, asks=True)
    items, dropped = found.arrange()
    assert [item.scored.candidate.id for item in items] == [fact]
    assert reasons(dropped) == {echo: "question"}


def test_a_question_comes_behind_the_turn_that_answers_it() -> None:
    found = Found()
    turn: dict[str, Any] = {"type": "turn", "thread_id": "t"}
    asked = found.add("Do you take milk?", seq=4, asks=True, actor_id="ben", **turn)
    other = found.add("Coffee is ready.", seq=9, actor_id="ben", **turn)
    answer = found.add("Only oat milk, please.", seq=5, actor_id="nora", **turn)
    assert found.ids() == [answer, asked, other]


def test_a_question_that_is_no_turn_comes_behind_every_statement() -> None:
    found = Found()
    asked = found.add("What coffee does Nora order?", asks=True)
    fact = found.add("Nora drinks coffee black.")
    assert found.ids() == [fact, asked]


def test_no_more_than_top_k_are_answered() -> None:
    found = Found()
    ids = [found.add(f"Nora owns boat {number}.") for number in range(7)]
    items, dropped = found.arrange()
    assert [item.scored.candidate.id for item in items] == ids[:5]
    assert reasons(dropped) == dict.fromkeys(ids[5:], "rank")


def test_what_was_deleted_meanwhile_is_not_answered() -> None:
    found = Found()
    gone, kept = found.add("Nora drinks coffee black."), found.add("Nora owns a kayak.")
    del found.memories[gone]
    assert found.ids() == [kept]


@pytest.mark.parametrize("count", [0, 1])
def test_few_candidates_are_no_problem(count: int) -> None:
    found = Found()
    ids = [found.add("Nora drinks coffee black.") for _ in range(count)]
    assert found.ids() == ids
