"""Replay of a thread: its turns in the order in which they were said."""

from app.domain.memory.memory import Memory
from app.domain.paging import Page, cut_page, decode_turn_cursor, encode_turn_cursor
from app.domain.principal import Principal
from app.storage.recall.threads import ThreadStorage
from app.storage.uow import UnitOfWork


class ReadThreads:
    """The use-case that replays threads, in the categories that the key may see."""

    def __init__(self, uow: UnitOfWork, threads: ThreadStorage) -> None:
        self._uow = uow
        self._threads = threads

    async def list_turns(
        self, principal: Principal, thread_id: str, user_id: str | None, cursor: str | None, limit: int
    ) -> Page[Memory]:
        """Return a page of the thread's turns that are not deleted, of one user or of all. Raise InvalidCursor."""
        after = decode_turn_cursor(cursor)
        async with self._uow.read_anywhere(principal) as tx:
            rows = await self._threads.list_turns(tx, principal, thread_id, user_id, after, limit + 1)
        return cut_page(rows, limit, lambda turn: encode_turn_cursor((turn.seq, turn.created_at, turn.id)))
