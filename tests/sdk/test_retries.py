"""Retries: transient failures are retried, refusals are not, and a retried write is stored once."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from mnema_client import (
    AsyncMnema,
    BrokenOff,
    CannotBeSent,
    CannotConnect,
    InvalidRequest,
    LimitReached,
    Mnema,
    MnemaError,
    NoAnswer,
    Retry,
    ServerError,
    TimedOut,
    Unavailable,
    UnexpectedAnswer,
)
from mnema_client.calls import erase, health, query, remember
from mnema_client.streams import JsonLines
from mnema_client.transport import Call, Connection, Contact

from tests.api.calls import sql
from tests.conftest import Database
from tests.factories import Caller
from tests.sdk.conftest import SOON, Either, apart

MAYA: dict[str, Any] = {"user_id": "maya", "category": "tasks"}


@dataclass
class Relay:
    """A proxy in front of the real server that applies the next fault of `faults` to each request.

    `drop` loses the request, `lost` the response, `cut` breaks the response off, `hang` sends nothing, a number is a
    status of its own, `pass` is no fault.
    """

    url: str = ""
    faults: list[str | int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    seen: list[bytes] = field(default_factory=list)

    async def handle(self, upstream: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, which carries one request."""
        try:
            await self._handle(upstream, reader, writer)
        finally:
            writer.close()

    async def _handle(self, upstream: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        body = await reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else b""
        self.seen.append(head + body)
        fault = self.faults.pop(0) if self.faults else "pass"
        if isinstance(fault, int):
            named = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
            problem = json.dumps({"code": f"fault_{fault}", "detail": "a fault", "retry_after": 7}).encode()
            writer.write(
                f"HTTP/1.1 {fault} x\r\nConnection: close\r\n{named}Content-Length: {len(problem)}\r\n\r\n".encode()
                + problem
            )
            await writer.drain()
        elif fault == "hang":
            await reader.read()
        elif fault != "drop":
            answer = await self._answer(upstream, head + body)
            cut = answer[: -len(answer) // 3] if fault == "cut" else answer
            writer.write(b"" if fault == "lost" else cut)
            await writer.drain()

    async def _answer(self, upstream: str, request: bytes) -> bytes:
        there, back = await asyncio.open_connection(*upstream.removeprefix("http://").split(":"))
        back.write(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        answer = await there.read()
        back.close()
        return answer


@pytest.fixture
async def relay(server: str) -> AsyncIterator[Relay]:
    made = Relay()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made.handle(server, reader, writer)

    listener = await asyncio.start_server(handle, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    yield made
    listener.close()


@pytest.fixture(params=[Mnema, AsyncMnema], ids=["waiting", "asyncio"])
async def distant(request: pytest.FixtureRequest, relay: Relay, caller: Caller) -> AsyncIterator[Either]:
    """Return each client in turn, behind the relay."""
    client = Either(request.param(relay.url, caller.key, retry=SOON, timeout_s=20))
    yield client
    await client.close()


async def test_a_write_whose_answer_fails_is_sent_again_and_done_once(
    distant: Either, relay: Relay, database: Database
) -> None:
    faults: list[str | int] = ["lost", "drop", "cut", 429, 502, 503, 504]
    for number, fault in enumerate(faults):
        relay.faults, relay.seen = [fault, fault], []
        written = await distant.remember(f"Maya labels crate {number}.", **MAYA)
        assert written.action == "created"
        assert len(relay.seen) == 3
        assert len(set(relay.seen)) == 1  # the same bytes, the same Idempotency-Key
    assert len(await sql(database, "SELECT 1 FROM history WHERE event = 'ADD'")) == len(faults)
    relay.faults = ["lost"]
    turn = await distant.add_turn("Hello.", user_id="maya", thread_id="t", role="user")
    assert turn.revision == 1


async def test_what_is_refused_is_not_sent_again(distant: Either, relay: Relay) -> None:
    for status, error in ((422, InvalidRequest), (500, ServerError)):
        relay.faults = [status]
        with pytest.raises(error) as refused:
            await distant.remember("Maya books the venue.", **MAYA)
        assert (refused.value.code, refused.value.status) == (f"fault_{status}", status)
    assert len(relay.seen) == 2


async def test_it_gives_up_in_the_end_and_says_why(distant: Either, relay: Relay) -> None:
    expected: list[tuple[str | int, type[MnemaError]]] = [(503, Unavailable), ("drop", NoAnswer), (429, LimitReached)]
    for fault, error in expected:
        relay.faults, relay.seen = [fault] * 4, []
        with pytest.raises(error):
            await distant.get("00000000-0000-7000-8000-000000000000")
        assert len(relay.seen) == 4


async def test_a_long_wait_is_left_to_the_caller(distant: Either, relay: Relay) -> None:
    relay.faults, relay.headers = [429], {"Retry-After": "60"}
    with pytest.raises(LimitReached) as limited:
        await distant.query("x", agent="planner")
    assert (limited.value.retry_after, len(relay.seen)) == (7, 1)


async def test_a_change_whose_answer_fails_is_sent_again_and_done_once(
    distant: Either, relay: Relay, database: Database
) -> None:
    written = await distant.remember("Maya books the venue.", **MAYA)
    relay.faults = ["lost"]
    assert (await distant.edit(written.id, version=1, importance=5)).version == 2
    relay.faults = ["lost"]
    assert (await distant.pin(written.id)).pinned
    relay.faults = ["lost", "drop"]
    assert (await distant.delete(written.id)).state == "soft_deleted"
    relay.faults = ["lost"]
    assert (await distant.restore(written.id)).state == "active"
    relay.faults = ["lost"]
    await distant.purge(written.id)
    events = [row["event"] for row in await sql(database, "SELECT event FROM history ORDER BY ts")]
    assert events == ["ADD", "UPDATE", "UPDATE", "DELETE", "RESTORE", "PURGE"]


async def test_what_the_server_cannot_recognise_again_is_sent_again_only_when_nothing_was_done(
    distant: Either, relay: Relay
) -> None:
    await distant.remember("Maya books the venue.", **MAYA)
    relay.seen, relay.faults = [], ["lost"]
    with pytest.raises(NoAnswer):
        await distant.erase("maya")
    assert len(relay.seen) == 1
    for status, error in ((429, None), (503, Unavailable)):
        refusal = httpx.Response(status, json={"code": "c", "detail": "d"})
        with pytest.raises(error) if error else nullcontext():
            assert erase("maya").pause_s(SOON, 1, refusal) > 0


@pytest.mark.long
async def test_a_broken_answer_to_many_goes_on_behind_what_was_answered(
    distant: Either, relay: Relay, database: Database
) -> None:
    relay.faults = ["cut", "lost", 503, "cut"]
    results = await distant.remember_many({**MAYA, "text": f"Maya labels crate {n}."} for n in range(30))
    assert [result.line for result in results] == list(range(1, 31))
    assert {result.action for result in results} == {"created"}
    assert len(await sql(database, "SELECT 1 FROM memories")) == 30
    assert len(set(relay.seen)) == 1


async def test_an_export_that_breaks_off_is_seen_to_be_incomplete(distant: Either, relay: Relay) -> None:
    await distant.remember("Maya books the venue.", **MAYA)
    relay.faults = ["cut"]
    with pytest.raises(BrokenOff):
        await distant.export("maya")
    relay.faults = ["drop"]
    assert len(await distant.export("maya")) > 2


async def test_silence_and_nobody_are_told_apart(relay: Relay, caller: Caller) -> None:
    once = Retry(attempts=1)
    relay.faults = ["hang", "hang"]
    for client in (Mnema, AsyncMnema):
        silent = Either(client(relay.url, caller.key, retry=once, timeout_s=0.2))
        with pytest.raises(TimedOut) as late:
            await silent.health()
        assert (late.value.code, late.value.status) == ("timed_out", None)
        await silent.close()
        nobody = Either(client("http://127.0.0.1:9", caller.key, retry=once))
        with pytest.raises(NoAnswer, match="GET /health"):
            await nobody.health()
        await nobody.close()


async def test_another_server_is_not_taken_for_mnema(distant: Either, relay: Relay) -> None:
    relay.faults, relay.headers = [302], {"Location": "https://elsewhere.example/"}
    with pytest.raises(UnexpectedAnswer):
        await distant.health()
    relay.faults = [200]
    with pytest.raises(UnexpectedAnswer, match="is not Mnema"):
        await distant.get("00000000-0000-7000-8000-000000000000")


async def test_a_server_that_is_not_ready_is_an_answer(server: str, caller: Caller, relay: Relay) -> None:
    call: Call[Any] = Call("GET", "/ready", lambda response: response.status_code, accepted=frozenset({503}))
    relay.faults = [503]
    with Mnema(relay.url, caller.key, retry=SOON) as memory:
        assert await apart(lambda: memory.send(call)) == 503


def test_waits_grow_keep_to_their_limits_and_listen_to_the_server() -> None:
    retry = Retry(attempts=5, first_wait_s=1, longest_wait_s=4)
    for attempt, most in ((1, 1), (2, 2), (3, 4), (4, 4)):
        for _ in range(50):
            wait = retry.wait_s(attempt)
            assert wait is not None
            assert most / 2 <= wait <= most
    assert retry.wait_s(5) is None
    assert retry.wait_s(1, 3) == 3
    assert retry.wait_s(1, 4.5) is None


def test_patience_ends_after_its_time_and_not_before_a_second_try() -> None:
    retry = Retry(first_wait_s=1, longest_wait_s=4)
    assert retry.wait_s(1, spent_s=60) is not None  # the first retry comes even after a minute
    assert retry.wait_s(2, spent_s=60) is None
    assert retry.wait_s(2, spent_s=27) is not None
    assert retry.wait_s(9, 4, spent_s=27) is None
    assert retry.wait_s(5000, spent_s=10) is not None
    assert Retry(attempts=1).wait_s(1) is None
    assert Retry().patience_s == 30


def waits_until_the_end(contact: Contact) -> list[float]:
    """Return the waits of a call for which nothing ever listens."""
    waits: list[float] = []
    with suppress(NoAnswer):
        while len(waits) < 100:
            failure = httpx.ConnectError("Connection refused")
            waits.append(contact.pause_s(health(), len(waits) + 1, failure, sum(waits)))
    return waits


def test_a_server_that_has_answered_is_waited_for_and_one_that_never_has_is_not() -> None:
    contact = Contact(Connection("http://127.0.0.1:9", "key"))
    assert 0 < sum(waits_until_the_end(contact)) <= 1
    contact.note_answer()
    patient = waits_until_the_end(contact)
    assert 15 < sum(patient) <= 30
    assert max(patient) <= 10
    assert len(patient) < 15


@pytest.mark.parametrize("client", [Mnema, AsyncMnema])
async def test_a_server_that_does_not_run_is_named_with_what_to_do(client: type[Mnema | AsyncMnema]) -> None:
    nobody = Either(client("http://127.0.0.1:9", "key"))
    with pytest.raises(CannotConnect, match=r"is Mnema running at http://127.0.0.1:9\? Start it with `mnema up`"):
        await nobody.remember("Tea.", **MAYA)
    await nobody.close()


def test_a_closed_client_says_so() -> None:
    with Mnema("http://127.0.0.1:9", "key") as memory:
        pass
    with pytest.raises(CannotBeSent, match="the client is closed"):
        memory.health()


def test_every_write_has_a_key_of_its_own_unless_it_is_given_one() -> None:
    calls = [remember("Tea.", **MAYA) for _ in range(2)]
    assert calls[0].headers["Idempotency-Key"] != calls[1].headers["Idempotency-Key"]
    assert remember("Tea.", idempotency_key="mine", **MAYA).headers["Idempotency-Key"] == "mine"
    assert "Idempotency-Key" not in query("Tea?", agent="planner").headers


SPLITS: list[Callable[[bytes], list[bytes]]] = [
    lambda raw: [raw],
    lambda raw: [raw[n : n + 1] for n in range(len(raw))],
    lambda raw: [raw[:7], b"", raw[7:]],
]


@pytest.mark.parametrize("split", SPLITS)
def test_lines_are_put_together_from_any_pieces(split: Callable[[bytes], list[bytes]]) -> None:
    documents = [{"a": "é\u2028\x85"}, {"b": 2}]
    raw = b"\n".join(json.dumps(d, ensure_ascii=False).encode() for d in documents) + b"\n\n"
    lines = JsonLines()
    assert [document for chunk in split(raw) for document in lines.feed_chunk(chunk)] == documents
    lines.check_end()
    lines.feed_chunk(b'{"c"')
    with pytest.raises(BrokenOff):
        lines.check_end()
    with pytest.raises(UnexpectedAnswer):
        JsonLines().feed_chunk(b"<html>\n")


def test_a_loopback_server_is_never_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with Mnema("http://127.0.0.1:1", "key") as memory:
        assert not memory.connection.client_options()["trust_env"]
    assert Mnema("http://mnema.example", "key").connection.client_options()["trust_env"]
    assert httpx.URL(memory.connection.base_url).host == "127.0.0.1"
