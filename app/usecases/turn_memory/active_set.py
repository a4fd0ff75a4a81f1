"""The active set of a conversation: read it, and store a selection."""

import asyncio
import random
from dataclasses import dataclass, replace
from typing import NamedTuple

from mnema_wire.turn_limits import MAX_PICKED, MAX_SELECTED, MAX_TITLE

from app.config.tenant_policies import TenantPolicies
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.domain.turn_memory.active_set import ActiveSet, active_set_row, find_active_set, resolve_turn_ids
from app.domain.turn_memory.artifacts import Conversation
from app.domain.turn_memory.fingerprint import whole_milliseconds
from app.domain.turn_memory.signals import read_text
from app.ports import Clock
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.storage.uow import UnitOfWork

ATTEMPTS = 20
LONGEST_WAIT_S = 0.1
KNOWN_TURNS = 2000
"""The newest turns among which a partial turn id is looked up."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A change of the active set. None keeps what is stored."""

    turn_ids: tuple[str, ...] | None = None
    bucket_ids: tuple[str, ...] | None = None
    conversation_title: str = ""


class UnknownIds(NamedTuple):
    """The ids of a selection that name nothing in the conversation, or are the beginning of several ids."""

    turns: list[str]
    buckets: list[str]


class ManageActiveSet:
    """The use-cases of active sets. All raise CategoryNotAllowed for a key that may not use turn memory's category."""

    def __init__(self, uow: UnitOfWork, artifacts: ArtifactStorage, policies: TenantPolicies, clock: Clock) -> None:
        self._uow = uow
        self._artifacts = artifacts
        self._policies = policies
        self._clock = clock

    async def read_active_set(self, principal: Principal, conversation: Conversation) -> ActiveSet:
        """Return the active set; that of an unknown conversation is empty."""
        return (await self._load(principal, conversation))[0]

    async def select_memories(
        self, principal: Principal, conversation: Conversation, selection: Selection
    ) -> tuple[ActiveSet, UnknownIds]:
        """Store a selection. Return the active set, and the given ids that name nothing or more than one.

        A partial id counts if its prefix is unique. Raise InvalidInput or WriteContention.
        """
        title = read_text(selection.conversation_title, "conversation_title", MAX_TITLE)
        for attempt in range(ATTEMPTS):
            active, version, turns, buckets = await self._load(principal, conversation)
            chosen, unknown_turns = _resolve_ids(selection.turn_ids, turns, MAX_SELECTED)
            picked, unknown_buckets = _resolve_ids(selection.bucket_ids, buckets, MAX_PICKED)
            unknown = UnknownIds(unknown_turns, unknown_buckets)
            changed = replace(
                active,
                selected_local_memories_turn_ids=(
                    active.selected_local_memories_turn_ids if chosen is None else chosen
                ),
                picked_bucket_ids=active.picked_bucket_ids if picked is None else picked,
                conversation_title=title or active.conversation_title,
            )
            if changed == active:
                return active, unknown
            try:
                row = active_set_row(changed, version, whole_milliseconds(self._clock.now()))
                await self._artifacts.put_artifacts(principal, conversation, [row])
            except WriteContention:
                await asyncio.sleep(random.uniform(0, min(LONGEST_WAIT_S, 0.005 * 2**attempt)))
                continue
            return changed, unknown
        raise WriteContention()

    async def _load(
        self, principal: Principal, conversation: Conversation
    ) -> tuple[ActiveSet, int, list[str], list[str]]:
        """Return the active set, its version (0: there is none), and the ids of the newest turns and of buckets."""
        principal.require_categories([self._policies.of(principal).turn_memory.category])
        async with self._uow.read(principal) as tx:
            stored = await self._artifacts.get_titles(tx, principal, conversation)
            turns = await self._artifacts.list_turn_ids(tx, principal, conversation, KNOWN_TURNS)
            buckets = [row.place for row in await self._artifacts.list_buckets(tx, principal, conversation)]
        return *find_active_set(stored), turns, buckets


def _resolve_ids(
    named: tuple[str, ...] | None, known: list[str], most: int
) -> tuple[tuple[str, ...] | None, list[str]]:
    if named is None:
        return None, []
    unknown = [name for name in named if not resolve_turn_ids([name], known, 1)]
    return resolve_turn_ids(named, known, most), unknown
