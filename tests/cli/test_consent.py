"""`mnema run consent`: expiry of undecided proposals by hand."""

from typing import Any

import pytest

from app.bootstrap import Application
from tests.api.calls import sql
from tests.cli.in_process import mnema
from tests.conftest import Database
from tests.factories import Caller
from tests.usecases.consenting import propose, say
from tests.usecases.crowd import SeededEmbedder


@pytest.fixture
def embedder() -> SeededEmbedder:
    """No model: only equal texts are near each other."""
    return SeededEmbedder()


@pytest.mark.parametrize("dry", [True, False])
async def test_what_nobody_decided_expires_and_a_dry_run_says_so(
    app: Application, caller: Caller, operator: dict[str, Any], database: Database, dry: bool
) -> None:
    await say(app, caller.scope, "Good morning.")
    for city in ("Lisbon", "Porto"):
        await propose(app, caller.scope, "city", city)
    guards = ("context_patches_decide_once", "context_patches_tripwire")
    for guard in guards:
        await sql(database, f"ALTER TABLE context_patches DISABLE TRIGGER {guard}")
    await sql(database, "UPDATE context_patches SET expires_at = now()")
    for guard in guards:
        await sql(database, f"ALTER TABLE context_patches ENABLE TRIGGER {guard}")
    done = await mnema("run", "consent", *(["--dry-run"] if dry else []), **operator)
    assert done.stdout.splitlines()[0].split(": ", 1)[1] == (
        "consent: expired 2 (dry run: nothing was changed)" if dry else "consent: expired 2"
    )
    states = {row["state"] for row in await sql(database, "SELECT state FROM context_patches")}
    assert states == ({"pending"} if dry else {"expired"})
