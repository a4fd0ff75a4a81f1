"""The gateway to the chat model: retries, records of calls, and the daily token budget."""

import asyncio
import json
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.outages import ChatModelUnavailable, NoChatModel, TokensSpent, UnusableAnswer
from app.domain.reflection.model_usage import CheckedAnswer, LlmPolicy, ModelCall, Usage, estimate_tokens
from app.domain.text_rules import TextLimits
from app.prompts.fact_extraction import fact_extraction_prompt, read_fact_extraction
from app.prompts.same_fact import Answer, read_same_fact, same_fact_prompt
from app.providers.chat_models.openai import OpenAIModel
from app.storage.reflection.model_calls import ModelCallStorage
from app.usecases.reflection.model_gateway import ModelAnswer, ModelGateway
from tests.factories import Caller, Clock, draft, make_caller
from tests.fake_llm import FakeLlm, Fault
from tests.usecases.crowd import SeededEmbedder
from tests.usecases.reflecting import asker, budget, calls, unmeasured
from tests.usecases.stored import events_of

PAIRS = [("The user sails.", "The user rows."), ("The user's cat is 3.", "The user's cat is 4.")]
PROMPT = same_fact_prompt(PAIRS)
NEEDED = estimate_tokens(PROMPT.rules, PROMPT.question.text) + PROMPT.max_tokens
GOOD = ("same_fact", 3, 1, True, "ok", None)


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model."""
    return SeededEmbedder()


def tomorrow(clock: Clock) -> datetime:
    """Return the next midnight."""
    return clock.now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


async def ask(way: ModelGateway, caller: Caller) -> ModelAnswer[object]:
    """Ask the model about PAIRS."""
    return await way.ask_model(caller.scope, PROMPT, lambda answer: read_same_fact(PAIRS, answer), user_id=None)


async def test_a_call_is_kept_with_its_price_and_without_a_word_of_anybodys(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock, sql: asyncpg.Connection
) -> None:
    async with asker(app, llm, clock) as way:
        asked = await ask(way, caller)
    assert asked.value == {0: "different", 1: "new_value"}
    [row] = await sql.fetch("SELECT * FROM llm_calls")
    kept = dict(row)
    assert (kept["model"], kept["tenant_id"]) == ("scripted", caller.scope.tenant_id)
    assert kept["input_tokens"] + kept["output_tokens"] == asked.usage.total_tokens == await budget(sql) < NEEDED
    assert await calls(sql) == [GOOD]
    assert "cat" not in str(kept)
    assert await events_of(sql) == []


@pytest.mark.parametrize(
    "fault", [Fault.PROSE, Fault.INVALID_JSON, Fault.OTHER_JSON, Fault.EMPTY, Fault.REFUSAL, Fault.FOUR_HUNDRED]
)
async def test_a_bad_answer_is_refused_once_and_asked_again(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock, sql: asyncpg.Connection, fault: Fault
) -> None:
    llm.faults.append(fault)
    async with asker(app, llm, clock) as way:
        asked = await ask(way, caller)
        assert asked.value == {0: "different", 1: "new_value"}
        first, second = llm.asked
        assert (first.complaint, second.question) == ("", first.question)
        rule = "ids_twice" if fault is Fault.FOUR_HUNDRED else "malformed"
        assert "refused" in second.complaint
        expected = [("same_fact", 3, 1, False, "refused", rule), ("same_fact", 3, 2, False, "ok", None)]
        assert await calls(sql) == expected
        assert await budget(sql) == asked.usage.total_tokens
        llm.broken = fault
        assert (await ask(way, caller)).value is None
    assert len(llm.asked) == 4, "two attempts, no more"


async def test_the_items_of_a_cut_answer_count_and_fewer_are_asked_for(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock, sql: asyncpg.Connection
) -> None:
    fact = {"text": "The user has 3 cats.", "category": "goals", "importance": 2, "quote": "I have 3 cats"}
    said = "I have 3 cats, and they sleep all day."
    whole = json.dumps({"facts": [fact]})
    cut = whole[:-2] + ', {"text": "The user ro'
    categories = {"goals": ""}
    prompt = fact_extraction_prompt(said, clock.now().date(), categories)
    read = partial(read_fact_extraction, said, categories, TextLimits())
    llm.scripts.extend([lambda _: cut, lambda _: whole, lambda _: cut, lambda _: '{"facts": ['])
    async with asker(app, llm, clock) as way:
        mended = await way.ask_model(caller.scope, prompt, read, user_id=None)
        left = await way.ask_model(caller.scope, prompt, read, user_id=None)
    assert [[one.text for one in answer.value or ()] for answer in (mended, left)] == [["The user has 3 cats."]] * 2
    assert (mended.rule, mended.refused, left.rule, left.refused) == (None, [], "malformed", ["cut"])
    assert "one item at most" in llm.asked[1].complaint
    schemas = [body["response_format"]["json_schema"]["schema"] for body in llm.requests]
    assert [schema["properties"]["facts"]["maxItems"] for schema in schemas] == [5, 1, 5, 1]
    assert [call[4:] for call in await calls(sql)] == [
        *(("refused", "cut"), ("ok", None)),
        *(("refused", "cut"), ("refused", "malformed")),
    ]


async def test_a_prompt_that_needs_all_items_is_not_asked_for_fewer(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock
) -> None:
    llm.scripts.append(lambda _: '{"verdicts": [{"id": 0, "ver')
    async with asker(app, llm, clock) as way:
        assert (await ask(way, caller)).value == {0: "different", 1: "new_value"}
    assert not any("one item" in asked.complaint for asked in llm.asked)
    bodies = [body["response_format"]["json_schema"]["schema"] for body in llm.requests]
    assert [schema["properties"]["verdicts"]["maxItems"] for schema in bodies] == [3, 3]


async def test_a_second_answer_with_fewer_items_does_not_replace_a_cut_one(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock
) -> None:
    said = "I have 3 cats, and they sleep all day. I have 2 dogs."
    quotes = ["I have 3 cats", "they sleep all day", "I have 2 dogs"]
    facts = [
        {"text": f"The user has {number} pets.", "category": "goals", "importance": 2, "quote": quote}
        for number, quote in zip((3, 2, 3), quotes, strict=True)
    ]
    cut = json.dumps({"facts": facts[:2]})[:-2] + ', {"text": "The user ro'
    prompt = fact_extraction_prompt(said, clock.now().date(), {"goals": ""})
    read = partial(read_fact_extraction, said, {"goals": ""}, TextLimits())
    llm.scripts.extend([lambda _: cut, lambda _: '{"facts": []}', lambda _: cut, lambda _: {"facts": facts[:1]}])
    async with asker(app, llm, clock) as way:
        answers = [await way.ask_model(caller.scope, prompt, read, user_id=None) for _ in range(2)]
    assert [len(answer.value or ()) for answer in answers] == [2, 2]
    assert [(answer.rule, answer.refused) for answer in answers] == [("cut", ["cut"])] * 2


async def test_a_fault_of_the_reader_settles_the_call(
    app: Application,
    caller: Caller,
    clock: Clock,
    sql: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    llm: FakeLlm,
) -> None:
    async def fail(*_args: object) -> None:
        raise ValueError("a fault")

    monkeypatch.setattr(OpenAIModel, "generate_reply", fail)
    async with asker(app, llm, clock) as way:
        with pytest.raises(ValueError, match="a fault"):
            await ask(way, caller)
    assert await calls(sql) == [("same_fact", 3, 1, False, "error", "internal_error")]
    assert await budget(sql) == NEEDED


async def test_of_an_answer_refused_twice_what_may_be_used_is(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock
) -> None:
    def half(answer: Answer) -> CheckedAnswer[str]:
        return CheckedAnswer(f"{len(answer.verdicts)} verdicts", "short", "More.", items=5, items_ok=2)

    async with asker(app, llm, clock) as way:
        asked = await way.ask_model(caller.scope, PROMPT, half, user_id=None)
        llm.faults.extend([Fault.NO_USAGE, Fault.PROSE])
        assert (await way.ask_model(caller.scope, PROMPT, half, user_id=None)).value == "3 verdicts", (
            "the second answer is not usable"
        )
        [report] = await ModelCallStorage(app.parts.uow).load_reports(caller.scope, clock.now() - timedelta(days=1))
    assert asked.value == "3 verdicts"
    assert llm.asked[1].complaint.endswith("More.")
    assert (report.calls, report.first_passes, report.first_pass_ok) == (4, 2, 0)
    assert (report.items, report.items_ok, report.pass_rate) == (10, 4, 0.4)


@pytest.mark.long
async def test_a_model_that_is_away_is_an_event_and_costs_nothing(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock, sql: asyncpg.Connection
) -> None:
    llm.broken = Fault.HANG
    async with asker(app, llm, clock, timeout_s=0.5) as way:
        with pytest.raises(ChatModelUnavailable):
            await ask(way, caller)
    assert await calls(sql) == [("same_fact", 3, 1, False, "error", "chat_model_unavailable")]
    assert await budget(sql) == 0
    assert await events_of(sql) == [("worker", "llm", "error")]


async def test_a_tenant_that_spent_its_tokens_stops_until_tomorrow_and_others_go_on(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock, sql: asyncpg.Connection
) -> None:
    other = await make_caller(app)
    async with asker(app, llm, clock, daily_tokens=NEEDED) as way:
        spent = (await ask(way, caller)).usage.total_tokens
        assert 0 < spent < NEEDED
        with pytest.raises(TokensSpent) as refused:
            await ask(way, caller)
        waited = clock.now() + timedelta(seconds=refused.value.extra["retry_after"])
        assert abs(waited - tomorrow(clock)) < timedelta(minutes=1)
        assert len(llm.asked) == 1, "no request is sent if the tokens might not suffice"
        assert await events_of(sql) == [("worker", "llm", "skipped")]
        assert (await ask(way, other)).value is not None
        clock.move(days=1)
        assert (await ask(way, caller)).value is not None
    storage = ModelCallStorage(app.parts.uow)
    assert await storage.load_spent_tokens(caller.scope, clock.now().date()) == spent
    assert len(await storage.load_reports(other.scope, clock.now() - timedelta(days=9))) == 1


async def test_no_tokens_are_reserved_twice(app: Application, caller: Caller, clock: Clock) -> None:
    storage, today, policy = ModelCallStorage(app.parts.uow), clock.now().date(), LlmPolicy(350)
    taken = await asyncio.gather(*(storage.reserve_tokens(caller.scope, None, today, 100, policy) for _ in range(30)))
    assert (taken.count(None), taken.count("tenant")) == (3, 27)
    assert await storage.load_spent_tokens(caller.scope, today) == 300
    assert await storage.reserve_tokens(caller.scope, None, today + timedelta(days=1), 351, policy) == "tenant"
    assert await storage.load_spent_tokens(caller.scope, today + timedelta(days=1)) == 0


async def test_a_budget_of_nothing_asks_nothing(app: Application, caller: Caller, llm: FakeLlm, clock: Clock) -> None:
    async with asker(app, llm, clock, daily_tokens=0) as way:
        with pytest.raises(TokensSpent):
            await ask(way, caller)
    assert not llm.requests


async def test_a_call_that_is_cut_short_keeps_its_tokens_reserved(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock, sql: asyncpg.Connection
) -> None:
    llm.broken = Fault.HANG
    async with asker(app, llm, clock) as way:
        asking = asyncio.create_task(ask(way, caller))
        await asyncio.wait_for(llm.hanging.wait(), 30)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    assert await budget(sql) == NEEDED
    assert await calls(sql) == [("same_fact", 3, 1, False, "error", "cancelled")]
    kept = await sql.fetchrow("SELECT input_tokens + output_tokens AS tokens, duration_ms FROM llm_calls")
    assert (kept["tokens"], kept["duration_ms"] >= 0) == (NEEDED, True), "the calls add up to the budget"


async def test_without_a_model_it_says_so_and_keeps_nothing(
    app: Application, caller: Caller, clock: Clock, sql: asyncpg.Connection
) -> None:
    way = unmeasured(app, clock)
    assert not way.has_model
    with pytest.raises(NoChatModel):
        await ask(way, caller)
    assert (await calls(sql), await budget(sql), await events_of(sql)) == ([], 0, [])


async def test_calls_and_days_are_dropped_with_the_events_of_their_time(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock, sql: asyncpg.Connection
) -> None:
    async with asker(app, llm, clock) as way:
        await ask(way, caller)
        clock.move(days=60)
        await ask(way, caller)
    clock.move(days=40)
    assert (await app.retention.forget.delete_old_records(caller.scope, dry_run=True)).counts["llm_calls"] == 1
    assert len(await calls(sql)) == 2
    assert (await app.retention.forget.delete_old_records(caller.scope)).counts["llm_calls"] == 1
    assert len(await calls(sql)) == 1
    assert await sql.fetchval("SELECT count(*) FROM llm_budget") == 1


async def test_work_for_one_user_takes_no_more_than_their_share(app: Application, caller: Caller, clock: Clock) -> None:
    storage, today, policy = ModelCallStorage(app.parts.uow), clock.now().date(), LlmPolicy(1000, user_share=0.4)

    async def reserve(user_id: str, tokens: int, days: int = 0) -> str | None:
        return await storage.reserve_tokens(caller.scope, user_id, today + timedelta(days=days), tokens, policy)

    await app.memory.write.write_memory(caller.scope, draft("Ana keeps bees.", user_id="ana"))
    assert await reserve("ana", 900) is None, "the only user may take all"
    await storage.settle_call(caller.scope, "ana", today, 900, ModelCall("same_fact.v3", "m", 1), clock.now())
    for user_id in ("ben", "eve"):
        await app.memory.write.write_memory(caller.scope, draft("Likes bees.", user_id=user_id))
    assert [await reserve("ana", 200) for _ in range(3)] == [None, None, "user"]
    assert await storage.load_spent_tokens(caller.scope, today) == 400, "a refusal takes nothing of the tenant's tokens"
    assert [await reserve("ben", 400), await reserve("eve", 400)] == [None, "tenant"]
    assert await reserve("eve", 200) is None, "a refusal takes nothing of the user's tokens"
    assert await reserve("ana", 400, days=1) is None


async def test_unreadable_answers_about_one_user_stop_nobody_else(
    app: Application, caller: Caller, clock: Clock
) -> None:
    storage, today, policy = ModelCallStorage(app.parts.uow), clock.now().date(), LlmPolicy(1000, unreadable_share=0.2)
    for user_id in ("ana", "ben", "eve", "max"):
        await app.memory.write.write_memory(caller.scope, draft("Likes bees.", user_id=user_id))
    midnight = tomorrow(clock) - timedelta(days=1)

    async def waste(user_id: str, tokens: int, rule: str = "malformed") -> None:
        call = ModelCall("multi_fact.v5", "m", 1, Usage(tokens, 0), status="refused", error=rule)
        await storage.settle_call(caller.scope, user_id, today, tokens, call, clock.now())

    async def wasted(*user_ids: str) -> list[str | None]:
        return [await storage.find_wasted_share(caller.scope, one, midnight, policy) for one in user_ids]

    await waste("ana", 500, "no_quote")
    assert await wasted("ana", "ben") == [None, None], "what broke a rule could be read"
    await waste("ana", 49)
    assert await wasted("ana", "ben") == [None, None]
    await waste("ana", 1)
    assert await wasted("ana", "ben") == ["user", None]
    for user_id in ("ben", "eve", "max"):
        await waste(user_id, 49)
    assert await wasted("ben", "max") == [None, None]
    await waste("nobody", 3)
    assert await wasted("ana", "ben", "nobody") == ["user", "tenant", "tenant"]
    clock.move(days=1)
    midnight = tomorrow(clock) - timedelta(days=1)
    assert await wasted("ana", "ben") == [None, None]


async def test_the_sum_of_unreadable_tokens_is_read_again_after_an_unreadable_answer(
    app: Application, caller: Caller, llm: FakeLlm, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    find = ModelCallStorage.find_wasted_share

    async def count(self: ModelCallStorage, *args: Any) -> Any:
        reads.append(args[1])
        return await find(self, *args)

    monkeypatch.setattr(ModelCallStorage, "find_wasted_share", count)

    def read(answer: Answer) -> CheckedAnswer[object]:
        return read_same_fact(PAIRS, answer)

    async with asker(app, llm, clock, daily_tokens=40 * NEEDED) as way:
        for _ in range(3):
            await way.require_answer(caller.scope, PROMPT, read, user_id=None)
        assert len(reads) == 1
        for _ in range(20):
            llm.scripts.extend([lambda _: "Hm.", lambda _: "Hm."])
            try:
                await way.require_answer(caller.scope, PROMPT, read, user_id=None)
            except UnusableAnswer:
                continue
            except TokensSpent:
                break
        else:
            pytest.fail("unreadable answers took more than their share")
        asked = len(llm.asked)
        with pytest.raises(TokensSpent):
            await way.require_answer(caller.scope, PROMPT, read, user_id=None)
        assert len(llm.asked) == asked
        clock.move(days=1)
        llm.scripts.clear()
        assert (await way.require_answer(caller.scope, PROMPT, read, user_id=None)).value is not None
