"""Everything held of a user, for the user (SPEC §4)."""

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
"""Exports of a tenant: each holds a page, of up to ten checkpoints, until its reader has taken it."""


class ExportUser:
    """Streams; a key bound to agents gets what lies in its categories."""

    def __init__(self, uow: UnitOfWork, storage: ExportStorage, access: AccessLog) -> None:
        self._uow = uow
        self._storage = storage
        self._access = access
        self._running: Counter[UUID] = Counter()

    async def export_records(self, scope: Principal, user_id: str) -> AsyncIterator[dict[str, Any]]:
        """Dicts with `kind`: `user`, then those of KINDS.

        Raises NotFound, TenantBusy.
        """
        await self._access.flush_pending(scope)
        async with self._uow.read(scope, timeout_s=LONG_S) as tx:
            user = await self._storage.get_user(tx, scope, user_id)
        if user is None:
            raise NotFound(f"nothing is held of user {user_id!r}")
        if self._running.get(scope.tenant_id, 0) >= MAX_EXPORTS:
            raise TenantBusy(f"{MAX_EXPORTS} exports of this tenant are under way; try again when one has ended")
        self._running[scope.tenant_id] += 1
        records = self._iterate_records(scope, user_id, user)
        weakref.finalize(
            records, self._release_slot, scope.tenant_id
        )  # also of one that nobody reads to its end, or at all
        return records

    def _release_slot(self, tenant: UUID) -> None:
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]

    async def _iterate_records(
        self, scope: Principal, user_id: str, user: dict[str, Any]
    ) -> AsyncIterator[dict[str, Any]]:
        yield {"kind": "user", **user}
        for kind, size in KINDS.items():
            after = None
            while True:
                async with self._uow.read(scope, timeout_s=LONG_S) as tx:
                    rows = await self._storage.list_records(tx, scope, user_id, kind, after)
                for row in rows:
                    yield {"kind": kind, **row}
                if len(rows) < size:
                    break
                after = rows[-1]["id"]
