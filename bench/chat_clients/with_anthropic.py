"""The `anthropic` package: what it returns for each question."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from anthropic import Anthropic, AsyncAnthropic

from bench.chat_clients.questions import ASKED, run_driver

USUAL: dict[str, Any] = {"model": ASKED["model"], "max_tokens": 256, "system": ASKED["system"]}
TOOL = {
    "name": ASKED["tool"]["name"],
    "description": ASKED["tool"]["description"],
    "input_schema": ASKED["tool"]["parameters"],
}
FORMAT = {"format": {"type": "json_schema", "schema": ASKED["schema"]}}


def ask_all(base_url: str, key: str) -> dict[str, Any]:
    """Return the answer to every question, by name."""
    with Anthropic(base_url=base_url.removesuffix("/v1"), api_key=key, max_retries=0) as client:
        scenes: list[Callable[[Anthropic], Any]] = [
            ask_plain, ask_streamed, ask_thinking, call_tool, call_tool_streamed, ask_shape, ask_look, count_tokens
        ]  # fmt: skip
        answers = {scene.__name__: scene(client) for scene in scenes}
    return answers | asyncio.run(_ask_async(base_url.removesuffix("/v1"), key))


def _messages(text: str) -> list[dict[str, Any]]:
    """Return a short history and the question."""
    history = [{"role": role, "content": content} for role, content in ASKED["history"]]
    return [*history, {"role": "user", "content": text}]


def ask_plain(client: Anthropic) -> Any:
    """Ask once, with a block that the upstream shall cache."""
    system = [{"type": "text", "text": ASKED["system"], "cache_control": {"type": "ephemeral"}}]
    return client.messages.create(**USUAL | {"system": system}, messages=_messages(ASKED["plain"])).model_dump()


def ask_streamed(client: Anthropic) -> Any:
    """Ask for a stream."""
    stream = client.messages.create(**USUAL, messages=_messages(ASKED["streamed"]), stream=True)
    return [event.model_dump() for event in stream]


def ask_thinking(client: Anthropic) -> Any:
    """Ask a model that thinks, with members that the package does not know."""
    made = client.messages.create(
        **USUAL,
        messages=_messages(ASKED["plain"]),
        thinking={"type": "enabled", "budget_tokens": 1024},
        metadata={"user_id": "u-1"},
        extra_body={"grammar": {"deep": [1.0, None]}},
        extra_headers={"anthropic-beta": "some-beta"},
    )
    return made.model_dump()


def call_tool(client: Anthropic) -> Any:
    """Let the model call a tool, and give it the result."""
    messages = _messages(ASKED["weather"])
    called = client.messages.create(**USUAL, messages=messages, tools=[TOOL])
    (use,) = called.content
    result = {"type": "tool_result", "tool_use_id": use.id, "content": ASKED["tool_result"]}
    messages += [{"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    told = client.messages.create(**USUAL, messages=messages, tools=[TOOL])
    return [called.model_dump(), told.model_dump()]


def call_tool_streamed(client: Anthropic) -> Any:
    """Collect a streamed call with the package's own helper."""
    with client.messages.stream(**USUAL, messages=_messages(ASKED["weather"]), tools=[TOOL]) as stream:
        kinds = [event.type for event in stream]
        return [kinds, stream.get_final_message().model_dump()]


def ask_shape(client: Anthropic) -> Any:
    """Ask for JSON of a schema."""
    made = client.messages.create(**USUAL, messages=_messages(ASKED["shape"]), extra_body={"output_config": FORMAT})
    return json.loads(made.content[0].text)


def ask_look(client: Anthropic) -> Any:
    """Ask about a picture."""
    source = {"type": "base64", "media_type": "image/png", "data": ASKED["pixel"]}
    parts = [{"type": "image", "source": source}, {"type": "text", "text": ASKED["look"]}]
    return client.messages.create(**USUAL, messages=[{"role": "user", "content": parts}]).model_dump()


def count_tokens(client: Anthropic) -> Any:
    """Count tokens."""
    return client.messages.count_tokens(model=USUAL["model"], messages=_messages(ASKED["plain"])).model_dump()


async def _ask_async(base_url: str, key: str) -> dict[str, Any]:
    async with AsyncAnthropic(base_url=base_url, api_key=key, max_retries=0) as client:
        plain = await client.messages.create(**USUAL, messages=_messages(ASKED["plain"]))
        async with client.messages.stream(**USUAL, messages=_messages(ASKED["streamed"])) as stream:
            texts = [text async for text in stream.text_stream]
    return {"ask_plain_async": plain.model_dump(), "ask_streamed_async": texts}


if __name__ == "__main__":
    run_driver(ask_all)
