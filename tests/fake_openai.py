"""A scripted OpenAI-compatible server on loopback: real HTTP, deterministic vectors, faults on demand."""

import asyncio
import base64
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
    OVERLOADED = "503"
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


@dataclass(frozen=True, kw_only=True)
class Manner:
    """The habits of an endpoint.

    - `native`: the length of its vectors if no `dimensions` are asked for; 0: that of the server.
    - `refuses`: members of a request, with the message about them.
    - `most_items`, `most_characters`: its bounds; `too_many`, `too_long`: status and message beyond them.
    - `encoding`: the form of its vectors; None: as asked.
    - `wait`: the headers of 429.
    - `key`: the only valid key.
    """

    native: int = 0
    refuses: dict[str, str] = field(default_factory=dict)
    refusal_status: int = 400
    most_items: int = 1000
    most_characters: int = 1_000_000
    too_many: tuple[int, str] = (422, "batch size 9 > maximum allowed batch size 2")
    too_long: tuple[int, str] = (400, "This model's maximum context length is 8 tokens")
    encoding: str | None = None
    sends_index: bool = True
    unit_length: bool = False
    null_vector: bool = False
    wait: dict[str, str] = field(default_factory=lambda: {"retry-after-ms": "1"})
    key: str = ""

    def refusal_of(self, body: dict[str, Any], authorization: str) -> tuple[int, str] | None:
        """Return status and message for a request that this endpoint does not take."""
        if self.key and authorization != f"Bearer {self.key}":
            return 401, f"wrong key: {authorization}"
        for member, message in self.refuses.items():
            if member in body:
                return self.refusal_status, message
        if len(body["input"]) > self.most_items:
            return self.too_many
        if max(map(len, body["input"])) > self.most_characters:
            return self.too_long
        return None


@dataclass
class FakeOpenAI:
    """The running server. `faults` are used in order, one a request; `requests` holds the bodies that arrived."""

    base_url: str
    dimension: int
    manner: Manner = field(default_factory=Manner)
    faults: deque[Fault] = field(default_factory=deque)
    requests: list[dict[str, Any]] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def vector(self, text: str, dimension: int = 0) -> list[float]:
        """Return the vector of `text`; its length is not 1. A longer one begins with the shorter one."""
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
        row = 3 * np.random.default_rng(seed).standard_normal(dimension or self.dimension)
        return [float(x) for x in (row / np.linalg.norm(row) if self.manner.unit_length else row)]

    async def embeddings(self, request: Request) -> Response:
        """Answer POST /v1/embeddings."""
        body = await request.json()
        self.requests.append(body)
        fault = self.faults.popleft() if self.faults else None
        if fault is Fault.HANG:
            await self.stopping.wait()
        authorization = request.headers["authorization"]
        if told := self.manner.refusal_of(body, authorization):
            return JSONResponse({"error": {"message": told[1]}}, told[0])
        refusal = _refusal(fault, authorization, self.manner.wait)
        return refusal or Response(json.dumps(self._reply(body, fault)), media_type="application/json")

    def _reply(self, body: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        dimension = body.get("dimensions", self.manner.native)
        data: list[dict[str, Any]] = [
            {"object": "embedding", "index": i, "embedding": self.vector(text, dimension)}
            for i, text in enumerate(texts)
        ]
        _spoil(data, fault)
        if (self.manner.encoding or body.get("encoding_format")) == "base64":
            for item in data:
                item["embedding"] = base64.b64encode(np.array(item["embedding"], "<f4").tobytes()).decode()
        if self.manner.null_vector:
            data[0]["embedding"] = None
        # In reverse order, so that a client must use the index.
        data.reverse()
        if not self.manner.sends_index:
            data = [{"embedding": item["embedding"]} for item in reversed(data)]
        reply = {"object": "list", "model": body["model"], "data": data}
        if fault is Fault.NO_DATA:
            del reply["data"]
        return reply | {"usage": {"prompt_tokens": 1, "total_tokens": 1}}


def _refusal(fault: Fault | None, authorization: str, soon: dict[str, str]) -> Response | None:
    """Return the answer for a fault without embeddings. `soon` asks for a short wait, so that retries are fast."""
    if fault is Fault.RATE_LIMITED:
        return JSONResponse({"error": {"message": "slow down"}}, 429, soon)
    if fault is Fault.RATE_LIMITED_FOR_A_MINUTE:
        return JSONResponse({"error": {"message": "slow down"}}, 429, {"retry-after": "60"})
    if fault is Fault.OVERLOADED:
        return JSONResponse({"error": {"message": "overloaded"}}, 503, soon)
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
