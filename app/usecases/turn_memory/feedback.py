"""Feedback on turns: a reaction to a given turn, and one whose turn the server chooses by the text."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from mnema_wire.turn_limits import CANDIDATES

from app.config.tenant_policies import TenantPolicies
from app.domain.errors import EmptyText, IdempotencyMismatch, NotFound
from app.domain.idempotency import OptionalKey
from app.domain.outages import EmbedderUnavailable
from app.domain.principal import Principal
from app.domain.turn_memory.active_set import resolve_turn_ids
from app.domain.turn_memory.artifacts import Artifact, ArtifactKind, Conversation
from app.domain.turn_memory.feedback import (
    MACHINE_PLACE,
    USER_PLACE,
    Candidate,
    GivenReaction,
    Origin,
    Reaction,
    apply_reaction,
    rank_candidates,
    read_reaction,
    require_same,
    share_words,
)
from app.domain.turn_memory.turn_state import TurnState
from app.ports import Embedder
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.storage.uow import UnitOfWork
from app.usecases.turn_memory.active_set import KNOWN_TURNS
from app.usecases.turn_memory.turns import NO_SUCH_TURN, ChangeTurns


@dataclass(frozen=True, slots=True)
class Chosen:
    """The reaction to the turn that a feedback is about, and the candidates, best first.

    The candidates are empty for a retry, which gets the first reaction again. `degraded`: the code of an unavailable
    model; similarity is then the share of common words.
    """

    reaction: Reaction
    candidates: Sequence[Candidate] = ()
    degraded: str | None = None


@dataclass(frozen=True)
class GiveFeedback:
    """The use-cases of feedback. All raise what ChangeTurns raises, and InvalidInput, LowConfidence or NotFound."""

    uow: UnitOfWork
    artifacts: ArtifactStorage
    turns: ChangeTurns
    embedder: Embedder
    policies: TenantPolicies

    async def give_reaction(
        self,
        principal: Principal,
        conversation: Conversation,
        turn_id: str,
        given: GivenReaction,
        key: OptionalKey = None,
    ) -> Reaction:
        """Store a reaction to a turn. Return it; one that clears has no verdict.

        A user has one reaction to a turn. Those of machines add up to MAX_MACHINE; a retry with the same key adds
        nothing. Raise TooManyReactions or IdempotencyMismatch.
        """
        given = read_reaction(given)
        principal.require_categories([self.policies.of(principal).turn_memory.category])
        place = _place_reaction(turn_id, given, key)
        first = await self._find_first(principal, conversation, place, given, key)
        if first is not None and first.turn_id != turn_id:
            raise IdempotencyMismatch()
        return first or await self._store_reaction(principal, conversation, turn_id, given, place)

    async def give_by_text(
        self,
        principal: Principal,
        conversation: Conversation,
        given: GivenReaction,
        candidates: Sequence[str] | None = None,
        key: OptionalKey = None,
    ) -> Chosen:
        """Store a machine's reaction to the turn that its text is most likely about: of the newest turns, or of the
        candidates, whose ids may be unique beginnings. Raise as `give_reaction` does, or EmptyText.
        """
        given = read_reaction(replace(given, origin=Origin.machine))
        principal.require_categories([self.policies.of(principal).turn_memory.category])
        if not given.text:
            raise EmptyText
        place = _place_reaction("", given, key)
        first = await self._find_first(principal, conversation, place, given, key)
        if first is not None:
            return Chosen(first)
        logs = await self._load_logs(principal, conversation, candidates)
        if not logs:
            raise NotFound(NO_SUCH_TURN)
        similarities, degraded = await self._compare_texts(given.text, [_snapshot_text(log) for log in logs])
        ranked = rank_candidates([log.place for log in logs], similarities)
        reaction = await self._store_reaction(principal, conversation, ranked[0].turn_id, given, place)
        return Chosen(reaction, ranked, degraded)

    async def _find_first(
        self,
        principal: Principal,
        conversation: Conversation,
        place: str,
        given: GivenReaction,
        key: OptionalKey,
    ) -> Reaction | None:
        """Return the reaction that an earlier request with the same key stored. Raise IdempotencyMismatch."""
        if key is None or given.origin is not Origin.machine:
            return None
        kind = ArtifactKind.reaction
        async with self.uow.read(principal) as tx:
            stored = await self.artifacts.find_artifact(tx, principal, conversation, kind, place)
        return None if stored is None else require_same(stored, given)

    async def _store_reaction(
        self,
        principal: Principal,
        conversation: Conversation,
        turn_id: str,
        given: GivenReaction,
        place: str,
    ) -> Reaction:
        made: list[Reaction] = []

        def change(state: TurnState) -> TurnState:
            made[:] = []
            changed, reaction = apply_reaction(state, given, place)
            made.append(reaction)
            return changed

        await self.turns.change_turn(principal, conversation, turn_id, change)
        return made[0]

    async def _load_logs(
        self, principal: Principal, conversation: Conversation, candidates: Sequence[str] | None
    ) -> list[Artifact]:
        async with self.uow.read(principal) as tx:
            if candidates is None:
                return await self.artifacts.list_newest_logs(tx, principal, conversation, CANDIDATES)
            known = await self.artifacts.list_turn_ids(tx, principal, conversation, KNOWN_TURNS)
            named = resolve_turn_ids(candidates, known, CANDIDATES)
            return await self.artifacts.list_newest_logs(tx, principal, conversation, CANDIDATES, named)

    async def _compare_texts(self, text: str, others: list[str]) -> tuple[list[float], str | None]:
        """Return the similarity of a text to each of the others, and the code of the embedder's error or None."""
        try:
            own = await self.embedder.embed_query(text)
            vectors = await self.embedder.embed_texts(others)
        except EmbedderUnavailable as error:
            return share_words(text, others), error.code
        return [float(own @ vector) for vector in vectors], None


def _snapshot_text(log: Artifact) -> str:
    """Return the user's and the assistant's text in the index of a turn log."""
    snapshot = json.loads(log.text)
    return f"{snapshot['user']}\n{snapshot['assistant']}"


def _place_reaction(turn_id: str, given: GivenReaction, key: OptionalKey) -> str:
    """Return the place of a reaction: that of the turn's user, or one of a machine, the same for the same key."""
    if given.origin is Origin.user:
        return f"{USER_PLACE}{turn_id}"
    if key is None:
        return f"{MACHINE_PLACE}{uuid4()}"
    digest = hashlib.sha256(f"{key.route}\x00{key.key}".encode()).digest()
    return f"{MACHINE_PLACE}{UUID(bytes=digest[:16], version=5)}"
