"""Correct a memory: write the right text, and close or retract the stored one, in one transaction."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.changes import ChangeKind, MemoryChange
from app.domain.errors import FactMemory, InvalidInput, InvalidSpan, NotFound, VersionConflict
from app.domain.idempotency import OptionalKey
from app.domain.memory.instructions import remark_instruction
from app.domain.memory.memory import Memory, MemoryState, MemoryType, NewMemory, Origin
from app.domain.memory.transitions import TARGETS, Transition, require_source
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.domain.text_rules import text_key
from app.ports import Clock, Embedding
from app.storage.identity import new_id
from app.storage.journal import Journal, KeyRecord
from app.storage.memory.memories import MemoryStorage
from app.storage.uow import UnitOfWork
from app.usecases.memory.edit_records import edit_event
from app.usecases.memory.relations import delta_meta, edges_to, threads_of
from app.usecases.memory.state_changes import begun, ending_change
from app.usecases.memory.write import WriteMemories
from app.usecases.tenancy.limits import Limits

Verdict = Literal["superseded", "wrong"]
"""The judgement on the stored memory: it was true until now, or it was never true."""
_ACTIONS = {"superseded": Transition.supersede, "wrong": Transition.retract}
_CORRECTABLE = (MemoryType.semantic, MemoryType.episodic)


@dataclass(frozen=True, slots=True)
class Correction:
    """The right text of a user's memory. `valid_from`: when it begins to be so; None: not known."""

    user_id: str
    memory_id: UUID
    text: str
    was: Verdict
    valid_from: datetime | None = None


@dataclass(frozen=True, slots=True)
class CorrectedMemory:
    """The new memory, and the state of the old one."""

    id: UUID
    corrected_id: UUID
    state: str


class CorrectMemories:
    """The use-case that replaces a memory by a later or by the right statement."""

    def __init__(
        self,
        uow: UnitOfWork,
        memories: MemoryStorage,
        journal: Journal,
        write: WriteMemories,
        limits: Limits,
        policies: TenantPolicies,
        clock: Clock,
    ) -> None:
        self._uow = uow
        self._memories = memories
        self._journal = journal
        self._write = write
        self._limits = limits
        self._defaults = policies.defaults
        self._clock = clock

    async def correct_memory(
        self, principal: Principal, correction: Correction, key: OptionalKey = None
    ) -> CorrectedMemory:
        """Write the text as a new memory in the place of the old one. A restore of the old one undoes its part.

        Raise NotFound, FactMemory, WrongState if the memory is in no state to correct, InvalidInput if it is of a type
        without corrections or says the same, DuplicateText if another memory says the text already, ErasedText,
        QuotaExceeded, EmbedderUnavailable, WriteContention, and the errors of the text rules.
        """
        if key is not None and (response := await self._journal.find_response(principal, key)) is not None:
            return _from_response(response)
        async with self._limits.reserve_write(principal):
            for _attempt in range(self._defaults.write.attempts):
                now = self._clock.now()
                old = await self._load_memory(principal, correction)
                new = self._write.check_draft(principal, self._draft(old, correction))
                if correction.was == "superseded" and correction.valid_from and correction.valid_from > now:
                    raise InvalidSpan(
                        "the text is so in the future: write it as a memory, and set the old one's valid_to"
                    )
                if text_key(new.text) == text_key(old.text):
                    raise InvalidInput("the text is the one that the memory has")
                [embedding] = await self._write.embed_drafts(principal, [new])
                try:
                    return await self._record(principal, correction.was, old, new, embedding, key)
                except VersionConflict:
                    continue
        raise WriteContention()

    async def _load_memory(self, principal: Principal, correction: Correction) -> Memory:
        async with self._uow.read(principal) as tx:
            memory = await self._memories.get_memory(tx, principal, correction.memory_id)
        if memory is None or memory.user_id != correction.user_id:
            raise NotFound()
        if memory.fact_topic is not None:
            raise FactMemory()
        if memory.type not in _CORRECTABLE:
            raise InvalidInput(f"a memory of type {memory.type.value} cannot be corrected; edit or delete it")
        require_source(_ACTIONS[correction.was], memory.state)
        return memory

    def _draft(self, old: Memory, correction: Correction) -> NewMemory:
        return NewMemory(
            user_id=old.user_id,
            category=old.category,
            text=correction.text,
            type=old.type,
            thread_id=old.thread_id,
            run_id=old.run_id,
            actor_id=old.actor_id,
            role=old.role,
            importance=old.importance,
            pinned=old.pinned,
            tags=remark_instruction(old, correction.text),
            metadata=old.metadata,
            expires_at=old.expires_at if old.expires_at and old.expires_at > self._clock.now() else None,
            valid_from=correction.valid_from,
            origin=Origin.api,
        )

    async def _record(
        self,
        principal: Principal,
        was: Verdict,
        old: Memory,
        new: NewMemory,
        embedding: Embedding,
        key: OptionalKey,
    ) -> CorrectedMemory:
        principal = principal.speaking_as(new.agent_id)
        memory_id = new_id()
        now = self._clock.now()
        begins_at = new.valid_from or new.created_at or now
        closing = ending_change(principal, old, memory_id, begins_at, now, action=_ACTIONS[was])
        closing = replace(closing, observations=(edit_event(old, "update"),))
        fresh = await self._fresh(principal, old, new, embedding, memory_id)
        if was == "superseded":
            fresh = begun(fresh, old.id, begins_at, new)
        corrected = CorrectedMemory(memory_id, old.id, TARGETS[_ACTIONS[was]].value)
        response = {"id": str(memory_id), "corrected_id": str(old.id), "state": corrected.state}
        keys = [] if key is None else [KeyRecord(key, response, old.user_id, memory_id)]
        outcome = await self._journal.record(principal, [closing, fresh], keys=keys)
        return corrected if outcome.replay is None else _from_response(outcome.replay)

    async def _fresh(
        self, principal: Principal, old: Memory, new: NewMemory, embedding: Embedding, memory_id: UUID
    ) -> MemoryChange:
        compared = (
            await self._memories.find_neighbours(
                principal, new.user_id, new.category, new.text, embedding.vector, self._defaults.bands
            )
            if new.type is MemoryType.semantic
            else []
        )
        shown = old.state is MemoryState.active
        return MemoryChange(
            kind=ChangeKind.recreated if shown else ChangeKind.created,
            memory_id=memory_id,
            user_id=new.user_id,
            actor=principal.actor_name,
            new=replace(new, agent_id=new.agent_id or principal.agent),
            vector=embedding.vector,
            tokens=embedding.tokens,
            threads=threads_of(new.thread_id),
            old_ref=str(old.id),
            replaces=(old.id,) if shown else (),
            delta_meta=delta_meta(new.text, new.importance),
            history_meta={"corrects": str(old.id)},
            edges=edges_to(memory_id, new.created_at, compared, without=old.id),
        )


def _from_response(response: dict[str, Any]) -> CorrectedMemory:
    """Return the result that the first request with this key had."""
    return CorrectedMemory(UUID(response["id"]), UUID(response["corrected_id"]), response["state"])
