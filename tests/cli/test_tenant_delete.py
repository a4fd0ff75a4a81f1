"""`mnema tenant delete`: no table keeps a row of the tenant, and no row of another tenant changes."""

import asyncio
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
from click.testing import Result
from typer.testing import CliRunner

from app.bootstrap import Application
from app.cli.main import app as command_line
from app.domain.errors import NotFound, WrongState
from app.providers.blobs import build_blob_store
from app.storage.tenancy import tenant_removal
from app.storage.tenancy.tenant_removal import remove_tenant
from app.storage.turn_memory.blobs import BlobLedger, PostgresBlobStore
from tests.api.calls import ask, propose, remember, say, sql
from tests.architecture import catalog
from tests.conftest import Database
from tests.factories import Caller, make_caller
from tests.s3_server import S3Server
from tests.usecases.crowd import SeededEmbedder

FILLED = {
    *(
        "api_keys",
        "users",
        "memories",
        "relations",
        "thread_revision",
        "change_log",
        "delta_cursors",
        "history",
        "jobs",
    ),
    *("events", "idempotency_keys", "tombstones", "supervisor_checkpoints", "store_items", "store_vectors", "tenants"),
    *("context_patches", "user_context", "vec_minilm_l6_v2", "facts", "chat_upstreams"),
}


@pytest.fixture
def embedder() -> SeededEmbedder:
    return SeededEmbedder()


@pytest.fixture
async def other(app: Application, server: str) -> Caller:
    """Return another tenant with its own rows."""
    caller = await make_caller(app)
    async with caller.client(server) as http:
        await live(http)
    return caller


async def live(http: httpx.AsyncClient) -> None:
    """Write rows to most tables."""
    await http.post("/memory", json={"user_id": "ben", "category": "tasks", "text": "Ben paints."})
    assert (await http.post("/users/ben/erase")).status_code == 200
    for number in range(7):
        await remember(http, f"Maya owns thing{number} {number}q.", thread_id="t", type="episodic")
    same = {"user_id": "maya", "category": "tasks", "text": "Maya deploys."}
    assert (await http.post("/memory", json=same, headers={"Idempotency-Key": "k"})).status_code == 201
    await say(http)
    told = {"user_id": "maya", "thread_id": "t", "text": "My favorite colors are red and blue."}
    assert (await http.post("/facts", json=told)).status_code == 201
    patch = await propose(http)
    base = f"/users/{patch['user_id']}/context/patches/{patch['id']}"
    assert (await http.post(f"{base}/approve")).status_code == 200
    put = await http.put("/checkpoints/t", params={"user_id": "maya"}, json={"state": {"step": 1}})
    assert put.is_success, put.text
    item = {"namespace": ["notes"], "key": "k", "value": {"text": "blue"}, "index": ["text"]}
    stored = await http.post("/store/batch", json={"puts": [item]})
    assert stored.is_success, stored.text
    await ask(http, thread_id="t")


async def held(database: Database, caller: Caller) -> dict[str, str]:
    """Return a hash of each tenant table that has rows of the caller's tenant, read by the superuser."""
    connection = await asyncpg.connect(database.superuser)
    found = {}
    for table in await catalog.tenant_tables(connection):
        column = "id" if table == "tenants" else "tenant_id"
        rows = f"SELECT t::text AS row FROM {table} t WHERE {column} = $1"
        statement = f"SELECT md5(string_agg(row, '|' ORDER BY row)) FROM ({rows}) AS rows"
        if digest := await connection.fetchval(statement, caller.scope.tenant_id):
            found[table] = digest
    await connection.close()
    return found


async def no_wait(_seconds: float) -> None:
    """Remove the waiting times."""


async def command(env: dict[str, Any], *args: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, command_line, ["tenant", "delete", *args], env=env)


@pytest.mark.long
async def test_nothing_of_the_tenant_is_left_and_nothing_of_another_is_touched(
    app: Application, server: str, caller: Caller, other: Caller, database: Database, tmp_path: Any
) -> None:
    async with caller.client(server) as http:
        await live(http)
        relation = "INSERT INTO relations (tenant_id, id, from_id, to_id, strength) VALUES ($1, $1, 'a', 'b', 1)"
        endpoint = "INSERT INTO chat_upstreams (tenant_id, base_url, api_key) VALUES ($1, 'https://1.1.1.1', '')"
        for one in (caller, other):
            await sql(database, relation, one.scope.tenant_id)
            await sql(database, endpoint, one.scope.tenant_id)
        for one in (caller, other):
            async with one.client(server) as of_theirs:
                await of_theirs.get("/events/counts")  # the events that the server has not written yet
        await app.parts.access.flush_pending()
        await sql(database, "UPDATE jobs SET state = 'done', lease_until = NULL")
        before, untouched = await held(database, caller), await held(database, other)
        assert set(before) >= FILLED, FILLED - set(before)
        env = {"MNEMA_ADMIN_DATABASE_URL": database.admin, "MNEMA_HOME": str(tmp_path)}
        asked = await command(env, str(caller.scope.tenant_id))
        assert (asked.exit_code, "This cannot be undone" in asked.output) == (1, True)
        assert await held(database, caller) == before
        done = await command(env, str(caller.scope.tenant_id), "--yes")
        assert done.exit_code == 0, done.output
        assert dict(line.split() for line in done.stdout.splitlines()[1:])["memories"] == "10"
        assert await held(database, caller) == {}
        assert await held(database, other) == untouched
        assert (await http.get("/memory")).status_code == 401
        again = await command(env, str(caller.scope.tenant_id), "--yes")
        assert (again.exit_code, again.stderr) == (1, f"error not_found: no tenant '{caller.scope.tenant_id}'\n")


@pytest.mark.long
async def test_a_tenants_objects_go_with_it_and_not_without_the_bucket(
    app: Application, caller: Caller, database: Database, s3: S3Server, tmp_path: Any
) -> None:
    s3.make_bucket("tenants")
    objects = build_blob_store(s3.settings("tenants"), PostgresBlobStore(app.parts.uow))
    other, ledger = await make_caller(app), BlobLedger(app.parts.uow)
    for owner in (*[caller] * 20, other):
        uri = objects.blob_uri(owner.scope.tenant_id, uuid4())
        await ledger.enter_blob(owner.scope, "maya", uri)
        await objects.put_blob(owner.scope, uri, b"{}")
    env = {"MNEMA_ADMIN_DATABASE_URL": database.admin, "MNEMA_HOME": str(tmp_path)}
    name = str(caller.scope.tenant_id)
    refused = await command(env, name, "--yes")
    assert (refused.exit_code, "blob_store_unavailable" in refused.stderr) == (1, True)
    given = s3.settings("tenants")
    bucket = {"BUCKET": given.bucket, "PREFIX": given.prefix, "ENDPOINT_URL": given.endpoint_url}
    keys = {"ACCESS_KEY": given.access_key, "SECRET_KEY": given.secret_key}
    there = {f"MNEMA_BLOB_S3_{part}": value for part, value in (bucket | keys).items()}
    done = await command(env | there, name, "--yes")
    assert done.exit_code == 0, done.output
    assert [key.split("/")[2] for key in s3.list_keys("tenants")] == [str(other.scope.tenant_id)]
    assert await held(database, caller) == {}


@pytest.mark.long
async def test_a_removal_that_breaks_off_leaves_a_tenant_that_is_refused_and_is_ended_by_the_next(
    app: Application, server: str, caller: Caller, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with caller.client(server) as http:
        await live(http)
    await app.parts.access.flush_pending()
    monkeypatch.setattr(tenant_removal, "BATCH", 2)
    whole, name = tenant_removal._batch, str(caller.scope.tenant_id)

    async def broken(connection: asyncpg.Connection, tenant_id: Any, table: Any) -> int:
        if table.name == "history":
            raise ConnectionError
        return await whole(connection, tenant_id, table)

    monkeypatch.setattr(tenant_removal, "_batch", broken)
    with pytest.raises(ConnectionError):
        await remove_tenant(database.admin, name, 0, no_wait)
    assert await app.tenancy.tenants._storage.find_key_owner(caller.key) is None
    assert set(await held(database, caller)) >= {"tenants", "api_keys", "history"}
    assert "memories" not in await held(database, caller)
    monkeypatch.setattr(tenant_removal, "_batch", whole)
    assert (await remove_tenant(database.admin, name, 0, no_wait))["history"] > 9
    assert await held(database, caller) == {}
    with pytest.raises(NotFound):
        await remove_tenant(database.admin, name, 0, no_wait)


async def test_a_job_that_runs_is_waited_for(app: Application, server: str, caller: Caller, database: Database) -> None:
    async with caller.client(server) as http:
        await say(http)
    running = "UPDATE jobs SET state = 'running', worker = 'w', lease_until = now() + interval '1 hour'"
    await sql(database, running)
    with pytest.raises(WrongState, match="still running"):
        await remove_tenant(database.admin, str(caller.scope.tenant_id), 0, no_wait)
    waits = 0

    async def ends(_seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 3:
            await sql(database, "UPDATE jobs SET state = 'done', lease_until = NULL")

    await remove_tenant(database.admin, str(caller.scope.tenant_id), 0, ends)
    assert await held(database, caller) == {}
