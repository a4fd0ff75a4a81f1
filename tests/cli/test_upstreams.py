"""`mnema tenant upstream` and `mnema secret accept`: no argument has the key, nobody shows it, a rotation keeps it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from click.testing import Result
from typer.testing import CliRunner

from app.cli.main import app as command_line
from tests.cli.in_process import mnema
from tests.conftest import SECRET_KEY, Database
from tests.scripted_upstream.faults import Fault
from tests.scripted_upstream.server import ScriptedUpstream, scripted_upstream

URL, KEY = "https://1.1.1.1/v1", "sk-of-the-tenant-1234"
NEW_SECRET = "the new secret, and as long as it has to be"


@pytest.fixture
async def env(operator: dict[str, Any]) -> dict[str, Any]:
    """Return an operator's environment with a key for endpoints; tenant acme exists."""
    assert (await mnema("tenant", "create", "acme", **operator)).exit_code == 0
    return operator | {"MNEMA_UPSTREAM_KEY": KEY}


@pytest.fixture
async def superuser(database: Database) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedUpstream]:
    async with scripted_upstream() as upstream:
        yield upstream


async def upstream(*args: str, **env: object) -> Result:
    return await mnema("tenant", "upstream", *args, **env)


async def done(*args: str, **env: object) -> str:
    """Return the output of a command that must succeed."""
    result = await upstream(*args, **env)
    assert result.exit_code == 0, result.output
    return result.stdout


async def refused(*args: str, **env: object) -> str:
    """Return the message of a command that must fail."""
    result = await upstream(*args, **env)
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    return result.stderr


@pytest.mark.long
async def test_an_endpoint_is_set_shown_and_cleared(env: dict[str, Any]) -> None:
    assert await done("show", "acme", **env) == "none of its own; the installation's is used if there is one\n"
    assert await done("set", "acme", "--url", URL, **env) == "set, with a key\n"
    shown = await done("show", "acme", **env)
    assert shown.startswith(f"url      {URL}\nkey      set, ends in 1234\nupdated  20")
    assert KEY not in shown
    assert await done("set", "acme", "--url", URL, "--no-key", **env) == "set, without a key\n"
    assert "key      none\n" in await done("show", "acme", **env)
    anthropic = ("acme", "--dialect", "anthropic")
    assert await done("set", *anthropic, "--url", "https://9.9.9.9/v1", **env) == "set, with a key\n"
    assert "url      https://9.9.9.9/v1\nkey      set, ends in 1234\n" in await done("show", *anthropic, **env)
    assert f"url      {URL}\nkey      none\n" in await done("show", "acme", **env)
    assert await done("clear", "acme", **env) == "cleared\n"
    assert await done("clear", "acme", **env) == "nothing to clear\n"
    assert await done("clear", *anthropic, **env) == "cleared\n"
    assert "Invalid value" in (await upstream("show", "acme", "--dialect", "gemini", **env)).stderr
    assert await refused("show", "nobody", **env) == "error not_found: no tenant 'nobody'\n"


async def test_the_key_comes_from_a_file_or_a_prompt_without_echo(env: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-in-a-file-of-its-own-5678\n")
    await done("set", "acme", "--url", URL, "--key-file", str(file), **env)
    assert "ends in 5678" in await done("show", "acme", **env)
    asking = {name: str(value) for name, value in env.items()} | {"MNEMA_UPSTREAM_KEY": ""}
    line = ["tenant", "upstream", "set", "acme", "--url", URL]
    typed = {"env": asking, "input": "sk-typed-by-a-hand-9012\n"}
    prompted = await asyncio.to_thread(CliRunner().invoke, command_line, line, **typed)
    assert (prompted.exit_code, "9012" in prompted.output) == (0, False), prompted.output
    assert "ends in 9012" in await done("show", "acme", **env)
    file.write_bytes(b"\xff\xfe")
    assert "must be a text file" in await refused("set", "acme", "--url", URL, "--key-file", str(file), **env)
    gone = str(tmp_path / "gone")
    assert "No such file" in await refused("set", "acme", "--url", URL, "--key-file", gone, **env)
    argument = await upstream("set", "acme", "--url", URL, "--key", KEY, **env)
    assert (argument.exit_code, "No such option" in argument.stderr) == (2, True)


@pytest.mark.long
async def test_what_is_refused_is_said_and_not_stored(env: dict[str, Any]) -> None:
    said = await refused("set", "acme", "--url", "http://169.254.169.254/v1", **env)
    assert said.startswith("error upstream_not_allowed: chat endpoints at link-local, metadata")
    said = await refused("set", "acme", "--url", "http://127.0.0.1:8000/v1", **env)
    assert "MNEMA_CHAT_PRIVATE_UPSTREAMS" in said
    said = await refused("set", "acme", "--url", "https://me:pw@1.1.1.1/v1", **env)
    assert ("must be the http:// or https:// URL" in said, "pw" in said) == (True, False)
    said = await refused("set", "acme", "--url", URL, **env | {"MNEMA_UPSTREAM_KEY": "sk-\x7f"})
    assert said == "error invalid_request: the key must be 1 to 4096 printable ASCII characters\n"
    assert "none of its own" in await done("show", "acme", **env)


@pytest.mark.long
async def test_an_endpoint_is_tested_with_its_key(env: dict[str, Any], scripted: ScriptedUpstream) -> None:
    private = env | {"MNEMA_CHAT_PRIVATE_UPSTREAMS": "true"}
    assert "error no_upstream" in await refused("test", "acme", **env)
    installed = env | {"MNEMA_CHAT_UPSTREAM_URL": scripted.base_url, "MNEMA_CHAT_UPSTREAM_KEY": "sk-installed"}
    assert (await done("test", "acme", **installed)).startswith(f"{scripted.base_url}  200  2 models  ")
    await done("set", "acme", "--url", scripted.base_url, **private)
    assert (await done("test", "acme", **private)).startswith(f"{scripted.base_url}  200  2 models  ")
    assert "error upstream_not_allowed" in await refused("test", "acme", **env)
    keys = [dict(received.headers)["authorization"] for received in scripted.log]
    assert keys == ["Bearer sk-installed", f"Bearer {KEY}"]
    scripted.faults.append(Fault.UNAUTHORISED)
    failed = await upstream("test", "acme", **private)
    assert (failed.exit_code, "  401  no list of models  " in failed.stdout) == (1, True), failed.output
    assert KEY not in failed.output


@pytest.mark.long
async def test_a_new_secret_takes_the_keys_along(
    env: dict[str, Any], database: Database, superuser: asyncpg.Connection
) -> None:
    await mnema("tenant", "create", "keyless", **env)
    await mnema("tenant", "create", "other", **env)
    await done("set", "acme", "--url", URL, **env)
    await done("set", "acme", "--dialect", "anthropic", "--url", URL, **env)
    await done("set", "other", "--url", URL, **env | {"MNEMA_UPSTREAM_KEY": "sk-of-another-one-5678"})
    await done("set", "keyless", "--url", URL, "--no-key", **env)
    before = await superuser.fetch("SELECT tenant_id, api_key FROM chat_upstreams ORDER BY 1, dialect")
    new = env | {"MNEMA_SECRET_KEY": NEW_SECRET, "MNEMA_ADMIN_DATABASE_URL": database.admin}
    lost = await mnema("secret", "accept", **new)
    assert lost.exit_code == 1
    assert "neither MNEMA_SECRET_KEY nor MNEMA_FORMER_SECRET_KEY decrypts" in lost.stderr
    assert "these tenants: acme, other. Nothing was changed" in lost.stderr
    assert await superuser.fetch("SELECT tenant_id, api_key FROM chat_upstreams ORDER BY 1, dialect") == before
    assert await superuser.fetchval("SELECT count(*) FROM installation") == 0
    assert "key      unreadable" in await done("show", "acme", **new)
    both = new | {"MNEMA_FORMER_SECRET_KEY": SECRET_KEY}
    assert "ends in 1234" in await done("show", "acme", **both)
    accepted = await mnema("secret", "accept", **both)
    assert (accepted.exit_code, accepted.stdout.splitlines()[0]) == (0, "keys of chat endpoints encrypted again: 3")
    assert "ends in 1234" in await done("show", "acme", **new)
    assert "ends in 1234" in await done("show", "acme", "--dialect", "anthropic", **new)
    assert "ends in 5678" in await done("show", "other", **new)
    assert "key      unreadable" in await done("show", "acme", **env)
    assert (await mnema("secret", "accept", **both)).exit_code == 0  # again, with nothing left to do
    assert "ends in 1234" in await done("show", "acme", **new)


@pytest.mark.long
async def test_a_lost_secret_is_overcome_by_clearing(env: dict[str, Any], database: Database) -> None:
    await done("set", "acme", "--url", URL, **env)
    await done("set", "acme", "--url", URL, **env)
    new = env | {"MNEMA_SECRET_KEY": NEW_SECRET, "MNEMA_ADMIN_DATABASE_URL": database.admin}
    assert "error upstream_key_unreadable" in await refused("test", "acme", **new)
    assert await done("clear", "acme", **new) == "cleared\n"
    assert (await mnema("secret", "accept", **new)).exit_code == 0
    assert await done("set", "acme", "--url", URL, **new) == "set, with a key\n"
    assert "MNEMA_SECRET_KEY differs" in await refused("set", "acme", "--url", URL, **env)


@pytest.mark.long
async def test_an_endpoint_of_anthropics_is_tested(env: dict[str, Any], scripted: ScriptedUpstream) -> None:
    private = env | {"MNEMA_CHAT_PRIVATE_UPSTREAMS": "true"}
    anthropic = ("acme", "--dialect", "anthropic")
    await done("set", *anthropic, "--url", scripted.base_url, **private)
    assert (await done("test", *anthropic, **private)).startswith(f"{scripted.base_url}  200  2 models  ")
