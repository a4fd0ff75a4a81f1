"""Proposals of values that may become known of a user (`docs/contract.md`, Consent)."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.consent.patches import Patch, PatchState, Signal, automatic_way, erasure_text
from app.domain.consent.profile_fields import ProfileField, sensitive_fields
from app.domain.errors import AgentNotAllowed, ErasedText, InvalidInput, TooManyPatches
from app.domain.idempotency import IdempotencyKey
from app.domain.principal import Principal
from app.domain.tombstones import compute_tombstones
from app.storage.identity import new_id
from app.storage.uow import WriteTx
from app.usecases.consent.decisions import Decisions

Action = Literal["created", "joined", "unchanged", "rejected"]
T = TypeVar("T")
REFUSED: Final = (ErasedText, InvalidInput, TooManyPatches)
"""Errors of a value that cannot be proposed; it is skipped, the other values are proposed."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed value of a field. `evidence` is the memory that states it."""

    user_id: str
    field: str
    value: str
    evidence: UUID | None = None
    thread_id: str | None = None
    agent_id: str | None = None


@dataclass(frozen=True, slots=True)
class ProposalResult:
    """The result of a proposal.

    `joined`: the same value is pending; `unchanged`: it is known; `rejected`: the user rejected it lately.
    """

    patch: Patch
    action: Action


class Proposals:
    """The use-case that proposes values. It needs the scope `write`; a pending value is proposed once."""

    def __init__(self, decisions: Decisions, secret: bytes) -> None:
        self._decisions = decisions
        self._storage = decisions.storage
        self._policies = decisions.policies
        self._clock = decisions.clock
        self._secret = secret

    async def propose_value(
        self, principal: Principal, proposal: Proposal, key: IdempotencyKey | None = None
    ) -> ProposalResult:
        """Propose a value. A value that needs no decision is applied at once. An unknown user is created.

        Raise UnknownField, EmptyText, TextTooLong, NulByte, InvalidInput for unknown evidence, ErasedText,
        TooManyPatches, AgentNotAllowed, IdempotencyMismatch or WriteContention.
        """
        self._decisions.require_access(principal)
        policy = self._policies.of(principal).consent
        if proposal.agent_id is not None and principal.agents is not None and proposal.agent_id not in principal.agents:
            raise AgentNotAllowed(f"this key may not speak as {proposal.agent_id!r}")
        policy.is_sensitive(proposal.field)
        checked = replace(proposal, value=policy.checked_value(proposal.value))
        speaking = principal.speaking_as(proposal.agent_id)

        async def propose_in_tx(tx: WriteTx) -> ProposalResult:
            await self._storage.ensure_user(tx, speaking, checked.user_id)
            return await self._apply_proposal(tx, speaking, checked, key)

        return await self._decisions.run_with_retries(principal, propose_in_tx)

    async def _apply_proposal(
        self, tx: WriteTx, principal: Principal, proposal: Proposal, key: IdempotencyKey | None
    ) -> ProposalResult:
        old, action = await self._match_existing(tx, principal, proposal)
        patch = self._new_patch(principal, proposal) if old is None or action == "created" else old
        response = {"id": str(patch.id), "action": action}
        if (
            first := await self._decisions.replayed_response(tx, principal, proposal.user_id, key, response)
        ) is not None:
            before = await self._decisions.load_patch(tx, principal, proposal.user_id, UUID(first["id"]))
            return ProposalResult(before, first["action"])
        if action in ("created", "joined"):
            signal = await self._load_signal(tx, principal, patch, proposal.evidence)
            if action == "created":
                patch = await self._create_patch(tx, principal, patch, old, signal)
            else:
                patch = await self._join_patch(tx, principal, patch, signal)
            policy = self._policies.of(principal).consent
            if way := automatic_way(await self._refresh_signals(tx, principal, patch), policy):
                await self._decisions.close_patch(tx, principal, patch, PatchState.applied, way, principal.actor_name)
        return ProposalResult(await self._decisions.load_patch(tx, principal, proposal.user_id, patch.id), action)

    async def _match_existing(
        self, tx: WriteTx, principal: Principal, proposal: Proposal
    ) -> tuple[Patch | None, Action]:
        """Return an earlier proposal of the same value, if any, and the action that follows from it."""
        earlier = await self._storage.find_same_value(tx, principal, proposal.user_id, proposal.field, proposal.value)
        if earlier is None:
            return None, "created"
        patch, is_known = earlier
        now = self._clock.now()
        policy = self._policies.of(principal).consent
        if is_known:
            return patch, "unchanged"
        if patch.is_open_at(now):
            return patch, "joined"
        if patch.state is PatchState.rejected and policy.is_too_soon(patch.decided_at or now, now):
            return patch, "rejected"
        return patch, "created"

    def _new_patch(self, principal: Principal, proposal: Proposal) -> Patch:
        now = self._clock.now()
        policy = self._policies.of(principal).consent
        return Patch(
            id=new_id(),
            user_id=proposal.user_id,
            field=proposal.field,
            value=proposal.value,
            sensitive=policy.is_sensitive(proposal.field),
            state=PatchState.pending,
            actor=principal.actor_name,
            created_at=now,
            expires_at=policy.expires_at(now),
            thread_id=proposal.thread_id,
            keys=_key_ids(principal),
        )

    async def _load_signal(
        self, tx: WriteTx, principal: Principal, patch: Patch, evidence: UUID | None
    ) -> Signal | None:
        text = erasure_text(patch.field, patch.value)
        hashes = compute_tombstones(self._secret, principal.tenant_id, patch.user_id, [text], [])
        if await self._storage.is_erased(tx, principal, hashes):
            raise ErasedText("this value was erased at the user's request and is not stored again")
        if evidence is None:
            return None
        signals = await self._storage.load_signals(tx, principal, patch, [evidence], self._clock.now())
        if not signals:
            raise InvalidInput("evidence: no turn, fact, episode or insight of this user has this id")
        return signals[0]

    async def _refresh_signals(self, tx: WriteTx, principal: Principal, patch: Patch) -> Patch:
        """Return the proposal with its signals loaded again: a changed or deleted memory may no longer state it."""
        if patch.sensitive or not patch.signals:
            return patch
        unrestricted = replace(principal, categories=None)
        ids = [signal.memory_id for signal in patch.signals]
        return replace(
            patch, signals=tuple(await self._storage.load_signals(tx, unrestricted, patch, ids, self._clock.now()))
        )

    async def _create_patch(
        self, tx: WriteTx, principal: Principal, patch: Patch, old: Patch | None, signal: Signal | None
    ) -> Patch:
        if old is not None and old.state is PatchState.pending:  # nobody decided in time
            await self._decisions.close_patch(tx, principal, old, PatchState.expired, "expiry", principal.actor_name)
        waiting, values = await self._storage.count_existing(
            tx, principal, patch.user_id, patch.field, patch.created_at
        )
        policy = self._policies.of(principal).consent
        if waiting >= policy.pending or values >= policy.values:
            raise TooManyPatches()
        patch = replace(patch, signals=(signal,) if signal else ())
        await self._storage.insert_patch(tx, principal, patch)
        await self._decisions.record_entry(
            tx, principal, patch, "proposed", principal.actor_name, _evidence_meta(signal)
        )
        return patch

    async def _join_patch(self, tx: WriteTx, principal: Principal, patch: Patch, signal: Signal | None) -> Patch:
        new = signal if signal is not None and patch.accepts_signal(signal) else None
        keys = tuple(dict.fromkeys((*patch.keys, *_key_ids(principal))))
        if new is None and keys == patch.keys:
            return patch
        patch = replace(patch, signals=(*patch.signals, new) if new else patch.signals, keys=keys)
        await self._storage.update_signals(tx, principal, patch)
        await self._decisions.record_entry(
            tx, principal, patch, "signal" if new else "joined", principal.actor_name, _evidence_meta(new)
        )
        return patch


def _key_ids(principal: Principal) -> tuple[UUID, ...]:
    return (principal.key_id,) if principal.key_id else ()


def _evidence_meta(signal: Signal | None) -> dict[str, object]:
    return {"evidence": str(signal.memory_id)} if signal else {}


class ProposeProfileFields:
    """The use-case that proposes profile fields. Idempotent: it proposes a value once."""

    def __init__(self, proposals: Proposals, policies: TenantPolicies) -> None:
        self._proposals = proposals
        self._policies = policies

    def is_visible_in(self, principal: Principal, categories: Collection[str] | None) -> bool:
        """Return True if an agent that sees these categories (None means all) may propose values."""
        return categories is None or self._policies.of(principal).consent.category in categories

    def split_sensitive(
        self, principal: Principal, facts: Sequence[T], parts: Callable[[T], tuple[str, str, str]]
    ) -> tuple[list[T], list[ProfileField]]:
        """Split facts into those without a sensitive field, and the sensitive fields of the others.

        `parts` returns text, quote and category of a fact.
        """
        category = self._policies.of(principal).consent.category
        harmless = list[T]()
        sensitive: list[ProfileField] = []
        for fact in facts:
            fields = sensitive_fields(*parts(fact), category)
            sensitive += fields
            if not fields:
                harmless.append(fact)
        return harmless, sensitive

    async def propose_fields(
        self,
        principal: Principal,
        user_id: str,
        fields: Sequence[ProfileField],
        evidence: UUID | None = None,
        thread_id: str | None = None,
    ) -> int:
        """Propose each field that has a value. Return how many wait or are applied. Raise WriteContention."""
        proposed = 0
        for field in dict.fromkeys(fields):
            if field.value is None or field.field not in self._policies.of(principal).consent.field_names:
                continue
            try:
                proposal = Proposal(user_id, field.field, field.value, evidence, thread_id)
                result = await self._proposals.propose_value(principal, proposal)
            except REFUSED:
                continue
            proposed += result.action in ("created", "joined")
        return proposed
