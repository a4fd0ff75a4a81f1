"""The recall valve: closed while the agent is sure, few short bullets when it is not, a warning if too often."""

import logging
from typing import Any

import pytest
from mnema_client import AsyncMnema, AsyncRecallValve, CannotBeSent, Mnema, NotAllowed, RecallPolicy, RecallValve
from mnema_client.recall import RecallGauge

from tests.factories import Caller
from tests.sdk.conftest import apart

ABOUT: dict[str, Any] = {"agent": "planner", "filters": {"user_id": "maya"}}


async def test_it_asks_only_when_the_agent_is_not_sure(server: str, caller: Caller) -> None:
    with Mnema(server, caller.key) as memory:
        facts = [f"Maya booked venue number {n} for the launch." for n in range(8)]
        await apart(lambda: [memory.remember(fact, user_id="maya", category="tasks") for fact in facts])
        valve = RecallValve(memory, RecallPolicy(threshold=0.6, budget_tokens=60))
        assert await apart(lambda: valve.recall("venue", turn=1, confidence=0.6, **ABOUT)) is None
        answer = await apart(lambda: valve.recall("venue", turn=2, confidence=0.59, **ABOUT))
        assert answer is not None
        assert 1 <= len(answer.items) <= 3
        assert answer.tokens <= 60
        assert answer.items[0].importance is None  # bullets
        with pytest.raises(NotAllowed):
            await apart(lambda: valve.recall("venue", turn=2, confidence=0, agent="stylist", categories=["tasks"]))
    gauge = valve.gauge
    assert (gauge.turns, gauge.recalled, gauge.asked, gauge.share) == (2, 1, 2, 0.5)


async def test_the_same_on_asyncio(server: str, caller: Caller) -> None:
    async with AsyncMnema(server, caller.key) as memory:
        await memory.remember("Maya booked the old mill.", user_id="maya", category="tasks")
        valve = AsyncRecallValve(memory)
        assert await valve.recall("mill", turn="t/1", confidence=1, **ABOUT) is None
        answer = await valve.recall("mill", turn="t/2", confidence=0, **ABOUT)
        assert answer is not None
        assert [item.text.partition(" (")[0] for item in answer.items] == ["[tasks] Maya booked the old mill."]


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "mnema_client.recall"]


def test_it_warns_once_each_time_it_opens_in_more_than_a_tenth_of_the_turns(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    gauge = RecallGauge(RecallPolicy(window=50))
    for turn in range(20):
        gauge.opens(turn, 0.1 if turn in (3, 7) else 0.9)  # two of twenty turns are a tenth, which is allowed
    assert warnings_of(caplog) == []
    gauge.opens(20, 0.1)
    assert warnings_of(caplog) == ["recall opened in 14 % of the last 21 turns"]
    for turn in range(21, 40):
        gauge.opens(turn, 0.9)
    assert gauge.share == 3 / 40
    for turn in (40, 41):
        gauge.opens(turn, 0.1)
    assert len(warnings_of(caplog)) == 2
    for turn in range(42, 200):
        gauge.opens(turn, 0.9)
    assert (gauge.share, gauge.turns, gauge.recalled) == (0, 200, 5)


def test_a_turn_counts_once_however_often_it_asks() -> None:
    gauge = RecallGauge()
    assert [gauge.opens("a", c) for c in (0.9, 0.1, 0.2, 0.9)] == [False, True, True, False]
    assert (gauge.turns, gauge.recalled, gauge.asked, gauge.share) == (1, 1, 2, 1)


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan")])
def test_confidence_is_a_share(confidence: float) -> None:
    gauge = RecallGauge()
    with pytest.raises(CannotBeSent, match="0 to 1"):
        gauge.opens(1, confidence)
    assert gauge.turns == 0


def test_a_policy_that_cannot_be_meant_is_refused() -> None:
    for wrong in ({"threshold": 2}, {"most": -1}, {"least_turns": 0}, {"window": 5}):
        with pytest.raises(CannotBeSent):
            RecallPolicy(**wrong)
