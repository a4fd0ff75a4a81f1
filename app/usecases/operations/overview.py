"""Lists of what a tenant holds: users, threads, agents and categories, the relations of memories, and its own key."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from mnema_wire.overview import AgentOverview, CategoryOverview, KeyDescription, Relations, ThreadOverview, UserOverview

from app.config.tenant_policies import TenantPolicies
from app.domain.categories import Category, CategoryPolicy
from app.domain.errors import NotFound
from app.domain.paging import Page, cut_page, decode_text, encode_place
from app.domain.principal import Principal
from app.storage.operations.overview import (
    Activity,
    OverviewStorage,
    get_own_key,
    list_relations,
    read_nodes,
)
from app.storage.uow import UnitOfWork

T = TypeVar("T")


class ReadOverview:
    """The use-cases that list users, threads, agents and categories, within the categories that the key may see."""

    def __init__(self, uow: UnitOfWork, storage: OverviewStorage, policies: TenantPolicies) -> None:
        self._uow = uow
        self._storage = storage
        self._policies = policies

    def _rules_of(self, principal: Principal) -> CategoryPolicy:
        return self._policies.of(principal).categories

    async def list_users(
        self, principal: Principal, prefix: str | None, cursor: str | None, limit: int
    ) -> Page[UserOverview]:
        """Return a page of the tenant's users, by name. Raise InvalidCursor."""
        after = decode_text(cursor)
        artifacts = self._policies.of(principal).turn_memory.category
        async with self._uow.read_anywhere(principal) as tx:
            rows = await self._storage.list_users(tx, principal, prefix, after, limit + 1, artifacts)
        return cut_page(rows, limit, lambda user: encode_place((user.user_id,)))

    async def list_threads(
        self, principal: Principal, user_id: str | None, prefix: str | None, cursor: str | None, limit: int
    ) -> Page[ThreadOverview]:
        """Return a page of the threads with active memories, of one user or of all, by name. Raise InvalidCursor."""
        after = decode_text(cursor)
        async with self._uow.read_anywhere(principal) as tx:
            rows = await self._storage.list_threads(tx, principal, user_id, prefix, after, limit + 1)
        return cut_page(rows, limit, lambda thread: encode_place((thread.thread_id,)))

    async def list_agents(self, principal: Principal, cursor: str | None, limit: int) -> Page[AgentOverview]:
        """Return a page of the agents with an allowlist, by name. A bound key sees its own. Raise InvalidCursor."""
        rules = self._rules_of(principal)
        names = _names_behind(_agents_seen(rules, principal), cursor)[: limit + 1]
        async with self._uow.read_anywhere(principal) as tx:
            activity = await self._storage.count_activity(tx, principal, names)
        rows = [_describe_agent(rules, name, activity) for name in names]
        return cut_page(rows, limit, lambda agent: encode_place((agent.agent,)))

    async def list_categories(self, principal: Principal, cursor: str | None, limit: int) -> Page[CategoryOverview]:
        """Return a page of the configured categories that the key may see, by name. Raise InvalidCursor."""
        rules = self._rules_of(principal)
        seen = rules.categories if principal.categories is None else principal.categories & rules.categories.keys()
        names = _names_behind(seen, cursor)[: limit + 1]
        agents = _agents_seen(rules, principal)
        async with self._uow.read_anywhere(principal) as tx:
            held = {row.category: row for row in await self._storage.count_activity(tx, principal)}
        rows = [_describe_category(rules, rules.categories[name], agents, held.get(name)) for name in names]
        return cut_page(rows, limit, lambda category: encode_place((category.name,)))


def _agents_seen(rules: CategoryPolicy, principal: Principal) -> Iterable[str]:
    """Return the agents with an allowlist; of those, a bound key sees its own."""
    return rules.allowlists if principal.agents is None else principal.agents & rules.allowlists.keys()


def _names_behind(names: Iterable[str], cursor: str | None) -> list[str]:
    """Return the names behind the cursor, in order. Raise InvalidCursor."""
    after = decode_text(cursor)
    return sorted(name for name in names if after is None or name > after)


def _describe_agent(rules: CategoryPolicy, name: str, activity: Sequence[Activity]) -> AgentOverview:
    categories = [category for category in rules.categories if category in rules.allowlists[name]]
    memories = sum(row.memories for row in activity if row.category in categories)
    own = [row for row in activity if row.agent == name]
    last = max((row.last_activity_at for row in own), default=None)
    written = sum(row.memories for row in own)
    return AgentOverview(agent=name, categories=categories, memories=memories, written=written, last_activity_at=last)


def _describe_category(
    rules: CategoryPolicy, category: Category, agents: Iterable[str], held: Activity | None
) -> CategoryOverview:
    viewers = sorted(agent for agent in agents if category.name in rules.allowlists[agent])
    memories, last = (held.memories, held.last_activity_at) if held else (0, None)
    return CategoryOverview(
        name=category.name,
        context=category.context,
        label=category.label,
        description=category.description,
        memories=memories,
        last_activity_at=last,
        agents=viewers,
    )


class DescribeKey:
    """The use-case that tells a key what it is, so that a program can show what it may do."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def describe_key(self, principal: Principal) -> KeyDescription:
        """Return the principal's key. Raise NotFound if it was deleted just now."""
        async with self._uow.read(principal) as tx:
            key = await get_own_key(tx, principal)
        if key is None or principal.key_id is None:
            raise NotFound("this key is not stored any more")
        return KeyDescription(
            tenant_id=principal.tenant_id,
            tenant=key.tenant,
            key_id=principal.key_id,
            name=key.name,
            scopes=sorted(principal.scopes),
            agents=None if principal.agents is None else sorted(principal.agents),
            categories=principal.category_list,
            expires_at=key.expires_at,
        )


NODE_CHARACTERS = 300


class ReadRelations:
    """The use-case that reads how the memories of a user are related."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def read_graph(self, principal: Principal, user_id: str, min_strength: float, limit: int) -> Relations:
        """Return the strongest relations of active memories that the key may see, at most `limit`."""
        async with self._uow.read_anywhere(principal) as tx:
            rows = await list_relations(tx, principal, user_id, min_strength, limit + 1)
            ends = sorted({end for edge in rows[:limit] for end in (edge.from_id, edge.to_id)})
            nodes = await read_nodes(tx, principal, ends, NODE_CHARACTERS) if ends else []
        shown = {node.id for node in nodes}  # a memory may be deleted between the two statements
        edges = [edge for edge in rows[:limit] if edge.from_id in shown and edge.to_id in shown]
        return Relations(nodes=nodes, edges=edges, truncated=len(rows) > limit)
