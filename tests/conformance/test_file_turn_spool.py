"""The spool of turns: what it keeps survives, in bounds, in fair shares, and tells nobody else anything."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from app.domain.idempotency import IdempotencyKey
from app.domain.memory.kept_turn import KeptTurn
from app.domain.memory.memory import MemoryType, NewMemory, Origin
from app.domain.outages import SpoolUnavailable
from app.domain.principal import Principal
from app.providers.file_turn_spool import LEAST_BYTES, FileTurnSpool
from app.storage.chat.key_cipher import KeyCipher
from app.storage.identity import new_id

SECRET = KeyCipher(b"s" * 32).of_kept_turns
OTHER = KeyCipher(b"o" * 32).of_kept_turns
TENANT = UUID(int=1)


def turn(text: str = "I like tea.", tenant: UUID = TENANT) -> KeptTurn:
    """Return a turn of Maya."""
    said = NewMemory(
        user_id="maya",
        category="activity",
        text=text,
        type=MemoryType.turn,
        thread_id="trip",
        role="user",
        metadata={"model": "m"},
        created_at=datetime.now(UTC),
        origin=Origin.chat,
    )
    key = IdempotencyKey("POST /v1/chat/completions", "k", b"\x00\xff")
    return KeptTurn(new_id(), Principal(tenant, uuid4(), agent="planner"), said, key)


async def test_a_turn_comes_back_as_it_was_after_a_restart(tmp_path: Path) -> None:
    spool, kept = FileTurnSpool(tmp_path / "s" / "turns", 1 << 20, SECRET), turn("Ich mag Tee \ud83d \U0001f375")
    assert await spool.keep_turn(kept)
    await spool.close()
    again = FileTurnSpool(tmp_path / "s" / "turns", 1 << 20, SECRET)
    assert await again.list_tenants() == [TENANT]
    assert await again.claim_turn(TENANT) == kept
    assert await again.claim_turn(TENANT) is None, "a claimed turn is nobody else's"
    await again.postpone_turn(kept, 0)
    assert await again.claim_turn(TENANT) == kept
    await again.remove_turn(kept)
    assert await again.list_tenants() == []
    assert again.waiting_count == 0
    await again.close()


async def test_the_oldest_turn_comes_first(tmp_path: Path) -> None:
    spool, turns = (
        FileTurnSpool(tmp_path / "turns", 1 << 20, SECRET),
        [turn(f"Message {number}.") for number in range(3)],
    )
    for kept in turns:
        assert await spool.keep_turn(kept)
    assert [await spool.claim_turn(TENANT) for _ in turns] == turns
    await spool.close()


async def test_the_file_tells_nothing_without_the_secret(tmp_path: Path) -> None:
    file = tmp_path / "turns"
    spool = FileTurnSpool(file, 1 << 20, SECRET)
    await spool.keep_turn(turn("I like lapsang."))
    await spool.close()
    content = file.read_bytes()
    assert not any(word in content for word in (b"lapsang", b"maya", b"trip", b"planner"))
    assert file.stat().st_mode & 0o077 == 0
    wrong = FileTurnSpool(file, 1 << 20, OTHER)
    assert await wrong.claim_turn(TENANT) is None
    await wrong.close()


async def test_unreadable_turns_hold_up_no_readable_one(tmp_path: Path) -> None:
    lost = FileTurnSpool(tmp_path / "turns", 1 << 20, OTHER)
    for number in range(150):
        await lost.keep_turn(turn(f"Message {number}."))
    await lost.close()
    spool, kept = FileTurnSpool(tmp_path / "turns", 1 << 20, SECRET), turn()
    await spool.keep_turn(kept)
    assert await spool.claim_turn(TENANT) == kept
    assert await spool.claim_turn(TENANT) is None
    assert spool.waiting_count == 151
    await spool.close()


async def test_a_former_secret_still_opens_a_turn(tmp_path: Path) -> None:
    spool, kept = FileTurnSpool(tmp_path / "turns", 1 << 20, SECRET), turn()
    await spool.keep_turn(kept)
    await spool.close()
    changed = FileTurnSpool(tmp_path / "turns", 1 << 20, KeyCipher(b"o" * 32, former=b"s" * 32).of_kept_turns)
    assert await changed.claim_turn(TENANT) == kept
    await changed.close()


async def test_a_turn_of_another_tenant_cannot_be_passed_off(tmp_path: Path) -> None:
    file = tmp_path / "turns"
    spool = FileTurnSpool(file, 1 << 20, SECRET)
    await spool.keep_turn(turn())
    with sqlite3.connect(file) as database:
        database.execute("UPDATE turns SET tenant = ?", (str(UUID(int=2)),))
    database.close()
    assert await spool.claim_turn(UUID(int=2)) is None
    await spool.close()


async def test_a_busy_tenant_leaves_room_for_others(tmp_path: Path) -> None:
    spool, busy = FileTurnSpool(tmp_path / "turns", 20 * LEAST_BYTES, SECRET), 0
    while await spool.keep_turn(turn("Hi.")):
        busy += 1
    assert 8 <= busy <= 10, "half of the room"
    other = UUID(int=2)
    assert await spool.keep_turn(turn("Hi.", other))
    await spool.close()


@pytest.mark.parametrize("limit", [0, LEAST_BYTES - 1])
async def test_what_has_no_room_is_not_kept(tmp_path: Path, limit: int) -> None:
    spool = FileTurnSpool(tmp_path / "turns", limit, SECRET)
    assert not await spool.keep_turn(turn())
    await spool.close()


async def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    spool = FileTurnSpool(tmp_path / "file" / "turns", 1 << 20, SECRET)
    assert not await spool.keep_turn(turn())
    with pytest.raises(SpoolUnavailable):
        await spool.require_room()
    await spool.close()


async def test_a_nearly_full_spool_is_told(tmp_path: Path) -> None:
    spool = FileTurnSpool(tmp_path / "turns", 10 * LEAST_BYTES, SECRET)
    await spool.require_room()
    for tenant in range(10):
        await spool.keep_turn(turn(tenant=UUID(int=tenant)))
    with pytest.raises(SpoolUnavailable, match="wait for the database"):
        await spool.require_room()
    await spool.close()


async def test_a_broken_file_keeps_nothing_and_fails_nobody(tmp_path: Path) -> None:
    (tmp_path / "turns").write_bytes(b"no database" * 100)
    spool = FileTurnSpool(tmp_path / "turns", 1 << 20, SECRET)
    assert not await spool.keep_turn(turn())
    await spool.close()


async def test_a_clock_that_is_set_back_holds_no_turn_up(tmp_path: Path) -> None:
    spool, kept = FileTurnSpool(tmp_path / "turns", 1 << 20, SECRET), turn()
    await spool.keep_turn(kept)
    with sqlite3.connect(tmp_path / "turns") as database:
        database.execute("UPDATE turns SET due = julianday('now', '+1 year')")
    database.close()
    assert await spool.claim_turn(TENANT) == kept
    await spool.close()
