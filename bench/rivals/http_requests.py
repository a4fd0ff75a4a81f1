"""Load on Mnema or on mem0's server: the same memories and questions in the requests of each.

echo '{"rival": "mem0", "port": 8000, "kind": "write", …}' | python -m bench.rivals.http_requests
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from bench.http_clients import run_load
from bench.http_load import encode_request
from bench.rivals.corpus import CATEGORIES, make_memory, make_question

AGENT: Final = "planner"
TOKENS: Final = 8192
"""Mnema's budget of an answer, so that it leaves nothing out."""
MOST_A_SECOND: Final = 1500
PATHS: Final = {
    "mnema": {"write": "/memory", "query": "/memory/query"},
    "mem0": {"write": "/memories", "query": "/search"},
}


@dataclass(frozen=True, slots=True)
class RivalLoad:
    """The parameters of a load on a server.

    `first` is the number of the first memory or question. `count` bounds their number, 0 stands for as many as the
    time may need. `ranking` is a profile of Mnema's.
    """

    rival: Literal["mnema", "mem0"]
    port: int
    kind: Literal["write", "query"]
    clients: int
    users: int
    top_k: int
    first: int
    seconds: float
    warmup: float = 0.0
    count: int = 0
    key: str = ""
    ranking: str = "default"

    def build_requests(self) -> Iterator[bytes]:
        """Return the requests, no two of them the same."""
        count = self.count or round((self.warmup + self.seconds) * MOST_A_SECOND)
        path = PATHS[self.rival][self.kind]
        numbers = range(self.first, self.first + count)
        return iter([encode_request("POST", path, self.key, self.body_of(number)) for number in numbers])

    def body_of(self, number: int) -> dict[str, Any]:
        """Return the body of a request."""
        if self.kind == "query":
            return self._question_body(number)
        memory = make_memory(number, self.users)
        told = {"category": memory.category, "importance": memory.importance}
        if self.rival == "mnema":
            return {"user_id": memory.user_id, "text": memory.text, **told}
        messages = [{"role": "user", "content": memory.text}]
        return {"messages": messages, "user_id": memory.user_id, "metadata": told}

    def _question_body(self, number: int) -> dict[str, Any]:
        """Return a question about one user's memories; no answer is cut at a minimum relevance."""
        user, question = make_question(number, self.users)
        if self.rival == "mem0":
            return {"query": question, "filters": {"user_id": user}, "top_k": self.top_k, "threshold": 0.0}
        return {
            "agent": AGENT,
            "query": question,
            "categories": list(CATEGORIES),
            "filters": {"user_id": user},
            "top_k": self.top_k,
            "budget_tokens": TOKENS,
            "min_relevance": 0.0,
            "profile": self.ranking,
        }

    def is_right(self, status: int, body: bytes, *, thoroughly: bool) -> bool:
        """Return True for a stored memory, or for an answer with at most `top_k` memories.

        Mnema must find some. mem0's index may lead to other users' memories only; its recall tells how often.
        """
        if self.kind == "write":
            if self.rival == "mnema":
                return status in (200, 201) and (b'"action":"created"' in body or b'"action":"updated"' in body)
            return status == 200 and b'"event":"ADD"' in body
        if status != 200 or not body.startswith(b'{"items":[{' if self.rival == "mnema" else b'{"results":['):
            return False
        return not thoroughly or len(found_texts(self.rival, json.loads(body))) <= self.top_k


def found_texts(rival: str, answer: dict[str, Any]) -> list[str]:
    """Return the memories of an answer as they were stored, the best first."""
    if rival == "mem0":
        return [item["memory"] for item in answer["results"]]
    return [item["text"].partition("] ")[2].rpartition(" (")[0] for item in answer["items"]]  # without marks and day


def main() -> None:
    """Read a RivalLoad as JSON from standard input, write its outcome to standard output."""
    json.dump(asdict(run_load(RivalLoad(**json.load(sys.stdin)))), sys.stdout)


if __name__ == "__main__":
    main()
