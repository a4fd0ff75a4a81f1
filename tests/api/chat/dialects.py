"""The chat APIs as their clients use them: how a request is written, and where its answer has what."""

import json
from abc import ABC, abstractmethod
from typing import Any

import httpx

from app.domain.chat.upstream import ANTHROPIC, OPENAI, UpstreamDialect

TERSE = "You are terse."


class Client(ABC):
    """A client of one chat API. `path` is the route; `upstream` the dialect of the upstream that serves it."""

    path: str
    upstream: UpstreamDialect
    broken_off: str
    """The name of the event that tells of an error in mid-stream."""

    @abstractmethod
    def ask(self, *texts: str, **fields: Any) -> dict[str, Any]:
        """Return a request whose messages are the texts, from the user and the assistant in turn."""

    @abstractmethod
    def sent_text(self, body: dict[str, Any]) -> str:
        """Return the text of the last message of a request as it arrived upstream."""

    @abstractmethod
    def said(self, answer: dict[str, Any]) -> str:
        """Return the text of an answer."""

    @abstractmethod
    def last_event(self, stream: str) -> dict[str, Any]:
        """Return the object of a stream that has Mnema's members."""


class Responses(Client):
    """OpenAI's Responses."""

    path = "/v1/responses"
    upstream = OPENAI
    broken_off = "error"

    def ask(self, *texts: str, **fields: Any) -> dict[str, Any]:
        """Return a request with the texts as items; a single one is the input itself."""
        items = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
        asked = texts[0] if len(texts) == 1 else items
        return {"model": "scripted-1", "user": "maya", "input": asked, "store": False} | fields

    def sent_text(self, body: dict[str, Any]) -> str:
        """Return the input, or the content of its last item."""
        asked = body["input"]
        return str(asked if isinstance(asked, str) else asked[-1]["content"])

    def said(self, answer: dict[str, Any]) -> str:
        """Return the text of the messages of the output."""
        messages = [item for item in answer["output"] if item["type"] == "message"]
        return "".join(part["text"] for item in messages for part in item["content"])

    def last_event(self, stream: str) -> dict[str, Any]:
        """Return the response of the last event."""
        response: dict[str, Any] = events_of(stream)[-1]["response"]
        return response


class Messages(Client):
    """Anthropic's Messages."""

    path = "/v1/messages"
    upstream = ANTHROPIC
    broken_off = "error"

    def ask(self, *texts: str, **fields: Any) -> dict[str, Any]:
        """Return a request with the texts as messages."""
        messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
        return {"model": "scripted-1", "user": "maya", "max_tokens": 64, "messages": messages} | fields

    def sent_text(self, body: dict[str, Any]) -> str:
        """Return the content of the last message."""
        return str(body["messages"][-1]["content"])

    def said(self, answer: dict[str, Any]) -> str:
        """Return the text of the blocks."""
        return "".join(block["text"] for block in answer["content"] if block["type"] == "text")

    def last_event(self, stream: str) -> dict[str, Any]:
        """Return the last event itself."""
        return events_of(stream)[-1]


RESPONSES = Responses()
MESSAGES = Messages()
CLIENTS = (RESPONSES, MESSAGES)


def events_of(stream: str) -> list[dict[str, Any]]:
    """Return the data of the events of a stream."""
    lines = (line for line in stream.splitlines() if line.startswith("data: {"))
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def post(http: httpx.AsyncClient, client: Client, *texts: str, **fields: Any) -> httpx.Response:
    """Send a chat."""
    return await http.post(client.path, json=client.ask(*texts, **fields))
