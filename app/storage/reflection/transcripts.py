"""The memories that a chat model reads about a user, and the position up to which it has read."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from pgvector import HalfVector

from app.domain.memory.memory import Memory, MemoryType, NewMemory
from app.domain.principal import Principal
from app.domain.reflection.insights import MAX_EXISTING_INSIGHTS, TALK_TURNS, InsightMaterial, InsightPolicy
from app.domain.reflection.transcript import ReadPosition, ReflectionKind, Transcript
from app.ports import Vector
from app.storage.rows import memory_columns, memory_from_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, Row, WriteTx

WHOLE_USER = ""
"""The thread id that stands for the user as a whole."""
NEW_THREAD_WINDOW = timedelta(days=7)


class ReflectionStorage:
    """Statements on transcripts and positions, within the caller's transaction. `space`: the active one."""

    def __init__(self, space: str) -> None:
        self._space = space

    async def load_transcript(
        self,
        tx: WriteTx,
        principal: Principal,
        user_id: str,
        thread_id: str,
        kind: ReflectionKind,
        category: str,
        window: int,
        without: Sequence[str],
        now: datetime,
        *,
        begin: bool,
    ) -> Transcript | None:
        """Return the oldest turns of a thread that `kind` has not read.

        Each failed attempt halves their number. With `begin`, a new thread counts as waiting from now on. Return None
        if another transaction begins it right now, or if the user is not stored.
        """
        arguments: list[Any] = [principal.tenant_id, user_id, thread_id, kind]
        if begin:
            arguments.append(now)
        row = await tx.fetchrow(_format_statement("begin_position" if begin else "position"), *arguments)
        if row is None and begin:
            return None
        mark = ReadPosition(row["rev"], row["at"]) if row else ReadPosition(0, now)
        most = max(1, window >> row["tries"]) if row else window
        rows = await tx.fetch(
            _format_statement("turns"), principal.tenant_id, user_id, thread_id, mark.rev, category, most, list(without)
        )
        revs = tuple(row["at_rev"] for row in rows)
        unread = rows[0]["unread"] if rows else 0
        return Transcript(mark, unread, tuple(_memories_from_rows(rows)), revs)

    async def advance_position(
        self,
        tx: WriteTx,
        principal: Principal,
        user_id: str,
        thread_id: str,
        kind: ReflectionKind,
        old: ReadPosition | None,
        new: ReadPosition,
    ) -> bool:
        """Store the new position; return False if another worker moved it meanwhile."""
        before = (old.rev, old.at) if old else (None, None)
        moved = await tx.fetchval(
            _format_statement("advance"), principal.tenant_id, user_id, thread_id, kind, new.rev, new.at, *before
        )
        return bool(moved)

    async def count_failed_read(
        self,
        tx: WriteTx,
        principal: Principal,
        user_id: str,
        thread_id: str,
        kind: ReflectionKind,
        old: ReadPosition | None,
        least: int,
    ) -> int:
        """Count a failed reading from `old`; return the failures in a row, or `least` if that is more.

        Return 0 if another worker moved the position meanwhile.
        """
        before = (old.rev, old.at) if old else (None, None)
        failures = await tx.fetchval(
            _format_statement("count_failed_read"), principal.tenant_id, user_id, thread_id, kind, *before, least
        )
        return int(failures or 0)

    async def count_episode(self, tx: WriteTx, principal: Principal, user_id: str, day: datetime, most: int) -> bool:
        """Count one more episode of the day that begins at `day`; return False if it had `most` already."""
        return bool(await tx.fetchval(_format_statement("count_episode"), principal.tenant_id, user_id, day, most))

    async def load_episode_count(self, tx: ReadTx, principal: Principal, user_id: str, day: datetime) -> int:
        """Return the number of episodes counted on that day."""
        row = await tx.fetchrow(_format_statement("position"), principal.tenant_id, user_id, WHOLE_USER, "day")
        return row["rev"] if row and row["at"] == day else 0

    async def list_waiting(
        self,
        tx: ReadTx,
        principal: Principal,
        user_id: str | None,
        kind: ReflectionKind,
        before: datetime,
        category: str,
        without: Sequence[str],
        most: int,
        day: datetime,
        cap: int | None,
    ) -> list[tuple[str, str]]:
        """Return users and threads with user turns that `kind` has not read, longest waiting first.

        It must have read the thread before `before`, or never; then the turns must be of the last NEW_THREAD_WINDOW.
        Leave out users who had `cap` episodes on `day`.
        """
        rows = await tx.fetch(
            _format_statement("waiting"),
            principal.tenant_id,
            user_id,
            kind,
            before,
            most,
            before - NEW_THREAD_WINDOW,
            category,
            list(without),
            day,
            cap,
        )
        return [(row["user_id"], row["thread_id"]) for row in rows]

    async def list_insight_users(
        self, tx: ReadTx, principal: Principal, user_id: str | None, before: datetime, most: int
    ) -> list[str]:
        """Return users with episodes that no insight has used yet."""
        return [
            row["user_id"]
            for row in await tx.fetch(_format_statement("insight_users"), principal.tenant_id, user_id, before, most)
        ]

    async def load_material(
        self,
        tx: ReadTx,
        principal: Principal,
        user_id: str,
        policy: InsightPolicy,
        without: Sequence[str],
        categories: Sequence[str],
    ) -> InsightMaterial:
        """Return the memories that new insights may use, of these categories, and the user's existing insights."""
        row = await tx.fetchrow(_format_statement("position"), principal.tenant_id, user_id, WHOLE_USER, "insight")
        mark = ReadPosition(row["rev"], row["at"]) if row else None
        since = mark.at if mark else None

        async def newest_of_type(type_: MemoryType, most: int, since: datetime | None = None) -> list[Memory]:
            return await self.load_newest(tx, principal, user_id, type_, since, without, most, categories)

        return InsightMaterial(
            mark,
            await newest_of_type(MemoryType.episodic, policy.activity, since),
            await newest_of_type(MemoryType.semantic, policy.facts, since),
            await newest_of_type(MemoryType.turn, TALK_TURNS),
            await self.load_newest(tx, principal, user_id, MemoryType.insight, None, (), MAX_EXISTING_INSIGHTS),
        )

    async def load_newest(
        self,
        tx: ReadTx,
        principal: Principal,
        user_id: str,
        type_: MemoryType,
        since: datetime | None,
        without: Sequence[str],
        most: int,
        categories: Sequence[str] | None = None,
    ) -> list[Memory]:
        """Return the user's memories of a type, last changed first."""
        rows = await tx.fetch(
            _format_statement("newest"),
            principal.tenant_id,
            user_id,
            type_,
            since,
            list(without),
            most,
            None if categories is None else list(categories),
        )
        return _memories_from_rows(rows)

    async def find_nearest(
        self,
        tx: ReadTx,
        principal: Principal,
        like: NewMemory,
        vector: Vector,
        since: datetime,
        without: Sequence[str],
        most: int,
    ) -> list[Memory]:
        """Return the user's unpinned memories of the same type and category changed since, nearest first."""
        rows = await tx.fetch(
            _format_statement("nearest", self._space),
            principal.tenant_id,
            like.user_id,
            like.type,
            like.category,
            since,
            list(without),
            HalfVector(vector),
            most,
        )
        return _memories_from_rows(rows)

    async def load_summary(self, tx: ReadTx, principal: Principal, user_id: str, thread_id: str) -> Memory | None:
        """Return the thread's summary, or None."""
        rows = await tx.fetch(_format_statement("summary"), principal.tenant_id, user_id, thread_id)
        return _memories_from_rows(rows)[0] if rows else None


def _memories_from_rows(rows: Sequence[Row]) -> list[Memory]:
    return [memory_from_row(row) for row in rows]


@cache
def _format_statement(name: str, space: str = "") -> str:
    return load_statements("reflection/transcripts.sql")[name].format(columns=memory_columns("m"), vec=f"vec_{space}")
