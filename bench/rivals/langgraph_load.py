"""Load on LangGraph's PostgresStore in this process, without HTTP: it runs with the Python of the other products.

    echo '{"url": "postgresql://…", "graph": "…", "tokenizer": "…", "kind": "write", …}' |
        python -m bench.rivals.langgraph_load

The clients are threads that share one store, as the threads of an application do. The store lets one of its calls run
at a time, with the embedding inside.
"""

import itertools
import json
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from langgraph.store.base import BaseStore
from langgraph.store.postgres import PostgresStore
from langgraph.store.postgres.base import PoolConfig, PostgresIndexConfig

from bench.rivals.corpus import make_memory, make_question
from bench.rivals.embedder import SentenceModel, wrap_for_langchain

DIMENSION: Final = 384
CONNECTIONS: Final = 10
NAMESPACE: Final = "memories"


@dataclass(frozen=True, slots=True)
class StoreLoad:
    """The parameters of a load. `kind` is load, write, query or find.

    `load` writes `count` memories and `find` answers `count` questions, both from `first` on and outside any
    measurement; `write` and `query` do so for `warmup` and `seconds`.
    """

    url: str
    graph: str
    tokenizer: str
    kind: str
    clients: int
    users: int
    top_k: int
    first: int
    count: int = 0
    seconds: float = 0.0
    warmup: float = 0.0


@dataclass(slots=True)
class StoreOutcome:
    """The result of a load: milliseconds of the measured calls, or the texts found for each question."""

    latencies_ms: list[float] = field(default_factory=list)
    seconds: float = 0.0
    requests: int = 0
    cpu_ms: float = 0.0
    found: list[list[str]] = field(default_factory=list)


class StoreClients:
    """The clients of one store."""

    def __init__(self, store: BaseStore, load: StoreLoad) -> None:
        self._store = store
        self._load = load

    def write_memory(self, number: int) -> None:
        """Put a memory under a new key."""
        memory = make_memory(number, self._load.users)
        value = {"text": memory.text, "category": memory.category, "importance": memory.importance}
        self._store.put((NAMESPACE, memory.user_id), str(uuid.uuid4()), value)

    def ask_question(self, number: int) -> list[str]:
        """Return the texts that the store finds for a question; none if its index leads to other users' only."""
        user, question = make_question(number, self._load.users)
        items = self._store.search((NAMESPACE, user), query=question, limit=self._load.top_k)
        return [item.value["text"] for item in items]

    def measure_calls(self) -> StoreOutcome:
        """Let every client call for the given time, each again when its call has ended."""
        outcome = StoreOutcome()
        numbers = itertools.count(self._load.first)
        lock = threading.Lock()
        call = self.write_memory if self._load.kind == "write" else self.ask_question
        cpu = time.process_time()
        opened = time.perf_counter()
        measured, until = opened + self._load.warmup, opened + self._load.warmup + self._load.seconds

        def run_client(_client: int) -> None:
            while True:
                with lock:
                    number = next(numbers)
                began = time.perf_counter()
                call(number)
                now = time.perf_counter()
                with lock:
                    outcome.requests += 1
                    if measured <= now <= until:
                        outcome.latencies_ms.append((now - began) * 1000)
                if now >= until:
                    return

        with ThreadPoolExecutor(self._load.clients) as pool:
            list(pool.map(run_client, range(self._load.clients)))
        outcome.cpu_ms = (time.process_time() - cpu) * 1000
        outcome.seconds = self._load.seconds
        return outcome

    def run_through(self) -> StoreOutcome:
        """Make each of the calls once."""
        numbers: Iterator[int] = iter(range(self._load.first, self._load.first + self._load.count))
        with ThreadPoolExecutor(self._load.clients) as pool:
            if self._load.kind == "load":
                written = list(pool.map(self.write_memory, numbers))
                return StoreOutcome(requests=len(written))
            return StoreOutcome(requests=self._load.count, found=list(pool.map(self.ask_question, numbers)))


def run_load(load: StoreLoad) -> StoreOutcome:
    """Open the store, with its defaults and the same embedding model, and run the load."""
    embeddings = wrap_for_langchain(SentenceModel(Path(load.graph), Path(load.tokenizer)))
    index: PostgresIndexConfig = {"dims": DIMENSION, "embed": embeddings, "fields": ["text"]}
    pool: PoolConfig = {"min_size": 1, "max_size": CONNECTIONS}
    with PostgresStore.from_conn_string(load.url, pool_config=pool, index=index) as store:
        store.setup()
        clients = StoreClients(store, load)
        return clients.measure_calls() if load.kind in ("write", "query") else clients.run_through()


def main() -> None:
    """Read a StoreLoad as JSON from standard input, write its outcome to standard output."""
    given: dict[str, Any] = json.load(sys.stdin)
    json.dump(asdict(run_load(StoreLoad(**given))), sys.stdout)


if __name__ == "__main__":
    main()
