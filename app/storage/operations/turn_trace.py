"""Reading what the background work left about one turn: its jobs and the facts that it settled."""

from typing import Final

from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.domain.reflection.turn_trace import SettledFact, TurnJob
from app.storage.statements import load_statements
from app.storage.uow import ReadTx

_STATEMENTS: Final = load_statements("operations/turn_trace.sql")
MAX_JOBS: Final = 50
MAX_FACTS: Final = 100


async def list_turn_jobs(tx: ReadTx, principal: Principal, turn: Memory) -> list[TurnJob]:
    """Return the jobs on the turn that are still stored, oldest first, at most MAX_JOBS."""
    rows = await tx.fetch(_STATEMENTS["jobs"], principal.tenant_id, turn.user_id, str(turn.id), MAX_JOBS)
    return [TurnJob(**dict(row)) for row in rows]


async def list_settled_facts(tx: ReadTx, principal: Principal, turn: Memory) -> list[SettledFact]:
    """Return the facts of the turn whose records are still stored, at most MAX_FACTS."""
    rows = await tx.fetch(
        _STATEMENTS["facts"], principal.tenant_id, str(turn.id), principal.category_list, MAX_FACTS, turn.user_id
    )
    return [SettledFact(**dict(row)) for row in rows]


async def count_stated_facts(tx: ReadTx, principal: Principal, turn: Memory) -> int:
    """Return the number of facts in lists and single values that the turn stated and that are still kept."""
    message = (turn.source or {}).get("turn_id") or str(turn.id)
    categories = principal.category_list
    return int(await tx.fetchval(_STATEMENTS["stated"], principal.tenant_id, turn.user_id, message, categories))
