"""Every store of blobs puts, gets and deletes, for each tenant, outside transactions and in bounded time."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest

from app.bootstrap.adapters import blob_store_settings
from app.config.settings import Settings
from app.domain.errors import ConfigError, NotFound
from app.domain.outages import BlobStoreUnavailable, DatabaseUnavailable
from app.domain.principal import Principal
from app.ports import BlobStore
from app.providers.blobs import BlobStoreSettings, build_blob_store
from app.providers.blobs.s3 import S3BlobStore
from app.storage.engine import Engine
from app.storage.turn_memory.blobs import BlobLedger, PostgresBlobStore
from app.storage.uow import UnitOfWork
from app.transactions import in_transaction
from tests.conftest import Database
from tests.s3_server import SECRET_KEY, S3Server
from tests.storage.building import new_tenant

CONTENTS = [b"", b"{}", bytes(range(256)), "Maya: 猫 😀".encode(), b"x" * 3_000_000]


@pytest.fixture
async def uow(database: Database) -> AsyncIterator[UnitOfWork]:
    """Return units of work of mnema_app."""
    engine = Engine(database.app, min_size=1, max_size=8)
    yield UnitOfWork(engine)
    await engine.close()


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """Create a bucket."""
    name = f"b-{uuid4().hex}"
    s3.make_bucket(name)
    return name


@pytest.fixture(params=["postgres", "s3"])
async def store(request: pytest.FixtureRequest, uow: UnitOfWork) -> AsyncIterator[BlobStore]:
    """Return each store in turn."""
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        built: BlobStore = S3BlobStore(server.settings(request.getfixturevalue("bucket")))
    else:
        built = PostgresBlobStore(uow)
    yield built
    await built.close()


@pytest.fixture
async def a(uow: UnitOfWork) -> Principal:
    """Create a tenant."""
    return await new_tenant(uow)


@pytest.fixture
async def b(uow: UnitOfWork) -> Principal:
    """Create another tenant."""
    return await new_tenant(uow)


async def entered(store: BlobStore, uow: UnitOfWork, principal: Principal) -> str:
    uri = store.blob_uri(principal.tenant_id, uuid4())
    await BlobLedger(uow).enter_blob(principal, "maya", uri)
    return uri


@pytest.mark.long
@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: f"{len(content)} bytes")
async def test_a_blob_comes_back_byte_for_byte(store: BlobStore, uow: UnitOfWork, a: Principal, content: bytes) -> None:
    uri = await entered(store, uow, a)
    assert str(a.tenant_id) in uri
    await store.put_blob(a, uri, content)
    await store.put_blob(a, uri, content)
    assert await store.get_blob(a, uri) == content
    await store.delete_blob(a, uri)
    with pytest.raises(NotFound):
        await store.get_blob(a, uri)
    await store.delete_blob(a, uri)


@pytest.mark.long
async def test_blobs_of_many_writers_do_not_mix(store: BlobStore, uow: UnitOfWork, a: Principal) -> None:
    uris = [await entered(store, uow, a) for _ in range(20)]
    assert len(set(uris)) == 20
    await asyncio.gather(*(store.put_blob(a, uri, uri.encode()) for uri in uris))
    assert await asyncio.gather(*(store.get_blob(a, uri) for uri in uris)) == [uri.encode() for uri in uris]


@pytest.mark.long
async def test_the_address_of_another_tenant_is_refused(
    store: BlobStore, uow: UnitOfWork, a: Principal, b: Principal
) -> None:
    uri = await entered(store, uow, a)
    await store.put_blob(a, uri, b"theirs")
    for call in (store.get_blob(b, uri), store.delete_blob(b, uri), store.put_blob(b, uri, b"mine")):
        with pytest.raises(NotFound):
            await call
    assert await store.get_blob(a, uri) == b"theirs"


@pytest.mark.long
@pytest.mark.parametrize("form", ["{0}/..", "{0}/../{1}", "{0}", "{0}/{1}\n", "/{0}/{1}", "{0}/{1}/{1}", "{1}/{1}", ""])
async def test_a_wrong_address_is_no_blob(store: BlobStore, a: Principal, form: str) -> None:
    scheme = store.blob_uri(a.tenant_id, UUID(int=1)).split(":")[0]
    for uri in (f"{scheme}:{form}", form, f"file:{form}"):
        with pytest.raises(NotFound):
            await store.get_blob(a, uri.format(a.tenant_id, uuid4()))


async def test_no_store_is_called_inside_a_transaction(store: BlobStore, uow: UnitOfWork, a: Principal) -> None:
    uri = await entered(store, uow, a)
    token = in_transaction.set(True)
    try:
        for call in (store.put_blob(a, uri, b""), store.get_blob(a, uri), store.delete_blob(a, uri)):
            with pytest.raises(RuntimeError, match=r"transaction|already open"):
                await call
    finally:
        in_transaction.reset(token)


async def test_health(store: BlobStore) -> None:
    await store.check_health()


@pytest.mark.long
async def test_a_call_does_not_hold_the_event_loop(store: BlobStore, uow: UnitOfWork, a: Principal) -> None:
    uri = await entered(store, uow, a)
    gaps: list[float] = []

    async def measure_gaps() -> None:
        while True:
            started = time.perf_counter()
            await asyncio.sleep(0.001)
            gaps.append(time.perf_counter() - started)

    watching = asyncio.create_task(measure_gaps())
    await store.put_blob(a, uri, b"x" * 20_000_000)
    assert len(await store.get_blob(a, uri)) == 20_000_000
    watching.cancel()
    assert len(gaps) > 5, "the loop ran during the calls"
    assert max(gaps) < 0.5


class Hanging:
    """A server that takes connections and answers nothing."""

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._read_all, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_error: object) -> None:
        self._server.close()

    async def _read_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass
        writer.close()


async def each_call_fails(store: BlobStore, principal: Principal, most_s: float) -> list[str]:
    """Call each method; return the texts of the errors, with their causes and contexts."""
    uri, texts = store.blob_uri(principal.tenant_id, uuid4()), []
    for call in (
        store.put_blob(principal, uri, b"{}"),
        store.get_blob(principal, uri),
        store.delete_blob(principal, uri),
        store.check_health(),
    ):
        started = time.monotonic()
        with pytest.raises(BlobStoreUnavailable) as caught:
            await call
        assert time.monotonic() - started < most_s
        assert caught.value.status == 503
        assert (caught.value.__context__, caught.value.__cause__) == (None, None)
        texts.append(str(caught.value))
    return texts


async def test_a_store_that_hangs_or_is_away_is_unavailable_in_time(a: Principal) -> None:
    async with Hanging() as url:
        hanging = S3BlobStore(BlobStoreSettings(kind="s3", bucket="b", endpoint_url=url, timeout_s=0.5))
        assert set(await each_call_fails(hanging, a, 60)) <= {
            "The store of blobs did not answer within 0.5 s.",
            "The store of blobs failed (GenericError).",
        }
    away = S3BlobStore(BlobStoreSettings(kind="s3", bucket="b", endpoint_url="http://127.0.0.1:9", timeout_s=1))
    await each_call_fails(away, a, 60)


async def test_a_missing_bucket_is_no_missing_blob(s3: S3Server, a: Principal) -> None:
    texts = await each_call_fails(S3BlobStore(s3.settings("no-such-bucket")), a, 60)
    assert set(texts) == {"The bucket of blobs does not exist."}


async def test_a_database_that_is_away(database: Database, a: Principal) -> None:
    engine = Engine("postgresql://mnema_app@127.0.0.1:9/none", min_size=1, max_size=1, timeout_s=1)
    store = PostgresBlobStore(UnitOfWork(engine))
    with pytest.raises(DatabaseUnavailable):
        await store.get_blob(a, store.blob_uri(a.tenant_id, uuid4()))
    await engine.close()


async def test_objects_are_below_the_prefix_and_the_tenant(s3: S3Server, bucket: str, a: Principal) -> None:
    store, blob_id = S3BlobStore(s3.settings(bucket)), uuid4()
    await store.put_blob(a, store.blob_uri(a.tenant_id, blob_id), b"{}")
    assert s3.list_keys(bucket) == [f"mnema/tests/{a.tenant_id}/{blob_id}"]


async def test_blobs_stay_readable_after_the_setting_changes(
    uow: UnitOfWork, s3: S3Server, bucket: str, a: Principal
) -> None:
    postgres = PostgresBlobStore(uow)
    before = build_blob_store(BlobStoreSettings(), postgres)
    uri = await entered(before, uow, a)
    await before.put_blob(a, uri, b"old")
    after = build_blob_store(s3.settings(bucket), postgres)
    newer = await entered(after, uow, a)
    await after.put_blob(a, newer, b"new")
    assert (uri.split(":")[0], newer.split(":")[0]) == ("postgres", "s3")
    assert [await after.get_blob(a, one) for one in (uri, newer)] == [b"old", b"new"]
    with pytest.raises(BlobStoreUnavailable, match="'s3', which is not configured"):
        await before.get_blob(a, newer)
    with pytest.raises(NotFound):
        await after.get_blob(a, "nonsense")
    await after.delete_blob(a, uri)
    with pytest.raises(NotFound):
        await after.get_blob(a, uri)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"blob_store": "s3"}, "BLOB_S3_BUCKET"),
        ({"blob_store": "s3", "blob_s3_bucket": "b", "blob_s3_endpoint_url": "minio:9000"}, "BLOB_S3_ENDPOINT_URL"),
        ({"blob_s3_bucket": "b", "blob_s3_access_key": "a"}, "SECRET_KEY"),
        ({"blob_s3_bucket": "b", "blob_s3_secret_key": SECRET_KEY}, "ACCESS_KEY"),
        ({"blob_s3_bucket": "b", "blob_s3_access_key": "a\n", "blob_s3_secret_key": SECRET_KEY}, "ACCESS_KEY"),
    ],
)
def test_wrong_settings(uow: UnitOfWork, given: dict[str, str], named: str) -> None:
    settings = blob_store_settings(Settings(**given))
    with pytest.raises(ConfigError, match=named) as caught:
        build_blob_store(settings, PostgresBlobStore(uow))
    assert SECRET_KEY not in str(caught.value)


async def test_the_secret_is_shown_nowhere(s3: S3Server, bucket: str) -> None:
    given = Settings(blob_store="s3", blob_s3_bucket=bucket, blob_s3_access_key="a", blob_s3_secret_key=SECRET_KEY)
    store = S3BlobStore(blob_store_settings(given))
    assert SECRET_KEY not in repr(given) + repr(blob_store_settings(given)) + repr(vars(store))
