"""Mnema where nobody is a superuser, on each supported version of PostgreSQL, as on a managed service.

The operator has CREATEROLE and CREATEDB alone. What a service's own administrator does is done before: pgvector is in
`template1`, because it is no trusted extension.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from app.embedded.postgres import EmbeddedPostgres
from app.providers.embeddings.minilm import MiniLM
from app.providers.embeddings.onnx_files import ensure_graph
from tests.acceptance.processes import REPOSITORY, mnema
from tests.conftest import PASSWORDS, database_url, model_cache
from tests.own_postgres import connected
from tests.own_versions import programs_of, running

pytestmark = pytest.mark.long
OPERATOR = "CREATE ROLE operator LOGIN CREATEROLE CREATEDB PASSWORD 'operator'"
OWNER = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"
CORE = (
    "tests/workers/test_worker.py",
    "tests/workers/test_reflecting.py",
    "tests/api/memory/test_writes.py",
    "tests/api/memory/test_turns.py",
    "tests/api/recall/test_query.py",
    "tests/api/recall/test_delta.py",
    "tests/api/test_access_tenants.py",
    "tests/storage/test_tripwire.py",
)
"""The tests of writing, turns, recall, jobs, isolation and the journal that run on each version."""


@dataclass(frozen=True)
class Service:
    """A server, with the URLs of its superuser and of the operator."""

    superuser: str
    operator: str

    def environment(self, database: str) -> dict[str, str]:
        """Return the operator's settings for this database."""
        logins = {role: database_url(self.superuser, database, role, word) for role, word in PASSWORDS.items()}
        return {
            "MNEMA_SUPERUSER_DATABASE_URL": self.operator,
            "MNEMA_ADMIN_DATABASE_URL": logins["mnema_admin"],
            "MNEMA_DATABASE_URL": logins["mnema_app"],
            **{f"{role.upper()}_PASSWORD": word for role, word in PASSWORDS.items()},
        }


@pytest.fixture(scope="module", params=[16, 17, 18])
async def service(request: pytest.FixtureRequest) -> AsyncIterator[Service]:
    """Run a server of one version."""
    major: int = request.param
    if programs_of(major) is None and f"MNEMA_TEST_POSTGRES_{major}" not in os.environ:
        pytest.skip(f"no PostgreSQL {major} with pgvector: install postgresql-{major}-pgvector")
    with running(major) as superuser:
        async with connected(superuser) as sql:
            await sql.execute(OPERATOR)
        async with connected(database_url(superuser, "template1")) as sql:
            await sql.execute("CREATE EXTENSION IF NOT EXISTS vector")
        yield Service(superuser, database_url(superuser, "postgres", "operator", "operator"))


async def test_the_operator_makes_everything_and_may_repeat_it(service: Service, tmp_path: Path) -> None:
    # The doctor waits a few seconds for the model: a prepared one, because making its graph takes longer.
    ensure_graph(model_cache(), MiniLM(), "int8")
    env = service.environment("mnema") | {"MNEMA_HOME": str(tmp_path), "MNEMA_MODEL_CACHE": str(model_cache())}
    before = await roles_of_mnema(service)
    refused = await mnema("migrate", **env, MNEMA_BACKUP_PASSWORD="backup of the tests")
    assert refused.returncode == 1
    assert "rights_missing" in refused.stderr
    assert "CREATE ROLE mnema_backup LOGIN BYPASSRLS" in refused.stderr
    assert await roles_of_mnema(service) == before
    for _ in range(2):
        done = await mnema("migrate", **env)
        assert (done.returncode, done.stdout[:22]) == (0, "the schema is current;"), done.stderr
    doctor = await mnema("doctor", **env, MNEMA_SECRET_KEY="s" * 32)
    assert doctor.returncode == 0, doctor.stdout
    assert "ok   role\n" in doctor.stdout
    assert "warn large_objects: mnema_app may use large objects" in doctor.stdout


async def test_the_printed_script_prepares_a_database(service: Service, tmp_path: Path) -> None:
    env = service.environment("second") | {"MNEMA_HOME": str(tmp_path)}
    script = tmp_path / "prepare.sql"
    script.write_text((await mnema("migrate", "--print-sql", **env)).stdout)
    psql = EmbeddedPostgres(tmp_path).binary_path("psql")
    words = [f"--variable={role.removeprefix('mnema_')}_password={word}" for role, word in PASSWORDS.items()]
    for _ in range(2):
        ran = await asyncio.to_thread(run, psql, service.operator, "--quiet", *words, f"--file={script}")
        assert ran.returncode == 0, ran.stderr
    del env["MNEMA_SUPERUSER_DATABASE_URL"]
    done = await mnema("migrate", **env)
    assert done.returncode == 0, done.stderr
    app = await asyncpg.connect(env["MNEMA_DATABASE_URL"])
    assert await app.fetchval("SELECT count(*) FROM memories") == 0
    await app.close()


async def test_a_given_database_keeps_its_owner(service: Service, tmp_path: Path) -> None:
    env = service.environment("given") | {"MNEMA_HOME": str(tmp_path)}
    async with connected(service.operator) as sql:
        await sql.execute("CREATE DATABASE given TEMPLATE template0")
    refused = await mnema("migrate", **env)
    needed = "CREATE EXTENSION vector WITH SCHEMA public"
    assert refused.returncode == 1
    assert f"run as a role that may: {needed};" in " ".join(refused.stderr.split())
    async with connected(database_url(service.superuser, "given")) as sql:
        await sql.execute(needed)
    done = await mnema("migrate", **env)
    assert done.returncode == 0, done.stderr
    async with connected(env["MNEMA_DATABASE_URL"]) as sql:
        assert (
            await sql.fetchval("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'given'") == "operator"
        )
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await sql.execute("CREATE TABLE own (n int)")


@pytest.mark.time_limit(1000)
def test_the_core_of_the_suite_passes(service: Service) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MNEMA_TEST_"))}
    env |= {"MNEMA_TEST_DATABASE": service.superuser, "MNEMA_TEST_OPERATOR": service.operator}
    done = run(sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not long", *CORE, env=env)
    assert done.returncode == 0, done.stdout[-4000:]


async def roles_of_mnema(service: Service) -> list[str]:
    """Return the names of the server's roles of Mnema: none, or those that another test of this server has made."""
    async with connected(service.superuser) as sql:
        rows = await sql.fetch("SELECT rolname FROM pg_roles WHERE rolname LIKE 'mnema%' ORDER BY 1")
    return [row["rolname"] for row in rows]


def run(*command: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program in the repository to its end."""
    return subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=900, check=False)
