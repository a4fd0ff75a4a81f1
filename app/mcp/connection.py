"""One MCP connection: its principal, and the arguments that its headers fix, so that no model chooses them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote

from starlette.datastructures import Headers

from app.bootstrap import Application
from app.domain.categories import CategoryPolicy
from app.domain.errors import InvalidInput, NotFound
from app.domain.ids import check_identifier
from app.domain.principal import Principal
from app.mcp import FIXED_HEADERS

Name = Literal["agent", "user", "thread"]
Places = Mapping[Name, tuple[str, ...]]
"""The place of each fixed value in the arguments of a tool, such as {"user": ("filters", "user_id")}."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The principal of a connection and its fixed values.

    `caller` is bound to the fixed agent, if there is one. `fixed` has the values that every call gets. `policy` has
    the categories and agents of the tenant, `facts_category` the category of facts.
    """

    caller: Principal
    fixed: Mapping[Name, str]
    policy: CategoryPolicy
    facts_category: str

    @property
    def agent(self) -> str | None:
        """The only agent that this connection may speak as, None if it may choose."""
        agents = self.caller.agents
        return next(iter(agents)) if agents is not None and len(agents) == 1 else None

    @property
    def agents(self) -> list[str]:
        """The agents that this connection may speak as, sorted by name."""
        return self.policy.agents_of(self.caller)

    @property
    def readable(self) -> list[str]:
        """The categories that at least one of `agents` may see, in configuration order."""
        seen = self.policy.visible_to(self.agents)
        return [name for name in self.policy.categories if name in seen]

    @property
    def writable(self) -> list[str]:
        """The categories that this connection may write, in configuration order."""
        return self.policy.usable_by(self.caller)

    @property
    def may_read(self) -> bool:
        """True if the key has the scope `query`."""
        return self.caller.has_scope("query")

    @property
    def may_read_facts(self) -> bool:
        """True if the key, and the fixed agent, may see the category of facts."""
        return self.caller.categories is None or self.facts_category in self.caller.categories

    @property
    def may_write(self) -> bool:
        """True if the key has the scope `write`."""
        return self.caller.has_scope("write")

    def default_of(self, name: Name) -> str | None:
        """Return the value that a call gets if it names none. None if the call must choose."""
        return self.agent if name == "agent" else self.fixed.get(name)

    def fill_arguments(self, places: Places, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with the fixed values at their places. Raise InvalidInput for another value there."""
        filled = dict(arguments)
        for name, (first, *rest) in places.items():
            if self.default_of(name) is None:
                continue
            if not rest:
                filled[first] = self.resolve_value(name, filled.get(first), first)
            elif isinstance(inner := filled.get(first) or {}, Mapping):
                filled[first] = {**inner, rest[0]: self.resolve_value(name, inner.get(rest[0]), f"{first}.{rest[0]}")}
        return filled

    def resolve_value(self, name: Name, given: Any, place: str) -> Any:
        """Return the value for `place`. Raise InvalidInput if the connection fixes another one than `given`."""
        if given is None:
            return self.default_of(name)
        if (fixed := self.fixed.get(name)) not in (None, given):
            raise InvalidInput(f"{place} is fixed to {fixed!r} on this connection; leave it out")
        return given

    def require_user(self, user_id: str) -> None:
        """Raise NotFound for a memory of another user than the fixed one."""
        if self.fixed.get("user") not in (None, user_id):
            raise NotFound()


def open_connection(app: Application, caller: Principal, headers: Headers) -> Connection:
    """Return the connection of a request.

    Raise InvalidInput for a malformed header, AgentNotAllowed or UnknownAgent for an agent that the key may not name.
    """
    fixed: dict[Name, str] = {}
    for name, header in FIXED_HEADERS.items():
        if values := headers.getlist(header):
            fixed[name] = _read_value(header, values)
    policies = app.parts.policies.of(caller)
    policy = policies.categories
    if (agent := fixed.get("agent")) is not None:
        caller = caller.bound_to(agent, policy.agent_categories(caller, agent))
    return Connection(caller, fixed, policy, policies.facts.category)


def _read_value(header: str, values: list[str]) -> str:
    if len(values) > 1:
        raise InvalidInput(f"the header {header} appears more than once")
    try:
        return check_identifier(unquote(values[0], errors="strict"))
    except (InvalidInput, UnicodeDecodeError):
        raise InvalidInput(f"the header {header} needs an identifier in percent-encoded UTF-8") from None
