"""The ledger of blobs: an artifact never lacks its blob, whatever a sweep does meanwhile, and orphans go."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest

from app.domain.errors import NotFound
from app.domain.outages import BlobStoreUnavailable, WriteContention
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import ArtifactChange, ArtifactKind, Conversation
from app.ports import BlobStore
from app.providers.blobs import build_blob_store
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.storage.turn_memory.blobs import BlobLedger, PostgresBlobStore
from app.storage.uow import UnitOfWork
from app.usecases.turn_memory.blobs import AT_ONCE, GRACE, StoreBlobs
from tests.factories import Clock
from tests.s3_server import S3Server

PLACE = Conversation("maya", "trip")
NOW = datetime(2026, 1, 26, 15, 3, tzinfo=UTC)


def log_change(turn_id: str, uri: str | None) -> ArtifactChange:
    """Return the change that stores the log of a turn, or deletes it without a `uri`."""
    return ArtifactChange(ArtifactKind.turn_log, turn_id, "{}" if uri else None, NOW, turn_id, hosted_uri=uri)


class Kept:
    """The blobs of one store, with a clock that may move."""

    def __init__(self, uow: UnitOfWork, store: BlobStore) -> None:
        self.clock = Clock()
        self.store = store
        self.ledger = BlobLedger(uow)
        self.artifacts = ArtifactStorage(uow)
        self.blobs = StoreBlobs(store, self.ledger, self.clock)

    async def write_log(self, principal: Principal, turn_id: str, content: bytes = b"{}") -> str:
        """Store the log of a turn with its blob; return the blob's address."""
        uri = await self.blobs.store_blob(principal, "maya", content)
        await self.artifacts.put_artifacts(principal, PLACE, [log_change(turn_id, uri)])
        return uri


@pytest.fixture(params=["postgres", "s3"])
def kept(request: pytest.FixtureRequest, uow: UnitOfWork) -> Kept:
    """Return the blobs of each store in turn."""
    store: BlobStore = PostgresBlobStore(uow)
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        bucket = f"b-{uuid4().hex}"
        server.make_bucket(bucket)
        store = build_blob_store(server.settings(bucket), store)
    return Kept(uow, store)


@pytest.mark.long
async def test_a_sweep_deletes_old_orphans_alone(kept: Kept, a: Principal, b: Principal) -> None:
    named, replaced = await kept.write_log(a, "t1"), await kept.write_log(a, "t2")
    orphans = [await kept.blobs.store_blob(a, "maya", b"orphan") for _ in range(2 * AT_ONCE + 1)]
    theirs = await kept.blobs.store_blob(b, "maya", b"theirs")
    never_stored = kept.store.blob_uri(a.tenant_id, uuid4())
    await kept.ledger.enter_blob(a, "maya", never_stored)
    newer = await kept.write_log(a, "t2")

    assert (await kept.blobs.sweep_blobs(a)).orphans == 0, "all are young"
    kept.clock.move(seconds=GRACE.total_seconds() - 60)
    assert (await kept.blobs.sweep_blobs(a)).orphans == 0
    kept.clock.move(minutes=2)
    planned = await kept.blobs.sweep_blobs(a, dry_run=True)
    assert (planned.orphans, planned.deleted) == (len(orphans) + 2, 0)
    report = await kept.blobs.sweep_blobs(a)
    in_s3 = not isinstance(kept.store, PostgresBlobStore)
    assert (report.orphans, report.deleted) == (len(orphans) + 2, len(orphans) + 2 if in_s3 else 1)
    for uri in (*orphans, replaced, never_stored):
        with pytest.raises(NotFound):
            await kept.blobs.read_blob(a, uri)
    assert [await kept.blobs.read_blob(a, uri) for uri in (named, newer)] == [b"{}", b"{}"]
    assert await kept.blobs.read_blob(b, theirs) == b"theirs"
    again = await kept.blobs.sweep_blobs(a)
    assert (again.orphans, again.deleted) == (0, 0)


async def test_a_blob_that_is_being_referred_to_is_skipped(kept: Kept, a: Principal, raw: asyncpg.Connection) -> None:
    uri, orphan = [await kept.blobs.store_blob(a, "maya", b"kept") for _ in range(2)]
    kept.clock.move(hours=2)
    await raw.execute("BEGIN")
    await raw.execute("SELECT put_artifacts($1, 'maya', 'trip', $2, '[]')", a.tenant_id, as_rows(uri))
    assert (await kept.blobs.sweep_blobs(a)).orphans == 1, "only the other one"
    await raw.execute("COMMIT")
    assert (await kept.blobs.sweep_blobs(a)).orphans == 0
    assert await kept.blobs.read_blob(a, uri) == b"kept"
    with pytest.raises(NotFound):
        await kept.blobs.read_blob(a, orphan)


def as_rows(uri: str) -> str:
    return (
        f'[{{"id": "{uuid4()}", "kind": "artifact:turn.log", "place": "t", "turn_id": "t", "text": "{{}}", "tags": [],'
        f' "hosted_uri": "{uri}", "made_at": "2026-01-26T15:03:00Z"}}]'
    )


async def test_an_artifact_cannot_refer_to_a_blob_that_a_sweep_took(
    kept: Kept, a: Principal, raw: asyncpg.Connection
) -> None:
    uri = await kept.blobs.store_blob(a, "maya", b"late")
    kept.clock.move(hours=2)
    await raw.execute("BEGIN")
    taken = await raw.fetchval("SELECT sweep_blobs($1, $2, 10)", a.tenant_id, kept.clock.now())
    assert taken == 1
    writing = asyncio.create_task(kept.artifacts.put_artifacts(a, PLACE, [log_change("t", uri)]))
    await asyncio.sleep(0.3)
    assert not writing.done(), "the writer waits for the sweep"
    await raw.execute("COMMIT")
    with pytest.raises(WriteContention):
        await writing
    with pytest.raises(WriteContention):
        await kept.artifacts.put_artifacts(a, PLACE, [log_change("t", f"{uri}0")])


async def test_the_database_refuses_to_take_out_a_blob_of_an_artifact(
    kept: Kept, a: Principal, raw: asyncpg.Connection
) -> None:
    uri = await kept.write_log(a, "t1")
    await raw.execute("SELECT set_config('app.tenant_id', $1, false)", str(a.tenant_id))
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await raw.execute("SELECT remove_blobs($1, $2)", a.tenant_id, [uri])
    assert await kept.blobs.read_blob(a, uri) == b"{}"


@pytest.mark.long
async def test_writers_and_sweeps_at_once_leave_every_artifact_its_blob(
    kept: Kept, a: Principal, superuser: asyncpg.Connection
) -> None:
    kept.clock.move(hours=2)  # every blob counts as old
    written = 0
    stop = asyncio.Event()

    async def write_logs(number: int) -> None:
        nonlocal written
        chance = random.Random(number)
        for turn in range(25):
            try:
                await kept.write_log(a, f"t{chance.randrange(8)}", f"{number} {turn}".encode())
                written += 1
            except WriteContention:  # a sweep was faster
                continue

    async def sweep_on() -> int:
        orphans = 0
        while not stop.is_set():
            orphans += (await kept.blobs.sweep_blobs(a)).orphans
        return orphans

    sweeping = [asyncio.create_task(sweep_on()) for _ in range(2)]
    await asyncio.gather(*(write_logs(number) for number in range(4)))
    stop.set()
    swept = sum(await asyncio.gather(*sweeping))
    assert written > 5
    assert swept > 5
    rows = await superuser.fetch("SELECT hosted_uri FROM conv_messages WHERE tenant_id = $1", a.tenant_id)
    assert rows
    for row in rows:
        assert await kept.blobs.read_blob(a, row["hosted_uri"])
    await kept.blobs.sweep_blobs(a)
    assert await superuser.fetchval("SELECT count(*) FROM blobs WHERE tenant_id = $1", a.tenant_id) == len(rows)


class Failing:
    """A store whose deletions fail while `fails` is set."""

    def __init__(self, inner: BlobStore) -> None:
        self._inner = inner
        self.fails = True
        self.blob_uri = inner.blob_uri
        self.put_blob, self.get_blob = inner.put_blob, inner.get_blob
        self.check_health, self.close = inner.check_health, inner.close

    async def delete_blob(self, principal: Principal, uri: str) -> None:
        """Delete the blob, or raise BlobStoreUnavailable."""
        if self.fails:
            raise BlobStoreUnavailable()
        await self._inner.delete_blob(principal, uri)


@pytest.mark.long
async def test_a_sweep_that_fails_continues_when_repeated(uow: UnitOfWork, s3: S3Server, a: Principal) -> None:
    bucket = f"b-{uuid4().hex}"
    s3.make_bucket(bucket)
    failing = Failing(build_blob_store(s3.settings(bucket), PostgresBlobStore(uow)))
    kept = Kept(uow, failing)
    for _ in range(20):
        await kept.blobs.store_blob(a, "maya", b"{}")
    kept.clock.move(hours=2)
    with pytest.raises(BlobStoreUnavailable):
        await kept.blobs.sweep_blobs(a)
    assert len(s3.list_keys(bucket)) == 20
    failing.fails = False
    report = await kept.blobs.sweep_blobs(a)
    assert (report.orphans, report.deleted, s3.list_keys(bucket)) == (0, 20, [])


async def test_a_late_store_counts_from_its_entry(kept: Kept, a: Principal, superuser: asyncpg.Connection) -> None:
    uri = await kept.blobs.store_blob(a, "maya", b"{}")
    entered = await superuser.fetchval("SELECT created_at FROM blobs WHERE uri = $1", uri)
    assert abs(entered - datetime.now(UTC)) < timedelta(minutes=1)
