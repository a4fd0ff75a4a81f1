"""schemathesis against a real server: every operation of the OpenAPI document, alone and along its links.

It runs as its own process, configured by tests/api/fuzz/schemathesis.toml. MNEMA_FUZZ_EXAMPLES=500 tries that many
requests an operation instead of the few of the run's profile, MNEMA_FUZZ_SEED other ones.
"""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from app.bootstrap import Application
from app.domain.chat.upstream import ANTHROPIC
from tests.api.calls import ask, edit_matching, remember, say
from tests.api.chat.conftest import set_upstream
from tests.api.fuzz.running import EXAMPLES, SEED, schemathesis
from tests.factories import Caller, make_caller
from tests.scripted_upstream import ScriptedUpstream, scripted_upstream

STATEFUL = max(400, EXAMPLES)
OURS = ("--exclude-path-regex", "^/operator/")
"""No tenant's key opens the operator's routes: tests/api/tenancy/test_operator_fuzz.py."""
APART = "ping/|memories/|entities/|responses|messages|embeddings|completions"
LINKED = (
    "--exclude-path-regex",
    f"^/operator/|^/keys|^/v[123]/({APART})|^/memory/(correct|forget)|/(retract|supersede)$",
)
"""Without the routes of mem0 and of chats: they lead to their own memories or nowhere, and take steps of the others.
Without those that end a memory or the key itself, too: few steps are accepted after them."""
RUNS = 3
"""Runs along the links. Each takes some fifty ways through the operations; how far they lead hangs on the seed."""
LINKS = 12
"""Minimum number of different links that the best run must follow; runs without links do not test any state."""


async def furnished(client: httpx.AsyncClient) -> None:
    """Return a tenant with an entry for every list."""
    for number in range(3):
        await remember(client, f"Maya books room {number} for the launch.", category="tasks", thread_id="launch")
        await say(client, f"Is room {number} large enough?", thread_id="launch")
    await ask(client, "Which room?", thread_id="launch")
    await say(client, "My favorite colors are red, white and blue.", thread_id="launch")
    await edit_matching(client, {"category": "tasks"}, importance=4)


@pytest.fixture
async def anthropic() -> AsyncIterator[ScriptedUpstream]:
    """Run an endpoint of Anthropic's API that takes any request."""
    async with scripted_upstream() as running:
        running.takes_anything, running.rule = True, lambda _body: "Fine."
        yield running


@pytest.fixture
async def keys(app: Application, server: str, caller: Caller, anthropic: ScriptedUpstream, tmp_path: Path) -> Path:
    """Return the keys of two furnished tenants in the form that schemathesis reads."""
    other = await make_caller(app)
    entries = []
    for name, who in (("one", caller), ("other", other)):
        await set_upstream(app, who, anthropic.base_url, dialect=ANTHROPIC)
        async with who.client(server) as client:
            await furnished(client)
        headers = [{"name": name, "value": value} for name, value in who.headers.items()]
        entries.append({"name": name, "fixedHeaders": headers})
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"auth": entries}))
    return file


@pytest.mark.long
async def test_every_operation_does_what_the_document_says(server: str, keys: Path) -> None:
    code, report = await schemathesis(
        server, keys, *OURS, "--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES)
    )
    assert code == 0, report
    selected, tested = re.search(r"Selected: (\d+)/", report), re.search(r"Tested: (\d+)", report)
    assert selected, report
    assert tested, report
    assert tested[1] == selected[1], report


@pytest.mark.long
async def test_operations_agree_along_the_links(server: str, keys: Path) -> None:
    phases, followed = ("--phases", "stateful", "--max-examples", str(STATEFUL)), []
    for seed in range(SEED, SEED + RUNS):
        code, report = await schemathesis(server, keys, *LINKED, *phases, seed=seed)
        assert code == 0, report
        covered = re.search(r"API Links: +(\d+) covered", report)
        assert covered, report
        followed.append(int(covered[1]))
    assert max(followed) >= LINKS, followed
