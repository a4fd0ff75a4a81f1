"""A scripted chat model on loopback: OpenAI's chat completions, one prepared reply after the other."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.loopback import loopback

Reply = str | tuple[str, dict[str, Any]]
"""What it says, or the function it calls and with what."""


@dataclass
class FakeChat:
    """The running server. `replies` are used up in order; `requests` holds the bodies received."""

    base_url: str = ""
    replies: deque[Reply] = field(default_factory=deque)
    requests: list[dict[str, Any]] = field(default_factory=list)

    async def completions(self, request: Request) -> Response:
        """POST /v1/chat/completions."""
        body = await request.json()
        self.requests.append(body)
        if not self.replies:
            return JSONResponse({"error": {"message": "the script has no more replies"}}, 400)
        message, reason = self._message(self.replies.popleft())
        return JSONResponse(
            {
                "id": f"chat-{len(self.requests)}",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
        )

    def _message(self, reply: Reply) -> tuple[dict[str, Any], str]:
        if isinstance(reply, str):
            return {"content": reply}, "stop"
        name, arguments = reply
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call-{len(self.requests)}", "type": "function", "function": function}
        return {"content": None, "tool_calls": [call]}, "tool_calls"

    def said_to_it(self, number: int) -> str:
        """All text of a request's messages."""
        return "\n".join(str(message.get("content")) for message in self.requests[number]["messages"])


@asynccontextmanager
async def fake_chat(*replies: Reply) -> AsyncIterator[FakeChat]:
    """A server on a free port that gives these replies."""
    fake = FakeChat(replies=deque(replies))
    routes = [Route("/v1/chat/completions", fake.completions, methods=["POST"])]
    async with loopback(routes, asyncio.Event()) as url:
        fake.base_url = f"{url}/v1"
        yield fake
