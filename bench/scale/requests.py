"""Requests to the server of a loaded site, one client after another kind of request.

echo '{"port": 8000, "key": "mnema_…", "kind": "write", "user": "other-"}' | python -m bench.scale.requests
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from bench import workload
from bench.http_load import MOST_A_SECOND, encode_request

TOP_K: Final = 5
WRITERS: Final = 20
"""Notes are written to so many users in turn."""


MAYBE_EMPTY: Final = frozenset(
    {
        *("query", "list by a word", "list of an unknown agent", "list of pinned ones", "list of an unknown tag"),
        "list of deleted ones",
    }
)
"""Kinds whose right answer may have no item: a made-up vector has no meaning, so its memories may lack relevance.

No loaded memory is pinned or deleted.
"""


@dataclass(frozen=True, slots=True)
class Load:
    """A load of one kind. `user` names whose memories it is about; `first` is the number of the first note or query."""

    port: int
    key: str
    kind: str
    user: str = ""
    clients: int = 1
    seconds: float = 5.0
    warmup: float = 1.0
    first: int = 0

    def build_requests(self) -> Iterator[bytes]:
        """Return the requests in order, none twice."""
        make = KINDS[self.kind]
        bound = round((self.warmup + self.seconds) * MOST_A_SECOND)
        return (encode_request(*make(self, self.first + number)) for number in range(bound))

    def is_right(self, status: int, body: bytes, *, thoroughly: bool) -> bool:
        """Return True for an answer with what was asked for. `thoroughly`: parse it."""
        if thoroughly:
            json.loads(body)
        if self.kind == "write":
            return status == 201 and b'"created"' in body
        return status == 200 and body.startswith(b'{"items":[' if self.kind in MAYBE_EMPTY else b'{"items":[{')


def _ask(load: Load, number: int) -> tuple[str, str, str, dict[str, Any]]:
    body = workload.query_body(number) | {"top_k": TOP_K, "filters": {"user_id": load.user} if load.user else {}}
    return "POST", "/memory/query", load.key, body


def _write(load: Load, number: int) -> tuple[str, str, str, dict[str, Any]]:
    body = workload.write_body(number) | {"user_id": f"other-{number % WRITERS}", "thread_id": f"new/{number % 100}"}
    return "POST", "/memory", load.key, body


def _words(load: Load, number: int) -> tuple[str, str, str]:
    words = str(workload.query_body(number)["query"]).split()[1]
    return "GET", f"/memory?limit=20&q={words}", load.key


LISTS: Final[dict[str, str]] = {
    "list": "/memory?limit=50",
    "list by importance": "/memory?limit=50&sort=importance",
    "list of an unknown agent": "/memory?limit=50&agent_id=nobody",
    "list of pinned ones": "/memory?limit=50&pinned=true",
    "list of a rare tag": "/memory?limit=50&tag=rare",
    "list of a scarce tag": "/memory?limit=50&tag=scarce",
    "list of an unknown tag": "/memory?limit=50&tag=nosuch",
    "list of rare metadata": "/memory?limit=50&metadata=kind:rare",
    "list of a range of numbers": f"/memory?limit=50&where={quote(json.dumps({'metadata.score': {'gt': 0.5}}))}",
    "list of a rare language": "/memory?limit=50&language=eo",
    "list of a rare role": "/memory?limit=50&role=tool",
    "list of a rare type": "/memory?limit=50&type=insight",
    "list of a rare type by importance": "/memory?limit=50&type=insight&sort=importance",
    "list of expiring ones": "/memory?limit=50&expires_after=2030-01-01",
    "list of deleted ones": "/memory?limit=50&state=soft_deleted",
    "count by category": "/categories",
    "users": "/users?limit=50&prefix=other-",
    "threads": "/threads?limit=50&prefix=other-",
}
"""Reads of a whole tenant, by their names. The pages of users and threads are of users of 200 memories."""


def _read(path: str) -> Callable[[Load, int], tuple[str, str, str]]:
    def build(load: Load, number: int) -> tuple[str, str, str]:
        return "GET", path + (f"&user_id={load.user}" if load.user else ""), load.key

    return build


KINDS: Final[dict[str, Callable[[Load, int], Any]]] = {
    **{"query": _ask, "write": _write, "list by a word": _words},
    **{name: _read(path) for name, path in LISTS.items()},
}
