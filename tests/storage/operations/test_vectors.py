"""Vectors stored later: only for the text that was read, and never over an existing vector."""

import asyncio
from dataclasses import replace
from uuid import UUID

import asyncpg
import pytest

from app.domain.principal import Principal
from app.ports import Embedding
from app.storage.journal import Journal
from app.storage.operations.vectors import VectorStorage
from app.storage.uow import UnitOfWork
from tests.storage.building import SPACE, Gate, change, creation, slow, vector_of

HELD = f"SELECT embedding::text FROM vec_{SPACE} WHERE memory_id = $1"


@pytest.fixture
def vectors(uow: UnitOfWork) -> VectorStorage:
    """Return the vectors of the shipped embedding space."""
    return VectorStorage(uow, SPACE)


async def test_what_has_no_vector_is_found_in_pages_and_filled_once(
    vectors: VectorStorage, journal: Journal, superuser: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    bare = [replace(creation(a, f"Fact {n}."), vector=None) for n in range(5)]
    await journal.record(a, [*bare, creation(a, "Embedded.")])
    await journal.record(b, [replace(creation(b), vector=None)])
    first = await vectors.find_missing(a, None, 3, tokens=False)
    second = await vectors.find_missing(a, first[-1].id, 3, tokens=False)
    found = [*first, *second]
    assert [m.id for m in found] == [c.memory_id for c in bare]
    assert (found[0].text, found[0].version, found[0].type) == ("Fact 0.", 1, "semantic")
    made = [Embedding(vector_of(m.text)) for m in found]
    assert await vectors.fill_vectors(b, found, made) == 0
    assert await vectors.fill_vectors(a, found, made) == 5
    assert await vectors.fill_vectors(a, found, made) == 0
    assert await vectors.find_missing(a, None, 3, tokens=False) == []
    assert await vectors.find_missing_one(a, found[0].id, tokens=False) is None
    assert await superuser.fetchval(f"SELECT count(*) FROM vec_{SPACE} WHERE tenant_id = $1", b.tenant_id) == 0


async def test_a_vector_of_an_old_text_is_not_stored(
    vectors: VectorStorage, journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    created = replace(creation(a, "Old text."), vector=None)
    await journal.record(a, [created])
    read = await vectors.find_missing(a, None, 10, tokens=False)
    updated = change(a, created.memory_id, fields={"text": "New text."}, vector=vector_of("New text."))
    await journal.record(a, [updated])
    now = await superuser.fetchval(HELD, created.memory_id)
    assert await vectors.fill_vectors(a, read, [Embedding(vector_of("Old text."))]) == 0
    assert await superuser.fetchval(HELD, created.memory_id) == now


async def test_a_change_under_way_is_waited_for(
    vectors: VectorStorage, journal: Journal, superuser: asyncpg.Connection, gate: Gate, a: Principal
) -> None:
    created = replace(creation(a, "Old text."), vector=None)
    await journal.record(a, [created])
    read = await vectors.find_missing(a, None, 10, tokens=False)
    updated = change(slow(a), created.memory_id, fields={"text": "New text."}, vector=vector_of("New text."))
    changing = asyncio.create_task(journal.record(slow(a), [updated]))
    await gate.waiting(1)
    filling = asyncio.create_task(vectors.fill_vectors(a, read, [Embedding(vector_of("Old text."))]))
    await gate.waiting(2)
    await gate.open()
    await changing
    assert await filling == 0
    stored = await superuser.fetchval(HELD, created.memory_id)
    first = float(stored.strip("[]").split(",")[0])
    assert first == pytest.approx(float(vector_of("New text.")[0]), abs=1e-3)


async def test_a_forgotten_memory_gets_a_vector_that_is_not_searched(
    vectors: VectorStorage, journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    created = replace(creation(a), vector=None)
    await journal.record(a, [created])
    await journal.record(a, [change(a, created.memory_id, fields={"state": "soft_deleted"})])
    read = await vectors.find_missing(a, None, 10, tokens=False)
    assert await vectors.fill_vectors(a, read, [Embedding(vector_of("x"))]) == 1
    assert await superuser.fetchval(f"SELECT state FROM vec_{SPACE}") == "soft_deleted"


async def test_tokens_come_with_their_text_and_later_if_they_were_not_known(
    vectors: VectorStorage, journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    with_tokens, without = replace(creation(a, "Told."), tokens=b"told"), creation(a, "Untold.")
    await journal.record(a, [with_tokens, without])
    assert await vectors.find_missing(a, None, 10, tokens=False) == []
    [read] = await vectors.find_missing(a, None, 10, tokens=True)
    assert read == await vectors.find_missing_one(a, without.memory_id, tokens=True)
    assert read.id == without.memory_id
    assert await vectors.find_missing_one(a, with_tokens.memory_id, tokens=True) is None

    async def held(memory_id: UUID) -> bytes | None:
        found: bytes | None = await superuser.fetchval(
            f"SELECT tokens FROM vec_{SPACE} WHERE memory_id = $1", memory_id
        )
        return found

    assert (await held(with_tokens.memory_id), await held(without.memory_id)) == (b"told", None)
    assert await vectors.fill_vectors(a, [read], [Embedding(vector_of("Untold."), b"late")]) == 1
    assert await vectors.fill_vectors(a, [read], [Embedding(vector_of("Untold."), b"again")]) == 0
    assert await held(without.memory_id) == b"late"
    fields = {"text": "Told anew."}
    anew = change(a, with_tokens.memory_id, fields=fields, vector=vector_of("Told anew."), tokens=b"anew")
    await journal.record(a, [anew])
    assert await held(with_tokens.memory_id) == b"anew"
    # the new embedding has no tokens: those of the old text must go
    await journal.record(a, [change(a, with_tokens.memory_id, fields={"text": "x"}, vector=vector_of("x"))])
    assert await held(with_tokens.memory_id) is None
