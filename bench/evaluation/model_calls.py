"""Calls of a chat model within a limit of tokens. A cache keeps each answer, so that none is paid for twice."""

import asyncio
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Generic

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

    async def reserve_tokens(self, most: Callable[[], int]) -> int:
        """Reserve the most that a call may use, once open calls leave enough, and return it.

        `most` is read again after each call, because a model that thinks gets more tokens after its first answers.
        Raise TokensUsedUp if there will never be enough.
        """
        async with self._settled:
            await self._settled.wait_for(lambda: self._allows(most()) or not self._open_calls)
            reserved = most()
            if not self._allows(reserved):
                raise TokensUsedUp(f"the limit of {self._most} tokens is reached")
            self._used += reserved
            self._open_calls += 1
            return reserved

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
    """The calls behind a report and their tokens. `cached` counts the calls whose answers the cache had before."""

    calls: int = 0
    cached: int = 0
    usage: Usage = field(default_factory=Usage)

    def as_json(self) -> dict[str, int]:
        """Return the costs as JSON."""
        tokens = {"input_tokens": self.usage.input_tokens, "output_tokens": self.usage.output_tokens}
        return {"calls": self.calls, "cached": self.cached, **tokens}


@dataclass(frozen=True, slots=True)
class PaidReply(Generic[Answer]):
    """The last reply to a prompt, with the usage of all calls for it."""

    reply: Reply[Answer]
    calls: int


class AnswerCache:
    """A folder with a file for each answer. A file is complete or absent, also after a kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load_reply(self, key: str, prompt: Prompt[Answer]) -> PaidReply[Answer] | None:
        """Return the reply with this key; None if there is none, or if it is damaged."""
        try:
            with self._file(key).open("rb") as file:
                entry = json.loads(file.read(MOST_ENTRY_BYTES))
            value = entry["value"]
            usage = Usage(int(entry["input_tokens"]), int(entry["output_tokens"]))
            reply = Reply(None if value is None else TypeAdapter(prompt.answer).validate_python(value), usage)
            return PaidReply(reply, int(entry["calls"]))
        except (FileNotFoundError, ValidationError, KeyError, TypeError, ValueError):
            return None

    def store_reply(self, key: str, prompt: Prompt[Answer], model: str, paid: PaidReply[Answer]) -> None:
        """Store the reply. Only the owner may read the folder: answers repeat texts of the data."""
        reply = paid.reply
        entry: dict[str, Any] = {
            "prompt": prompt.version,
            "model": model,
            "calls": paid.calls,
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
    """A chat model whose cache keeps the answer to each prompt, also an unreadable one.

    A prompt whose first answer is unreadable is asked once more: the model may have learnt to think or to answer in
    form.

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
            paid = self._cache.load_reply(key, prompt)
            if paid is not None:
                self._count_cached(key, paid)
                return paid.reply.value
            try:
                paid = await self._pay_reply(prompt)
            except UnusableAnswer:
                return None
            self._counted.add(key)
            self._cache.store_reply(key, prompt, self.name, paid)
            return paid.reply.value

    async def check_health(self) -> None:
        """Raise ChatModelUnavailable if the model cannot be reached."""
        await self._model.check_health()

    async def close(self) -> None:
        """Release connections."""
        await self._model.close()

    async def _pay_reply(self, prompt: Prompt[Answer]) -> PaidReply[Answer]:
        """Return the first reply, or the second if the first one is unreadable."""
        first = await self._call_model(prompt)
        if first.value is not None:
            return PaidReply(first, 1)
        second = await self._call_model(prompt)
        return PaidReply(replace(second, usage=first.usage + second.usage), 2)

    async def _call_model(self, prompt: Prompt[Answer]) -> Reply[Answer]:
        """Return the reply of a call within the limit, and count it."""
        asked = estimate_tokens(prompt.rules, prompt.question.text) + prompt.max_tokens
        reserved = await self._limit.reserve_tokens(lambda: asked + self._model.thinking_tokens)
        used = 0
        try:
            reply = await self._model.generate_reply(prompt)
            used = reply.usage.total_tokens
        finally:
            await self._limit.settle_call(reserved, used)
        self.costs.calls += 1
        self.costs.usage += reply.usage
        return reply

    def _count_cached(self, key: str, paid: PaidReply[Any]) -> None:
        """Count an answer once, however often it is used."""
        if key not in self._counted:
            self._counted.add(key)
            self.costs.calls += paid.calls
            self.costs.cached += paid.calls
            self.costs.usage += paid.reply.usage

    def _hash_prompt(self, prompt: Prompt[Any]) -> str:
        asked = [prompt.version, self._endpoint, self.name, prompt.rules, prompt.question.text]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()
