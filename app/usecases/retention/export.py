"""Export of everything stored for a user (`docs/contract.md`, Retention)."""

import base64
import json
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.errors import NotFound
from app.domain.filters import Filters
from app.domain.memory.moments import NOW, Moments
from app.domain.outages import TenantBusy
from app.domain.principal import Principal
from app.ports import BlobStore, Clock
from app.storage.access_log import AccessLog
from app.storage.engine import LONG_S
from app.storage.retention.export import KINDS, ExportStorage
from app.storage.uow import UnitOfWork
from app.usecases.offload import offload_if_large

ATTEMPTS = 3
PART_BYTES = 1 << 20
"""The bytes of a record of kind `file_content`."""
MAX_EXPORTS = 4
"""Maximum of concurrent exports of a tenant. Each holds a page (up to ten checkpoints) in memory until it is read."""


EVERY = Filters()


@dataclass(frozen=True, slots=True)
class _Selected:
    """The records of an export."""

    moments: Moments
    filters: Filters

    @property
    def is_all(self) -> bool:
        """True for all that is stored now."""
        return self.moments.is_now and self.filters == EVERY


class ExportUser:
    """The use-case that streams an export. A key bound to agents gets the memories of its categories."""

    def __init__(
        self,
        uow: UnitOfWork,
        storage: ExportStorage,
        access: AccessLog,
        blobs: BlobStore,
        policies: TenantPolicies,
        clock: Clock,
        find_home: Callable[[UUID], Mapping[str, str | None]],
    ) -> None:
        """`find_home` returns `cluster` and `region` of a tenant's home, nothing without clusters."""
        self._uow = uow
        self._storage = storage
        self._access = access
        self._blobs = blobs
        self._policies = policies
        self._clock = clock
        self._find_home = find_home
        self._running: Counter[UUID] = Counter()

    async def export_records(
        self, principal: Principal, user_id: str, moments: Moments = NOW, filters: Filters = EVERY
    ) -> AsyncIterator[dict[str, Any]]:
        """Return an iterator of dicts with a `kind`: first `user`, then the kinds of KINDS.

        With clusters, the first one has the `cluster` and its `region` that the records come from.
        With filters, or times other than NOW, the only kind after `user` is `memory`: those that match. Raise NotFound
        if nothing is stored for the user, TenantBusy if MAX_EXPORTS are running, and AsOfInFuture.
        """
        moments.require_past(self._clock.now())
        await self._access.flush_pending(principal)
        async with self._uow.read_anywhere(principal, timeout_s=LONG_S) as tx:
            category = self._policies.of(principal).turn_memory.category
            user = await self._storage.get_user(tx, principal, user_id, category)
        if user is None:
            raise NotFound(f"nothing is stored for user {user_id!r}")
        if self._running.get(principal.tenant_id, 0) >= MAX_EXPORTS:
            raise TenantBusy(f"{MAX_EXPORTS} exports of this tenant are running; try again when one has ended")
        self._running[principal.tenant_id] += 1
        user |= self._find_home(principal.tenant_id)
        records = self._iterate_records(principal, user_id, user, _Selected(moments, filters))
        # also releases the slot of an export that is not read to its end
        weakref.finalize(records, self._release_slot, principal.tenant_id)
        return records

    def _release_slot(self, tenant: UUID) -> None:
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]

    async def _iterate_records(
        self, principal: Principal, user_id: str, user: dict[str, Any], selected: "_Selected"
    ) -> AsyncIterator[dict[str, Any]]:
        yield {"kind": "user", **user}
        for kind, size in KINDS.items() if selected.is_all else [("memory", KINDS["memory"])]:
            after = None
            while True:
                rows = await self._read_page(principal, user_id, kind, after, selected)
                for row in rows:
                    for record in _split_content(row) if kind == "file_content" else (row,):
                        yield {"kind": kind, **record}
                if len(rows) < size:
                    break
                after = rows[-1]["id"]

    async def _read_page(
        self, principal: Principal, user_id: str, kind: str, after: UUID | list[str] | None, selected: "_Selected"
    ) -> list[dict[str, Any]]:
        """Return the page of a kind that follows id `after`, artifacts and uploaded files with their blobs."""
        for attempt in range(ATTEMPTS):
            async with self._uow.read_anywhere(principal, timeout_s=LONG_S) as tx:
                if not selected.is_all:
                    return await self._storage.list_former(
                        tx, principal, user_id, after, selected.moments, selected.filters.row_conditions() or None
                    )
                category = self._policies.of(principal).turn_memory.category
                rows = await self._storage.list_records(tx, principal, user_id, kind, after, category)
            try:
                if kind == "artifact":
                    return [await self._add_payload(principal, row) for row in rows]
                if kind == "file_content":
                    return [{**row, "content": await self._read_content(principal, row)} for row in rows]
                return rows
            except NotFound:  # an artifact or a file changed meanwhile, and its former blob is deleted
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _add_payload(self, principal: Principal, row: dict[str, Any]) -> dict[str, Any]:
        """Return an artifact with the content of its blob as `payload`, None if it has no content."""
        content = await self._read_content(principal, row)
        del row["content"]
        return {**row, "payload": await offload_if_large(len(content), json.loads, content) if content else None}

    async def _read_content(self, principal: Principal, row: dict[str, Any]) -> bytes | None:
        content: bytes | None = row["content"]
        if content is None and row["hosted_uri"] is not None:
            content = await self._blobs.get_blob(principal, row["hosted_uri"])
        return content


def _split_content(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an uploaded file in parts of PART_BYTES, each as base64 and with its number from 0."""
    content: bytes = row.pop("content")
    parts = max(1, -(-len(content) // PART_BYTES))
    for part in range(parts):
        data = base64.b64encode(content[part * PART_BYTES : (part + 1) * PART_BYTES]).decode()
        yield {**row, "part": part, "parts": parts, "data": data}
