"""Sweeps with a clock that somebody set wrong: they delete nothing, and say why (`docs/contract.md`, Retention)."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.outages import ClockSkew
from app.domain.principal import Principal
from app.usecases.turn_memory.blobs import StoreBlobs
from tests.factories import Caller, Clock, draft
from tests.usecases.crowd import SeededEmbedder

SWEEPS: dict[str, Callable[[Application, Principal, bool], Awaitable[Any]]] = {
    "ttl": lambda app, who, dry: app.retention.forget.expire_memories(who, dry_run=dry),
    "purge": lambda app, who, dry: app.retention.forget.purge_memories(who, dry_run=dry),
    "retention": lambda app, who, dry: app.retention.forget.delete_old_records(who, dry_run=dry),
    "partitions": lambda app, who, dry: app.retention.partitions.keep_partitions(dry_run=dry),
    "consent": lambda app, who, dry: app.consent.expire_patches(who, dry_run=dry),
}


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model: only equal texts are near each other."""
    return SeededEmbedder()


@pytest.fixture
async def counted(app: Application, caller: Caller, sql: asyncpg.Connection) -> Callable[[], Awaitable[list[int]]]:
    """Store an active and a soft-deleted memory; return a function that counts what a sweep would delete."""
    await app.memory.write.write_memory(caller.scope, draft("Maya drinks oat milk."))
    gone = await app.memory.write.write_memory(caller.scope, draft("Maya keeps bees."))
    assert gone.id is not None
    await app.memory.edit.soft_delete_memory(caller.scope, gone.id)
    await app.parts.access.flush_pending()

    async def count() -> list[int]:
        of_tenant = "WHERE tenant_id = $1"
        return [
            await sql.fetchval(f"SELECT count(*) FROM {rows}", caller.scope.tenant_id)
            for rows in (
                f"memories {of_tenant} AND state = 'active'",
                f"memories {of_tenant}",
                f"events {of_tenant}",
                f"change_log {of_tenant}",
            )
        ]

    return count


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("whose", ["process", "database"])
async def test_a_sweep_deletes_nothing_while_one_clock_is_400_days_ahead(
    app: Application,
    caller: Caller,
    clock: Clock,
    counted: Callable[[], Awaitable[list[int]]],
    sweep: str,
    whose: str,
) -> None:
    stored = await counted()
    (clock.set_process_wrong if whose == "process" else clock.set_database_wrong)(days=400)
    for dry_run in (True, False):
        with pytest.raises(ClockSkew, match=r"345\d{5} s (ahead of|behind) this machine's") as refusal:
            await SWEEPS[sweep](app, caller.scope, dry_run)
        assert (refusal.value.code, refusal.value.status) == ("clock_skew", 503)
    assert await counted() == stored
    clock.set_process_wrong()
    clock.set_database_wrong()
    await SWEEPS[sweep](app, caller.scope, False)
    assert await counted() == stored


async def test_a_sweep_deletes_nothing_after_both_clocks_leapt(
    app: Application, caller: Caller, clock: Clock, counted: Callable[[], Awaitable[list[int]]]
) -> None:
    stored = await counted()
    clock.set_process_wrong(days=400)
    clock.set_database_wrong(days=400)
    with pytest.raises(ClockSkew, match="leapt"):
        await app.retention.forget.expire_memories(caller.scope)
    assert await counted() == stored


async def test_blobs_stay_while_the_clocks_differ(app: Application, caller: Caller, clock: Clock) -> None:
    blobs: StoreBlobs = app.turn_memory.blobs
    await blobs.store_blob(caller.scope, "maya", b"{}")
    clock.set_process_wrong(hours=2)
    with pytest.raises(ClockSkew):
        await blobs.sweep_blobs(caller.scope, dry_run=True)
    clock.set_process_wrong()
    assert (await blobs.sweep_blobs(caller.scope, dry_run=True)).orphans == 0
    clock.move(hours=2)
    assert (await blobs.sweep_blobs(caller.scope, dry_run=True)).orphans == 1
