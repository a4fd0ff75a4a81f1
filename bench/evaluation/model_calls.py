"""Calls of a chat model within a limit of tokens. A cache keeps each answer, so that none is paid for twice."""

import asyncio
import hashlib
import json
import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from app.domain.outages import UnusableAnswer
from app.domain.reflection.model_usage import Usage, estimate_tokens
from app.ports import Answer, ChatModel, Prompt, Reply

MOST_ENTRY_BYTES: Final = 8 << 20


class TokensUsedUp(Exception):
    """The limit of tokens does not allow another call."""


class TokenLimit:
    """A limit of the tokens that are paid for now, None for none. Tokens are reserved before each call."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._used = 0
        self._open_calls = 0
        self._settled = asyncio.Condition()

    async def reserve_tokens(self, tokens: int) -> None:
        """Reserve the most that a call may use, once open calls leave enough. Raise TokensUsedUp if none ever will."""
        async with self._settled:
            await self._settled.wait_for(lambda: self._allows(tokens) or not self._open_calls)
            if not self._allows(tokens):
                raise TokensUsedUp(f"the limit of {self._most} tokens is reached")
            self._used += tokens
            self._open_calls += 1

    async def settle_call(self, reserved: int, used: int) -> None:
        """Count the tokens of a call in place of the reserved ones."""
        async with self._settled:
            self._used += used - reserved
            self._open_calls -= 1
            self._settled.notify_all()

    def _allows(self, tokens: int) -> bool:
        return self._most is None or self._used + tokens <= self._most


@dataclass(slots=True)
class Costs:
    """The calls behind a report and their tokens. `cached` is the number of answers that the cache had before."""

    calls: int = 0
    cached: int = 0
    usage: Usage = field(default_factory=Usage)

    def as_json(self) -> dict[str, int]:
        """Return the costs as JSON."""
        tokens = {"input_tokens": self.usage.input_tokens, "output_tokens": self.usage.output_tokens}
        return {"calls": self.calls, "cached": self.cached, **tokens}


class AnswerCache:
    """A folder with a file for each answer. A file is complete or absent, also after a kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load_reply(self, key: str, prompt: Prompt[Answer]) -> Reply[Answer] | None:
        """Return the reply with this key; None if there is none, or if it is damaged."""
        try:
            with self._file(key).open("rb") as file:
                entry = json.loads(file.read(MOST_ENTRY_BYTES))
            value = entry["value"]
            usage = Usage(int(entry["input_tokens"]), int(entry["output_tokens"]))
            return Reply(None if value is None else TypeAdapter(prompt.answer).validate_python(value), usage)
        except (FileNotFoundError, ValidationError, KeyError, TypeError, ValueError):
            return None

    def store_reply(self, key: str, prompt: Prompt[Answer], model: str, reply: Reply[Answer]) -> None:
        """Store the reply. Only the owner may read the folder: answers repeat texts of the data."""
        entry: dict[str, Any] = {
            "prompt": prompt.version,
            "model": model,
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
            "value": TypeAdapter(prompt.answer | None).dump_python(reply.value, mode="json"),
        }
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._file(key)
        unfinished = file.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(entry) + "\n", encoding="utf-8")
        unfinished.replace(file)

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.json"


class CachedModel:
    """A chat model that is asked each prompt once: the cache keeps the answer, also an unreadable one.

    `endpoint` tells apart models of one name at several addresses.
    """

    def __init__(self, model: ChatModel, endpoint: str, cache: AnswerCache, limit: TokenLimit) -> None:
        self.costs = Costs()
        self._model = model
        self._endpoint = endpoint
        self._cache = cache
        self._limit = limit
        self._counted: set[str] = set()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    async def ask_model(self, prompt: Prompt[Answer]) -> Answer | None:
        """Return the answer, None for an unreadable one. Raise TokensUsedUp or ChatModelUnavailable.

        A prompt that the endpoint refuses has an unreadable answer too. It is not cached, because nothing was paid.
        """
        key = self._hash_prompt(prompt)
        async with self._locks[key]:  # the same question may be asked twice
            reply = self._cache.load_reply(key, prompt)
            if reply is not None:
                self._count(key, reply, cached=1)
                return reply.value
            most = estimate_tokens(prompt.rules, prompt.question.text) + prompt.max_tokens
            await self._limit.reserve_tokens(most)
            used = 0
            try:
                reply = await self._model.generate_reply(prompt)
                used = reply.usage.total_tokens
            except UnusableAnswer:
                return None
            finally:
                await self._limit.settle_call(most, used)
            self._cache.store_reply(key, prompt, self.name, reply)
            self._count(key, reply, cached=0)
            return reply.value

    async def check_health(self) -> None:
        """Raise ChatModelUnavailable if the model cannot be reached."""
        await self._model.check_health()

    async def close(self) -> None:
        """Release connections."""
        await self._model.close()

    def _count(self, key: str, reply: Reply[Any], cached: int) -> None:
        """Count an answer once, however often it is used."""
        if key not in self._counted:
            self._counted.add(key)
            self.costs.calls += 1
            self.costs.cached += cached
            self.costs.usage += reply.usage

    def _hash_prompt(self, prompt: Prompt[Any]) -> str:
        asked = [prompt.version, self._endpoint, self.name, prompt.rules, prompt.question.text]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()
