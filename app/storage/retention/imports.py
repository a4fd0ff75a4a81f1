"""Import of a user's records: each statement inserts rows of one kind, and changes none that are there."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import asyncpg
from pgvector import HalfVector

from app.domain.errors import RecordCycle, ValueRefused
from app.domain.principal import Principal
from app.ports import Vector
from app.storage.journal import Journal
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, UnitOfWork, WriteTx

Rows: TypeAlias = Sequence[Mapping[str, Any]]
Outcomes: TypeAlias = dict[int, str]
"""The outcome of each row by its `n`: imported, unchanged, id_taken, conflict or missing."""
MARKS: Final = {"memory": "ADD", "fact": "ADD", "context_patch": "CONSENT", "context_value": "CONSENT"}
"""The kinds that leave an entry in history when they are imported, with its event."""
OWNERS: Final = {"history": "memory_owner", "fact_history": "fact_owner", "context_history": "patch_owner"}
"""The kinds of history, with the statement that looks for the record that an entry is about."""


class AwaitedFile(NamedTuple):
    """A file of a user. `waits`: it has no content yet. `hash`: that of its content, None if that is unknown."""

    waits: bool
    hash: bytes | None


class ImportStorage:
    """Statements that insert records of a user's export, in one embedding space."""

    def __init__(self, uow: UnitOfWork, journal: Journal, space: str) -> None:
        self._uow = uow
        self._journal = journal
        self._space = space
        self._sql = load_statements("retention/imports.sql")

    async def lock_user(self, tx: WriteTx, principal: Principal, user_id: str) -> None:
        """Lock the user's row until the transaction ends; insert it if it is new."""
        while True:
            await tx.execute(self._sql["ensure_user"], principal.tenant_id, user_id)
            if await tx.fetchrow(self._sql["lock_user"], principal.tenant_id, user_id):
                return

    async def find_erased(self, tx: ReadTx, principal: Principal, hashes: Sequence[bytes]) -> set[bytes]:
        """Return those of the hashes that belong to erased texts and turns."""
        return {row["hash"] for row in await tx.fetch(self._sql["erased"], principal.tenant_id, list(hashes))}

    async def put_rows(self, tx: WriteTx, principal: Principal, user_id: str, kind: str, rows: Rows) -> Outcomes:
        """Insert rows of a kind; return their outcomes. The caller has locked the user.

        Raise RecordCycle, or ValueRefused if the database refuses a value or a combination of values.
        """
        try:
            if kind in OWNERS:
                return await self._put_history(tx, principal, user_id, kind, rows)
            found = await tx.fetch(self._sql[kind], principal.tenant_id, user_id, list(rows))
            outcomes = {row["n"]: row["outcome"] for row in found}
            new = [row["id"] for row in found if row["outcome"] == "imported"] if kind in MARKS else []
            if kind == "memory":
                await self._refuse_cycles(tx, principal, [row for row in rows if row["id"] in new])
            if new:
                await self._journal.mark_imported(tx, principal, MARKS[kind], new)
        except (asyncpg.IntegrityConstraintViolationError, asyncpg.RaiseError, asyncpg.DataError) as error:
            raise ValueRefused(
                "the fields of the record do not go together, or the user has a record like it"
            ) from error
        return outcomes

    async def _refuse_cycles(self, tx: WriteTx, principal: Principal, rows: Rows) -> None:
        for row in rows:
            if (successor := row["superseded_by"]) is None:
                continue
            chain = await tx.fetch(self._sql["superseded"], principal.tenant_id, UUID(successor))
            if successor == row["id"] or any(str(each["id"]) == row["id"] for each in chain):
                raise RecordCycle()

    async def _put_history(self, tx: WriteTx, principal: Principal, user_id: str, kind: str, rows: Rows) -> Outcomes:
        owned = await tx.fetch(self._sql[OWNERS[kind]], principal.tenant_id, user_id, list(rows))
        of_user = {row["n"] for row in owned if row["owned"]}
        entries = [dict(row) for row in rows if row["n"] in of_user]
        new = await self._journal.import_history(tx, principal, entries)
        if kind == "history" and new:
            memories = list({UUID(memory_id) for _id, memory_id in new})
            names = {"past": f"past_{self._space}", "vec": f"vec_{self._space}"}
            for name in ("forget_past", "fill_past"):
                await tx.execute(self._sql[name].format(**names), principal.tenant_id, memories)
        imported = {str(entry) for entry, _memory in new}
        return {
            row["n"]: ("imported" if row["id"] in imported else "unchanged") if row["n"] in of_user else "missing"
            for row in rows
        }

    async def put_vectors(self, tx: WriteTx, principal: Principal, items: Mapping[str, Sequence[Vector]]) -> None:
        """Store the vectors of the texts of new items, by the item's id."""
        parts = [
            (UUID(item), part, HalfVector(vector))
            for item, vectors in items.items()
            for part, vector in enumerate(vectors)
        ]
        if parts:
            columns = [list(column) for column in zip(*parts, strict=True)]
            await tx.execute(self._sql["put_vectors"], principal.tenant_id, *columns, self._space)

    async def find_artifacts(self, principal: Principal, ids: Sequence[UUID]) -> set[str]:
        """Return those of the ids that belong to stored artifacts."""
        async with self._uow.read(principal) as tx:
            rows = await tx.fetch(self._sql["known_artifacts"], principal.tenant_id, list(ids))
        return {str(row["id"]) for row in rows}

    async def enter_blob(self, principal: Principal, user_id: str, uri: str) -> None:
        """Enter a blob in the ledger before it is stored."""
        await self._uow.call(principal, self._sql["enter_blob"], user_id, uri)

    async def find_upload(self, tx: ReadTx, principal: Principal, user_id: str, file_id: UUID) -> AwaitedFile | None:
        """Return a file of the user; None if there is no such file."""
        row = await tx.fetchrow(self._sql["uploaded"], principal.tenant_id, user_id, file_id)
        return None if row is None else AwaitedFile(row["waits"], row["hash"])

    async def attach_content(self, tx: WriteTx, principal: Principal, user_id: str, file_id: UUID, uri: str) -> None:
        """Give a file that waits for its content its blob."""
        await tx.execute(self._sql["attach"], principal.tenant_id, user_id, file_id, uri)
