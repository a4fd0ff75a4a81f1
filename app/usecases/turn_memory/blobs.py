"""Blobs of artifacts: store and read them, and delete those that no artifact refers to."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.ports import BlobStore, TrustedClock
from app.storage.identity import new_id
from app.storage.turn_memory.blobs import BlobLedger

GRACE: Final = timedelta(hours=1)
"""The time in which an artifact must refer to a new blob. Storing one takes far less."""
BATCH: Final = 500
"""The most blobs taken out of the ledger in one transaction."""
AT_ONCE: Final = 8
"""The most contents deleted at the same time."""
ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The result of a sweep. `orphans`: blobs taken out of the ledger; `deleted`: contents outside PostgreSQL."""

    orphans: int
    deleted: int


class StoreBlobs:
    """The use-case that stores and reads the blobs of artifacts, and deletes those of no artifact."""

    def __init__(self, store: BlobStore, ledger: BlobLedger, clock: TrustedClock) -> None:
        self._store = store
        self._ledger = ledger
        self._clock = clock

    async def store_blob(self, principal: Principal, user_id: str, content: bytes) -> str:
        """Store a user's new blob; return its address. A sweep deletes it after GRACE unless an artifact refers to it.

        A later reference fails with WriteContention, and so does one after the user was erased. Raise
        BlobStoreUnavailable, or WriteContention if the user is erased at this moment.
        """
        uri = self._store.blob_uri(principal.tenant_id, new_id())
        await self._ledger.enter_blob(principal, user_id, uri)
        await self._store.put_blob(principal, uri, content)
        return uri

    async def read_blob(self, principal: Principal, uri: str) -> bytes:
        """Return a blob. Raise NotFound if it is not there, BlobStoreUnavailable.

        If the artifact with this address was replaced, its blob may be gone: read the artifact again.
        """
        return await self._store.get_blob(principal, uri)

    async def sweep_blobs(self, principal: Principal, *, dry_run: bool = False) -> SweepReport:
        """Delete the blobs that no artifact refers to, except those younger than GRACE.

        A blob leaves the ledger first. After that no artifact can refer to it, and its content is deleted. A later
        sweep deletes it again, in case a writer stored it in between. A sweep that was broken off continues when it is
        repeated. If `dry_run`, only count them. Raise ClockSkew, BlobStoreUnavailable.
        """
        before = (await self._clock.trusted_time()).moment - GRACE
        if dry_run:
            return SweepReport(await self._ledger.count_orphans(principal, before), 0)
        orphans = failures = 0
        while True:
            try:
                removed = await self._ledger.remove_orphans(principal, before, BATCH)
            except WriteContention:  # an artifact refers to one of them by now, so it is no orphan
                failures += 1
                if failures == ATTEMPTS:
                    raise
                continue
            orphans += removed
            if removed < BATCH:
                return SweepReport(orphans, await self._delete_contents(principal, before))

    async def _delete_contents(self, principal: Principal, before: datetime) -> int:
        """Delete the contents of the blobs that have left the ledger; return how many were not deleted before."""
        deleted = 0
        after = ""
        while swept := await self._ledger.list_swept(principal, before, after, BATCH):
            for start in range(0, len(swept), AT_ONCE):
                batch = [blob.uri for blob in swept[start : start + AT_ONCE]]
                deletions = (self._store.delete_blob(principal, uri) for uri in batch)
                for outcome in await asyncio.gather(*deletions, return_exceptions=True):
                    if outcome is not None:
                        raise outcome
                await self._ledger.note_deleted(principal, before, batch)
            deleted, after = deleted + sum(not blob.deleted for blob in swept), swept[-1].uri
        return deleted
