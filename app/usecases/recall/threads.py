"""Replay of a thread: its turns in the order in which they were said."""

from dataclasses import dataclass

from app.domain.memory.memory import Memory
from app.domain.paging import decode_turn_cursor, encode_turn_cursor
from app.domain.principal import Principal
from app.storage.recall.threads import ThreadStorage
from app.storage.uow import UnitOfWork


@dataclass(frozen=True, slots=True)
class TurnPage:
    """One page of a thread's turns, oldest first. `next_cursor` is None on the last page."""

    items: list[Memory]
    next_cursor: str | None


class ReadThreads:
    """The use-case that replays threads, in the categories that the key may see."""

    def __init__(self, uow: UnitOfWork, threads: ThreadStorage) -> None:
        self._uow = uow
        self._threads = threads

    async def list_turns(
        self, principal: Principal, thread_id: str, user_id: str | None, cursor: str | None, limit: int
    ) -> TurnPage:
        """Return a page of the thread's active turns, of one user or of all. Raise InvalidCursor."""
        after = decode_turn_cursor(cursor)
        async with self._uow.read(principal) as tx:
            rows = await self._threads.list_turns(tx, principal, thread_id, user_id, after, limit + 1)
        items = rows[:limit]
        if len(rows) <= limit:
            return TurnPage(items, None)
        last = items[-1]
        return TurnPage(items, encode_turn_cursor((last.seq, last.created_at, last.id)))
