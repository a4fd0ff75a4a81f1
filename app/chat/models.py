"""GET /v1/models: the models of all upstreams of a tenant, as one list."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import structlog
from fastapi import Request, Response

from app.api.transport.direct import JSON
from app.bootstrap import Application
from app.chat.conversing import forwarded_headers, read_whole, write_query
from app.domain.chat.members import dump_compact
from app.domain.chat.upstream import ANTHROPIC, OPENAI, UpstreamDialect
from app.domain.errors import MnemaError
from app.domain.principal import Principal
from app.usecases.chat.upstreams import ModelList, bound_models, read_models
from app.usecases.offload import offload_if_large

log = structlog.get_logger(__name__)
_ALL = 1000
"""Anthropic's API lists 20 models unless it is asked for more, which may be as many as this."""


@dataclass(frozen=True, slots=True)
class ModelPage:
    """The part of Anthropic's models that a request asks for."""

    limit: int | None = None
    after_id: str | None = None
    before_id: str | None = None
    beta: str | None = None

    @property
    def has_place(self) -> bool:
        """True if it begins or ends at a certain model."""
        return bool(self.after_id or self.before_id)

    def write_path(self, dialect: UpstreamDialect) -> str:
        """Return the path at an upstream of a dialect."""
        return "/models" + (write_query(**asdict(self) | {"limit": self.limit or _ALL}) if dialect == ANTHROPIC else "")


async def list_models(
    request: Request, app: Application, principal: Principal, upstream_key: str | None, page: ModelPage
) -> Response:
    """Return the models of the tenant's upstreams.

    The answer of a single upstream passes as it is. Of several, those that fail are left out of the list, unless all
    do. A caller's own key belongs to one upstream: Anthropic's for a client that names `anthropic-version`.
    """
    dialects = await app.chat.upstreams.list_dialects(principal) or [OPENAI]
    if upstream_key is not None and len(dialects) > 1:
        dialects = [ANTHROPIC if "anthropic-version" in request.headers else OPENAI]
    if page.has_place and ANTHROPIC in dialects:
        dialects = [ANTHROPIC]
    if len(dialects) == 1:
        return await _ask_upstream(dialects[0], request, app, principal, upstream_key, page)
    answers: list[Response] = []
    lists: list[ModelList] = []
    failed: MnemaError | None = None
    for dialect in dialects:
        try:
            answer = await _ask_upstream(dialect, request, app, principal, upstream_key, page)
            found = await offload_if_large(len(answer.body), read_models, bytes(answer.body), dialect)
        except MnemaError as error:
            log.warning("models_of_upstream_failed", dialect=dialect, code=error.code)
            failed = error
            continue
        answers.append(answer)
        if found is not None:
            lists.append(found)
    if lists:
        size = sum(len(answer.body) for answer in answers)
        return Response(await offload_if_large(size, _merge_lists, lists), media_type=JSON)
    if answers:
        return answers[0]
    raise failed or MnemaError()


async def _ask_upstream(
    dialect: UpstreamDialect,
    request: Request,
    app: Application,
    principal: Principal,
    upstream_key: str | None,
    page: ModelPage,
) -> Response:
    upstream = await app.chat.upstreams.find_upstream(principal, upstream_key, dialect)
    headers = forwarded_headers(request, dialect)
    reply = await app.chat.client.open_call(upstream, "GET", page.write_path(dialect), headers)
    try:
        return await read_whole(reply, bound_models(reply.stream_body()))
    finally:
        await reply.close()


def _merge_lists(lists: Sequence[ModelList]) -> bytes:
    """Return one list in the shapes of both APIs: each client finds the members that it knows."""
    models = [_complete_model(model) for listed in lists for model in listed.models if isinstance(model, dict)]
    ids = [model.get("id") for model in models]
    merged = {"object": "list", "data": models, "has_more": any(listed.has_more for listed in lists)}
    places = {"first_id": ids[0] if ids else None, "last_id": ids[-1] if ids else None}
    return dump_compact(merged | places)


def _complete_model(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model with the members that one of the APIs lacks."""
    if model.get("type") == "model":
        added = {"object": "model", "created": _timestamp(model.get("created_at")), "owned_by": ANTHROPIC}
        return added | dict(model)
    return {"type": "model", "display_name": model.get("id")} | dict(model)


def _timestamp(moment: object) -> int:
    """Return an ISO moment in Unix seconds, 0 if it is none."""
    try:
        return int(datetime.fromisoformat(str(moment)).timestamp())
    except (ValueError, OverflowError):
        return 0
