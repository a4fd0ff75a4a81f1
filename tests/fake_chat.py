"""A scripted chat model on loopback: OpenAI's chat completions with prepared replies in order."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.fake_llm.wire import Message, completion
from tests.loopback import loopback


@dataclass
class FakeChat:
    """The running server. `replies` are used in order; `requests` holds the bodies that arrived."""

    base_url: str = ""
    replies: deque[Message] = field(default_factory=deque)
    requests: list[dict[str, Any]] = field(default_factory=list)

    async def completions(self, request: Request) -> Response:
        """Answer POST /v1/chat/completions."""
        body = await request.json()
        self.requests.append(body)
        if not self.replies:
            return JSONResponse({"error": {"message": "the script has no more replies"}}, 400)
        return JSONResponse(completion(body, self.replies.popleft(), len(self.requests)))

    def said_to_it(self, number: int) -> str:
        """Return all text of a request's messages."""
        return "\n".join(str(message.get("content")) for message in self.requests[number]["messages"])


@asynccontextmanager
async def fake_chat(*replies: Message) -> AsyncIterator[FakeChat]:
    """Run a server on a free port that gives these replies."""
    fake = FakeChat(replies=deque(replies))
    routes = [Route("/v1/chat/completions", fake.completions, methods=["POST"])]
    async with loopback(routes, asyncio.Event()) as url:
        fake.base_url = f"{url}/v1"
        yield fake
