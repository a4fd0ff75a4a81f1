"""The policies in force for each tenant."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import structlog

from app.config.loader import Policies
from app.domain.errors import MnemaError
from app.domain.principal import Principal

log = structlog.get_logger(__name__)
Build = Callable[[Mapping[str, Any]], Policies]


@dataclass(frozen=True, slots=True)
class RulesDocument:
    """A version of a tenant's document. `text`: the document as JSON."""

    version: int = 0
    text: str = "{}"


@dataclass(frozen=True, slots=True)
class BuiltRules:
    """The policies that a document gives a tenant.

    `is_valid`: False if this process knows no valid document of the tenant, and these policies stand in for it.
    """

    document: RulesDocument
    policies: Policies
    is_valid: bool = False


class _Rules:
    """The newest document of a tenant, and the last policies that were built for it."""

    __slots__ = ("built", "newest")

    def __init__(self, policies: Policies) -> None:
        self.newest = RulesDocument()
        self.built = BuiltRules(self.newest, policies)


class TenantPolicies:
    """The policies of every tenant: its own rules over the installation's defaults.

    Use-cases look a tenant's policies up at each call and keep none. Policies of jobs, limits and model budgets are
    the installation's: take them from `defaults`. A document is built at the first look-up after it changed; if it is
    not valid any more, because the defaults changed, the tenant keeps the last valid policies. Without any, it gets the
    defaults with empty allowlists and without automatic decisions, so that no key sees more than before.
    """

    def __init__(self, defaults: Policies, build: Build | None = None) -> None:
        """Take the function that builds the policies of a document; without one no tenant can have rules."""
        self.defaults = defaults
        self._build = build
        self._rules: dict[UUID, _Rules] = {}

    def of(self, principal: Principal) -> Policies:
        """Return the policies of the principal's tenant. It reads memory only."""
        return self.of_tenant(principal.tenant_id)

    def of_tenant(self, tenant_id: UUID) -> Policies:
        """Return the policies of a tenant. It reads memory only."""
        rules = self._rules.get(tenant_id)
        if rules is None:
            return self.defaults
        while (built := rules.built).document is not (newest := rules.newest):
            fresh = self.build_document(tenant_id, newest)
            if rules.newest is newest:  # a newer one may have come from another thread
                rules.built = fresh
        return built.policies

    def build_policies(self, document: Mapping[str, Any]) -> Policies:
        """Return the policies that a document would give a tenant. Raise InvalidConfig."""
        if self._build is None:
            raise RuntimeError("these policies have no builder")
        return self._build(document)

    def version_of(self, tenant_id: UUID) -> int:
        """Return the version of the tenant's newest document that this process knows; 0 without one."""
        rules = self._rules.get(tenant_id)
        return rules.newest.version if rules else 0

    def put_document(self, tenant_id: UUID, version: int, document: str) -> None:
        """Take the tenant's document, as JSON, if it is newer than the known one."""
        rules = self._rules.setdefault(tenant_id, _Rules(self.defaults))
        if version > rules.newest.version:
            rules.newest = RulesDocument(version, document)

    def forget_documents(self) -> None:
        """Forget the documents of all tenants, before those of another database are loaded."""
        self._rules.clear()

    def put_built(self, tenant_id: UUID, built: BuiltRules) -> None:
        """Take a document whose policies are built already, if it is newer than the known one."""
        rules = self._rules.setdefault(tenant_id, _Rules(self.defaults))
        if built.document.version > rules.newest.version:
            rules.newest = built.document
            rules.built = built

    def build_document(self, tenant_id: UUID, document: RulesDocument) -> BuiltRules:
        """Return the policies of a tenant's document. If it is not valid, log that and return substitute policies.

        It changes nothing, and may run in a thread beside the event loop.
        """
        try:
            return BuiltRules(document, self.build_policies(json.loads(document.text)), True)
        except MnemaError as error:
            log.error("tenant_config_invalid", tenant_id=str(tenant_id), version=document.version, detail=error.detail)
        rules = self._rules.get(tenant_id)
        if rules is not None and rules.built.is_valid:
            return replace(rules.built, document=document)
        return BuiltRules(document, _closed_policies(self.defaults))


def _closed_policies(defaults: Policies) -> Policies:
    """Return the defaults, but no agent sees a category and every value needs a decision.

    The tenant's own rules may have forbidden what the defaults allow.
    """
    allowlists: dict[str, tuple[str, ...]] = dict.fromkeys(defaults.categories.allowlists, ())
    consent = replace(defaults.consent, sensitive=defaults.consent.field_names, benign=())
    return replace(defaults, categories=replace(defaults.categories, allowlists=allowlists), consent=consent)
