"""The judgement of rankings of evidence that was said at several times."""

from datetime import UTC, datetime, timedelta

from bench.evaluation.data import Conversation, Question, Unit
from bench.time_updates import describe_found, judge_ranking

START = datetime(2026, 1, 1, tzinfo=UTC)
SAID = Conversation("c", [Unit(f"t{n}", f"text {n}", START + timedelta(days=n)) for n in range(4)])


def ask(*evidence: str) -> Question:
    return Question(1, "What now?", "knowledge_update", frozenset(evidence))


def test_the_newest_piece_must_come_before_each_other_one() -> None:
    rankings = {
        "newest before": [{"t3"}, {"t0"}, {"t1"}],
        "newest after": [{"t1"}, {"t3"}],
        "newest alone": [{"t0"}, {"t3"}],
        "newest missing": [{"t1"}],
    }
    found = [judge_ranking(ask("t3", "t1"), SAID, ranked) for ranked in rankings.values()]
    assert [one.newest_first for one in found] == [True, False, True, False]
    assert [one.recall for one in found] == [1, 1, 0.5, 0.5]
    alone = judge_ranking(ask("t2"), SAID, [{"t2"}])
    assert (alone.newest_found, alone.newest_first) == (True, None)
    assert list(describe_found([*found, alone])) == [
        "  knowledge_update: 5 questions, recall@10 0.800, newest found 4, "
        "newest first 2 of 4 with several pieces of evidence"
    ]
