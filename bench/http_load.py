"""Load on a server on this machine: each of several clients sends its next request when it has its answer.

One process, one thread, raw HTTP/1.1 over kept-alive loopback connections. A request costs a few tens of microseconds
of CPU, so that on few cores the clients do not distort the result. Time and number of requests are bounded.

    echo '{"port": 8000, "key": "mnema_…", "kind": "query", "clients": 8}' | python -m bench.http_load
"""

import json
import re
import selectors
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from bench import chat_workload, fact_workload, view_workload, workload

HOST = "127.0.0.1"
MOST_A_SECOND = 5000
SILENCE_S = 30
CHAT_PATH = "/v1/chat/completions"
PATHS = {
    **{"query": "/memory/query", "write": "/memory", "facts_answer": "/facts/answer", "facts_store": "/facts"},
    **{"turn": "/turns", "message_query": "/memory/query"},
    **{"chat": CHAT_PATH, "chat_without_memory": CHAT_PATH, "chat_from_facts": CHAT_PATH},
}
"""The path of each kind of load."""
WRITES = frozenset({"write", "facts_store"})
NEW = WRITES | {"turn", "message_query", "chat", "chat_without_memory", "chat_from_facts"}
"""The kinds of which each request must be new."""
SAMPLED = 50
"""One answer in this many is parsed as JSON."""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_LAST_CHUNK = b"0\r\n\r\n"


class Requests(Protocol):
    """Requests for a server, with the number of clients that send them and the seconds of warm-up and measurement."""

    @property
    def port(self) -> int: ...
    @property
    def clients(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def warmup(self) -> float: ...

    def build_requests(self) -> Iterator[bytes]:
        """Return the requests in order."""

    def is_right(self, status: int, body: bytes, *, thoroughly: bool) -> bool:
        """Return True for an answer as it must be. `thoroughly`: look at the whole body."""


@dataclass(frozen=True, slots=True)
class Load:
    """The parameters of a load.

    `first` is the number of the first note, list or message, so that no two loads send the same one. `queries` is the
    number of different queries or questions, from `first_query` on, and `users` the number of users with facts.
    `stream`: chats ask for a stream.
    """

    port: int
    key: str
    kind: str
    clients: int
    seconds: float = 5.0
    warmup: float = 1.0
    first: int = 0
    queries: int = workload.QUERIES
    ranking: str = "default"
    users: int = fact_workload.USERS
    first_query: int = 0
    stream: bool = True

    def request_of(self, number: int) -> bytes:
        """Return a request. Raise ValueError for an unknown kind."""
        if self.kind in view_workload.KINDS:
            return encode_request("GET", view_workload.view_path(self.kind, number), self.key)
        return encode_request("POST", PATHS.get(self.kind, ""), self.key, self.body_of(number))

    def body_of(self, number: int) -> dict[str, Any]:
        """Return the body of a request. Raise ValueError for an unknown kind."""
        match self.kind:
            case "query":
                return workload.query_body(self.first_query + number, self.ranking)
            case "write":
                return workload.write_body(self.first + number)
            case "facts_answer":
                return fact_workload.question_body(number, self.users)
            case "facts_store":
                return fact_workload.statement_body(self.first + number, self.users)
            case "turn":
                return chat_workload.turn_body(self.first + number)
            case "message_query":
                return chat_workload.query_body(self.first + number)
            case "chat" | "chat_without_memory":
                return chat_workload.chat_body(self.first + number, stream=self.stream)
            case "chat_from_facts":
                return chat_workload.favorite_body(self.first + number, stream=self.stream)
        raise ValueError(f"kind is one of {', '.join(PATHS)}, not {self.kind!r}")

    def build_requests(self) -> Iterator[bytes]:
        """Return the requests in order."""
        return build_requests(self)

    def is_right(self, status: int, body: bytes, *, thoroughly: bool) -> bool:
        """Return what `is_right` says of an answer."""
        return is_right(self.kind, status, body, thoroughly=thoroughly)


@dataclass(slots=True)
class Outcome:
    """The result of a load.

    `latencies_ms` are of requests that ended in the measured time, `first_bytes_ms` the times to the first bytes of
    their bodies. `requests` counts all. `refusal` is the first answer that `is_right` rejects.
    """

    latencies_ms: list[float] = field(default_factory=list)
    first_bytes_ms: list[float] = field(default_factory=list)
    seconds: float = 0.0
    requests: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    refusal: str = ""
    cpu_ms: float = 0.0


_CREATED = {"write": b'"created"', "facts_store": b'"S":3,', "turn": b'{"id":"'}
_HITS, _BY_ENDPOINT = b'"memory_hits":[{', b'"id":"chatcmpl-bench"'
_CHATTED = {
    "chat": {_HITS: True, _BY_ENDPOINT: True},
    "chat_without_memory": {b'"memory_hits"': False, _BY_ENDPOINT: True},
    "chat_from_facts": {b'"usedMemory":true': True, _BY_ENDPOINT: False},
}
"""Bytes that the answer of each kind of chat must have (True) or must not have (False)."""


class _Client:
    """One kept-alive connection with at most one open request."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=SILENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.began = 0.0
        self.first_byte_at = 0.0
        self._received = b""

    def send_request(self, request: bytes) -> None:
        self._received, self.first_byte_at = b"", 0.0
        self.began = time.perf_counter()
        self.socket.sendall(request)

    def read_answer(self) -> tuple[int, bytes] | None:
        """Return status and body, or None if they have not arrived completely."""
        chunk = self.socket.recv(1 << 18)
        if not chunk:
            raise ConnectionError("the server closed a connection")
        self._received += chunk
        head, gap, body = self._received.partition(b"\r\n\r\n")
        if not gap:
            return None
        if body and not self.first_byte_at:
            self.first_byte_at = time.perf_counter()
        status, length = int(head[9:12]), _LENGTH.search(head)
        if length is not None:
            return (status, body) if len(body) >= int(length[1]) else None
        if b"chunked" not in head.lower():
            raise ConnectionError("an answer without Content-Length and chunks")
        return (status, join_chunks(body)) if body.endswith(_LAST_CHUNK) else None


def join_chunks(body: bytes) -> bytes:
    """Return the content of a complete body in chunks."""
    parts, at = [], 0
    while size := int(body[at : (end := body.index(b"\r\n", at))], 16):
        parts.append(body[end + 2 : end + 2 + size])
        at = end + 4 + size
    return b"".join(parts)


def build_requests(load: Load) -> Iterator[bytes]:
    """Return the requests in order: the same queries repeatedly, or up to the bound new ones."""
    bound = round((load.warmup + load.seconds) * MOST_A_SECOND)
    count = bound if load.kind in NEW else load.queries
    requests = [load.request_of(number) for number in range(count)]
    return iter(requests * (bound // count + (load.kind not in NEW)))


def encode_request(method: str, path: str, key: str, body: dict[str, Any] | None = None) -> bytes:
    """Return a request with a bearer key, as HTTP/1.1 has it."""
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def run_load(load: Requests) -> Outcome:
    """Warm up, then measure. Raise ConnectionError if the server disconnects or stays silent."""
    pending = load.build_requests()
    clients = [_Client(load.port) for _ in range(load.clients)]
    with selectors.DefaultSelector() as selector:
        try:
            for client in clients:
                selector.register(client.socket, selectors.EVENT_READ, client)
            return _drive_clients(load, clients, selector, pending)
        finally:
            for client in clients:
                client.socket.close()


def _drive_clients(
    load: Requests, clients: list[_Client], selector: selectors.BaseSelector, pending: Iterator[bytes]
) -> Outcome:
    outcome, statuses = Outcome(), Counter[int]()
    cpu, opened = time.process_time(), time.perf_counter()
    measured, until = opened + load.warmup, opened + load.warmup + load.seconds
    busy = sum(_send_next(client, pending) for client in clients)
    last = measured
    while busy:
        ready = selector.select(SILENCE_S)
        if not ready:
            raise ConnectionError(f"the server was silent for {SILENCE_S} s")
        for entry, _events in ready:
            client: _Client = entry.data
            answer = client.read_answer()
            if answer is None:
                continue
            now = time.perf_counter()
            statuses[answer[0]] += 1
            if not load.is_right(*answer, thoroughly=statuses.total() % SAMPLED == 1):
                outcome.refusal = outcome.refusal or answer[1].decode(errors="replace")
            if measured <= now <= until:
                outcome.latencies_ms.append((now - client.began) * 1000)
                outcome.first_bytes_ms.append((client.first_byte_at - client.began) * 1000)
                last = now
            if now >= until or not _send_next(client, pending):
                busy -= 1
    outcome.cpu_ms = (time.process_time() - cpu) * 1000
    outcome.requests, outcome.statuses = statuses.total(), dict(statuses)
    outcome.seconds = max(0.0, (last if next(pending, None) is None else until) - measured)
    return outcome


def is_right(kind: str, status: int, body: bytes, *, thoroughly: bool) -> bool:
    """Return True if a query was answered with items, a question with a fact, or a write created what it gave.

    A chat must be complete and have what its kind says. `thoroughly` parses the JSON; otherwise only some bytes are
    checked.
    """
    if kind in _CREATED:
        return status == 201 and _CREATED[kind] in body
    if kind in view_workload.KINDS:
        return status == 200 and body.startswith(view_workload.ANSWER)
    if kind in _CHATTED:
        ended = body.endswith(b"data: [DONE]\n\n") or b'"object":"chat.completion",' in body
        return status == 200 and ended and all((mark in body) is there for mark, there in _CHATTED[kind].items())
    if status != 200 or not body.startswith(b'{"answered":true,' if kind == "facts_answer" else b'{"items":[{'):
        return False
    if not thoroughly:
        return True
    try:
        answer = json.loads(body)
        if kind == "facts_answer":
            return all(fact["value"] in answer["text"] for fact in answer["facts"])
        items = answer["items"]
        return 0 < len(items) <= workload.TOP_K and all(item["id"] and item["text"] for item in items)
    except (ValueError, LookupError, TypeError):
        return False


def _send_next(client: _Client, pending: Iterator[bytes]) -> bool:
    request = next(pending, None)
    if request is not None:
        client.send_request(request)
    return request is not None


def main() -> None:
    """Read a Load as JSON from standard input, write its Outcome to standard output."""
    outcome = run_load(Load(**json.load(sys.stdin)))
    json.dump(asdict(outcome), sys.stdout)


if __name__ == "__main__":
    main()
