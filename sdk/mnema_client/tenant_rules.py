"""A tenant's own rules: its agents, categories and settings. All calls need a key with scope admin."""

import json
from collections.abc import Mapping
from typing import Any

from mnema_wire.bases import Page
from mnema_wire.tenant_rules import Rollback, RulesChange, RulesDiff, RulesVersion, StoredRules, TenantRules

from mnema_client.calls import JSON, get_call, idempotency_headers, json_body, model_reader, query_params
from mnema_client.errors import CannotBeSent
from mnema_client.transport import Call

PATH = "/tenant/config"
YAML = {"Content-Type": "application/yaml"}


def tenant_config() -> Call[TenantRules]:
    """Return the rules in force: the tenant's own document, and what it makes of the defaults."""
    return get_call(PATH, TenantRules)


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
    return get_call(f"{PATH}/history", Page[RulesVersion], limit=limit, cursor=cursor)


def tenant_config_version(version: int) -> Call[StoredRules]:
    """Return a version of the document."""
    return get_call(f"{PATH}/{int(version)}", StoredRules)


def tenant_config_diff(from_version: int, to_version: int) -> Call[RulesDiff]:
    """Compare two versions; 0 is the defaults alone."""
    return get_call(f"{PATH}/diff", RulesDiff, from_version=from_version, to_version=to_version)


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
    content = json_body(Rollback, version=version, move=dict(move or {}), dry_run=dry_run)
    headers = idempotency_headers(idempotency_key, JSON)
    if if_version is not None:
        headers["If-Match"] = f'"{if_version}"'
    return Call("POST", f"{PATH}/rollback", model_reader(RulesChange), content=content, headers=headers)


def _content(document: Mapping[str, Any] | str) -> bytes:
    try:
        return (document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)).encode()
    except (TypeError, ValueError) as error:
        raise CannotBeSent(f"the document cannot be written as JSON: {error}") from error
