"""The OpenAPI entries of the chat APIs: Mnema's fields of a request, and what comes back."""

from typing import Annotated, Any

from fastapi import Header, Query

from app.api.errors import openapi_errors
from app.usecases.chat.upstreams import MAX_AUTHORIZATION

_ANY: dict[str, Any] = {"schema": {}}
_JSON_OR_EVENTS: dict[str, Any] = {"application/json": _ANY, "text/event-stream": _ANY}
_UPSTREAM_ERROR = {"description": "An error of the upstream, with its own status and body", "content": {"*/*": _ANY}}
_PASSED = "passed to the upstream"
_MEMORY_FIELDS: dict[str, Any] = {
    "stream": {"type": "boolean"},
    "user": {"type": ["string", "null"], "description": "the remembered user; default: one of the key's own"},
    "memory_id": {"type": ["string", "null"], "description": "the conversation; default `default`"},
    "memory_top_k": {"type": ["integer", "null"], "maximum": 50, "description": "memories put before the message"},
    "memory_recency_weight": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
    "memory_score_threshold": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
}
_MESSAGES = {"type": "array", "items": {"type": "object"}, "description": _PASSED}
_ASKED = "What did we decide about the demo?"
_SAID = [{"role": "user", "content": _ASKED}]


def _body(fields: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    fields = {"model": {"type": "string", "description": _PASSED}} | fields
    schema = {"type": "object", "properties": fields, "examples": [{"model": "gpt-5"} | example]}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _chat_body(fields: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    return _body(fields | _MEMORY_FIELDS, {"user": "maya", "memory_id": "launch"} | example)


COMPLETION_BODY = _chat_body({"messages": _MESSAGES}, {"messages": _SAID})
RESPONSE_BODY = _chat_body({"input": {"type": ["string", "array"], "description": _PASSED}}, {"input": _ASKED})
MESSAGE_BODY = _chat_body(
    {"messages": _MESSAGES, "max_tokens": {"type": "integer", "description": _PASSED}},
    {"messages": _SAID, "max_tokens": 1024},
)
EMBEDDING_BODY = _body({"input": {"description": _PASSED}}, {"input": _ASKED})
PROMPT_BODY = _body({"prompt": {"description": _PASSED}}, {"prompt": _ASKED})
COUNT_BODY = _body({"messages": _MESSAGES}, {"messages": _SAID})
CHAT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The upstream's answer with `memory_hits`, `model_label` and `meta`",
        "content": _JSON_OR_EVENTS,
    },
    "default": _UPSTREAM_ERROR,
    **openapi_errors(400, 401, 403, 409, 413, 422, 502, 503, 504),
}
PASSED_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The upstream's answer", "content": _JSON_OR_EVENTS},
    "default": _UPSTREAM_ERROR,
    **openapi_errors(400, 401, 403, 413, 422, 502, 503, 504),
}
MODELS_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The models of the upstreams", "content": {"application/json": _ANY}},
    "default": _UPSTREAM_ERROR,
    **openapi_errors(401, 403, 422, 502, 503, 504),
}
_ANTHROPICS = f"{_PASSED}; for Anthropic's alone"
Beta = Annotated[str | None, Query(max_length=100, description=_ANTHROPICS)]
PageSize = Annotated[int | None, Query(ge=1, le=1000, description=_ANTHROPICS)]
PagePlace = Annotated[str | None, Query(max_length=500, description=_ANTHROPICS)]
UpstreamKey = Annotated[
    str | None,
    Header(
        alias="X-Upstream-Authorization",
        description="the caller's own key for the upstream, with its scheme",
        min_length=1,
        max_length=MAX_AUTHORIZATION,
        pattern="^[ -~]+$",
    ),
]
