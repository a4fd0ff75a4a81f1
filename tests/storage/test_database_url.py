"""Database URLs with the parameters of libpq, as the providers of managed PostgreSQL hand them out."""

import asyncio
import ssl
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

import pytest

from app.domain.errors import ConfigError
from app.domain.outages import DatabaseUnavailable
from app.storage.database_url import connect, connection_arguments, database_name
from app.storage.engine import Engine
from tests.conftest import Database
from tests.upstream_server import Authority

SSL_REQUEST = bytes.fromhex("00000008 04d2162f")
Relay: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LOGIN = "postgresql://mnema_app:secret@"
RDS = f"{LOGIN}mnema.abc123.eu-central-1.rds.amazonaws.com:5432/mnema"
AZURE = f"{LOGIN}mnema.postgres.database.azure.com:5432/mnema"
NEON = f"{LOGIN}ep-cool-night-123456.eu-central-1.aws.neon.tech/mnema"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return the authority that signs the certificate of the database server."""
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize(
    ("url", "dsn", "others"),
    [
        (f"{RDS}?sslmode=verify-full&sslrootcert={{file}}", f"{RDS}?sslmode=verify-full&sslrootcert={{quoted}}", {}),
        (
            "postgresql://mnema_app:secret@/mnema?host=/cloudsql/project:region:instance",
            "postgresql://mnema_app:secret@/mnema?host=%2Fcloudsql%2Fproject%3Aregion%3Ainstance",
            {},
        ),
        (f"{AZURE}?sslmode=require", f"{AZURE}?sslmode=require", {}),
        (
            f"{NEON}?sslmode=require&options=endpoint%3Dep-cool-night-123456",
            f"{NEON}?sslmode=require",
            {"server_settings": {"options": "endpoint=ep-cool-night-123456"}},
        ),
        (
            "postgresql://mnema_app.abcdefgh:secret@aws-0-eu-central-1.pooler.supabase.com:6543/postgres"
            "?connect_timeout=15&application_name=mnema+1",
            "postgresql://mnema_app.abcdefgh:secret@aws-0-eu-central-1.pooler.supabase.com:6543/postgres",
            {"timeout": 15.0, "server_settings": {"application_name": "mnema+1"}},
        ),
        (
            f"{LOGIN}one:5432,two:5433/mnema?target_session_attrs=read-write&gssencmode=prefer&connect_timeout=0",
            f"{LOGIN}one:5432,two:5433/mnema?target_session_attrs=read-write",
            {"timeout": None},
        ),
    ],
    ids=["RDS", "Cloud SQL", "Azure", "Neon", "Supabase", "several hosts"],
)
def test_the_urls_of_providers(url: str, dsn: str, others: dict[str, Any], authority: Authority) -> None:
    file = str(authority.write_certificate())
    arguments = connection_arguments(url.format(file=file))
    assert arguments == {"dsn": dsn.format(quoted=quote(file, safe="")), **others}


def test_the_system_may_be_trusted_in_both_spellings() -> None:
    for mode in ("", "&sslmode=verify-full"):
        arguments = connection_arguments(f"{LOGIN}host/mnema?sslrootcert=system{mode}")
        assert arguments["ssl"].check_hostname
        assert "sslrootcert" not in arguments["dsn"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("pgbouncer=true", "unknown parameter 'pgbouncer' in the database URL; it may have: application_name, "),
        ("statement_timeout=5", "unknown parameter 'statement_timeout'"),
        ("sslmode=on", "sslmode of the database URL must be one of: disable, allow, prefer, require, verify-ca, "),
        ("target_session_attrs=master", "target_session_attrs of the database URL must be one of: any, "),
        ("sslmode=require&sslmode=disable", "has the parameter 'sslmode' twice"),
        ("connect_timeout=soon", "connect_timeout of the database URL must be a number of seconds"),
        ("sslmode=require&channel_binding=require", "needs sslmode=verify-full here"),
        ("sslmode=require&sslrootcert=system", "needs sslmode=verify-full"),
        ("sslmode=verify-full&sslrootcert=/nowhere/ca.pem", "a file that cannot be read: /nowhere/ca.pem"),
        ("sslmode=verify-ca", "sslmode=verify-ca of the database URL needs sslrootcert"),
        ("sslrootcert=system&sslcert=/nowhere/me.pem", "sslcert of the database URL names a file"),
        ("rest-of-secret@host/mnema", "write . as %3F"),
        ("secret=x@host/mnema", "write . as %3F"),
        ("sslcert=secret@host/mnema", "write . as %3F"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(
    query: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=told) as refused:
        connection_arguments(f"{LOGIN}host/mnema?{query}")
    assert "secret" not in refused.value.detail


def test_a_password_with_a_hash_is_not_cut() -> None:
    with pytest.raises(ConfigError, match="write it as %23"):
        connection_arguments("postgresql://mnema_app:se#cret@host/mnema")


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        ("hunter2℀@127.0.0.1:1/x", "must be a URL of PostgreSQL"),
        ("hunt/er2@127.0.0.1:1/x", "write / in a password as %2F"),
        ("hunt/er2", "must be a URL of PostgreSQL"),
        ("x@hunt:er2@127.0.0.1:1/x", "must be a URL of PostgreSQL"),
        ("hunter2@127.0.0.1:99999/x", "must be a URL of PostgreSQL"),
        ("x@/x?host=127.0.0.1&port=hunter2", "must be a URL of PostgreSQL"),
        ("hunter2@127.0.0.1:1/x?ssl_min_protocol_version=hunter2", "must be a URL of PostgreSQL"),
    ],
)
async def test_no_error_shows_a_part_of_the_password(rest: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        await connect(f"postgresql://mnema_admin:{rest}")
    shown = "".join(traceback.format_exception(refused.value))
    assert not any(part in shown for part in ("hunt", "er2"))


@pytest.mark.parametrize("part", ["/elsewhere?dbname={}", "?dbname={}", "/?dbname={}", "/{}?sslmode=disable"])
async def test_the_database_is_named_by_dbname_or_else_by_the_path(part: str, database: Database) -> None:
    server = database.direct.removesuffix(f"/{database.name}")
    url = server + part.format(database.name.replace("t_", "t%5F"))
    connection = await connect(url)
    assert await connection.fetchval("SELECT current_database()") == database_name(url) == database.name
    await connection.close()


async def test_parameters_reach_the_server(database: Database) -> None:
    where = urlsplit(database.direct)
    hosts = f"127.0.0.1:1,127.0.0.1:{where.port}"  # nobody listens at the first
    url = database.direct.replace(f"127.0.0.1:{where.port}", hosts)
    more = "target_session_attrs=read-write&application_name=probe&options=-c%20work_mem%3D5MB&connect_timeout=20"
    engine = Engine(f"{url}?{more}", min_size=1, max_size=1)
    try:
        pool = await engine.get_pool()
        assert await pool.fetchval("SELECT current_setting('application_name')") == "probe"
        assert await pool.fetchval("SELECT current_setting('work_mem')") == "5MB"
        assert await pool.fetchval("SELECT current_setting('timezone')") == "UTC"
    finally:
        await engine.close()


async def test_a_server_that_takes_no_writes_is_passed_over(database: Database) -> None:
    engine = Engine(f"{database.direct}?target_session_attrs=standby", min_size=1, max_size=1)
    with pytest.raises(DatabaseUnavailable):
        await engine.get_pool()


async def test_a_unix_socket_with_a_name_of_cloud_sql(database: Database, tmp_path: Path) -> None:
    folder = tmp_path / "p:region:i"
    folder.mkdir()
    async with await asyncio.start_unix_server(relay_to(database.direct), folder / ".s.PGSQL.5432"):
        login = urlsplit(database.direct).netloc.rpartition("@")[0]
        connection = await connect(f"postgresql://{login}@/{database.name}?host={folder}")
        assert await connection.fetchval("SELECT current_user") == "mnema_app"
        await connection.close()


async def test_certificates_are_checked_as_the_url_says(database: Database, authority: Authority) -> None:
    context = authority.server_context("localhost")
    async with await asyncio.start_server(relay_to(database.direct, context), "127.0.0.1", 0) as relay:
        where = urlsplit(database.direct)
        port = relay.sockets[0].getsockname()[1]
        by_address = database.direct.replace(f":{where.port}/", f":{port}/")
        by_name = by_address.replace("127.0.0.1", "localhost")
        own = f"sslrootcert={authority.write_certificate()}"
        for url in (
            f"{by_name}?sslmode=verify-full&{own}&channel_binding=require",
            f"{by_address}?sslmode=verify-ca&{own}",
            f"{by_address}?sslmode=require",
        ):
            connection = await connect(url)
            assert await connection.fetchval("SELECT 1") == 1
            await connection.close()
        for url in (f"{by_address}?sslmode=verify-full&{own}", f"{by_name}?sslrootcert=system"):
            with pytest.raises(ConfigError, match="certificate is not accepted"):
                await Engine(url, min_size=1, max_size=1).get_pool()
            with pytest.raises(ssl.SSLCertVerificationError):
                await connect(url)


def relay_to(url: str, tls: ssl.SSLContext | None = None) -> Relay:
    """Return a handler that carries a connection to the server of `url`. With `tls` it accepts the driver's TLS."""
    where = urlsplit(url)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if tls is not None:
            assert await reader.readexactly(len(SSL_REQUEST)) == SSL_REQUEST
            writer.write(b"S")
            try:
                await writer.start_tls(tls)
            except (ssl.SSLError, ConnectionError):  # the client refuses the certificate
                writer.close()
                return
        answers, requests = await asyncio.open_connection(where.hostname, where.port)
        await asyncio.gather(pump(reader, requests), pump(answers, writer))

    return relay


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    sink.close()
