"""The job after a turn: it embeds a turn without a vector and evicts entries of a full thread."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.jobs.job import JobKind, JobPolicy, JobState, NewJob
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.storage.jobs.jobs import JobStorage
from app.usecases.memory.turns import StoredTurn
from app.usecases.recall.request import Query
from tests.factories import Caller, draft
from tests.usecases.conftest import Configured
from tests.usecases.crowd import SeededEmbedder
from tests.usecases.stored import VECTORS


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model that can be made to fail."""
    return SeededEmbedder()


@pytest.fixture
def scope(caller: Caller) -> Principal:
    """The principal that owns the turns."""
    return caller.scope


async def say(app: Application, scope: Principal, text: str, **fields: Any) -> StoredTurn:
    """Store a turn in the thread `talk`."""
    turn = {"type": MemoryType.turn, "category": "activity", "thread_id": "talk", "role": "user"}
    return await app.memory.turns.store_turn(scope, draft(text, **turn | fields))


async def run_all(app: Application, scope: Principal) -> Mapping[str, Any]:
    """Run all due jobs to their end and return the sums of their reports' numbers."""
    total: dict[str, int] = {}
    while swept := await app.jobs.run.collect_due_jobs():
        for tenant_id, job_id, kind in swept:
            assert await app.jobs.run.run_job(tenant_id, job_id, "test") == "done", kind
            report = (await app.jobs.manage.get_job(scope, job_id)).report or {}
            total = {name: total.get(name, 0) + report[name] for name in ("embedded", "evicted") if name in report}
    return total


@pytest.mark.long
async def test_the_oldest_turns_of_a_full_thread_go_one_user_at_a_time(
    configured: Configured, scope: Principal, sql: asyncpg.Connection
) -> None:
    app = await configured(policies={"lifecycle": {"max_entries": 3}})
    pinned = await say(app, scope, "Pinned.", pinned=True)
    turns = [await say(app, scope, f"Turn {n}.") for n in range(5)]
    others = [await say(app, scope, "Elsewhere.", thread_id="other"), await say(app, scope, "Ben.", user_id="ben")]
    summary = await app.memory.write.write_memory(scope, draft("In short.", type=MemoryType.summary, thread_id="talk"))
    assert await run_all(app, scope) == {"embedded": 0, "evicted": 3}
    kept = {row["id"] for row in await sql.fetch("SELECT id FROM memories WHERE state = 'active'")}
    assert kept == {pinned.id, summary.id, *(turn.id for turn in [*turns[3:], *others])}
    again = await JobStorage(app.parts.uow, JobPolicy()).list_jobs(scope, JobState.done, None, None, 10)
    for job in again:
        await app.jobs.manage.replay_job(scope, job.id)
    assert await run_all(app, scope) == {"embedded": 0, "evicted": 0}


@pytest.mark.long
async def test_many_turns_without_a_vector_get_theirs_in_batches_and_only_once(
    app: Application, scope: Principal, sql: asyncpg.Connection, embedder: SeededEmbedder
) -> None:
    embedder.failing = True
    for n in range(130):
        await say(app, scope, f"Turn {n}.")
    await sql.execute("UPDATE jobs SET state = 'dead'")
    embedder.failing = False
    store = JobStorage(app.parts.uow, JobPolicy())
    for expected in (130, 0):
        await store.enqueue_jobs(scope, [NewJob(JobKind.embed)])
        assert await run_all(app, scope) == {"embedded": expected}
    assert await sql.fetchval(f"SELECT count(*) FROM {VECTORS}") == 130


async def test_turns_are_answered_before_they_have_a_vector(
    app: Application, scope: Principal, embedder: SeededEmbedder
) -> None:
    embedder.failing = True
    for n in range(6):
        await say(app, scope, f"Turn {n}.", seq=n)
    embedder.failing = False
    for profile, threshold in product(("default", "facts", "dense"), (None, 0.9)):
        query = Query("supervisor", "Which violin was it?", filters=Filters(user_id="maya"), profile=profile)
        answer = await app.recall.query.answer_query(scope, replace(query, top_k=5, threshold=threshold, explain=True))
        assert (len(answer.items), [d.reason for d in answer.dropped], answer.degraded) == (5, ["rank"], None)
        for item in answer.items:
            assert item.scored is not None
            assert item.scored.candidate.similarity is None
            assert item.scored.total == pytest.approx(sum(item.scored.parts.values()), abs=1e-9)


@pytest.mark.parametrize("payload", [{}, {"memory_id": "x", "thread_id": "t"}, {"memory_id": None, "thread_id": "t"}])
async def test_a_job_that_names_no_turn_is_set_aside_at_once(
    app: Application, scope: Principal, payload: dict[str, Any]
) -> None:
    await say(app, scope, "Good morning.")
    [job_id] = await JobStorage(app.parts.uow, JobPolicy()).enqueue_jobs(
        scope, [NewJob(JobKind.after_turn, "maya", payload)]
    )
    assert await app.jobs.run.run_job(scope.tenant_id, job_id, "test") == "dead"
    assert (
        await app.jobs.manage.get_job(scope, job_id)
    ).last_error == "job_failed: the payload needs a memory_id (a UUID) and a thread_id (a string)"


async def test_a_turn_that_is_gone_is_no_error(app: Application, scope: Principal) -> None:
    turn = await say(app, scope, "Gone soon.")
    assert turn.id is not None
    await app.memory.edit.purge_memory(scope, turn.id)
    assert await run_all(app, scope) == {"embedded": 0, "evicted": 0}


async def test_a_turn_is_embedded_with_who_speaks(
    app: Application, scope: Principal, sql: asyncpg.Connection, embedder: SeededEmbedder
) -> None:
    held: dict[UUID | None, str] = {}
    for failing in (False, True):
        embedder.failing = failing
        turn = await say(app, scope, "Yes.", actor_id="maya")
        embedder.failing = False
        await sql.execute("UPDATE jobs SET next_run = now()")
        await run_all(app, scope)
        held[turn.id] = await sql.fetchval(f"SELECT embedding::text FROM {VECTORS} WHERE memory_id = $1", turn.id)
    assert len(held) == 2
    assert len(set(held.values())) == 1
