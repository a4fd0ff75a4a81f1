"""Routes of /events, /health and /ready."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from mnema_wire.fields import Moment
from mnema_wire.health import Health, Readiness
from mnema_wire.recall import Count, Counts

from app.api.deps import App, Reader
from app.api.errors import key_errors
from app.api.transport.parameters import StrictRoute
from app.config.version import VERSION

router = APIRouter(tags=["operations"], route_class=StrictRoute)
_COLUMN = " *(node|op|status|category|user_id|thread_id|day) *"
COLUMNS = f"^{_COLUMN}(,{_COLUMN})*$"


@router.get("/events/counts", responses=key_errors())
async def counts(
    app: App,
    principal: Reader,
    by: Annotated[str, Query(max_length=100, pattern=COLUMNS, description="columns, comma-separated")] = "op,node",
    since: Annotated[Moment | None, Query()] = None,
    until: Annotated[Moment | None, Query()] = None,
) -> Counts:
    """Count events by the columns in `by`. `day`: the day in UTC."""
    rows = await app.operations.count_events.count_events(principal, [c.strip() for c in by.split(",")], since, until)
    return Counts(counts=[Count(**row) for row in rows])


@router.get("/health")
async def health(app: App) -> Health:
    """Answer 200 if the process is alive. It asks neither the database nor a model."""
    return Health(
        version=VERSION,
        embedder=app.parts.embedder.model,
        reranker=_reranker_name(app.parts.settings.reranker, app.parts.settings.reranker_model),
        chat_model=app.operations.readiness.chat_model,
        summaries=app.parts.policies.defaults.summaries.enable_summarization,
    )


def _reranker_name(kind: str, model: str) -> str:
    """Return the model's name. Return the kind if the model has no name, or if its name is a path of files."""
    return kind if not model or kind == "local" or model.startswith((".", "/", "~")) else model


@router.get("/ready", responses={503: {"model": Readiness, "description": "Not ready"}})
async def ready(app: App, response: Response) -> Readiness:
    """Check whether the server can answer requests: database, migrations, role, embedding space, model.

    `degraded`: it can, but background jobs wait for the broker, a worker or the chat model, or they are paused.
    """
    checks = await app.operations.readiness.run_checks()
    failed = app.operations.readiness.failed_checks(checks)
    if failed - app.operations.readiness.OPTIONAL:
        response.status_code = 503
        return Readiness(status="unavailable", checks=checks)
    return Readiness(status="degraded" if failed else "ready", checks=checks)
