"""A tenant's own rules: read, compare, change and roll them back (`docs/tenant-rules.md`)."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from app.config.loader import Policies
from app.config.tenant_documents import compare_documents, parse_json, parse_yaml, render_document
from app.config.tenant_policies import BuiltRules, RulesDocument, TenantPolicies
from app.domain.errors import DuplicateText, NotFound, VersionConflict
from app.domain.idempotency import OptionalKey
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.domain.tenancy.rules import RulesChange, RulesVersion
from app.shares import SharedThreads
from app.storage.engine import LONG_S
from app.storage.journal import Journal, KeyRecord
from app.storage.tenancy.configs import TenantConfigStorage
from app.storage.uow import ReadTx, UnitOfWork, WriteTx
from app.usecases.tenancy.category_moves import MoveCategories, check_moves, describe_rows, refuse_held

log = structlog.get_logger(__name__)
ATTEMPTS = 3
THREADS = 2
"""Two, so that the long documents of one tenant leave a thread for the others."""
DEFAULTS = RulesVersion()


@dataclass(frozen=True, slots=True)
class RulesDraft:
    """A change of the rules. `expected`: the version in force that the caller knows; None accepts any.

    `moves`: categories that the new rules lack, each with the one that its memories move to.
    """

    document: Mapping[str, Any]
    expected: int | None = None
    moves: Mapping[str, str] = field(default_factory=dict)
    note: str | None = None


@dataclass(frozen=True, slots=True)
class RulesTarget:
    """An earlier version to return to; 0 is the defaults alone. `expected` and `moves`: as in a draft."""

    version: int
    expected: int | None = None
    moves: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RulesView:
    """A version, and the policies that it gives the tenant."""

    version: RulesVersion
    policies: Policies


@dataclass(frozen=True, slots=True)
class RulesPage:
    """One page of versions, newest first, without documents. `next_before` is None on the last page."""

    items: list[RulesVersion]
    next_before: int | None


class _Replayed(Exception):
    """Another request with the same idempotency key was faster; `response` is its result."""

    def __init__(self, response: Mapping[str, Any]) -> None:
        self.response = response


class ManageRules:
    """The use-cases of a tenant's rules. A change is in force in this process at once, and everywhere in seconds."""

    def __init__(
        self,
        uow: UnitOfWork,
        storage: TenantConfigStorage,
        moves: MoveCategories,
        journal: Journal,
        policies: TenantPolicies,
    ) -> None:
        self._uow = uow
        self._storage = storage
        self._moves = moves
        self._journal = journal
        self._policies = policies
        self._threads = SharedThreads(THREADS, "rules")

    async def get_rules(self, principal: Principal) -> RulesView:
        """Return the version in force, and the policies that it gives."""
        async with self._uow.read(principal) as tx:
            found = await self._storage.get_newest(tx, principal)
        await self._take_version(principal, found)
        return RulesView(found, self._policies.of(principal))

    async def get_version(self, principal: Principal, version: int) -> RulesVersion:
        """Return a version as it was stored. Raise NotFound."""
        async with self._uow.read(principal) as tx:
            return await self._load_version(tx, principal, version)

    async def read_document(self, text: bytes, *, is_yaml: bool) -> dict[str, Any]:
        """Return the document of a text. Texts are read beside the event loop. Raise InvalidConfig."""
        return await self._threads.run(parse_yaml if is_yaml else parse_json, text)

    async def write_document(self, version: RulesVersion) -> str:
        """Return the document of a version as YAML."""
        return await self._threads.run(render_document, version.document)

    async def list_versions(self, principal: Principal, before: int | None, limit: int) -> RulesPage:
        """Return a page of at most `limit` versions below `before`."""
        async with self._uow.read(principal) as tx:
            rows = await self._storage.list_versions(tx, principal, before, limit + 1)
        return RulesPage(rows[:limit], rows[limit - 1].version if len(rows) > limit else None)

    async def compare_versions(self, principal: Principal, first: int, second: int) -> list[str]:
        """Return the lines of the difference of two versions as YAML; 0 is the defaults alone. Raise NotFound."""
        async with self._uow.read(principal) as tx:
            versions = [await self._load_version(tx, principal, number) for number in (first, second)]
        return await self._compare(*versions)

    async def put_rules(
        self, principal: Principal, draft: RulesDraft, key: OptionalKey = None, *, dry_run: bool = False
    ) -> RulesChange:
        """Put the document in force, and move memories, in one transaction. The document in force makes no version.

        With `dry_run`, change nothing; the result says what would change. Raise InvalidConfig, CategoryInUse,
        VersionConflict if `expected` is not in force, WriteContention or IdempotencyMismatch.
        """
        if key is not None and not dry_run and (first := await self._journal.find_response(principal, key)) is not None:
            return await self._load_replay(principal, first)
        policies = await self._build_policies(draft.document)
        check_moves(policies.categories, draft.moves)
        for attempt in range(ATTEMPTS):
            try:
                return await self._try_put(principal, draft, policies, key, dry_run)
            except (DuplicateText, WriteContention):  # another change was faster
                await asyncio.sleep(0.05 * attempt)
            except _Replayed as replayed:
                return await self._load_replay(principal, replayed.response)
        raise WriteContention()

    async def roll_back(
        self, principal: Principal, target: RulesTarget, key: OptionalKey = None, *, dry_run: bool = False
    ) -> RulesChange:
        """Put the document of an earlier version in force again, as a new version.

        Raise NotFound, and what `put_rules` raises.
        """
        old = await self.get_version(principal, target.version)
        draft = RulesDraft(old.document, target.expected, target.moves, f"rollback to version {target.version}")
        return await self.put_rules(principal, draft, key, dry_run=dry_run)

    async def _try_put(
        self, principal: Principal, draft: RulesDraft, policies: Policies, key: OptionalKey, dry_run: bool
    ) -> RulesChange:
        known = set(policies.categories.categories)
        async with self._uow.write(principal, timeout_s=LONG_S) as tx:
            before = await self._storage.get_newest(tx, principal)
            if draft.expected not in (None, before.version):
                raise VersionConflict(f"version {before.version} of the rules is in force; read it again")
            held = await self._storage.count_held(tx, principal, known)
            refuse_held(held, draft.moves, await self._known_before(principal, before) - known)
            new = before
            if draft.document != before.document:
                new = RulesVersion(before.version + 1, draft.document, principal.actor_name, draft.note)
            moved = {name: sum(held[name].values()) for name in draft.moves if name in held}
            warnings = await self._find_warnings(tx, principal, policies, held, draft.moves)
            change = RulesChange(new.version, (), moved, warnings)
            if not dry_run:
                if moved:
                    await self._moves.lock_categories(tx, principal, moved)
                for name in moved:
                    await self._moves.move_memories(tx, principal, name, draft.moves[name])
                if new is not before:
                    await self._storage.add_version(tx, principal, new)
                await self._record_key(tx, principal, key, change, changed=new is not before)
        if not dry_run and new is not before:
            text = await self._threads.run(json.dumps, new.document)
            self._policies.put_built(principal.tenant_id, BuiltRules(RulesDocument(new.version, text), policies, True))
            log.info("tenant_config_changed", version=new.version, actor=principal.actor_name, moved=moved)
        return replace(change, diff=await self._compare(before, new))

    async def _known_before(self, principal: Principal, before: RulesVersion) -> set[str]:
        """Return the categories of the version in force, of which another process may know before this one."""
        await self._take_version(principal, before)
        return set(self._policies.of(principal).categories.categories)

    async def _record_key(
        self, tx: WriteTx, principal: Principal, key: OptionalKey, change: RulesChange, *, changed: bool
    ) -> None:
        if key is None:
            return
        response = {"version": change.version, "changed": changed, "moved": dict(change.moved)}
        outcome = await self._journal.record(principal, [], keys=[KeyRecord(key, response, None)], tx=tx)
        if outcome.replay is not None:
            raise _Replayed(outcome.replay)

    async def _load_replay(self, principal: Principal, first: Mapping[str, Any]) -> RulesChange:
        """Return the result of the first request with a key; without its warnings, which may be out of date."""
        version = int(first["version"])
        lines = await self.compare_versions(principal, version - 1, version) if first["changed"] else []
        return RulesChange(version, lines, first["moved"])

    async def _load_version(self, tx: ReadTx, principal: Principal, version: int) -> RulesVersion:
        found = DEFAULTS if version == 0 else await self._storage.get_version(tx, principal, version)
        if found is None:
            raise NotFound(f"the rules have no version {version}")
        return found

    async def _find_warnings(
        self,
        tx: ReadTx,
        principal: Principal,
        policies: Policies,
        held: Mapping[str, Mapping[str, int]],
        moves: Mapping[str, str],
    ) -> Sequence[str]:
        """Return what the rules no longer cover: keys of unknown agents, and memories of unknown categories."""
        agents = policies.categories.allowlists
        unknown = [
            f"key {name!r} is bound to agent {agent!r}, which has no allowlist"
            for name, bound in await self._storage.list_bound_keys(tx, principal)
            for agent in bound
            if agent not in agents
        ]
        lost = [
            f"category {name!r} holds {describe_rows(rows)} and is not configured; move them, or declare it"
            for name, rows in held.items()
            if name not in moves and any(rows.values())
        ]
        idle = [f"move: category {name!r} holds nothing" for name in moves if name not in held]
        return [*unknown[:100], *lost[:100], *idle, *policies.configuration_warnings]

    async def _build_policies(self, document: Mapping[str, Any]) -> Policies:
        """Return the policies of a document. They are built beside the event loop."""
        return await self._threads.run(self._policies.build_policies, document)

    async def _take_version(self, principal: Principal, version: RulesVersion) -> None:
        """Put a stored version in force in this process. Its policies are built beside the event loop."""
        if version.version > self._policies.version_of(principal.tenant_id):
            built = await self._threads.run(self._build_version, principal, version)
            self._policies.put_built(principal.tenant_id, built)

    def _build_version(self, principal: Principal, version: RulesVersion) -> BuiltRules:
        document = RulesDocument(version.version, json.dumps(version.document))
        return self._policies.build_document(principal.tenant_id, document)

    async def _compare(self, before: RulesVersion, after: RulesVersion) -> list[str]:
        names = f"version {before.version}", f"version {after.version}"
        return await self._threads.run(compare_documents, before.document, after.document, names)
