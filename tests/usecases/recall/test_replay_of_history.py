"""Whatever happens to memories, every reader answers about a time as the store was then (`docs/time.md`)."""

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from app.bootstrap import Application
from app.domain.changes import ChangeKind, MemoryChange
from app.domain.errors import MnemaError, NotFound
from app.domain.filters import Filters
from app.domain.memory.listing import MemoryListing
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.memory.moments import Moments
from app.domain.memory.transitions import expiring_fields, retracting_fields, superseding_fields
from app.domain.principal import Principal
from app.domain.recall.candidates import Candidate
from app.ports import Embedder
from app.storage.recall.search import Search, SearchStorage
from app.usecases.recall.request import Query
from tests.effort import DEEP, tries
from tests.factories import Clock, KeepOpen, make_caller
from tests.storage.building import HashedEmbedder, vector_of
from tests.usecases.header_readers import CATEGORIES, THREADS, USERS, Changes

Step = tuple[str, int, dict[str, Any]]
NUMBERS = st.integers(0, 40)
DAYS = st.sampled_from([None, *(datetime(2026, month, 1, tzinfo=UTC) for month in (1, 3, 5, 7, 9))])
"""Ends of spans, and the times that a question asks about."""


def step(name: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    """Return the strategy of one change: its name, a number that picks its memory, and its arguments."""
    return st.tuples(st.just(name), NUMBERS, st.fixed_dictionaries(fields))


KINDS = st.sampled_from([*[MemoryType.semantic] * 5, MemoryType.episodic, MemoryType.turn])
CREATE = step(
    "create",
    user=st.sampled_from(USERS),
    category=st.sampled_from(CATEGORIES),
    thread=st.sampled_from(THREADS),
    kind=KINDS,
)
STEPS = st.one_of(
    *[CREATE] * 3,
    step("rewrite", thread=st.sampled_from(THREADS), same=st.booleans()),
    *[step("patch", text=st.sampled_from(["Tea", "Rain"]))] * 3,
    step("patch", category=st.sampled_from(CATEGORIES)),
    step("patch", category=st.sampled_from(CATEGORIES), text=st.just("Both")),
    step("patch", importance=st.integers(1, 5)),
    *[step("soft_delete")] * 2,
    *[step("restore")] * 2,
    step("purge"),
    step("merge", count=st.integers(1, 3)),
    step("recreate", thread=st.sampled_from(THREADS)),
    *[step("span", first=DAYS, last=DAYS)] * 2,
    step("end", at=DAYS),
    *[step("succeed", other=NUMBERS)] * 2,
    step("retract"),
    step("overdue", days=st.sampled_from([-1, 1])),
    step("expire"),
    step("erase", user=st.sampled_from(USERS)),
)
SEQUENCES = st.tuples(st.lists(CREATE, min_size=3, max_size=5), st.lists(STEPS, min_size=8, max_size=30))


class TimedChanges(Changes):
    """The changes of a tenant, also those of spans and states."""

    async def span(self, number: int, first: datetime | None, last: datetime | None) -> None:
        """Set both ends of a memory's span."""
        if first is not None and last is not None and first >= last:
            first, last = last, None
        await self._change(number, ChangeKind.updated, {"valid_from": first, "valid_to": last})

    async def end(self, number: int, at: datetime | None) -> None:
        """Supersede a memory without naming a successor."""
        if memory := await self.pick(number, state="active"):
            ends = at or self.clock.now()
            span = {"valid_from": memory.valid_from, "valid_to": memory.valid_to}
            fields = superseding_fields(self.clock.now(), successor=None, ends_at=ends, **span)
            await self._record(memory, ChangeKind.ended, fields)

    async def succeed(self, number: int, other: int) -> None:
        """Supersede a memory by another one of its user, which begins where it ends."""
        memory = await self.pick(number, state="active")
        heir = await self.pick(other, state="active")
        if memory is None or heir is None or memory.user_id != heir.user_id:
            return
        old = await self.app.memory.edit.supersede_memory(self.caller.scope, memory.id, by=heir.id)
        after = (await self.memories())[heir.id]
        if heir.valid_from is None and heir.valid_to is None:
            assert after.valid_from == old.valid_to or memory.valid_to is not None

    async def retract(self, number: int) -> None:
        await self._change(number, ChangeKind.retracted, retracting_fields(self.clock.now()))

    async def overdue(self, number: int, days: int) -> None:
        """Let a memory expire, yesterday or tomorrow."""
        at = datetime.now(UTC) + timedelta(days=days)
        await self._change(number, ChangeKind.updated, {"expires_at": at})

    async def expire(self, number: int) -> None:
        await self._change(number, ChangeKind.expired, expiring_fields(self.clock.now()))

    async def erase(self, number: int, user: str) -> None:
        if number < 10:  # rarely
            await self.app.retention.erase.erase_user(self.caller.scope, user)

    async def _change(self, number: int, kind: ChangeKind, fields: dict[str, Any]) -> None:
        if memory := await self.pick(number, state="active"):
            await self._record(memory, kind, fields)

    async def _record(self, memory: Memory, kind: ChangeKind, fields: dict[str, Any]) -> None:
        actor = self.caller.scope.actor_name
        await self.journal.record(
            self.caller.scope, [MemoryChange(kind, memory.id, memory.user_id, actor, fields=fields)]
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All memories of the tenant behind a change, and the time of the database's clock."""

    at: datetime
    memories: dict[UUID, Memory]

    def answering(self, user: str, valid_at: datetime | None, present: dict[UUID, Memory]) -> dict[UUID, str]:
        """Return the texts of a user's memories that answer a question about this time and are not gone since."""
        return {
            id_: memory.text
            for id_, memory in self.memories.items()
            if memory.user_id == user and id_ in present and self._answers(memory, valid_at)
        }

    def _answers(self, memory: Memory, valid_at: datetime | None) -> bool:
        if memory.expires_at is not None and memory.expires_at <= self.at:
            return False
        if valid_at is None:
            return memory.state is MemoryState.active
        begun = memory.valid_from is None or memory.valid_from <= valid_at
        lasts = memory.valid_to is None or memory.valid_to > valid_at
        return memory.state in (MemoryState.active, MemoryState.superseded) and begun and lasts


class Readers:
    """The readers of one application, each asked about a time."""

    def __init__(self, app: Application, principal: Principal) -> None:
        self._app = app
        self._principal = principal

    async def check_time(
        self, then: Snapshot, valid_at: datetime | None, present: dict[UUID, Memory], *, now: bool
    ) -> None:
        """Compare what each reader answers about a time with the snapshot. `now`: leave `as_of` away."""
        moments = Moments(None if now else then.at, valid_at)
        for user in USERS:
            expected = then.answering(user, valid_at, present)
            assert await self._list_texts(user, moments, self._principal) == expected
            if not moments.is_now:
                important = {id_ for id_ in expected if then.memories[id_].importance >= 3}
                assert await self._query_texts(Filters(user_id=user), moments) == expected
                found = await self._query_texts(Filters(user_id=user, importance_min=3), moments)
                assert found == {id_: expected[id_] for id_ in important}
                assert await self._export_texts(user, moments, then.at) == expected
                await self._check_nearest(user, moments, expected)
                worded = {id_ for id_, text in expected.items() if "tea" in text.lower()}
                assert {c.id for c in await self._find(user, moments, lexical=50)} == worded
            goals = {i: t for i, t in expected.items() if {then.memories[i].category, present[i].category} == {"goals"}}
            assert await self._list_texts(user, moments, self._principal.bound_to("planner", ["goals"])) == goals
        for id_, memory in then.memories.items():
            if not now and valid_at is None and id_ in present:
                assert await self._app.memory.read.get_memory(self._principal, id_, moments) == memory
            elif id_ not in present:
                with pytest.raises(NotFound):
                    await self._app.memory.read.get_memory(self._principal, id_, moments)

    async def _check_nearest(self, user: str, moments: Moments, expected: dict[UUID, str]) -> None:
        """Compare the best half by vector with the nearest texts: a full search would hide a missing one."""
        wanted = len(expected) // 2
        far = sorted(float(vector_of(text) @ vector_of("Tea")) for text in expected.values())
        found = [expected[c.id] for c in await self._find(user, moments, dense=wanted)]
        near = sorted(float(vector_of(text) @ vector_of("Tea")) for text in found)
        assert near == pytest.approx(far[len(far) - wanted :], abs=1e-2)

    async def _find(self, user: str, moments: Moments, *, dense: int = 0, lexical: int = 0) -> list[Candidate]:
        limits: dict[str, Any] = {"dense": dense, "lexical": lexical, "moments": moments, "today": CATEGORIES}
        search = Search(Filters(user_id=user), CATEGORIES, "Tea", vector_of("Tea"), **limits)
        async with self._app.parts.uow.read(self._principal) as tx:
            return await SearchStorage("minilm_l6_v2").find_candidates(tx, self._principal, search)

    async def _list_texts(self, user: str, moments: Moments, principal: Principal) -> dict[UUID, str]:
        """Read all pages of a list, the later ones by the cursor alone."""
        texts: dict[UUID, str] = {}
        listing, cursor = MemoryListing(Filters(user_id=user), moments=moments), None
        while True:
            page = await self._app.memory.read.list_memories(principal, listing, cursor, 3)
            texts |= {memory.id: memory.text for memory in page.items}
            if (cursor := page.next_cursor) is None:
                return texts
            listing = MemoryListing(Filters(user_id=user))

    async def _query_texts(self, filters: Filters, moments: Moments) -> dict[UUID, str]:
        limits: dict[str, Any] = {"top_k": 50, "budget_tokens": 8192, "min_relevance": 0.0}
        query = Query(agent="supervisor", query="Fact", filters=filters, moments=moments, **limits)
        items = (await self._app.recall.query.answer_query(self._principal, query)).items
        assert all(item.ranked is None or not item.ranked.also for item in items)
        return {item.memory.id: item.memory.text for item in items}

    async def _export_texts(self, user: str, moments: Moments, at: datetime) -> dict[UUID, str]:
        try:
            records = await self._app.retention.export.export_records(self._principal, user, moments)
        except NotFound:  # nothing is stored for the user by now
            return {}
        memories = [record async for record in records if record["kind"] == "memory"]
        every_state = moments.valid_at is None
        return {
            m["id"]: m["text"]
            for m in memories
            if not every_state or (m["state"] == "active" and (m["expires_at"] is None or m["expires_at"] > at))
        }


@pytest.fixture
def embedder() -> Embedder:
    """Return an embedder without a model: equal texts are alike, no others."""
    return KeepOpen(HashedEmbedder())


async def replay(
    app: Application, sql: asyncpg.Connection, clock: Clock, steps: list[Step], asked: list[tuple[int, Any]]
) -> None:
    """Make the changes, then ask about the times behind some of them, and about today."""
    caller = await make_caller(app)
    changes = TimedChanges(app, sql, clock, caller)
    snapshots = [Snapshot(await sql.fetchval("SELECT clock_timestamp()"), {})]
    for name, number, arguments in steps:
        with contextlib.suppress(MnemaError):  # such as a restored text that exists again: nothing changes
            await getattr(changes, name)(number, **arguments)
        memories = await changes.memories()
        snapshots.append(Snapshot(await sql.fetchval("SELECT clock_timestamp()"), memories))
    present = await changes.memories()
    readers = Readers(app, caller.scope)
    for number, valid_at in asked:
        await readers.check_time(snapshots[number % len(snapshots)], valid_at, present, now=False)
        await readers.check_time(snapshots[-1], valid_at, present, now=valid_at is not None)


@pytest.mark.long
@settings(max_examples=tries(60), derandomize=not DEEP, deadline=None, suppress_health_check=list(HealthCheck))
@given(SEQUENCES, st.lists(st.tuples(NUMBERS, DAYS), min_size=2, max_size=4))
async def test_every_reader_answers_about_a_time_as_the_store_was_then(
    app: Application,
    sql: asyncpg.Connection,
    clock: Clock,
    steps: tuple[list[Step], list[Step]],
    asked: list[tuple[int, Any]],
) -> None:
    note("\n".join(map(repr, [*steps[0], *steps[1]])))
    await replay(app, sql, clock, [*steps[0], *steps[1]], asked)


async def test_a_short_life_of_memories_is_replayed(app: Application, sql: asyncpg.Connection, clock: Clock) -> None:
    new = {"category": "goals", "thread": None, "kind": MemoryType.semantic}
    await replay(
        app,
        sql,
        clock,
        [
            ("create", 0, {**new, "user": "maya"}),
            ("create", 2, {**new, "user": "maya", "category": "tasks"}),
            ("create", 1, {**new, "user": "ben"}),
            ("span", 1, {"first": datetime(2026, 3, 1, tzinfo=UTC), "last": None}),
            ("patch", 0, {"text": "Tea"}),
            ("end", 1, {"at": datetime(2026, 7, 1, tzinfo=UTC)}),
            ("patch", 0, {"category": "tasks"}),
            ("retract", 0, {}),
            ("restore", 0, {}),
            ("purge", 1, {}),
        ],
        [(5, None), (7, datetime(2026, 5, 1, tzinfo=UTC)), (3, datetime(2026, 1, 1, tzinfo=UTC))],
    )
