"""The `openai` package: what it returns for each question."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from bench.chat_clients.questions import ASKED, SHAPE, TOOL, conversation, look_at, run_driver

MODEL = ASKED["model"]


class Place(BaseModel):
    """A shape for `parse`."""

    city: str
    boats: int


def ask_all(base_url: str, key: str) -> dict[str, Any]:
    """Return the answer to every question, by name."""
    with OpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
        scenes: list[Callable[[OpenAI], Any]] = [
            ask_plain, ask_streamed, ask_several, call_tool, call_tool_streamed, ask_shape, ask_look, list_models
        ]  # fmt: skip
        answers = {scene.__name__: scene(client) for scene in scenes}
    return answers | asyncio.run(_ask_async(base_url, key))


def ask_plain(client: OpenAI) -> Any:
    """Ask once."""
    return client.chat.completions.create(model=MODEL, messages=conversation(ASKED["plain"])).model_dump()


def ask_streamed(client: OpenAI) -> Any:
    """Ask for a stream with usage."""
    stream = client.chat.completions.create(
        model=MODEL,
        messages=conversation(ASKED["streamed"]),
        stream=True,
        stream_options={"include_usage": True},
    )
    return [chunk.model_dump() for chunk in stream]


def ask_several(client: OpenAI) -> Any:
    """Ask for two choices, with members that the package does not know."""
    made = client.chat.completions.create(
        model=MODEL,
        messages=conversation(ASKED["plain"]),
        n=2,
        temperature=0.30,
        reasoning_effort="low",
        extra_body={"top_k": 40, "grammar": {"deep": [1.0, None]}},
    )
    return made.model_dump()


def call_tool(client: OpenAI) -> Any:
    """Let the model call a tool, and give it the result."""
    messages = conversation(ASKED["weather"])
    called = client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL])
    message = called.choices[0].message
    messages += [message.model_dump(exclude_none=True), _result(message.tool_calls[0].id)]
    told = client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL])
    return [called.model_dump(), told.model_dump()]


def call_tool_streamed(client: OpenAI) -> Any:
    """Collect a streamed call with the package's own helper."""
    with client.chat.completions.stream(model=MODEL, messages=conversation(ASKED["weather"]), tools=[TOOL]) as stream:
        kinds = [event.type for event in stream]
        return [kinds, stream.get_final_completion().model_dump()]


def ask_shape(client: OpenAI) -> Any:
    """Ask for JSON of a schema, as the schema and as a class."""
    messages = conversation(ASKED["shape"])
    shaped = client.chat.completions.create(model=MODEL, messages=messages, response_format=SHAPE)
    parsed = client.chat.completions.parse(model=MODEL, messages=messages, response_format=Place)
    return [json.loads(shaped.choices[0].message.content), parsed.choices[0].message.parsed.model_dump()]


def ask_look(client: OpenAI) -> Any:
    """Ask about a picture."""
    return client.chat.completions.create(model=MODEL, messages=look_at(ASKED["look"])).model_dump()


def list_models(client: OpenAI) -> Any:
    """List the models."""
    return [model.model_dump() for model in client.models.list()]


async def _ask_async(base_url: str, key: str) -> dict[str, Any]:
    async with AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
        plain = await client.chat.completions.create(model=MODEL, messages=conversation(ASKED["plain"]))
        streamed = await client.chat.completions.create(
            model=MODEL, messages=conversation(ASKED["streamed"]), tools=[TOOL], stream=True
        )
        chunks = [chunk.model_dump() async for chunk in streamed]
    return {"ask_plain_async": plain.model_dump(), "call_tool_streamed_async": chunks}


def _result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": ASKED["tool_result"]}


if __name__ == "__main__":
    run_driver(ask_all)
