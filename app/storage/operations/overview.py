"""Statements on what a tenant holds: counts of users, threads, agents and categories, relations, and its own key."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Final
from uuid import UUID

from mnema_wire.overview import RelatedMemory, Relation, ThreadOverview, UserOverview

from app.domain.principal import Principal
from app.storage.statements import load_statements
from app.storage.uow import ReadTx

MOST_USER_IDS = 10
"""The users of a thread that are named."""


@dataclass(frozen=True, slots=True)
class Activity:
    """A number of active memories of a category and an agent (None: another agent, or none).

    `last_activity_at`: the latest change of a memory that was active then.
    """

    category: str
    agent: str | None
    memories: int
    last_activity_at: datetime


class OverviewStorage:
    """Statements that list and count what a tenant holds."""

    async def list_users(
        self,
        tx: ReadTx,
        principal: Principal,
        prefix: str | None,
        after: str | None,
        limit: int,
        artifact_category: str,
    ) -> list[UserOverview]:
        """Return the users behind `after` that begin with `prefix`, by name.

        A key bound to agents sees users of artifacts alone only with the category of artifacts.
        """
        rows = await tx.fetch(
            _format_statement("users", False),
            principal.tenant_id,
            principal.category_list,
            prefix,
            after,
            limit,
            artifact_category,
        )
        return [UserOverview(**dict(row)) for row in rows]

    async def list_threads(
        self, tx: ReadTx, principal: Principal, user_id: str | None, prefix: str | None, after: str | None, limit: int
    ) -> list[ThreadOverview]:
        """Return the threads behind `after` that begin with `prefix`, by name.

        With `user_id`, return and count what this user has in them.
        """
        user_id = principal.reach(user_id)
        name = "threads" if user_id is None else "threads_of_user"
        bound = principal.categories is not None
        rows = await tx.fetch(
            _format_statement(name, bound),
            principal.tenant_id,
            principal.category_list,
            prefix,
            after,
            limit,
            *(() if user_id is None else (user_id,)),
        )
        return [ThreadOverview(**dict(row)) for row in rows]

    async def count_activity(self, tx: ReadTx, principal: Principal, agents: Sequence[str] = ()) -> list[Activity]:
        """Return the active memories by category, and by agent for these agents."""
        rows = await tx.fetch(
            _format_statement("activity", False), principal.tenant_id, principal.category_list, list(agents)
        )
        return [Activity(**dict(row)) for row in rows]


_COUNTS = "s.users, s.user_ids, s.turns, s.memories, s.changed_at AS last_activity_at"
_AGGREGATES = f"""count(DISTINCT m.user_id) AS users, (array_agg(DISTINCT m.user_id))[1:{MOST_USER_IDS}] AS user_ids,
           count(*) FILTER (WHERE m.type = 'turn') AS turns, count(*) AS memories, max(m.updated_at) AS changed_at"""
_REVISION_SEEN = """coalesce((
    SELECT c.rev FROM change_log c
    WHERE c.tenant_id = $1 AND c.thread_id = p.thread_id AND coalesce(c.category_after, c.category_before) = ANY ($2)
    ORDER BY c.rev DESC LIMIT 1), 0)"""


@cache
def _format_statement(name: str, bound: bool) -> str:
    """Return the statement. A change that a bound key cannot see does not raise the revision that it is told."""
    revision = _REVISION_SEEN if bound else "p.rev"
    return load_statements("operations/overview.sql")[name].format(
        counts=_COUNTS, aggregates=_AGGREGATES, revision=revision
    )


_OWN = """
SELECT t.name AS tenant, k.name, k.expires_at FROM api_keys k JOIN tenants t ON t.id = k.tenant_id
WHERE k.tenant_id = $1 AND k.id = $2
"""


@dataclass(frozen=True, slots=True)
class OwnKey:
    """The names of an API key and its tenant, and when the key expires."""

    tenant: str
    name: str
    expires_at: datetime | None


async def get_own_key(tx: ReadTx, principal: Principal) -> OwnKey | None:
    """Return the principal's key, None if it is not stored any more."""
    row = await tx.fetchrow(_OWN, principal.tenant_id, principal.key_id)
    return OwnKey(**dict(row)) if row else None


_GRAPH: Final = load_statements("operations/relation_graph.sql")


async def list_relations(
    tx: ReadTx, principal: Principal, user_id: str, min_strength: float, limit: int
) -> list[Relation]:
    """Return the strongest relations between active memories of the user, at most `limit`."""
    rows = await tx.fetch(_GRAPH["edges"], principal.tenant_id, principal.category_list, user_id, min_strength, limit)
    return [Relation(**dict(row)) for row in rows]


async def read_nodes(tx: ReadTx, principal: Principal, ids: Sequence[UUID], characters: int) -> list[RelatedMemory]:
    """Return these memories, oldest first."""
    rows = await tx.fetch(_GRAPH["nodes"], principal.tenant_id, principal.category_list, list(ids), characters)
    return [RelatedMemory(**dict(row)) for row in rows]
