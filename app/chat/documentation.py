"""The parts of the OpenAPI document that FastAPI cannot derive: bodies that pass through."""

from typing import Any

_FIELDS: dict[str, Any] = {
    "model": {"type": "string", "description": "passed to the upstream"},
    "messages": {"type": "array", "items": {"type": "object"}, "description": "passed to the upstream"},
    "stream": {"type": "boolean"},
    "user": {"type": ["string", "null"], "description": "the remembered user; default: one of the key's own"},
    "memory_id": {"type": ["string", "null"], "description": "the conversation; default `default`"},
    "memory_top_k": {"type": ["integer", "null"], "maximum": 50, "description": "memories put before the message"},
    "memory_recency_weight": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
    "memory_score_threshold": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
}
_EXAMPLE = {
    "model": "gpt-5",
    "user": "maya",
    "memory_id": "launch",
    "messages": [{"role": "user", "content": "What did we decide about the demo?"}],
}
COMPLETION_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {"schema": {"type": "object", "properties": _FIELDS, "examples": [_EXAMPLE]}},
    },
}
_ANY: dict[str, Any] = {"schema": {}}
_UPSTREAM_ERROR = {"description": "An error of the upstream, with its own status and body", "content": {"*/*": _ANY}}
COMPLETION_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The upstream's answer with `memory_hits`, `model_label` and `meta`",
        "content": {"application/json": _ANY, "text/event-stream": _ANY},
    },
    "default": _UPSTREAM_ERROR,
}
MODELS_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The upstream's models", "content": {"application/json": _ANY}},
    "default": _UPSTREAM_ERROR,
}
