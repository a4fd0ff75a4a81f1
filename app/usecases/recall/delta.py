"""The delta of a thread: its changes since a revision, as one agent may see them (`docs/contract.md`, Recall)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.config.loader import Policies
from app.config.tenant_policies import TenantPolicies
from app.domain.principal import Principal
from app.domain.recall.delta_header import DeltaEntry, Header, render_header
from app.storage.recall.delta import DeltaStorage
from app.storage.uow import ReadTx, UnitOfWork


@dataclass(frozen=True, slots=True)
class Delta:
    """The net changes of a thread that a reader may see. `header` is None if there are none.

    `rev` is the newest revision of a change in the reader's categories. `more` counts net changes without a bullet.
    `truncated`: the log no longer holds all changes of these categories since `since_rev`.
    """

    since_rev: int
    rev: int
    header: Header | None
    more: int
    truncated: bool
    entries: tuple[DeltaEntry, ...] = ()


class ReadDelta:
    """A reader of a thread's changes. It never moves a cursor; a query does."""

    def __init__(self, uow: UnitOfWork, storage: DeltaStorage, policies: TenantPolicies) -> None:
        self._uow = uow
        self._storage = storage
        self._policies = policies

    async def read_delta(
        self, principal: Principal, thread_id: str, since_rev: int | None, agent: str | None, user_id: str | None = None
    ) -> Delta:
        """Return the delta for `agent` without procedures, or for the key's categories if `agent` is None.

        Raise AgentNotAllowed if the key is not bound to the agent, UnknownAgent if the agent has no allowlist.
        """
        categories: Sequence[str] | None = principal.category_list
        if agent is not None:
            categories = self._policies.of(principal).categories.delta_categories(principal, agent)
        async with self._uow.read_anywhere(principal) as tx:
            return await self.read_in_transaction(tx, principal, thread_id, since_rev, agent, categories, user_id)

    async def read_in_transaction(
        self,
        tx: ReadTx,
        principal: Principal,
        thread_id: str,
        since_rev: int | None,
        agent: str | None,
        categories: Sequence[str] | None,
        user_id: str | None,
    ) -> Delta:
        """Return the delta inside an open transaction.

        It starts at `since_rev`; None means the reader's cursor for `user_id`, or for all users if that is None. With a
        `user_id` it contains that user's memories only, because two users may have threads of the same name.
        """
        policies = self._policies.of(principal)
        limit = policies.delta_bullets
        read = await self._storage.read_delta(tx, principal, thread_id, since_rev, agent, user_id, categories, limit)
        entries = tuple(_entry_from_row(policies, row) for row in read.rows)
        header = render_header(read.since, entries, limit, policies.categories.tag_names)
        shown = header.shown if header else 0
        return Delta(read.since, read.rev, header, read.total - shown, read.truncated, entries)


def _entry_from_row(policies: Policies, row: Any) -> DeltaEntry:
    category = policies.categories.categories.get(row["category"])
    return DeltaEntry(
        rev=row["rev"],
        kind=row["kind"],
        category=row["category"],
        label=category.label if category else None,
        text=row["text"] or "",
        importance=row["importance"],
        combined=row["combined"],
        memory_id=row["memory_id"],
        version=row["version"],
        user_pk=row["user_pk"],
    )
