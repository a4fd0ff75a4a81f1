"""The methods of both clients that operate background jobs."""

from uuid import uuid4

import pytest
from mnema_client import Conflict, NotFound

from tests.api.calls import sql
from tests.conftest import Database
from tests.sdk.conftest import Either


async def test_kinds_are_paused_and_resumed(either: Either) -> None:
    assert (await either.pause_jobs("ttl")).paused == ["ttl"]
    assert (await either.pause_jobs("*")).paused == ["*", "ttl"]
    assert (await either.job_counts()).paused == ["*", "ttl"]
    assert (await either.resume_jobs("ttl")).paused == ["*"]
    assert (await either.resume_jobs("*")).paused == []


async def test_a_dead_job_is_found_and_replayed(either: Either, database: Database) -> None:
    turn = await either.add_turn("Maya books the venue.", user_id="maya", thread_id="t", role="user")
    job = await either.job(turn.jobs[0])
    with pytest.raises(Conflict):
        await either.replay_job(job.id)
    await sql(database, "UPDATE jobs SET state = 'dead', last_error = 'x' WHERE id = $1", job.id)
    page = await either.job_page(state="dead", limit=1)
    assert [(found.id, found.last_error) for found in page.items] == [(job.id, "x")]
    assert (await either.replay_job(job.id)).state == "queued"
    assert (await either.job_page(state="dead")).items == []


async def test_a_turn_is_traced(either: Either) -> None:
    turn = await either.add_turn("Shall we talk on Friday?", user_id="maya", thread_id="t", role="user")
    assert (await either.pause_jobs("after_turn")).paused == ["after_turn"]
    trace = await either.turn_trace(turn.id)
    assert [reason.code for reason in trace.reasons] == ["job_paused", "no_model"]
    assert [(job.id, job.kind, job.paused) for job in trace.jobs] == [(turn.jobs[0], "after_turn", True)]
    assert (trace.remembered, trace.facts, trace.has_model) == (0, [], False)
    with pytest.raises(NotFound):
        await either.turn_trace(uuid4())
