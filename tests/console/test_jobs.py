"""The page Jobs: counts, a failed job with its error, its replay, and the pauses of kinds."""

from uuid import UUID, uuid4

import pytest
from mnema_client import AsyncMnema
from nicegui.testing import User

from app.bootstrap import Application
from tests.api.calls import sql
from tests.conftest import Database
from tests.console.people import People, press, sees
from tests.factories import Caller, make_caller

ERROR = "ValueError: <b>lost</b> \u202eagain"
REVEALED = "ValueError: <b>lost</b> [U+202E]again"


@pytest.fixture
async def dead_job(memory: AsyncMnema, database: Database) -> UUID:
    """Return a job that failed for good."""
    turn = await memory.add_turn("Maya books the venue.", user_id="maya", thread_id="t", role="user")
    await sql(database, "UPDATE jobs SET state = 'dead', attempts = 8, last_error = $1", ERROR)
    return turn.jobs[0]


@pytest.mark.long
async def test_a_dead_job_says_why_and_is_replayed(person: User, memory: AsyncMnema, dead_job: UUID) -> None:
    await person.open("/jobs?state=dead")
    await sees(person, REVEALED)
    await press(person, "Replay")
    await sees(person, "No jobs here")
    assert (await memory.job(dead_job)).state == "queued"


@pytest.mark.long
async def test_one_job_is_shown_whole_and_replayed(person: User, memory: AsyncMnema, dead_job: UUID) -> None:
    await person.open(f"/jobs?job_id={dead_job}")
    await sees(person, REVEALED)
    await sees(person, str(dead_job))
    await sees(person, "memory_id")  # of the payload
    await press(person, "Replay")
    await sees(person, "Waiting")
    assert (await memory.job(dead_job)).state == "queued"


@pytest.mark.long
async def test_a_kind_is_paused_and_resumed(person: User, memory: AsyncMnema, dead_job: UUID) -> None:
    await person.open("/jobs")
    await sees(person, "Follow up a turn")
    await press(person, "Pause")
    await sees(person, "paused")
    assert (await memory.job_counts()).paused == ["after_turn"]
    await press(person, "Resume")
    await sees(person, "Resumed: Follow up a turn")
    assert (await memory.job_counts()).paused == []


async def test_everything_is_paused_and_resumed_without_any_job(person: User, memory: AsyncMnema) -> None:
    await person.open("/jobs")
    await sees(person, "No jobs yet")
    await press(person, "Pause all")
    await sees(person, "All jobs are paused")
    assert (await memory.job_counts()).paused == ["*"]
    await press(person, "Resume all")
    await sees(person, "No jobs yet")
    assert (await memory.job_counts()).paused == []


async def test_an_unknown_job_is_not_found(person: User) -> None:
    await person.open(f"/jobs?job_id={uuid4()}")
    await sees(person, "Not found")
    await person.open("/jobs?job_id=../../health")
    await sees(person, "The request is not valid")
    await sees(person, "'../../health' is no id")


async def test_a_key_without_the_scope_is_told(app: Application, people: People, caller: Caller) -> None:
    reader = await people.sign_in((await make_caller(app, ["query"], None, caller)).key)
    await reader.open("/jobs")
    await sees(reader, "it has no scope admin")
