"""Everything held of a user, for the user (SPEC §4)."""

from collections.abc import AsyncIterator
from typing import Any

from app.domain.errors import NotFound
from app.domain.scope import Scope
from app.storage.access import AccessLog
from app.storage.engine import LONG_S
from app.storage.export import KINDS, ExportStorage
from app.storage.uow import UnitOfWork


class ExportUser:
    """Streams; a key bound to agents gets what lies in its categories."""

    def __init__(self, uow: UnitOfWork, storage: ExportStorage, access: AccessLog) -> None:
        self._uow = uow
        self._storage = storage
        self._access = access

    async def records(self, scope: Scope, user_id: str) -> AsyncIterator[dict[str, Any]]:
        """Dicts with `kind`: `user`, then those of KINDS.

        Raises NotFound.
        """
        await self._access.flush()
        async with self._uow.read(scope, timeout_s=LONG_S) as tx:
            user = await self._storage.user(tx, scope, user_id)
        if user is None:
            raise NotFound(f"nothing is held of user {user_id!r}")
        return self._records(scope, user_id, user)

    async def _records(self, scope: Scope, user_id: str, user: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        yield {"kind": "user", **user}
        for kind, size in KINDS.items():
            after = None
            while True:
                async with self._uow.read(scope, timeout_s=LONG_S) as tx:
                    rows = await self._storage.page(tx, scope, user_id, kind, after)
                for row in rows:
                    yield {"kind": kind, **row}
                if len(rows) < size:
                    break
                after = rows[-1]["id"]
