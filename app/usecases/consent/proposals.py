"""Proposing what may be known of a user (seed 003 §10)."""

from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from app.domain.consent.patches import Patch, PatchState, Signal, applies_by_itself, erasure_text
from app.domain.errors import AgentNotAllowed, ErasedText, InvalidInput, TooManyPatches
from app.domain.idempotency import IdempotencyKey
from app.domain.principal import Scope
from app.domain.tombstones import tombstones
from app.storage.identity import new_id
from app.storage.uow import WriteTx
from app.usecases.consent.decisions import Decisions

Action = Literal["created", "joined", "unchanged", "rejected"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A value for a field; `evidence`: the memory it was learnt from."""

    user_id: str
    field: str
    value: str
    evidence: UUID | None = None
    thread_id: str | None = None
    agent_id: str | None = None


@dataclass(frozen=True, slots=True)
class Proposed:
    """What came of it. `joined`: the same value waits already; `unchanged`: it is known; `rejected`: it was, lately."""

    patch: Patch
    action: Action


class Proposals:
    """Whoever may write may propose; nobody proposes the same twice."""

    def __init__(self, decisions: Decisions, secret: bytes) -> None:
        self._decisions = decisions
        self._storage, self._policy, self._clock = decisions.storage, decisions.policy, decisions.clock
        self._secret = secret

    async def propose(self, scope: Scope, proposal: Proposal, key: IdempotencyKey | None = None) -> Proposed:
        """Propose a value; one that needs nobody's decision is known at once. The user need not be known before.

        Raises UnknownField, EmptyText, TextTooLong, NulByte, InvalidInput for what is no evidence, ErasedText,
        TooManyPatches, AgentNotAllowed, IdempotencyMismatch, WriteContention.
        """
        self._decisions.allow(scope)
        if proposal.agent_id is not None and scope.agents is not None and proposal.agent_id not in scope.agents:
            raise AgentNotAllowed(f"this key may not speak as {proposal.agent_id!r}")
        self._policy.is_sensitive(proposal.field)
        checked = replace(proposal, value=self._policy.checked_value(proposal.value))
        speaking = scope.speaking_as(proposal.agent_id)

        async def work(tx: WriteTx) -> Proposed:
            await self._storage.know(tx, speaking, checked.user_id)
            return await self._propose(tx, speaking, checked, key)

        return await self._decisions.attempts(scope, work)

    async def _propose(self, tx: WriteTx, scope: Scope, proposal: Proposal, key: IdempotencyKey | None) -> Proposed:
        old, action = await self._same(tx, scope, proposal)
        patch = self._new(scope, proposal) if old is None or action == "created" else old
        response = {"id": str(patch.id), "action": action}
        if (first := await self._decisions.replay(tx, scope, proposal.user_id, key, response)) is not None:
            before = await self._decisions.stored(tx, scope, proposal.user_id, UUID(first["id"]))
            return Proposed(before, first["action"])
        if action in ("created", "joined"):
            signal = await self._signal(tx, scope, patch, proposal.evidence)
            if action == "created":
                patch = await self._create(tx, scope, patch, old, signal)
            else:
                patch = await self._join(tx, scope, patch, signal)
            if way := applies_by_itself(await self._as_it_stands(tx, scope, patch), self._policy):
                await self._decisions.close(tx, scope, patch, PatchState.applied, way, scope.actor)
        return Proposed(await self._decisions.stored(tx, scope, proposal.user_id, patch.id), action)

    async def _same(self, tx: WriteTx, scope: Scope, proposal: Proposal) -> tuple[Patch | None, Action]:
        """The proposal of the same value, and what that makes of this one."""
        found = await self._storage.same(tx, scope, proposal.user_id, proposal.field, proposal.value)
        if found is None:
            return None, "created"
        patch, stands = found
        now = self._clock.now()
        if stands:
            return patch, "unchanged"
        if patch.open_at(now):
            return patch, "joined"
        if patch.state is PatchState.rejected and self._policy.asked_too_soon(patch.decided_at or now, now):
            return patch, "rejected"
        return patch, "created"

    def _new(self, scope: Scope, proposal: Proposal) -> Patch:
        now = self._clock.now()
        return Patch(
            id=new_id(),
            user_id=proposal.user_id,
            field=proposal.field,
            value=proposal.value,
            sensitive=self._policy.is_sensitive(proposal.field),
            state=PatchState.pending,
            actor=scope.actor,
            created_at=now,
            expires_at=self._policy.expires_at(now),
            thread_id=proposal.thread_id,
            keys=_keys(scope),
        )

    async def _signal(self, tx: WriteTx, scope: Scope, patch: Patch, evidence: UUID | None) -> Signal | None:
        text = erasure_text(patch.field, patch.value)
        hashes = tombstones(self._secret, scope.tenant_id, patch.user_id, [text], [])
        if await self._storage.erased(tx, scope, hashes):
            raise ErasedText("this value was erased at the person's request and is not stored again")
        if evidence is None:
            return None
        found = await self._storage.evidence(tx, scope, patch, [evidence], self._clock.now())
        if not found:
            raise InvalidInput("evidence: no turn, fact, episode or insight of this user")
        return found[0]

    async def _as_it_stands(self, tx: WriteTx, scope: Scope, patch: Patch) -> Patch:
        """The proposal with what its memories say now: one that was changed or deleted since may say it no more."""
        if patch.sensitive or not patch.signals:
            return patch
        seen_by_all, ids = replace(scope, categories=None), [signal.memory_id for signal in patch.signals]
        return replace(
            patch, signals=tuple(await self._storage.evidence(tx, seen_by_all, patch, ids, self._clock.now()))
        )

    async def _create(self, tx: WriteTx, scope: Scope, patch: Patch, old: Patch | None, signal: Signal | None) -> Patch:
        if old is not None and old.state is PatchState.pending:  # nobody decided in time
            await self._decisions.close(tx, scope, old, PatchState.expired, "expiry", scope.actor)
        waiting, values = await self._storage.room(tx, scope, patch.user_id, patch.field, patch.created_at)
        if waiting >= self._policy.pending or values >= self._policy.values:
            raise TooManyPatches()
        patch = replace(patch, signals=(signal,) if signal else ())
        await self._storage.propose(tx, scope, patch)
        await self._decisions.enter(tx, scope, patch, "proposed", scope.actor, _evidence(signal))
        return patch

    async def _join(self, tx: WriteTx, scope: Scope, patch: Patch, signal: Signal | None) -> Patch:
        new = signal if signal is not None and patch.takes(signal) else None
        keys = tuple(dict.fromkeys((*patch.keys, *_keys(scope))))
        if new is None and keys == patch.keys:
            return patch
        patch = replace(patch, signals=(*patch.signals, new) if new else patch.signals, keys=keys)
        await self._storage.join(tx, scope, patch)
        await self._decisions.enter(tx, scope, patch, "signal" if new else "joined", scope.actor, _evidence(new))
        return patch


def _keys(scope: Scope) -> tuple[UUID, ...]:
    return (scope.key_id,) if scope.key_id else ()


def _evidence(signal: Signal | None) -> dict[str, object]:
    return {"evidence": str(signal.memory_id)} if signal else {}
