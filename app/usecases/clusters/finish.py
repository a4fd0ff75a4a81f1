"""Moves whose process was killed go on by themselves, and moves that tenants asked for begin."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from app.domain.clusters.move import Move
from app.domain.errors import MnemaError
from app.storage.clusters.homes import Homes
from app.usecases.clusters.move import MoveTenants

SEEN_S = 60.0
"""The seconds between two notes of a process that moves a tenant. `request_move` counts on one for five minutes."""
log = structlog.get_logger(__name__)


class FinishMoves:
    """The use-case that goes on with a move that no process runs, with the code of the command."""

    def __init__(self, homes: Homes, mover: MoveTenants) -> None:
        self._homes = homes
        self._mover = mover

    async def finish_one(self) -> Move | None:
        """Finish or undo one move that no process runs; return it as it ended, None if there is none.

        If there is none, delete the old copies that owe erasures.
        First come tenants that may have no home. A move that cannot go on now is logged, and the next one is tried.
        """
        async with self._being_seen():
            for stopped in await self._homes.list_stopped_moves(requests=True):
                try:
                    if (move := await self._mover.finish_move(stopped.tenant_id)) is not None:
                        return move
                except MnemaError as error:
                    log.warning(
                        "move_not_finished", tenant=str(stopped.tenant_id), code=error.code, detail=error.detail
                    )
            await self._settle_erasures()
        return None

    async def _settle_erasures(self) -> None:
        """Delete the copies in former homes that owe an erasure. Those of a cluster that is away wait for it."""
        for tenant_id in dict.fromkeys(owed.tenant_id for owed in await self._homes.list_owed()):
            try:
                await self._mover.forget_old(tenant_id)
                log.info("old_copies_deleted", tenant=str(tenant_id))
            except MnemaError as error:
                log.warning("old_copies_kept", tenant=str(tenant_id), code=error.code, detail=error.detail)

    @asynccontextmanager
    async def _being_seen(self) -> AsyncIterator[None]:
        """Say in the directory that this installation can move tenants, again and again while the block runs."""
        await self._mover.note_presence()

        async def repeat() -> None:
            while True:
                await asyncio.sleep(SEEN_S)
                try:
                    await self._mover.note_presence()
                except MnemaError as error:
                    log.warning("mover_not_seen", code=error.code, detail=error.detail)

        task = asyncio.create_task(repeat())
        try:
            yield
        finally:
            task.cancel()
