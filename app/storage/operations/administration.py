"""Roles, databases and migrations: work that needs more rights than the server has.

Alembic is imported inside functions: it and SQLAlchemy would take a third of the start-up time of every command.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from app.storage.operations.schema import ROOT, require_whole_schema
from app.storage.operations.secret import STORE_FINGERPRINT

if TYPE_CHECKING:
    from alembic.config import Config

_ROLES = """
DO $$
DECLARE
    r text;
BEGIN
    FOREACH r IN ARRAY ARRAY['mnema_owner', 'mnema_search', 'mnema_auth', 'mnema_jobs', 'mnema_partitions'] LOOP
        CONTINUE WHEN EXISTS (SELECT 1 FROM pg_roles WHERE rolname = r);
        EXECUTE format('CREATE ROLE %I NOLOGIN', r);
    END LOOP;
    FOREACH r IN ARRAY ARRAY['mnema_admin', 'mnema_app'] LOOP
        CONTINUE WHEN EXISTS (SELECT 1 FROM pg_roles WHERE rolname = r);
        EXECUTE format('CREATE ROLE %I LOGIN', r);
    END LOOP;
END $$;
ALTER ROLE mnema_app NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOINHERIT;
ALTER ROLE mnema_app SET jit = off;
ALTER ROLE mnema_app SET lock_timeout = '5s';  -- a write of a user does not wait for their whole erasure
ALTER ROLE mnema_app SET enable_seqscan = off;  -- migrations/sql/0001/planning.sql says why
GRANT mnema_owner TO mnema_admin;
GRANT mnema_search, mnema_auth, mnema_jobs, mnema_partitions TO mnema_owner;
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
# Forced row-level security hides the rows from the owner: only a role that bypasses it can dump them.

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
# Large objects have no tenant: every tenant could read what another one stored.

_NO_OTHER_LOGINS = """
SELECT NOT EXISTS (SELECT FROM pg_roles WHERE rolcanlogin AND NOT rolsuper AND rolname NOT LIKE 'mnema\\_%')
"""
OPEN_DATABASES = """
SELECT datname FROM pg_database WHERE datallowconn AND datname <> current_database() AND EXISTS (
    SELECT FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) WHERE grantee = 0 AND privilege_type = 'CONNECT')
ORDER BY 1
"""
"""Databases other than this one that everybody may connect to."""

LANGUAGES = "SELECT language, memories FROM sampled_languages($1)"
"""The languages of some memories of all tenants, the most frequent one first."""

MAINTENANCE = ("postgres", "template1")
"""Databases that exist in every cluster and that everybody may connect to."""


async def bootstrap_cluster(superuser_url: str, database: str, passwords: dict[str, str]) -> None:
    """Create the roles, the database and the vector extension. Idempotent; the only step that needs a superuser.

    mnema_app gets no access to large objects. It gets no access to other databases either, unless other programs use
    the cluster.

    `passwords`: for `mnema_admin` and `mnema_app`, and for `mnema_backup` if that role is wanted. Every call sets them
    again.
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
        if await connection.fetchval(_NO_OTHER_LOGINS):  # in a shared cluster it would lock the others out
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
    """Return Alembic's configuration for this checkout, pointed at `admin_url`."""
    from alembic.config import Config

    config = Config(str(ROOT / "alembic.ini"))
    config.set_main_option("sqlalchemy.url", admin_url.replace("%", "%%"))
    return config


async def migrate_schema(admin_url: str, revision: str = "head") -> None:
    """Bring the schema to `revision`. Raise SchemaMismatch if the database has another schema than its revision makes.

    Alembic runs an event loop of its own, so it gets a thread.
    """
    from alembic import command

    await asyncio.to_thread(command.upgrade, alembic_config(admin_url), revision)
    connection = await asyncpg.connect(admin_url)
    try:
        await require_whole_schema(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def owning_spaces(admin_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a transaction as the owner to add or drop embedding spaces; one operator at a time."""
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
    """Open a transaction as the owner on one tenant's rows. Row-level security binds the owner too."""
    async with connection.transaction():
        await connection.execute("SET LOCAL ROLE mnema_owner")
        await connection.execute("SELECT set_config('app.tenant_id', $1, true)", str(tenant_id))
        yield


async def adopt_model(admin_url: str, model: str, dimension: int, partitions: int = 16, *, named: bool = True) -> str:
    """Make `model` the active embedding space unless vectors are stored; return the active space's model.

    An installation with vectors keeps its space: vectors of two models are never mixed. If nobody has `named` the
    model, an installation that ever had a tenant keeps its space too. One that never had any has no other space.
    """
    async with owning_spaces(admin_url) as connection:
        active = await connection.fetchrow("SELECT name, model, dimension FROM embedding_spaces WHERE active")
        if active and (active["model"], active["dimension"]) == (model, dimension):
            return model
        had_tenants = await connection.fetchval("SELECT pg_relation_size('tenants') > 0")
        if active and not named and had_tenants:
            return str(active["model"])
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
        if active and not had_tenants:
            await connection.execute("SELECT drop_embedding_space($1)", active["name"])
    return model


async def accept_secret(
    admin_url: str, mark: bytes, encrypt_again: Callable[[asyncpg.Connection], Awaitable[int]]
) -> int:
    """Store this fingerprint as that of the installation's secret, in place of the old one.

    `encrypt_again` runs in the same transaction; return its count.
    """
    connection = await asyncpg.connect(admin_url)
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL ROLE mnema_owner")
            await connection.execute("DELETE FROM installation")
            await connection.execute(STORE_FINGERPRINT, mark)
            return await encrypt_again(connection)
    finally:
        await connection.close()


def space_name(model: str, dimension: int) -> str:
    """Return a table suffix that names the model and is unique to it and its dimension."""
    slug = re.sub("[^a-z0-9]+", "_", model.lower()).strip("_0123456789")[:20]
    return f"s_{slug}_{hashlib.sha256(f'{model}:{dimension}'.encode()).hexdigest()[:8]}"


# Row-level security hides the rows from the owner too, so this asks for sizes.
_HOLDS_VECTORS = """
SELECT coalesce(sum(pg_relation_size(i.inhrelid)), 0) + pg_relation_size('store_vectors') > 0
FROM pg_inherits i WHERE i.inhparent = $1::text::regclass
"""
