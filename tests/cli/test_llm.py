"""`mnema llm`: the report on prompts of one tenant, and fact extraction from one turn."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from click.testing import Result
from typer.testing import CliRunner

from app.bootstrap import Application
from app.cli.main import app as command_line
from app.domain.filters import Filters
from app.domain.jobs.job import JobKind, JobPolicy, NewJob
from app.domain.memory.listing import MemoryListing
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.domain.reflection.model_usage import LlmPolicy, ModelCall, Usage
from app.storage.jobs.jobs import JobStorage
from app.storage.reflection.model_calls import ModelCallStorage
from tests.conftest import Database
from tests.factories import Caller, draft, make_caller
from tests.fake_llm import fake_llm

TURN = (
    "I work as a nurse in Porto and [/b] sleep badly after nights. My daughter Lena is allergic to peanuts, which is "
    "why there is no satay at home. Could you find me a hotel near the start of the race in Berlin, please? Thank you."
)


@pytest.mark.long
async def test_a_turn_is_read_by_hand(app: Application, caller: Caller, database: Database, tmp_path: Any) -> None:
    turn = await app.memory.turns.store_turn(
        caller.scope, draft(TURN, type=MemoryType.turn, category="activity", thread_id="talk", role="user")
    )
    async with fake_llm() as llm:
        env = {"MNEMA_DATABASE_URL": database.app, "MNEMA_HOME": str(tmp_path), "LLM_BASE_URL": llm.base_url}
        args = ["llm", "extract", "--tenant", str(caller.scope.tenant_id), "--turn", str(turn.id)]
        dry = await asyncio.to_thread(CliRunner().invoke, command_line, [*args, "--dry-run"], env=env)
        assert dry.exit_code == 0, dry.stderr
        first, second, counts = dry.stdout.splitlines()
        assert first.strip().startswith("[profile] The user works as a nurse in Porto and [/b] sleep badly")
        assert '"My daughter Lena is allergic' in second
        assert counts.startswith("facts 0, candidates 2, tokens ")
        done = await asyncio.to_thread(CliRunner().invoke, command_line, args, env=env)
        assert "facts 2, candidates 2" in done.stdout, done.stderr
        again = await asyncio.to_thread(CliRunner().invoke, command_line, args, env=env)
        assert (again.exit_code, "the model was not called: done" in again.stderr) == (1, True)
        assert len(llm.asked) == 2
        without = await asyncio.to_thread(CliRunner().invoke, command_line, args, env=env | {"MNEMA_LLM": "none"})
        assert "the model was not called: no_model" in without.stderr


@pytest.mark.long
async def test_what_was_said_is_reflected_on_by_hand(
    app: Application, caller: Caller, database: Database, tmp_path: Any
) -> None:
    for n, text in enumerate(("I moved to Porto [/b].", "I met Ana.", "I signed the lease.")):
        said = draft(text, type=MemoryType.turn, category="activity", thread_id="talk", role="user", seq=n)
        await app.memory.turns.store_turn(caller.scope, said)
    async with fake_llm() as llm:
        env = {"MNEMA_DATABASE_URL": database.app, "MNEMA_HOME": str(tmp_path), "LLM_BASE_URL": llm.base_url}
        tenant = ["--tenant", str(caller.scope.tenant_id)]

        async def run(*args: str, **more: str) -> Result:
            return await asyncio.to_thread(CliRunner().invoke, command_line, ["run", *args, *tenant], env=env | more)

        dry = await run("episodes", "--dry-run")
        assert dry.exit_code == 0, dry.stderr
        assert "maya talk: On " in dry.stdout
        assert "episodes: read 1, created 1, updated 0, tokens " in dry.stdout
        assert dry.stdout.endswith("(dry run: nothing was changed)\n")
        for job in ("episodes", "insights"):
            done = await run(job, "--user", "maya")
            assert "read 1, created 1, updated 0" in done.stdout, done.stderr
            assert "read 0, created 0" in (await run(job)).stdout
        assert "read 1, created 0" in (await run("summaries")).stdout, "three turns are not enough"
        without = await run("summaries", MNEMA_LLM="none")
        assert (without.exit_code, "no_chat_model" in without.stderr) == (1, True)


@pytest.mark.long
async def test_a_dry_run_tells_what_becomes_of_what_is_stored(
    app: Application, caller: Caller, database: Database, tmp_path: Any
) -> None:
    told = (
        "I have 3 cats at home. My daughter Lena is allergic to peanuts. My work is calm and quiet. I have [b] dogs "
        "too, and they sleep on the sofa all day long. Could you find me a hotel near the start of the race in Berlin?"
    )
    old = ("The user has 2 cats at home.", "The user's daughter Lena is allergic to peanuts and [dust].")
    for text in old:
        await app.memory.write.write_memory(caller.scope, draft(text, category="profile"))
    turn = await app.memory.turns.store_turn(
        caller.scope, draft(told, type=MemoryType.turn, category="activity", thread_id="talk", role="user")
    )
    async with fake_llm() as llm:
        env = {"MNEMA_DATABASE_URL": database.app, "MNEMA_HOME": str(tmp_path), "LLM_BASE_URL": llm.base_url}
        args = ["llm", "extract", "--tenant", str(caller.scope.tenant_id), "--turn", str(turn.id), "--dry-run"]
        dry = await asyncio.to_thread(CliRunner().invoke, command_line, args, env=env)
        assert dry.exit_code == 0, dry.stderr
        lines = [line.strip() for line in dry.stdout.splitlines()]
        assert [line for line in lines if line.startswith(("UPDATE", "NONE", "DELETE"))] == [
            f"UPDATE of: {old[0]}",
            f"NONE, known by: {old[1]}",
        ]
        assert "facts 0, candidates 4" in dry.stdout.replace("\n", " ")
        assert len(llm.asked) == 2
    found = (await app.memory.read.list_memories(caller.scope, MemoryListing(Filters("maya")), None, 10)).items
    assert {one.text for one in found if one.type is MemoryType.semantic} == set(old)


async def report(database: Database, home: Any, *args: str) -> Result:
    """Run the command within this process, in a thread."""
    env = {"MNEMA_DATABASE_URL": database.app, "MNEMA_HOME": str(home)}
    return await asyncio.to_thread(CliRunner().invoke, command_line, ["llm", "report", *args], env=env)


async def test_rates_by_version_and_what_is_left_of_today(
    app: Application, caller: Caller, database: Database, tmp_path: Any
) -> None:
    storage, now, other = ModelCallStorage(app.parts.uow), datetime.now(UTC), await make_caller(app)
    kept = ModelCall("facts.v2", "m", 1, Usage(100, 10), 5, items=4, items_ok=4)
    refused = ModelCall("facts.v2", "m", 1, Usage(100, 10), 5, "refused", "first_person", items=4, items_ok=3)
    again = ModelCall("facts.v2", "m", 2, Usage(120, 10), 5, items=4, items_ok=4)
    away = ModelCall("facts.v2", "m", 1, Usage(), 5, "error", "chat_model_unavailable")
    old = ModelCall("facts.v1", "m", 1, Usage(1, 1), 5)
    pair = ModelCall("same_fact.v3", "m", 1, Usage(7, 7), 5)
    whose: list[tuple[Principal, ModelCall, datetime]] = [
        (caller.scope, one, now) for one in (kept, refused, again, away, pair)
    ]
    for scope, call, at in [*whose, (caller.scope, old, now - timedelta(days=8)), (other.scope, old, now)]:
        assert await storage.reserve_tokens(scope, None, at.date(), 400, LlmPolicy()) is None
        await storage.settle_call(scope, None, at.date(), 400, call, at)
    told = await report(database, tmp_path, "--tenant", str(caller.scope.tenant_id))
    assert told.exit_code == 0, told.stderr
    lines = [line.split() for line in told.stdout.splitlines()]
    assert lines[1:-1] == [
        ["facts.v2", "4", "1", "87.5%", "8", "320", "30"],
        ["same_fact.v3", "1", "0", "100.0%", "0", "7", "7"],
    ]
    assert " ".join(lines[-1]) == f"today {320 + 30 + 14} of 200000 tokens"
    longer = await report(database, tmp_path, "--tenant", str(caller.scope.tenant_id), "--days", "9")
    assert "facts.v1" in longer.stdout
    theirs = await report(database, tmp_path, "--tenant", str(other.scope.tenant_id))
    assert [line.split()[0] for line in theirs.stdout.splitlines()] == ["prompt", "facts.v1", "today"]


@pytest.mark.long
async def test_what_became_no_memory_is_counted_by_rule(
    app: Application, caller: Caller, database: Database, tmp_path: Any
) -> None:
    other = await make_caller(app)
    for owner, texts in (
        (caller, ["Shall we talk?", "See you on Friday.", "I am allergic to nuts."]),
        (other, ["Hm."]),
    ):
        for text in texts:
            said = draft(text, type=MemoryType.turn, category="activity", thread_id="talk", role="user")
            for job_id in (await app.memory.turns.store_turn(owner.scope, said)).jobs:
                assert await app.jobs.run.run_job(owner.scope.tenant_id, job_id, "test") == "done"
    sql = await asyncpg.connect(database.superuser)
    part = {"candidates": 0, "refused": {"no_quote": 2, "first_person": 1}}
    jobs = JobStorage(app.parts.uow, JobPolicy())
    new = [NewJob(JobKind.reflect_turn, payload={"memory_id": str(n)}) for n in range(3)]
    for number, job_id in enumerate(await jobs.enqueue_jobs(caller.scope, new)):
        days = 8 if number == 2 else 0
        report_of_job = json.dumps({"multi_fact": part, "episode": {"why": "nothing"}})
        changed = (
            "UPDATE jobs SET report = $2::text::jsonb, updated_at = now() - make_interval(days => $3) WHERE id = $1"
        )
        await sql.execute(changed, job_id, report_of_job, days)
    columns = "tenant_id, key_id, route, key, body_hash, response"
    key = f"INSERT INTO idempotency_keys ({columns}) VALUES ($1, $2, $3, $4, '', $5)"
    for name, response in (("a", {"action": "refused", "reason": "erased"}), ("b", {"action": "created", "id": "x"})):
        await sql.execute(key, caller.scope.tenant_id, UUID(int=0), "capture", name, json.dumps(response))
    await sql.close()
    told = await report(database, tmp_path, "--tenant", str(caller.scope.tenant_id))
    assert told.exit_code == 0, told.stderr
    head, *rows, _today = told.stdout.splitlines()
    assert head.split() == ["not", "remembered", "number", "of", "reader"]
    assert [row.split() for row in rows] == [
        ["no_quote", "4", "facts", "multi_fact"],
        ["capture_nothing", "2", "turns", "capture"],
        ["first_person", "2", "facts", "multi_fact"],
        ["model_refused", "2", "turns", "multi_fact"],
        ["erased", "1", "facts", "capture"],
    ]
    longer = await report(database, tmp_path, "--tenant", str(caller.scope.tenant_id), "--days", "9")
    assert longer.stdout.splitlines()[1].split() == ["no_quote", "6", "facts", "multi_fact"]
    theirs = await report(database, tmp_path, "--tenant", str(other.scope.tenant_id))
    assert theirs.stdout.splitlines()[1].split() == ["capture_nothing", "1", "turns", "capture"]
