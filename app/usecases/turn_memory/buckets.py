"""Reading the buckets of a conversation from the index."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.config.tenant_policies import TenantPolicies
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import Conversation
from app.domain.turn_memory.buckets import BucketStatus
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.storage.uow import UnitOfWork


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
