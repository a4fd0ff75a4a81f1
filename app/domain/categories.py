"""Categories and agent allowlists."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal

from mnema_wire.marks import TagNames, collect_tag_names

from app.domain.errors import AgentNotAllowed, AgentRequired, CategoryNotAllowed, UnknownAgent, UnknownCategory
from app.domain.ids import list_names
from app.domain.principal import Principal

PROCEDURAL = "procedural"


@dataclass(frozen=True, slots=True)
class Category:
    """The policy of one category.

    `context` "all": a query answers every memory of the category. "rag": a query ranks at most `rag_length` candidates
    and answers those with at least `min_relevance` (None: the default of the configuration). `expires_after_days`: the
    age at which a memory expires that was written without `expires_at`.
    """

    name: str
    context: Literal["all", "rag"] = "rag"
    rag_length: int = 30
    min_relevance: float | None = None
    label: str | None = None
    description: str | None = None
    numeric_update: bool = False
    fallback: bool = False
    expires_after_days: int | None = None

    def default_expiry(self, created_at: datetime) -> datetime | None:
        """Return when a memory expires that names no moment; None: never, or not before the year 10000."""
        if self.expires_after_days is None:
            return None
        try:
            return created_at + timedelta(days=self.expires_after_days)
        except OverflowError:
            return None


@dataclass(frozen=True, slots=True)
class DefaultCategories:
    """The category of a new memory that names none, by the type of the memory."""

    semantic: str = "knowledge"
    episodic: str = "event"
    procedural: str = PROCEDURAL
    insight: str = "relationship_dynamic"
    turn: str = "activity"
    summary: str = "event"
    chunk: str = "knowledge"

    def for_type(self, name: str) -> str:
        """Return the category of a type."""
        category: str = getattr(self, name)
        return category

    @property
    def names(self) -> list[str]:
        """The categories of all types."""
        return [self.for_type(field.name) for field in fields(self)]


@dataclass(frozen=True)
class CategoryPolicy:
    """All configured categories and the allowlist of each agent, by name.

    The agents `seeing_all` may see every category but procedural; their allowlists name them all.
    """

    categories: Mapping[str, Category]
    allowlists: Mapping[str, tuple[str, ...]]
    seeing_all: frozenset[str] = frozenset()

    def get_category(self, name: str, principal: Principal | None = None) -> Category:
        """Return the category's policy.

        Raise UnknownCategory if it is not configured. The error names the categories that `principal` may use.
        """
        if name not in self.categories:
            detail = f"category {name!r} is not configured"
            if principal is not None:
                detail += f"; this key may use: {list_names(self.usable_by(principal))}"
            raise UnknownCategory(detail, categories=[name])
        return self.categories[name]

    @property
    def numeric_names(self) -> tuple[str, ...]:
        """The names of the categories in which a text with other numbers updates a fact."""
        return tuple(category.name for category in self.categories.values() if category.numeric_update)

    @cached_property
    def tag_names(self) -> TagNames:
        """The names that stand in brackets before a line: the categories and their labels, and the roles of a chat."""
        named = ((category.name, category.label) for category in self.categories.values())
        return collect_tag_names(name for names in named for name in names if name)

    def visible_to(self, agents: Iterable[str]) -> frozenset[str]:
        """Return every category that at least one of these agents may see. An agent without an allowlist sees none."""
        return frozenset(c for agent in agents for c in self.allowlists.get(agent, ()))

    def agents_without_category(self, category: str) -> list[str]:
        """Return the agents that cannot see the category; their turns are excluded as sources."""
        return sorted(agent for agent, names in self.allowlists.items() if category not in names)

    def categories_of_all_viewers(self, category: str) -> list[str]:
        """Return the categories that every agent which may see `category` may see too.

        Only memories of these categories may be sources of a memory of `category`.
        """
        viewers = [set(names) for names in self.allowlists.values() if category in names]
        return sorted(set(self.categories).intersection(*viewers))

    def choose_agent(self, principal: Principal, named: str | None, default: str) -> str:
        """Return the agent of a query: the `named` one, else the only one of the key, else the installation's default.

        Raise AgentRequired if none of them can speak for this key.
        """
        if named is not None:
            return named
        if principal.agents is not None and len(principal.agents) == 1:
            return next(iter(principal.agents))
        if principal.agents is None and default in self.allowlists:
            return default
        raise AgentRequired(f"name an agent; this key may speak as: {list_names(self.agents_of(principal))}")

    def agent_categories(self, principal: Principal, agent: str) -> frozenset[str]:
        """Return the agent's categories.

        Raise AgentNotAllowed if the key is bound to other agents, UnknownAgent if the agent has no allowlist.
        """
        if principal.agents is not None and agent not in principal.agents:
            raise AgentNotAllowed(
                f"this key may not speak as {agent!r}; it may speak as: {list_names(principal.agents)}"
            )
        if agent not in self.allowlists:
            raise UnknownAgent(
                f"no allowlist for agent {agent!r}; this key may speak as: {list_names(self.agents_of(principal))}"
            )
        return frozenset(self.allowlists[agent])

    def agents_of(self, principal: Principal) -> list[str]:
        """Return the agents with an allowlist that a key may speak as, sorted by name."""
        return sorted(a for a in self.allowlists if principal.agents is None or a in principal.agents)

    def usable_by(self, principal: Principal) -> list[str]:
        """Return the configured categories that a key may write and see, in configuration order."""
        seen = self.categories if principal.categories is None else principal.categories
        return [name for name in self.categories if name in seen]

    def delta_categories(self, principal: Principal, agent: str) -> list[str]:
        """Return the categories whose changes the agent's delta shows: its own ones without procedural.

        Raise the same errors as `agent_categories`.
        """
        return sorted(self.agent_categories(principal, agent) - {PROCEDURAL})

    def searchable_by(self, principal: Principal) -> list[str]:
        """Return the categories that a key may search without an agent, without procedural, in configuration order."""
        return [name for name in self.usable_by(principal) if name != PROCEDURAL]

    def resolve_categories(
        self, principal: Principal, agent: str, requested: Iterable[str], filter_category: str | None
    ) -> list[str]:
        """Return the categories that a query searches, in configuration order.

        The default, if `requested` is empty, is all of the agent's categories without procedural. Raise
        CategoryNotAllowed with the names of the refused categories.
        """
        allowed = self.agent_categories(principal, agent)
        wanted = set(requested)
        if refused := sorted((wanted | ({filter_category} if filter_category else set())) - allowed):
            detail = f"agent {agent!r} may not use: {', '.join(refused)}; it may use: {list_names(allowed)}"
            raise CategoryNotAllowed(detail, categories=refused)
        chosen = wanted or (allowed - {PROCEDURAL} if filter_category != PROCEDURAL else allowed)
        if filter_category:
            chosen &= {filter_category}
        return [name for name in self.categories if name in chosen]
