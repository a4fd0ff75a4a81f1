"""Conversions of a tenant's rules to the bodies of /tenant/config."""

from mnema_wire import tenant_rules as wire

from app.config.loader import Policies
from app.domain.tenancy.rules import RulesChange, RulesVersion


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
