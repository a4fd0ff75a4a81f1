"""The facts that a turn states about its own user."""

from uuid import UUID

from app.domain.facts.fact import FactStatement
from app.domain.facts.policy import FactPolicy
from app.domain.facts.statements import read_statements
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.principal import Principal

USER_ROLE = "user"


def facts_of_turn(
    policy: FactPolicy, principal: Principal, new: NewMemory, memory_id: UUID
) -> tuple[FactStatement, ...]:
    """Return the statement of a user's own turn, nothing for any other memory.

    An assistant's turn and a turn that another actor spoke state nothing. Nor does a turn stored with a key that
    may not write the category of facts.
    """
    if new.type is not MemoryType.turn or new.role != USER_ROLE or new.actor_id not in (None, new.user_id):
        return ()
    if principal.categories is not None and policy.category not in principal.categories:
        return ()
    operations = read_statements(new.text, policy.topics, policy.max_rank)
    if not operations:
        return ()
    assert new.created_at is not None  # check_draft has set it
    message = (new.source or {}).get("turn_id") or str(memory_id)
    statement = FactStatement(
        user_id=new.user_id,
        thread_id=new.thread_id,
        category=policy.category,
        operations=operations,
        stated_at=new.created_at,
        source_message_id=message,
        turn=memory_id,
        max_rank=policy.max_rank,
        names=policy.name_topics(operations),
    )
    return (statement,)
