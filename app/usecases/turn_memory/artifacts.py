"""Reading artifacts: lists of index rows with their conversation's title, and single turns with their blob."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from app.config.tenant_policies import TenantPolicies
from app.domain.errors import NotFound
from app.domain.paging import decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import Artifact, ArtifactKind, Conversation, parse_index
from app.ports import Clock
from app.storage.turn_memory.artifacts import ArtifactFilter, ArtifactStorage
from app.storage.uow import UnitOfWork
from app.usecases.offload import offload_if_large
from app.usecases.turn_memory.blobs import StoreBlobs
from app.usecases.turn_memory.turns import NO_SUCH_TURN

MATERIALIZED = 20
"""The most artifacts of a page with their blobs."""
READS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class ReadArtifact:
    """An artifact with its content: the blob's JSON if it was materialized, else the index JSON."""

    artifact: Artifact
    content: Any


@dataclass(frozen=True, slots=True)
class ArtifactQuery:
    """A page of artifacts to read. `days` None means the policy's value; `materialize` reads the blobs too."""

    kinds: Sequence[ArtifactKind] | None = None
    tag: str | None = None
    turn_id: str | None = None
    days: int | None = None
    materialize: bool = False
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class ArtifactPage:
    """A page of artifacts, newest first. `conversation_title` is empty if the conversation has none."""

    conversation_title: str
    items: list[ReadArtifact]
    next_cursor: str | None


@dataclass(frozen=True)
class ReadArtifacts:
    """The use-cases that read artifacts. All raise CategoryNotAllowed, and BlobStoreUnavailable if they read blobs."""

    uow: UnitOfWork
    artifacts: ArtifactStorage
    blobs: StoreBlobs
    policies: TenantPolicies
    clock: Clock

    async def list_artifacts(
        self, principal: Principal, conversation: Conversation, query: ArtifactQuery
    ) -> ArtifactPage:
        """Return a page of the conversation's artifacts, at most MATERIALIZED with their blobs. Raise InvalidCursor."""
        principal.require_categories([self.policies.of(principal).turn_memory.category])
        after = decode_cursor(query.cursor)
        limit = min(query.limit, MATERIALIZED) if query.materialize else query.limit
        since = self.clock.now() - timedelta(days=query.days or self.policies.of(principal).turn_memory.days)
        where = ArtifactFilter(since, query.kinds, query.tag, query.turn_id)
        async with self.uow.read_anywhere(principal) as tx:
            titled = await self.artifacts.get_titles(tx, principal, conversation)
            rows = await self.artifacts.list_artifacts(tx, principal, conversation, where, after, limit + 1)
        items = rows[:limit]
        last = rows[limit - 1] if len(rows) > limit else None
        return ArtifactPage(
            find_title(titled),
            await self._read_contents(principal, items, materialize=query.materialize),
            encode_cursor((last.made_at, last.id)) if last else None,
        )

    async def read_turn(self, principal: Principal, conversation: Conversation, turn_id: str) -> ReadArtifact:
        """Return a turn's log with its blob. Raise NotFound."""
        principal.require_categories([self.policies.of(principal).turn_memory.category])
        async with self.uow.read_anywhere(principal) as tx:
            stored = await self.artifacts.get_turn(tx, principal, conversation, turn_id)
        log = next((artifact for artifact in stored if artifact.kind is ArtifactKind.turn_log), None)
        if log is None:
            raise NotFound(NO_SUCH_TURN)
        return ReadArtifact(log, await self._read_blob(principal, log))

    async def _read_contents(
        self, principal: Principal, artifacts: Sequence[Artifact], *, materialize: bool
    ) -> list[ReadArtifact]:
        places = asyncio.Semaphore(READS_AT_ONCE)

        async def read(artifact: Artifact) -> ReadArtifact:
            if not materialize or artifact.hosted_uri is None:
                return ReadArtifact(artifact, parse_index(artifact.text))
            async with places:
                return ReadArtifact(artifact, await self._read_blob(principal, artifact))

        return list(await asyncio.gather(*map(read, artifacts)))

    async def _read_blob(self, principal: Principal, artifact: Artifact) -> Any:
        content = await self.blobs.read_blob(principal, artifact.hosted_uri or "")
        return await offload_if_large(len(content), json.loads, content)


def find_title(artifacts: Sequence[Artifact]) -> str:
    """Return the title of a conversation: from the active set, else from its start, else an empty text."""
    kinds = ArtifactKind.active_set, ArtifactKind.start
    titles = {artifact.kind: parse_index(artifact.text)["conversation_title"] for artifact in artifacts}
    return next((titles[kind] for kind in kinds if titles.get(kind)), "")
