"""The background job that takes a conversation's new fingerprints into its buckets."""

import asyncio
import contextlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.domain.errors import NotFound
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.domain.turn_memory.active_set import ActiveSet, active_set_row, find_active_set
from app.domain.turn_memory.artifacts import (
    BUCKET_TAG,
    Artifact,
    ArtifactChange,
    ArtifactKind,
    Conversation,
)
from app.domain.turn_memory.buckets import Bucket, parse_bucket
from app.domain.turn_memory.fingerprint import parse_fingerprint, whole_milliseconds
from app.domain.turn_memory.reconciliation import Reconciliation, advance_active_set, reconcile_buckets
from app.domain.turn_memory.turn_state import reconcile_job
from app.ports import Clock
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.storage.uow import UnitOfWork
from app.usecases.offload import offload_if_large
from app.usecases.turn_memory.blobs import StoreBlobs

ATTEMPTS = 20
LONGEST_WAIT_S = 0.2
FINGERPRINTS = 100
"""The most fingerprints that one run reads."""
READS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class _Stored:
    """The state that a run reads: active set and version, rows of buckets, and the fingerprints that wait."""

    active: ActiveSet
    version: int
    buckets: Mapping[str, Artifact]
    waiting: Sequence[Artifact]


class ReconcileMemory:
    """The use-case of the job. With `enabled` False it does nothing."""

    def __init__(
        self, uow: UnitOfWork, artifacts: ArtifactStorage, blobs: StoreBlobs, clock: Clock, *, enabled: bool
    ) -> None:
        self._uow = uow
        self._artifacts = artifacts
        self._blobs = blobs
        self._clock = clock
        self._enabled = enabled

    async def reconcile_conversation(self, principal: Principal, conversation: Conversation) -> dict[str, Any]:
        """Take the fingerprints that wait into the buckets, in one transaction. Queue the job again if some are left.

        Return counts. Start again if others change the conversation. Raise BlobStoreUnavailable or WriteContention.
        """
        if not self._enabled:
            return {"why": "disabled"}
        for attempt in range(ATTEMPTS):
            with contextlib.suppress(NotFound, WriteContention):  # a blob may be deleted when its bucket changes
                return await self._run_once(principal, conversation)
            await asyncio.sleep(random.uniform(0, min(LONGEST_WAIT_S, 0.01 * 2**attempt)))
        raise WriteContention()

    async def _run_once(self, principal: Principal, conversation: Conversation) -> dict[str, Any]:
        now = whole_milliseconds(self._clock.now())
        stored = await self._load_conversation(principal, conversation)
        result = await self._reconcile_stored(principal, stored, now)
        taken = {one.turn_id for one in result.taken}
        if taken or result.changed:
            rows = await self._bucket_rows(principal, conversation.user_id, stored, result, now)
            jobs = [reconcile_job(conversation, stored.version, now)] if result.waiting else []
            marks = [row for row in stored.waiting if row.place in taken]
            await self._artifacts.put_buckets(principal, conversation, rows, jobs, marks)
        return {
            "taken": len(taken),
            "changed": len(result.changed),
            "added": len(result.added),
            "waiting": len(result.waiting),
        }

    async def _load_conversation(self, principal: Principal, conversation: Conversation) -> _Stored:
        """Read the active set first: a fingerprint that comes later gives it another version."""
        async with self._uow.read(principal) as tx:
            titled = await self._artifacts.get_titles(tx, principal, conversation)
            buckets = await self._artifacts.list_buckets(tx, principal, conversation)
            waiting = await self._artifacts.list_waiting(tx, principal, conversation, FINGERPRINTS + 1)
        return _Stored(*find_active_set(titled), {one.place: one for one in buckets}, waiting)

    async def _reconcile_stored(self, principal: Principal, stored: _Stored, now: datetime) -> Reconciliation:
        """Reconcile the first fingerprints that wait. One more may wait behind them."""
        blobs = await read_buckets(self._blobs, principal, list(stored.buckets.values()))
        texts = [row.text for row in stored.waiting]
        size = sum(map(len, blobs)) + sum(map(len, texts))
        return await offload_if_large(size, _reconcile_texts, blobs, texts, now)

    async def _bucket_rows(
        self, principal: Principal, user_id: str, stored: _Stored, result: Reconciliation, now: datetime
    ) -> list[ArtifactChange]:
        active = advance_active_set(stored.active, result)
        rows = [active_set_row(active, stored.version, now)]
        for bucket in (*result.changed, *result.added):
            content = json.dumps(bucket.as_json(), ensure_ascii=False).encode()
            uri = await self._blobs.store_blob(principal, user_id, content)
            rows.append(bucket_row(bucket, uri, stored.buckets.get(bucket.bucket_id)))
        return rows


def _reconcile_texts(blobs: Sequence[bytes], texts: Sequence[str], now: datetime) -> Reconciliation:
    fingerprints = [parse_fingerprint(json.loads(text)) for text in texts]
    first = fingerprints[:FINGERPRINTS]
    behind = fingerprints[FINGERPRINTS:]
    result = reconcile_buckets([parse_bucket(json.loads(blob)) for blob in blobs], first, now)
    return Reconciliation(result.changed, result.added, result.taken, (*result.waiting, *behind))


async def read_buckets(blobs: StoreBlobs, principal: Principal, rows: Sequence[Artifact]) -> list[bytes]:
    """Return the blobs of buckets in the order of their rows. Raise NotFound if one changed in between."""
    places = asyncio.Semaphore(READS_AT_ONCE)

    async def read_blob(row: Artifact) -> bytes:
        async with places:
            return await blobs.read_blob(principal, row.hosted_uri or "")

    return await asyncio.gather(*map(read_blob, rows))


def bucket_row(bucket: Bucket, uri: str, before: Artifact | None) -> ArtifactChange:
    """Return the index row of a bucket in place of the one before. `uri` is its new blob."""
    kind = ArtifactKind.bucket
    return ArtifactChange(
        kind,
        bucket.bucket_id,
        json.dumps(bucket.as_card(), ensure_ascii=False),
        bucket.updated_at,
        tags=[kind.value, f"{BUCKET_TAG}{bucket.bucket_id}"],
        hosted_uri=uri,
        expect=before.version if before else 0,
    )
