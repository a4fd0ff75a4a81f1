"""`mnema export`, `erase` and `run`: a user's data, and the forgetting of old memories."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import Application
from app.cli.run import JOBS
from tests.api.calls import remember, row_counts, sql
from tests.cli.in_process import mnema
from tests.conftest import Database
from tests.factories import Caller, draft, make_caller
from tests.usecases.crowd import SeededEmbedder

SILENT = "127.0.0.1:1"


@pytest.fixture
def embedder() -> SeededEmbedder:
    """Return an embedder without a model: only equal texts are near each other."""
    return SeededEmbedder()


@pytest.fixture
def env(server: str, caller: Caller, tmp_path: Path) -> dict[str, Any]:
    """Return the environment with the server's address."""
    return {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path / "home"}


@pytest.mark.long
async def test_an_export_is_the_servers_line_by_line_and_a_failed_one_leaves_the_old_file(
    server: str, caller: Caller, env: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "maya.jsonl"
    async with caller.client(server) as http:
        for number in range(3):
            await remember(http, f"Fact {number}.", user_id="..")
        held = (await http.get("/users/%2E%2E/export")).text
    done = await mnema("export", "--user", "..", "--to", str(file), **env)
    assert done.stdout == f"{len(held.splitlines())} records written to {file}\n"
    assert file.read_text(encoding="utf-8") == held
    unknown = await mnema("export", "--user", "nobody", "--to", str(file), **env)
    silent = await mnema("export", "--user", "..", "--to", str(file), **env | {"MNEMA_URL": f"http://{SILENT}"})
    nowhere = await mnema("export", "--user", "..", "--to", str(tmp_path / "no" / "where"), **env)
    inside = await mnema("export", "--user", "..", "--to", str(file / "where"), **env)
    assert [done.exit_code for done in (unknown, silent, nowhere, inside)] == [1, 1, 1, 1]
    assert unknown.stderr == "error 404 not_found: nothing is stored for user 'nobody'\n"
    assert silent.stderr.startswith(f"error http://{SILENT}")
    where = tmp_path / "no" / "where.part"
    assert nowhere.stderr == f"error cannot write {where}: No such file or directory\n"
    assert inside.stderr == f"error cannot write {file / 'where.part'}: Not a directory\n"
    assert file.read_text(encoding="utf-8") == held
    assert [name for name in os.listdir(tmp_path) if name.endswith(".part")] == []


@pytest.mark.long
async def test_a_person_is_erased_only_after_a_yes_and_the_receipt_is_printed(
    server: str, caller: Caller, env: dict[str, Any], database: Database
) -> None:
    async with caller.client(server) as http:
        await remember(http, "Maya keeps bees.", user_id="..", thread_id="t")
    asked = await mnema("erase", "--user", "..", **env)
    assert asked.exit_code == 1
    assert (await row_counts(database))["memories"] == 1
    done = await mnema("erase", "--user", "..", "--yes", **env)
    first, *counts = done.stdout.splitlines()
    assert first.startswith("erased .. at 20")
    receipt = dict(line.split() for line in counts)
    assert (receipt["memories"], receipt["changes_blanked"], receipt["tombstones"]) == ("1", "1", "1")
    again = await mnema("erase", "--user", "..", "--yes", **env)
    assert (again.exit_code, again.stderr) == (1, "error 404 not_found: nothing is stored for user '..'\n")


@pytest.mark.long
async def test_importing_an_erased_persons_turns_again_does_not_bring_them_back(
    server: str, caller: Caller, env: dict[str, Any], database: Database, tmp_path: Path
) -> None:
    turns = [{"user_id": user, "thread_id": "t", "role": "user", "content": "I moved."} for user in ("maya", "ben")]
    for name in ("first", "second"):  # the second import has other idempotency keys, because it is another file
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, turns)) + "\n", encoding="utf-8")
    assert (await mnema("import", str(tmp_path / "first.jsonl"), **env)).exit_code == 0
    assert (await mnema("erase", "--user", "maya", "--yes", **env)).exit_code == 0
    for options in (("first.jsonl", "--restart"), ("second.jsonl",)):
        done = await mnema("import", str(tmp_path / options[0]), *options[1:], **env)
        assert done.exit_code == 0, done.stderr
        held = await sql(database, "SELECT user_id FROM memories ORDER BY user_id")
        assert {row["user_id"] for row in held} == {"ben"}
    rows = "".join(f"{turn['user_id']},{turn['thread_id']},user,{turn['content']}\n" for turn in turns)
    (tmp_path / "third.csv").write_text(f"user_id,thread_id,role,text\n{rows}", encoding="utf-8")
    done = await mnema("import", str(tmp_path / "third.csv"), "--from", "csv", **env)
    assert done.exit_code == 0, done.stderr
    assert "left out: 1 × records that the server does not keep: erased" in done.stdout
    held = await sql(database, "SELECT user_id FROM memories ORDER BY user_id")
    assert {row["user_id"] for row in held} == {"ben"}


async def write_old(app: Application, caller: Caller, number: int) -> None:
    """Write that many memories that nobody has used for 70 days."""
    at = datetime.now(UTC) - timedelta(days=70)
    for n in range(number):
        await app.memory.write.write_memory(caller.scope, draft(f"Old note {n}.", created_at=at))


@pytest.mark.long
async def test_jobs_run_for_one_tenant_or_for_all_and_dry_runs_say_so(
    app: Application, caller: Caller, operator: dict[str, Any], database: Database
) -> None:
    other = await make_caller(app)
    await sql(database, "ALTER TABLE memories ALTER COLUMN stored_at SET DEFAULT '2020-01-01'")
    await write_old(app, caller, 2)
    await write_old(app, other, 1)
    dry = await mnema("run", "ttl", "--dry-run", **operator)
    assert dry.exit_code == 0, dry.stderr
    heads = [line.split(": ", 1)[1] for line in dry.stdout.splitlines() if not line.startswith("  ")]
    note = "(dry run: nothing was changed)"
    assert sorted(heads) == [f"ttl: memories 1 {note}", f"ttl: memories 2 {note}"]
    states = "SELECT tenant_id, state, count(*) FROM memories GROUP BY 1, 2"
    assert {row["state"] for row in await sql(database, states)} == {"active"}
    done = await mnema("run", "ttl", "--tenant", str(other.scope.tenant_id), **operator)
    assert done.stdout.splitlines()[0].endswith(": ttl: memories 1")
    assert {tuple(row) for row in await sql(database, states)} == {
        (caller.scope.tenant_id, "active", 2),
        (other.scope.tenant_id, "soft_deleted", 1),
    }
    for job in ("purge", "evict"):
        assert (await mnema("run", job, **operator)).stdout.count(f"{job}: memories 0") == 2
    kept = (await mnema("run", "retention", **operator)).stdout.splitlines()
    names = "artifacts change_log events facts idempotency_keys jobs llm_calls memory_batches receipts store_items"
    tables = [f"{name} 0" for name in (*names.split(), "usage_days")]
    assert [sorted(line.split(": ")[2].split(", ")) for line in kept] == [tables, tables]


async def test_partitions_are_kept_for_all_tenants_at_once(operator: dict[str, Any]) -> None:
    planned, done = [await mnema("run", "partitions", *options, **operator) for options in (["--dry-run"], [])]
    assert planned.stdout == "partitions: added 0, moved 0 rows (dry run: nothing was changed)\n"
    assert done.stdout == "partitions: added 0, moved 0 rows\n"
    one = await mnema("run", "partitions", "--tenant", "acme", **operator)
    assert (one.exit_code, one.stderr) == (2, "error partitions hold the rows of all tenants; they take no --tenant\n")


async def test_a_job_or_tenant_that_is_not_there_is_said_in_one_line(operator: dict[str, Any]) -> None:
    away = {"MNEMA_DATABASE_URL": f"postgresql://mnema_app:x@{SILENT}/mnema"}
    job, tenant = await mnema("run", "sleep", **operator), await mnema("run", "ttl", "--tenant", "nobody", **operator)
    nowhere = await mnema("run", "ttl", **operator | away)
    assert [done.exit_code for done in (job, tenant, nowhere)] == [2, 1, 1]
    assert job.stderr == f"error unknown job 'sleep'; use one of {', '.join(JOBS)}\n"
    assert "not_found" in tenant.stderr
    assert nowhere.stderr.startswith("error database_unavailable: ")
    assert [len(done.stderr.splitlines()) for done in (job, tenant, nowhere)] == [1, 1, 1]


@pytest.mark.long
async def test_a_user_of_any_name_reaches_the_server_as_it_is(server: str, caller: Caller, env: dict[str, Any]) -> None:
    async with caller.client(server) as http:
        for user in (".", "a/b", "a?b#c%2F", "Ми́ша"):
            await remember(http, user_id=user)
            done = await mnema("erase", "--user", user, "--yes", **env)
            assert done.stdout.startswith(f"erased {user} at "), done.stderr


@pytest.mark.long
async def test_what_has_no_vector_is_embedded_by_hand(
    app: Application, caller: Caller, operator: dict[str, Any], database: Database
) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Maya keeps bees."))
    await sql(database, "DELETE FROM vec_minilm_l6_v2")
    dry = await mnema("run", "embed", "--dry-run", **operator)
    assert dry.stdout.endswith(": embed: missing 1, past 0 (dry run: nothing was changed)\n"), dry.stderr
    done = await mnema("run", "embed", **operator)
    assert done.stdout.endswith(": embed: embedded 1, items 0, indexed 0, refused 0, past 0\n"), done.stderr
    swept = await mnema("run", "blobs", "--dry-run", **operator)
    assert swept.stdout.endswith(": blobs: orphans 0, deleted 0 (dry run: nothing was changed)\n"), swept.stderr
    assert len(await sql(database, "SELECT 1 FROM vec_minilm_l6_v2")) == 1


async def test_a_user_for_a_job_of_whole_tenants_is_wrong_usage(operator: dict[str, Any]) -> None:
    user = await mnema("run", "ttl", "--user", "maya", **operator)
    assert (user.exit_code, user.stderr) == (
        2,
        "error ttl runs for whole tenants; only consolidate, episodes, summaries, insights take --user\n",
    )
