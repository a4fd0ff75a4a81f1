"""Store items: JSON values by namespace and key."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from mnema_wire.store_limits import MAX_LABEL
from pgvector import HalfVector

from app.domain.agent_state.store_items import (
    LABEL_END,
    Condition,
    GetItem,
    ListNamespaces,
    Namespace,
    PutItem,
    SearchItems,
    StoreItem,
)
from app.domain.principal import Principal
from app.domain.trusted_time import TrustedTime
from app.ports import Vector
from app.storage.engine import LONG_S
from app.storage.identity import new_id
from app.storage.rows import affected_rows
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, UnitOfWork, WriteTx

TURNSTILES = 128
_END = LABEL_END
_BEHIND_END = chr(ord(LABEL_END) + 1)
_BEHIND_ALL = chr(0x10FFFF) * (MAX_LABEL + 1)


@dataclass(frozen=True, slots=True)
class ItemHit:
    """A store item that was found but not read yet. `size` is in bytes; `mortal` is true if it has a time to live."""

    id: UUID
    size: int
    mortal: bool
    score: float | None = None


def path_of(namespace: Namespace) -> str:
    """Return a namespace as it is stored: each label ends with a character that no label contains."""
    return "".join(label + _END for label in namespace)


def path_bounds(prefix: Namespace) -> tuple[str, str]:
    """Return the first path of the namespaces that begin with `prefix`, and the first path behind them."""
    path = path_of(prefix)
    return path, path[:-1] + _BEHIND_END if path else _BEHIND_ALL


class ItemStorage:
    """Statements on one tenant's store items, with the vectors of one embedding space."""

    def __init__(self, space: str) -> None:
        self._space = space
        self._sql = load_statements("agent_state/store_items.sql")

    async def find_items(
        self, tx: ReadTx, principal: Principal, gets: Sequence[GetItem], now: datetime
    ) -> list[ItemHit | None]:
        """Return the item at each place, None where there is none. Expired items do not count."""
        places = [{"n": n, "path": path_of(get.namespace), "key": get.key} for n, get in enumerate(gets)]
        rows = await tx.fetch(self._sql["get"], principal.tenant_id, places, now)
        hits = {row["n"]: ItemHit(row["id"], row["size"], row["mortal"]) for row in rows}
        return [hits.get(n) for n in range(len(gets))]

    async def search_items(
        self, tx: ReadTx, principal: Principal, search: SearchItems, vector: Vector | None, now: datetime
    ) -> list[ItemHit]:
        """Return one page of items, nearest to `vector` first, or last changed first if it is None."""
        first, behind = path_bounds(search.prefix)
        filtered = (
            "NOT EXISTS (SELECT 1 FROM jsonb_each($4::jsonb) e WHERE NOT store_matches(i.value->e.key, e.value))"
            if search.filter
            else "$4::jsonb IS NULL"
        )
        args: list[Any] = [first, behind, search.filter or None, search.limit, search.offset, now]
        args += [] if vector is None else [HalfVector(vector), self._space]
        statement = self._sql["search" if vector is None else "nearest"].format(filtered=filtered)
        rows = await tx.fetch(statement, principal.tenant_id, *args)
        return [ItemHit(**dict(row)) for row in rows]

    async def list_namespaces(
        self, tx: ReadTx, principal: Principal, wanted: ListNamespaces, now: datetime
    ) -> list[Namespace]:
        """Return the namespaces that meet all conditions, in order, each once."""
        first, behind = path_bounds(_known_prefix(wanted.conditions))
        conditions = [{"where": c.where, "path": c.path} for c in wanted.conditions]
        rows = await tx.fetch(
            self._sql["namespaces"],
            principal.tenant_id,
            first,
            behind,
            conditions,
            wanted.max_depth,
            wanted.limit,
            wanted.offset,
            now,
        )
        return [tuple(row["namespace"]) for row in rows]

    async def load_items(self, tx: ReadTx, principal: Principal, ids: Iterable[UUID]) -> dict[UUID, StoreItem]:
        """Return whole items by id; an id that is not stored is absent."""
        rows = await tx.fetch(self._sql["items"], principal.tenant_id, list(set(ids)))
        return {row["id"]: StoreItem(**{**row, "namespace": tuple(row["namespace"])}) for row in rows}

    async def put_items(
        self,
        tx: WriteTx,
        principal: Principal,
        puts: Sequence[PutItem],
        vectors: Sequence[Sequence[Vector]],
        now: datetime,
    ) -> None:
        """Store and delete items; each place occurs once. `vectors` holds one sequence a put, one vector a text."""
        await lock_places(tx, principal, [(path_of(put.namespace), put.key) for put in puts])
        deletions = [{"path": path_of(put.namespace), "key": put.key} for put in puts if put.value is None]
        if deletions:
            await tx.execute(self._sql["delete"], principal.tenant_id, deletions)
        rows_to_store = [_item_row(put) for put in puts if put.value is not None]
        if not rows_to_store:
            return
        rows = await tx.fetch(self._sql["put"], principal.tenant_id, rows_to_store, now)
        ids = {(row["path"], row["key"]): row["id"] for row in rows}
        await tx.execute(self._sql["forget_vectors"], principal.tenant_id, list(ids.values()))
        parts = [
            (ids[path_of(put.namespace), put.key], part, HalfVector(vector))
            for put, item_vectors in zip(puts, vectors, strict=True)
            for part, vector in enumerate(item_vectors)
        ]
        if parts:
            columns = [list(column) for column in zip(*parts, strict=True)]
            await tx.execute(self._sql["put_vectors"], principal.tenant_id, *columns, self._space)

    async def refresh_ttl(self, tx: WriteTx, principal: Principal, ids: Iterable[UUID], now: datetime) -> None:
        """Restart the items' times to live. Skip items that another transaction is writing; never wait."""
        await tx.execute(self._sql["refresh"], principal.tenant_id, list(set(ids)), now)


class ItemRecords:
    """Statements that expire items and erase a user's items."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow
        self._sql = load_statements("agent_state/store_items.sql")

    async def expire_items(self, principal: Principal, now: TrustedTime, limit: int, *, dry_run: bool) -> int:
        """Delete at most `limit` expired items and return how many. If `dry_run`, only count all expired items."""
        if dry_run:
            async with self._uow.read(principal, timeout_s=LONG_S) as tx:
                return int(await tx.fetchval(self._sql["expired"], principal.tenant_id, now.moment))
        async with self._uow.write(principal, timeout_s=LONG_S) as tx:
            return affected_rows(await tx.execute(self._sql["expire"], principal.tenant_id, now.moment, limit))


async def erase_items(tx: WriteTx, principal: Principal, user_id: str) -> int:
    """Delete the user's items in the transaction of their erasure; return how many."""
    erase = load_statements("agent_state/store_items.sql")["erase"]
    return int(await tx.fetchval(erase, principal.tenant_id, user_id))


def _known_prefix(conditions: Sequence[Condition]) -> Namespace:
    """Return the longest prefix that all matching namespaces share, up to the first wildcard."""
    longest: Namespace = ()
    for condition in conditions:
        if condition.where == "prefix":
            fixed = condition.path[: condition.path.index("*")] if "*" in condition.path else condition.path
            longest = max(longest, fixed, key=len)
    return longest


async def lock_places(tx: WriteTx, principal: Principal, places: Iterable[tuple[str, str]]) -> None:
    """Lock these places (path, key) against other writers until the transaction ends.

    Places share TURNSTILES locks, so that a large batch does not fill the database's lock table.
    """
    turnstiles = {zlib.crc32((path + key).encode()) % TURNSTILES for path, key in places}
    await tx.fetch(load_statements("agent_state/store_items.sql")["lock"], principal.tenant_id, sorted(turnstiles))


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
