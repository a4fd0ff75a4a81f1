"""The turns that a server keeps on its disk while the database is away, and stores later (`docs/chat.md`)."""

import asyncio
import contextlib
import time
from collections import deque
from dataclasses import replace
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog

from app.config.tenant_policies import TenantPolicies
from app.domain.errors import LimitReached, MnemaError
from app.domain.memory.kept_turn import KeptTurn
from app.domain.memory.memory import NewMemory
from app.domain.outages import (
    DatabaseUnavailable,
    DataLocked,
    ServerBusy,
    SpoolUnavailable,
    TenantBusy,
    WriteContention,
)
from app.domain.principal import Principal
from app.domain.text_rules import normalise_text
from app.ports import Clock, TurnSpool
from app.shares import acting_tenant
from app.storage.chat.turns import ChatTurnStorage
from app.usecases.memory.turns import CheckedTurn, StoreTurn

log = structlog.get_logger(__name__)
_AWAY: Final = (DatabaseUnavailable, ServerBusy, TimeoutError)
"""Errors after which other turns would fail, too."""
OUTAGES: Final = (*_AWAY, WriteContention)
"""Errors after which the same turn can be stored later."""
REPEATED: Final = timedelta(minutes=10)
"""The time in which an equal message counts as sent again, if the first one has no answer yet."""
ROUND_S: Final = 5.0
"""Seconds after which a round of storing ends, so that the end of a server waits no longer for it."""
KEEP_S: Final = 5.0
"""Seconds that the disk may take for a turn."""
WAIT_S: Final = 2.0
"""Seconds until a turn that the database did not take is tried again."""
POSTPONED_S: Final = 60.0
"""Seconds until a turn that was refused is tried again."""
LONGEST_KEPT: Final = timedelta(days=7)
"""The time after which a turn that is still refused is given up."""


class KeptTurns:
    """The use-case that keeps turns and stores them later, each of them once."""

    def __init__(
        self, spool: TurnSpool, turns: StoreTurn, storage: ChatTurnStorage, policies: TenantPolicies, clock: Clock
    ) -> None:
        self._spool = spool
        self._turns = turns
        self._storage = storage
        self._policies = policies
        self._clock = clock
        self.lost_count = 0
        """The number of turns of this process that could neither be stored nor kept."""

    async def keep_turn(self, turn: KeptTurn) -> bool:
        """Keep a turn that the database did not store. Return False, and log it, if this server cannot keep it."""
        with contextlib.suppress(TimeoutError):  # a disk that hangs must not delay the chat
            async with asyncio.timeout(KEEP_S):
                if await self._spool.keep_turn(turn):
                    return True
        self.lost_count += 1
        log.error("chat_turn_lost", tenant_id=str(turn.principal.tenant_id), memory_id=str(turn.memory_id))
        return False

    async def is_repeated(self, principal: Principal, turn: NewMemory, text: str) -> bool:
        """Return True if the newest turn of the conversation is this message, is recent and has no answer.

        `text`: the message as `normalise_text` returns it.
        """
        assert turn.created_at is not None
        since = turn.created_at - REPEATED
        newest = await self._storage.find_newest_turn(principal, turn.user_id, turn.thread_id or "", since)
        return newest is not None and newest.role == "user" and normalise_text(newest.text) == text

    async def store_kept(self, of_tenant: UUID | None = None) -> None:
        """Store the turns that wait, the oldest first: of one tenant, or of each tenant in turn. Stop at an outage.

        A call lasts little more than ROUND_S; the remaining turns wait for the next call.
        """
        try:
            waiting = await self._spool.list_tenants()
            await self._store_in_turn(deque(tenant for tenant in waiting if of_tenant in (None, tenant)))
        except SpoolUnavailable as error:
            log.warning("chat_spool_failed", error=error.detail)

    async def _store_in_turn(self, tenants: deque[UUID]) -> None:
        end = time.monotonic() + ROUND_S
        while tenants and time.monotonic() < end:
            tenant = tenants.popleft()
            acting = acting_tenant.set(tenant)
            try:
                if (turn := await self._spool.claim_turn(tenant)) is None:
                    continue
                if not await self._store_or_wait(turn):
                    return
            finally:
                acting_tenant.reset(acting)
            tenants.append(tenant)

    async def _store_or_wait(self, turn: KeptTurn) -> bool:
        """Store a turn, or postpone it a little. Return False if the database is away."""
        try:
            await self._store(turn)
        except (TenantBusy, DataLocked, LimitReached):
            await self._spool.postpone_turn(turn, WAIT_S)
        except _AWAY as error:
            await self._spool.postpone_turn(turn, WAIT_S)  # others go first: this turn may cause the failure
            log.warning("kept_turns_wait", error=getattr(error, "code", type(error).__name__))
            return False
        return True

    async def close(self) -> None:
        """Close the file of the turns."""
        await self._spool.close()

    async def _store(self, kept: KeptTurn) -> None:
        """Store a turn and remove it, or postpone it if it is refused. Raise TenantBusy, LimitReached or an outage."""
        try:
            kept = self._with_categories(kept)
            if not await self._is_settled(kept):
                new = self._turns.check_turn(kept.principal, kept.turn, trim=True)  # the rules may have changed since
                checked = CheckedTurn(new, kept.memory_id, waited=True)
                await self._turns.store_checked(kept.principal, checked, key=kept.key)
        except (*_AWAY, LimitReached):
            raise
        except Exception as error:  # also if the tenant is gone
            if await self._give_time(kept, error):
                return
        await self._spool.remove_turn(kept)

    def _with_categories(self, kept: KeptTurn) -> KeptTurn:
        """Return the turn with the categories that the agents of its key may use now."""
        agents = kept.principal.agents
        if agents is None:
            return kept
        visible = self._policies.of(kept.principal).categories.visible_to(agents)
        return replace(kept, principal=replace(kept.principal, categories=visible))

    async def _is_settled(self, kept: KeptTurn) -> bool:
        """Return True if the turn was stored already, or is a message that the client sent again."""
        turn = kept.turn
        if await self._storage.was_stored(kept.principal, kept.memory_id):
            return True
        return turn.role == "user" and await self.is_repeated(kept.principal, turn, normalise_text(turn.text))

    async def _give_time(self, kept: KeptTurn, error: Exception) -> bool:
        """Postpone a refused turn. Return False if its time is over."""
        assert kept.turn.created_at is not None
        place = {"tenant_id": str(kept.principal.tenant_id), "memory_id": str(kept.memory_id)}
        code = error.code if isinstance(error, MnemaError) else type(error).__name__
        if self._clock.now() - kept.turn.created_at > LONGEST_KEPT:
            self.lost_count += 1
            log.error("kept_turn_given_up", error=code, **place)
            return False
        log.warning("kept_turn_refused", error=code, **place)
        await self._spool.postpone_turn(kept, POSTPONED_S)
        return True
