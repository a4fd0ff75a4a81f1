"""Artifacts of turn memory for tests: one of each kind, with blobs where the kind has them."""

import json
from datetime import UTC, datetime
from uuid import UUID

from app.bootstrap import Application
from app.domain.jobs.job import JobKind, JobState
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import Artifact, ArtifactChange, ArtifactKind, Conversation
from app.storage.turn_memory.artifacts import ArtifactStorage

BLOB_KINDS = frozenset({ArtifactKind.turn_log, ArtifactKind.bucket})
"""The kinds of artifact that have a blob."""
MADE = datetime(2026, 1, 26, 15, 3, tzinfo=UTC)


async def store_artifacts(
    app: Application,
    principal: Principal,
    word: str,
    user_id: str = "maya",
    conversation_id: str = "trip",
    made_at: datetime = MADE,
) -> list[Artifact]:
    """Store an artifact of each kind, whose texts, tags and blobs hold `word`. Those of a turn are of turn `t1`."""
    changes = []
    for kind in ArtifactKind:
        of_turn = kind.value.startswith("artifact:")
        blob = json.dumps({"said": word}).encode()
        uri = await app.turn_memory.blobs.store_blob(principal, user_id, blob) if kind in BLOB_KINDS else None
        text, turn = json.dumps({"index": word}), "t1" if of_turn else None
        changes.append(ArtifactChange(kind, turn or "", text, made_at, turn, None, [kind.value, word], uri))
    return await ArtifactStorage(app.parts.uow).put_artifacts(
        principal, Conversation(user_id, conversation_id), changes
    )


async def queued_reconciles(app: Application, principal: Principal) -> list[UUID]:
    """Return the tenant's queued jobs that reconcile, oldest first.

    A sweep would not do: it takes 500 jobs at once, of all the tenants that share the application.
    """
    page = await app.jobs.manage.list_jobs(principal, JobState.queued, JobKind.memory_reconcile, None, 200)
    return [job.id for job in reversed(page.items)]
