"""The count of memories whose past is not read yet, as `mnema doctor` and `mnema status` tell it."""

import asyncio

import asyncpg
import pytest

from app.bootstrap import Application
from app.bootstrap.administration import check_past
from app.cli.status import describe_past
from app.config.settings import Settings
from tests.factories import Caller, draft


@pytest.mark.usefixtures("own")
async def test_memories_whose_past_is_not_read_are_told_until_it_is(
    app: Application, caller: Caller, sql: asyncpg.Connection, settings: Settings
) -> None:
    for text in ("Maya drinks green tea.", "Maya lives in Porto."):
        await app.memory.write.write_memory(caller.scope, draft(text))
    assert await check_past(app.parts.uow) == {"past": "ok"}
    assert await asyncio.to_thread(describe_past, settings) == "read"
    tenant = caller.scope.tenant_id
    await sql.execute("INSERT INTO history_fills (tenant_id, space) VALUES ($1, 'minilm_l6_v2')", tenant)
    for left in (2, 1):
        told = (await check_past(app.parts.uow))["past"]
        assert told.startswith(f"the past of {left} memories is not read yet; until `mnema run embed`")
        assert await asyncio.to_thread(describe_past, settings) == f"{left} memories left to read; run: mnema run embed"
        await sql.execute("SELECT fill_past_minilm_l6_v2($1, 1)", tenant)
    await sql.execute("SELECT fill_past_minilm_l6_v2($1, 1)", tenant)
    assert await check_past(app.parts.uow) == {"past": "ok"}
