"""A user's context, known with their consent: decide, read, withdraw and expire (`docs/contract.md`, Consent)."""

from uuid import UUID

from app.domain.consent.patches import Patch, PatchState, UserContext, render_profile
from app.domain.idempotency import IdempotencyKey
from app.domain.paging import Page, cut_page, decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.storage.uow import WriteTx
from app.usecases.consent.decisions import Decisions
from app.usecases.consent.proposals import Proposals
from app.usecases.consent.questions import ConsentInChat


class Consent:
    """The use-cases of consent. They raise AgentNotAllowed for a key bound to agents that do not see profiles."""

    def __init__(self, decisions: Decisions, secret: bytes) -> None:
        self.proposals = Proposals(decisions, secret)
        self.chat = ConsentInChat(decisions)
        self._decisions = decisions
        self._storage = decisions.storage
        self._policies = decisions.policies
        self._clock = decisions.clock

    async def decide_patch(
        self, principal: Principal, user_id: str, patch_id: UUID, *, approve: bool, key: IdempotencyKey | None = None
    ) -> Patch:
        """Approve or reject a proposal. Raise NotFound, or WrongState if it is decided or expired."""
        self._decisions.require_access(principal)
        state = PatchState.approved if approve else PatchState.rejected

        async def decide_in_tx(tx: WriteTx) -> Patch:
            patch = await self._decisions.load_open_patch(tx, principal, user_id, patch_id, key)
            if patch is not None:
                await self._decisions.close_patch(tx, principal, patch, state, "route", principal.actor_name)
            return await self._decisions.load_patch(tx, principal, user_id, patch_id)

        return await self._decisions.run_with_retries(principal, decide_in_tx)

    async def list_patches(
        self, principal: Principal, user_id: str, state: PatchState | None, cursor: str | None, limit: int
    ) -> Page[Patch]:
        """Return a page of at most `limit` proposals; `state` None means any. Raise NotFound or InvalidCursor."""
        self._decisions.require_access(principal)
        after = decode_cursor(cursor)
        now = self._clock.now()
        async with self._decisions.uow.read_anywhere(principal) as tx:
            await self._decisions.require_user(tx, principal, user_id)
            patches = await self._storage.load_page(tx, principal, user_id, state, now, after, limit + 1)
        items = [patch.as_of(now) for patch in patches]
        return cut_page(items, limit, lambda patch: encode_cursor((patch.created_at, patch.id)))

    async def load_context(self, principal: Principal, user_id: str) -> UserContext:
        """Return the values known of a user; raise NotFound if nothing is stored for the user."""
        self._decisions.require_access(principal)
        async with self._decisions.uow.read_anywhere(principal) as tx:
            await self._decisions.require_user(tx, principal, user_id)
            values = await self._storage.load_values(tx, principal, user_id)
        order = {name: place for place, name in enumerate(self._policies.of(principal).consent.field_names)}
        values.sort(key=lambda value: order.get(value.field, len(order)))  # stable: oldest first within a field
        return UserContext(values, render_profile(values))

    async def withdraw_values(self, principal: Principal, user_id: str, name: str, value: str | None = None) -> int:
        """Delete the values of a field, or only `value` of a field that holds several. Return how many.

        The field may have left the rules since. Raise NotFound if nothing is stored for the user, UnknownField for a
        name that is neither in the rules nor in a proposal of this user.
        """
        self._decisions.require_access(principal)

        async def withdraw_in_tx(tx: WriteTx) -> int:
            await self._decisions.require_user(tx, principal, user_id)
            deleted = await self._storage.delete_values(tx, principal, user_id, name, value)
            if not deleted and not await self._storage.has_field(tx, principal, user_id, name):
                self._policies.of(principal).consent.is_sensitive(name)
            for before, patch_id in deleted:
                patch = await self._decisions.load_patch(tx, principal, user_id, patch_id)
                meta = {"before": {"value": before}, "after": {}}
                await self._decisions.record_entry(
                    tx, principal, patch, "withdrawn", principal.actor_name, meta, patch_id
                )
            return len(deleted)

        return await self._decisions.run_with_retries(principal, withdraw_in_tx)

    async def expire_patches(self, principal: Principal, *, dry_run: bool = False) -> int:
        """Expire the proposals that nobody decided in time, batch by batch. Return how many expired.

        With `dry_run`, change nothing and return how many would expire.
        """
        now = (await self._clock.trusted_time()).moment
        expired = 0
        batch = self._policies.defaults.consent.batch
        if dry_run:
            async with self._decisions.uow.read(principal) as read:
                return await self._storage.count_due(read, principal, now)
        while True:
            async with self._decisions.uow.write(principal) as tx:
                due = await self._storage.lock_due_patches(tx, principal, now, batch)
                for patch in due:
                    await self._decisions.close_patch(
                        tx, principal, patch, PatchState.expired, "expiry", principal.actor_name
                    )
            expired += len(due)
            if len(due) < batch:
                return expired
