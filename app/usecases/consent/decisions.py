"""Decisions about proposals: state, value and history change in one transaction, whoever decides."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.consent.patches import ConsentEntry, DecisionWay, Patch, PatchState
from app.domain.errors import AgentNotAllowed, NotFound, WrongState
from app.domain.idempotency import IdempotencyKey
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.ports import TrustedClock
from app.storage.consent.patches import ConsentStorage
from app.storage.journal import Journal, KeyRecord
from app.storage.uow import ReadTx, UnitOfWork, WriteTx

T = TypeVar("T")
ATTEMPTS = 10
ACCEPTED_STATES = frozenset({PatchState.approved, PatchState.applied})


class Decisions:
    """The access to proposals. Each change locks the user's row, so concurrent decisions run one after the other."""

    def __init__(
        self, uow: UnitOfWork, storage: ConsentStorage, journal: Journal, policies: TenantPolicies, clock: TrustedClock
    ) -> None:
        self.uow = uow
        self.storage = storage
        self.policies = policies
        self.clock = clock
        self._journal = journal

    def require_access(self, principal: Principal) -> None:
        """Raise AgentNotAllowed for a key bound to agents that do not see profiles."""
        category = self.policies.of(principal).consent.category
        if principal.categories is not None and category not in principal.categories:
            raise AgentNotAllowed("none of this key's agents may see the context of users")

    async def run_with_retries(self, principal: Principal, work: Callable[[WriteTx], Awaitable[T]]) -> T:
        """Run `work` in a transaction; retry it after a conflict with an erasure or a deadlock."""
        for _attempt in range(ATTEMPTS - 1):
            try:
                async with self.uow.write(principal) as tx:
                    return await work(tx)
            except WriteContention:
                continue
        async with self.uow.write(principal) as tx:
            return await work(tx)

    async def require_user(self, tx: ReadTx, principal: Principal, user_id: str) -> None:
        """Lock the user's row in a write transaction. Raise NotFound if nothing is stored for the user."""
        if not await self.storage.is_known_user(tx, principal, user_id):
            raise NotFound(f"nothing is stored for user {user_id!r}")

    async def replayed_response(
        self, tx: WriteTx, principal: Principal, user_id: str, key: IdempotencyKey | None, response: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Record `response` under the key; return an earlier response, None the first time.

        Raise IdempotencyMismatch if the key was used for another request.
        """
        if key is None:
            return None
        return (await self._journal.record(principal, [], keys=[KeyRecord(key, response, user_id)], tx=tx)).replay

    async def load_open_patch(
        self, tx: WriteTx, principal: Principal, user_id: str, patch_id: UUID, key: IdempotencyKey | None
    ) -> Patch | None:
        """Return a proposal that can be decided, None if this key was answered before.

        Raise NotFound, WrongState or IdempotencyMismatch.
        """
        await self.require_user(tx, principal, user_id)
        patch = await self.load_patch(tx, principal, user_id, patch_id)
        if await self.replayed_response(tx, principal, user_id, key, {"id": str(patch_id)}) is not None:
            return None
        if not patch.is_open_at(self.clock.now()):
            raise WrongState(f"the proposal is {patch.state}")
        return patch

    async def load_patch(self, tx: WriteTx, principal: Principal, user_id: str, patch_id: UUID) -> Patch:
        """Return the proposal in its current state; raise NotFound."""
        if (patch := await self.storage.load_patch(tx, principal, user_id, patch_id)) is None:
            raise NotFound("no such proposal of this user")
        return patch.as_of(self.clock.now())

    async def close_patch(
        self,
        tx: WriteTx,
        principal: Principal,
        patch: Patch,
        state: PatchState,
        way: DecisionWay,
        by: str,
        more: Mapping[str, object] | None = None,
        answer: UUID | None = None,
    ) -> None:
        """Close a proposal with `state`. Its value becomes known if it is approved or applied.

        `more` goes into history. `answer` is the turn that decides in a chat.
        """
        now = self.clock.now()
        await self.storage.close_patch(tx, principal, patch, state, now, by, way, answer)
        meta: dict[str, object] = {"way": way, **(more or {})}
        if state not in ACCEPTED_STATES:
            await self.record_entry(tx, principal, patch, state, by, meta)
            return
        before = await self.storage.put_value(tx, principal, patch, now)
        meta |= {"before": {"value": before[0]} if before else {}, "after": {"value": patch.value}}
        await self.record_entry(tx, principal, patch, state, by, meta, before[1] if before else None, patch.id)

    async def record_entry(
        self,
        tx: WriteTx,
        principal: Principal,
        patch: Patch,
        action: str,
        actor: str,
        meta: Mapping[str, object],
        old_ref: UUID | None = None,
        new_ref: UUID | None = None,
    ) -> None:
        """Write a history row for a proposal. `old_ref` and `new_ref` are the proposals before and after."""
        full = {"user_id": patch.user_id, "field": patch.field, "value": patch.value, **meta}
        await self._journal.record_consent(tx, principal, actor, ConsentEntry(patch.id, action, full, old_ref, new_ref))
