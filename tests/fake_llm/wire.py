"""The wire format of OpenAI's chat completions."""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from starlette.responses import Response, StreamingResponse

from tests.fake_llm.behaviour import Spoken

Call = tuple[str, dict[str, Any]]
Message = str | Call | list[Call]
"""The model's text, the function that it calls with its arguments, or several such calls."""


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


def speak(body: dict[str, Any], spoken: Spoken, number: int) -> Response:
    """Return an answer with this message, streamed if the request asks for it."""
    usage = _usage(body, str(spoken.message.get("content"))) | dict(spoken.usage or {})
    told = {} if spoken.usage == {} else {"usage": usage}
    head = {"id": f"chat-{number}", "created": 1, "model": body["model"]}
    message = {"role": "assistant", **spoken.message}
    end = {"index": 0, "finish_reason": spoken.finish}
    if not body.get("stream"):
        choice = {**end, "message": message}
        whole = {**head, "object": "chat.completion", "choices": [choice], **told}
        return Response(json.dumps(whole), media_type="application/json")  # half a character can be an escape alone
    calls = [{"index": index, **call} for index, call in enumerate(message.get("tool_calls") or ())]
    delta = {**message, "tool_calls": calls} if calls else message
    events = [
        _event({**head, "object": "chat.completion.chunk", "choices": [{**end, "delta": delta}]}),
        _event({**head, "object": "chat.completion.chunk", "choices": [], **told}),
        "data: [DONE]\n\n",
    ]
    return StreamingResponse(iter(events), media_type="text/event-stream")


def stream(
    body: dict[str, Any],
    said: Message,
    number: int,
    *,
    cut: bool = False,
    usage: dict[str, int] | None = None,
    then: Callable[[], AsyncIterator[str]] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """Return the same answer as server-sent events, word by word.

    With `cut` it ends in the middle, without [DONE]; `then` follows. `usage` is reported in place of the real one, and
    nothing is if it is empty.
    """
    events = _events(body, said, number, cut, usage, then)
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def chunks(
    body: dict[str, Any], said: Message, number: int, usage: dict[str, int] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the same answer as chunks: a text word by word, a call's arguments in pieces."""
    message, finish = _message(said, number)
    head = {"id": f"chat-{number}", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    for delta in [{"role": "assistant"}, *_deltas(message)]:
        yield head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield head | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    reported = _usage(body, said) if usage is None else usage
    if reported and (body.get("stream_options") or {}).get("include_usage"):
        yield head | {"choices": [], "usage": reported}


async def _events(
    body: dict[str, Any],
    said: Message,
    number: int,
    cut: bool,
    usage: dict[str, int] | None,
    then: Callable[[], AsyncIterator[str]] | None,
) -> AsyncIterator[str]:
    for place, chunk in enumerate(chunks(body, said, number, usage)):
        yield _event(chunk)
        if cut and place:
            break
    else:
        yield "data: [DONE]\n\n"
    if then is not None:
        async for event in then():
            yield event


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for index, call in enumerate(message.get("tool_calls", ())):
        pieces = re.findall(r"(?s).{1,7}", call["function"]["arguments"])
        named = call["function"] | {"arguments": ""}
        yield {"tool_calls": [{"index": index, **call, "function": named}]}
        yield from ({"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces)
    for word in re.findall(r"\S+\s*|\s+", message["content"] or ""):
        yield {"content": word}


def _message(said: Message, number: int) -> tuple[dict[str, Any], str]:
    if isinstance(said, str):
        return {"content": said}, "stop"
    calls = [said] if isinstance(said, tuple) else said
    return {
        "content": None,
        "tool_calls": [_call(*call, f"{number}-{i}") for i, call in enumerate(calls)],
    }, "tool_calls"


def _call(name: str, arguments: dict[str, Any], number: str) -> dict[str, Any]:
    return {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def _usage(body: dict[str, Any], said: Message) -> dict[str, int]:
    asked, answered = tokens(body), len(json.dumps(said)) // 4 + 1
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"
