"""The HTTP API as an ASGI application; `mnema serve` serves it."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from app.api import docs, errors, openapi
from app.api.mem0 import routes as mem0
from app.api.routes.agent_state import checkpoints, saver, store
from app.api.routes.chat import conversations
from app.api.routes.consent import context as consent
from app.api.routes.facts import facts, projects
from app.api.routes.jobs import jobs
from app.api.routes.memory import batches, bulk, change_feed, corrections, memories, turns
from app.api.routes.operations import health as ops
from app.api.routes.operations import metrics, overview
from app.api.routes.recall import search, threads
from app.api.routes.receipts import queries, usage
from app.api.routes.retention import imports, users
from app.api.routes.sources import files, sources
from app.api.routes.tenancy import config as tenant_config
from app.api.routes.tenancy import keys, operator, place
from app.api.routes.turn_memory import context, extraction, feedback
from app.api.routes.turn_memory import turns as turn_memory
from app.api.routes.webhooks import webhooks
from app.api.transport.admission import Admission, PathLimits, SpecialPaths, UploadPaths
from app.api.transport.complexity import MAX_STATE_VALUES, MAX_VALUES
from app.api.transport.intake import IntakeLimits
from app.api.transport.middleware import RequestEnvelope
from app.api.transport.plain_routes import PlainRoutes
from app.api.transport.spooling import IN_MEMORY
from app.api.transport.startup import PlainStartupErrors, freeze_startup_objects, load_settings
from app.bootstrap import Doubles, build_application
from app.chat import completions
from app.config.logs import configure_logs
from app.config.server_worker import ServerWorker
from app.config.settings import Settings
from app.config.version import VERSION
from app.mcp import FIXED_HEADERS
from app.mcp import http as mcp

DESCRIPTION = """Memory for AI agents. Agents send questions to `POST /memory/query`; the server decides what each agent
may see.

Authenticate with `Authorization: Bearer <API key>`. Errors are `application/problem+json` with a stable `code`; quote
`request_id` when you report one. Lists are paged: pass `next_cursor` as `cursor`.

MCP clients reach the same memory at `/mcp` (streamable HTTP)."""
STAINLESS = (
    "Arch",
    "Async",
    "Helper-Method",
    "Lang",
    "OS",
    "Package-Version",
    "Retry-Count",
    "Runtime",
    "Runtime-Version",
    "Timeout",
)
"""The ends of the names of the headers that OpenAI's and Anthropic's clients send, also from a page."""
CORS: dict[str, Any] = {
    "allow_methods": ("DELETE", "GET", "PATCH", "POST", "PUT"),
    "allow_headers": (
        "Authorization",
        "Content-Type",
        "Idempotency-Key",
        "If-Match",
        "Last-Event-ID",
        "MCP-Protocol-Version",
        "Mcp-Method",
        "Mcp-Name",
        "X-Request-ID",
        "X-Api-Key",
        "X-Upstream-Authorization",
        *FIXED_HEADERS.values(),
        *(f"OpenAI-{name}" for name in ("Beta", "Organization", "Project")),
        *(f"Anthropic-{name}" for name in ("Beta", "Dangerous-Direct-Browser-Access", "Version")),
        *(f"X-Stainless-{name}" for name in STAINLESS),
    ),
    "expose_headers": ("ETag", "Retry-After", "X-Request-ID"),
}
"""CORS without credentials: a page sends its API key in a header and never in a cookie, so the origin `*` is safe."""

SERVED = (
    bulk,
    batches,
    memories,
    change_feed,
    corrections,
    search,
    turns,
    facts,
    projects,
    threads,
    completions,
    turn_memory,
    context,
    feedback,
    extraction,
    conversations,
    sources,
    files,
    consent,
    users,
    imports,
    store,
    checkpoints,
    saver,
    jobs,
    operator,
    keys,
    tenant_config,
    place,
    ops,
    overview,
    queries,
    usage,
    webhooks,
    mem0,
)
CHAT_PATHS = completions.PATHS
ROUTERS = tuple(routes.router for routes in SERVED)
STATES = (*checkpoints.body_limits(0), *saver.body_limits(0))
UNREAD = dict.fromkeys(completions.PASSED, sys.maxsize)  # bodies that are only passed on, such as lists of tokens
VALUES = PathLimits(MAX_VALUES, dict.fromkeys(STATES, MAX_STATE_VALUES) | UNREAD)
PATHS = SpecialPaths(
    open=frozenset({"/health", "/ready", "/openapi.json", metrics.PATH, *docs.PATHS}),
    own=frozenset({mcp.PATH}),
    streamed={bulk.PATH: IN_MEMORY, imports.PATH: IN_MEMORY},
    uploads=UploadPaths(files.UPLOADS, files.MOST_BYTES, IN_MEMORY),
    lasting=frozenset(CHAT_PATHS),
)


def create_app(
    settings: Settings | None = None, doubles: Doubles | None = None, worker: ServerWorker | None = None
) -> FastAPI:
    """Return the ASGI application, of one `worker` if several serve the address. Settings default to the environment.

    A wrong configuration ends the process with one line on stderr, either here or when the application starts.
    """
    settings = settings or load_settings()
    configure_logs()
    tools = mcp.McpEndpoint()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with build_application(settings, doubles, worker) as built, tools.open_endpoint(built):
            app.state.application = built
            with freeze_startup_objects():
                yield

    app = FastAPI(
        title="Mnema",
        version=VERSION,
        description=DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,  # a redirect would repeat the request's Host header, which any caller may forge
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json" if settings.docs else None,
        generate_unique_id_function=openapi.operation_id,
    )
    _add_middleware(app, settings)
    errors.install_error_handlers(app, _chat_routes())
    for router in ROUTERS:
        app.include_router(router)
    app.router.routes.append(Route(mcp.PATH, tools, methods=["POST"], include_in_schema=False))
    app.router.routes.append(Route(metrics.PATH, metrics.serve_metrics, include_in_schema=False))
    if settings.docs:
        docs.install_docs(app)
    openapi.refine_openapi(app)
    return app


def _chat_routes() -> list[str]:
    """Return the routes under /v1 that clients of chat APIs may call."""
    routes = [route for served in (completions, conversations) for route in served.router.routes]
    return [
        f"{method} {route.path}"
        for route in routes
        if isinstance(route, APIRoute) and route.path.startswith("/v1/")
        for method in sorted(route.methods or ())
    ]


def _add_middleware(app: FastAPI, settings: Settings) -> None:
    limits = _body_limits(settings)
    intake = _intake_limits(settings)
    app.add_middleware(PlainRoutes, routers=ROUTERS, handlers=app.exception_handlers)
    app.add_middleware(Admission, limits=limits, values=VALUES, intake=intake, paths=PATHS)
    app.add_middleware(RequestEnvelope, routers=ROUTERS)
    app.add_middleware(PlainStartupErrors)
    if settings.cors_origins:  # the outermost middleware, so that a page can read errors too
        app.add_middleware(CORSMiddleware, allow_origins=settings.cors_origins, **CORS)


def _body_limits(settings: Settings) -> PathLimits:
    largest = settings.max_checkpoint_bytes
    roomy = {
        bulk.PATH: settings.max_bulk_bytes,
        imports.PATH: settings.max_bulk_bytes,
        **dict.fromkeys(CHAT_PATHS, settings.max_chat_bytes),
        **checkpoints.body_limits(largest),
        **saver.body_limits(largest),
    }
    return PathLimits(settings.max_body_bytes, roomy)


def _intake_limits(settings: Settings) -> IntakeLimits:
    return IntakeLimits(
        settings.body_patience_s, settings.body_least_rate, settings.max_bodies_bytes, settings.max_uploads
    )
