"""The two tools that a model gets: ask the memory, and remember. The program chooses user, agent and categories."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from mnema_client.client import AsyncMnema
from mnema_client.errors import CannotBeSent, InvalidRequest, NotAllowed

QUERY = "Find what is remembered of the user you speak with: facts, preferences, tasks, earlier talk."
REMEMBER = "Keep one fact about the user for later conversations, as a sentence of at most 280 characters."


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Query(_Arguments):
    query: str = Field(description="what you want to know, in words", min_length=1)


@dataclass(frozen=True)
class MemoryTool:
    """A tool: its name, its description for the model, and the model of its arguments."""

    name: str
    description: str
    arguments: type[BaseModel]
    work: Callable[[Any], Awaitable[str]]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments; all are required."""
        return self.arguments.model_json_schema()

    async def run(self, arguments: str | Mapping[str, Any]) -> str:
        """Return the result as text for the model; `arguments` is JSON or the values.

        Wrong arguments and refusals that the model can react to are a text that starts with `error: `. Raise MnemaError
        for all else, such as a revoked key or a server that is away.
        """
        try:
            read = self.arguments.model_validate_json if isinstance(arguments, str) else self.arguments.model_validate
            return await self.work(read(arguments))  # type: ignore[arg-type]  # chosen by the type of the arguments
        except ValidationError as error:
            faults = (f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}" for fault in error.errors())
            return f"error: {'; '.join(faults)}"
        except (InvalidRequest, NotAllowed, CannotBeSent) as error:
            return f"error: {error}"


def build_memory_tools(
    memory: AsyncMnema,
    *,
    user_id: str,
    agent: str | None = None,
    categories: Sequence[str],
    thread_id: str | None = None,
    top_k: int = 5,
) -> list[MemoryTool]:
    """Return the tools `memory_query` and `memory_remember` for one user.

    `agent`: asks under this name, so its allowlist applies; its writes carry it. Without one, the default agent asks,
    and writes carry none. `categories`: those that the model may write to; with none, it gets only `memory_query`.
    `thread_id`: of the conversation, for the header of changes and as the source of what is remembered.
    """

    async def query(given: _Query) -> str:
        answer = await memory.query(
            given.query, agent=agent, filters={"user_id": user_id}, thread_id=thread_id, top_k=top_k
        )
        return answer.prompt() or "(nothing is remembered of that)"

    async def remember(given: Any) -> str:
        written = await memory.remember(
            given.text, user_id=user_id, category=given.category, agent_id=agent, thread_id=thread_id
        )
        return f"not stored: {written.reason}" if written.id is None and written.reason else written.action

    tools = [MemoryTool("memory_query", QUERY, _Query, query)]
    if categories:
        text = (str, Field(description="the fact, in a sentence that is clear by itself", min_length=1))
        allowed: Any = (Literal[tuple(categories)], Field(description="what the fact is about"))
        arguments = create_model("MemoryRemember", __base__=_Arguments, text=text, category=allowed)
        tools.append(MemoryTool("memory_remember", REMEMBER, arguments, remember))
    return tools
