"""A catalogue of every route, read from the OpenAPI document, with a request that each accepts."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

OPERATORS = frozenset(
    {
        "GET /operator/tenants",
        "POST /operator/tenants",
        "GET /operator/tenants/{tenant_id}",
        "GET /operator/tenants/{tenant_id}/keys",
        "POST /operator/tenants/{tenant_id}/keys",
        "DELETE /operator/tenants/{tenant_id}/keys/{key_id}",
        "GET /operator/usage",
    }
)
"""Routes that need the operator key, and take no key of a tenant: tests/api/tenancy/test_operator.py."""
PUBLIC = frozenset({"GET /health", "GET /ready"})
PUBLIC_PAGES = frozenset({"/openapi.json", "/docs", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "/metrics"})
"""Paths that need no key and have no entry in the document."""

READS = frozenset(
    {
        "GET /memory",
        "GET /changes",
        "GET /memory/batches",
        "GET /memory/batches/{batch_id}",
        "POST /memory/query",
        "POST /search",
        "GET /memory/{memory_id}",
        "GET /memory/{memory_id}/history",
        "GET /memory/{memory_id}/uses",
        "GET /turns/{memory_id}/trace",
        "GET /queries",
        "GET /queries/{query_id}",
        "GET /threads/{thread_id}/delta",
        "GET /threads/{thread_id}/turns",
        "GET /events/counts",
        "GET /users/{user_id}/export",
        "GET /users/{user_id}/context",
        "GET /users/{user_id}/context/patches",
        "GET /checkpoints/{thread_id}",
        "POST /saver/get",
        "POST /saver/list",
        "GET /facts",
        "GET /facts/{fact_id}",
        "GET /facts/{fact_id}/history",
        "GET /facts/{topic_key}/{rank}",
        "POST /facts/answer",
        "POST /facts/get",
        "GET /conversations/{conversation_id}/context",
        "GET /conversations/{conversation_id}/turns/{turn_id}",
        "GET /conversations/{conversation_id}/artifacts",
        "GET /conversations/{conversation_id}/active-set",
        "GET /conversations/{conversation_id}/buckets",
        "GET /users/{user_id}/assistant-signals",
        "GET /sources",
        "GET /sources/{source_id}",
        "GET /sources/{source_id}/jobs",
        "GET /sources/{source_id}/jobs/{index_job_id}",
        "GET /sources/{source_id}/files",
        "GET /sources/{source_id}/tree",
        "GET /sources/{source_id}/files/{file_id}",
        "GET /sources/{source_id}/files/{file_id}/content",
        "GET /users",
        "GET /threads",
        "GET /agents",
        "GET /categories",
        "GET /events",
        "GET /relations",
        "POST /v2/memories/",
        "POST /v3/memories/",
        "POST /v2/memories/search/",
        "POST /v3/memories/search/",
        "GET /v1/memories/{memory_id}/",
        "GET /v1/memories/{memory_id}/history/",
        "GET /v1/entities/",
    }
)
ANY_SCOPE = frozenset({"GET /key", "GET /v1/ping/"})
"""Routes that every valid key may use."""
WRITES = frozenset(
    {
        "POST /memory",
        "POST /memory/bulk",
        "POST /memory/batches",
        "POST /memory/batches/{batch_id}/undo",
        "POST /turns",
        "PATCH /memory/{memory_id}",
        "DELETE /memory/{memory_id}",
        "POST /memory/{memory_id}/restore",
        "POST /memory/{memory_id}/retract",
        "POST /memory/{memory_id}/supersede",
        "POST /memory/correct",
        "POST /memory/forget",
        "POST /memory/{memory_id}/pin",
        "PUT /checkpoints/{thread_id}",
        "DELETE /checkpoints/{thread_id}",
        "POST /saver/put",
        "POST /saver/writes",
        "POST /saver/delete",
        "POST /saver/delete_runs",
        "POST /saver/prune",
        "POST /saver/copy",
        "POST /store/batch",
        "POST /users/{user_id}/context/patches",
        "POST /users/{user_id}/context/patches/{patch_id}/ask",
        "POST /facts",
        "POST /facts/store",
        "PATCH /facts/{fact_id}",
        "DELETE /facts/{fact_id}",
        "POST /index-chat-message",
        "POST /conversations/{conversation_id}/reconcile",
        "POST /conversations/{conversation_id}/summarize",
        "PUT /conversations/{conversation_id}/turns/{turn_id}",
        "DELETE /conversations/{conversation_id}/turns/{turn_id}",
        "PUT /conversations/{conversation_id}/turns/{turn_id}/fingerprint",
        "POST /conversations/{conversation_id}/turns/{turn_id}/feedback",
        "POST /conversations/{conversation_id}/feedback",
        "PUT /conversations/{conversation_id}/active-set",
        "POST /sources",
        "PATCH /sources/{source_id}",
        "POST /sources/{source_id}/sync",
        "POST /sources/{source_id}/files",
        "POST /v1/memories/",
        "POST /v3/memories/add/",
        "PUT /v1/memories/{memory_id}/",
        "DELETE /v1/memories/{memory_id}/",
        "DELETE /v1/memories/",
        "DELETE /v2/entities/{entity_type}/{entity_id}/",
    }
)
CLUSTERED = frozenset({"GET /tenant/place", "POST /tenant/moves", "DELETE /tenant/moves/current"})
"""Routes that answer 404 `no_clusters` in an installation of one database: tests/clusters/test_requested_moves.py."""
MODELLED = frozenset(
    {"POST /conversations/{conversation_id}/reconcile", "POST /conversations/{conversation_id}/summarize"}
)
"""Routes that need a chat model; without one they answer 409."""
FORWARDED = frozenset(
    {
        "POST /v1/chat/completions",
        "POST /v1/responses",
        "POST /v1/messages",
        "POST /v1/messages/count_tokens",
        "POST /v1/embeddings",
        "POST /v1/completions",
        "GET /v1/models",
    }
)
"""Routes that need an upstream; without one they answer 503."""
CHATS = FORWARDED | frozenset(
    {
        "POST /v1/memory/search",
        "POST /v1/memory/add",
        "GET /conversations/{conversation_id}",
        "DELETE /conversations/{conversation_id}",
    }
)
CHAT_READS = frozenset({"POST /v1/memory/search", "GET /conversations/{conversation_id}"})
APPROVALS = frozenset(
    {
        "POST /users/{user_id}/context/patches/{patch_id}/approve",
        "POST /users/{user_id}/context/patches/{patch_id}/reject",
        "POST /users/{user_id}/context/withdraw",
    }
)
ADMINS = frozenset(
    {
        "POST /users/{user_id}/erase",
        "POST /import",
        "GET /usage",
        "GET /tenant/config",
        "PUT /tenant/config",
        "GET /tenant/config/history",
        "GET /tenant/config/diff",
        "GET /tenant/config/{version}",
        "POST /tenant/config/rollback",
        *CLUSTERED,
        "GET /jobs",
        "GET /jobs/counts",
        "GET /jobs/{job_id}",
        "POST /jobs/{job_id}/replay",
        "POST /jobs/pause",
        "POST /jobs/resume",
        "GET /keys",
        "POST /keys",
        "DELETE /keys/{key_id}",
        "POST /webhooks",
        "GET /webhooks",
        "GET /webhooks/{webhook_id}",
        "PATCH /webhooks/{webhook_id}",
        "DELETE /webhooks/{webhook_id}",
        "POST /webhooks/{webhook_id}/secret",
        "POST /webhooks/{webhook_id}/test",
        "POST /webhooks/{webhook_id}/replay",
        "GET /webhooks/{webhook_id}/deliveries",
        "POST /webhooks/{webhook_id}/deliveries/{delivery_id}/replay",
        "DELETE /sources/{source_id}",
        "DELETE /sources/{source_id}/files/{file_id}",
    }
)

ID_PLACES = (
    *("tenant_id", "key_id", "memory_id", "batch_id", "job_id", "patch_id", "fact_id", "source_id", "file_id"),
    *("index_job_id", "query_id", "webhook_id", "delivery_id"),
)
"""The places of paths that take a UUID."""
NAME_PLACES = ("user_id", "thread_id", "conversation_id", "turn_id", "agent", "agent_id", "path", "entity_id")
NUMBER_PLACES = ("version", "from_version", "to_version")
ONE_OF = {"DELETE /v1/memories/": ("user_id",)}
"""Query parameters of which a route needs one, and the one that its sample has."""
NAMED_BY_ID = frozenset({"POST /memory/correct", "POST /memory/forget"})
"""Operations whose body names the memory that another path has in `memory_id`."""
ALTERNATIVES = {"facts": "text"}
"""A field, and the field of the same body that it stands for: a request with both is refused."""


def fill_places(identifier: str, name: str = "t") -> dict[str, str]:
    """Return a value for every place of a path: `identifier` for UUIDs, `name` for names."""
    places = dict.fromkeys(ID_PLACES, identifier) | dict.fromkeys(NAME_PLACES, name) | dict.fromkeys(NUMBER_PLACES, "1")
    return places | {"topic_key": "favorite_colors", "rank": "1", "entity_type": "user"}


@dataclass(frozen=True)
class Operation:
    """One method of one path.

    `queries` has the schema of each query parameter and `needed` the required ones. `body` is the body's schema, None
    without one. `lines`: the body is one JSON document a line. `raw`: the body is a file's content. `retried`: it takes
    an Idempotency-Key.
    """

    method: str
    path: str
    queries: dict[str, dict[str, Any]] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    body: dict[str, Any] | None = None
    lines: bool = False
    raw: bool = False
    retried: bool = False
    schemas: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the operation, such as `GET /memory/{memory_id}`."""
        return f"{self.method} {self.path}"

    def url(self, places: dict[str, str]) -> str:
        """Return the path with its parameters filled in. A new kind of parameter needs a value from the test."""
        return self.path.format(**places)

    def sample(self) -> Any:
        """Return a body that the operation accepts, None without one."""
        return None if self.body is None else sample_of(self.body, self.schemas)

    async def call(
        self, client: httpx.AsyncClient, places: dict[str, str], content: Any = ..., **options: Any
    ) -> httpx.Response:
        """Send the operation's sample, or `content`, with the required parameters from the given places.

        A required choice, such as the view of a conversation, takes its first value if the places have none.
        """
        choices = {name: resolved(self.queries[name], self.schemas).get("enum", [None])[0] for name in self.needed}
        needed = {name: places.get(name) or choices[name] for name in self.needed}
        options["params"] = needed | (options.get("params") or {})
        if content is ...:
            content = self.sample()
            if self.name in NAMED_BY_ID:
                content = content | {"id": places["memory_id"]}
        sent: dict[str, Any] = {"content": json.dumps(content) + "\n"} if self.lines else {"json": content}
        if self.raw:
            sent = {"content": b"The demo moves to Friday."}
        return await client.request(self.method, self.url(places), **sent, **options)

    def variants(self, values: list[str]) -> Iterator[dict[str, Any]]:
        """Yield each query parameter alone with each value worth a test: every choice, both limits, all of `values`."""
        for name, schema in self.queries.items():
            for value in values_of(resolved(schema, self.schemas), values, self.schemas):
                yield {name: value}

    def bodies(self, values: list[str]) -> Iterator[Any]:
        """Yield the sample with each field, also nested ones, set to each value worth a test."""
        if self.body is not None:
            yield from _bodies(resolved(self.body, self.schemas), self.sample(), self.schemas, values)

    def numbered(self, numbers: list[float]) -> Iterator[Any]:
        """Yield the sample with each number, also nested ones, set to each of `numbers`."""
        if self.body is not None:
            yield from _numbered(resolved(self.body, self.schemas), self.sample(), self.schemas, numbers)


async def operations(client: httpx.AsyncClient) -> list[Operation]:
    """Return every operation of the document, with the public ones."""
    document = (await client.get("/openapi.json")).json()
    return [
        Operation(
            method=method.upper(),
            path=path,
            queries={p["name"]: p["schema"] for p in spec.get("parameters", []) if p["in"] == "query"},
            needed=(
                *(p["name"] for p in spec.get("parameters", []) if p["in"] == "query" and p["required"]),
                *ONE_OF.get(f"{method.upper()} {path}", ()),
            ),
            retried=any(p["name"].lower() == "idempotency-key" for p in spec.get("parameters", [])),
            **_body(spec.get("requestBody", {}).get("content", {})),
            schemas=document["components"]["schemas"],
        )
        for path, methods in document["paths"].items()
        for method, spec in methods.items()
    ]


async def guarded(client: httpx.AsyncClient) -> list[Operation]:
    """Return the operations that need a key of a tenant."""
    return [operation for operation in await operations(client) if operation.name not in PUBLIC | OPERATORS]


def _body(content: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a body; each line of a bulk body is a memory to write."""
    if "application/x-ndjson" in content:
        return {"lines": True, "body": {"$ref": "#/components/schemas/NewMemory"}}
    if content.keys() == {"application/octet-stream"}:
        return {"raw": True}
    return {"body": content["application/json"]["schema"] if content else None}


def resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema behind a reference; of a choice, the first one that is not null."""
    while "$ref" in schema or ("anyOf" in schema and "type" not in schema):
        if "$ref" in schema:
            schema = schemas[schema["$ref"].rsplit("/", 1)[-1]]
        else:
            schema = next(choice for choice in schema["anyOf"] if choice.get("type") != "null")
    return schema


def sample_of(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """Return a value that a schema accepts: its example, or a value with only the required fields."""
    schema = resolved(schema, schemas)
    if schema.get("examples"):
        return schema["examples"][0]
    if schema["type"] == "object":
        return {name: sample_of(schema["properties"][name], schemas) for name in schema.get("required", [])}
    return next(iter(values_of(schema, ["sample"], schemas)))


def values_of(schema: dict[str, Any], values: list[str], schemas: dict[str, Any]) -> list[Any]:
    """Return values worth a test for a schema.

    These are every choice, both limits and all of `values`. For a list of objects they are lists of one object, with
    each field in turn.
    """
    kind = schema.get("type", "string")  # a field without a type takes any JSON
    if kind == "boolean":
        return [True, False]
    if kind in ("integer", "number"):
        number = int if kind == "integer" else float
        return [number(schema.get("minimum", 0)), number(schema.get("maximum", 1))]
    if kind == "array":
        items = resolved(schema["items"], schemas)
        if items["type"] == "object":
            return [[inner] for inner in _bodies(items, sample_of(items, schemas), schemas, values)]
        return [[value] for value in values_of(items, values, schemas)]
    return schema.get("enum") or values


def _bodies(schema: dict[str, Any], sample: Any, schemas: dict[str, Any], values: list[str]) -> Iterator[Any]:
    for name, part in schema.get("properties", {}).items():
        part = resolved(part, schemas)
        if part.get("type") != "object":
            variants: Iterator[Any] = iter(values_of(part, values, schemas))
        else:
            variants = _bodies(part, sample.get(name, {}), schemas, values)
        for value in itertools.islice(variants, 500):
            yield replaced(sample, {name: value})


def _numbered(schema: dict[str, Any], sample: Any, schemas: dict[str, Any], numbers: list[float]) -> Iterator[Any]:
    for name, part in schema.get("properties", {}).items():
        part = resolved(part, schemas)
        items = resolved(part["items"], schemas) if part.get("type") == "array" else part
        inner: Iterator[Any] = iter(numbers if items.get("type") in ("integer", "number", None) else ())
        if items.get("type") == "object":
            held = sample.get(name) or sample_of(part, schemas)
            inner = _numbered(items, held[0] if isinstance(held, list) and held else held or {}, schemas, numbers)
        for value in inner:
            yield replaced(sample, {name: [value] if part is not items else value})


def replaced(sample: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the sample with other values, without the fields that they stand for."""
    gone = {ALTERNATIVES[name] for name in values if name in ALTERNATIVES} - values.keys()
    return {name: value for name, value in sample.items() if name not in gone} | values
