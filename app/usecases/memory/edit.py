"""All changes to one memory: patch, pin, delete, restore and purge. Each is one journaled change."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.changes import ChangeKind, MemoryChange
from app.domain.errors import (
    DuplicateText,
    FactMemory,
    InvalidInput,
    InvalidSpan,
    NotFound,
    VersionConflict,
    WrongState,
)
from app.domain.idempotency import OptionalKey
from app.domain.languages import detect_language
from app.domain.memory.instructions import remark_instruction
from app.domain.memory.memory import Memory, MemoryState, MemoryType, check_span
from app.domain.memory.presentation import embedded_text
from app.domain.memory.procedures import check_steps
from app.domain.memory.transitions import Transition, deleting_fields, is_overdue, require_source, restoring_fields
from app.domain.outages import EmbedderUnavailable, WriteContention
from app.domain.principal import Principal
from app.domain.text_rules import check_text
from app.ports import Clock, Embedder, Embedding
from app.storage.journal import Journal
from app.storage.memory.memories import ComparedMemory, MemoryStorage
from app.storage.uow import UnitOfWork
from app.usecases.memory.closing import CloseSpans, as_successor, stated_at
from app.usecases.memory.edit_records import cutting_jobs, edit_event, edit_key_records
from app.usecases.memory.relations import edges_to, threads_of
from app.usecases.memory.state_changes import (
    begun,
    ending_change,
    retracting_change,
    span_change,
    state_change,
    told_as_ended,
)

T = TypeVar("T")
_TOO_LATE = (NotFound, WrongState, VersionConflict, DuplicateText)


class EditMemories:
    """The use-cases that change one memory. All raise NotFound for an id that this key cannot see.

    With a `key` that was used before, a method changes nothing and returns the memory as it is now. It raises
    IdempotencyMismatch if the key was used for another request.
    """

    def __init__(
        self,
        uow: UnitOfWork,
        memories: MemoryStorage,
        journal: Journal,
        embedder: Embedder,
        policies: TenantPolicies,
        clock: Clock,
        closing: CloseSpans,
    ) -> None:
        self._uow = uow
        self._memories = memories
        self._journal = journal
        self._embedder = embedder
        self._policies = policies
        self._defaults = policies.defaults
        self._clock = clock
        self._closing = closing

    async def patch_memory(
        self,
        principal: Principal,
        memory_id: UUID,
        fields: Mapping[str, Any],
        *,
        version: int | None,
        trim: bool = False,
        key: OptionalKey = None,
    ) -> Memory:
        """Set the named fields; record nothing if no value changes. `version` None accepts any version.

        Raise VersionConflict if `version` is not current, WrongState if the memory is not active, DuplicateText if
        another active memory has the same text, and the errors of the text rules.
        """

        async def apply_patch() -> Memory:
            before = await self._load_memory(principal, memory_id)
            if before.state is not MemoryState.active:
                raise WrongState(f"the memory is {before.state.in_words}")
            checked = self._check_fields(principal, before, fields, trim)
            changed = {name: value for name, value in checked.items() if value != getattr(before, name)}
            if changed.keys() & {"valid_from", "valid_to"}:
                # both, so that two edits at one moment never leave a span that ends before it begins
                changed |= {name: checked.get(name, getattr(before, name)) for name in ("valid_from", "valid_to")}
                check_span(changed["valid_from"], changed["valid_to"])
            if not changed and version in (None, before.version):
                return await self._record_unchanged(principal, before, key)
            return await self._update_memory(principal, before, changed, version, key)

        return await self._run_once(principal, memory_id, key, apply_patch)

    async def pin_memory(self, principal: Principal, memory_id: UUID, pinned: bool, key: OptionalKey = None) -> Memory:
        """Pin the memory, or unpin it if `pinned` is False. A pinned memory is never forgotten or evicted."""
        return await self.patch_memory(principal, memory_id, {"pinned": pinned}, version=None, key=key)

    async def soft_delete_memory(
        self, principal: Principal, memory_id: UUID, key: OptionalKey = None, *, version: int | None = None
    ) -> Memory:
        """Remove the memory from every answer; it can be restored until `purge_at`. Idempotent.

        Raise VersionConflict if it is not deleted yet and `version` is not current; None accepts any version.
        """

        async def apply_soft_delete() -> Memory:
            before = await self._load_memory(principal, memory_id)
            if before.state is MemoryState.soft_deleted:
                return await self._record_unchanged(principal, before, key)
            now = self._clock.now()
            fields = deleting_fields(now, self._policies.of(principal).lifecycle.purge_at(now))
            deletion = state_change(principal, before, Transition.delete, ChangeKind.soft_deleted, fields)
            try:
                return await self._change_state(principal, before, deletion, key, version)
            except (WrongState, VersionConflict):
                after = await self._load_memory(principal, memory_id)  # another request may have deleted it
                if after.state is MemoryState.soft_deleted:
                    return await self._record_unchanged(principal, after, key)
                raise

        return await self._run_once(principal, memory_id, key, apply_soft_delete)

    async def restore_memory(self, principal: Principal, memory_id: UUID, key: OptionalKey = None) -> Memory:
        """Make a memory active again that is soft-deleted, superseded, retracted or expired.

        Raise WrongState if it is active, DuplicateText if another active memory has its text by now. For a merged
        memory this undoes the merge: consolidation never merges the two again. The surviving memory keeps its values.
        """

        async def apply_restore() -> Memory:
            for _attempt in range(self._defaults.write.attempts):
                before = await self._load_memory(principal, memory_id)
                now = self._clock.now()
                overdue = before.state is MemoryState.active and is_overdue(before, now)  # the job comes later
                if not overdue:
                    require_source(Transition.restore, before.state)
                async with self._uow.read(principal) as tx:
                    valid_to = await self._memories.find_given_end(tx, principal, before)
                    begun = await self._memories.find_begun(tx, principal, before)
                fields = restoring_fields(before, now, valid_to)
                restoration = state_change(principal, before, Transition.restore, ChangeKind.restored, fields)
                restoration = replace(restoration, expect_states=(before.state.value,))
                beside = () if begun is None else (span_change(principal, begun, {"valid_from": None}),)
                try:  # the fields were computed from this version
                    return await self._change_state(principal, before, restoration, key, before.version, beside)
                except VersionConflict:
                    continue
            raise WriteContention()

        return await self._run_once(principal, memory_id, key, apply_restore)

    async def retract_memory(
        self, principal: Principal, memory_id: UUID, key: OptionalKey = None, *, version: int | None = None
    ) -> Memory:
        """Mark the memory as wrong: no answer contains it. Idempotent; a restore undoes it.

        Raise WrongState if it is neither active nor superseded, VersionConflict if `version` is not current.
        """

        async def apply_retraction() -> Memory:
            before = await self._load_memory(principal, memory_id)
            if before.state is MemoryState.retracted:
                return await self._record_unchanged(principal, before, key)
            retraction = retracting_change(principal, before, self._clock.now(), {}, None)
            return await self._change_state(principal, before, retraction, key, version)

        return await self._run_once(principal, memory_id, key, apply_retraction)

    async def supersede_memory(
        self,
        principal: Principal,
        memory_id: UUID,
        key: OptionalKey = None,
        *,
        by: UUID | None = None,
        valid_to: datetime | None = None,
        version: int | None = None,
    ) -> Memory:
        """End the memory's span: it was true, and is so no longer. A restore undoes it.

        `by`: the later statement that takes its place, an active memory of the same user. The span ends at `valid_to`,
        by default where the later statement begins, or now. Raise WrongState if one of them is not active, InvalidSpan
        if the span would end before it begins, VersionConflict if `version` is not current.
        """

        async def apply_supersession() -> Memory:
            for _attempt in range(self._defaults.write.attempts):
                before = await self._load_memory(principal, memory_id)
                require_source(Transition.supersede, before.state)
                successor = None if by is None else await self._load_successor(principal, before, by)
                wanted, beside = self._plan_supersession(principal, before, successor, valid_to)
                try:  # the end of the span was computed from this version
                    return await self._change_state(principal, before, wanted, key, version or before.version, beside)
                except VersionConflict:
                    if version is not None:
                        raise
            raise WriteContention()

        return await self._run_once(principal, memory_id, key, apply_supersession)

    async def purge_memory(
        self, principal: Principal, memory_id: UUID, key: OptionalKey = None, *, version: int | None = None
    ) -> None:
        """Delete the memory for good: row, vector, relations, and its text in history and delta.

        Raise VersionConflict if `version` is not current; None accepts any version.
        """

        async def apply_purge() -> None:
            before = await self._load_memory(principal, memory_id)
            change = MemoryChange(
                kind=ChangeKind.purged,
                memory_id=memory_id,
                user_id=before.user_id,
                actor=principal.actor_name,
                threads=threads_of(before.thread_id),
                delta_meta={"importance": before.importance},
                expect_version=version,
                observations=(edit_event(before, "delete"),),
            )
            await self._record_with_retries(principal, before, change, key)

        await self._run_unless_answered(principal, memory_id, key, apply_purge)

    async def _run_once(
        self, principal: Principal, memory_id: UUID, key: OptionalKey, work: Callable[[], Awaitable[Memory]]
    ) -> Memory:
        memory = await self._run_unless_answered(principal, memory_id, key, work)
        return await self._load_memory(principal, memory_id) if memory is None else memory

    async def _run_unless_answered(
        self, principal: Principal, memory_id: UUID, key: OptionalKey, work: Callable[[], Awaitable[T]]
    ) -> T | None:
        """Return the result of `work`, None if a request with this key was answered before or meanwhile."""
        if key is None:
            return await work()
        if await self._journal.find_response(principal, key) is not None:
            return None
        try:
            return await work()
        except _TOO_LATE:
            if await self._journal.find_response(principal, key) is None:
                raise
            return None

    async def _record_unchanged(self, principal: Principal, memory: Memory, key: OptionalKey) -> Memory:
        if key is not None:
            await self._journal.record(principal, [], keys=edit_key_records(key, memory.id, memory.user_id))
        return memory

    async def _update_memory(
        self, principal: Principal, before: Memory, changed: Mapping[str, Any], version: int | None, key: OptionalKey
    ) -> Memory:
        after = replace(before, **changed)
        retold = "text" in changed
        embedding, compared = await self._embed_and_compare(principal, after, retold)
        change = MemoryChange(
            kind=ChangeKind.updated,
            memory_id=before.id,
            user_id=before.user_id,
            actor=principal.actor_name,
            fields={**changed, "updated_at": self._clock.now()},
            vector=embedding.vector if embedding else None,
            tokens=embedding.tokens if embedding else None,
            threads=threads_of(before.thread_id),
            expect_version=version,
            expect_states=("active",),
            edges=edges_to(before.id, before.created_at, compared),
            observations=(edit_event(before, "update"),),
            jobs=cutting_jobs(before.id, after, self._defaults.sources) if retold else (),
        )
        others = [c for c in compared if c.near and c.neighbour.id != before.id]
        closed = (await self._closing.find_closed(principal, before.id, after, others)).older
        if closed:
            change = as_successor(change, closed, stated_at(after), after)
        beside = self._closing.compose_closings(principal, closed, before.id, stated_at(after))
        return await self._record_and_load(principal, before, change, key, tuple(beside))

    async def _load_successor(self, principal: Principal, before: Memory, by: UUID) -> Memory:
        async with self._uow.read(principal) as tx:
            successor = await self._memories.get_memory(tx, principal, by)
        if successor is None or successor.user_id != before.user_id:
            raise InvalidInput(f"by: the user has no memory {by}")
        if successor.id == before.id:
            raise InvalidInput("by: a memory cannot supersede itself")
        if successor.state is not MemoryState.active:
            raise WrongState(f"the memory {by} is {successor.state.in_words}")
        return successor

    def _plan_supersession(
        self, principal: Principal, before: Memory, successor: Memory | None, valid_to: datetime | None
    ) -> tuple[MemoryChange, tuple[MemoryChange, ...]]:
        """Return the supersession, and the change of the later statement that the deltas show."""
        now = self._clock.now()
        ends_at = now if successor is None else stated_at(successor)
        change = ending_change(principal, before, successor.id if successor else None, ends_at, now)
        if valid_to is not None:
            check_span(before.valid_from, valid_to)
            change = replace(change, fields={**change.fields, "valid_to": valid_to})
        if (ends := change.fields.get("valid_to")) is not None and ends > now:
            raise InvalidSpan("the span would end in the future: set the memory's valid_to instead")
        if before.valid_from is not None and before.valid_from >= (ends or ends_at):
            raise InvalidSpan("the memory begins later: delete it or retract it")
        if successor is None:
            return told_as_ended(change), ()
        succession = MemoryChange(
            kind=ChangeKind.updated,
            memory_id=successor.id,
            user_id=successor.user_id,
            actor=principal.actor_name,
            fields={"state": successor.state.value},  # its history names the other one
            threads=threads_of(before.thread_id, successor.thread_id),
            expect_version=None if principal.categories is None else successor.version,
            expect_states=(MemoryState.active.value,),
            history_meta={"supersedes": str(before.id)},
            old_ref=str(before.id),
            new_ref=str(successor.id),
            replaces=(before.id,),
        )
        return change, (begun(succession, before.id, valid_to or ends_at, successor),)

    async def _change_state(
        self,
        principal: Principal,
        before: Memory,
        change: MemoryChange,
        key: OptionalKey,
        version: int | None = None,
        beside: tuple[MemoryChange, ...] = (),
    ) -> Memory:
        if before.state.value not in change.expect_states:
            raise WrongState(f"the memory is {before.state.in_words}")
        kind = change.kind
        change = replace(
            change,
            threads=threads_of(before.thread_id),
            expect_version=version,
            observations=(edit_event(before, "delete" if kind is ChangeKind.soft_deleted else "update"),),
            jobs=cutting_jobs(before.id, before, self._defaults.sources) if kind is ChangeKind.restored else (),
        )
        return await self._record_and_load(principal, before, change, key, beside)

    async def _load_memory(self, principal: Principal, memory_id: UUID) -> Memory:
        async with self._uow.read(principal) as tx:
            memory = await self._memories.get_memory(tx, principal, memory_id)
            placed = memory is not None and await self._memories.is_placed(tx, principal, memory)
        if memory is None:
            raise NotFound()
        if memory.fact_topic is not None:
            raise FactMemory()
        if placed:
            raise WrongState("the memory is a chunk: it changes only with its file or turn")
        return memory

    async def _record_and_load(
        self,
        principal: Principal,
        before: Memory,
        change: MemoryChange,
        key: OptionalKey,
        beside: tuple[MemoryChange, ...] = (),
    ) -> Memory:
        memory = await self._record_with_retries(principal, before, change, key, beside)
        return await self._load_memory(principal, before.id) if memory is None else memory

    async def _record_with_retries(
        self,
        principal: Principal,
        before: Memory,
        change: MemoryChange,
        key: OptionalKey,
        beside: tuple[MemoryChange, ...] = (),
    ) -> Memory | None:
        """Return the row after the change, None if it is purged or the request was answered before.

        A key bound to agents changes only the version it read, because the row may move to a category it cannot see.
        """
        if principal.categories is None or change.expect_version is not None:
            return await self._record_change(principal, change, key, beside)
        for _attempt in range(self._defaults.write.attempts):
            try:
                pinned = replace(change, expect_version=before.version)
                return await self._record_change(principal, pinned, key, beside)
            except VersionConflict:
                before = await self._load_memory(principal, before.id)
        raise WriteContention()

    async def _record_change(
        self, principal: Principal, change: MemoryChange, key: OptionalKey, beside: tuple[MemoryChange, ...] = ()
    ) -> Memory | None:
        keys = edit_key_records(key, change.memory_id, change.user_id)
        changes = sorted((change, *beside), key=lambda one: one.memory_id)  # in one order, to prevent deadlocks
        outcome = await self._journal.record(principal, changes, keys=keys)
        return None if outcome.replay is not None else outcome.recorded[changes.index(change)].memory

    def _check_fields(
        self, principal: Principal, before: Memory, fields: Mapping[str, Any], trim: bool
    ) -> dict[str, Any]:
        checked = dict(fields)
        limits = self._defaults.write.text_limits
        procedural = before.type is MemoryType.procedural
        if "text" in checked:
            kind = MemoryType.semantic if procedural else before.type
            checked["text"] = check_text(checked["text"], kind, limits, trim)
            checked.setdefault("tags", remark_instruction(before, checked["text"]))
        if "steps_text" in checked:
            if not procedural:
                raise InvalidInput("only a procedural memory has steps_text")
            checked["steps_text"] = check_steps(check_text(checked["steps_text"], before.type, limits, trim))
        if "language" in checked:
            checked["language"] = checked["language"] or detect_language(checked.get("text", before.text))
        if "category" in checked:
            self._policies.of(principal).categories.get_category(checked["category"], principal)
            principal.require_categories([checked["category"]])
            if procedural != (checked["category"] == "procedural"):
                raise InvalidInput("type procedural and category procedural go together")
        return {**checked, "tags": tuple(checked["tags"])} if "tags" in checked else checked

    async def _embed_and_compare(
        self, principal: Principal, after: Memory, changed: bool
    ) -> tuple[Embedding | None, list[ComparedMemory]]:
        if not changed:
            return None, []
        text = embedded_text(after.type, after.text, after.actor_id, after.source)
        try:
            [embedding] = await self._embedder.encode_texts([text])
        except EmbedderUnavailable:
            await self._journal.record_event(principal, [edit_event(after, "update", "error")])
            raise
        if after.type is not MemoryType.semantic:
            return embedding, []
        place = after.user_id, after.category, after.text
        compared = await self._memories.find_neighbours(principal, *place, embedding.vector, self._defaults.bands)
        return embedding, compared
