"""The data of `mnema bench console`: the memories of many users, in a throw-away installation."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import Final

import asyncpg

from app.bootstrap import Application
from app.bootstrap.database import open_database
from app.bootstrap.tenancy import open_tenants
from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.memory.listing import MemoryListing
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.principal import Principal
from app.storage.identity import new_id
from app.storage.journal import Journal
from app.storage.operations.spaces import active_space
from bench import workload
from bench.throwaway import CHUNK, DAYS, Site

THREADS: Final = 5
TURN_EVERY: Final = 4
DELETED: Final = 50
TURN_CATEGORY: Final = "activity"


def load_tenant(site: Site, memories: int, users: int) -> str:
    """Store the memories, a quarter of them turns, and delete a few; return an administrator's key."""
    return asyncio.run(_load_rows(site, memories, users))


def user_name(number: int, users: int) -> str:
    """Return the user of the memory with this number; users take turns."""
    return f"user-{number % users:05}"


async def _load_rows(site: Site, memories: int, users: int) -> str:
    settings = site.home.server_settings(site.cluster)
    async with site.open_application() as (app, principal), open_database(settings) as uow:
        journal = Journal(uow, (await active_space(uow)).name, settings.erasure_secret())
        for start in range(0, memories, CHUNK):
            numbers = range(start, min(start + CHUNK, memories))
            await journal.record(principal, [await _build_change(app, number, memories, users) for number in numbers])
        await _delete_newest(app, principal)
    async with open_tenants(settings) as tenants:
        tenant = await tenants.find_tenant("bench")
        key = (await tenants.create_key(tenant.id, "console", ["admin"]))[1]
    connection = await asyncpg.connect(site.superuser_url)
    try:
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
    return key


async def _delete_newest(app: Application, principal: Principal) -> None:
    newest = await app.memory.read.list_memories(principal, MemoryListing(), None, DELETED)
    for memory in newest.items:
        await app.memory.edit.soft_delete_memory(principal, memory.id)


async def _build_change(app: Application, number: int, memories: int, users: int) -> MemoryChange:
    """Return the change that stores the memory with this number."""
    note = workload.make_note(number)
    memory_id = new_id()
    chance = random.Random(f"thread {number}")
    is_turn = number % TURN_EVERY == 0
    new = NewMemory(
        user_id=user_name(number, users),
        category=TURN_CATEGORY if is_turn else note.category,
        text=note.text,
        type=MemoryType.turn if is_turn else MemoryType.semantic,
        role="user" if is_turn else None,
        thread_id=f"{user_name(number, users)}/{chance.randrange(THREADS)}",
        agent_id=None if is_turn else workload.AGENT,
        importance=1 + number % 5,
        created_at=datetime.now(UTC) - timedelta(days=DAYS * (1 - number / memories)),
    )
    [embedding] = await app.parts.embedder.encode_texts([new.text])
    return MemoryChange(
        kind=ChangeKind.created,
        memory_id=memory_id,
        user_id=new.user_id,
        actor=workload.AGENT,
        new=new,
        vector=embedding.vector,
        tokens=embedding.tokens,
        threads=(new.thread_id,) if new.thread_id else (),
        delta_meta={"text": new.text, "importance": new.importance},
        observations=(Observation("hotpath", "create", "ok", new.user_id, new.thread_id, memory_id, new.category),),
    )
