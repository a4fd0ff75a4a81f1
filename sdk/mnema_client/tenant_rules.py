"""A tenant's own rules: its agents, categories and settings. All calls need a key with scope admin."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mnema_wire.bases import Page
from pydantic import Field

from mnema_client.answered import Answered
from mnema_client.calls import JSON, idempotency_headers, model_reader, query_params
from mnema_client.errors import CannotBeSent
from mnema_client.requests import Sent
from mnema_client.transport import Call

PATH = "/tenant/config"
YAML = {"Content-Type": "application/yaml"}


class CategoryRule(Answered):
    """A category of the tenant. `min_relevance` None: that of the section `query`, else the model's."""

    name: str
    context: str
    rag_length: int
    min_relevance: float | None
    label: str | None
    description: str | None
    numeric_update: bool
    fallback: bool


class EffectiveRules(Answered):
    """The categories and allowlists in force: the tenant's document over the defaults."""

    categories: list[CategoryRule]
    allowlists: dict[str, list[str]]


class RulesVersion(Answered):
    """A version of the rules. Version 0 is the defaults alone, made by nobody."""

    version: int
    actor: str | None
    note: str | None
    created_at: datetime | None


class StoredRules(RulesVersion):
    """A version of the rules with its document."""

    document: dict[str, Any]


class TenantRules(StoredRules):
    """The rules in force."""

    effective: EffectiveRules


class RulesChange(Answered):
    """The result of a change: the version in force, the lines of the difference, and how many memories and facts moved.

    `warnings`: what the rules no longer cover, such as keys that are bound to agents without an allowlist.
    """

    version: int
    diff: list[str]
    moved: dict[str, int]
    warnings: list[str]


class RulesDiff(Answered):
    """The difference of two versions, as the lines of a unified diff of their documents as YAML."""

    from_version: int
    to_version: int
    diff: list[str]


class Rollback(Sent):
    """A version to put in force again."""

    version: int
    move: dict[str, str] = Field(default_factory=dict)
    dry_run: bool = False


def tenant_config() -> Call[TenantRules]:
    """Return the rules in force: the tenant's own document, and what it makes of the defaults."""
    return Call("GET", PATH, model_reader(TenantRules))


def put_tenant_config(
    document: Mapping[str, Any] | str,
    *,
    version: int | None = None,
    move: Mapping[str, str] | None = None,
    dry_run: bool = False,
    note: str | None = None,
    idempotency_key: str | None = None,
) -> Call[RulesChange]:
    """Put a document in force: a mapping, or a text of YAML. It is in force everywhere within 5 seconds.

    `version`: raise VersionConflict unless this version is in force. `move`: categories that the new rules lack, each
    with the one that its memories move to. `dry_run`: change nothing, and return what would change.
    """
    headers = idempotency_headers(idempotency_key, YAML if isinstance(document, str) else JSON)
    if version is not None:
        headers["If-Match"] = f'"{version}"'
    moves = {"move": [f"{old}:{new}" for old, new in move.items()]} if move else {}
    params = {**query_params(dry_run=dry_run or None, note=note), **moves}
    return Call("PUT", PATH, model_reader(RulesChange), params, _content(document), headers)


def tenant_config_page(*, limit: int | None = None, cursor: str | None = None) -> Call[Page[RulesVersion]]:
    """Return one page of the versions of the rules, newest first."""
    return Call("GET", f"{PATH}/history", model_reader(Page[RulesVersion]), query_params(limit=limit, cursor=cursor))


def tenant_config_version(version: int) -> Call[StoredRules]:
    """Return a version of the document."""
    return Call("GET", f"{PATH}/{int(version)}", model_reader(StoredRules))


def tenant_config_diff(from_version: int, to_version: int) -> Call[RulesDiff]:
    """Compare two versions; 0 is the defaults alone."""
    params = query_params(from_version=from_version, to_version=to_version)
    return Call("GET", f"{PATH}/diff", model_reader(RulesDiff), params)


def rollback_tenant_config(
    version: int,
    *,
    if_version: int | None = None,
    move: Mapping[str, str] | None = None,
    dry_run: bool = False,
    idempotency_key: str | None = None,
) -> Call[RulesChange]:
    """Put an earlier version in force again, as a new version; 0 is the defaults alone.

    `if_version`: raise VersionConflict unless this version is in force.
    """
    body = Rollback(version=version, move=dict(move or {}), dry_run=dry_run)
    headers = idempotency_headers(idempotency_key, JSON)
    if if_version is not None:
        headers["If-Match"] = f'"{if_version}"'
    return Call("POST", f"{PATH}/rollback", model_reader(RulesChange), content=body.body(), headers=headers)


def _content(document: Mapping[str, Any] | str) -> bytes:
    try:
        return (document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)).encode()
    except (TypeError, ValueError) as error:
        raise CannotBeSent(f"the document cannot be written as JSON: {error}") from error
