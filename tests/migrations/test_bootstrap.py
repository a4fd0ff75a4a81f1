"""The bootstrap as a role that lacks rights, and the script for a database administrator."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from app.domain.errors import RightsMissing
from app.storage.operations import administration as admin
from app.storage.operations.bootstrap import bootstrap_cluster, bootstrap_script
from tests.conftest import PASSWORDS, Database, database_url
from tests.own_postgres import connected

CONNECT = "GRANT CONNECT ON DATABASE template1 TO {probe}"
AS_OWNER = "GRANT mnema_owner TO {probe}"
TO_PROBE = "GRANT mnema_admin, mnema_app TO {probe} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE"


@asynccontextmanager
async def operator(superuser: str, *statements: str) -> AsyncIterator[str]:
    """Create a role that is no superuser, run the statements about it, and yield its URL."""
    probe = f"probe_{uuid4().hex}"
    async with connected(superuser) as sql:
        await sql.execute(f"CREATE ROLE {probe} LOGIN CREATEROLE PASSWORD 'probe'")
        try:
            for statement in statements:
                await sql.execute(statement.format(probe=probe))
            yield database_url(superuser, "template1", probe, "probe")
        finally:
            await sql.execute(f"DROP OWNED BY {probe}; DROP ROLE {probe}")


async def exists(superuser: str, database: str) -> bool:
    async with connected(superuser) as sql:
        return bool(await sql.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", database))


@pytest.mark.parametrize(
    ("rights", "needed"),
    [
        ((), "GRANT mnema_owner TO probe_"),
        ((TO_PROBE,), "GRANT mnema_owner TO probe_"),
        ((AS_OWNER,), "ALTER ROLE mnema_admin PASSWORD …"),
        ((AS_OWNER, TO_PROBE), "ALTER ROLE probe_[0-9a-f]+ CREATEDB"),
    ],
)
async def test_a_role_that_lacks_a_right_is_told_the_statement(
    superuser_url: str, rights: tuple[str, ...], needed: str
) -> None:
    name = f"t_{uuid4().hex}"
    async with operator(superuser_url, CONNECT, *rights) as url:
        with pytest.raises(RightsMissing, match=needed) as told:
            await bootstrap_cluster(url, name, PASSWORDS)
    assert told.value.code == "rights_missing"
    assert not any(password in told.value.detail for password in PASSWORDS.values())
    assert not await exists(superuser_url, name)


async def test_a_migration_names_the_statements_that_a_database_lacks(superuser_url: str, database: Database) -> None:
    name = f"t_{uuid4().hex}"
    async with connected(superuser_url) as sql:
        await sql.execute(f"CREATE DATABASE {name}")
        try:
            url = database_url(database.admin, name, "mnema_admin", PASSWORDS["mnema_admin"])
            with pytest.raises(RightsMissing) as told:
                await admin.migrate_schema(url)
        finally:
            await sql.execute(f"DROP DATABASE {name} WITH (FORCE)")
    for statement in (
        "CREATE EXTENSION vector WITH SCHEMA public",
        "GRANT ALL ON SCHEMA public TO mnema_owner WITH GRANT OPTION",
        f"GRANT CREATE ON DATABASE {name} TO mnema_owner",
        f"GRANT CONNECT ON DATABASE {name} TO mnema_app",
    ):
        assert statement in told.value.detail


def test_the_script_quotes_the_database_and_has_no_password() -> None:
    script = bootstrap_script("o'hara\\")
    assert r"\set database 'o\'hara\\'" in script
    assert "PASSWORD :'app_password'" in script
    assert "$1" not in script
