"""Loopback servers that answer like Zep Cloud v4, Honcho v3 and Graphiti's server, with pages of two records.

The records are made up. Fields, routes and paging are those of zep-cloud 4.0, honcho-ai 2.7 and of the server in
Graphiti's repository.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Json = dict[str, Any]
KEY = "secret-key-of-the-product"
SIZE = 2


class Product:
    """A server: its records, the requests it got, and paths that fail with a status, each a number of times."""

    scheme = "Bearer"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failing: dict[str, list[int]] = {}

    def check(self, request: Request) -> Response | None:
        """Record a request. Return the refusal of one without the key, or a planned failure."""
        self.asked.append(f"{request.method} {request.url.path}")
        if request.headers.get("Authorization") != f"{self.scheme} {KEY}":
            return JSONResponse({"message": "unauthorized"}, 401)
        if planned := self.failing.get(request.url.path):
            return JSONResponse({"message": "planned"}, planned.pop(0))
        return None


class Zep(Product):
    """Zep Cloud: lists with an opaque cursor."""

    scheme = "Api-Key"

    def __init__(self) -> None:
        super().__init__()
        ana = {"uuid": "u-1", "user_id": "ana", "graph_uuid": "g-1", "created_at": "2025-01-01T00:00:00Z"}
        self.lists: dict[str, Sequence[Any]] = {
            "/users/list": [
                ana,
                {"uuid": "u-2", "user_id": None, "created_at": "2025-01-02T00:00:00Z"},
                {"email": "x"},
            ],
            "/threads?u-1": [
                {"uuid": "t-1", "thread_id": "trip", "user_uuid": "u-1"},
                {"uuid": "t-2", "user_uuid": "u-1"},
                {"uuid": "t-3", "thread_id": "lost", "user_uuid": "u-1"},
            ],
            "/threads?u-2": [],
            "/threads/t-1/messages": [
                zep_message("m-1", "user", "I would like a window seat.", name="Ana", metadata={"channel": "phone"}),
                zep_message("m-2", "assistant", "Noted."),
                zep_message("m-3", "tool", '{"seats": 4}'),
                zep_message("m-4", "user", "Thanks.", created_at=None),
                zep_message("m-5", "user", " "),
                "nonsense",
            ],
            "/threads/t-2/messages": [zep_message("m-6", "user", "And a quiet coach.")],
            "/graphs/u-1/edges/list": [
                zep_edge("e-1", "Ana prefers window seats.", name="PREFERENCES"),
                zep_edge("e-2", "Ana lives in Porto.", name="LIVES_IN", invalid_at="2025-04-01T00:00:00Z"),
                zep_edge("e-3", "Ana lives in Braga.", expired_at="2025-02-01T00:00:00Z"),
                zep_edge("e-4", "Ana has " + "very " * 80 + "long hair."),
            ],
            "/graphs/u-2/edges/list": [],
        }

    def routes(self) -> list[Route]:
        """Return the routes."""
        paths = ("/threads", "/threads/{thread}/messages")
        return [Route(path, self.answer) for path in paths] + [
            Route(path, self.answer, methods=["POST"]) for path in ("/users/list", "/graphs/{graph}/edges/list")
        ]

    async def answer(self, request: Request) -> Response:
        """Return a page of a list, or 404."""
        if refused := self.check(request):
            return refused
        user = request.query_params.get("user_uuid")
        items = self.lists.get(request.url.path + (f"?{user}" if user else ""))
        if items is None:
            return JSONResponse({"message": "not found"}, 404)
        start = int(request.query_params.get("cursor", 0))
        more = start + SIZE < len(items)
        page = {"items": items[start : start + SIZE] or None, "total_size": len(items)}
        return JSONResponse(page | ({"next_cursor": str(start + SIZE)} if more else {}))


def zep_message(uuid: str, role: str, content: str, **fields: Any) -> Json:
    """Return a message of a thread. Zep is written in Go and answers with nanoseconds."""
    at = {"created_at": "2025-03-02T09:15:00.123456789Z", "reference_time": f"2025-03-01T0{uuid[-1]}:00:00Z"}
    return {"uuid": uuid, "role": role, "content": content, "processed": True} | at | fields


def zep_edge(uuid: str, fact: str, **fields: Any) -> Json:
    """Return a fact of a graph."""
    nodes = {
        "source_node_name": "Ana",
        "target_node_name": "seat",
        "source_node_uuid": "n-1",
        "target_node_uuid": "n-2",
    }
    times = {"created_at": "2025-03-05T00:00:00Z", "valid_at": "2025-03-01T00:00:00Z"}
    return {"uuid": uuid, "fact": fact, "name": "RELATES_TO", "scope": "entity"} | nodes | times | fields


class Honcho(Product):
    """Honcho: lists with numbered pages."""

    def __init__(self) -> None:
        super().__init__()
        base = "/v3/workspaces/desk"
        self.lists: dict[str, Sequence[Any]] = {
            f"{base}/peers/list": [
                honcho_peer("ana"),
                honcho_peer("bot", observe_me=False),
                honcho_peer("ben"),
                honcho_peer("helper"),
            ],
            f"{base}/sessions/list": [
                {"id": "trip", "is_active": True, "workspace_id": "desk", "created_at": "2025-03-01T00:00:00Z"},
                {"id": "both", "is_active": True, "workspace_id": "desk", "created_at": "2025-03-02T00:00:00Z"},
                {"id": "gone", "is_active": False, "workspace_id": "desk", "created_at": "2025-03-03T00:00:00Z"},
            ],
            f"{base}/sessions/trip/peers": [honcho_peer("bot", observe_me=False), honcho_peer("ana")],
            f"{base}/sessions/both/peers": [honcho_peer("ana"), honcho_peer("helper"), honcho_peer("ben")],
            f"{base}/sessions/trip/messages/list": [
                honcho_message("m1", "trip", "bot", "How can I help?"),
                honcho_message("m2", "trip", "ana", "A window seat, please.", metadata={"channel": "phone"}),
                honcho_message("m3", "trip", "bot", "Done."),
            ],
            f"{base}/sessions/both/messages/list": [
                honcho_message("m4", "both", "ben", "Ben here."),
                honcho_message("m5", "both", "helper", "Hello Ben."),
                honcho_message("m6", "both", "ana", ""),
            ],
            f"{base}/conclusions/list": [
                honcho_conclusion("c1", "ana", "Ana prefers window seats.", session_id="trip"),
                honcho_conclusion("c2", "bot", "The bot is polite."),
                honcho_conclusion("c3", "ben", "Ben both likes and hates tea.", level="contradiction"),
                honcho_conclusion("c0", [], "Nobody swims."),
                honcho_conclusion("c4", "ben", "Ben travels with Ana.", level="deductive"),
            ],
        }

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/v3/workspaces/{workspace}/sessions/{session}/peers", self.answer),
            Route("/v3/workspaces/{workspace}/sessions/{session}/messages/list", self.answer, methods=["POST"]),
            Route("/v3/workspaces/{workspace}/{kind}/list", self.answer, methods=["POST"]),
        ]

    async def answer(self, request: Request) -> Response:
        """Return a page of a list, or 404."""
        if refused := self.check(request):
            return refused
        items = self.lists.get(request.url.path)
        if items is None:
            return JSONResponse({"detail": "not found"}, 404)
        number, size = int(request.query_params.get("page", 1)), SIZE if request.method == "POST" else 50
        pages = -(-len(items) // size)
        rows = items[(number - 1) * size : number * size]
        return JSONResponse({"items": rows, "page": number, "size": size, "total": len(items), "pages": pages})


def honcho_peer(name: str, **configuration: bool) -> Json:
    """Return a peer."""
    fixed = {"workspace_id": "desk", "created_at": "2025-01-01T00:00:00Z", "metadata": {}}
    return {"id": name, "configuration": configuration} | fixed


def honcho_message(number: str, session: str, peer: str, content: str, **fields: Any) -> Json:
    """Return a message of a session."""
    fixed = {"workspace_id": "desk", "token_count": 4, "metadata": {}, "created_at": f"2025-03-01T0{number[-1]}:00:00Z"}
    return {"id": number, "session_id": session, "peer_id": peer, "content": content} | fixed | fields


def honcho_conclusion(number: str, about: Any, content: str, **fields: Any) -> Json:
    """Return a conclusion."""
    fixed = {"observer_id": "bot", "session_id": None, "level": "explicit", "source_ids": None, "times_derived": 1}
    return (
        {"id": number, "content": content, "observed_id": about, "created_at": "2025-03-04T00:00:00Z"} | fixed | fields
    )


class Graphiti(Product):
    """Graphiti's server: the newest episodes of a group, and single facts."""

    def __init__(self) -> None:
        super().__init__()
        self.episodes: Mapping[str, Sequence[Any]] = {
            "ana": [
                graphiti_episode("p-2", "bot(assistant): Noted.", entity_edges=["e-1"]),
                graphiti_episode("p-1", "Ana(user): I would like\na window seat.", entity_edges=["e-1", "e-2", "e-9"]),
                graphiti_episode("p-3", "Minutes of a meeting.", source="text"),
                graphiti_episode("p-4", "no role here"),
            ]
        }
        self.facts = {
            "e-1": zep_edge("e-1", "Ana prefers window seats.", name="PREFERENCES"),
            "e-2": zep_edge("e-2", "Ana lived in Braga.", expired_at="2025-02-01T00:00:00Z"),
        }

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [Route("/episodes/{group}", self.list_episodes), Route("/entity-edge/{uuid}", self.get_fact)]

    async def list_episodes(self, request: Request) -> Response:
        """Return the newest episodes."""
        last = int(request.query_params["last_n"])
        return self.check(request) or JSONResponse(self.episodes.get(request.path_params["group"], [])[:last])

    async def get_fact(self, request: Request) -> Response:
        """Return a fact, or 404."""
        fact = self.facts.get(request.path_params["uuid"])
        return self.check(request) or (JSONResponse(fact) if fact else JSONResponse({"detail": "no such edge"}, 404))


def graphiti_episode(uuid: str, content: str, **fields: Any) -> Json:
    """Return an episode, as the server writes a message."""
    at = {"created_at": "2025-03-09T00:00:00Z", "valid_at": f"2025-03-01T0{uuid[-1]}:00:00Z"}
    fixed = {
        "name": f"message {uuid}",
        "group_id": "ana",
        "labels": [],
        "source": "message",
        "source_description": "chat",
    }
    return {"uuid": uuid, "content": content, "entity_edges": []} | at | fixed | fields
