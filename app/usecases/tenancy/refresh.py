"""The refresh of tenants' rules: every process reads changed documents, and keeps the last ones during an outage."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from app.config.tenant_policies import RulesDocument, TenantPolicies
from app.domain.epochs import Stamp
from app.domain.errors import MnemaError
from app.domain.outages import DatabaseUnavailable
from app.storage.tenancy.configs import TenantConfigStorage

log = structlog.get_logger(__name__)
LARGE = 16 << 10
"""The characters of a document from which on its policies are built beside the event loop."""


@dataclass
class _Source:
    """The rules of one cluster. `since`: where to go on reading."""

    storage: TenantConfigStorage
    since: Stamp | None = None


class RefreshRules:
    """The use-case that keeps the policies of all tenants current in this process."""

    def __init__(self, storages: Sequence[TenantConfigStorage], policies: TenantPolicies) -> None:
        """Take the storage of each cluster."""
        self._sources = [_Source(storage) for storage in storages]
        self._policies = policies
        self._away = False

    async def load_changes(self) -> None:
        """Read the documents that changed since the last call; at first all of them.

        In another database, such as after a restore, all documents of the one before are forgotten. Of several
        clusters, each is read that answers; a tenant that has moved has its documents in both, and the newest counts.

        Raise DatabaseUnavailable if no cluster answers.
        """
        outcomes = await asyncio.gather(*map(self._load_source, self._sources), return_exceptions=True)
        failures = [outcome for outcome in outcomes if outcome is not None]
        for failure in failures:
            if len(failures) == len(outcomes) or not isinstance(failure, DatabaseUnavailable):
                raise failure

    async def _load_source(self, source: "_Source") -> None:
        found = await source.storage.list_changed(source.since)
        forgets = found.is_whole and len(self._sources) == 1
        small = []
        built = []
        for rules in found.rules:
            if not forgets and rules.version <= self._policies.version_of(rules.tenant_id):
                continue
            if len(rules.document) <= LARGE:
                small.append(rules)
            else:
                document = RulesDocument(rules.version, rules.document)
                policies = await asyncio.to_thread(self._policies.build_document, rules.tenant_id, document)
                built.append((rules.tenant_id, policies))
        if forgets:
            self._policies.forget_documents()
        for rules in small:
            self._policies.put_document(rules.tenant_id, rules.version, rules.document)
        for tenant_id, policies in built:
            self._policies.put_built(tenant_id, policies)
        source.since = found.settled

    async def refresh_rules(self) -> None:
        """Read changed documents; while the database is away, keep the last ones and log it once."""
        try:
            await self.load_changes()
        except MnemaError as error:
            if not self._away:
                log.error("tenant_configs_not_refreshed", code=error.code, detail=error.detail)
            self._away = True
            return
        self._away = False
