"""What changed in a thread, as one agent may see it (seed 003 §1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.config.loader import Policies
from app.domain.principal import Principal
from app.domain.recall.delta_header import DeltaEntry, Header, render_header
from app.storage.recall.delta import DeltaStorage
from app.storage.uow import ReadTx, UnitOfWork


@dataclass(frozen=True, slots=True)
class Delta:
    """`header` is None when nothing visible changed. `more`: visible changes beyond the bullets. `truncated`: changes
    between `since_rev` and the oldest one still logged are gone."""

    since_rev: int
    rev: int
    header: Header | None
    more: int
    truncated: bool
    entries: tuple[DeltaEntry, ...] = ()


class ReadDelta:
    """Reads a thread's changes; the query use-case moves the cursor."""

    def __init__(self, uow: UnitOfWork, storage: DeltaStorage, policies: Policies) -> None:
        self._uow = uow
        self._storage = storage
        self._policies = policies

    async def read_delta(
        self, scope: Principal, thread_id: str, since_rev: int | None, agent: str | None, user_id: str | None = None
    ) -> Delta:
        """The delta for `agent`, procedures aside, or for the key when none is named; never moves a cursor.

        Raises AgentNotAllowed, UnknownAgent.
        """
        categories: Sequence[str] | None = scope.category_list
        if agent is not None:
            categories = self._policies.categories.delta_categories(scope, agent)
        async with self._uow.read(scope) as tx:
            return await self.read_in_transaction(tx, scope, thread_id, since_rev, agent, categories, user_id)

    async def read_in_transaction(
        self,
        tx: ReadTx,
        scope: Principal,
        thread_id: str,
        since_rev: int | None,
        agent: str | None,
        categories: Sequence[str] | None,
        user_id: str | None,
    ) -> Delta:
        """The delta inside an open transaction, since `since_rev` or the agent's cursor for that user, or for all.

        With a `user_id` of what changed of that user's memories only: two users may have threads of one name.
        """
        state = await self._storage.get_thread_state(tx, scope, thread_id, agent, user_id)
        since = state.cursor if since_rev is None else since_rev
        if state.rev <= since:
            return Delta(since, state.rev, None, 0, False)
        limit, truncated = self._policies.delta_bullets, state.is_truncated(since)
        between = (since, state.rev)
        changes = await self._storage.load_changes(tx, scope, thread_id, between, categories, limit, user_id, truncated)
        entries = tuple(self._entry_from_row(row) for row in changes.rows)
        header = render_header(since, entries, limit)
        shown = header.shown if header else 0
        return Delta(since, state.rev, header, changes.total - shown, truncated, entries)

    def _entry_from_row(self, row: Any) -> DeltaEntry:
        known = self._policies.categories.categories.get(row["category"])
        meta = row["meta"]
        return DeltaEntry(
            rev=row["rev"],
            kind=row["event"],
            category=row["category"],
            label=known.label if known else None,
            text=meta.get("text", ""),
            importance=meta.get("importance", 1),
            combined=meta.get("combined"),
        )
