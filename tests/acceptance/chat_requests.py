"""Chats in each API that Mnema speaks, as drills send them."""

from typing import Any, Final

import httpx

ENDS: Final = {
    "/v1/chat/completions": "data: [DONE]",
    "/v1/responses": '"type":"response.completed"',
    "/v1/messages": '"type":"message_stop"',
}
"""A text in the last line of a complete stream, by path."""


def chat_body(path: str, text: str, **fields: Any) -> dict[str, Any]:
    """Return a request with one message of the user."""
    message = {"role": "user", "content": text}
    return {"model": "m", "input" if path == "/v1/responses" else "messages": [message]} | fields


def ended_well(path: str, answer: httpx.Response) -> bool:
    """Tell whether the client has the whole answer: a body that breaks off raises an error of its own."""
    if answer.status_code != 200:
        return False
    streams = answer.headers["content-type"].startswith("text/event-stream")
    return not streams or ENDS[path] in answer.text.rstrip().splitlines()[-1]
