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
from typing import Any

from bench import fact_workload, workload

HOST = "127.0.0.1"
MOST_A_SECOND = 5000
SILENCE_S = 30
PATHS = {"query": "/memory/query", "write": "/memory", "facts_answer": "/facts/answer", "facts_store": "/facts"}
"""The path of each kind of load."""
WRITES = frozenset({"write", "facts_store"})
"""The kinds of which each request must be new."""
SAMPLED = 50
"""One answer in this many is parsed as JSON."""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Load:
    """The parameters of a load.

    `first` is the number of the first note or list to write, so that no two loads write the same one. `queries` is the
    number of different queries or questions, `users` the number of users with facts.
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

    def body_of(self, number: int) -> dict[str, Any]:
        """Return the body of a request. Raise ValueError for an unknown kind."""
        match self.kind:
            case "query":
                return workload.query_body(number, self.ranking)
            case "write":
                return workload.write_body(self.first + number)
            case "facts_answer":
                return fact_workload.question_body(number, self.users)
            case "facts_store":
                return fact_workload.statement_body(self.first + number, self.users)
        raise ValueError(f"kind is one of {', '.join(PATHS)}, not {self.kind!r}")


@dataclass(slots=True)
class Outcome:
    """The result of a load.

    `latencies_ms` are of requests that ended in the measured time, `requests` counts all. `refusal` is the first answer
    that `is_right` rejects.
    """

    latencies_ms: list[float] = field(default_factory=list)
    seconds: float = 0.0
    requests: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    refusal: str = ""
    cpu_ms: float = 0.0


class _Client:
    """One kept-alive connection with at most one open request."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=SILENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.began = 0.0
        self._received = b""

    def send_request(self, request: bytes) -> None:
        self._received = b""
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
        length = _LENGTH.search(head)
        if length is None:
            raise ConnectionError("an answer without Content-Length")
        return (int(head[9:12]), body) if len(body) >= int(length[1]) else None


def build_requests(load: Load) -> Iterator[bytes]:
    """Return the requests in order: the same queries repeatedly, or new notes or lists up to the bound."""
    bound = round((load.warmup + load.seconds) * MOST_A_SECOND)
    count = bound if load.kind in WRITES else load.queries
    requests = [_encode_request(PATHS.get(load.kind, ""), load.key, load.body_of(number)) for number in range(count)]
    return iter(requests * (bound // count + (load.kind not in WRITES)))


def _encode_request(path: str, key: str, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def run_load(load: Load) -> Outcome:
    """Warm up, then measure. Raise ConnectionError if the server disconnects or stays silent."""
    pending = build_requests(load)
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
    load: Load, clients: list[_Client], selector: selectors.BaseSelector, pending: Iterator[bytes]
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
            if not is_right(load.kind, *answer, thoroughly=statuses.total() % SAMPLED == 1):
                outcome.refusal = outcome.refusal or answer[1].decode(errors="replace")
            if measured <= now <= until:
                outcome.latencies_ms.append((now - client.began) * 1000)
                last = now
            if now >= until or not _send_next(client, pending):
                busy -= 1
    outcome.cpu_ms = (time.process_time() - cpu) * 1000
    outcome.requests, outcome.statuses = statuses.total(), dict(statuses)
    outcome.seconds = max(0.0, (last if next(pending, None) is None else until) - measured)
    return outcome


def is_right(kind: str, status: int, body: bytes, *, thoroughly: bool) -> bool:
    """Return True if a query was answered with items, a question with a fact, or a write created what it gave.

    `thoroughly` parses the JSON; otherwise only some bytes are checked.
    """
    if kind in WRITES:
        return status == 201 and (b'"created"' if kind == "write" else b'"S":3,') in body
    if status != 200 or not body.startswith(b'{"items":[{' if kind == "query" else b'{"answered":true,'):
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
