"""Lists and counts of operational events. The journal writes them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from mnema_wire.overview import Event

from app.domain.errors import InvalidInput
from app.domain.filters import EventFilters
from app.domain.paging import Position
from app.domain.principal import Principal
from app.storage.statements import load_statements
from app.storage.uow import ReadTx

COUNTABLE = {name: name for name in ("node", "op", "status", "category", "user_id", "thread_id")} | {
    "day": "(ts AT TIME ZONE 'UTC')::date"
}
"""The columns that events can be grouped by, and their expressions. `day`: of UTC."""
MOST_GROUPS = 10_000


class EventStorage:
    """Statements that count events by any of COUNTABLE."""

    async def count_events(
        self, tx: ReadTx, principal: Principal, by: Sequence[str], since: datetime | None, until: datetime | None
    ) -> list[dict[str, Any]]:
        """Return one dict a group, with `count`. A key bound to agents counts only events of its categories.

        Raise InvalidInput for an unknown column and for more than MOST_GROUPS groups.
        """
        if not by or set(by) - COUNTABLE.keys() or len(set(by)) != len(by):
            raise InvalidInput(f"by: one or more of {', '.join(COUNTABLE)}")
        columns = ", ".join(f"{COUNTABLE[name]} AS {name}" for name in by)
        places = ", ".join(str(place) for place in range(1, len(by) + 1))
        rows = await tx.fetch(
            f"""SELECT {columns}, count(*) AS count FROM events
            WHERE tenant_id = $1 AND ($2::timestamptz IS NULL OR ts >= $2) AND ($3::timestamptz IS NULL OR ts < $3)
              AND ($4::text[] IS NULL OR category = ANY ($4))
            GROUP BY {places} ORDER BY {places} LIMIT {MOST_GROUPS + 1}""",  # noqa: S608 - names checked against COUNTABLE
            principal.tenant_id,
            since,
            until,
            principal.category_list,
        )
        if len(rows) > MOST_GROUPS:
            raise InvalidInput(f"more than {MOST_GROUPS} groups: narrow since and until, or group by less")
        return [dict(row) for row in rows]


_PAGE: Final = load_statements("operations/event_list.sql")["page"]


async def list_events(
    tx: ReadTx, principal: Principal, filters: EventFilters, after: Position | None, limit: int
) -> list[Event]:
    """Return the events behind `after`, newest first. A key bound to agents gets those of its categories."""
    rows = await tx.fetch(
        _PAGE,
        principal.tenant_id,
        principal.category_list,
        filters.node,
        filters.op,
        filters.status,
        principal.reach(filters.user_id),
        filters.thread_id,
        filters.since,
        filters.until,
        *(after or (None, None)),
        limit,
    )
    return [Event(**dict(row)) for row in rows]
