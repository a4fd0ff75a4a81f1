"""No request blocks the event loop: the tests send hostile bodies to every route, with and without a key.

The server is a separate process (`tests.api.fuzz.watched`). MNEMA_FUZZ_ROUNDS=50 sends that many rounds of everything
instead of one; MNEMA_FUZZ_SEED selects other bodies.
"""

import json
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import ormsgpack
import pytest

from app.bootstrap import Application
from tests.acceptance.serving import Server
from tests.api.route_catalog import Operation, fill_places, operations, resolved
from tests.conftest import Database
from tests.effort import DEEP
from tests.factories import Caller, make_caller
from tests.scripted_upstream import scripted_upstream

ROUNDS = int(os.environ.get("MNEMA_FUZZ_ROUNDS", "1"))
SEED = int(os.environ.get("MNEMA_FUZZ_SEED", "1"))
HELD_S = 0.5
"""Maximum CPU seconds without a turn of the event loop."""
MEMORY = 900 << 20
FULL = 1_000_000
NAME = 1000
"""Characters of the longest field that is not free text."""
PLACES = fill_places("01a1fc6a-13da-7474-b3f6-cb098cae46b6")
UNITS = [
    *(
        "a",
        " ",
        "\n",
        ".",
        "?! ",
        "…",
        "a.",
        "A. ",
        "-",
        "- ",
        "1",
        "1. ",
        "9 ",
        "'",
        '"',
        "“",
        "(",
        "[",
        "{",
        "<",
        "*",
    ),
    *("`", "#", "|", "\\", "/", "\u0301", "a\u0301\u0328", "\u0f71\u0f72", "\u1100", "가", "\u200d", "\u200b"),
    *("\U000e0020", "ﷺ", "İ", "ß", "\ud83d\ude00", "не ", "is is ", "not ", "and, ", "my favorite ", "http://a"),
    *("my favorite colors are ", "blue, ", "1) blue ", " and ", "actually ", "second ", "not red but "),
    *("2024-01-01 ", "monday ", "12:30 ", "[M1]", "Model: ", "name is ", "yes ", "1/2", "e.g. ", "\t\r", "\x00"),
]
WRAPS: list[Callable[[bytes], dict[str, Any]]] = [
    lambda content: {"content": content, "headers": {"Content-Type": "application/json"}},
    lambda content: {"content": content, "headers": {"Content-Type": "application/msgpack"}},
    lambda content: {"content": content, "headers": {"Content-Type": "application/x-ndjson"}},
    lambda content: {"content": content, "headers": {"Content-Type": "application/octet-stream"}},
    lambda content: {"content": content, "headers": {"Content-Type": "text/plain", "Content-Encoding": "gzip"}},
    lambda content: {"content": pieces(content), "headers": {"Content-Type": "application/json"}},
]


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    """Yield the content in chunks."""
    for at in range(0, len(content), 50_000):
        yield content[at : at + 50_000]


def hostile_text(chance: random.Random) -> str:
    """Return a long text of one or two repeated units, sometimes with an end that does not match."""
    size = chance.choice((100, 3_000, 31_000, 160_000, FULL))
    units = chance.choices(UNITS, k=chance.choice((1, 1, 2)))
    text = "".join(units) * (size // len("".join(units)) + 1)
    return text[:size] + chance.choice(("", "x", "\u0301", "."))


def hostile_body(chance: random.Random) -> bytes:
    """Return a body that is invalid as a whole."""
    size = chance.choice((1, 1_000, FULL))
    kinds: list[Callable[[], bytes]] = [
        lambda: chance.randbytes(size),
        lambda: b"[" * size,
        lambda: b"[" + b"[]," * (size // 3) + b"[]]",
        lambda: b"[" + b"1," * (size // 2) + b"1]",
        lambda: b"{" + b",".join(b'"%d":{}' % number for number in range(size // 12)) + b"}",
        lambda: b"[" + b"9" * size + b"]",
        lambda: b"[1e" + b"9" * min(size, 4000) + b"]",
        lambda: b'"' + b"\\" * size,
        lambda: b"\xdd" + size.to_bytes(4, "big") + b"\x90" * size,
        lambda: b"\xdf\xff\xff\xff\xff" + b"\xa1a\x01" * (size // 3),
        lambda: b"\x91" * size,
        lambda: ormsgpack.packb({"user_id": "maya", "writes": [{}] * (size // 2)}),
        lambda: b"\n" * size,
        lambda: b'{"user_id": "maya", "category": "tasks", "text": "x"}\n' * (size // 5_000 + 1),
    ]
    return chance.choice(kinds)()


def spoilt(operation: Operation, chance: random.Random) -> Any:
    """Return the operation's sample with hostile values in place of one of its values."""
    sample = json.loads(json.dumps(operation.sample()))
    values: list[Callable[[], Any]] = [
        lambda: hostile_text(chance),
        lambda: [hostile_text(chance)[:300]] * chance.choice((1, 1_000)),
        lambda: {hostile_text(chance)[:200]: number for number in range(chance.choice((1, 1_000)))},
        lambda: int("9" * chance.choice((1, 20, 4000))),
        lambda: 1.7e308,
        lambda: None,
        lambda: [[]] * 100_000,
        lambda: {"a": {"a": {"n": "9" * 200_000}}},
    ]
    if not isinstance(sample, dict):
        return chance.choice(values)()
    names = list(sample) or ["x"]
    for name in chance.sample(names, k=min(len(names), chance.choice((1, 1, 2)))):
        sample[name] = chance.choice(values)()
    if chance.random() < 0.3:
        sample |= {"metadata": chance.choice(values)(), "filters": {"user_id": hostile_text(chance)[:200]}}
    return sample


def request_of(operation: Operation, chance: random.Random) -> dict[str, Any]:
    """Return the arguments of httpx that send a hostile request to the operation."""
    params = {name: PLACES.get(name, "maya") for name in operation.needed}
    if chance.random() < 0.3:
        params[chance.choice([*operation.queries, "nonsense"])] = (
            hostile_text(chance)[:5_000].encode("utf-8", "replace").decode()
        )
    if operation.body is None and chance.random() < 0.8:
        return {"params": params}
    if operation.body is None or chance.random() < 0.3:
        return {"params": params, **chance.choice(WRAPS)(hostile_body(chance))}
    content = json.dumps(spoilt(operation, chance), ensure_ascii=chance.random() < 0.5)
    wrap = chance.choice(WRAPS[:1] * 8 + WRAPS)
    return {"params": params, **wrap(content.encode("utf-8", "surrogatepass") + b"\n" * operation.lines)}


def free_texts(operation: Operation) -> list[str]:
    """Return the fields of the operation's body that may be long."""
    if operation.body is None:
        return []
    fields = resolved(operation.body, operation.schemas).get("properties", {})
    kinds = {name: resolved(schema, operation.schemas) for name, schema in fields.items()}
    return [n for n, kind in kinds.items() if kind.get("type") == "string" and kind.get("maxLength", FULL) > NAME]


def units_of(chance: random.Random) -> list[str]:
    """Return the units of text to try: all in the deep profile, else some."""
    return UNITS if DEEP else chance.sample(UNITS, 16)


def long_texts(operation: Operation, chance: random.Random) -> Iterator[dict[str, Any]]:
    """Return a request for each field that may be long and each unit of text."""
    for name in free_texts(operation):
        for unit in units_of(chance):
            for size in (30_000, FULL // len(unit.encode("utf-8", "surrogatepass"))):
                text = (unit * (size // len(unit) + 1))[:size] + chance.choice(("", "x", "\u0301"))
                yield packed(operation, {**operation.sample(), name: text})


def packed(operation: Operation, body: Any) -> dict[str, Any]:
    """Return the body as compact JSON."""
    content = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n" * operation.lines
    return {"content": content, "headers": {"Content-Type": "application/json"}}


@pytest.fixture
async def watched(database: Database, tmp_path: Path) -> AsyncIterator[Server]:
    """Run a server whose event loop is watched. Its chats go to a scripted upstream."""
    async with scripted_upstream() as upstream:
        upstream.takes_anything, upstream.rule = True, lambda _body: "Fine."
        env = {"MNEMA_CHAT_UPSTREAM_URL": upstream.base_url, "MNEMA_CHAT_ANTHROPIC_URL": upstream.base_url}
        server = Server(database, tmp_path, "tests.api.fuzz.watched", env=env)
        try:
            await server.start()
            yield server
        finally:
            server.kill()


class Attacker:
    """A sender of requests that records wrong answers and requests that blocked the event loop."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.wrong: dict[str, str] = {}
        self.slow: dict[str, tuple[float, str]] = {}

    async def send(self, operation: Operation, request: dict[str, Any], key: dict[str, str]) -> None:
        """Send one request and check the answer."""
        await self._client.post("/watch")
        request["headers"] = {**request.get("headers", {}), **key}
        try:
            response = await self._client.request(operation.method, operation.url(PLACES), **request)
        except httpx.TransportError as error:
            self.wrong[operation.name] = repr(error)
            return
        if response.status_code >= 500:
            self.wrong[operation.name] = response.text
        held_s = (await self._client.get("/watch")).json()["longest_s"]
        if held_s > max(HELD_S, self.slow.get(operation.name, (0.0, ""))[0]):
            self.slow[operation.name] = (held_s, f"{response.status_code} {request}"[:300])

    async def no_harm_was_done(self) -> None:
        """Check that every answer was correct, none blocked the event loop, and the memory stayed within limits."""
        assert self.wrong == {}
        assert self.slow == {}
        assert (await self._client.get("/watch")).json()["peak_bytes"] < MEMORY


@pytest.mark.long
async def test_no_request_holds_the_event_loop(watched: Server, app: Application, caller: Caller) -> None:
    chance, bound = random.Random(SEED), await make_caller(app, ["query"], ["stylist"], tenant=caller)
    keys = [caller.headers] * 6 + [bound.headers, {}, {"Authorization": "Bearer " + "x" * 200}]
    async with httpx.AsyncClient(base_url=watched.url, timeout=120) as client:
        attacker = Attacker(client)
        mcp = Operation("POST", "/mcp", body={"type": "object", "examples": [MCP]})
        for operation in [*await operations(client), mcp] * ROUNDS:
            for _ in range(2 if operation.body is None else 6):
                await attacker.send(operation, request_of(operation, chance), chance.choice(keys))
        await attacker.no_harm_was_done()


@pytest.mark.long
async def test_no_text_holds_the_event_loop(watched: Server, caller: Caller) -> None:
    chance = random.Random(SEED)
    async with httpx.AsyncClient(base_url=watched.url, timeout=120) as client:
        attacker = Attacker(client)
        for operation in await operations(client):
            for request in long_texts(operation, chance):
                await attacker.send(operation, request, caller.headers)
        await attacker.no_harm_was_done()


MCP = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "memory.query", "arguments": {"agent": "supervisor", "query": "oat milk"}},
}


@pytest.mark.long
async def test_no_message_of_a_chat_holds_the_event_loop(watched: Server, caller: Caller) -> None:
    async with httpx.AsyncClient(base_url=watched.url, timeout=120) as client:
        attacker = Attacker(client)
        [chat] = [one for one in await operations(client) if one.name == "POST /v1/chat/completions"]
        for unit in units_of(random.Random(SEED)):
            text = (unit * (FULL // len(unit) + 1))[: FULL // len(unit.encode("utf-8", "surrogatepass"))]
            for content in (text, [{"type": "text", "text": text[:1000]}] * 500):
                asked = {"model": "m", "memory_id": "hostile", "messages": [{"role": "user", "content": content}]}
                await attacker.send(chat, packed(chat, asked), caller.headers)
        await attacker.no_harm_was_done()
