"""Migrations, embedding spaces and the secret: work that needs more rights than the server has.

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

from app.storage.database_url import connect
from app.storage.operations.bootstrap import require_bootstrap
from app.storage.operations.schema import ROOT, require_whole_schema
from app.storage.operations.secret import STORE_FINGERPRINT

if TYPE_CHECKING:
    from alembic.config import Config

OPEN_DATABASES = """
SELECT datname FROM pg_database WHERE datallowconn AND datname <> current_database() AND EXISTS (
    SELECT FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) WHERE grantee = 0 AND privilege_type = 'CONNECT')
ORDER BY 1
"""
"""Databases other than this one that everybody may connect to."""

LARGE_OBJECTS = "SELECT has_function_privilege('lo_create(oid)', 'EXECUTE') AS usable"
"""A query for the power to use large objects, which bootstrap.sql takes from this role."""

LANGUAGES = "SELECT language, memories FROM sampled_languages($1)"
"""The languages of some memories of all tenants, the most frequent one first."""


def alembic_config(admin_url: str) -> "Config":
    """Return Alembic's configuration for this checkout, pointed at `admin_url`."""
    from alembic.config import Config

    config = Config(str(ROOT / "alembic.ini"))
    config.set_main_option("sqlalchemy.url", admin_url.replace("%", "%%"))
    return config


async def migrate_schema(admin_url: str, revision: str = "head") -> None:
    """Bring the schema to `revision`.

    Raise RightsMissing, with the statements, if what the bootstrap makes is not there, and SchemaMismatch if the
    database has another schema than its revision makes. Alembic runs an event loop of its own, so it gets a thread.
    """
    from alembic import command

    connection = await connect(admin_url)
    try:
        await require_bootstrap(connection)
    finally:
        await connection.close()
    await asyncio.to_thread(command.upgrade, alembic_config(admin_url), revision)
    connection = await connect(admin_url)
    try:
        await require_whole_schema(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def owning_spaces(admin_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a transaction as the owner to add or drop embedding spaces; one operator at a time."""
    connection = await connect(admin_url)
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
    connection = await connect(admin_url)
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
