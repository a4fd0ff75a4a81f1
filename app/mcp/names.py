"""The names of the tools: the listed ones, and those that calls may use."""

import re
from collections.abc import Mapping, Sequence

from app.config.settings import ToolKind
from app.mcp.connection import Connection
from app.mcp.tools import TOOLS, Tool

PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Tool names that OpenAI and Anthropic accept."""


class ToolNames:
    """The tools of an installation by name. A kind of tool without a name is off.

    A tool that is on can also be called as `memory.` and its kind, however the installation names it.
    """

    def __init__(self, configured: Mapping[ToolKind, Sequence[str]]) -> None:
        self._named = {name: tool for tool in TOOLS for name in configured.get(tool.kind, ())}
        self._known = {f"memory.{tool.kind}": tool for tool in self._named.values()} | self._named

    def find(self, name: str) -> Tool | None:
        """Return the tool with this name, None if there is none."""
        return self._known.get(name)

    def listed_for(self, connection: Connection, *, dotted: bool = False) -> list[tuple[str, Tool]]:
        """Return the tools that the key may call, by plain names or by those with a dot."""
        return [
            (name, tool)
            for name, tool in self._named.items()
            if connection.caller.has_scope(tool.scope)
            and (tool.kind != "facts" or connection.may_read_facts)
            and bool(PLAIN_NAME.fullmatch(name)) != dotted
        ]

    def name_of(self, kind: ToolKind) -> str:
        """Return the name to use in a text: the first plain one, else the one with a dot."""
        plain = (name for name, tool in self._named.items() if tool.kind == kind and PLAIN_NAME.fullmatch(name))
        return next(plain, f"memory.{kind}")
