"""Statements on artifacts: write, read and delete them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from app.domain.jobs.job import NewJob
from app.domain.paging import Position
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import Artifact, ArtifactChange, ArtifactKind, Conversation
from app.storage.engine import LONG_S
from app.storage.identity import new_id
from app.storage.rows import new_job_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, Row, UnitOfWork, WriteTx

COLUMNS = (
    "id",
    "conversation_id",
    "turn_id",
    "track_id",
    "kind",
    "place",
    "text",
    "tags",
    "hosted_uri",
    "version",
    "made_at",
    "created_at",
    "updated_at",
)
_SQL: Final = load_statements("turn_memory/artifacts.sql", columns=", ".join(f"c.{column}" for column in COLUMNS))


@dataclass(frozen=True, slots=True)
class ArtifactFilter:
    """The artifacts to list: those made since a time, of kinds, with a tag, of a turn; None leaves out a condition."""

    since: datetime
    kinds: Sequence[ArtifactKind] | None = None
    tag: str | None = None
    turn_id: str | None = None


class ArtifactStorage:
    """Statements on the artifacts of conversations."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def put_artifacts(
        self,
        principal: Principal,
        conversation: Conversation,
        changes: Sequence[ArtifactChange],
        jobs: Sequence[tuple[NewJob, str]] = (),
    ) -> list[Artifact]:
        """Apply all changes and add the jobs, each with its slot, in one transaction. Return the stored artifacts.

        Raise WriteContention if an artifact has another version than a change expects; nothing is stored then.
        """
        rows = [_change_row(change) for change in changes]
        job_rows = [_job_row(*job) for job in jobs]
        stored = await self._uow.call(principal, _SQL["put"], *conversation, rows, job_rows)
        return [artifact_from_row(row) for row in stored]

    async def put_buckets(
        self,
        principal: Principal,
        conversation: Conversation,
        changes: Sequence[ArtifactChange],
        jobs: Sequence[tuple[NewJob, str]],
        taken: Sequence[Artifact],
    ) -> None:
        """Do as `put_artifacts` does, and mark the fingerprints that were reconciled, in the version that was read."""
        rows = [_change_row(change) for change in changes]
        job_rows = [_job_row(*job) for job in jobs]
        marks = [{"turn_id": row.place, "version": row.version} for row in taken]
        await self._uow.call(principal, _SQL["put_buckets"], *conversation, rows, job_rows, marks)

    async def list_buckets(self, tx: ReadTx, principal: Principal, conversation: Conversation) -> list[Artifact]:
        """Return all buckets of a conversation, the latest change first. Their number is limited."""
        return await _fetch(tx, "buckets", principal, conversation)

    async def list_waiting(
        self, tx: ReadTx, principal: Principal, conversation: Conversation, limit: int
    ) -> list[Artifact]:
        """Return fingerprints that the buckets do not have yet, oldest first."""
        return await _fetch(tx, "waiting", principal, conversation, limit)

    async def get_turn(
        self, tx: ReadTx, principal: Principal, conversation: Conversation, turn_id: str
    ) -> list[Artifact]:
        """Return the log, fingerprint and reactions of a turn, and the active set and the start of its conversation."""
        return await _fetch(tx, "turn", principal, conversation, turn_id)

    async def find_artifact(
        self, tx: ReadTx, principal: Principal, conversation: Conversation, kind: ArtifactKind, place: str
    ) -> Artifact | None:
        """Return the artifact of a kind at a place, or None."""
        found = await _fetch(tx, "at_place", principal, conversation, kind.value, place)
        return found[0] if found else None

    async def list_newest_logs(
        self,
        tx: ReadTx,
        principal: Principal,
        conversation: Conversation,
        limit: int,
        turn_ids: Sequence[str] | None = None,
    ) -> list[Artifact]:
        """Return the logs of the newest turns, newest first; with `turn_ids`, of these turns."""
        return await _fetch(tx, "newest_logs", principal, conversation, limit, turn_ids)

    async def list_of_turn(
        self, tx: ReadTx, principal: Principal, conversation: Conversation, turn_id: str
    ) -> list[Artifact]:
        """Return all artifacts of a turn."""
        return await _fetch(tx, "of_turn", principal, conversation, turn_id)

    async def get_titles(self, tx: ReadTx, principal: Principal, conversation: Conversation) -> list[Artifact]:
        """Return the active set and the start of a conversation, which have its title."""
        return await _fetch(tx, "titles", principal, conversation)

    async def list_artifacts(
        self,
        tx: ReadTx,
        principal: Principal,
        conversation: Conversation,
        where: ArtifactFilter,
        after: Position | None,
        limit: int,
    ) -> list[Artifact]:
        """Return a page of artifacts, newest first. `after`: the place of the previous page's last artifact."""
        kinds = None if where.kinds is None else [kind.value for kind in where.kinds]
        return await _fetch(
            tx,
            "page",
            principal,
            conversation,
            where.since,
            kinds,
            where.tag,
            where.turn_id,
            *(after or (None, None)),
            limit,
        )

    async def list_turn_ids(
        self, tx: ReadTx, principal: Principal, conversation: Conversation, limit: int
    ) -> list[str]:
        """Return the ids of the newest turns, newest first."""
        rows = await tx.fetch(_SQL["turn_ids"], principal.tenant_id, *conversation, limit)
        return [row["place"] for row in rows]


async def _fetch(
    tx: ReadTx, statement: str, principal: Principal, conversation: Conversation, *args: Any
) -> list[Artifact]:
    rows = await tx.fetch(_SQL[statement], principal.tenant_id, *conversation, *args)
    return [artifact_from_row(row) for row in rows]


def artifact_from_row(row: Row) -> Artifact:
    """Return the artifact of a row with COLUMNS."""
    values = {name: row[name] for name in COLUMNS}
    return Artifact(**{**values, "kind": ArtifactKind(row["kind"]), "tags": tuple(row["tags"])})


def _job_row(job: NewJob, slot: str) -> dict[str, Any]:
    return {**new_job_row(job), "slot": slot}


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


_DELETIONS = load_statements("turn_memory/blobs.sql")


class ArtifactRetention:
    """Statements that delete many artifacts. Their blobs outside PostgreSQL are deleted by a sweep."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def expire_artifacts(self, principal: Principal, before: datetime, limit: int, *, dry_run: bool) -> int:
        """Delete at most `limit` artifacts made before a time; return how many. If `dry_run`, only count all."""
        if dry_run:
            async with self._uow.read(principal, timeout_s=LONG_S) as tx:
                return int(await tx.fetchval(_DELETIONS["count_expired"], principal.tenant_id, before))
        [row] = await self._uow.call(principal, _DELETIONS["expire_artifacts"], before, limit)
        expired: int = row["expired"]
        return expired

    async def purge_conversation(self, principal: Principal, conversation: Conversation) -> int:
        """Delete the artifacts of a conversation with their blobs; return how many artifacts."""
        [row] = await self._uow.call(principal, _DELETIONS["purge_artifacts"], *conversation)
        purged: int = row["purged"]
        return purged


async def erase_artifacts(tx: WriteTx, principal: Principal, user_id: str) -> dict[str, int]:
    """Delete a user's artifacts and blobs in the transaction of the erasure; return the numbers of both.

    The contents of blobs outside PostgreSQL are deleted by a job that is queued in it.
    """
    counts: dict[str, int] = await tx.fetchval(_DELETIONS["erase_artifacts"], principal.tenant_id, user_id)
    return counts
