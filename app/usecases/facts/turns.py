"""The facts that a turn states about its own user, and those that it takes back.

The database writes the text of a memory that states a fact in the transaction of its facts (`write_fact_memory`),
because only there the facts are certain. So the text is embedded after that transaction. Until then full-text search
finds the memory.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import structlog

from app.config.tenant_policies import TenantPolicies
from app.domain.client_prompts import is_client_prompt
from app.domain.errors import MnemaError
from app.domain.facts.fact import FactMemory, FactOperation, FactStatement
from app.domain.facts.policy import FactPolicy
from app.domain.facts.reading import may_retract, parse_question, read_retractions, read_stated
from app.domain.facts.retractions import (
    MAX_KNOWN,
    KnownFact,
    ThreadOperation,
    is_taken_back,
)
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.principal import Principal
from app.ports import Embedder
from app.storage.facts.facts import FactStorage
from app.storage.operations.vectors import UnembeddedMemory, VectorStorage

USER_ROLE = "user"
MAX_REMEMBERED: Final = 10_000
"""The users with facts that a process remembers."""
log = structlog.get_logger(__name__)


class EmbedFactMemories:
    """The step after a statement of facts that embeds the memories of these facts."""

    def __init__(self, vectors: VectorStorage, embedder: Embedder) -> None:
        self._vectors = vectors
        self._embedder = embedder

    async def embed_memories(self, principal: Principal, memories: Sequence[FactMemory]) -> None:
        """Store the vectors of these texts; do nothing without any. A text that changed meanwhile keeps none.

        Raise nothing: the facts are stored. After a failure the job `embed` stores the vectors.
        """
        if not memories:
            return
        rows = [UnembeddedMemory(m.id, m.version, MemoryType.semantic, m.text, None, None) for m in memories]
        try:
            await self._vectors.fill_vectors(
                principal, rows, await self._embedder.encode_texts([memory.text for memory in memories])
            )
        except MnemaError as error:
            log.warning("fact_memory_without_vector", error=error.code)


class ReadTurnFacts:
    """The use-case that reads the statements of a message, and what it retracts of the stored facts."""

    def __init__(self, facts: FactStorage, policies: TenantPolicies) -> None:
        self._facts = facts
        self._policies = policies
        self._with_facts: OrderedDict[tuple[UUID, str], None] = OrderedDict()

    async def load_known(
        self, principal: Principal, user_id: str, thread_id: str | None, text: str
    ) -> tuple[KnownFact, ...]:
        """Return the stored facts that a message may take back. Read nothing if it has no word of a change."""
        if not may_retract(text):
            return ()
        return await self._list_known(principal, user_id, thread_id)

    async def _list_known(self, principal: Principal, user_id: str, thread_id: str | None) -> tuple[KnownFact, ...]:
        across = self._policies.of(principal).facts.across_threads
        known = await self._facts.list_touchable(principal, user_id, thread_id, across=across, limit=MAX_KNOWN)
        return tuple(known)

    async def read_turn(self, principal: Principal, new: NewMemory) -> tuple[KnownFact, ...]:
        """Return the stored facts that a turn may take back, nothing for a memory that states none."""
        if not self.may_take_back(principal, new):
            return ()
        if parse_question(new.text, self._policies.of(principal).facts.topics):
            return ()  # a question for facts takes back none
        return await self._list_known(principal, new.user_id, new.thread_id)

    def is_with_facts(self, principal: Principal, user_id: str) -> bool:
        """Return True if this process remembers that a user has, or had, facts.

        Most users have none, and many messages have a word of a change. So the write of a message checks whether the
        user has facts (`Journal.record`, `factless`). The facts are read only if there are some.
        """
        return (principal.tenant_id, user_id) in self._with_facts

    def remember_facts_of(self, principal: Principal, user_id: str) -> None:
        """Note that a user has facts."""
        self._with_facts[principal.tenant_id, user_id] = None
        if len(self._with_facts) > MAX_REMEMBERED:
            self._with_facts.popitem(last=False)

    def may_take_back(self, principal: Principal, new: NewMemory) -> bool:
        """Tell whether a turn may take back a fact."""
        return _may_state(self._policies.of(principal).facts, principal, new) and may_retract(new.text)

    def facts_of_turn(
        self,
        principal: Principal,
        new: NewMemory,
        memory_id: UUID,
        known: Sequence[KnownFact],
        stated: Sequence[FactOperation] | None = None,
    ) -> tuple[FactStatement, ...]:
        """Return the statements of a user's own turn, that of its own thread first; nothing for any other memory.

        `known` and `stated` are those of `read_operations`.
        """
        policy = self._policies.of(principal).facts
        if not _may_state(policy, principal, new):
            return ()
        assert new.created_at is not None  # check_draft has set it
        message = (new.source or {}).get("turn_id") or str(memory_id)
        return tuple(
            FactStatement(
                user_id=new.user_id,
                thread_id=thread_id,
                category=policy.category,
                operations=operations,
                stated_at=new.created_at,
                source_message_id=message,
                turn=memory_id,
                max_rank=policy.max_rank,
                names=policy.name_topics(operations),
            )
            for thread_id, operations in read_operations(policy, new.thread_id, new.text, known, stated)
        )


def _may_state(policy: FactPolicy, principal: Principal, new: NewMemory) -> bool:
    """Tell whether a memory is a user's own turn, stored with a key that may write the category of facts.

    An assistant's turn, a turn that another actor spoke and a prompt of the chat client state nothing.
    """
    if new.type is not MemoryType.turn or new.role != USER_ROLE or new.actor_id not in (None, new.user_id):
        return False
    if principal.categories is not None and policy.category not in principal.categories:
        return False
    return not is_client_prompt(new.text)


def read_operations(
    policy: FactPolicy,
    thread_id: str | None,
    text: str,
    known: Sequence[KnownFact],
    stated: Sequence[FactOperation] | None = None,
) -> list[tuple[str | None, tuple[FactOperation, ...]]]:
    """Return the operations of a message on stored facts, by thread, its own thread first.

    `stated` is the result of `read_stated` for the text, None if it was not called yet.
    """
    if stated is None:
        stated = read_stated(text, policy.topics, policy.max_rank)
    retracted = read_retractions(text, known, policy.topics, stated, thread_id)
    kept = tuple(operation for operation in stated if not is_taken_back(operation, retracted))
    groups: dict[str | None, list[FactOperation]] = {thread_id: []}
    for one in _without_replaced(retracted, kept, thread_id):
        groups.setdefault(one.thread_id, []).append(one.operation)
    groups[thread_id] += kept
    return [(thread, tuple(operations)) for thread, operations in groups.items() if operations]


def _without_replaced(
    retracted: Iterable[ThreadOperation], stated: Sequence[FactOperation], thread_id: str | None
) -> list[ThreadOperation]:
    """Leave out removals of a single value that the message replaces anyway, so that it counts as an update."""
    replaced = {operation.topic_key for operation in stated if operation.op in ("set", "list")}
    return [
        one
        for one in retracted
        if one.thread_id != thread_id or one.operation.op != "remove" or one.operation.topic_key not in replaced
    ]
