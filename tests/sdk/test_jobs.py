"""The methods of both clients that operate background jobs."""

import pytest
from mnema_client import Conflict

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
