"""The scripted model's server: real HTTP on loopback, one fault or script at a time."""

import asyncio
import gzip
import json
import re
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from app.prompts.probe import VERSION as PROBE
from tests.fake_llm import wire
from tests.fake_llm.behaviour import Behaviour
from tests.fake_llm.prompts import KNOWN, Question, Script, question_of, split_request, wrong
from tests.loopback import loopback


class Fault(StrEnum):
    """A fault that a request meets instead of an answer."""

    RATE_LIMITED = "429"
    RATE_LIMITED_FOR_A_MINUTE = "429, Retry-After: 60"
    TIMED_OUT = "408"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    UNAUTHORISED = "401, and the key is quoted"
    NO_SUCH_MODEL = "404"
    HANG = "no answer"
    CUT = "a connection that ends within the answer"
    GARBAGE = "200 that is not JSON"
    OTHER = "200 of another API"
    PROSE = "words where JSON belongs"
    INVALID_JSON = "JSON that does not end"
    OTHER_JSON = "JSON of another shape"
    FOUR_HUNDRED = "400 items"
    EMPTY = "nothing at all"
    REFUSAL = "a refusal"
    NO_USAGE = "an answer that does not say what it cost"
    MUCH_USAGE = "an answer that says it took a billion tokens"
    LESS_USAGE = "an answer that says it took fewer than none"
    ENDLESS = "an answer that does not end"
    PACKED = "megabytes packed into kilobytes"
    REFUSED = "400"
    BROKEN = "a stream whose connection breaks"
    STALLED = "a stream that stops and does not end"


STATUS = {
    Fault.RATE_LIMITED: 429,
    Fault.RATE_LIMITED_FOR_A_MINUTE: 429,
    Fault.TIMED_OUT: 408,
    Fault.SERVER_ERROR: 500,
    Fault.UNAVAILABLE: 503,
    Fault.HANG: 500,
    Fault.NO_SUCH_MODEL: 404,
    Fault.REFUSED: 400,
}
TOOK = {Fault.MUCH_USAGE: 10**9, Fault.LESS_USAGE: -(10**9)}
PIECE = b" " * (1 << 20)
SAID = {
    Fault.PROSE: "Sure! Here is what I think about these notes: they look similar to me.",
    Fault.INVALID_JSON: '{"verdicts": [{"id": 0, "verd',
    Fault.OTHER_JSON: '{"insights": ["The moon is full."], "delete": "everything"}',
    Fault.EMPTY: "",
}


@dataclass(frozen=True)
class Asked:
    """A prompt of Mnema's as it arrived. `complaint` is its feedback on the previous answer."""

    version: str
    question: Question
    complaint: str
    body: dict[str, Any]


@dataclass
class FakeLlm:
    """The running server.

    `faults` are used in order, one for each request. `scripts` answer the next prompts of a version in place of a
    good model, one each; `always` answers every prompt except the probe. `behaviour` refuses requests and wraps
    answers. `said` answers requests that are no prompts of Mnema's. `asked` are the prompts that arrived, without the
    probe, and `wrong` are their errors: at its end the server raises AssertionError if there are any. `hanging` is set
    by the first request that meets HANG. `sent` is the number of bytes sent under ENDLESS.
    """

    base_url: str = ""
    faults: deque[Fault] = field(default_factory=deque)
    scripts: deque[Script] = field(default_factory=deque)
    always: Script | None = None
    broken: Fault | None = None
    behaviour: Behaviour | None = None
    said: deque[wire.Message] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    sent: int = 0
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def models(self, request: Request) -> Response:
        """Answer GET /v1/models."""
        fault = self.faults.popleft() if self.faults else self.broken
        if fault is Fault.HANG:
            await self.stopping.wait()
        return _refusal(fault, request) or JSONResponse({"object": "list", "data": [{"id": "any", "object": "model"}]})

    async def completions(self, request: Request) -> Response:
        """Answer POST /v1/chat/completions."""
        body = await request.json()
        self.requests.append(body)
        self.keys.add(request.headers.get("authorization", ""))
        fault = self.faults.popleft() if self.faults else self.broken
        if self.behaviour is not None and (error := self.behaviour.refuse(body)) is not None:
            return JSONResponse(error[1], error[0])
        said = self._answer(body)
        if self.behaviour is not None:
            return wire.speak(body, self.behaviour.speak(str(said), body), len(self.requests))
        if fault is Fault.HANG:
            self.hanging.set()
            await self.stopping.wait()
        return _refusal(fault, request) or self._completion(body, said, fault)

    def _completion(self, body: dict[str, Any], said: wire.Message, fault: Fault | None) -> Response:
        number = len(self.requests)
        if body.get("stream"):
            return self._stream(body, said, number, fault)
        if fault is Fault.CUT:
            return Response("{", headers={"content-length": "100"})
        if fault is Fault.ENDLESS:
            return StreamingResponse(self._endless(), media_type="application/json")
        if fault is Fault.PACKED:
            return Response(gzip.compress(PIECE * 64), headers={"content-encoding": "gzip"})
        if fault is Fault.FOUR_HUNDRED:
            said = json.dumps(_four_hundred(json.loads(str(said))))
        answer = wire.completion(body, SAID.get(fault, said) if fault else said, number, usage=fault != Fault.NO_USAGE)
        if fault in TOOK:
            answer["usage"] = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), TOOK[fault])
        if fault is Fault.REFUSAL:
            answer["choices"][0]["message"] |= {"content": None, "refusal": "I cannot help with that."}
        return JSONResponse(answer)

    def _stream(self, body: dict[str, Any], said: wire.Message, number: int, fault: Fault | None) -> Response:
        if fault is Fault.PACKED:
            return Response(gzip.compress(PIECE * 64), headers={"content-encoding": "gzip"})
        if fault is Fault.ENDLESS:
            return wire.stream(body, said, number, cut=True, then=self._endless_events)
        if fault is Fault.STALLED:
            return wire.stream(body, said, number, cut=True, then=self._silence)
        if fault is Fault.BROKEN:
            return wire.stream(body, said, number, cut=True, headers={"content-length": "1000000"})
        if fault is Fault.FOUR_HUNDRED:
            said = json.dumps(_four_hundred(json.loads(str(said))))
        usage = {} if fault is Fault.NO_USAGE else None
        if fault in TOOK:
            usage = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), TOOK[fault])
        told = SAID.get(fault, said) if fault else said
        return wire.stream(body, told, number, cut=fault is Fault.CUT, usage=usage)

    async def _endless_events(self) -> AsyncIterator[str]:
        async for piece in self._endless():
            yield f": {piece.decode()}\n\n"

    async def _silence(self) -> AsyncIterator[str]:
        self.hanging.set()
        await self.stopping.wait()
        yield ""

    async def _endless(self) -> AsyncIterator[bytes]:
        while not self.stopping.is_set():
            self.sent += len(PIECE)
            yield PIECE
            await asyncio.sleep(0)

    def _answer(self, body: dict[str, Any]) -> wire.Message:
        version = re.match(r"Task: (\S+)\n", str(body["messages"][0]["content"]))
        if version is None:
            return self._talk(body)
        wrong_with_it = list(wrong(body, version[1]))
        self.wrong += wrong_with_it
        if wrong_with_it:
            return "{}"
        _, user = split_request(body)
        question = question_of(user)
        if version[1] == PROBE:
            return json.dumps(KNOWN[PROBE].answer(question))
        complaint = user[json.JSONDecoder().raw_decode(user)[1] :].strip()
        self.asked.append(Asked(version[1], question, complaint, body))
        script = self.scripts.popleft() if self.scripts else self.always or KNOWN[version[1]].answer
        answer = script(question)
        return answer if isinstance(answer, str) else json.dumps(answer)

    def _talk(self, body: dict[str, Any]) -> wire.Message:
        if self.said:
            return self.said.popleft()
        if isinstance(choice := body.get("tool_choice"), dict):
            return choice["function"]["name"], {}
        return f"You said: {body['messages'][-1]['content']}"


def _four_hundred(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with every list extended to 400 entries."""
    return {name: (value * 400)[:400] if isinstance(value, list) else value for name, value in answer.items()}


def _refusal(fault: Fault | None, request: Request) -> Response | None:
    """Return the answer for a fault that is no model's answer. It asks for a short wait, so that retries are fast."""
    if fault in STATUS:
        wait = {"retry-after": "60"} if fault is Fault.RATE_LIMITED_FOR_A_MINUTE else {"retry-after-ms": "1"}
        return JSONResponse({"error": {"message": "not now"}}, STATUS[fault], wait)
    if fault is Fault.UNAUTHORISED:
        quoted = request.headers.get("authorization")
        return JSONResponse({"error": {"message": f"wrong key: {quoted}"}}, 401)
    if fault is Fault.GARBAGE:
        return Response('{"choices": [', media_type="application/json")
    if fault is Fault.OTHER:
        return JSONResponse({"object": "list", "data": [{"embedding": [0.5]}]})
    return None


def routes(fake: FakeLlm) -> list[Route]:
    """Return the routes of the server."""
    return [
        Route("/v1/chat/completions", fake.completions, methods=["POST"]),
        Route("/v1/models", fake.models, methods=["GET"]),
    ]


@asynccontextmanager
async def fake_llm() -> AsyncIterator[FakeLlm]:
    """Run a server on a free port; at the end stop it together with every request that hangs in it."""
    fake = FakeLlm()
    async with loopback(routes(fake), fake.stopping) as url:
        fake.base_url = f"{url}/v1"
        yield fake
    assert not fake.wrong, f"prompts lack what they must have: {fake.wrong}"
