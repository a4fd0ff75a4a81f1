"""The MCP interface: memory as tools, resources and prompts, over streamable HTTP, and over stdio as its client."""

from collections.abc import Mapping
from typing import Final, Literal

NAME = "mnema"
INSTRUCTIONS = """Long-term memory shared by agents. Query it before you rely on knowledge about a user, a task or an
earlier conversation. Pass thread_id to see first what changed in that thread since your last query. Remember facts that
will matter later, each as one self-contained sentence in the third person. Every answer contains only memories that the
agent may see."""
FIXED_HEADERS: Final[Mapping[Literal["agent", "user", "thread"], str]] = {
    "agent": "X-Mnema-Agent",
    "user": "X-Mnema-User",
    "thread": "X-Mnema-Thread",
}
"""The headers that fix an argument of every call, in percent-encoded UTF-8."""
