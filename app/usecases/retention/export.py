"""Export of everything stored for a user (`docs/contract.md`, Retention)."""

import weakref
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from app.domain.errors import NotFound
from app.domain.outages import TenantBusy
from app.domain.principal import Principal
from app.storage.access_log import AccessLog
from app.storage.engine import LONG_S
from app.storage.retention.export import KINDS, ExportStorage
from app.storage.uow import UnitOfWork

MAX_EXPORTS = 4
"""Maximum of concurrent exports of a tenant. Each holds a page (up to ten checkpoints) in memory until it is read."""


class ExportUser:
    """The use-case that streams an export. A key bound to agents gets the memories of its categories."""

    def __init__(self, uow: UnitOfWork, storage: ExportStorage, access: AccessLog) -> None:
        self._uow = uow
        self._storage = storage
        self._access = access
        self._running: Counter[UUID] = Counter()

    async def export_records(self, principal: Principal, user_id: str) -> AsyncIterator[dict[str, Any]]:
        """Return an iterator of dicts with a `kind`: first `user`, then the kinds of KINDS.

        Raise NotFound if nothing is stored for the user, TenantBusy if MAX_EXPORTS are running.
        """
        await self._access.flush_pending(principal)
        async with self._uow.read(principal, timeout_s=LONG_S) as tx:
            user = await self._storage.get_user(tx, principal, user_id)
        if user is None:
            raise NotFound(f"nothing is stored for user {user_id!r}")
        if self._running.get(principal.tenant_id, 0) >= MAX_EXPORTS:
            raise TenantBusy(f"{MAX_EXPORTS} exports of this tenant are running; try again when one has ended")
        self._running[principal.tenant_id] += 1
        records = self._iterate_records(principal, user_id, user)
        # also releases the slot of an export that is not read to its end
        weakref.finalize(records, self._release_slot, principal.tenant_id)
        return records

    def _release_slot(self, tenant: UUID) -> None:
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]

    async def _iterate_records(
        self, principal: Principal, user_id: str, user: dict[str, Any]
    ) -> AsyncIterator[dict[str, Any]]:
        yield {"kind": "user", **user}
        for kind, size in KINDS.items():
            after = None
            while True:
                async with self._uow.read(principal, timeout_s=LONG_S) as tx:
                    rows = await self._storage.list_records(tx, principal, user_id, kind, after)
                for row in rows:
                    yield {"kind": kind, **row}
                if len(rows) < size:
                    break
                after = rows[-1]["id"]
