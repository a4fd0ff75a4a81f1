"""The HTTP face: `uvicorn --factory app.api.main:create_app`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route

from app.api import errors
from app.api.middleware import RequestEnvelope
from app.api.routes import bulk, jobs, memories, ops, threads, turns, users
from app.bootstrap import Doubles, application
from app.config.logs import configure_logs
from app.config.settings import Settings
from app.mcp import http as mcp

DESCRIPTION = """Memory for AI agents. Agents ask `POST /memory/query`; the server decides what each agent may see.

Authenticate with `Authorization: Bearer <API key>`. Errors are `application/problem+json` with a stable `code`; quote
`request_id` when you report one. Lists are paged: pass `next_cursor` as `cursor`.

The same memory is served to MCP clients at `/mcp` (streamable HTTP)."""


def create_app(settings: Settings | None = None, doubles: Doubles | None = None) -> FastAPI:
    """The ASGI application. Raises ConfigError at start-up for a wrong configuration."""
    settings = settings or Settings()
    configure_logs()
    tools = mcp.Endpoint()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with application(settings, doubles) as built, tools.running(built):
            app.state.application = built
            yield

    app = FastAPI(title="Mnema", version="0.1.0", description=DESCRIPTION, lifespan=lifespan)
    large = {bulk.PATH: settings.max_bulk_bytes}
    app.add_middleware(RequestEnvelope, max_body=settings.max_body_bytes, large=large)
    errors.install(app)
    for routes in (bulk, memories, turns, threads, users, jobs, ops):
        app.include_router(routes.router)
    app.router.routes.append(Route(mcp.PATH, tools, methods=["POST"], include_in_schema=False))
    _document_problem(app)
    return app


def _document_problem(app: FastAPI) -> None:
    """Put the Problem schema, which no response model names, into the OpenAPI document."""
    original = app.openapi

    def openapi() -> dict[str, Any]:
        document = original()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        if "Problem" not in schemas:
            problem = errors.Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(problem.pop("$defs", {}))
            schemas["Problem"] = problem
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document
