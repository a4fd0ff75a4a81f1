"""Queries with a cross-encoder behind HTTP: the texts it reads, its effect on the ranking, concurrent changes."""

import math
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import yaml

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from app.domain.filters import Filters
from app.ports import Embedder
from app.storage.uow import UnitOfWork
from app.usecases.recall.answer import Answer
from app.usecases.recall.request import Query
from tests.factories import Caller, Clock, KeepOpen, draft, make_caller
from tests.rerank_server import Fault, RerankServer, overlap, rerank_server
from tests.usecases.conftest import Configured
from tests.usecases.stored import events_of

pytestmark = pytest.mark.usefixtures("own")

DEFAULT = yaml.safe_load((CONFIG_DIR / "policies.yaml").read_text(encoding="utf-8"))["profiles"]["default"]
QUESTION = "Does Maya drink oat milk"
TEXTS = (
    "Maya repairs the bicycle.",
    "Oat milk is what Maya will drink.",
    "Maya drinks green tea.",
    "A dairy farm.",
    "Maya prefers window seats.",
    "The milk is sour.",
)


@pytest.fixture
async def model() -> AsyncIterator[RerankServer]:
    """A cross-encoder behind HTTP."""
    async with rerank_server("tei") as running:
        yield running


@pytest.fixture
def settings(settings: Settings, model: RerankServer) -> Settings:
    """Settings of an installation that uses the cross-encoder and has one database connection."""
    given = {"reranker": "http", "reranker_base_url": model.base_url, "reranker_timeout_s": 60.0, "pool_max": 1}
    return settings.model_copy(update=given)


@pytest.fixture
async def plain(settings: Settings, embedder: Embedder, clock: Clock) -> AsyncIterator[Application]:
    """An application without a cross-encoder."""
    usual = settings.model_copy(update={"reranker": "late_interaction"})
    async with build_application(usual, Doubles(embedder=embedder, clock=clock)) as built:
        yield built


@pytest.fixture
async def memories(app: Application, caller: Caller) -> dict[str, UUID]:
    """The ids of the stored memories by text."""
    return await remember(app, caller)


_SAID: dict[UUID, str] = {}
"""Texts that `remember` has written, by id."""


async def remember(app: Application, caller: Caller, **fields: Any) -> dict[str, UUID]:
    """Write TEXTS and return the ids by text."""
    written = {text: await app.memory.write.write_memory(caller.scope, draft(text, **fields)) for text in TEXTS}
    _SAID.update({one.id: text for text, one in written.items() if one.id is not None})
    return {text: one.id for text, one in written.items() if one.id is not None}


async def ask(app: Application, caller: Caller, **fields: Any) -> Answer:
    """Query maya's memories with `explain`."""
    usual = {"filters": Filters(user_id="maya"), "top_k": 3, "budget_tokens": 8192, "explain": True}
    return await app.recall.query.answer_query(
        caller.scope, Query("supervisor", QUESTION, **({"min_relevance": 0.0} | usual | fields))
    )


def scores(answer: Answer) -> dict[str, Mapping[str, float]]:
    """Return the score parts of every candidate by text."""
    every = [*(i.scored for i in answer.items), *(d.scored for d in answer.dropped)]
    return {_SAID[s.candidate.id]: s.parts for s in every if s is not None}


def texts(answer: Answer) -> list[str]:
    """Return the texts of the answer."""
    return [item.memory.text for item in answer.items]


@pytest.mark.long
@pytest.mark.usefixtures("memories")
async def test_what_it_reads_decides_and_the_parts_add_up(
    app: Application, plain: Application, caller: Caller, model: RerankServer
) -> None:
    answer = await ask(app, caller)
    assert answer.degraded is None
    assert texts(answer)[0] == "Oat milk is what Maya will drink."
    [request] = model.requests
    assert request["query"] == QUESTION
    assert sorted(request["texts"]) == sorted(TEXTS)
    for scored in (*(i.scored for i in answer.items), *(d.scored for d in answer.dropped)):
        assert scored is not None
        assert scored.total == pytest.approx(sum(scored.parts.values()), abs=1e-9)
    read = {text: parts["rerank"] for text, parts in scores(answer).items()}
    overlaps = [overlap(QUESTION, text) for text in sorted(read, key=read.__getitem__)]
    assert overlaps == sorted(overlaps)
    usual = scores(await ask(plain, caller))
    assert {text: {*parts, "rerank"} for text, parts in usual.items()} == {t: {*p} for t, p in scores(answer).items()}
    assert len(model.requests) == 1


@pytest.mark.long
@pytest.mark.usefixtures("memories")
async def test_seed_002_is_the_sigmoid_of_its_score(app: Application, caller: Caller, model: RerankServer) -> None:
    answer = await ask(app, caller, profile="reranked", top_k=1)
    assert len(model.requests[0]["texts"]) == 3  # the pool: three for each slot
    relevance = {text: 1 / (1 + math.exp(-overlap(QUESTION, text))) for text in model.requests[0]["texts"]}
    for text, parts in scores(answer).items():
        if text in relevance:
            assert parts["relevance"] == pytest.approx(0.8 * relevance[text], abs=1e-9)
    [best] = answer.items
    assert best.memory.text == max(relevance, key=relevance.__getitem__)
    reasons = {_SAID[d.scored.candidate.id]: d.reason for d in answer.dropped}
    assert {text for text, reason in reasons.items() if reason == "rank"} >= set(TEXTS) - set(relevance)
    low = {text for text, value in relevance.items() if value < 0.35}
    assert low
    assert {text for text, reason in reasons.items() if reason == "score_threshold"} == low


@pytest.mark.long
async def test_only_the_best_are_read(configured: Configured, caller: Caller, model: RerankServer) -> None:
    some = await configured(policies={"profiles": {"default": DEFAULT | {"rerank_candidates": 2}}})
    await remember(some, caller)
    answer = await ask(some, caller, top_k=1)
    assert len(model.requests[-1]["texts"]) == 2
    parts = scores(answer)
    worst = min(parts[text]["rerank"] for text in model.requests[-1]["texts"])
    assert {parts[text]["rerank"] for text in set(TEXTS) - set(model.requests[-1]["texts"])} == {worst}
    await ask(some, caller, top_k=4)
    assert len(model.requests[-1]["texts"]) == 4
    never = await configured(policies={"profiles": {"default": DEFAULT | {"rerank": 0.0}}})
    await ask(never, caller)
    assert len(model.requests) == 2


@pytest.mark.usefixtures("memories")
async def test_what_is_not_similar_enough_is_not_read(app: Application, caller: Caller, model: RerankServer) -> None:
    answer = await ask(app, caller, threshold=0.6)
    dropped = {_SAID[d.scored.candidate.id] for d in answer.dropped if d.reason == "threshold"}
    assert 0 < len(dropped) < len(TEXTS)
    assert set(model.requests[0]["texts"]) == set(TEXTS) - dropped


@pytest.mark.long
@pytest.mark.usefixtures("memories")
async def test_it_reads_what_the_asker_may_see_and_nothing_else(
    app: Application, caller: Caller, model: RerankServer
) -> None:
    other = await make_caller(app)
    await remember(app, other, category="event")
    await app.memory.write.write_memory(caller.scope, draft("Nadia drinks oat milk.", user_id="nadia"))
    await app.memory.write.write_memory(caller.scope, draft("Maya knows oat milk.", category="knowledge"))
    pinned = await app.memory.write.write_memory(caller.scope, draft("Maya pinned the milk.", pinned=True))
    await ask(app, caller)
    assert sorted(model.requests.pop()["texts"]) == sorted([*TEXTS, "Maya pinned the milk."])
    answer = await ask(app, caller, filters=Filters(user_id="maya", pinned=True))
    assert model.requests.pop()["texts"] == ["Maya pinned the milk."]
    assert [item.memory.id for item in answer.items] == [pinned.id]
    await ask(app, other, categories=("event",))
    assert sorted(model.requests.pop()["texts"]) == sorted(TEXTS)
    assert texts(await ask(app, other, categories=("tasks",))) == []
    assert not model.requests  # no candidates, no call


@pytest.mark.long
@pytest.mark.parametrize("way", ["soft_delete", "purge", "other category", "filter", "erase"])
async def test_what_is_gone_meanwhile_is_not_answered(
    app: Application, caller: Caller, model: RerankServer, memories: dict[str, UUID], way: str
) -> None:
    scope, gone = caller.scope, memories["Oat milk is what Maya will drink."]
    ways = {
        "soft_delete": lambda: app.memory.edit.soft_delete_memory(scope, gone),
        "purge": lambda: app.memory.edit.purge_memory(scope, gone),
        "other category": lambda: app.memory.edit.patch_memory(scope, gone, {"category": "knowledge"}, version=None),
        "filter": lambda: app.memory.edit.pin_memory(scope, gone, True),
        "erase": lambda: app.retention.erase.erase_user(scope, "maya"),
    }
    model.meanwhile = ways[way]  # uses the only connection, which is free while the model reads
    answer = await ask(app, caller, filters=Filters(user_id="maya", pinned=False), top_k=6)
    assert model.meanwhile is None
    expected = set() if way == "erase" else set(TEXTS) - {"Oat milk is what Maya will drink."}
    assert set(texts(answer)) == set(scores(answer)) == expected
    assert answer.related == [] or {item.memory.id for item in answer.related}.isdisjoint({gone})


async def test_what_is_changed_meanwhile_is_answered_as_it_is_now(
    app: Application, caller: Caller, model: RerankServer, memories: dict[str, UUID]
) -> None:
    best = memories["Oat milk is what Maya will drink."]
    model.meanwhile = lambda: app.memory.edit.patch_memory(
        caller.scope, best, {"text": "Oat milk no more."}, version=None
    )
    answer = await ask(app, caller)
    assert answer.items[0].memory.id == best
    assert answer.items[0].text.startswith("[preferences] Oat milk no more. (")


@pytest.mark.long
@pytest.mark.usefixtures("memories")
@pytest.mark.parametrize("profile", ["default", "reranked"])
async def test_a_failure_gives_the_answer_without_it(
    app: Application, plain: Application, caller: Caller, model: RerankServer, profile: str, sql: asyncpg.Connection
) -> None:
    model.faults.append(Fault.GARBAGE)
    answer, expected = await ask(app, caller, profile=profile), await ask(plain, caller, profile=profile)
    assert answer.degraded == "reranker_unavailable"
    assert expected.degraded is None
    assert texts(answer) == texts(expected) != []
    assert [i.scored.parts.keys() for i in answer.items if i.scored] == [
        i.scored.parts.keys() for i in expected.items if i.scored
    ]
    assert (await ask(app, caller, profile=profile)).degraded is None
    await app.parts.access.flush_pending()
    asked = [status for node, op, status in await events_of(sql) if (node, op) == ("context", "search")]
    assert asked == ["error", "ok"]
    assert b"mnema_reranker_failures_total 1.0" in app.parts.metrics.render_text()


@pytest.mark.long
@pytest.mark.usefixtures("memories")
async def test_it_reads_as_well_what_words_alone_have_found(
    app: Application, caller: Caller, model: RerankServer, embedder: KeepOpen
) -> None:
    embedder.failing = True
    try:
        answer = await ask(app, caller)
        assert answer.degraded == "embedder_unavailable"
        assert texts(answer)[0] == "Oat milk is what Maya will drink."
        assert len(model.requests) == 1
        model.faults.append(Fault.GARBAGE)
        assert (await ask(app, caller)).degraded == "embedder_unavailable"
    finally:
        embedder.failing = False


async def test_the_header_tells_what_happened_meanwhile_and_once(
    app: Application, caller: Caller, model: RerankServer
) -> None:
    ids = await remember(app, caller, thread_id="t")
    assert len((await ask(app, caller, thread_id="t")).header.splitlines()) == 4
    assert (await ask(app, caller, thread_id="t")).header == ""
    model.meanwhile = lambda: app.memory.edit.soft_delete_memory(caller.scope, ids["A dairy farm."])
    assert "~soft_deleted: [Preferences] A dairy farm." in (await ask(app, caller, thread_id="t")).header
    assert (await ask(app, caller, thread_id="t")).header == ""


@pytest.mark.usefixtures("memories")
async def test_readiness_says_when_it_is_away(app: Application, model: RerankServer) -> None:
    model.faults.append(Fault.UNAUTHORISED)
    told = (await app.operations.readiness.run_checks())["reranker"]
    assert told.startswith("The reranker's endpoint answered HTTP 401. Check MNEMA_RERANKER_BASE_URL")
    assert "reranker" in app.operations.readiness.OPTIONAL
    for _ in range(3):
        assert (await app.operations.readiness.run_checks())["reranker"] == "ok"
    assert len(model.requests) == 2


@pytest.mark.long
async def test_only_a_model_that_reads_costs_a_second_transaction(
    app: Application,
    plain: Application,
    settings: Settings,
    embedder: Embedder,
    clock: Clock,
    caller: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await remember(app, caller)
    opened, calls = [], UnitOfWork.calls
    monkeypatch.setattr(UnitOfWork, "calls", lambda *given: opened.append(given) or calls(*given))
    usual = settings.model_copy(update={"reranker": "none"})
    async with build_application(usual, Doubles(embedder=embedder, clock=clock)) as none:
        opened.clear()
        counts = []
        for one in (app, plain, none):
            answer = await ask(one, caller)
            counts.append(len(opened))
            opened.clear()
            assert len(answer.items) == 3
            assert any("late" in parts for parts in scores(answer).values()) == (one is not none)
    assert counts == [3, 2, 2]  # the explanation looks for what the answer hides in one of its own
