"""The authenticated caller: the first argument of every use-case."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol
from uuid import UUID

from app.domain.errors import CategoryNotAllowed, UserRequired
from app.domain.ids import list_names

READ_ALL: Final = "read_all"
"""The scope of keys that may read the memories of all users at once."""


class Lease(Protocol):
    """The right to act by an API key, which ends when the key is revoked or expires."""

    def require_live(self) -> None:
        """Raise Unauthenticated if the key is known to be revoked or expired."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller: its tenant, its API key and what the key may do.

    `agents` is None if the key is bound to no agent; so is `categories`. Otherwise `categories` are the only ones that
    this key may see or write, on every route; storage filters by them. `agent` is the agent named in the request.
    `client` is the program that writes for a person, such as the mirror. It allows nothing. Storage begins and commits
    nothing unless the `lease` is live; work without one, such as a job, acts on its own.
    """

    tenant_id: UUID
    key_id: UUID | None = None
    scopes: frozenset[str] = frozenset()
    agents: frozenset[str] | None = None
    categories: frozenset[str] | None = None
    agent: str | None = None
    client: str | None = None
    lease: Lease | None = field(default=None, compare=False, repr=False)

    def require_live(self) -> None:
        """Raise Unauthenticated if the key has ended since the request began."""
        if self.lease is not None:
            self.lease.require_live()

    @property
    def actor_name(self) -> str:
        """The actor in history rows: the client, else the agent, else `key:<id>`, else `system`."""
        return self.client or self.agent or (f"key:{self.key_id}" if self.key_id else "system")

    @property
    def cursor_key(self) -> UUID:
        """The key that a delta cursor belongs to; zero for all keys that are bound to one and the same agent alone."""
        shared = self.key_id is None or (self.agents is not None and len(self.agents) == 1)
        return UUID(int=0) if shared or self.key_id is None else self.key_id

    @property
    def category_list(self) -> list[str] | None:
        """Sorted `categories` for a database argument; None if the key is bound to no agent."""
        return None if self.categories is None else sorted(self.categories)

    def has_scope(self, name: str) -> bool:
        """Return True if the key has the scope `name`. The scope `admin` includes every other."""
        return name in self.scopes or "admin" in self.scopes

    @property
    def reads_all(self) -> bool:
        """True if the key may read all users of the tenant at once. Work without a key may."""
        return self.key_id is None or self.has_scope(READ_ALL)

    def reach(self, user_id: str | None) -> str | None:
        """Return the user that a statement selects, None for all users of the tenant.

        Storage passes every user that may be absent through this method. Raise UserRequired for all users if the key
        may not read them.
        """
        if user_id is None and not self.reads_all:
            raise UserRequired(f"name a user_id; only a key with the scope {READ_ALL} reads all users of the tenant")
        return user_id

    def speaking_as(self, agent: str | None) -> "Principal":
        """Return this principal with `agent` as its agent; unchanged if `agent` is None or empty."""
        return replace(self, agent=agent) if agent else self

    def writing_through(self, client: str | None) -> "Principal":
        """Return this principal with `client` as its actor; unchanged if `client` is None."""
        return replace(self, client=client) if client else self

    def bound_to(self, agent: str, categories: Iterable[str]) -> "Principal":
        """Return this principal as if its key were bound to `agent` alone, which may use `categories`."""
        return replace(self, agents=frozenset({agent}), categories=frozenset(categories), agent=agent)

    def require_categories(self, categories: Iterable[str]) -> None:
        """Raise CategoryNotAllowed with the names of the categories that this key may not use."""
        if self.categories is not None and (refused := sorted(set(categories) - self.categories)):
            detail = f"not allowed for this key: {', '.join(refused)}; it may use: {list_names(self.categories)}"
            raise CategoryNotAllowed(detail, categories=refused)
