"""Categories and agent allowlists (seed 003 §5)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from app.domain.errors import AgentNotAllowed, CategoryNotAllowed, InvalidInput, UnknownAgent, UnknownCategory
from app.domain.principal import Principal

PROCEDURAL = "procedural"


@dataclass(frozen=True, slots=True)
class Category:
    """One category's policy. `context` all: comes whole; rag: ranked, at most `rag_length` candidates."""

    name: str
    context: Literal["all", "rag"] = "rag"
    rag_length: int = 30
    label: str | None = None
    description: str | None = None
    numeric_update: bool = False
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class CategoryPolicy:
    """Every known category and what each agent may see."""

    categories: Mapping[str, Category]
    allowlists: Mapping[str, tuple[str, ...]]

    def get_category(self, name: str) -> Category:
        """The category's policy; raises UnknownCategory."""
        if name not in self.categories:
            raise UnknownCategory(f"category {name!r} is not configured", categories=[name])
        return self.categories[name]

    def visible_to(self, agents: Iterable[str]) -> frozenset[str]:
        """All that these agents may see together; an agent without an allowlist sees nothing."""
        return frozenset(c for agent in agents for c in self.allowlists.get(agent, ()))

    def agents_without_category(self, category: str) -> list[str]:
        """Those that may not see it: nothing of theirs becomes a memory of that category."""
        return sorted(agent for agent, names in self.allowlists.items() if category not in names)

    def categories_of_all_viewers(self, category: str) -> list[str]:
        """What every agent may see that may see this one: of other categories nothing may be made that belongs here."""
        viewers = [set(names) for names in self.allowlists.values() if category in names]
        return sorted(set(self.categories).intersection(*viewers))

    def agent_categories(self, scope: Principal, agent: str) -> frozenset[str]:
        """The agent's categories; raises AgentNotAllowed for another's agent, UnknownAgent when it has none."""
        if scope.agents is not None and agent not in scope.agents:
            raise AgentNotAllowed(f"this key may not speak as {agent!r}")
        if agent not in self.allowlists:
            raise UnknownAgent(f"no allowlist for agent {agent!r}")
        return frozenset(self.allowlists[agent])

    def delta_categories(self, scope: Principal, agent: str) -> list[str]:
        """The categories whose changes the agent is told of: its own, less procedural; raises as `allowlist`."""
        return sorted(self.agent_categories(scope, agent) - {PROCEDURAL})

    def resolve_categories(
        self, scope: Principal, agent: str, requested: Iterable[str], filter_category: str | None
    ) -> list[str]:
        """The categories a query may look into, in configuration order (SPEC §2).

        None requested = all of the agent's, less procedural. Raises CategoryNotAllowed naming what is refused, and
        InvalidInput for procedural among others: it is never mixed with them (seed 003 §12).
        """
        allowed = self.agent_categories(scope, agent)
        wanted = list(dict.fromkeys(requested))
        named = {*wanted, *([filter_category] if filter_category else [])}
        if refused := sorted(named - allowed):
            raise CategoryNotAllowed(f"agent {agent!r} may not use: {', '.join(refused)}", categories=refused)
        chosen = set(wanted) or (allowed - {PROCEDURAL} if filter_category != PROCEDURAL else allowed)
        if filter_category:
            chosen &= {filter_category}
        if PROCEDURAL in chosen and len(chosen) > 1:
            raise InvalidInput("ask for procedural alone: it is never mixed with other categories")
        return [name for name in self.categories if name in chosen]
