"""The active set of a conversation: read it, and store a selection."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.domain.turn_memory.active_set import MAX_BUCKETS, MAX_SELECTED, ActiveSet, parse_active_set
from app.domain.turn_memory.artifacts import ACTIVE_SET_PLACE, ArtifactChange, ArtifactKind, Conversation
from app.domain.turn_memory.fingerprint import MAX_TITLE, whole_milliseconds
from app.domain.turn_memory.policy import TurnMemoryPolicy
from app.domain.turn_memory.selection import resolve_turn_ids
from app.domain.turn_memory.signals import read_text
from app.ports import Clock
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.storage.uow import UnitOfWork

ATTEMPTS = 20
KNOWN_TURNS = 2000
"""The newest turns among which a partial turn id is looked up."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A change of the active set. None keeps what is stored."""

    turn_ids: tuple[str, ...] | None = None
    bucket_ids: tuple[str, ...] | None = None
    conversation_title: str = ""


class ManageActiveSet:
    """The use-cases of active sets. All raise CategoryNotAllowed for a key that may not use turn memory's category."""

    def __init__(self, uow: UnitOfWork, artifacts: ArtifactStorage, policy: TurnMemoryPolicy, clock: Clock) -> None:
        self._uow = uow
        self._artifacts = artifacts
        self._policy = policy
        self._clock = clock

    async def read_active_set(self, principal: Principal, conversation: Conversation) -> ActiveSet:
        """Return the active set; that of an unknown conversation is empty."""
        return (await self._load(principal, conversation))[0]

    async def select_memories(
        self, principal: Principal, conversation: Conversation, selection: Selection
    ) -> tuple[ActiveSet, list[str]]:
        """Store a selection. Return the active set, and the given turn ids that name no turn or more than one.

        A partial turn id counts if its prefix is unique. Raise InvalidInput or WriteContention.
        """
        title = read_text(selection.conversation_title, "conversation_title", MAX_TITLE)
        for _attempt in range(ATTEMPTS):
            active, version, known = await self._load(principal, conversation)
            chosen, unknown = _resolve_selection(selection.turn_ids, known)
            changed = replace(
                active,
                selected_local_memories_turn_ids=(
                    active.selected_local_memories_turn_ids if chosen is None else chosen
                ),
                picked_bucket_ids=_first_buckets(selection.bucket_ids, active.picked_bucket_ids),
                conversation_title=title or active.conversation_title,
            )
            if changed == active:
                return active, unknown
            try:
                await self._artifacts.put_artifacts(principal, conversation, [self._row(changed, version)])
            except WriteContention:
                continue
            return changed, unknown
        raise WriteContention()

    async def _load(self, principal: Principal, conversation: Conversation) -> tuple[ActiveSet, int, list[str]]:
        """Return the active set, its version (0: there is none) and the ids of the newest turns."""
        principal.require_categories([self._policy.category])
        async with self._uow.read(principal) as tx:
            stored = await self._artifacts.get_titles(tx, principal, conversation)
            known = await self._artifacts.list_turn_ids(tx, principal, conversation, KNOWN_TURNS)
        row = next((artifact for artifact in stored if artifact.kind is ArtifactKind.active_set), None)
        return (parse_active_set(json.loads(row.text)), row.version, known) if row else (ActiveSet(), 0, known)

    def _row(self, active: ActiveSet, version: int) -> ArtifactChange:
        kind, now = ArtifactKind.active_set, whole_milliseconds(self._clock.now())
        text = json.dumps(active.as_json(), ensure_ascii=False)
        return ArtifactChange(kind, ACTIVE_SET_PLACE, text, now, tags=[kind.value], expect=version)


def _resolve_selection(named: tuple[str, ...] | None, known: list[str]) -> tuple[tuple[str, ...] | None, list[str]]:
    if named is None:
        return None, []
    unknown = [name for name in named if not resolve_turn_ids([name], known, 1)]
    return resolve_turn_ids(named, known, MAX_SELECTED), unknown


def _first_buckets(given: Iterable[str] | None, stored: tuple[str, ...]) -> tuple[str, ...]:
    return stored if given is None else tuple(dict.fromkeys(given))[:MAX_BUCKETS]
