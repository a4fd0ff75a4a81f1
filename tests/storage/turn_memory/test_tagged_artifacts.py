"""The function that finds artifacts by tag: it uses the index of tags, and returns one user's rows alone."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import ArtifactChange, ArtifactKind, Conversation
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.storage.uow import UnitOfWork
from tests.storage.building import bind

MADE = datetime(2026, 1, 26, 15, 3, tzinfo=UTC)
SINCE = MADE - timedelta(days=1)
CALL = "SELECT id FROM tagged_artifacts($1, $2, $3, $4)"


async def store_tagged(
    uow: UnitOfWork, scope: Principal, tag: str, user: str = "maya", conversation: str = "trip", **made: float
) -> UUID:
    """Store a reaction with this tag, made some time after MADE."""
    at = MADE + timedelta(**made)
    place = f"user:{tag} {at.isoformat()}"
    change = ArtifactChange(ArtifactKind.reaction, place, "{}", at, "t1", tags=[tag])
    [stored] = await ArtifactStorage(uow).put_artifacts(scope, Conversation(user, conversation), [change])
    return stored.id


async def find_tagged(
    uow: UnitOfWork, scope: Principal, tag: str, user: str = "maya", since: datetime = SINCE, limit: int = 10
) -> list[UUID]:
    async with uow.read(scope) as tx:
        return [row["id"] for row in await tx.fetch(CALL, user, tag, since, limit)]


async def test_the_newest_of_one_user_in_all_conversations(uow: UnitOfWork, a: Principal) -> None:
    old, new = await store_tagged(uow, a, "x"), await store_tagged(uow, a, "x", conversation="home", hours=1)
    await store_tagged(uow, a, "x", user="ben")
    await store_tagged(uow, a, "y")
    assert await find_tagged(uow, a, "x") == [new, old]
    assert await find_tagged(uow, a, "x", limit=1) == [new]
    assert await find_tagged(uow, a, "x", since=MADE + timedelta(minutes=1)) == [new]
    assert await find_tagged(uow, a, "X") == await find_tagged(uow, a, "") == await find_tagged(uow, a, "nothing") == []


async def test_no_tag_and_no_name_opens_what_is_anothers(
    uow: UnitOfWork, raw: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    ours = await store_tagged(uow, a, "x")
    await store_tagged(uow, b, "x")
    await store_tagged(uow, a, "x", user="ben")
    await store_tagged(uow, b, f"_t{a.tenant_id}")
    await store_tagged(uow, b, "_umaya", user="ben")
    await store_tagged(uow, a, "_umaya", user="ben")
    assert await find_tagged(uow, a, "x") == [ours]
    for tag in (f"_t{b.tenant_id}", "_uben", "_umaya", f"_t{a.tenant_id}"):
        assert set(await find_tagged(uow, a, tag)) <= {ours}
    for user in ("", "%", "MAYA", "maya\\", "_umaya"):
        assert await find_tagged(uow, a, "x", user) == []
    assert await raw.fetch(CALL, "maya", "x", SINCE, 10) == [], "without a tenant"


@pytest.mark.long
async def test_the_index_of_tags_serves_it(
    uow: UnitOfWork, raw: asyncpg.Connection, superuser: asyncpg.Connection, a: Principal
) -> None:
    await store_tagged(uow, a, "other")
    await superuser.execute(
        "INSERT INTO conv_messages (tenant_id, id, user_id, conversation_id, turn_id, kind, place, text, tags, made_at)"
        " SELECT $1, gen_random_uuid(), 'maya', 'c' || n % 1000, 't', 'artifact:turn.log.reaction', n::text, '{}',"
        " ARRAY['kind', 'tag' || n], $2 FROM generate_series(1, 40000) n",
        a.tenant_id,
        MADE,
    )
    await superuser.execute("ANALYZE conv_messages")
    before = await count_scans(superuser)
    async with raw.transaction():
        await bind(raw, a.tenant_id)
        assert len(await raw.fetch(CALL, "maya", "tag17", SINCE, 10)) == 1
        await raw.execute("SELECT pg_stat_force_next_flush()")
    after = await count_scans(superuser)
    used = {name for name in after if after[name] > before[name]}
    assert "conv_messages_tags" in used
    assert "the table" not in used


async def count_scans(superuser: asyncpg.Connection) -> dict[str, int]:
    """Return the scans of each index of conv_messages, and of the whole table."""
    await superuser.execute("SELECT pg_stat_clear_snapshot()")
    rows = await superuser.fetch(
        "SELECT indexrelname AS name, idx_scan AS scans FROM pg_stat_user_indexes WHERE relname = 'conv_messages'"
        " UNION ALL SELECT 'the table', seq_scan FROM pg_stat_user_tables WHERE relname = 'conv_messages'"
    )
    return {row["name"]: row["scans"] for row in rows}
