"""A scripted Claude on loopback: Anthropic's messages with prepared replies in order."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.loopback import loopback


@dataclass
class FakeClaude:
    """The running server. `replies` are used in order: a text, or the input of a call of the memory tool."""

    base_url: str = ""
    replies: deque[str | dict[str, Any]] = field(default_factory=deque)
    requests: list[dict[str, Any]] = field(default_factory=list)

    async def messages(self, request: Request) -> Response:
        """Answer POST /v1/messages. A thread goes on with the new messages alone."""
        self.requests.append(await request.json())
        if not self.replies:
            error = {"type": "invalid_request_error", "message": "the script has no more replies"}
            return JSONResponse({"type": "error", "error": error}, 400)
        said, number = self.replies.popleft(), len(self.requests)
        block: dict[str, Any] = {"type": "text", "text": said}
        if isinstance(said, dict):
            block = {"type": "tool_use", "id": f"call-{number}", "name": "memory", "input": said}
        stop = "tool_use" if isinstance(said, dict) else "end_turn"
        answer = {"id": f"message-{number}", "type": "message", "role": "assistant", "model": "scripted"}
        ends = {"stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        return JSONResponse(answer | {"content": [block]} | ends)

    @property
    def tool_results(self) -> list[dict[str, Any]]:
        """The results of the tool as the model got them, in order."""
        contents = (message["content"] for body in self.requests for message in body["messages"])
        blocks = (block for content in contents if isinstance(content, list) for block in content)
        found = {block["tool_use_id"]: block for block in blocks if block["type"] == "tool_result"}
        return list(found.values())


@asynccontextmanager
async def fake_claude(*replies: str | dict[str, Any]) -> AsyncIterator[FakeClaude]:
    """Run a server on a free port that gives these replies."""
    fake = FakeClaude(replies=deque(replies))
    routes = [Route("/v1/messages", fake.messages, methods=["POST"])]
    async with loopback(routes, asyncio.Event()) as fake.base_url:
        yield fake
