"""Deleting a turn, with what it left in the buckets of its conversation."""

import asyncio
import contextlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.config.tenant_policies import TenantPolicies
from app.domain.errors import NotFound
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.domain.turn_memory.active_set import active_set_row, find_active_set
from app.domain.turn_memory.artifacts import Artifact, ArtifactChange, Conversation
from app.domain.turn_memory.buckets import drop_turn, parse_bucket
from app.domain.turn_memory.fingerprint import whole_milliseconds
from app.ports import Clock
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.storage.uow import UnitOfWork
from app.usecases.turn_memory.blobs import StoreBlobs
from app.usecases.turn_memory.memory_reconcile import ATTEMPTS, LONGEST_WAIT_S, bucket_row, read_buckets
from app.usecases.turn_memory.turns import NO_SUCH_TURN


@dataclass(frozen=True)
class DeleteTurn:
    """The use-case that deletes a turn for good."""

    uow: UnitOfWork
    artifacts: ArtifactStorage
    blobs: StoreBlobs
    policies: TenantPolicies
    clock: Clock

    async def delete_turn(self, principal: Principal, conversation: Conversation, turn_id: str) -> int:
        """Delete everything stored of a turn, also its statements in buckets and its id in the selection. Return the
        number of deleted artifacts.

        Raise NotFound if there is nothing, CategoryNotAllowed, BlobStoreUnavailable or WriteContention.
        """
        principal.require_categories([self.policies.of(principal).turn_memory.category])
        for attempt in range(ATTEMPTS):
            async with self.uow.read(principal) as tx:
                stored = await self.artifacts.list_of_turn(tx, principal, conversation, turn_id)
                buckets = await self.artifacts.list_buckets(tx, principal, conversation)
                titled = await self.artifacts.get_titles(tx, principal, conversation)
            if not stored:
                raise NotFound(NO_SUCH_TURN)
            with contextlib.suppress(NotFound, WriteContention):  # a blob may be deleted when its bucket changes
                rows = [_removal(one) for one in stored]  # a reaction that comes now gives the log another version
                rows += await self._changed_buckets(principal, conversation.user_id, buckets, turn_id)
                rows += self._changed_selection(titled, turn_id)
                await self.artifacts.put_artifacts(principal, conversation, rows)
                return len(stored)
            await asyncio.sleep(random.uniform(0, min(LONGEST_WAIT_S, 0.01 * 2**attempt)))
        raise WriteContention()

    async def _changed_buckets(
        self, principal: Principal, user_id: str, rows: Sequence[Artifact], turn_id: str
    ) -> list[ArtifactChange]:
        """Return the buckets that contain the turn, now without it. A bucket without any turn is deleted."""
        now = whole_milliseconds(self.clock.now())
        changes = []
        for row, content in zip(rows, await read_buckets(self.blobs, principal, rows), strict=True):
            before = parse_bucket(json.loads(content))
            if (bucket := drop_turn(before, turn_id, now)) is before:
                continue
            if not bucket.turns:
                changes.append(_removal(row))
                continue
            whole = json.dumps(bucket.as_json(), ensure_ascii=False).encode()
            changes.append(bucket_row(bucket, await self.blobs.store_blob(principal, user_id, whole), row))
        return changes

    def _changed_selection(self, titled: Sequence[Artifact], turn_id: str) -> list[ArtifactChange]:
        """Return the active set without the turn, if the turn is selected."""
        active, version = find_active_set(titled)
        selected = active.selected_local_memories_turn_ids or ()
        if turn_id not in selected:
            return []
        left = tuple(one for one in selected if one != turn_id)
        changed = replace(active, selected_local_memories_turn_ids=left)
        return [active_set_row(changed, version, whole_milliseconds(self.clock.now()))]


def _removal(row: Artifact) -> ArtifactChange:
    return ArtifactChange(row.kind, row.place, None, row.made_at, expect=row.version)
