"""A scripted OpenAI-compatible server on loopback: real HTTP, deterministic vectors, faults on demand."""

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.loopback import loopback


class Fault(StrEnum):
    """A fault that a request meets instead of an answer."""

    NONE = "an answer"
    RATE_LIMITED = "429"
    RATE_LIMITED_FOR_A_MINUTE = "429, Retry-After: 60"
    SERVER_ERROR = "500"
    UNAUTHORISED = "401, and the key is quoted"
    HANG = "no answer"
    GARBAGE = "200 that is not JSON"
    NO_DATA = "200 without data"
    WRONG_DIMENSION = "one number too many"
    WRONG_COUNT = "one vector missing"
    SAME_INDEX = "every vector has index 0"
    NAN = "a NaN"
    ZEROS = "a vector of zeros"
    TEXT = "words where numbers belong"
    ENDLESS = "megabytes"


@dataclass
class FakeOpenAI:
    """The running server. `faults` are used in order, one a request; `requests` holds the bodies that arrived."""

    base_url: str
    dimension: int
    faults: deque[Fault] = field(default_factory=deque)
    requests: list[dict[str, Any]] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def vector(self, text: str) -> list[float]:
        """Return the vector of `text`; its length is not 1."""
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
        return [float(x) for x in 3 * np.random.default_rng(seed).standard_normal(self.dimension)]

    async def embeddings(self, request: Request) -> Response:
        """Answer POST /v1/embeddings."""
        body = await request.json()
        self.requests.append(body)
        fault = self.faults.popleft() if self.faults else None
        if fault is Fault.HANG:
            await self.stopping.wait()
        refusal = _refusal(fault, request.headers["authorization"])
        return refusal or Response(json.dumps(self._reply(body, fault)), media_type="application/json")

    def _reply(self, body: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        data = [{"object": "embedding", "index": i, "embedding": self.vector(text)} for i, text in enumerate(texts)]
        _spoil(data, fault)
        # In reverse order, so that a client must use the index.
        reply = {"object": "list", "model": body["model"], "data": data[::-1]}
        if fault is Fault.NO_DATA:
            del reply["data"]
        return reply | {"usage": {"prompt_tokens": 1, "total_tokens": 1}}


def _refusal(fault: Fault | None, authorization: str) -> Response | None:
    """Return the answer for a fault without embeddings. It asks for a short wait, so that retries are fast."""
    soon = {"retry-after-ms": "1"}
    if fault is Fault.RATE_LIMITED:
        return JSONResponse({"error": {"message": "slow down"}}, 429, soon)
    if fault is Fault.RATE_LIMITED_FOR_A_MINUTE:
        return JSONResponse({"error": {"message": "slow down"}}, 429, {"retry-after": "60"})
    if fault in (Fault.SERVER_ERROR, Fault.HANG):
        return JSONResponse({"error": {"message": "broken"}}, 500, soon)
    if fault is Fault.UNAUTHORISED:
        return JSONResponse({"error": {"message": f"wrong key: {authorization}"}}, 401)
    if fault is Fault.GARBAGE:
        return Response('{"data": [', media_type="application/json")
    if fault is Fault.ENDLESS:
        return Response(b" " * (8 << 20), media_type="application/json")
    return None


def _spoil(data: list[dict[str, Any]], fault: Fault | None) -> None:
    """Damage the vectors as `fault` says."""
    if fault is Fault.WRONG_COUNT:
        data.pop()
    for item in data:
        if fault is Fault.WRONG_DIMENSION:
            item["embedding"].append(0.5)
        elif fault is Fault.SAME_INDEX:
            item["index"] = 0
        elif fault is Fault.NAN:
            item["embedding"][0] = float("nan")
        elif fault is Fault.ZEROS:
            item["embedding"] = [0.0] * len(item["embedding"])
        elif fault is Fault.TEXT:
            item["embedding"] = ["one", "two"]


@asynccontextmanager
async def fake_openai(dimension: int = 64) -> AsyncIterator[FakeOpenAI]:
    """Run a server on a free port; at the end stop it together with every request that hangs in it."""
    fake = FakeOpenAI("", dimension)
    async with loopback([Route("/v1/embeddings", fake.embeddings, methods=["POST"])], fake.stopping) as url:
        fake.base_url = f"{url}/v1"
        yield fake
