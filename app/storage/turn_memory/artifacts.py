"""Artifacts of turn memory: index rows in PostgreSQL, each written and read in one round trip."""

from collections.abc import Sequence
from typing import Any

from app.domain.jobs.job import NewJob
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import Artifact, ArtifactChange, ArtifactKind, Conversation
from app.storage.identity import new_id
from app.storage.rows import new_job_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, Row, UnitOfWork

_SQL = load_statements("turn_memory/artifacts.sql")


class ArtifactStorage:
    """Statements on the artifacts of conversations."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def put_artifacts(
        self,
        principal: Principal,
        place: Conversation,
        changes: Sequence[ArtifactChange],
        jobs: Sequence[tuple[NewJob, str]] = (),
    ) -> list[Artifact]:
        """Apply all changes and add the jobs, each with its slot, in one transaction. Return the stored artifacts.

        Raise WriteContention if an artifact has another version than a change expects; nothing is stored then.
        """
        rows = [_change_row(change) for change in changes]
        queued = [{**new_job_row(job), "slot": slot} for job, slot in jobs]
        return [artifact_from_row(row) for row in await self._uow.call(principal, _SQL["put"], *place, rows, queued)]

    async def get_artifact(
        self, tx: ReadTx, principal: Principal, place: Conversation, kind: ArtifactKind, at: str
    ) -> Artifact | None:
        """Return the artifact of a kind at a place of the conversation, or None."""
        row = await tx.fetchrow(_SQL["get"], principal.tenant_id, *place, kind, at)
        return artifact_from_row(row) if row else None


def artifact_from_row(row: Row) -> Artifact:
    """Return the artifact of a row."""
    return Artifact(
        id=row["id"],
        kind=ArtifactKind(row["kind"]),
        place=row["place"],
        turn_id=row["turn_id"],
        track_id=row["track_id"],
        text=row["text"],
        tags=tuple(row["tags"]),
        hosted_uri=row["hosted_uri"],
        version=row["version"],
        made_at=row["made_at"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        conversation_id=row["conversation_id"],
    )


def _change_row(change: ArtifactChange) -> dict[str, Any]:
    return {
        "id": str(new_id()),
        "kind": change.kind.value,
        "place": change.place,
        "turn_id": change.turn_id,
        "track_id": change.track_id,
        "text": change.text,
        "tags": list(change.tags),
        "hosted_uri": change.hosted_uri,
        "made_at": change.made_at.isoformat(),
        "expect": change.expect,
    }
