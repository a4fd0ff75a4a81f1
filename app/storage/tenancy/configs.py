"""The versions of tenants' own rules."""

import contextlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from app.domain.epochs import Stamp
from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.domain.tenancy.rules import RulesVersion
from app.storage.epochs import BEGIN_EPOCH, NO_EPOCHS
from app.storage.rows import memory_columns, memory_from_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, UnitOfWork, WriteTx

_SQL: Final = load_statements("tenancy/configs.sql", columns=memory_columns("m"))

KEPT_VERSIONS = 1_000


@dataclass(frozen=True, slots=True)
class ChangedRules:
    """The newest document of a tenant, as JSON."""

    tenant_id: UUID
    version: int
    document: str


@dataclass(frozen=True, slots=True)
class RulesChanges:
    """The changed rules. `settled`: where to go on; `is_whole`: the rules of all tenants are among them."""

    rules: list[ChangedRules]
    settled: Stamp
    is_whole: bool


@dataclass(frozen=True, slots=True)
class MovingMemory:
    """A memory that moves to another category. `same`: an active memory there with its text."""

    memory: Memory
    same: UUID | None


class TenantConfigStorage:
    """Statements on tenants' rules. A version never changes; each tenant keeps its newest KEPT_VERSIONS."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def list_changed(self, since: Stamp | None) -> RulesChanges:
        """Return the rules of all tenants that changed since an earlier call (its `settled`); at first all rules.

        Return all rules too if the database is another one by now, or was set back.
        """
        with contextlib.suppress(*NO_EPOCHS):  # behind a pooler, the database changes without a new connection
            await self._uow.call_definer(BEGIN_EPOCH)
        place = (None, None) if since is None else (since.number, since.epoch)
        rows = await self._uow.call_definer(_SQL["changed"], *place)
        changed = [ChangedRules(r["tenant_id"], r["version"], r["document"]) for r in rows if r["tenant_id"]]
        return RulesChanges(changed, Stamp(rows[0]["epoch"], rows[0]["stamp"]), rows[0]["is_whole"])

    async def get_newest(self, tx: ReadTx, principal: Principal) -> RulesVersion:
        """Return the version in force."""
        row = await tx.fetchrow(_SQL["newest"], principal.tenant_id)
        return RulesVersion(**row) if row else RulesVersion()

    async def get_version(self, tx: ReadTx, principal: Principal, version: int) -> RulesVersion | None:
        """Return a version, None if there is none."""
        row = await tx.fetchrow(_SQL["version"], principal.tenant_id, version)
        return RulesVersion(**row) if row else None

    async def list_versions(
        self, tx: ReadTx, principal: Principal, before: int | None, limit: int
    ) -> list[RulesVersion]:
        """Return versions below `before`, newest first, without their documents."""
        rows = await tx.fetch(_SQL["page"], principal.tenant_id, before, limit)
        return [RulesVersion(**row) for row in rows]

    async def add_version(self, tx: WriteTx, principal: Principal, new: RulesVersion) -> None:
        """Store a version. Raise DuplicateText if another transaction stored it."""
        await tx.execute(_SQL["add"], principal.tenant_id, new.version, new.document, new.actor, new.note)
        if new.version > KEPT_VERSIONS:
            await tx.execute(_SQL["forget"], principal.tenant_id, new.version - KEPT_VERSIONS)

    async def count_held(
        self, tx: ReadTx, principal: Principal, known: Collection[str]
    ) -> Mapping[str, Mapping[str, int]]:
        """Return the number of rows in categories other than the `known` ones, by category and kind.

        The kinds are `memories` in any state, `sources` and `facts`.
        """
        rows = await tx.fetch(_SQL["held"], principal.tenant_id, list(known))
        held: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for row in rows:
            held[row["category"]][row["kind"]] = row["rows"]
        return held

    async def list_moving(
        self, tx: ReadTx, principal: Principal, categories: Collection[str]
    ) -> tuple[list[UUID], list[str]]:
        """Return the ids of all memories of these categories in any state, and the users of these and of facts."""
        rows = await tx.fetch(_SQL["moving"], principal.tenant_id, list(categories))
        return [row["id"] for row in rows if row["id"]], sorted({row["user_id"] for row in rows})

    async def lock_users(self, tx: WriteTx, principal: Principal, user_ids: Sequence[str]) -> None:
        """Lock the rows of these users against an erasure and against statements of facts."""
        await tx.fetch(_SQL["lock_users"], principal.tenant_id, list(user_ids))

    async def lock_memories(
        self, tx: WriteTx, principal: Principal, category: str, target: str, after: UUID | None, limit: int
    ) -> list[MovingMemory]:
        """Lock and return memories of a category in any state, by id, to move them to `target`."""
        rows = await tx.fetch(_SQL["lock_memories"], principal.tenant_id, category, target, after, limit)
        return [MovingMemory(memory_from_row(row), row["same"]) for row in rows]

    async def move_facts(
        self, tx: WriteTx, principal: Principal, category: str, target: str
    ) -> list[tuple[str, list[str]]]:
        """Give the facts of a category another one. Return their users, each with the topics."""
        rows = await tx.fetch(_SQL["move_facts"], principal.tenant_id, category, target)
        return [(row["user_id"], row["topics"]) for row in rows]

    async def list_bound_keys(self, tx: ReadTx, principal: Principal) -> list[tuple[str, list[str]]]:
        """Return the names and agents of the valid keys that are bound to agents."""
        rows: list[Any] = await tx.fetch(_SQL["keys"], principal.tenant_id)
        return [(row["name"], row["agents"]) for row in rows]
