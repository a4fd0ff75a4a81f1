"""Consent through the client: propose, ask, decide, read, withdraw."""

import pytest
from mnema_client import Conflict, NotFound

from tests.sdk.conftest import Either


async def test_a_proposal_goes_its_way(either: Either) -> None:
    await either.remember("Maya lives by the sea.", user_id="maya", category="profile")
    made = await either.propose("maya", "city", "Lisbon", idempotency_key="once")
    again = await either.propose("maya", "city", "Lisbon", idempotency_key="once")
    assert (made.id, made.state, made.sensitive) == (again.id, "pending", True)
    question = "Shall I remember Lisbon?"
    with pytest.raises(Conflict, match="assistant's turn"):
        await either.ask_consent("maya", made.id, thread_id="talk", question=question)
    turn = await either.add_turn(question, user_id="maya", thread_id="talk", role="assistant")
    asked = await either.ask_consent("maya", made.id, thread_id="talk", question=question, turn_id=turn.id)
    assert asked.question is not None
    assert (asked.question.thread_id, asked.question.turn_id) == ("talk", turn.id)
    approved = await either.approve("maya", made.id)
    assert (approved.state, approved.way, approved.question) == ("approved", "route", None)
    with pytest.raises(Conflict):
        await either.reject("maya", made.id)
    assert (await either.context("maya")).profile == "City: Lisbon"
    assert (await either.withdraw("maya", "city")).withdrawn == 1
    assert (await either.context("maya")).values == []
    goal = await either.propose("maya", "goals_add", "ship v1")
    await either.approve("maya", goal.id)
    [known] = (await either.context("maya")).values
    assert (known.field, known.value) == (goal.field, "ship v1")
    assert (await either.withdraw("maya", known.field, known.value)).withdrawn == 1
    with pytest.raises(NotFound):
        await either.context("nobody")
