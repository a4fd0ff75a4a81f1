"""The data of `mnema bench chat`: the memories and facts of one user, in a throw-away installation."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

import asyncpg

from app.bootstrap.database import open_database
from app.domain.changes import ChangeKind, MemoryChange
from app.domain.facts.fact import FactOperation, FactStatement
from app.domain.memory.memory import MemoryType, NewMemory
from app.ports import Embedder
from app.storage.identity import new_id
from app.storage.journal import Journal
from app.storage.operations.spaces import active_space
from bench import chat_workload
from bench.chat_workload import AGENT, CONVERSATION, FAVORITE_COLORS, FAVORITE_TOPIC, USER, message_text
from bench.throwaway import CHUNK, DAYS, Site


def load_conversation(site: Site, rows: int) -> None:
    """Load `rows` memories, half of them turns of the conversation and half notes without a thread, and some facts."""
    asyncio.run(_load_rows(site, rows))


async def _load_rows(site: Site, rows: int) -> None:
    settings = site.home.server_settings(site.cluster)
    async with site.open_application() as (app, scope), open_database(settings) as uow:
        journal = Journal(uow, (await active_space(uow)).name, settings.erasure_secret())
        facts = [_favorites(app.parts.policies.defaults.facts.category)]
        for start in range(0, rows, CHUNK):
            numbers = range(start, min(start + CHUNK, rows))
            changes = [await _build_change(app.parts.embedder, number, rows) for number in numbers]
            await journal.record(scope, changes, facts=facts if start == 0 else [])
    connection = await asyncpg.connect(site.superuser_url)
    try:
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


async def _build_change(embedder: Embedder, number: int, rows: int) -> MemoryChange:
    """Return the change that stores the memory with this number: a turn if it is even, else a note."""
    created_at = datetime.now(UTC) - timedelta(days=1 + DAYS * (1 - number / rows))
    new = _make_turn(number, created_at) if number % 2 == 0 else _make_note(number, created_at)
    [embedding] = await embedder.encode_texts([new.text])
    return MemoryChange(
        kind=ChangeKind.created,
        memory_id=new_id(),
        user_id=USER,
        actor=AGENT,
        new=new,
        vector=embedding.vector,
        tokens=embedding.tokens,
        threads=(new.thread_id,) if new.thread_id else (),
        delta_meta={"text": new.text, "importance": new.importance},
    )


def _make_turn(number: int, created_at: datetime) -> NewMemory:
    return NewMemory(
        user_id=USER,
        category=chat_workload.TURN_CATEGORY,
        text=message_text(-1 - number),
        type=MemoryType.turn,
        thread_id=CONVERSATION,
        role=("user", "assistant")[number // 2 % 2],
        created_at=created_at,
    )


def _make_note(number: int, created_at: datetime) -> NewMemory:
    category = random.Random(f"category {number}").choice(chat_workload.NOTE_CATEGORIES)
    return NewMemory(
        user_id=USER,
        category=category,
        text=message_text(-1 - number),
        agent_id=AGENT,
        importance=1 + number % 5,
        created_at=created_at,
    )


def _favorites(category: str) -> FactStatement:
    entries = tuple(enumerate(FAVORITE_COLORS, 1))
    return FactStatement(
        user_id=USER,
        thread_id=CONVERSATION,
        category=category,
        operations=(FactOperation("list", FAVORITE_TOPIC, entries),),
        stated_at=datetime.now(UTC),
    )
