"""Routes of /tenant/config: a tenant's own rules."""

import hashlib
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from mnema_wire import tenant_rules as wire
from mnema_wire.fields import Limit

from app.api import links
from app.api.deps import Administrator, App
from app.api.errors import body_errors, key_errors
from app.api.routes.memory.memories import IfMatch, parse_version
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.config.loader import Policies
from app.domain.errors import BodyTooLarge, InvalidCursor, UnsupportedMediaType
from app.domain.paging import decode_text, encode_place
from app.domain.tenancy.rules import (
    MAX_DOCUMENT_BYTES,
    MAX_MOVES,
    MAX_NOTE,
    RulesChange,
    RulesVersion,
    check_note,
    parse_moves,
)
from app.usecases.tenancy.rules import RulesDraft, RulesTarget

router = APIRouter(prefix="/tenant/config", tags=["tenant_config"], route_class=StrictRoute)
YAML: Final = "application/yaml"
YAML_TYPES: Final = (YAML, "application/x-yaml", "text/yaml", "text/x-yaml")
_EXAMPLE: Final = {"allowlists": {"cook": ["profile", "goals"]}, "query": {"top_k": 6}}
_YAML_TEXT: Final = "allowlists:\n  cook: [profile, goals]\nquery: {top_k: 6}\n"
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "object", "examples": [_EXAMPLE]}},
            YAML: {"schema": {"type": "object", "examples": [_EXAMPLE]}},
        },
    }
}
_ETAG: Final[dict[str, Any]] = {
    "headers": {"ETag": {"required": True, "description": "the version", "schema": {"type": "string"}}},
    "links": links.RULES,
}
_TEXT: Final = {"content": {YAML: {"schema": {"type": "string"}, "example": _YAML_TEXT}}}
Move = Annotated[
    list[str],
    Query(
        max_length=MAX_MOVES,
        description="`old:new`, repeatable: the memories of a category that the new rules lack move to another one",
    ),
]
Number = Annotated[int, Query(ge=0, le=wire.MAX_VERSION, description="a version; 0: the defaults alone")]


def effective_rules_body(policies: Policies) -> wire.EffectiveRules:
    """Return the body for a tenant's policies."""
    known = policies.categories
    return wire.EffectiveRules(
        categories=[wire.CategoryRule.model_validate(category) for category in known.categories.values()],
        allowlists={agent: list(names) for agent, names in known.allowlists.items()},
    )


def stored_rules_body(version: RulesVersion) -> wire.StoredRules:
    """Return the body for a domain object."""
    return wire.StoredRules(**{name: getattr(version, name) for name in wire.StoredRules.model_fields})


def rules_change_body(change: RulesChange) -> wire.RulesChange:
    """Return the body for a domain object."""
    return wire.RulesChange(
        version=change.version,
        diff=list(change.diff),
        moved=dict(change.moved),
        warnings=list(change.warnings),
    )


@router.get("", response_model=wire.TenantRules, responses={200: {**_ETAG, **_TEXT}, **key_errors()})
async def get(app: App, principal: Administrator, request: Request, response: Response) -> wire.TenantRules | Response:
    """Read the rules in force: the tenant's document, and the result of merging it over the defaults.

    With `Accept: application/yaml` the answer is the document alone, as YAML.
    """
    found = await app.tenancy.rules.get_rules(principal)
    if _prefers_yaml(request.headers.get("accept", "")):
        text = await app.tenancy.rules.write_document(found.version)
        return Response(text, media_type=YAML, headers={"ETag": f'"{found.version.version}"'})
    response.headers["ETag"] = f'"{found.version.version}"'
    stored = stored_rules_body(found.version)
    return wire.TenantRules(**dict(stored), effective=effective_rules_body(found.policies))


@router.put("", response_class=JSONResponse, openapi_extra=_BODY, responses={200: _ETAG, **body_errors(409, 412, 415)})
async def put(
    app: App,
    principal: Administrator,
    request: Request,
    response: Response,
    move: Move = [],  # noqa: B006 - FastAPI copies it
    dry_run: Annotated[bool, Query(description="change nothing; answer what would change")] = False,
    note: Annotated[str | None, Query(max_length=MAX_NOTE, description="why, for the history")] = None,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyHeader = None,
) -> wire.RulesChange:
    """Put a document in force, as JSON or YAML. It replaces the document before. An invalid document changes nothing.

    The document has the format of memory_cat_config.yaml, and may have sections of policies.yaml. It is merged over the
    defaults key by key: mappings merge, other values replace, `null` removes. With `If-Match` it replaces only that
    version. All servers and workers use it within 5 seconds.
    """
    body = await request.body()
    moves = parse_moves(move)
    if len(body) > MAX_DOCUMENT_BYTES:
        raise BodyTooLarge(f"at most {MAX_DOCUMENT_BYTES} bytes")
    document = await app.tenancy.rules.read_document(body, is_yaml=_is_yaml(request.headers.get("content-type", "")))
    expected = parse_version(if_match)
    digest = hashlib.sha256(body).hexdigest()
    key = retry_key("PUT /tenant/config", idempotency_key, digest, repr((sorted(moves.items()), note, expected)))
    draft = RulesDraft(document, expected, moves, check_note(note))
    change = await app.tenancy.rules.put_rules(principal, draft, key, dry_run=dry_run)
    response.headers["ETag"] = f'"{change.version}"'
    return rules_change_body(change)


@router.get("/history", responses={200: {"links": links.RULES_HISTORY}, **key_errors()})
async def history(
    app: App,
    principal: Administrator,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")] = None,
) -> wire.RulesHistory:
    """List the versions of the rules, newest first."""
    found = await app.tenancy.rules.list_versions(principal, _decode_version(cursor), limit)
    next_cursor = None if found.next_before is None else encode_place((str(found.next_before),))
    return wire.RulesHistory(items=[wire.RulesVersion.model_validate(v) for v in found.items], next_cursor=next_cursor)


@router.get("/diff", responses=key_errors(404))
async def diff(app: App, principal: Administrator, from_version: Number, to_version: Number) -> wire.RulesDiff:
    """Compare two versions."""
    lines = await app.tenancy.rules.compare_versions(principal, from_version, to_version)
    return wire.RulesDiff(from_version=from_version, to_version=to_version, diff=lines)


@router.get("/{version:rank}", response_model=wire.StoredRules, responses={200: _TEXT, **key_errors(404)})
async def get_version(
    app: App, principal: Administrator, version: int, request: Request
) -> wire.StoredRules | Response:
    """Read a version of the document. With `Accept: application/yaml` the answer is YAML."""
    found = await app.tenancy.rules.get_version(principal, version)
    if _prefers_yaml(request.headers.get("accept", "")):
        return Response(await app.tenancy.rules.write_document(found), media_type=YAML)
    return stored_rules_body(found)


@router.post("/rollback", responses={200: {"links": links.RULES}, **body_errors(404, 409, 412)})
async def rollback(
    app: App,
    principal: Administrator,
    body: wire.Rollback,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyHeader = None,
) -> wire.RulesChange:
    """Put an earlier version in force again, as a new version. With `If-Match`, replace only that version."""
    expected = parse_version(if_match)
    key = retry_key("POST /tenant/config/rollback", idempotency_key, body, repr(expected))
    target = RulesTarget(body.version, expected, body.move)
    change = await app.tenancy.rules.roll_back(principal, target, key, dry_run=body.dry_run)
    return rules_change_body(change)


def _is_yaml(content_type: str) -> bool:
    """Tell whether a body is YAML. Raise UnsupportedMediaType if it is neither that nor JSON."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in YAML_TYPES:
        return True
    if kind and not kind.endswith("json"):
        raise UnsupportedMediaType(f"send the body as application/json or {YAML}")
    return False


def _prefers_yaml(accept: str) -> bool:
    """Tell whether the first type that a client accepts is YAML."""
    return accept.partition(",")[0].partition(";")[0].strip().lower() in YAML_TYPES


def _decode_version(cursor: str | None) -> int | None:
    text = decode_text(cursor)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InvalidCursor()
    return int(text)
