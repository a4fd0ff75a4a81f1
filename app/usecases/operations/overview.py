"""Lists of what a tenant holds: its users, threads, agents and categories, each with counts and its last activity."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar

from app.config.tenant_policies import TenantPolicies
from app.domain.categories import Category, CategoryPolicy
from app.domain.paging import Page, cut_page, decode_text, encode_place
from app.domain.principal import Principal
from app.storage.operations.overview import Activity, OverviewStorage, ThreadCounts, UserCounts
from app.storage.uow import UnitOfWork

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AgentOverview:
    """An agent, the categories of its allowlist and the active memories in them.

    `written`: the active memories that carry its name. `last_activity_at`: the last change of one of those.
    """

    agent: str
    categories: tuple[str, ...]
    memories: int
    written: int
    last_activity_at: datetime | None


@dataclass(frozen=True, slots=True)
class CategoryOverview:
    """A configured category, its active memories, and the agents that may see it."""

    name: str
    context: Literal["all", "rag"]
    label: str | None
    description: str | None
    memories: int
    last_activity_at: datetime | None
    agents: tuple[str, ...]


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
    ) -> Page[UserCounts]:
        """Return a page of the tenant's users, by name. Raise InvalidCursor."""
        after = decode_text(cursor)
        artifacts = self._policies.of(principal).turn_memory.category
        async with self._uow.read_anywhere(principal) as tx:
            rows = await self._storage.list_users(tx, principal, prefix, after, limit + 1, artifacts)
        return cut_page(rows, limit, lambda user: encode_place((user.user_id,)))

    async def list_threads(
        self, principal: Principal, user_id: str | None, prefix: str | None, cursor: str | None, limit: int
    ) -> Page[ThreadCounts]:
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
    categories = tuple(category for category in rules.categories if category in rules.allowlists[name])
    memories = sum(row.memories for row in activity if row.category in categories)
    own = [row for row in activity if row.agent == name]
    last = max((row.last_activity_at for row in own), default=None)
    return AgentOverview(name, categories, memories, sum(row.memories for row in own), last)


def _describe_category(
    rules: CategoryPolicy, category: Category, agents: Iterable[str], held: Activity | None
) -> CategoryOverview:
    viewers = tuple(sorted(agent for agent in agents if category.name in rules.allowlists[agent]))
    described = category.name, category.context, category.label, category.description
    memories, last = (held.memories, held.last_activity_at) if held else (0, None)
    return CategoryOverview(*described, memories, last, viewers)
