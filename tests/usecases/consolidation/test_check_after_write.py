"""The job that compares a new memory by a chat model seconds after its write, and the veto against a sloppy model."""

import asyncio
from collections.abc import Mapping
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.config.settings import Settings
from app.domain.jobs.job import JobState
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.prompts.same_fact import CONTROLS, VERSION
from app.usecases.memory.bulk import BulkLine
from tests.factories import Clock, draft
from tests.fake_llm import FakeLlm, Fault
from tests.fake_llm.prompts import Question
from tests.usecases.conftest import Configured
from tests.usecases.reflecting import with_model
from tests.usecases.stored import active_texts, history_of

pytestmark = pytest.mark.usefixtures("own")

OLD, NEW = "The user works as a paediatric nurse.", "The user is employed as a nurse for children."
VETOED = [
    ("Ana manages Ben.", "Ben manages Ana."),
    ("The user has yoga on Monday.", "The user has yoga on Tuesday."),
    ("The user flies to Rome on 3 May.", "The user flies to Rome on 17 May."),
    ("The user's son is three years old.", "The user's son is four years old."),
    ("Ana's dog is afraid of storms.", "Ben's dog is afraid of storms."),
    ("The user eats meat.", "The user does not eat meat."),
]


def says_yes(question: Question) -> Any:
    """Join every pair but the control, as a model that does not look closely."""
    return {
        "verdicts": [
            {"id": one["id"], "verdict": "different" if (one["older"], one["newer"]) in CONTROLS else "same"}
            for one in question["pairs"]
        ]
    }


@pytest.fixture
def settings(settings: Settings, llm: FakeLlm) -> Settings:
    """Settings with a model that says yes."""
    llm.always = says_yes
    return with_model(settings, llm, timeout_s=2.0)


async def work(app: Application, scope: Principal, expected: str = "done") -> list[Mapping[str, Any]]:
    """Run the due jobs once, and return the reports of the jobs `same_fact`."""
    reports = []
    for tenant, job, kind in await app.jobs.run.collect_due_jobs():
        if kind == "same_fact":
            assert await app.jobs.run.run_job(tenant, job, "test") == expected
            reports.append((await app.jobs.manage.get_job(scope, job)).report or {})
    return reports


async def test_the_write_does_not_wait_and_its_job_joins_the_two(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    first = await app.memory.write.write_memory(scope, draft(OLD, importance=4))
    second = await app.memory.write.write_memory(scope, draft(NEW))
    assert (second.action, llm.asked) == ("created", [])
    [report] = await work(app, scope)
    assert (report["checked"], report["merged"], report["left"]) == (1, 1, 0)
    assert [one.version for one in llm.asked] == [VERSION]
    assert len(await active_texts(sql)) == 1
    events = {row["event"] for one in (first, second) for row in await history_of(sql, one.id)}
    assert "MERGE" in events
    assert await app.consolidation.consolidate_users(scope)
    assert len(llm.asked) == 1, "the night does not ask again"


@pytest.mark.long
@pytest.mark.parametrize("place", ["job", "night"])
async def test_no_yes_joins_what_the_veto_keeps_apart(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection, place: str
) -> None:
    for number, pair in enumerate(VETOED):
        for text in pair:
            written = await app.memory.write.write_memory(scope, draft(text, user_id=f"user {number}"))
            assert written.action == "created"
    if place == "job":
        reports = await work(app, scope)
        assert sum(report["checked"] for report in reports) == len(VETOED)
    else:
        assert (await app.consolidation.consolidate_users(scope)).checked == len(VETOED)
    assert len(llm.asked) == len(VETOED), "each pair was put to the model"
    for number, pair in enumerate(VETOED):
        assert await active_texts(sql, f"user {number}") == sorted(pair)


@pytest.mark.parametrize("text", ["The deployment needs two approvals.", OLD])
async def test_far_and_equal_texts_need_no_job(app: Application, scope: Principal, text: str) -> None:
    await app.memory.write.write_memory(scope, draft(OLD))
    await app.memory.write.write_memory(scope, draft(text))
    assert await work(app, scope) == []


@pytest.mark.long
async def test_writes_at_once_have_one_job_a_user(app: Application, scope: Principal, sql: asyncpg.Connection) -> None:
    await app.memory.write.write_memory(scope, draft(OLD))
    texts = [f"The user is employed as a nurse for children of ward {number}." for number in range(30)]
    await asyncio.gather(*(app.memory.write.write_memory(scope, draft(text)) for text in texts))
    await app.memory.write.write_memory(scope, draft(OLD, user_id="ben"))
    await app.memory.write.write_memory(scope, draft(NEW, user_id="ben"))
    jobs = await sql.fetch("SELECT user_id, payload FROM jobs WHERE kind = 'same_fact' ORDER BY user_id")
    assert [row["user_id"] for row in jobs] == ["ben", "maya"]
    assert len(jobs[1]["payload"]["memory_ids"]) == 30
    reports = await work(app, scope)
    assert [report["checked"] > 0 for report in reports] == [True, True]


@pytest.mark.long
async def test_pairs_without_a_verdict_count_against_the_limit_of_the_day(
    configured: Configured, scope: Principal, llm: FakeLlm
) -> None:
    app = await configured(policies={"consolidation": {"pairs_per_user_day": 3}}, llm=llm)
    llm.broken = Fault.PROSE
    await app.memory.write.write_memory(scope, draft(OLD))
    for number in range(5):
        await app.memory.write.write_memory(
            scope, draft(f"The user is employed as a nurse for children of ward {number}.")
        )
        await work(app, scope)
    told = sum(len(one.question["pairs"]) - 1 for one in llm.asked if one.version == VERSION and not one.complaint)
    assert told == 3


async def test_a_comparison_starts_after_turns_that_wait(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    await app.memory.write.write_memory(scope, draft(OLD))
    await app.memory.write.write_memory(scope, draft(NEW))
    turn = {"type": MemoryType.turn, "category": "activity", "thread_id": "talk", "role": "user"}
    await app.memory.turns.store_turn(scope, draft("Good morning.", **turn))
    due = await app.jobs.run.collect_due_jobs()
    assert [kind for _tenant, _job, kind in due] == ["after_turn", "same_fact"]
    (_, turn_job, _), (tenant, comparison, _) = due
    assert await app.jobs.run.run_job(tenant, comparison, "test") == "skipped"
    assert await app.jobs.run.run_job(tenant, turn_job, "test") == "done"
    assert await app.jobs.run.run_job(tenant, comparison, "test") == "skipped", "a job reads the turn first"
    await sql.execute("UPDATE jobs SET next_run = now() - interval '11 minutes' WHERE kind = 'same_fact'")
    assert await app.jobs.run.run_job(tenant, comparison, "test") == "done", "it never waits for ever"


async def test_a_bulk_write_has_one_job(app: Application, scope: Principal, sql: asyncpg.Connection) -> None:
    other = "The user's dentist works in the old town.", "The dentist of the user has a practice in the old town."
    for text in (OLD, other[0]):
        await app.memory.write.write_memory(scope, draft(text))
    lines = [BulkLine(number, draft(text)) for number, text in enumerate((NEW, other[1]), 1)]
    actions = [getattr(one.outcome, "action", one.outcome) async for one in app.memory.bulk.write_lines(scope, lines)]
    assert actions == ["created", "created"]
    [report] = await work(app, scope)
    assert (report["checked"], report["merged"]) == (2, 2)
    assert len(await active_texts(sql)) == 2


@pytest.mark.long
async def test_a_model_that_fails_is_asked_again_and_one_that_joins_the_control_counts_as_left(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection, clock: Clock
) -> None:
    for text in (OLD, NEW):
        await app.memory.write.write_memory(scope, draft(text))
    llm.broken = Fault.SERVER_ERROR
    await work(app, scope, "retry")
    [job] = (await app.jobs.manage.list_jobs(scope, JobState.queued, "same_fact", None, 10)).items
    assert job.attempts == 1
    llm.broken = None
    llm.always = lambda question: {"verdicts": [{"id": one["id"], "verdict": "same"} for one in question["pairs"]]}
    await sql.execute("UPDATE jobs SET next_run = now() - interval '1 s', published_at = NULL WHERE state = 'queued'")
    [report] = await work(app, scope)
    assert (report["checked"], report["left"], report["merged"]) == (0, 1, 0)
    llm.always = says_yes
    assert (await app.consolidation.consolidate_users(scope)).merged == 0, "it was asked about today"
    clock.move(days=1)
    assert (await app.consolidation.consolidate_users(scope)).merged == 1, "what was left is for another day"


async def test_the_pairs_of_a_day_have_one_limit_and_the_others_are_left(
    configured: Configured, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection, clock: Clock
) -> None:
    app = await configured(policies={"consolidation": {"pairs_per_user_day": 1}})
    llm.always = lambda question: {"verdicts": [{"id": one["id"], "verdict": "different"} for one in question["pairs"]]}
    for text in (OLD, NEW, "The user is a nurse who works with children."):
        await app.memory.write.write_memory(scope, draft(text))
    reports = await work(app, scope)
    assert sum(report["checked"] for report in reports) == 1
    assert sum(report["left"] for report in reports) == 2
    night = await app.consolidation.consolidate_users(scope)
    assert (night.checked, night.left) == (0, 2)
