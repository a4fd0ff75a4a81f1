"""Artifacts that go: old ones, those of a purged conversation and those of an erased user, each with its blobs."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.domain.errors import NotFound
from app.domain.outages import DataLocked, WriteContention
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import ArtifactChange, ArtifactKind, Conversation
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.usecases.jobs.runner import RunJobs
from tests.factories import Caller, Clock, make_caller
from tests.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.turn_artifacts import MADE, store_artifacts
from tests.usecases.conftest import Configured
from tests.usecases.crowd import SeededEmbedder

KINDS = len(ArtifactKind)
TRIP = Conversation("maya", "trip")


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model."""
    return SeededEmbedder()


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """Create a bucket."""
    name = f"b-{uuid4().hex}"
    s3.make_bucket(name)
    return name


@pytest.fixture
async def in_s3(
    settings: Settings, s3: S3Server, bucket: str, embedder: SeededEmbedder, clock: Clock
) -> AsyncIterator[Application]:
    """An application that keeps blobs in a bucket."""
    there = {"blob_store": "s3", "blob_s3_bucket": bucket, "blob_s3_endpoint_url": s3.url}
    keys = {"blob_s3_access_key": ACCESS_KEY, "blob_s3_secret_key": SECRET_KEY}
    given = Settings(**{**settings.model_dump(), **there, **keys})
    async with build_application(given, Doubles(embedder=embedder, clock=clock)) as app:
        yield app


async def run_due_jobs(app: Application, runner: RunJobs, sql: asyncpg.Connection, scope: Principal) -> list[str]:
    """Run the queued jobs of a tenant; return their kinds."""
    rows = await sql.fetch("SELECT id, kind FROM jobs WHERE tenant_id = $1 AND state = 'queued'", scope.tenant_id)
    for row in rows:
        await runner.run_job(scope.tenant_id, row["id"], "w")
    return [row["kind"] for row in rows]


async def count_rows(sql: asyncpg.Connection, scope: Principal, table: str) -> int:
    """Return the number of a tenant's rows in a table."""
    count: int = await sql.fetchval(f"SELECT count(*) FROM {table} WHERE tenant_id = $1", scope.tenant_id)
    return count


@pytest.mark.long
async def test_old_artifacts_go_in_batches_and_their_blobs_with_the_next_sweep(
    configured: Configured, caller: Caller, clock: Clock, sql: asyncpg.Connection
) -> None:
    app = await configured(policies={"turn_memory": {"keep_days": 30}, "lifecycle": {"records_batch": 2}})
    scope, now = caller.scope, datetime.now(UTC)
    await store_artifacts(app, scope, "old", made_at=now - timedelta(days=31))
    await store_artifacts(app, scope, "young", conversation_id="later", made_at=now - timedelta(days=29))
    await sql.execute("UPDATE conv_messages SET updated_at = made_at WHERE kind = 'conv.start'")
    expected = 4  # the turn's three, and the start; the active set and the bucket changed lately
    assert (await app.retention.forget.delete_old_records(scope, dry_run=True)).counts["artifacts"] == expected
    assert await count_rows(sql, scope, "conv_messages") == 2 * KINDS
    assert (await app.retention.forget.delete_old_records(scope)).counts["artifacts"] == expected
    left = await sql.fetch("SELECT kind FROM conv_messages WHERE conversation_id = 'trip' ORDER BY kind")
    assert [row["kind"] for row in left] == ["conversation.active_set.v1", "conversation.memory.bucket.v1"]
    assert await count_rows(sql, scope, "blob_contents") == 4
    clock.move(hours=2)
    assert (await app.turn_memory.blobs.sweep_blobs(scope)).orphans == 1
    assert await count_rows(sql, scope, "blob_contents") == 3
    clock.move(days=2)
    assert (await app.retention.forget.delete_old_records(scope)).counts["artifacts"] == 4


async def test_artifacts_are_kept_by_default(app: Application, caller: Caller, clock: Clock) -> None:
    await store_artifacts(app, caller.scope, "old", made_at=MADE - timedelta(days=4000))
    clock.move(days=4000)
    assert (await app.retention.forget.delete_old_records(caller.scope)).counts["artifacts"] == 0


async def test_an_erased_users_objects_go_at_once_and_nobody_elses(
    in_s3: Application, s3: S3Server, bucket: str, sql: asyncpg.Connection
) -> None:
    scope = (await make_caller(in_s3)).scope
    for word in ("first", "second"):  # the blobs of the first are replaced
        await store_artifacts(in_s3, scope, word)
    await in_s3.turn_memory.blobs.store_blob(scope, "maya", b"never referred to")
    await store_artifacts(in_s3, scope, "his", user_id="ben")
    assert len(s3.list_keys(bucket)) == 7
    assert "maya" not in str(s3.list_keys(bucket))
    receipt = await in_s3.retention.erase.erase_user(scope, "maya")
    assert (receipt.counts["artifacts"], receipt.counts["blobs"]) == (KINDS, 5)
    assert await run_due_jobs(in_s3, in_s3.jobs.run, sql, scope) == ["blobs"]
    assert len(s3.list_keys(bucket)) == 2
    [log] = await sql.fetch("SELECT hosted_uri FROM conv_messages WHERE kind = 'artifact:turn.log'")
    assert json.loads(await in_s3.turn_memory.blobs.read_blob(scope, log["hosted_uri"])) == {"said": "his"}


async def test_one_job_that_waits_deletes_what_several_erasures_leave(
    in_s3: Application, s3: S3Server, bucket: str, sql: asyncpg.Connection
) -> None:
    scope = (await make_caller(in_s3)).scope
    users = ["maya", "ben", "eva"]
    for user in users:
        await store_artifacts(in_s3, scope, "words", user_id=user)
    for user in users:
        await in_s3.retention.erase.erase_user(scope, user)
    assert await run_due_jobs(in_s3, in_s3.jobs.run, sql, scope) == ["blobs"]
    assert s3.list_keys(bucket) == []


async def test_an_object_that_arrives_after_the_erasure_goes_too(
    in_s3: Application, s3: S3Server, bucket: str, clock: Clock, sql: asyncpg.Connection
) -> None:
    scope = (await make_caller(in_s3)).scope
    uri = await in_s3.turn_memory.blobs.store_blob(scope, "maya", b"on its way")
    await in_s3.retention.erase.erase_user(scope, "maya")
    await run_due_jobs(in_s3, in_s3.jobs.run, sql, scope)
    assert s3.list_keys(bucket) == []
    await in_s3.turn_memory.blobs._store.put_blob(scope, uri, b"on its way")
    change = ArtifactChange(ArtifactKind.turn_log, "t1", "{}", MADE, "t1", hosted_uri=uri)
    with pytest.raises(WriteContention):
        await ArtifactStorage(in_s3.parts.uow).put_artifacts(scope, TRIP, [change])
    assert (await in_s3.turn_memory.blobs.sweep_blobs(scope)).deleted == 0
    assert len(s3.list_keys(bucket)) == 1
    clock.move(hours=2)
    assert (await in_s3.turn_memory.blobs.sweep_blobs(scope)).deleted == 0, "it was counted before"
    assert s3.list_keys(bucket) == []
    assert await count_rows(sql, scope, "swept_blobs") == 0


async def test_a_user_with_a_broken_write_alone_can_be_erased(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    uri = await app.turn_memory.blobs.store_blob(caller.scope, "maya", b"{}")
    assert (await app.retention.erase.erase_user(caller.scope, "maya")).counts["blobs"] == 1
    with pytest.raises(NotFound):
        await app.turn_memory.blobs.read_blob(caller.scope, uri)
    with pytest.raises(NotFound):
        await app.retention.erase.erase_user(caller.scope, "maya")


@pytest.mark.long
async def test_the_export_reads_blobs_from_the_bucket(in_s3: Application) -> None:
    scope = (await make_caller(in_s3)).scope
    for number in range(12):
        await store_artifacts(in_s3, scope, f"said {number}", conversation_id=f"c{number}")
    records = [r async for r in await in_s3.retention.export.export_records(scope, "maya") if r["kind"] == "artifact"]
    assert len(records) == 12 * KINDS
    payloads = sorted(r["payload"]["said"] for r in records if r["hosted_uri"])
    assert payloads == sorted(f"said {number}" for number in range(12) for _ in range(2))


@pytest.mark.parametrize(("agents", "count"), [(["supervisor"], KINDS), (["stylist"], 0)])
async def test_a_bound_key_exports_and_purges_artifacts_only_with_their_category(
    app: Application, caller: Caller, agents: list[str], count: int, sql: asyncpg.Connection
) -> None:
    bound = (await make_caller(app, ("query", "write"), agents, caller)).scope
    assert bound.categories is not None
    assert (app.parts.policies.defaults.turn_memory.category in bound.categories) == bool(count)
    await store_artifacts(app, caller.scope, "word")
    try:
        records = [record async for record in await app.retention.export.export_records(bound, "maya")]
    except NotFound:
        records = []
    assert sum(record["kind"] == "artifact" for record in records) == count
    purged = await app.chat.conversations.delete_conversation(bound, "maya", "trip", purge=True)
    assert purged.artifacts == count
    assert await count_rows(sql, caller.scope, "conv_messages") == KINDS - count


async def test_a_purge_deletes_the_artifacts_of_one_conversation(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    for user, conversation in (("maya", "trip"), ("maya", "home"), ("ben", "trip")):
        await store_artifacts(app, caller.scope, "word", user, conversation)
    deleted = await app.chat.conversations.delete_conversation(caller.scope, "maya", "trip")
    assert (deleted.artifacts, await count_rows(sql, caller.scope, "conv_messages")) == (0, 3 * KINDS)
    purged = await app.chat.conversations.delete_conversation(caller.scope, "maya", "trip", purge=True)
    assert purged.artifacts == KINDS
    assert await count_rows(sql, caller.scope, "conv_messages") == 2 * KINDS
    assert await count_rows(sql, caller.scope, "blob_contents") == 4
    again = await app.chat.conversations.delete_conversation(caller.scope, "maya", "trip", purge=True)
    assert again.artifacts == 0


@pytest.mark.long
async def test_writes_and_erasures_of_a_user_at_once_leave_whole_artifacts(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    scope, stop = caller.scope, asyncio.Event()
    written = contended = 0

    async def write_on() -> None:
        nonlocal written, contended
        while not stop.is_set():
            try:
                await store_artifacts(app, scope, "word")
                written += 1
            except (WriteContention, DataLocked):
                contended += 1

    async def erase_often() -> int:
        erased = 0
        for _ in range(25):
            try:
                await app.retention.erase.erase_user(scope, "maya")
                erased += 1
            except NotFound:
                continue
        stop.set()
        return erased

    erased, *_ = await asyncio.gather(erase_often(), *(write_on() for _ in range(4)))
    assert erased > 5
    assert written > 5
    missing = await sql.fetchval(
        "SELECT count(*) FROM conv_messages c WHERE hosted_uri IS NOT NULL AND NOT EXISTS"
        " (SELECT FROM blob_contents b WHERE b.tenant_id = c.tenant_id AND b.uri = c.hosted_uri)"
    )
    assert missing == 0
    await store_artifacts(app, scope, "word")
    await app.retention.erase.erase_user(scope, "maya")
    for table in ("conv_messages", "blobs", "blob_contents", "users"):
        assert await count_rows(sql, scope, table) == 0
