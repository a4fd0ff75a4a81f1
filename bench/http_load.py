"""The kinds of load on a server, and what a right answer to each is.

echo '{"port": 8000, "key": "mnema_…", "kind": "query", "clients": 8}' | python -m bench.http_load
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from bench import chat_workload, fact_workload, view_workload, workload
from bench.http_clients import HOST, run_load

MOST_A_SECOND = 5000
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


@dataclass(frozen=True, slots=True)
class Load:
    """The parameters of a load.

    `first` is the number of the first note, list or message, so that no two loads send the same one. `queries` is the
    number of different queries or questions, from `first_query` on, and `users` the number of users with facts.
    `stream`: chats ask for a stream. `rate` is the number of requests a second of all clients together; with 0, each
    client sends its next request when it has its answer.
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
    rate: float = 0.0

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


_CREATED = {"write": b'"created"', "facts_store": b'"S":3,', "turn": b'{"id":"'}
_HITS, _BY_ENDPOINT = b'"memory_hits":[{', b'"id":"chatcmpl-bench"'
_CHATTED = {
    "chat": {_HITS: True, _BY_ENDPOINT: True},
    "chat_without_memory": {b'"memory_hits"': False, _BY_ENDPOINT: True},
    "chat_from_facts": {b'"usedMemory":true': True, _BY_ENDPOINT: False},
}
"""Bytes that the answer of each kind of chat must have (True) or must not have (False)."""


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


def main() -> None:
    """Read a Load as JSON from standard input, write its Outcome to standard output."""
    load = Load(**json.load(sys.stdin))
    json.dump(asdict(run_load(load, load.rate)), sys.stdout)


if __name__ == "__main__":
    main()
