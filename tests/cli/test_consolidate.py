"""`mnema run consolidate`: its output, and a dry run that changes nothing."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from click.testing import Result
from typer.testing import CliRunner

from app.bootstrap import Application
from app.cli.main import app as command_line
from app.ports import Embedder
from tests.conftest import Database
from tests.consolidation_cases import memory
from tests.factories import Caller, make_caller
from tests.usecases.conftest import sql
from tests.usecases.notebook import embedded, store

__all__ = ["sql"]

NOTE = "(dry run: nothing was changed)"
TEXTS = ("The user keeps [/b] three hives of bees.", "User keeps [/b] three hives of bees")


async def mnema(*args: str, **env: object) -> Result:
    """Run the command within this process, in a thread."""
    settings = {name: str(value) for name, value in env.items()}
    return await asyncio.to_thread(CliRunner().invoke, command_line, args, env=settings)


@pytest.fixture
def env(database: Database, tmp_path: Any) -> dict[str, Any]:
    """Return an operator's environment with the database and without a model."""
    return {"MNEMA_DATABASE_URL": database.app, "MNEMA_HOME": tmp_path / "home"}


@pytest.fixture
async def tenants(app: Application, caller: Caller, sql: asyncpg.Connection, embedder: Embedder) -> list[str]:
    """Return ids of two tenants. The first has a duplicate of ana's, the second duplicates of ana's and ben's."""
    other, now = await make_caller(app), datetime.now(UTC)
    for scope, users in ((caller.scope, ["ana"]), (other.scope, ["ana", "ben"])):
        numbered = enumerate(((user, text) for user in users for text in TEXTS), 1)
        ages = [(number, user, text, now - timedelta(hours=number)) for number, (user, text) in numbered]
        some = [memory(n, text, user_id=user, created_at=born, updated_at=born) for n, user, text, born in ages]
        await store(sql, scope.tenant_id, some, await embedded(embedder, some))
    return [str(caller.scope.tenant_id), str(other.scope.tenant_id)]


@pytest.mark.long
async def test_a_dry_run_lists_decisions_and_a_run_merges(
    tenants: list[str], env: dict[str, Any], sql: asyncpg.Connection
) -> None:
    dry = await mnema("run", "consolidate", "--tenant", tenants[0], "--dry-run", **env)
    assert dry.exit_code == 0, dry.stderr
    head, decision, *texts = dry.stdout.splitlines()
    assert ": consolidate: pairs_seen 1, checked 1, merged 1, linked 0, tokens 0, " in head
    assert head.endswith(NOTE)
    assert decision.split()[:1] + decision.split()[2:5] == ["merge", "same_words", "ana", "[profile]"]
    assert sorted(line.strip() for line in texts) == sorted(TEXTS)
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE state = 'active'") == 6
    one = await mnema("run", "consolidate", "--tenant", tenants[1], "--user", "ben", **env)
    assert ("merged 1" in one.stdout, NOTE in one.stdout, TEXTS[0] in one.stdout) == (True, False, False)
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE state = 'superseded' AND user_id = 'ben'") == 1
    everyone = await mnema("run", "consolidate", **env)
    assert everyone.stdout.count("merged 1") == 2
    again = await mnema("run", "consolidate", **env)
    assert again.stdout.count("checked 0, merged 0") == 2
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE state = 'active'") == 3


async def test_what_cannot_be_is_said_in_one_line(env: dict[str, Any]) -> None:
    ttl = await mnema("run", "ttl", "--user", "ana", **env)
    nobody = await mnema("run", "consolidate", "--tenant", "nobody", **env)
    assert (ttl.exit_code, nobody.exit_code) == (2, 1)
    assert (
        ttl.stderr == "error ttl runs for whole tenants; only consolidate, episodes, summaries, insights take --user\n"
    )
    assert "not_found" in nobody.stderr
