"""What a running server says of the database role it has: asked each time, for a role can be changed meanwhile."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.domain.errors import ConfigError
from app.providers.chat_models.none import NoModel
from app.providers.rerankers.none import NoReranker
from app.storage.engine import Engine, refuse_privileged
from app.storage.identity import new_id
from app.storage.uow import UnitOfWork
from app.usecases.ops.readiness import Readiness
from tests.conftest import Database, database_url
from tests.usecases.crowd import SeededEmbedder

POWERS = {
    "superuser or BYPASSRLS": ("ALTER ROLE {} BYPASSRLS", "ALTER ROLE {} NOBYPASSRLS"),
    "member of mnema_owner": ("GRANT mnema_owner TO {}", "REVOKE mnema_owner FROM {}"),
    "owner of relations": ("ALTER TABLE events OWNER TO {}", "ALTER TABLE events OWNER TO mnema_owner"),
}


@pytest.fixture
async def role(database: Database, sql: asyncpg.Connection) -> AsyncIterator[str]:
    """A role that may do what mnema_app may; that one is every test's."""
    name = f"probe_{new_id().hex}"
    await sql.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'p' IN ROLE mnema_app")
    await sql.execute(f"GRANT CONNECT ON DATABASE {database.name} TO {name}")
    yield name
    await sql.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


async def test_a_role_that_can_step_around_the_policies_by_now_is_told(
    database: Database, sql: asyncpg.Connection, role: str
) -> None:
    engine = Engine(database_url(database.superuser, database.name, role, "p"), min_size=1, max_size=4)
    readiness = Readiness(UnitOfWork(engine), SeededEmbedder(), NoReranker(), NoModel(), lambda: None)
    assert (await readiness.checks())["role"] == "ok"
    for power, (given, taken) in POWERS.items():
        await sql.execute(given.format(role))
        checks = await readiness.checks()
        assert power in checks["role"], "the connections were open before"
        assert (checks["database"], "role" in readiness.OPTIONAL) == ("ok", False)
        await sql.execute(taken.format(role))
        assert (await readiness.checks())["role"] == "ok"
    await engine.close()


@pytest.mark.parametrize(
    ("power", "cure"),
    [("free", "NOSUPERUSER NOBYPASSRLS"), ("owner", "REVOKE mnema_owner"), ("owns", "REASSIGN OWNED BY mnema_app")],
)
def test_how_to_mend_it_is_said(power: str, cure: str) -> None:
    held = {"free": False, "owner": False, "owns": False}
    refuse_privileged({"rolname": "mnema_app", **held})
    with pytest.raises(ConfigError, match=cure):
        refuse_privileged({"rolname": "mnema_app", **held, power: True})
    with pytest.raises(ConfigError, match=r"; use mnema_app$"):
        refuse_privileged({"rolname": "postgres", **held, power: True})
