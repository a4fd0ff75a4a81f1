"""The wire formats of the chat APIs that the upstream speaks."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from tests.fake_llm.wire import Call, Message, tokens
from tests.scripted_upstream.answers import chunked_answer, text_of, whole_answer
from tests.scripted_upstream.faults import Fault, error_of

Event = tuple[str | None, dict[str, Any] | str]
"""The name of an event, None without one, and its data."""
PIECES = re.compile(r"\S+\s*|\s+")


class Wire(ABC):
    """A chat API: its requests as chat completions, and its answers.

    `needs_version`: it refuses a request without the header `anthropic-version`.
    """

    path: str
    needs_version = False

    @abstractmethod
    def read_request(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return the request as one of Chat Completions; None if it is none."""

    @abstractmethod
    def whole(self, body: dict[str, Any], said: Message, number: int) -> dict[str, Any]:
        """Return the answer as one object. `body` is what `read_request` returned."""

    @abstractmethod
    def events(self, body: dict[str, Any], said: Message, number: int, fault: Fault) -> Iterator[Event]:
        """Yield the answer as events. The last one is missing under NO_DONE and NO_FINISH."""

    def error(self, fault: Fault) -> dict[str, Any]:
        """Return the body of an error."""
        return {"error": error_of(fault)}

    def error_event(self, fault: Fault) -> Event:
        """Return the event of an error within a stream."""
        return None, self.error(fault)


class CompletionsWire(Wire):
    """Chat Completions."""

    path = "/v1/chat/completions"

    def read_request(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return the request itself."""
        return body if body.get("messages") else None

    def whole(self, body: dict[str, Any], said: Message, number: int) -> dict[str, Any]:
        """Return a completion."""
        return whole_answer(body, said, number)

    def events(self, body: dict[str, Any], said: Message, number: int, fault: Fault) -> Iterator[Event]:
        """Yield chunks."""
        for chunk in chunked_answer(body, said, number):
            if fault is Fault.NO_FINISH and any(choice["finish_reason"] for choice in chunk["choices"]):
                continue
            yield None, chunk
        if fault is not Fault.NO_DONE:
            yield None, "[DONE]"


class ResponsesWire(Wire):
    """Responses. An effort of reasoning brings an item of reasoning."""

    path = "/v1/responses"

    def read_request(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return the request as one of Chat Completions."""
        asked = body.get("input")
        if not asked:
            return None
        items = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
        system = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
        form = (body.get("text") or {}).get("format") or {}
        tools = [{"type": "function", "function": tool} for tool in body.get("tools") or ()]
        choice = body.get("tool_choice")
        return {
            "model": body["model"],
            "stream": body.get("stream"),
            "messages": system + [_message_of(item) for item in items],
            "tools": tools,
            "tool_choice": {"function": choice} if isinstance(choice, dict) else choice,
            "response_format": {"type": form.get("type"), "json_schema": form},
            "reasoning_effort": (body.get("reasoning") or {}).get("effort"),
            "max_output_tokens": body.get("max_output_tokens"),
        }

    def whole(self, body: dict[str, Any], said: Message, number: int) -> dict[str, Any]:
        """Return a response. It is incomplete if it has more tokens than it may, and has its whole text even then."""
        usage = _responses_usage(body, said)
        most = body.get("max_output_tokens")
        status = "completed" if most is None or usage["output_tokens"] <= most else "incomplete"
        return self._response(body, number, status, self._items(body, said, number)) | {"usage": usage}

    def events(self, body: dict[str, Any], said: Message, number: int, fault: Fault) -> Iterator[Event]:
        """Yield numbered events."""
        for place, event in enumerate(self._steps(body, said, number, fault)):
            yield event["type"], event | {"sequence_number": place}

    def error_event(self, fault: Fault) -> Event:
        """Return an event `error`."""
        return "error", {"type": "error", "sequence_number": 2, "error": error_of(fault)}

    def _steps(self, body: dict[str, Any], said: Message, number: int, fault: Fault) -> Iterator[dict[str, Any]]:
        begun = self._response(body, number, "in_progress", [])
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        for index, item in enumerate(self._items(body, said, number)):
            empty = {"status": "in_progress"} | {name: [] for name in ("content", "summary") if name in item}
            empty |= {"arguments": ""} if item["type"] == "function_call" else {}
            yield {"type": "response.output_item.added", "output_index": index, "item": item | empty}
            yield from self._item_steps(item, {"item_id": item["id"], "output_index": index})
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        if fault not in (Fault.NO_DONE, Fault.NO_FINISH):
            response = self.whole(body, said, number)
            yield {"type": f"response.{response['status']}", "response": response}

    def _item_steps(self, item: dict[str, Any], place: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if item["type"] == "function_call":
            for piece in re.findall(r"(?s).{1,7}", item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
            told = {"name": item["name"], "arguments": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **place, **told}
        if item["type"] == "message":
            (part,) = item["content"]
            place = place | {"content_index": 0}
            yield {"type": "response.content_part.added", **place, "part": part | {"text": ""}}
            for piece in PIECES.findall(part["text"]):
                yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
            yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
            yield {"type": "response.content_part.done", **place, "part": part}

    def _items(self, body: dict[str, Any], said: Message, number: int) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        if body.get("reasoning_effort"):
            thought = {"type": "summary_text", "text": "I think – naïvely."}
            items.append({"type": "reasoning", "id": f"rs_{number}", "summary": [thought]})
        if isinstance(said, str):
            part = {"type": "output_text", "text": said, "annotations": [], "logprobs": []}
            message = {"id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [part]}
            return [*items, {"type": "message"} | message]
        for place, (name, arguments) in enumerate(_calls_of(said)):
            call = {"id": f"fc_{number}-{place}", "call_id": f"call-{number}-{place}", "status": "completed"}
            items.append({"type": "function_call", **call, "name": name, "arguments": json.dumps(arguments)})
        return items

    def _response(self, body: dict[str, Any], number: int, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "model": body["model"],
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "text": {"format": {"type": "text"}},
            "metadata": {"größe": "1.0"},
        }


class MessagesWire(Wire):
    """Anthropic's Messages. A request that enables thinking gets a block of it."""

    path = "/v1/messages"
    needs_version = True

    def read_request(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return the request as one of Chat Completions."""
        if not body.get("messages"):
            return None
        form = body.get("output_format") or (body.get("output_config") or {}).get("format") or {}
        choice = body.get("tool_choice") or {}
        functions = [tool | {"parameters": tool.get("input_schema")} for tool in body.get("tools") or ()]
        named = {"tool": {"function": choice}, "none": "none"}.get(choice.get("type"))
        return {
            "model": body["model"],
            "stream": body.get("stream"),
            "messages": [_message_of(message) for message in body["messages"]],
            "tools": [{"type": "function", "function": function} for function in functions],
            "tool_choice": named,
            "response_format": {"type": form.get("type"), "json_schema": form},
            "thinking": (body.get("thinking") or {}).get("type") == "enabled",
        }

    def whole(self, body: dict[str, Any], said: Message, number: int) -> dict[str, Any]:
        """Return a message."""
        return self._message(body, said, number) | {"content": self._blocks(body, said, number)}

    def events(self, body: dict[str, Any], said: Message, number: int, fault: Fault) -> Iterator[Event]:
        """Yield events, with a ping after the first."""
        for event in self._steps(body, said, number, fault):
            yield event["type"], event

    def error(self, fault: Fault) -> dict[str, Any]:
        """Return Anthropic's error."""
        told = error_of(fault)
        return {"type": "error", "error": {"type": told["type"], "message": told["message"]}, "request_id": "req_1"}

    def error_event(self, fault: Fault) -> Event:
        """Return an event `error`."""
        return "error", self.error(fault)

    def _steps(self, body: dict[str, Any], said: Message, number: int, fault: Fault) -> Iterator[dict[str, Any]]:
        message = self._message(body, said, number)
        begun = {"content": [], "stop_reason": None, "usage": message["usage"] | {"output_tokens": 1}}
        yield {"type": "message_start", "message": message | begun}
        yield {"type": "ping"}
        for index, block in enumerate(self._blocks(body, said, number)):
            yield from _block_steps(index, block)
        stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        if fault is not Fault.NO_FINISH:
            yield {
                "type": "message_delta",
                "delta": stop,
                "usage": {"output_tokens": message["usage"]["output_tokens"]},
            }
        if fault not in (Fault.NO_DONE, Fault.NO_FINISH):
            yield {"type": "message_stop"}

    def _blocks(self, body: dict[str, Any], said: Message, number: int) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        if body.get("thinking"):
            blocks.append({"type": "thinking", "thinking": "I think – naïvely.", "signature": "c2ln"})
        if isinstance(said, str):
            return [*blocks, {"type": "text", "text": said}]
        for place, (name, arguments) in enumerate(_calls_of(said)):
            blocks.append({"type": "tool_use", "id": f"toolu_{number}{place}", "name": name, "input": arguments})
        return blocks

    def _message(self, body: dict[str, Any], said: Message, number: int) -> dict[str, Any]:
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [],
            "stop_reason": "end_turn" if isinstance(said, str) else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": tokens(body), "output_tokens": len(json.dumps(said)) // 4 + 1},
        }


WIRES: tuple[Wire, ...] = (CompletionsWire(), ResponsesWire(), MessagesWire())


def _block_steps(index: int, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of one block."""
    if block["type"] == "text":
        empty = {"text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in PIECES.findall(block["text"])]
    elif block["type"] == "thinking":
        empty = {"thinking": "", "signature": ""}
        deltas = [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    else:
        empty = {"input": {}}
        pieces = re.findall(r"(?s).{1,7}", json.dumps(block["input"]))
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    yield {"type": "content_block_start", "index": index, "content_block": block | empty}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _message_of(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item or a message in the form of Chat Completions."""
    if item.get("type") == "function_call_output":
        return {"role": "tool", "content": _parts_of(item["output"])}
    content = item.get("content") or ""
    results = [part for part in content if isinstance(part, dict) and part.get("type") == "tool_result"]
    if results and len(results) == len(content):
        return {"role": "tool", "content": _parts_of(results[-1]["content"])}
    return {"role": item.get("role", "assistant"), "content": _parts_of(content)}


def _parts_of(content: Any) -> Any:
    """Return text as it is; of parts, the text and the images."""
    if isinstance(content, str):
        return content
    images = ("image", "input_image")
    texts = ("text", "input_text", "output_text")
    kept = [part for part in content if part.get("type") in images + texts]
    return [part | {"type": "image_url" if part["type"] in images else "text"} for part in kept]


def _calls_of(said: Message) -> list[Call]:
    assert not isinstance(said, str)
    return [said] if isinstance(said, tuple) else said


def _responses_usage(body: dict[str, Any], said: Message) -> dict[str, Any]:
    asked, answered = tokens(body), len(json.dumps(said)) // 4 + 1
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + answered,
    }


def embeddings_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of /v1/embeddings: the same short vector for each text."""
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    vector = "AACAPwAAAAA=" if body.get("encoding_format") == "base64" else [1.0, 0.0]
    data = [{"object": "embedding", "index": place, "embedding": vector} for place in range(len(texts))]
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return {"object": "list", "data": data, "model": body["model"], "usage": usage}


def prompted(body: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of /v1/completions."""
    choice = {"index": 0, "text": f"You wrote: {body['prompt']}", "logprobs": None, "finish_reason": "stop"}
    return {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": body["model"], "choices": [choice]}


def counted(body: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of /v1/messages/count_tokens."""
    return {"input_tokens": sum(len(text_of(_message_of(message))) for message in body["messages"])}
