"""Clients of a server on this machine: one process, one thread, raw HTTP/1.1 over kept-alive loopback connections.

A request costs a few tens of microseconds of CPU, so that on few cores the clients do not distort the result. Time and
number of requests are bounded.
"""

import re
import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

HOST = "127.0.0.1"
SILENCE_S = 30
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


class _Client:
    """One kept-alive connection with at most one open request."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=SILENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.began = 0.0
        self.first_byte_at = 0.0
        self._received = b""

    def send_request(self, request: bytes) -> None:
        self._received = b""
        self.first_byte_at = 0.0
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
        status = int(head[9:12])
        length = _LENGTH.search(head)
        if length is not None:
            return (status, body) if len(body) >= int(length[1]) else None
        if b"chunked" not in head.lower():
            raise ConnectionError("an answer without Content-Length and chunks")
        return (status, join_chunks(body)) if body.endswith(_LAST_CHUNK) else None


def join_chunks(body: bytes) -> bytes:
    """Return the content of a complete body in chunks."""
    parts = []
    at = 0
    while size := int(body[at : (end := body.index(b"\r\n", at))], 16):
        parts.append(body[end + 2 : end + 2 + size])
        at = end + 4 + size
    return b"".join(parts)


class _Driver:
    """The clients of one load, and what they have measured so far.

    A client sends its next request when it has its answer, or, with a rate, when the next request of all is due.
    """

    def __init__(self, load: Requests, clients: list[_Client], rate: float) -> None:
        self.outcome = Outcome()
        self.statuses = Counter[int]()
        self._load = load
        self._clients = clients
        self._gap = 1 / rate if rate else 0.0
        self._pending = load.build_requests()
        self._idle = deque(clients)
        opened = time.perf_counter()
        self._due = opened
        self._measured = opened + load.warmup
        self._until = self._measured + load.seconds
        self._last = self._measured
        self._exhausted = False

    def drive(self, selector: selectors.BaseSelector) -> Outcome:
        """Send until the time is over or no request is left, and read every answer."""
        cpu = time.process_time()
        while True:
            pause = self._send_due()
            if not self._is_open() and len(self._idle) == len(self._clients):
                break
            ready = selector.select(SILENCE_S if pause is None else pause)
            if not ready and pause is None:
                raise ConnectionError(f"the server was silent for {SILENCE_S} s")
            for entry, _events in ready:
                self._read_answer(entry.data)
        self.outcome.cpu_ms = (time.process_time() - cpu) * 1000
        self.outcome.requests = self.statuses.total()
        self.outcome.statuses = dict(self.statuses)
        self.outcome.seconds = max(0.0, (self._last if self._exhausted else self._until) - self._measured)
        return self.outcome

    def _is_open(self) -> bool:
        return not self._exhausted and time.perf_counter() < self._until

    def _send_due(self) -> float | None:
        """Let idle clients send what is due; return the seconds until the next one is, None if no client waits."""
        while self._idle and self._is_open():
            pause = self._due - time.perf_counter() if self._gap else 0.0
            if pause > 0:
                return pause
            request = next(self._pending, None)
            if request is None:
                self._exhausted = True
                return None
            self._idle.popleft().send_request(request)
            self._due += self._gap
        return None

    def _read_answer(self, client: _Client) -> None:
        answer = client.read_answer()
        if answer is None:
            return
        now = time.perf_counter()
        outcome = self.outcome
        self.statuses[answer[0]] += 1
        if not self._load.is_right(*answer, thoroughly=self.statuses.total() % SAMPLED == 1):
            outcome.refusal = outcome.refusal or answer[1].decode(errors="replace")
        if self._measured <= now <= self._until:
            outcome.latencies_ms.append((now - client.began) * 1000)
            outcome.first_bytes_ms.append((client.first_byte_at - client.began) * 1000)
            self._last = now
        self._idle.append(client)


def run_load(load: Requests, rate: float = 0.0) -> Outcome:
    """Warm up, then measure. `rate`: requests a second of all clients, 0: as many as are answered.

    Raise ConnectionError if the server disconnects or stays silent.
    """
    clients = [_Client(load.port) for _ in range(load.clients)]
    with selectors.DefaultSelector() as selector:
        try:
            for client in clients:
                selector.register(client.socket, selectors.EVENT_READ, client)
            return _Driver(load, clients, rate).drive(selector)
        finally:
            for client in clients:
                client.socket.close()
