"""What is known of a user with their consent: decided, read, withdrawn, expired (seed 003 §10, SPEC §8)."""

from dataclasses import dataclass
from uuid import UUID

from app.domain.consent.patches import Context, Patch, PatchState, profile
from app.domain.idempotency import IdempotencyKey
from app.domain.paging import decode_cursor, encode_cursor
from app.domain.principal import Scope
from app.storage.uow import WriteTx
from app.usecases.consent.decisions import Decisions
from app.usecases.consent.proposals import Proposals
from app.usecases.consent.questions import ConsentInChat


@dataclass(frozen=True, slots=True)
class PatchPage:
    """One page, newest first; `next_cursor` None on the last."""

    items: list[Patch]
    next_cursor: str | None


class Consent:
    """A key bound to agents gets here if one of them may see the category `profile` ◆."""

    def __init__(self, decisions: Decisions, secret: bytes) -> None:
        self.proposals = Proposals(decisions, secret)
        self.chat = ConsentInChat(decisions)
        self._decisions = decisions
        self._storage, self._policy, self._clock = decisions.storage, decisions.policy, decisions.clock

    async def decide(
        self, scope: Scope, user_id: str, patch_id: UUID, *, approve: bool, key: IdempotencyKey | None = None
    ) -> Patch:
        """Approve or reject, as who may; raises NotFound, WrongState when it was decided before or has expired."""
        self._decisions.allow(scope)
        state = PatchState.approved if approve else PatchState.rejected

        async def work(tx: WriteTx) -> Patch:
            patch = await self._decisions.open(tx, scope, user_id, patch_id, key)
            if patch is not None:
                await self._decisions.close(tx, scope, patch, state, "route", scope.actor)
            return await self._decisions.stored(tx, scope, user_id, patch_id)

        return await self._decisions.attempts(scope, work)

    async def page(
        self, scope: Scope, user_id: str, state: PatchState | None, cursor: str | None, limit: int
    ) -> PatchPage:
        """Proposals of a user, newest first; raises NotFound, InvalidCursor."""
        self._decisions.allow(scope)
        after, now = decode_cursor(cursor), self._clock.now()
        async with self._decisions.uow.read(scope) as tx:
            await self._decisions.require(tx, scope, user_id)
            found = await self._storage.page(tx, scope, user_id, state, now, after, limit + 1)
        items = [patch.as_of(now) for patch in found[:limit]]
        more = len(found) > limit
        return PatchPage(items, encode_cursor((items[-1].created_at, items[-1].id)) if more else None)

    async def context(self, scope: Scope, user_id: str) -> Context:
        """What is known of a user; raises NotFound for one of whom nothing is held at all."""
        self._decisions.allow(scope)
        async with self._decisions.uow.read(scope) as tx:
            await self._decisions.require(tx, scope, user_id)
            values = await self._storage.values(tx, scope, user_id)
        order = {name: place for place, name in enumerate(self._policy.fields)}
        values.sort(key=lambda known: order.get(known.field, len(order)))  # stable: oldest first within a field
        return Context(values, profile(values))

    async def withdraw(self, scope: Scope, user_id: str, name: str, value: str | None = None) -> int:
        """Forget what is known in a field; with `value`, of one that holds several, this one. How many values.

        Raises NotFound for one of whom nothing is held, UnknownField.
        """
        self._decisions.allow(scope)
        self._policy.is_sensitive(name)

        async def work(tx: WriteTx) -> int:
            await self._decisions.require(tx, scope, user_id)
            gone = await self._storage.withdraw(tx, scope, user_id, name, value)
            for before, patch_id in gone:
                patch = await self._decisions.stored(tx, scope, user_id, patch_id)
                meta = {"before": {"value": before}, "after": {}}
                await self._decisions.enter(tx, scope, patch, "withdrawn", scope.actor, meta, patch_id)
            return len(gone)

        return await self._decisions.attempts(scope, work)

    async def expire(self, scope: Scope, *, dry_run: bool = False) -> int:
        """End the proposals that nobody decided in time, some a transaction; how many, or how many it would be."""
        now, done = self._clock.now(), 0
        if dry_run:
            async with self._decisions.uow.read(scope) as read:
                return await self._storage.count_due(read, scope, now)
        while True:
            async with self._decisions.uow.write(scope) as tx:
                due = await self._storage.due(tx, scope, now, self._policy.batch)
                for patch in due:
                    await self._decisions.close(tx, scope, patch, PatchState.expired, "expiry", scope.actor)
            done += len(due)
            if len(due) < self._policy.batch:
                return done
