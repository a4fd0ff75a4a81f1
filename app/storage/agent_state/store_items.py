"""Values by namespace and key: every statement is one of sql/store.sql."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pgvector import HalfVector

from app.domain.agent_state.store_items import (
    LABEL_END,
    MAX_LABEL,
    Condition,
    GetItem,
    ListNamespaces,
    Namespace,
    PutItem,
    SearchItems,
    StoreItem,
)
from app.domain.principal import Principal
from app.ports import Vector
from app.storage.engine import LONG_S
from app.storage.identity import new_id
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, UnitOfWork, WriteTx

TURNSTILES = 128
_END, _BEHIND_END, _BEHIND_ALL = LABEL_END, chr(ord(LABEL_END) + 1), chr(0x10FFFF) * (MAX_LABEL + 1)


@dataclass(frozen=True, slots=True)
class ItemHit:
    """An item that was found, not read yet. `size` in bytes; `mortal`: it has a time to live."""

    id: UUID
    size: int
    mortal: bool
    score: float | None = None


def path_of(namespace: Namespace) -> str:
    """A namespace as it is stored: each label closed by what is in no label."""
    return "".join(label + _END for label in namespace)


def path_bounds(prefix: Namespace) -> tuple[str, str]:
    """From, and up to but not at: exactly the paths of namespaces that begin with this one."""
    path = path_of(prefix)
    return path, path[:-1] + _BEHIND_END if path else _BEHIND_ALL


class ItemStorage:
    """Every item is the tenant's whose scope it is; vectors are those of one embedding space."""

    def __init__(self, space: str) -> None:
        self._space = space
        self._sql = load_statements("agent_state/store_items.sql")

    async def find_items(
        self, tx: ReadTx, scope: Principal, gets: Sequence[GetItem], now: datetime
    ) -> list[ItemHit | None]:
        """What is at each place."""
        places = [{"n": n, "path": path_of(get.namespace), "key": get.key} for n, get in enumerate(gets)]
        rows = await tx.fetch(self._sql["get"], scope.tenant_id, places, now)
        found = {row["n"]: ItemHit(row["id"], row["size"], row["mortal"]) for row in rows}
        return [found.get(n) for n in range(len(gets))]

    async def search_items(
        self, tx: ReadTx, scope: Principal, search: SearchItems, vector: Vector | None, now: datetime
    ) -> list[ItemHit]:
        """In the order of the answer; `vector` is the query's."""
        first, behind = path_bounds(search.prefix)
        filtered = (
            "NOT EXISTS (SELECT 1 FROM jsonb_each($4::jsonb) e WHERE NOT store_matches(i.value->e.key, e.value))"
            if search.filter
            else "$4::jsonb IS NULL"
        )
        args: list[Any] = [first, behind, search.filter or None, search.limit, search.offset, now]
        args += [] if vector is None else [HalfVector(vector), self._space]
        statement = self._sql["search" if vector is None else "nearest"].format(filtered=filtered)
        rows = await tx.fetch(statement, scope.tenant_id, *args)
        return [ItemHit(**dict(row)) for row in rows]

    async def list_namespaces(
        self, tx: ReadTx, scope: Principal, wanted: ListNamespaces, now: datetime
    ) -> list[Namespace]:
        """Those that meet the conditions."""
        first, behind = path_bounds(_known_prefix(wanted.conditions))
        conditions = [{"where": c.where, "path": c.path} for c in wanted.conditions]
        args = (conditions, wanted.max_depth, wanted.limit, wanted.offset, now)
        rows = await tx.fetch(self._sql["namespaces"], scope.tenant_id, first, behind, *args)
        return [tuple(row["namespace"]) for row in rows]

    async def load_items(self, tx: ReadTx, scope: Principal, ids: Iterable[UUID]) -> dict[UUID, StoreItem]:
        """Whole items by id."""
        rows = await tx.fetch(self._sql["items"], scope.tenant_id, list(set(ids)))
        return {row["id"]: StoreItem(**{**row, "namespace": tuple(row["namespace"])}) for row in rows}

    async def put_items(
        self, tx: WriteTx, scope: Principal, puts: Sequence[PutItem], vectors: Sequence[Sequence[Vector]], now: datetime
    ) -> None:
        """Store and delete, each place once; `vectors` are those of each put's texts."""
        await lock_places(tx, scope, [(path_of(put.namespace), put.key) for put in puts])
        gone = [{"path": path_of(put.namespace), "key": put.key} for put in puts if put.value is None]
        if gone:
            await tx.execute(self._sql["delete"], scope.tenant_id, gone)
        kept = [_item_row(put) for put in puts if put.value is not None]
        if not kept:
            return
        rows = await tx.fetch(self._sql["put"], scope.tenant_id, kept, now)
        ids = {(row["path"], row["key"]): row["id"] for row in rows}
        await tx.execute(self._sql["forget_vectors"], scope.tenant_id, list(ids.values()))
        parts = [
            (ids[path_of(put.namespace), put.key], part, HalfVector(vector))
            for put, own in zip(puts, vectors, strict=True)
            for part, vector in enumerate(own)
        ]
        if parts:
            columns = [list(column) for column in zip(*parts, strict=True)]
            await tx.execute(self._sql["put_vectors"], scope.tenant_id, *columns, self._space)

    async def refresh_ttl(self, tx: WriteTx, scope: Principal, ids: Iterable[UUID], now: datetime) -> None:
        """Begin their times to live anew; waits for nobody."""
        await tx.execute(self._sql["refresh"], scope.tenant_id, list(set(ids)), now)


class ItemRecords:
    """What happens to items for reasons that are not their owners': they expire, or a person is erased."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow
        self._sql = load_statements("agent_state/store_items.sql")

    async def expire_items(self, scope: Principal, now: datetime, limit: int, *, dry_run: bool) -> int:
        """Remove at most `limit` of what has expired; how many, or how many there are."""
        if dry_run:
            async with self._uow.read(scope, timeout_s=LONG_S) as tx:
                return int(await tx.fetchval(self._sql["expired"], scope.tenant_id, now))
        async with self._uow.write(scope, timeout_s=LONG_S) as tx:
            return _affected_rows(await tx.execute(self._sql["expire"], scope.tenant_id, now, limit))


async def erase_items(tx: WriteTx, scope: Principal, user_id: str) -> int:
    """Remove a person's items, in the transaction of their erasure; how many."""
    return _affected_rows(
        await tx.execute(load_statements("agent_state/store_items.sql")["erase"], scope.tenant_id, user_id)
    )


def _known_prefix(conditions: Sequence[Condition]) -> Namespace:
    """What every namespace that meets the conditions begins with, as far as no label is left open."""
    longest: Namespace = ()
    for condition in conditions:
        if condition.where == "prefix":
            known = condition.path[: condition.path.index("*")] if "*" in condition.path else condition.path
            longest = max(longest, known, key=len)
    return longest


async def lock_places(tx: WriteTx, scope: Principal, places: Iterable[tuple[str, str]]) -> None:
    """Until the transaction ends nobody else writes at these places, paths and keys. One lock of few each, so that a
    large batch does not fill the database's table of locks."""
    turnstiles = {zlib.crc32((path + key).encode()) % TURNSTILES for path, key in places}
    await tx.fetch(load_statements("agent_state/store_items.sql")["lock"], scope.tenant_id, sorted(turnstiles))


def _item_row(put: PutItem) -> dict[str, Any]:
    return {
        "id": str(new_id()),
        "path": path_of(put.namespace),
        "key": put.key,
        "value": put.value,
        "size": put.value_bytes,
        "indexed": put.index or None,
        "user_id": put.user_id,
        "ttl_s": put.ttl.total_seconds() if put.ttl else None,
    }


def _affected_rows(tag: str) -> int:
    return int(tag.rsplit(" ", 1)[-1])
