"""The `openai` package with Responses, embeddings and old completions: what it returns for each question."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from bench.chat_clients.questions import ASKED, PICTURE, conversation, run_driver

MODEL = ASKED["model"]
TOOL = {"type": "function", **ASKED["tool"], "strict": True}
FORMAT = {"format": {"type": "json_schema", "name": "place", "schema": ASKED["schema"], "strict": True}}


class Place(BaseModel):
    """A shape of an answer."""

    city: str
    boats: int


def ask_all(base_url: str, key: str) -> dict[str, Any]:
    """Return the answer to every question, by name."""
    with OpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
        scenes: list[Callable[[OpenAI], Any]] = [
            ask_plain, ask_items, ask_streamed, call_tool, call_tool_streamed, ask_shape, ask_look, embed, complete
        ]  # fmt: skip
        answers = {scene.__name__: scene(client) for scene in scenes}
    return answers | asyncio.run(_ask_async(base_url, key))


def ask_plain(client: OpenAI) -> Any:
    """Ask with a text as input, and continue the response."""
    first = client.responses.create(model=MODEL, instructions=ASKED["system"], input=ASKED["plain"])
    more = client.responses.create(model=MODEL, input=ASKED["plain"], previous_response_id=first.id, store=True)
    return [first.model_dump(), first.output_text, more.model_dump()]


def ask_items(client: OpenAI) -> Any:
    """Ask with items, with members that the package does not know."""
    made = client.responses.create(
        model=MODEL,
        input=conversation(ASKED["plain"]),
        temperature=0.30,
        reasoning={"effort": "low"},
        extra_body={"top_k": 40, "grammar": {"deep": [1.0, None]}},
    )
    return made.model_dump()


def ask_streamed(client: OpenAI) -> Any:
    """Ask for a stream."""
    stream = client.responses.create(model=MODEL, input=conversation(ASKED["streamed"]), stream=True)
    return [event.model_dump() for event in stream]


def call_tool(client: OpenAI) -> Any:
    """Let the model call a tool, and give it the result."""
    asked = conversation(ASKED["weather"])
    called = client.responses.create(model=MODEL, input=asked, tools=[TOOL])
    (call,) = called.output
    result = {"type": "function_call_output", "call_id": call.call_id, "output": ASKED["tool_result"]}
    told = client.responses.create(model=MODEL, input=[*asked, call, result], tools=[TOOL])
    return [called.model_dump(), told.model_dump()]


def call_tool_streamed(client: OpenAI) -> Any:
    """Collect a streamed call with the package's own helper."""
    with client.responses.stream(model=MODEL, input=ASKED["weather"], tools=[TOOL]) as stream:
        kinds = [event.type for event in stream]
        return [kinds, stream.get_final_response().model_dump()]


def ask_shape(client: OpenAI) -> Any:
    """Ask for JSON of a schema, as the schema and as a class."""
    shaped = client.responses.create(model=MODEL, input=ASKED["shape"], text=FORMAT)
    parsed = client.responses.parse(model=MODEL, input=ASKED["shape"], text_format=Place)
    return [json.loads(shaped.output_text), parsed.output_parsed.model_dump()]


def ask_look(client: OpenAI) -> Any:
    """Ask about a picture."""
    parts = [{"type": "input_text", "text": ASKED["look"]}, {"type": "input_image", "image_url": PICTURE}]
    return client.responses.create(model=MODEL, input=[{"role": "user", "content": parts}]).model_dump()


def embed(client: OpenAI) -> Any:
    """Ask for embeddings, in the package's own encoding and as numbers."""
    made = client.embeddings.create(model=MODEL, input=[ASKED["plain"], ASKED["look"]])
    numbers = client.embeddings.create(model=MODEL, input=ASKED["plain"], encoding_format="float")
    return [made.model_dump(), numbers.model_dump()]


def complete(client: OpenAI) -> Any:
    """Complete a prompt, whole and streamed."""
    whole = client.completions.create(model=MODEL, prompt=ASKED["plain"])
    stream = client.completions.create(model=MODEL, prompt=ASKED["plain"], stream=True)
    return [whole.model_dump(), [chunk.model_dump() for chunk in stream]]


async def _ask_async(base_url: str, key: str) -> dict[str, Any]:
    async with AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
        plain = await client.responses.create(model=MODEL, input=ASKED["plain"])
        streamed = await client.responses.create(model=MODEL, input=ASKED["streamed"], stream=True)
        events = [event.model_dump() async for event in streamed]
    return {"ask_plain_async": plain.model_dump(), "ask_streamed_async": events}


if __name__ == "__main__":
    run_driver(ask_all)
