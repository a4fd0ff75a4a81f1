"""The answers of the upstream, by rule or prepared, as one object or as chunks."""

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from tests.fake_llm.wire import Message, chunks, completion

LONGEST = 200
_READ = """
messages model stream stream_options tools tool_choice parallel_tool_calls response_format n user temperature max_tokens
max_completion_tokens top_p stop seed store metadata
"""
KNOWN = frozenset(_READ.split())
"""Members of a request that the answer does not repeat."""


def answer_of(body: dict[str, Any]) -> Message:
    """Return the rule's answer.

    A request that offers tools and does not end with a tool's result gets a call of the tool that `tool_choice` names,
    else of the first one. A JSON schema gets an example of it. Everything else gets the last user's text.
    """
    last = body["messages"][-1]
    if last["role"] == "tool":
        return f"The tool said: {text_of(last)[:LONGEST]}"
    if (tools := body.get("tools")) and (choice := body.get("tool_choice")) != "none":
        functions = {tool["function"]["name"]: tool["function"] for tool in tools}
        name = choice["function"]["name"] if isinstance(choice, dict) else next(iter(functions))
        return name, example_of(functions[name].get("parameters") or {})
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        return json.dumps(example_of(form["json_schema"]["schema"]))
    user = next((message for message in reversed(body["messages"]) if message["role"] == "user"), {})
    images = sum(part["type"] == "image_url" for part in _parts(user))
    return f"You said: {text_of(user)[:LONGEST]}" + (f" (images: {images})" if images else "")


def text_of(message: dict[str, Any]) -> str:
    """Return the text parts of a message, one a line."""
    return "\n".join(part["text"] for part in _parts(message) if part["type"] == "text")


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def example_of(schema: dict[str, Any], root: dict[str, Any] | None = None) -> Any:
    """Return the same small value for the same JSON schema: its first choice, and every property of an object."""
    root = root or schema
    if "$ref" in schema:
        target: Any = root
        for name in schema["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        return example_of(target, root)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return example_of(schema[several][0], root)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: example_of(part, root) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [example_of(schema.get("items") or {}, root)] * max(1, schema.get("minItems", 1))
    return {"integer": 3, "number": 2.5, "boolean": True, "null": None}.get(kind, "Zürich")


def whole_answer(body: dict[str, Any], said: Message, number: int) -> dict[str, Any]:
    """Return the answer as one object, with `n` choices."""
    answer = completion(body, said, number)
    answer["choices"] = [
        choice | {"index": index, "message": choice["message"] | _thoughts(body)}
        for index in range(_count(body))
        for choice in completion(body, _varied(said, index), number)["choices"]
    ]
    return answer | _extra(body)


def chunked_answer(body: dict[str, Any], said: Message, number: int) -> Iterator[dict[str, Any]]:
    """Yield the answer as chunks; those of several choices take turns, and usage comes last."""
    rows = [list(chunks(body, _varied(said, index), number)) for index in range(_count(body))]
    usage = [chunk for chunk in rows[0] if not chunk["choices"]]
    for together in zip_longest(*([chunk for chunk in row if chunk["choices"]] for row in rows)):
        for index, chunk in enumerate(together):
            if chunk:
                (choice,) = chunk["choices"]
                opens = _thoughts(body) if choice["delta"].get("role") else {}
                yield chunk | {"choices": [choice | {"index": index, "delta": choice["delta"] | opens}]} | _extra(body)
    yield from usage


def _count(body: dict[str, Any]) -> int:
    return body.get("n") or 1


def _varied(said: Message, index: int) -> Message:
    return f"{said} (choice {index})" if index and isinstance(said, str) else said


def _thoughts(body: dict[str, Any]) -> dict[str, Any]:
    effort = body.get("reasoning_effort")
    return {"reasoning_content": f"I think with {effort} effort – naïvely."} if effort else {}


def _extra(body: dict[str, Any]) -> dict[str, Any]:
    """Return members that no client knows: a fingerprint, and what the request had of the kind."""
    unknown = {name: value for name, value in body.items() if name not in KNOWN}
    return {"system_fingerprint": "fp_scripted"} | ({"echo": unknown} if unknown else {})
