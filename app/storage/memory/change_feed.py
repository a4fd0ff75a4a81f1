"""Reading the stream of changes from history."""

from collections.abc import Iterable
from functools import lru_cache
from uuid import UUID

from app.domain.epochs import ChangePosition, Stamp
from app.domain.errors import CursorOfOtherDatabase
from app.domain.filters import Filters
from app.domain.memory.change_feed import ChangeEvent, ChangeFilter, ChangePage
from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.storage.rows import memory_columns, memory_from_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, Row


class ChangeFeedStorage:
    """Statements that read the changes of a tenant's memories within the principal's categories."""

    async def find_last(self, tx: ReadTx, principal: Principal) -> ChangePosition:
        """Return the position of the last record that counts."""
        row = (await tx.fetch(_statement("last"), principal.tenant_id))[0]
        return ChangePosition(Stamp(row["epoch"], row["stamp"] or 0), row["id"] or UUID(int=0))

    async def read_page(
        self, tx: ReadTx, principal: Principal, wanted: ChangeFilter, after: ChangePosition, limit: int
    ) -> ChangePage:
        """Return the events among the next `limit` records of the tenant behind `after`, without their memories.

        Raise CursorOfOtherDatabase if `after` is neither from this database nor from a former home of the tenant, or if
        the database has lost that record since.
        """
        place = after.stamp.number, after.record
        conditions = Filters(where=wanted.where).row_conditions() or None
        choice = principal.reach(wanted.user_id), principal.category_list, conditions
        rows = await tx.fetch(_statement("page"), principal.tenant_id, *place, limit, *choice, after.stamp.epoch)
        first = rows[0]
        if not first["is_former"]:
            after.stamp.require_epoch(first["epoch"])
        if not first["is_known"]:
            raise CursorOfOtherDatabase()
        if first["last_id"] is None:
            return ChangePage(principal.tenant_id, (), after, more=False, memories={})
        epoch = first["epoch"]
        events = tuple(_event_from_row(row, epoch) for row in rows if row["id"] is not None)
        position = ChangePosition(Stamp(epoch, first["last_stamp"]), first["last_id"])
        return ChangePage(principal.tenant_id, events, position, more=first["records"] == limit, memories={})

    async def read_memories(self, tx: ReadTx, principal: Principal, ids: Iterable[str]) -> dict[str, Memory]:
        """Return the memories with these ids that the key may see, in any state."""
        rows = await tx.fetch(_statement("memories"), principal.tenant_id, sorted(set(ids)), principal.category_list)
        return {str(row["id"]): memory_from_row(row) for row in rows}


def _event_from_row(row: Row, epoch: UUID) -> ChangeEvent:
    return ChangeEvent(
        position=ChangePosition(Stamp(epoch, row["stamp"]), row["id"]),
        event=row["event"],
        memory_id=row["memory_id"],
        category=row["category"],
        type=row["type"],
        user_id=row["user_id"],
        version=row["version"],
        time=row["ts"],
        present_category=row["present"],
    )


@lru_cache(maxsize=4)
def _statement(name: str) -> str:
    return load_statements("memory/change_feed.sql")[name].replace("{columns}", memory_columns("m"))
