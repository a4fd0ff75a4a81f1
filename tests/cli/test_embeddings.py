"""`mnema embeddings` from an operator's shell: a complete change of the model, and a killed migration."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np
import pytest
from click.testing import Result
from pgvector.asyncpg import register_vector
from typer.testing import CliRunner

from app.bootstrap import Application
from app.cli.main import app as command_line
from app.domain.agent_state.store_items import Batch, PutItem
from tests.acceptance.processes import DEADLINE_S, MNEMA, REPOSITORY, environment
from tests.conftest import Database
from tests.factories import Caller, draft
from tests.fake_openai import FakeOpenAI, Fault, fake_openai
from tests.usecases.crowd import SeededEmbedder

DIMENSION = 768
FACTS = 200
PREFIX = "passage: "


@pytest.fixture
def embedder() -> SeededEmbedder:
    """Return the old model."""
    return SeededEmbedder()


@pytest.fixture
async def endpoint() -> AsyncIterator[FakeOpenAI]:
    """Run the endpoint of the new model."""
    async with fake_openai(DIMENSION) as fake:
        yield fake


@pytest.fixture
def env(database: Database, endpoint: FakeOpenAI, tmp_path: Path) -> dict[str, str]:
    """Return an operator's environment with the new model configured."""
    return {
        "MNEMA_DATABASE_URL": database.app,
        "MNEMA_ADMIN_DATABASE_URL": database.admin,
        "MNEMA_HOME": str(tmp_path / "home"),
        "MNEMA_EMBEDDER": "openai",
        "MNEMA_EMBEDDING_MODEL": "acme/wide",
        "MNEMA_EMBEDDING_DIMENSION": str(DIMENSION),
        "MNEMA_EMBEDDING_BASE_URL": endpoint.base_url,
        "MNEMA_EMBEDDING_PASSAGE_PREFIX": PREFIX,
    }


@pytest.fixture
async def sql(database: Database) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.superuser)
    await register_vector(connection)
    yield connection
    await connection.close()


async def embeddings(env: dict[str, str], *args: str) -> Result:
    """Run `mnema embeddings …` within this process, in a thread beside the endpoint's event loop."""
    return await asyncio.to_thread(CliRunner().invoke, command_line, ["embeddings", *args], env=env)


async def said(env: dict[str, str], *args: str) -> str:
    """Return the output of a command that must succeed."""
    done = await embeddings(env, *args)
    assert done.exit_code == 0, done.output
    return done.stdout


async def refused(env: dict[str, str], *args: str) -> str:
    """Return the message of a command that must fail."""
    done = await embeddings(env, *args)
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    return done.stderr


async def add(env: dict[str, str]) -> str:
    """Add a space; return its name."""
    told = await said(env, "add", "--model", "acme/wide", "--dimension", str(DIMENSION))
    return told.splitlines()[0]


async def remember(app: Application, caller: Caller, count: int) -> list[UUID]:
    """Write facts of a user."""
    written = [
        await app.memory.write.write_memory(caller.scope, draft(f"Maya owns thing{n} {n}q.")) for n in range(count)
    ]
    return [one.id for one in written if one.id]


def row(listed: str, name: str) -> list[str]:
    """Return the list's line of a space, from its model on."""
    [line] = [line for line in listed.splitlines() if line.startswith(name)]
    return line.split()[1:]


async def killed(env: dict[str, str], name: str, endpoint: FakeOpenAI) -> None:
    """Start `mnema embeddings migrate`, and kill it once the endpoint has answered one request and hangs."""
    endpoint.faults.extend([Fault.SERVER_ERROR, Fault.NONE, Fault.HANG])
    asked = len(endpoint.requests)
    command = [*MNEMA, "embeddings", "migrate", name]
    process = await asyncio.to_thread(subprocess.Popen, command, cwd=REPOSITORY, env=environment(**env))
    try:
        async with asyncio.timeout(DEADLINE_S):
            while len(endpoint.requests) < asked + 3:
                assert process.poll() is None
                await asyncio.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait)


async def is_whole(sql: asyncpg.Connection, name: str, endpoint: FakeOpenAI) -> None:
    """Check that every memory has one vector, that of its present text."""
    texts = {row["id"]: row["text"] for row in await sql.fetch("SELECT id, text FROM memories")}
    rows = await sql.fetch(f"SELECT memory_id, embedding FROM vec_{name}")
    assert sorted(row["memory_id"] for row in rows) == sorted(texts)
    for found in rows:
        right = np.array(endpoint.vector(PREFIX + texts[found["memory_id"]]))
        cosine = float(found["embedding"].to_numpy().astype(np.float64) @ right) / float(np.linalg.norm(right))
        assert cosine == pytest.approx(1, abs=2e-3)


@pytest.mark.long
async def test_a_run_that_is_killed_is_taken_up_where_it_ended(
    app: Application, caller: Caller, env: dict[str, str], endpoint: FakeOpenAI, sql: asyncpg.Connection
) -> None:
    await remember(app, caller, FACTS)
    name = await add(env)
    await killed(env, name, endpoint)
    held = [r["memory_id"] for r in await sql.fetch(f"SELECT memory_id FROM vec_{name} ORDER BY memory_id")]
    assert len(held) == 64
    await app.memory.edit.patch_memory(caller.scope, held[7], {"text": "Maya sold it and is happy."}, version=None)
    assert await refused(env, "switch", name) == (
        f"error invalid_state: {FACTS - 63} memories or agents' values have no vector in {name}: "
        f"run `mnema embeddings migrate {name}` first; if it runs with --follow and has nothing left but what servers "
        "write meanwhile, add --force\n"
    )
    await killed(env, name, endpoint)
    endpoint.requests.clear()
    told = await said(env, "migrate", name)
    assert told.splitlines()[0].startswith(f"embedded {FACTS - 63 - 64} memories and agents' values")
    assert sum(len(request["input"]) for request in endpoint.requests) == FACTS - 63 - 64
    await is_whole(sql, name, endpoint)
    assert (await said(env, "migrate", name)).startswith("embedded 0 memories")


@pytest.mark.long
async def test_the_whole_way_to_another_model(
    app: Application, caller: Caller, env: dict[str, str], sql: asyncpg.Connection
) -> None:
    await remember(app, caller, 3)
    await app.agent_state.store_items.run_batch(
        caller.scope, Batch(puts=(PutItem(("notes",), "one", {"text": "It is blue."}, ("text",)),))
    )
    name = await add(env)
    assert await add(env) == name
    listed = await said(env, "list")
    assert row(listed, name)[:8] == ["acme/wide", "768", "filling", "3", "1", "0", "4", "0"]
    assert row(listed, "minilm_l6_v2")[:8] == ["all-MiniLM-L6-v2", "384", "active", "3", "1", "4", "0", "0"]
    doctor = await asyncio.to_thread(CliRunner().invoke, command_line, ["doctor"], env=env)
    assert (
        f"bad  embedding_space: embedding space {name} of acme/wide (768 dimensions) is not ready yet" in doctor.stdout
    )
    assert f"`mnema embeddings switch {name}`" in doctor.stdout
    migrated = (await said(env, "migrate", name)).splitlines()
    assert migrated == [
        "embedded 4 memories and agents' values; indexed 0 vectors",
        f"missing 0; next: mnema embeddings switch {name}",
    ]
    assert (await refused(env, "drop", "minilm_l6_v2", "--yes")).startswith(
        "error invalid_state: embedding space minilm_l6_v2 is"
    )
    switched = await said(env, "switch", name)
    assert switched.startswith(
        f"{name} is active, 0 missing\nnext: set MNEMA_EMBEDDER, MNEMA_EMBEDDING_MODEL=acme/wide"
    )
    doctor = await asyncio.to_thread(CliRunner().invoke, command_line, ["doctor"], env=env)
    assert "ok   embedding_space" in doctor.stdout
    listed = await said(env, "list")
    assert [row(listed, one)[2] for one in (name, "minilm_l6_v2")] == ["active", "ready"]
    asked = await embeddings(env, "drop", "minilm_l6_v2")
    assert (asked.exit_code, "This cannot be undone" in asked.output) == (1, True)
    assert await sql.fetchval("SELECT count(*) FROM vec_minilm_l6_v2") == 3
    gone = await said(env, "drop", "minilm_l6_v2", "--yes")
    assert gone == "removed minilm_l6_v2 with the vectors of 4 memories and agents' values\n"
    assert [r["name"] for r in await sql.fetch("SELECT name FROM embedding_spaces")] == [name]


async def test_what_cannot_be_is_said(app: Application, env: dict[str, Any]) -> None:
    assert app
    assert await refused(env, "switch", "x") == (
        "error not_found: no embedding space 'x'; `mnema embeddings list` names them\n"
    )
    assert "set MNEMA_EMBEDDER" in await refused(env, "migrate", "minilm_l6_v2")
    strange = await embeddings(env, "add", "--model", "a\nb", "--dimension", "8")
    assert (strange.exit_code, "1 to 200 printable characters" in strange.stderr) == (2, True)
    wide = await embeddings(env, "add", "--model", "m", "--dimension", "4001")
    assert (wide.exit_code, "--dimension" in wide.stderr) == (2, True)
    assert "set MNEMA_ADMIN_DATABASE_URL" in await refused(
        env | {"MNEMA_ADMIN_DATABASE_URL": ""}, "add", "--model", "m", "--dimension", "8"
    )


@pytest.mark.long
async def test_following_ends_with_ctrl_c(
    app: Application, caller: Caller, env: dict[str, str], sql: asyncpg.Connection
) -> None:
    name = await add(env)
    command = [*MNEMA, "embeddings", "migrate", name, "--follow", "--every", "0.2"]
    process = await asyncio.to_thread(
        subprocess.Popen,
        command,
        cwd=REPOSITORY,
        env=environment(**env),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    await remember(app, caller, 3)
    try:
        async with asyncio.timeout(DEADLINE_S):
            while await sql.fetchval(f"SELECT count(*) FROM vec_{name}") < 3:
                assert process.poll() is None
                await asyncio.sleep(0.05)
            while "following" not in await asyncio.to_thread(process.stdout.readline):
                pass
        process.send_signal(signal.SIGINT)
        output, _ = await asyncio.to_thread(process.communicate, timeout=DEADLINE_S)
    finally:
        process.kill()
    assert (process.returncode, output.splitlines()[-1]) == (0, "stopped; run the command again to continue")
