"""No statement crosses tenants, neither the server's nor a function's; only the definer functions look across."""

import re
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.architecture import tenant_scope
from tests.architecture.catalog import tenant_tables
from tests.conftest import Database

CROSSING = {
    "a list of all tenants": "SELECT id FROM memories WHERE user_id = $1",
    "a join that forgets one side": "SELECT 1 FROM memories m JOIN facts f USING (user_id) WHERE m.tenant_id = $1",
    "a subquery without the tenant": "SELECT 1 FROM users u WHERE u.tenant_id = $1 AND EXISTS (SELECT FROM events "
    "e WHERE e.user_id = u.user_id)",
    "a change of all tenants": "DELETE FROM receipts WHERE ts < $1",
    "a statement that PostgreSQL does not know": "SELECT nothing FROM memories WHERE tenant_id = $1",
}
EQUATION = re.compile(r"(\w+\.)?tenant_id = (p_tenant|\w+\.tenant_id)")


@pytest.fixture
async def superuser(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """A connection that row-level security does not bind, so that plans have only the statements' own conditions."""
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


async def test_every_statement_is_bound_to_one_tenant(superuser: asyncpg.Connection) -> None:
    statements = [*tenant_scope.stored_statements(), *tenant_scope.written_statements()]
    assert len(statements) > 300
    tables = await tenant_tables(superuser)
    assert await tenant_scope.unbound_scans(superuser, statements, tables) == []
    assert await tenant_scope.unbound_functions(superuser, tables) == []


async def test_statements_that_cross_tenants_are_reported(superuser: asyncpg.Connection) -> None:
    found = await tenant_scope.unbound_scans(superuser, CROSSING.items(), await tenant_tables(superuser))
    assert {offence.split(": ")[0] for offence in found} == CROSSING.keys()


async def test_nearly_every_equation_that_a_function_loses_is_reported(superuser: asyncpg.Connection) -> None:
    tables = await tenant_tables(superuser)
    lost = [
        (name, body[: equation.start()] + "true" + body[equation.end() :])
        for name, body in await tenant_scope.function_bodies(superuser)
        for equation in EQUATION.finditer(body)
    ]
    missed = [name for name, body in lost if not tenant_scope.unbound_parts(body, tables)]
    assert len(lost) > 300
    assert len(missed) < len(lost) / 10, "equations that another one of the same statement makes up for"
