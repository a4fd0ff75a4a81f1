"""`mnema migrate`, `tenant`, `key` and `doctor`: their output, and clear messages for every error."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
import typer
from filelock import FileLock

from app.cli.administration import migrate_schema
from app.config.yaml_files import CONFIG_DIR
from app.usecases.operations.readiness import NO_CHAT_MODEL
from tests.acceptance.processes import mnema
from tests.conftest import PASSWORDS, Database, database_url, model_cache

KEY = re.compile(r"^id      (\S{36})\ntenant  acme\nscopes  \S+\nagents  \S+\nkey     (mnema_\S{43})\n$")
OK = (
    "configuration",
    "database",
    "locks",
    "clock",
    "migrations",
    "role",
    "embedding_space",
    "secret",
    "embedder",
    "reranker",
    f"llm: {NO_CHAT_MODEL}",
    "blobs",
)
NO_BROKER = "warn broker: no broker configured, background jobs wait: set MNEMA_REDIS_URL\nok   workers\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with the model's file and without an embedded installation."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "models").symlink_to(model_cache())
    return tmp_path / "home"


@pytest.fixture
def env(database: Database, home: Path) -> dict[str, Any]:
    """Return an operator's environment."""
    return {"MNEMA_DATABASE_URL": database.app, "MNEMA_HOME": home}


@pytest.fixture
async def nothing_yet(superuser_url: str) -> AsyncIterator[str]:
    """Return the name of a database that does not exist; drop it afterwards."""
    name = f"t_{uuid4().hex}"
    yield name
    connection = await asyncpg.connect(superuser_url)
    await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await connection.close()


async def refused(*args: str, **env: object) -> str:
    """Return the message of a command that must fail."""
    done = await mnema(*args, **env)
    assert (done.returncode, done.stdout) == (1, ""), done.stdout + done.stderr
    return done.stderr


async def new_key(env: dict[str, Any], *options: str) -> tuple[str, str]:
    """Return id and plain text of a new key of tenant acme."""
    done = await mnema("key", "create", "--tenant", "acme", *options, **env)
    found = KEY.match(done.stdout)
    assert found, done.stdout + done.stderr
    return found[1], found[2]


@pytest.mark.long
async def test_tenants_are_created_listed_and_unique(env: dict[str, Any]) -> None:
    done = await mnema("tenant", "create", "acme", **env)
    assert (done.returncode, bool(re.match(r"^\S{36}  acme\n$", done.stdout))) == (0, True)
    again, blank, odd, unknown, listed = await asyncio.gather(
        refused("tenant", "create", "acme", **env),
        refused("tenant", "create", " acme", **env),
        mnema("tenant", "create", "[/b] a :smile: name", **env),
        refused("key", "list", "--tenant", "[/i]", **env),
        mnema("tenant", "list", **env),
    )
    assert again == "error name_taken: a tenant named 'acme' exists\n"
    assert blank.startswith("error invalid_request: an identifier has 1 to 200 printable characters")
    assert odd.stdout.endswith("  [/b] a :smile: name\n")
    assert done.stdout.split()[0] in listed.stdout
    assert unknown == "error not_found: no tenant '[/i]'\n"


@pytest.mark.long
async def test_a_key_works_until_it_is_revoked_and_its_text_is_never_listed(env: dict[str, Any], server: str) -> None:
    await mnema("tenant", "create", "acme", **env)
    key_id, plain = await new_key(
        env, "--agents", "planner,executor", "--scopes", "query", "--days", "3", "--name", "CI"
    )
    headers = {"Authorization": f"Bearer {plain}"}
    async with httpx.AsyncClient(base_url=server, headers=headers) as http:
        assert (await http.get("/memory", params={"user_id": "maya"})).status_code == 200
        listed = await mnema("key", "list", "--tenant", "acme", **env)
        assert plain not in listed.stdout
        row = listed.stdout.splitlines()[1].split()
        assert row[:5] == [key_id, "CI", f"{plain[:12]}…", "query", "planner,executor"]
        revoked = await mnema("key", "revoke", key_id, "--tenant", "acme", **env)
        assert (revoked.returncode, revoked.stdout) == (0, "revoked\n")
        assert (await http.get("/memory")).status_code == 401
    said, listed = await asyncio.gather(
        refused("key", "revoke", key_id, "--tenant", "acme", **env), mnema("key", "list", "--tenant", "acme", **env)
    )
    assert said == "error not_found: no such key, or it is revoked already\n"
    assert re.search(rf"{key_id} .* 20\d\d-\S+ \S+Z +20\d\d-\S+ \S+Z *$", listed.stdout, re.MULTILINE)


async def test_keys_that_cannot_be_are_refused_with_the_reason(env: dict[str, Any]) -> None:
    await mnema("tenant", "create", "acme", **env)
    scopes = "use one or more of: query, write, chat, approve, read_all, admin\n"
    cases = {
        ("--agents", "gardener"): "error unknown_agent: no allowlist for agent 'gardener'\n",
        (
            "--scopes",
            "read",
        ): f"error invalid_request: unknown scope 'read'; {scopes}",
        (
            "--scopes",
            "",
        ): f"error invalid_request: no scope given; {scopes}",
        ("--agents", ""): (
            "error invalid_request: agents is empty; name at least one agent, or leave agents out for an unbound key\n"
        ),
        ("--agents", "planner", "--scopes", "admin"): "error invalid_request: an admin key cannot be bound to agents\n",
    }
    said = await asyncio.gather(*(refused("key", "create", "--tenant", "acme", *options, **env) for options in cases))
    assert said == list(cases.values())


@pytest.mark.long
async def test_migrate_prepares_a_server_that_has_nothing_yet_and_may_be_repeated(
    superuser_url: str, nothing_yet: str, home: Path, tmp_path: Path
) -> None:
    urls = {role: database_url(superuser_url, nothing_yet, role, password) for role, password in PASSWORDS.items()}
    env: dict[str, Any] = {
        "MNEMA_SUPERUSER_DATABASE_URL": superuser_url,
        "MNEMA_DATABASE": nothing_yet,
        "MNEMA_ADMIN_PASSWORD": PASSWORDS["mnema_admin"],
        "MNEMA_APP_PASSWORD": PASSWORDS["mnema_app"],
        "MNEMA_ADMIN_DATABASE_URL": urls["mnema_admin"],
        "MNEMA_DATABASE_URL": urls["mnema_app"],
        "MNEMA_HOME": home,
    }
    lock = FileLock(Path(os.environ["MNEMA_TEST_HOME"]) / "setup.lock")  # all test processes share the roles
    files = tmp_path / "secrets"
    files.mkdir()
    for name, value in env.items():
        (files / name.lower()).write_text(f"{value}\n")
    for given in (env, {"MNEMA_SECRETS_DIR": files}):  # once more, with all values from files
        with lock:
            done = await mnema("migrate", **given)
        assert (done.returncode, done.stdout) == (0, "the schema is current; the vectors are from all-MiniLM-L6-v2\n")
    checked, created = await asyncio.gather(mnema("doctor", **env), mnema("tenant", "create", "acme", **env))
    told, elsewhere = checked.stdout.split("ok   pauses\nok   schema\nok   languages\nok   past\n")
    assert (checked.returncode, told) == (0, "".join(f"ok   {name}\n" for name in OK) + NO_BROKER)
    others, objects, parsers = elsewhere.splitlines()
    assert re.fullmatch(r"ok   other_databases|warn other_databases: mnema_app may connect to t_\w+.*", others)
    assert objects == "ok   large_objects"
    assert re.fullmatch(r"ok   parsers|warn parsers: (network|files).*", parsers)
    assert created.returncode == 0


@pytest.mark.parametrize(
    ("rest", "name"),
    [("/my%20db", "my db"), ("/x?dbname=prod", "prod"), ("", "mnema"), ("/a%0Ab", "a\\nb")],
)
def test_migrate_prepares_the_database_that_it_then_opens(
    rest: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MNEMA_ADMIN_DATABASE_URL", f"postgresql://mnema_admin:x@127.0.0.1{rest}")
    migrate_schema(print_sql=True)
    assert f"\n\\set database '{name}'\n" in capsys.readouterr().out


@pytest.mark.parametrize("password", ["hunter2℀", "hunt/er2", "hunt?er2", "hunt#er2"])
def test_migrate_shows_no_part_of_a_password_that_is_not_escaped(
    password: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MNEMA_ADMIN_DATABASE_URL", f"postgresql://mnema_admin:{password}@127.0.0.1:1/mnema")
    with pytest.raises(typer.Exit):
        migrate_schema()
    told = "".join(capsys.readouterr())
    assert "the database URL" in told
    assert not any(part in told for part in ("hunt", "er2"))


@pytest.mark.long
async def test_migrate_says_what_is_missing_or_refused(database: Database, home: Path) -> None:
    wrong = database_url(database.admin, database.name, "mnema_admin", "wrong")
    cases = [
        ({}, "set MNEMA_ADMIN_DATABASE_URL to the database URL of mnema_admin"),
        ({"MNEMA_SUPERUSER_DATABASE_URL": database.superuser}, "set MNEMA_ADMIN_PASSWORD and MNEMA_APP_PASSWORD"),
        ({"MNEMA_ADMIN_DATABASE_URL": wrong}, 'password authentication failed for user "mnema_admin"'),
        ({"MNEMA_ADMIN_DATABASE_URL": "postgresql://mnema_admin:x@127.0.0.1:1/mnema"}, "Connect call failed"),
    ]
    said = await asyncio.gather(*(refused("migrate", **env, MNEMA_HOME=home) for env, _said in cases))
    for line, (_env, expected) in zip(said, cases, strict=True):
        assert expected in line
        assert "wrong" not in line
    assert "set MNEMA_SUPERUSER_DATABASE_URL" in await refused("migrate", "--roles-only", MNEMA_HOME=home)


@pytest.mark.long
async def test_doctor_names_what_is_wrong_with_the_database_and_how_to_mend_it(
    database: Database, superuser_url: str, nothing_yet: str, home: Path
) -> None:
    def url(name: str, user: str = "mnema_app", password: str = PASSWORDS["mnema_app"]) -> str:
        return database_url(superuser_url, name, user, password)

    connection = await asyncpg.connect(superuser_url)
    await connection.execute(f"CREATE DATABASE {nothing_yet}")
    await connection.close()
    cases = {
        url(database.name, password="wrong"): ("password authentication failed", "check MNEMA_DATABASE_URL"),
        url("t_gone"): ('database "t_gone" does not exist', "check MNEMA_DATABASE_URL"),
        "postgresql://mnema_app:x@127.0.0.1:1/mnema": ("The database does not answer", "that PostgreSQL runs there"),
        database.superuser: ("it can bypass row-level security", "use mnema_app"),
        url(nothing_yet): ("", "run `mnema migrate`"),
        "": ("set MNEMA_DATABASE_URL to the database URL of mnema_app", "or run `mnema up`"),
    }
    ended = await asyncio.gather(*(mnema("doctor", MNEMA_DATABASE_URL=url, MNEMA_HOME=home) for url in cases))
    for done, (wrong, mended) in zip(ended, cases.values(), strict=True):
        said = done.stdout + done.stderr
        assert (done.returncode, wrong in said, mended in said) == (1, True, True), said


@pytest.mark.long
async def test_doctor_names_a_schema_or_a_configuration_that_does_not_fit(
    database: Database, env: dict[str, Any], tmp_path: Path
) -> None:
    connection = await asyncpg.connect(database.superuser)
    await connection.execute(
        "CREATE TABLE kept AS TABLE alembic_version; UPDATE alembic_version SET version_num = '0000'"
    )
    config = Path(shutil.copytree(CONFIG_DIR, tmp_path / "config"))
    policies = (config / "policies.yaml").read_text()
    (config / "policies.yaml").write_text(policies.replace("category: relationship_dynamic", "category: guesses"))
    behind, other, homeless, small, lost, quiet = await asyncio.gather(
        mnema("doctor", **env),
        mnema(
            "doctor",
            **env,
            MNEMA_EMBEDDER="openai",
            MNEMA_EMBEDDING_MODEL="x",
            MNEMA_EMBEDDING_BASE_URL="http://127.0.0.1:1",
        ),
        mnema("doctor", **env, MNEMA_EMBEDDER="openai", MNEMA_EMBEDDING_MODEL="x"),
        mnema("doctor", **env, MNEMA_POOL_MIN="0"),
        mnema("doctor", **env, MNEMA_CONFIG_DIR=tmp_path),
        mnema("doctor", **env, MNEMA_CONFIG_DIR=config),
    )
    await connection.close()
    assert [done.returncode for done in (behind, other, homeless, small, lost)] == [1] * 5
    assert re.search(
        r"^bad  migrations: schema is at 0000, this server needs \w+: run `mnema migrate`$", behind.stdout, re.M
    )
    assert (
        "bad  embedding_space: the stored vectors are all-MiniLM-L6-v2 (384 dimensions) but the configured"
        in other.stdout
    )
    assert "starting with `mnema embeddings add --model x --dimension 384`" in other.stdout
    assert "bad  embedder: The embedding endpoint cannot be reached." in other.stdout
    assert "MNEMA_EMBEDDING_BASE_URL: must be the http:// or https:// URL before /embeddings" in homeless.stderr
    assert small.stderr == "error settings: MNEMA_POOL_MIN: Input should be greater than or equal to 1\n"
    assert "bad  configuration: cannot read policies.yaml: " in lost.stdout
    assert "warn insights: insights are off: no agent may see category 'guesses'; name it in" in quiet.stdout


@pytest.mark.long
async def test_doctor_names_a_reranker_that_cannot_work_and_warns_of_one_that_is_away(env: dict[str, Any]) -> None:
    nowhere, away = await asyncio.gather(
        mnema("doctor", **env, MNEMA_RERANKER="http"),
        mnema("doctor", **env, MNEMA_RERANKER="http", MNEMA_RERANKER_BASE_URL="http://127.0.0.1:1"),
    )
    assert (
        "bad  configuration: MNEMA_RERANKER_BASE_URL: must be the http:// or https:// URL before /rerank"
        in nowhere.stdout
    )
    assert "warn reranker: The reranker's endpoint cannot be reached. Check MNEMA_RERANKER_BASE_URL" in away.stdout
    assert (nowhere.returncode, away.returncode) == (1, 0)


@pytest.mark.long
async def test_doctor_names_a_chat_model_that_cannot_work_and_warns_of_one_that_is_away(env: dict[str, Any]) -> None:
    nowhere, away = await asyncio.gather(
        mnema("doctor", **env, MNEMA_LLM="openai", MNEMA_LLM_BASE_URL="http://127.0.0.1:1"),
        mnema("doctor", **env, LLM_BASE_URL="http://127.0.0.1:1", LLM_API_KEY="sk-secret"),
    )
    assert "bad  configuration: MNEMA_LLM_MODEL: must be a model of the endpoint" in nowhere.stdout
    assert "warn llm: The chat model's endpoint cannot be reached. Check MNEMA_LLM_BASE_URL" in away.stdout
    assert "sk-secret" not in away.stdout + away.stderr
    assert (nowhere.returncode, away.returncode) == (1, 0)
