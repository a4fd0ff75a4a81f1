"""A tenant whose memories change at random, and readers that know of them what headers told, and nothing else.

It restates what a header promises, from the readers' side and without the change log: applied one after the other,
headers lead from what a reader knew to what it may see. Moves over the border of a reader's categories are silent.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg

from app.bootstrap import Application
from app.config.tenant_policies import TenantPolicies
from app.domain.changes import ChangeKind, MemoryChange
from app.domain.consolidation.plan import AbsorbedMemory, Merge
from app.domain.filters import Filters
from app.domain.memory.memory import Memory, MemoryType
from app.domain.recall.delta_header import DeltaEntry, render_header
from app.storage.journal import Journal
from app.storage.recall.delta import DeltaStorage
from app.storage.rows import memory_from_json
from app.usecases.consolidation.apply_plan import merge_changes
from app.usecases.recall.delta import ReadDelta
from app.usecases.recall.request import Query
from tests.factories import Caller, Clock, draft, make_caller
from tests.storage.building import creation, journal_of

CATEGORIES = ("tasks", "goals", "preferences")
THREADS = ("a", "b", None)
USERS = ("maya", "ben")
SILENT = (MemoryType.turn, MemoryType.summary, MemoryType.chunk)
Content = tuple[str, str, int]


@dataclass
class Reader:
    """An agent that reads one thread, about one user or about all.

    `asks`: it queries, so a cursor stands for it; otherwise it gives back the last `rev`. `known` is what headers told.
    `entered` came into view silently: moved there, or `joined` because the thread told of it for the first time. `away`
    left it silently, at a revision that the reader may not have passed.
    """

    name: str
    caller: Caller
    thread: str
    agent: str
    user: str | None
    asks: bool
    categories: frozenset[str]
    rev: int = 0
    touched: bool = False
    known: dict[UUID, Content] = field(default_factory=dict)
    entered: dict[UUID, Content] = field(default_factory=dict)
    joined: set[UUID] = field(default_factory=set)
    away: dict[UUID, tuple[bool, Content, int]] = field(default_factory=dict)

    def may_see(self, memory: Memory, category: str | None = None) -> bool:
        """Return whether the reader may see the memory, in its category or in another one."""
        return (category or memory.category) in self.categories and self.user in (None, memory.user_id)


class Changes:
    """The changes of a tenant. Each tells the readers what happens in silence; headers must tell the rest."""

    def __init__(self, app: Application, sql: asyncpg.Connection, clock: Clock, caller: Caller) -> None:
        self.app, self.clock, self.caller = app, clock, caller
        self.journal: Journal = journal_of(app.parts.uow)
        self.readers: list[Reader] = []
        self.heirs: dict[UUID, UUID] = {}
        self.members: defaultdict[UUID, set[str]] = defaultdict(set)
        self.ids: list[UUID] = []
        self._sql = sql

    async def memories(self) -> dict[UUID, Memory]:
        """Return all memories of the tenant by id."""
        statement = "SELECT memory_json(m) AS row FROM memories m WHERE tenant_id = $1"
        rows = await self._sql.fetch(statement, self.caller.scope.tenant_id)
        return {memory.id: memory for memory in (memory_from_json(row["row"]) for row in rows)}

    async def newest_revision(self, thread: str) -> int:
        """Return the revision of a thread, hidden changes included."""
        statement = "SELECT rev FROM thread_revision WHERE tenant_id = $1 AND thread_id = $2"
        return await self._sql.fetchval(statement, self.caller.scope.tenant_id, thread) or 0

    async def pick(self, number: int, **fields: Any) -> Memory | None:
        """Return one of the memories that have these values, None if there is none."""
        found = await self.memories()
        fitting = [m for m in map(found.get, self.ids) if m and all(getattr(m, n) == v for n, v in fields.items())]
        return fitting[number % len(fitting)] if fitting else None

    async def create(self, number: int, user: str, category: str, thread: str | None, kind: MemoryType) -> None:
        text = f"Fact {len(self.ids)} of {user}, number {number}."
        new = draft(text, user_id=user, category=category, thread_id=thread, type=kind, importance=1 + number % 5)
        written = await self.app.memory.write.write_memory(self.caller.scope, new)
        assert (written.action, written.id is None) == ("created", False)
        await self._note_new(written.id, thread)

    async def rewrite(self, number: int, thread: str | None, *, same: bool) -> None:
        """Write a stored fact again, from any thread: with a new full stop, or exactly the same."""
        if (memory := await self.pick(number, type=MemoryType.semantic, state="active")) is None:
            return
        text = memory.text if same else memory.text[:-1] + ("!" if memory.text.endswith(".") else ".")
        kept = {"user_id": memory.user_id, "category": memory.category, "importance": memory.importance}
        written = await self.app.memory.write.write_memory(self.caller.scope, draft(text, thread_id=thread, **kept))
        assert written.id == memory.id
        if thread is not None and not (same and written.revision is None):
            self._note_joined(memory, thread)
        self._touch(memory)

    async def patch(self, number: int, **fields: Any) -> None:
        if (memory := await self.pick(number, state="active")) is None:
            return
        if "text" in fields:
            fields["text"] = f"{fields['text']} of {memory.user_id}, once number {number}, in {len(self.ids)}."
        after = await self.app.memory.edit.patch_memory(self.caller.scope, memory.id, fields, version=None)
        for thread in self.members[memory.id]:
            rev = await self.newest_revision(thread)
            for reader in self._readers_of(thread):
                self._note_move(reader, memory, after, rev)
        self._touch(after)

    def _note_move(self, reader: Reader, before: Memory, after: Memory, rev: int) -> None:
        seen = reader.may_see(before), reader.may_see(after)
        if seen == (True, False):
            known = before.id in reader.known
            left = (reader.known if known else reader.entered).pop(before.id, None)
            if left is not None:
                reader.away[before.id] = (known, left, rev)
        elif seen == (False, True):
            known, left, _ = reader.away.pop(before.id, (False, content_of(after), 0))
            if known:
                reader.known[before.id] = left
            else:
                reader.entered[before.id] = left if before.id in reader.joined else content_of(after)

    async def soft_delete(self, number: int) -> None:
        if memory := await self.pick(number):
            await self.app.memory.edit.soft_delete_memory(self.caller.scope, memory.id)
            self._touch(memory)

    async def restore(self, number: int) -> None:
        gone = await self.pick(number, state="soft_deleted") if number % 2 else None
        if memory := gone or await self.pick(number, state="superseded"):
            await self.app.memory.edit.restore_memory(self.caller.scope, memory.id)
            self.heirs.pop(memory.id, None)
            self._touch(memory)

    async def purge(self, number: int) -> None:
        if memory := await self.pick(number):
            await self.app.memory.edit.purge_memory(self.caller.scope, memory.id)
            self._touch(memory)

    async def purge_all(self) -> None:
        """Run the job that purges what nobody restored in time."""
        self.clock.move(days=31)
        await self.app.retention.forget.purge_memories(self.caller.scope)

    async def merge(self, number: int, count: int) -> None:
        """Merge facts of one user and category, as consolidation does."""
        if (survivor := await self.pick(number, type=MemoryType.semantic, state="active")) is None:
            return
        alike = {"type": MemoryType.semantic, "state": "active", "user_id": survivor.user_id}
        found = [await self.pick(number + step, **alike, category=survivor.category) for step in range(1, count + 1)]
        absorbed = {m.id: m for m in found if m is not None and m.id != survivor.id}
        if not absorbed:
            return
        all_of = [survivor, *absorbed.values()]
        joined = tuple(AbsorbedMemory(m, "same_words", 0.99) for m in absorbed.values())
        importance = max(m.importance for m in all_of)
        merge = Merge(survivor, joined, importance, survivor.pinned, survivor.tags, survivor.created_at)
        changes = merge_changes(self.caller.scope, merge, (), self.clock.now())
        await self.journal.record(self.caller.scope, changes)
        self.heirs |= dict.fromkeys(absorbed, survivor.id)
        for thread in set().union(*(self.members[m.id] for m in all_of)):
            self._note_joined(survivor, thread)
        self._touch(survivor)

    async def recreate(self, number: int, thread: str | None) -> None:
        """Replace a fact by a new memory, as the merge mode `recreate` does."""
        if (old := await self.pick(number, type=MemoryType.semantic, state="active")) is None:
            return
        scope, now = self.caller.scope, datetime.now(UTC)
        fields = {"user_id": old.user_id, "category": old.category, "importance": old.importance}
        made: MemoryChange = creation(scope, f"{old.text} Anew {number}.", thread_id=thread, created_at=now, **fields)
        threads = tuple(sorted({t for t in (thread, old.thread_id) if t is not None}))
        made = replace(made, kind=ChangeKind.recreated, threads=threads, old_ref=str(old.id), replaces=(old.id,))
        state = {"state": "superseded", "superseded_by": made.memory_id, "updated_at": now}
        gone = MemoryChange(ChangeKind.superseded, old.id, old.user_id, scope.actor_name, fields=state)
        await self.journal.record(scope, [gone, made])
        self.heirs[old.id] = made.memory_id
        self.members[made.memory_id] |= self.members[old.id]
        await self._note_new(made.memory_id, thread)

    async def _note_new(self, memory_id: UUID | None, thread: str | None) -> None:
        assert memory_id is not None
        self.ids.append(memory_id)
        self.members[memory_id] |= {thread} if thread is not None else set()
        self._touch((await self.memories())[memory_id])

    def _note_joined(self, before: Memory, thread: str) -> None:
        """Note that a thread tells of a memory for the first time; its readers knew it from elsewhere, if at all."""
        if thread not in self.members[before.id]:
            self.members[before.id].add(thread)
            for reader in self._readers_of(thread):
                if reader.may_see(before):
                    reader.entered[before.id] = content_of(before)
                    reader.joined.add(before.id)

    def _readers_of(self, thread: str) -> list[Reader]:
        return [reader for reader in self.readers if reader.thread == thread]

    def _touch(self, memory: Memory) -> None:
        for thread in self.members[memory.id]:
            for reader in self._readers_of(thread):
                reader.touched |= reader.may_see(memory)


def content_of(memory: Memory) -> Content:
    """Return what a bullet may show of a memory."""
    return memory.category, memory.text, memory.importance


class Readings:
    """The readings of headers, each checked against the memories as they are."""

    def __init__(self, app: Application, changes: Changes) -> None:
        self._app, self._changes = app, changes
        self._all = ReadDelta(
            app.parts.uow, DeltaStorage(), TenantPolicies(replace(app.parts.policies.defaults, delta_bullets=10_000))
        )

    async def read_header(self, reader: Reader, budget: int) -> None:
        """Let the reader read; fail if the header breaks a promise."""
        since = None if reader.asks else reader.rev
        where = reader.thread, since, reader.agent, reader.user
        delta = await self._all.read_delta(reader.caller.scope, *where)
        assert (delta.since_rev, delta.truncated) == (reader.rev, False)
        assert reader.touched or delta.rev == reader.rev or not reader.asks
        memories = await self._changes.memories()
        _check_truth(delta.entries, memories)
        names = self._app.parts.policies.of(reader.caller.scope).categories.tag_names
        header = render_header(delta.since_rev, delta.entries, 3, names)
        moved = not reader.asks
        if reader.asks:
            filters = Filters(user_id=reader.user)
            query = Query(reader.agent, "fact", filters=filters, thread_id=reader.thread, budget_tokens=budget)
            answer = await self._app.recall.query.answer_query(reader.caller.scope, query)
            lines = answer.header.splitlines()
            assert lines == (header.text.text.splitlines()[: len(lines)] if header else [])
            assert answer.delta is not None
            assert answer.delta["more"] + max(0, len(lines) - 1) == len(delta.entries)
            moved = bool(lines)
        if moved:
            self._apply(reader, delta.entries, memories)
            reader.away = {id_: left for id_, left in reader.away.items() if left[2] > delta.rev}
            reader.rev, reader.touched = delta.rev, False
            assert reader.known == self._visible(reader, memories)
        elif not delta.entries:
            visible = self._visible(reader, memories)
            assert reader.known | {id_: visible[id_] for id_ in reader.entered if id_ in visible} == visible

    def _visible(self, reader: Reader, memories: dict[UUID, Memory]) -> dict[UUID, Content]:
        return {
            m.id: content_of(m)
            for m in memories.values()
            if m.state == "active" and m.type not in SILENT and reader.may_see(m)
            if reader.thread in self._changes.members[m.id]
        }

    def _heir_of(self, memory_id: UUID, memories: dict[UUID, Memory]) -> UUID | None:
        """Return the active memory that stands for a superseded one, also if that one was deleted since."""
        heir: UUID | None = memory_id
        while heir is not None and (heir not in memories or memories[heir].state != "active"):
            heir = self._changes.heirs.get(heir)
        return heir

    def _present_heir_of(self, memory_id: UUID, memories: dict[UUID, Memory]) -> UUID | None:
        """Return the same, but None if a memory between the two was purged: nothing leads past it any more."""
        heir = self._changes.heirs.get(memory_id)
        while heir in memories and memories[heir].state != "active":
            heir = self._changes.heirs.get(heir)
        return heir if heir in memories else None

    def _apply(self, reader: Reader, entries: Sequence[DeltaEntry], memories: dict[UUID, Memory]) -> None:
        told = {entry.memory_id: entry for entry in entries if entry.memory_id is not None}
        assert len(told) == len(entries), "one bullet a memory"
        visible = self._visible(reader, memories)
        for memory_id, entry in told.items():
            assert reader.user in (None, memories[memory_id].user_id if memory_id in memories else reader.user)
            if entry.kind in ("deleted", "soft_deleted"):
                known = reader.known.pop(memory_id, None) or reader.entered.get(memory_id)
                assert known is not None, "a reader could see it: it was told, or came into view without a bullet"
                assert entry.text in ("", known[1]), "no text is news of a memory that is gone"
                assert self._present_heir_of(memory_id, memories) not in visible, "its heir tells it"
            else:
                now = entry.category, entry.text, entry.importance
                assert entry.kind == "merged" or reader.known.get(memory_id) != now, "a change"
                assert entry.kind not in ("created", "restored") or memory_id not in reader.known
                assert entry.category in reader.categories
                reader.known[memory_id] = now
        for memory_id, before in reader.entered.items():
            if memory_id not in told and memory_id in visible:
                assert content_of(memories[memory_id]) == before, "a change in view is told"
                reader.known[memory_id] = before
        reader.entered.clear()
        reader.joined.clear()
        for memory_id in reader.known.keys() - visible.keys():
            assert self._heir_of(memory_id, memories) in told, "a memory that is gone without a word"
            del reader.known[memory_id]


def _check_truth(entries: Sequence[DeltaEntry], memories: dict[UUID, Memory]) -> None:
    for entry in entries:
        memory = memories.get(entry.memory_id) if entry.memory_id else None
        if entry.kind == "deleted":
            assert (memory, entry.text) == (None, "")
            continue
        assert memory is not None
        assert memory.type not in SILENT
        assert (memory.state == "active") == (entry.kind != "soft_deleted")
        if entry.kind != "soft_deleted":
            assert (entry.category, entry.text, entry.importance) == content_of(memory)
        if entry.kind == "merged":
            merged = sum(other.superseded_by == memory.id for other in memories.values())
            assert merged or len(memories) < 500, "it stands for others"
            assert entry.combined is not None
            assert entry.combined > 1


async def make_readers(app: Application, caller: Caller) -> list[Reader]:
    """Return readers of both threads, some about one user, each with a key of its own."""
    readers = []
    for thread, agent, user, asks in (
        ("a", "planner", None, True),
        ("a", "planner", "maya", True),
        ("a", "supervisor", "ben", True),
        ("a", "stylist", None, False),
        ("b", "supervisor", None, True),
        ("b", "executor", "maya", True),
    ):
        bound = [agent] if thread == "b" else None
        key = await make_caller(app, ["query"], bound, tenant=caller)
        sees = app.parts.policies.defaults.categories.visible_to([agent])
        readers.append(Reader(f"{agent} of {thread} about {user}", key, thread, agent, user, asks, sees))
    return readers
