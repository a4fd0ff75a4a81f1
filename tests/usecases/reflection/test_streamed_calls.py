"""Streamed calls of the chat model: reserved, settled and recorded as any other call."""

import asyncio
from functools import partial

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.outages import ChatModelUnavailable, TokensSpent
from app.domain.reflection.model_usage import estimate_tokens
from app.prompts.same_fact import Answer, read_same_fact, same_fact_prompt
from app.usecases.reflection.model_gateway import ModelAnswer, ModelGateway
from tests.factories import Caller, Clock
from tests.fake_llm import FakeLlm, Fault
from tests.hearing import Heard
from tests.usecases.crowd import SeededEmbedder
from tests.usecases.reflecting import asker, budget, calls
from tests.usecases.stored import events_of

PAIRS = [("The user sails.", "The user rows."), ("The user's cat is 3.", "The user's cat is 4.")]
PROMPT = same_fact_prompt(PAIRS)
NEEDED = estimate_tokens(PROMPT.rules, PROMPT.question.text) + PROMPT.max_tokens


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model."""
    return SeededEmbedder()


async def ask(way: ModelGateway, caller: Caller, heard: Heard | None) -> ModelAnswer[object]:
    """Ask the model about PAIRS."""
    read = partial(read_same_fact, PAIRS)
    return await way.ask_model(caller.scope, PROMPT, read, listener=heard, user_id=None)


async def test_a_streamed_call_is_recorded_and_paid_as_a_plain_one(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock, sql: asyncpg.Connection
) -> None:
    heard = Heard()
    async with asker(app, llm, clock) as way:
        plain, streamed = await ask(way, caller, None), await ask(way, caller, heard)
    assert streamed == plain
    assert await budget(sql) == 2 * plain.usage.total_tokens
    assert await calls(sql) == [("same_fact", 3, 1, True, "ok", None)] * 2
    assert Answer.model_validate_json(heard.text)
    assert heard.again == []


async def test_a_refused_answer_is_told_to_the_listener_and_asked_again(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock, sql: asyncpg.Connection
) -> None:
    llm.faults.append(Fault.PROSE)
    heard = Heard()
    async with asker(app, llm, clock) as way:
        asked = await ask(way, caller, heard)
        assert asked.value == {0: "different", 1: "new_value"}
        assert heard.again == ["malformed"]
        assert Answer.model_validate_json(heard.text), "the refused words were dropped"
        assert await budget(sql) == asked.usage.total_tokens
        llm.broken = Fault.PROSE
        last = Heard()
        assert (await ask(way, caller, last)).value is None
    assert last.again == ["malformed"], "there is no third answer to announce"


async def test_a_client_that_leaves_within_the_stream_leaves_its_tokens_and_a_record(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock, sql: asyncpg.Connection
) -> None:
    llm.broken = Fault.STALLED
    heard = Heard()
    async with asker(app, llm, clock) as way:
        asking = asyncio.create_task(ask(way, caller, heard))
        await asyncio.wait_for(heard.began.wait(), 30)
        asking.cancel()
        [gone] = await asyncio.gather(asking, return_exceptions=True)
    assert isinstance(gone, asyncio.CancelledError)
    assert await budget(sql) == NEEDED
    assert await calls(sql) == [("same_fact", 3, 1, False, "error", "cancelled")]
    assert await sql.fetchval("SELECT input_tokens + output_tokens FROM llm_calls") == NEEDED
    assert await events_of(sql) == [], "the model did not fail"


@pytest.mark.long
async def test_a_stream_that_stops_is_an_outage_and_costs_nothing(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock, sql: asyncpg.Connection
) -> None:
    llm.broken = Fault.STALLED
    async with asker(app, llm, clock, timeout_s=1.0) as way:
        with pytest.raises(ChatModelUnavailable):
            await ask(way, caller, Heard())
    assert await calls(sql) == [("same_fact", 3, 1, False, "error", "chat_model_unavailable")]
    assert await budget(sql) == 0
    assert await events_of(sql) == [("worker", "llm", "error")]


async def test_no_stream_begins_without_tokens(app: Application, caller: Caller, llm: FakeLlm, clock: Clock) -> None:
    heard = Heard()
    async with asker(app, llm, clock, daily_tokens=NEEDED - 1) as way:
        with pytest.raises(TokensSpent):
            await ask(way, caller, heard)
    assert (llm.requests, heard.pieces) == ([], [])
