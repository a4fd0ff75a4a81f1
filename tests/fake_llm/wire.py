"""The wire format of OpenAI's chat completions."""

import json
from collections.abc import Iterator
from typing import Any

from starlette.responses import Response, StreamingResponse

Message = str | tuple[str, dict[str, Any]]
"""The model's text, or the function that it calls with its arguments."""


def tokens(body: dict[str, Any]) -> int:
    """Return the number of tokens that the server reports for a request."""
    return len(json.dumps(body["messages"])) // 4 + 1


def completion(
    body: dict[str, Any], said: Message, number: int, *, reason: str | None = None, usage: bool = True
) -> dict[str, Any]:
    """Return a complete answer."""
    message, finish = _message(said, number)
    answer = {
        "id": f"chat-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason or finish}],
    }
    return answer | ({"usage": _usage(body, said)} if usage else {})


def stream(body: dict[str, Any], said: Message, number: int, *, cut: bool = False) -> Response:
    """Yield the same answer as server-sent events, word by word. With `cut` it ends in the middle, without [DONE]."""
    return StreamingResponse(_events(body, said, number, cut), media_type="text/event-stream")


def _events(body: dict[str, Any], said: Message, number: int, cut: bool) -> Iterator[str]:
    message, finish = _message(said, number)
    head = {"id": f"chat-{number}", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    for delta in [{"role": "assistant"}, *_deltas(message)]:
        yield _event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if cut and len(delta) and "role" not in delta:
            return
    yield _event(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event(head | {"choices": [], "usage": _usage(body, said)})
    yield "data: [DONE]\n\n"


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for call in message.get("tool_calls", ()):
        yield {"tool_calls": [call | {"index": 0}]}
    for word in (message["content"] or "").split(" "):
        if word:
            yield {"content": word + " "}


def _message(said: Message, number: int) -> tuple[dict[str, Any], str]:
    if isinstance(said, str):
        return {"content": said}, "stop"
    function = {"name": said[0], "arguments": json.dumps(said[1])}
    call = {"id": f"call-{number}", "type": "function", "function": function}
    return {"content": None, "tool_calls": [call]}, "tool_calls"


def _usage(body: dict[str, Any], said: Message) -> dict[str, int]:
    asked, answered = tokens(body), len(json.dumps(said)) // 4 + 1
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"
