"""A scripted /rerank on loopback with the formats and refusals of Cohere, Jina and TEI. It fails on demand."""

import asyncio
import json
import math
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.loopback import loopback

Api = Literal["cohere", "jina", "tei"]
APIS: tuple[Api, ...] = ("cohere", "jina", "tei")
FIELDS = {
    "cohere": {"model", "query", "documents", "top_n", "max_tokens_per_doc"},
    "jina": {"model", "query", "documents", "top_n", "return_documents"},
    "tei": {"query", "texts", "raw_scores", "return_text", "truncate", "truncation_direction"},
}
TEI_BATCH = 32


class Fault(StrEnum):
    """A fault that a request meets instead of an answer."""

    RATE_LIMITED = "429"
    RATE_LIMITED_FOR_A_MINUTE = "429, Retry-After: 60"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    UNAUTHORISED = "401, and the key is quoted"
    ELSEWHERE = "307"
    HANG = "no answer"
    CUT = "a connection that ends within the answer"
    GARBAGE = "200 that is not JSON"
    OTHER = "200 of another API"
    HUGE = "an answer without end"
    MISSING = "one score too few"
    MORE = "one score too many"
    SAME_INDEX = "every score has index 0"
    WORDS = "words where numbers belong"
    NAN = "not a number"


def overlap(query: str, text: str) -> float:
    """Return the logit of the server's model: the number of the query's words that are in the text."""
    asked, read = (set(re.findall(r"\w+", one.lower())) for one in (query, text))
    return 6.0 * len(asked & read) / max(1, len(asked)) - 3.0 - len(read) / 1000


@dataclass
class RerankServer:
    """The running server. `faults` are used in order, one a request; `requests` holds the bodies that arrived.

    `meanwhile` runs once, before the next answer.
    """

    api: Api
    base_url: str = ""
    raw: bool = False
    faults: deque[Fault] = field(default_factory=deque)
    requests: list[dict[str, Any]] = field(default_factory=list)
    meanwhile: Callable[[], Awaitable[object]] | None = None
    keys: set[str] = field(default_factory=set)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def rerank(self, request: Request) -> Response:
        """Answer POST /rerank."""
        body = await request.json()
        self.requests.append(body)
        self.keys.add(request.headers.get("authorization", ""))
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        fault = self.faults.popleft() if self.faults else None
        if fault is Fault.HANG:
            await self.stopping.wait()
        return self._faulty(fault, request) or self._answer(body, fault)

    def _answer(self, body: dict[str, Any], fault: Fault | None) -> Response:
        texts = body["texts" if self.api == "tei" else "documents"]
        if body.keys() - FIELDS[self.api] or (self.api == "tei" and len(texts) > TEI_BATCH):
            return JSONResponse({"error": "validation"}, 422)
        logits = [overlap(body["query"], text) for text in texts]
        kept = self.raw or body.get("raw_scores")
        name = "score" if self.api == "tei" else "relevance_score"
        items: list[dict[str, Any]] = [
            {"index": place, name: logit if kept else 1 / (1 + math.exp(-logit))} for place, logit in enumerate(logits)
        ]
        items.sort(key=lambda item: -item[name])  # best first, so that a client must use the index
        _spoil(items, name, fault)
        answer = items if self.api == "tei" else {"id": "1", "model": body.get("model"), "results": items}
        return Response(json.dumps(answer), media_type="application/json")

    def _faulty(self, fault: Fault | None, request: Request) -> Response | None:
        """Return the answer for a fault without scores. It asks for a short wait, so that retries are fast."""
        soon = {"retry-after": "0"}
        if fault is Fault.RATE_LIMITED:
            return JSONResponse({"error": "slow down"}, 429, soon)
        if fault is Fault.RATE_LIMITED_FOR_A_MINUTE:
            return JSONResponse({"error": "slow down"}, 429, {"retry-after": "60"})
        if fault in (Fault.SERVER_ERROR, Fault.UNAVAILABLE, Fault.HANG):
            return JSONResponse({"error": "broken"}, 503 if fault is Fault.UNAVAILABLE else 500, soon)
        if fault is Fault.UNAUTHORISED:
            return JSONResponse({"error": f"wrong key: {request.headers.get('authorization')}"}, 401)
        if fault is Fault.ELSEWHERE:
            return RedirectResponse(f"{self.base_url}/elsewhere")
        if fault is Fault.GARBAGE:
            return Response('{"results": [', media_type="application/json")
        if fault is Fault.OTHER:
            return JSONResponse({"object": "list", "data": [{"embedding": [0.5]}]})
        if fault is Fault.HUGE:
            return StreamingResponse(self._endless(), media_type="application/json")
        if fault is Fault.CUT:
            return Response("[", headers={"content-length": "100"})
        return None

    async def _endless(self) -> AsyncIterator[bytes]:
        while not self.stopping.is_set():
            yield b"[" + b" " * 65_535
            await asyncio.sleep(0)


def _spoil(items: list[dict[str, Any]], name: str, fault: Fault | None) -> None:
    """Damage the scores as `fault` says."""
    if fault is Fault.MISSING:
        items.pop()
    if fault is Fault.MORE:
        items.append(items[-1] | {"index": len(items)})
    for item in items:
        if fault is Fault.SAME_INDEX:
            item["index"] = 0
        elif fault is Fault.WORDS:
            item[name] = "high"
        elif fault is Fault.NAN:
            item[name] = math.nan


@asynccontextmanager
async def rerank_server(api: Api) -> AsyncIterator[RerankServer]:
    """Run a server on a free port; at the end stop it together with every request that hangs in it."""
    server = RerankServer(api)
    async with loopback([Route("/v9/rerank", server.rerank, methods=["POST"])], server.stopping) as url:
        server.base_url = f"{url}/v9"
        yield server
