"""The refresh of tenants' rules: every process reads changed documents, and keeps the last ones during an outage."""

import asyncio

import structlog

from app.config.tenant_policies import RulesDocument, TenantPolicies
from app.domain.epochs import Stamp
from app.domain.errors import MnemaError
from app.storage.tenancy.configs import TenantConfigStorage

log = structlog.get_logger(__name__)
LARGE = 16 << 10
"""The characters of a document from which on its policies are built beside the event loop."""


class RefreshRules:
    """The use-case that keeps the policies of all tenants current in this process."""

    def __init__(self, storage: TenantConfigStorage, policies: TenantPolicies) -> None:
        self._storage = storage
        self._policies = policies
        self._since: Stamp | None = None
        self._away = False

    async def load_changes(self) -> None:
        """Read the documents that changed since the last call; at first all of them. Raise DatabaseUnavailable.

        In another database, such as after a restore, all documents of the one before are forgotten.
        """
        found = await self._storage.list_changed(self._since)
        small = []
        built = []
        for rules in found.rules:
            if len(rules.document) <= LARGE:
                small.append(rules)
            elif found.is_whole or rules.version > self._policies.version_of(rules.tenant_id):
                document = RulesDocument(rules.version, rules.document)
                policies = await asyncio.to_thread(self._policies.build_document, rules.tenant_id, document)
                built.append((rules.tenant_id, policies))
        if found.is_whole:
            self._policies.forget_documents()
        for rules in small:
            self._policies.put_document(rules.tenant_id, rules.version, rules.document)
        for tenant_id, policies in built:
            self._policies.put_built(tenant_id, policies)
        self._since = found.settled

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
