"""`mnema jobs`: an operator's commands on background jobs, without the server."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from click.testing import Result
from typer.testing import CliRunner

from app.bootstrap import Application
from app.cli.main import app as command_line
from app.domain.jobs.job import JobKind, JobPolicy, JobState, NewJob
from app.domain.principal import Principal
from app.storage.jobs.jobs import JobStorage
from tests.conftest import Database
from tests.factories import Caller, make_caller
from tests.usecases.crowd import SeededEmbedder


@pytest.fixture
def embedder() -> SeededEmbedder:
    """Return an embedder without a model."""
    return SeededEmbedder()


@pytest.fixture
def env(database: Database, tmp_path: Path) -> dict[str, str]:
    """Return an operator's environment with the database."""
    return {"MNEMA_DATABASE_URL": database.app, "MNEMA_HOME": str(tmp_path / "home")}


async def mnema(env: dict[str, str], tenant: Caller, *args: object) -> Result:
    """Run `mnema jobs …` of a tenant within this process, in a thread beside the event loop."""
    line = ["jobs", *map(str, args), "--tenant", str(tenant.scope.tenant_id)]
    return await asyncio.to_thread(CliRunner().invoke, command_line, line, env=env)


async def said(env: dict[str, str], tenant: Caller, *args: object) -> str:
    """Return the output of a command that must succeed."""
    done = await mnema(env, tenant, *args)
    assert done.exit_code == 0, done.output
    return done.stdout


async def queued(app: Application, scope: Principal, kind: JobKind, **fields: Any) -> UUID:
    [job_id] = await JobStorage(app.parts.uow, JobPolicy()).enqueue_jobs(scope, [NewJob(kind, **fields)])
    return job_id


@pytest.mark.long
async def test_jobs_are_listed_shown_and_replayed(
    app: Application, caller: Caller, env: dict[str, str], database: Database
) -> None:
    other = await make_caller(app)
    turn = await queued(app, caller.scope, JobKind.after_turn, payload={"memory_id": "[/]"})
    embed = await queued(app, caller.scope, JobKind.embed)
    theirs = await queued(app, other.scope, JobKind.embed)
    assert await app.jobs.run.run_job(caller.scope.tenant_id, turn, "w") == "dead"
    lines = (await said(env, caller, "list")).splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        [str(embed), "embed", "queued"],
        [str(turn), "after_turn", "dead"],
    ]
    assert lines[2].endswith("job_failed: the payload needs a memory_id (a UUID) and a thread_id (a string)")
    for options in (("--state", "dead"), ("--kind", "after_turn"), ("--limit", "1", "--state", "dead")):
        found = (await said(env, caller, "list", *options)).splitlines()
        assert [line.split()[0] for line in found[1:]] == [str(turn)], options
    shown = json.loads(await said(env, caller, "show", turn))
    assert (shown["id"], shown["state"], shown["payload"]) == (str(turn), "dead", {"memory_id": "[/]"})
    assert await said(env, caller, "replay", turn) == f"{turn}  after_turn is queued\n"
    again = await mnema(env, caller, "replay", turn)
    reason = "only a dead, done or deferred job can be replayed"
    assert again.stderr == f"error invalid_state: the job is queued; {reason}\n"
    for command in ("show", "replay"):
        for job_id in (uuid4(), theirs):
            missing = await mnema(env, caller, command, job_id)
            assert (missing.exit_code, missing.stderr) == (1, "error not_found: no such job\n")


@pytest.mark.long
async def test_kinds_are_paused_counted_and_resumed(app: Application, caller: Caller, env: dict[str, str]) -> None:
    assert (await said(env, caller, "counts")).endswith("\npaused: nothing\n")
    job_id = await queued(app, caller.scope, JobKind.embed)
    assert "the oldest due job has waited" in await said(env, caller, "counts")
    assert "paused" not in await said(env, caller, "list")
    assert await said(env, caller, "pause", "embed") == "paused: embed\n"
    assert (await said(env, caller, "list")).endswith("\npaused: embed\n")
    doctor = await asyncio.to_thread(CliRunner().invoke, command_line, ["doctor"], env=env)
    assert (
        "warn pauses: somebody paused jobs, by kind (`*`: every kind) and number of tenants: embed (1)" in doctor.stdout
    )
    assert await app.jobs.run.run_job(caller.scope.tenant_id, job_id, "w") == "skipped"
    head, row, paused = (await said(env, caller, "counts")).splitlines()
    assert (head.split(), row.split(), paused) == (["kind", "state", "jobs"], ["embed", "queued", "1"], "paused: embed")
    assert await said(env, caller, "pause", "*") == "paused: *, embed\n"
    assert await said(env, caller, "resume", "*") == "paused: nothing\n"
    assert await app.jobs.run.run_job(caller.scope.tenant_id, job_id, "w") == "done"
    wrong = await mnema(env, caller, "pause", "sleep")
    assert wrong.exit_code == 1
    assert wrong.stderr.startswith("error invalid_request: unknown kind 'sleep'; use one of: ttl, ")


async def test_what_cannot_be_is_said_in_one_line(caller: Caller, env: dict[str, str]) -> None:
    nobody = await asyncio.to_thread(CliRunner().invoke, command_line, ["jobs", "list", "--tenant", "nobody"], env=env)
    assert (nobody.exit_code, nobody.stderr) == (1, "error not_found: no tenant 'nobody'\n")
    away = env | {"MNEMA_DATABASE_URL": "postgresql://mnema_app:x@127.0.0.1:1/mnema"}
    assert (await mnema(away, caller, "counts")).stderr.startswith("error database_unavailable: ")
    for options in (("list", "--state", "lost"), ("list", "--limit", "0"), ("show", "x")):
        assert (await mnema(env, caller, *options)).exit_code == 2


async def test_a_running_job_shows_who_has_it(app: Application, caller: Caller, env: dict[str, str]) -> None:
    job_id = await queued(app, caller.scope, JobKind.embed)
    await JobStorage(app.parts.uow, JobPolicy()).start_job(caller.scope, job_id, "host:1")
    shown = json.loads(await said(env, caller, "show", job_id))
    assert (shown["state"], shown["worker"], shown["attempts"]) == (JobState.running, "host:1", 1)
    assert shown["lease_until"] is not None
