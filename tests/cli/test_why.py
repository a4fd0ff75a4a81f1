"""`mnema why`: what became of a turn, and why nothing was remembered."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.bootstrap import Application
from tests.acceptance.processes import mnema
from tests.api.calls import say
from tests.factories import Caller


@pytest.fixture
def env(server: str, caller: Caller, tmp_path: Path) -> dict[str, Any]:
    """Return the environment of a shell with the server's address."""
    return {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path}


@pytest.mark.long
async def test_a_turn_is_explained_in_lines_and_as_json(
    app: Application, server: str, caller: Caller, env: dict[str, Any]
) -> None:
    async with caller.client(server) as http:
        turn = await say(http, "I am allergic to peanuts.")
    waiting = await mnema("why", turn["id"], **env)
    assert waiting.returncode == 0, waiting.stderr
    assert "remembered  0\n" in waiting.stdout
    assert "reason      job_queued: A job of this turn is queued" in waiting.stdout
    assert "reason      no_model: No chat model is configured" in waiting.stdout
    assert f"job         {turn['jobs'][0]} after_turn queued, attempts 0" in waiting.stdout
    assert await app.jobs.run.run_job(caller.scope.tenant_id, UUID(turn["jobs"][0]), "test") == "done"
    done = await mnema("why", turn["id"], **env)
    assert "remembered  1\n" in done.stdout
    assert "reason" not in done.stdout
    assert "reading     capture: stored, facts 1\n" in done.stdout
    [fact] = [line for line in done.stdout.splitlines() if line.startswith("fact ")]
    assert "constraints" in fact
    assert "allergic to peanuts" in fact.partition("from “")[2]
    [seen] = [line for line in done.stdout.splitlines() if line.startswith("seen by ")]
    agents = seen.removeprefix("seen by     constraints: ").split(", ")
    assert "assistant" in agents
    assert "stylist" not in agents
    told = json.loads((await mnema("why", turn["id"], "--json", **env)).stdout)
    assert (told["id"], told["remembered"], told["reasons"]) == (turn["id"], 1, [])


async def test_an_unknown_id_is_refused(env: dict[str, Any]) -> None:
    missing = await mnema("why", str(uuid4()), **env)
    assert (missing.returncode, "404 not_found" in missing.stderr) == (1, True)
    wrong = await mnema("why", "first", **env)
    assert wrong.returncode == 2
