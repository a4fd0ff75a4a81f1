"""Roles, databases and migrations: what needs more rights than the server will ever have.

Alembic is imported where it is used: it and SQLAlchemy would be a third of what every command takes to start.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from app.storage.operations.secret import STORE_FINGERPRINT

if TYPE_CHECKING:
    from alembic.config import Config

ROOT = Path(__file__).resolve().parents[3]

_ROLES = """
DO $$
DECLARE
    r text;
BEGIN
    FOREACH r IN ARRAY ARRAY['mnema_owner', 'mnema_search', 'mnema_auth', 'mnema_jobs'] LOOP
        CONTINUE WHEN EXISTS (SELECT 1 FROM pg_roles WHERE rolname = r);
        EXECUTE format('CREATE ROLE %I NOLOGIN', r);
    END LOOP;
    FOREACH r IN ARRAY ARRAY['mnema_admin', 'mnema_app'] LOOP
        CONTINUE WHEN EXISTS (SELECT 1 FROM pg_roles WHERE rolname = r);
        EXECUTE format('CREATE ROLE %I LOGIN', r);
    END LOOP;
END $$;
ALTER ROLE mnema_app NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOINHERIT;
GRANT mnema_owner TO mnema_admin;
GRANT mnema_search, mnema_auth, mnema_jobs TO mnema_owner;
"""

_BACKUP_ROLE = """
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'mnema_backup') THEN
        CREATE ROLE mnema_backup LOGIN;
    END IF;
END $$;
ALTER ROLE mnema_backup NOSUPERUSER BYPASSRLS NOCREATEDB NOCREATEROLE;
ALTER ROLE mnema_backup SET default_transaction_read_only = on;
GRANT pg_read_all_data TO mnema_backup;
"""
# Forced row-level security hides the rows from the owner: only a role past it can dump them.

_NO_LARGE_OBJECTS = """
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^lo(_|read$|write$)'
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
END $$
"""
# They know no tenant: what one of them stored, every other could read.

_NO_OTHER_LOGINS = """
SELECT NOT EXISTS (SELECT FROM pg_roles WHERE rolcanlogin AND NOT rolsuper AND rolname NOT LIKE 'mnema\\_%')
"""
OPEN_DATABASES = """
SELECT datname FROM pg_database WHERE datallowconn AND datname <> current_database() AND EXISTS (
    SELECT FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) WHERE grantee = 0 AND privilege_type = 'CONNECT')
ORDER BY 1
"""
"""Those that everybody may connect to, besides this one."""

MAINTENANCE = ("postgres", "template1")
"""Databases that every cluster has, and that everybody may connect to."""


async def bootstrap_cluster(superuser_url: str, database: str, passwords: dict[str, str]) -> None:
    """Create the roles, the database and the vector extension. Idempotent; the only step that needs a superuser.

    mnema_app gets no large objects and, where no other program logs in to the cluster, no other database.

    `passwords`: for `mnema_admin` and `mnema_app`, and for `mnema_backup` where that role is wanted; they are set anew
    on every call.
    """
    connection = await asyncpg.connect(superuser_url)
    try:
        await connection.execute(_ROLES)
        if "mnema_backup" in passwords:
            await connection.execute(_BACKUP_ROLE)
        for role, password in passwords.items():
            quoted = await connection.fetchval(
                "SELECT format('ALTER ROLE %I PASSWORD %L', $1::text, $2::text)", role, password
            )
            await connection.execute(quoted)
        if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", database):
            quoted = await connection.fetchval(
                "SELECT format('CREATE DATABASE %I OWNER mnema_owner', $1::text)", database
            )
            await connection.execute(quoted)
        if await connection.fetchval(_NO_OTHER_LOGINS):  # in a cluster that others share it would shut them out
            await connection.execute(f"REVOKE CONNECT, TEMPORARY ON DATABASE {', '.join(MAINTENANCE)} FROM PUBLIC")
    finally:
        await connection.close()
    await _prepare_database(superuser_url, database, list(passwords))


async def _prepare_database(superuser_url: str, database: str, logins: list[str]) -> None:
    connection = await asyncpg.connect(superuser_url, database=database)
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        await connection.execute(_NO_LARGE_OBJECTS)
        await connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC; GRANT ALL ON SCHEMA public TO mnema_owner")
        quoted = await connection.fetchval(
            "SELECT format('REVOKE ALL ON DATABASE %1$I FROM PUBLIC; "
            "GRANT CONNECT ON DATABASE %1$I TO %2$s', $1::text, array_to_string($2::text[], ', '))",
            database,
            logins,
        )
        await connection.execute(quoted)
    finally:
        await connection.close()


def alembic_config(admin_url: str) -> "Config":
    """Alembic's configuration for this checkout, pointed at `admin_url`."""
    from alembic.config import Config

    config = Config(str(ROOT / "alembic.ini"))
    config.set_main_option("sqlalchemy.url", admin_url.replace("%", "%%"))
    return config


async def migrate_schema(admin_url: str, revision: str = "head") -> None:
    """Bring the schema to `revision` (Alembic runs an event loop of its own, so it gets a thread)."""
    from alembic import command

    await asyncio.to_thread(command.upgrade, alembic_config(admin_url), revision)


def head_revision() -> str:
    """The newest revision this code knows."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    head = ScriptDirectory.from_config(Config(str(ROOT / "alembic.ini"))).get_current_head()
    return head or "none"


@asynccontextmanager
async def owning_spaces(admin_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A transaction as the owner, one operator at a time: what embedding spaces are made and dropped in."""
    connection = await asyncpg.connect(admin_url)
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL ROLE mnema_owner")
            await connection.execute("LOCK TABLE embedding_spaces IN SHARE ROW EXCLUSIVE MODE")
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def owning_tenant(connection: asyncpg.Connection, tenant_id: UUID) -> AsyncIterator[None]:
    """A transaction as the owner on rows of one tenant: row-level security holds for the owner too."""
    async with connection.transaction():
        await connection.execute("SET LOCAL ROLE mnema_owner")
        await connection.execute("SELECT set_config('app.tenant_id', $1, true)", str(tenant_id))
        yield


async def adopt_model(admin_url: str, model: str, dimension: int, partitions: int = 16) -> str:
    """Make `model` the active embedding space where nothing has been embedded yet; answer the active space's model.

    An installation that holds vectors keeps its space: vectors of two models are never mixed.
    """
    async with owning_spaces(admin_url) as connection:
        active = await connection.fetchrow("SELECT name, model, dimension FROM embedding_spaces WHERE active")
        if active and (active["model"], active["dimension"]) == (model, dimension):
            return model
        if active and await connection.fetchval(_HOLDS_VECTORS, f"vec_{active['name']}"):
            return str(active["model"])
        await connection.execute("UPDATE embedding_spaces SET active = false, ready = false WHERE active")
        revived = await connection.execute(
            "UPDATE embedding_spaces SET active = true, ready = true WHERE model = $1 AND dimension = $2",
            model,
            dimension,
        )
        if revived == "UPDATE 0":
            name = space_name(model, dimension)
            await connection.execute("SELECT add_embedding_space($1, $2, $3, $4)", name, model, dimension, partitions)
    return model


async def accept_secret(admin_url: str, mark: bytes) -> None:
    """Make this fingerprint the one of the secret that the database is used with."""
    connection = await asyncpg.connect(admin_url)
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL ROLE mnema_owner")
            await connection.execute("DELETE FROM installation")
            await connection.execute(STORE_FINGERPRINT, mark)
    finally:
        await connection.close()


def space_name(model: str, dimension: int) -> str:
    """A table suffix that tells the model and is its alone."""
    slug = re.sub("[^a-z0-9]+", "_", model.lower()).strip("_0123456789")[:20]
    return f"s_{slug}_{hashlib.sha256(f'{model}:{dimension}'.encode()).hexdigest()[:8]}"


# Row-level security hides the rows from the owner too, so sizes are asked instead.
_HOLDS_VECTORS = """
SELECT coalesce(sum(pg_relation_size(i.inhrelid)), 0) + pg_relation_size('store_vectors') > 0
FROM pg_inherits i WHERE i.inhparent = $1::text::regclass
"""
