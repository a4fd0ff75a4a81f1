"""Reading a conversation's context: its views, and its buckets."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mnema_wire.blocks import MAX_TURNS

from app.config.tenant_policies import TenantPolicies
from app.domain.principal import Principal
from app.domain.rendering.model_text import join_blocks
from app.domain.turn_memory.artifacts import Conversation
from app.domain.turn_memory.buckets import BucketStatus
from app.domain.turn_memory.fingerprint import SIGNAL_TAG
from app.domain.turn_memory.policy import TurnMemoryPolicy
from app.domain.turn_memory.signals import signal_tag
from app.domain.turn_memory.views import Block, ContextRows, ViewName, ViewRequest, build_view
from app.ports import Clock
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.storage.turn_memory.context import ContextLimits, ContextStorage
from app.storage.uow import UnitOfWork


@dataclass(frozen=True, slots=True)
class View:
    """The blocks of a view in their order, and the rows that they show."""

    view: ViewName
    blocks: list[Block]
    rows: ContextRows

    @property
    def text(self) -> str:
        """All blocks, with a blank line between them, for a face to send."""
        return join_blocks(block.shown for block in self.blocks).text


class ReadContext:
    """The use-cases that read views. All raise CategoryNotAllowed for a key that may not see turn memory."""

    def __init__(self, storage: ContextStorage, policies: TenantPolicies, clock: Clock) -> None:
        self._storage = storage
        self._policies = policies
        self._clock = clock

    async def read_view(self, principal: Principal, conversation: Conversation, request: ViewRequest) -> View:
        """Return a view of the conversation, read in one round trip from index rows alone."""
        principal.require_categories([self._policies.of(principal).turn_memory.category])
        now = self._clock.now()
        limits = context_limits(request.view, self._policies.of(principal).turn_memory, now)
        rows = await self._storage.read_context(principal, conversation, request.turn_id, request.selection, limits)
        return View(request.view, build_view(request, rows, now), rows)

    async def list_signals(
        self, principal: Principal, user_id: str, days: int | None, limit: int | None, key: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the user's newest turns with assistant signals in all conversations, as fingerprints.

        The defaults are the policy's `days` and `signal_turns`. `key`: only turns with a signal of this key, in any
        spelling with the same tag.
        """
        principal.require_categories([self._policies.of(principal).turn_memory.category])
        policy = self._policies.of(principal).turn_memory
        since = self._clock.now() - timedelta(days=days or policy.days)
        tag = None if key is None else f"{SIGNAL_TAG}:{signal_tag(key)}"
        found = await self._storage.list_signals(principal, user_id, since, limit or policy.signal_turns, tag)
        return [turn for turn in found if turn["assistant_signals"]]


def context_limits(view: ViewName, policy: TurnMemoryPolicy, now: datetime) -> ContextLimits:
    """Return the rows that a view needs: prior turns in all but `final`, assistant signals only there."""
    is_final = view is ViewName.final
    return ContextLimits(
        since=now - timedelta(days=policy.days),
        logs=0 if is_final else policy.last_turns,
        window=policy.last_turns,
        most=MAX_TURNS,
        always_window=view in (ViewName.gate, ViewName.reconciler),
        reactions=policy.feedback_items,
        signals=policy.signal_turns if is_final else 0,
    )


@dataclass(frozen=True, slots=True)
class BucketCards:
    """The cards of a conversation's buckets, the latest change first. `enabled` False: buckets are switched off."""

    enabled: bool
    items: list[Mapping[str, Any]]


class ReadBuckets:
    """The use-case that lists buckets. It raises CategoryNotAllowed for a key that may not use turn memory."""

    def __init__(self, uow: UnitOfWork, artifacts: ArtifactStorage, policies: TenantPolicies, *, enabled: bool) -> None:
        self._uow = uow
        self._artifacts = artifacts
        self._policies = policies
        self._enabled = enabled

    async def list_buckets(
        self, principal: Principal, conversation: Conversation, status: BucketStatus | None = None
    ) -> BucketCards:
        """Return the cards of the buckets, of one status or of both; none if buckets are switched off."""
        principal.require_categories([self._policies.of(principal).turn_memory.category])
        if not self._enabled:
            return BucketCards(enabled=False, items=[])
        async with self._uow.read_anywhere(principal) as tx:
            rows = await self._artifacts.list_buckets(tx, principal, conversation)
        cards = [json.loads(row.text) for row in rows]
        return BucketCards(enabled=True, items=[card for card in cards if status in (None, card["status"])])
