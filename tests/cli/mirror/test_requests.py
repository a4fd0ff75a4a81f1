"""The requests of a mirror: what is repeated, how long it waits, and what ends a run."""

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from mnema_cli.mirror.adapters.http import ROLES, HttpMirrorStore
from mnema_cli.mirror.adapters.requests import MirrorRequests
from mnema_cli.mirror.rules.entries import Draft
from mnema_cli.mirror.rules.problems import EntryRefused, StoreAway, StoreUnusable

Answer = httpx.Response | Exception


def problem(status: int, code: str, **headers: str) -> httpx.Response:
    content = {"status": status, "code": code, "detail": f"It is {code}."}
    return httpx.Response(status, json=content, headers={"Content-Type": "application/problem+json"} | headers)


class Line:
    """A server that gives these answers in turn, the last one for ever. `sent` are the requests, `waits` the pauses."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.sent: list[httpx.Request] = []
        self.waits: list[float] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def client(self) -> httpx.Client:
        return httpx.Client(transport=httpx.MockTransport(self.answer), base_url="http://server")

    def requests(self, patience_s: float = 60.0) -> MirrorRequests:
        return MirrorRequests(self.client, self.waits.append, patience_s)

    def store(self) -> HttpMirrorStore:
        return HttpMirrorStore(self.client, "maya", "activity", self.waits.append)


FINE = httpx.Response(200, json={"fine": True})


@pytest.mark.parametrize(
    ("answers", "waits"),
    [
        ([httpx.ConnectError("refused"), httpx.ReadTimeout("slow")], [0.25, 0.5]),
        ([problem(503, "database_unavailable"), problem(429, "rate_limited", **{"Retry-After": "7"})], [0.25, 7.0]),
        ([httpx.Response(502), httpx.Response(504, headers={"Retry-After": "soon"})], [0.25, 0.5]),
        ([problem(500, "internal_error")] * 2, [0.25, 0.5]),
    ],
)
def test_a_request_is_repeated_until_it_is_answered(answers: list[Answer], waits: list[float]) -> None:
    line = Line(*answers, FINE)
    assert line.requests().read("/memory", user_id="maya", cursor=None) == {"fine": True}
    assert line.waits == waits
    assert {str(request.url) for request in line.sent} == {"http://server/memory?user_id=maya"}


@pytest.mark.parametrize("answer", [httpx.ConnectError("refused"), problem(503, "database_unavailable")])
def test_patience_ends_and_pauses_grow_up_to_a_limit(answer: Answer) -> None:
    line = Line(answer)
    with pytest.raises(StoreAway, match=r"refused|database_unavailable: It is"):
        line.requests(patience_s=40).send("GET", "/memory")
    assert line.waits == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (problem(401, "unauthenticated"), "unauthenticated: It is"),
        (problem(403, "scope_required"), "scope_required"),
        (httpx.Response(404, text="nginx"), "http://server/ is not a Mnema server: 404 Not Found"),
        (httpx.Response(200, text="<html>"), "is this a Mnema server"),
        (httpx.Response(200, json=[1]), "is this a Mnema server"),
        (problem(500, "internal_error"), "internal_error"),
    ],
)
def test_what_no_repetition_cures_ends_the_run(answer: httpx.Response, reason: str) -> None:
    with pytest.raises(StoreUnusable, match=reason):
        Line(answer).requests().read("/memory")


@pytest.mark.parametrize("wait", ["", "-1", "1e9", "²", "9" * 9])
def test_a_strange_pause_is_not_kept(wait: str) -> None:
    line = Line(httpx.Response(503, headers=[(b"Retry-After", wait.encode("latin-1"))]), FINE)
    line.requests().read("/memory")
    assert line.waits == [0.25]


def created(**fields: Any) -> Iterable[httpx.Response]:
    memory = {"id": "m", "type": "semantic", "state": "active", "role": None, "thread_id": None, "metadata": {}}
    memory |= {"created_at": "2026-01-01T00:00:00Z", "text": "It is.", "version": 1}
    return [httpx.Response(201, json={"id": "m"}), httpx.Response(200, json=memory | fields)]


def test_a_repeated_creation_carries_one_key_which_another_draft_does_not_share() -> None:
    line = Line(httpx.ReadTimeout("slow"), *created(), *created(), *created())
    store = line.store()
    entry = store.create_entry(Draft("It is.", "global", "memory"), "k")
    store.create_entry(Draft("It is.", "global", "memory"), "k")
    store.create_entry(Draft("It is.", "talk", "memory"), "k")
    assert (entry.id, entry.conversation_id) == ("m", "global")
    keys = [request.headers["Idempotency-Key"] for request in line.sent if request.method == "POST"]
    assert keys[0] == keys[1] == keys[2] != keys[3]
    assert {request.headers["X-Mnema-Client"] for request in line.sent if request.method == "POST"} == {"mirror"}


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([problem(429, "quota_exceeded", **{"Retry-After": "9000"})], "quota_exceeded"),
        ([problem(500, "internal_error")], "internal_error"),
        ([httpx.Response(201, json={"id": None, "reason": "erased"})], "does not store this text: erased"),
        ([httpx.Response(201, json={"id": "m"}), problem(404, "not_found")], "deleted this text for good"),
        (created(type="chunk"), "joined the memory m, which is not mirrored"),
    ],
)
def test_a_creation_that_fails_alone_does_not_end_the_run(answers: Iterable[Answer], reason: str) -> None:
    with pytest.raises(EntryRefused, match=reason):
        Line(*answers).store().create_entry(Draft("It is.", "talk", "memory"), "k")


def stored(text: str) -> dict[str, Any]:
    """Return a memory with this text as the server lists it."""
    times = {"created_at": "2026-01-01T00:00:00Z", "thread_id": None, "version": 1}
    return {
        "id": str(uuid4()),
        "type": "semantic",
        "state": "active",
        "role": None,
        "text": text,
        "metadata": {},
    } | times


@pytest.mark.parametrize("code", ["cursor_of_other_database", "invalid_cursor"])
def test_a_mirror_reads_all_again_if_the_server_has_another_database(code: str) -> None:
    def changes(cursor: str) -> httpx.Response:
        return httpx.Response(200, json={"tenant_id": "t", "next_cursor": cursor, "more": False})

    def page(*texts: str) -> httpx.Response:
        return httpx.Response(200, json={"items": [stored(text) for text in texts], "next_cursor": None})

    empty = [page()] * len(ROLES)
    line = Line(
        *(changes("old"), page("Maya rows."), *empty, changes("old")),
        *(problem(410, code), changes("new"), page("Maya sings."), *empty, changes("new")),
    )
    store = line.store()
    assert [entry.text for entry in store.list_entries()] == ["Maya rows."]
    assert [entry.text for entry in store.list_entries()] == ["Maya sings."]
    assert [request.url.params.get("after") for request in line.sent if "changes" in request.url.path] == [
        *(None, "old", "old"),
        *(None, "new"),
    ]
