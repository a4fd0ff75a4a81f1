"""mem0's Memory behind HTTP, add-only, on pgvector: it runs with the Python of the other products.

    python -m bench.rivals.mem0_server DATABASE_URL GRAPH TOKENIZER

mem0's package brings no server. This one has the HTTP libraries of Mnema's, and gives each request a thread, because
mem0's calls block. The server prints its port. SIGTERM ends it.
"""

import socket
import sys
from pathlib import Path
from typing import Any, Final

import uvicorn
import uvloop
from mem0 import Memory
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bench.rivals.embedder import SentenceModel, wrap_for_langchain

DIMENSION: Final = 384
CONNECTIONS: Final = 10
"""The size of Mnema's pool; mem0's default of 5 is fewer than the clients."""


def build_memory(database_url: str, graph: Path, tokenizer: Path) -> Memory:
    """Return mem0 with its defaults, but for PostgreSQL, the embedding model and the number of connections."""
    store = {"connection_string": database_url, "embedding_model_dims": DIMENSION, "maxconn": CONNECTIONS}
    model = wrap_for_langchain(SentenceModel(graph, tokenizer))
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "pgvector", "config": store},
            "embedder": {"provider": "langchain", "config": {"model": model}},
            "llm": {"provider": "openai", "config": {"api_key": "unused"}},
        }
    )
    memory.search("the first call makes the table", filters={"user_id": "nobody"})
    return memory


def build_application(memory: Memory) -> Starlette:
    """Return the routes POST /memories and POST /search, as in mem0's own REST server, and GET /ready."""

    async def add_memory(request: Request) -> JSONResponse:
        return JSONResponse(await run_in_threadpool(memory.add, **await request.json(), infer=False))

    async def search_memories(request: Request) -> JSONResponse:
        body: dict[str, Any] = await request.json()
        return JSONResponse(await run_in_threadpool(memory.search, **body))

    async def tell_ready(request: Request) -> JSONResponse:
        return JSONResponse({"ready": True})

    routes = [
        Route("/memories", add_memory, methods=["POST"]),
        Route("/search", search_memories, methods=["POST"]),
        Route("/ready", tell_ready),
    ]
    return Starlette(routes=routes)


class TellingServer(uvicorn.Server):
    """A server that prints its port when it serves."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and print the port."""
        await super().startup(sockets)
        sys.stdout.write(f"{self.servers[0].sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    url, graph_file, tokenizer_file = sys.argv[1:]
    mem0 = build_memory(url, Path(graph_file), Path(tokenizer_file))
    application = build_application(mem0)
    config = uvicorn.Config(application, port=0, access_log=False, log_level="warning", lifespan="off")
    uvloop.run(TellingServer(config).serve())
