"""Who asks and for whom: the first argument of every use-case."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import UUID

from app.domain.errors import CategoryNotAllowed


@dataclass(frozen=True, slots=True)
class Principal:
    """Tenant, API key and the caller's own identifiers.

    `categories` is None for a key bound to no agent; otherwise the only categories this key may see or write, on every
    route. Storage filters by it.
    """

    tenant_id: UUID
    key_id: UUID | None = None
    scopes: frozenset[str] = frozenset()
    agents: frozenset[str] | None = None
    categories: frozenset[str] | None = None
    agent: str | None = None

    @property
    def actor_name(self) -> str:
        """Who the history names: the agent, else the key."""
        return self.agent or (f"key:{self.key_id}" if self.key_id else "system")

    @property
    def category_list(self) -> list[str] | None:
        """`categories` as storage takes them."""
        return None if self.categories is None else sorted(self.categories)

    def speaking_as(self, agent: str | None) -> "Principal":
        """This scope with the agent named in the request."""
        return replace(self, agent=agent) if agent else self

    def require_categories(self, categories: Iterable[str]) -> None:
        """Raise CategoryNotAllowed, naming them, for categories this key is not bound to."""
        if self.categories is not None and (refused := sorted(set(categories) - self.categories)):
            raise CategoryNotAllowed(f"not allowed for this key: {', '.join(refused)}", categories=refused)
