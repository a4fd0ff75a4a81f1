"""Lists of operational events."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from app.domain.filters import EventFilters
from app.domain.paging import Position
from app.domain.principal import Principal
from app.storage.statements import load_statements
from app.storage.uow import ReadTx

_PAGE: Final = load_statements("operations/event_list.sql")["page"]


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An operational event. It holds no text."""

    id: UUID
    ts: datetime
    node: str
    op: str
    status: str
    user_id: str | None
    thread_id: str | None
    memory_id: str | None
    category: str | None
    similarity: float | None


async def list_events(
    tx: ReadTx, principal: Principal, filters: EventFilters, after: Position | None, limit: int
) -> list[StoredEvent]:
    """Return the events behind `after`, newest first. A key bound to agents gets those of its categories."""
    rows = await tx.fetch(
        _PAGE,
        principal.tenant_id,
        principal.category_list,
        filters.node,
        filters.op,
        filters.status,
        filters.user_id,
        filters.thread_id,
        filters.since,
        filters.until,
        *(after or (None, None)),
        limit,
    )
    return [StoredEvent(**dict(row)) for row in rows]
