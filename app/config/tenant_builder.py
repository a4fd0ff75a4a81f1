"""The policies of one tenant: its document, key by key, over the files of the installation."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from app.config.loader import (
    ALL,
    SECTIONS,
    Policies,
    add_categories,
    all_but_procedural,
    closest_name,
    fill_weights,
)
from app.config.tenant_documents import MAX_NUMBER
from app.config.tenant_fields import CLASSES, FIELDS, MAX_LISTED, MAX_PROFILES, PROFILE_FIELDS
from app.config.yaml_files import CONFIG_DIR, build_policy, check_list, check_mapping, read_yaml
from app.domain.categories import PROCEDURAL, Category, CategoryPolicy
from app.domain.errors import ConfigError, InvalidInput
from app.domain.ids import check_identifier
from app.domain.recall.profiles import RankingProfile, profile_name
from app.domain.settable import Settable
from app.domain.tenancy.rules import MAX_AGENTS, MAX_CATEGORIES, InvalidConfig

TOP = ("categories", "allowlists", *FIELDS, "profiles")
"""The names that a document may have."""
WITH_CATEGORY = ("episodes", "consent", "facts", "turn_memory")
MAX_DETAIL = 600
GROUPS = ("system", "custom")
MAX_RAG_LENGTH = 1_000
MAX_DESCRIPTION = 500
MAX_SHOWN = 20
"""The categories that an error lists."""


def build_categories(
    defaults: CategoryPolicy, files: Mapping[str, Any], document: Mapping[str, Any], rag_length: int
) -> CategoryPolicy:
    """Return the tenant's categories. `files`: the content of the categories file.

    `categories.system` replaces the default categories, `categories.custom` adds to them. A default list loses the
    categories that the tenant does not have. Raise ConfigError if a list of the tenant's names an unknown one.
    """
    groups = check_mapping(document.get("categories", {}), "categories")
    if unknown := sorted(groups.keys() - set(GROUPS)):
        raise ConfigError(f"categories: unknown {unknown[0]!r}; a tenant may set: {', '.join(GROUPS)}")
    known: dict[str, Category] = {}
    if "system" in groups:
        add_categories(known, check_list(groups["system"], "categories.system"), "categories.system", rag_length)
    _add_defaults(known, files, rag_length, own="system" in groups)
    if "custom" in groups:
        add_categories(known, check_list(groups["custom"], "categories.custom"), "categories.custom", rag_length)
    if "system" not in groups:
        for name in defaults.categories:  # those that only a default list names
            known.setdefault(name, Category(name, rag_length=rag_length))
    _check_categories(known)
    given = check_mapping(document.get("allowlists", {}), "allowlists")
    seeing_all = frozenset(agent for agent, names in given.items() if names == ALL) | (
        defaults.seeing_all - given.keys()
    )
    allowlists = _build_allowlists(defaults, known, given, seeing_all)
    if any(PROCEDURAL in names for names in allowlists.values()):
        known.setdefault(PROCEDURAL, Category(PROCEDURAL, rag_length=rag_length))
    return CategoryPolicy(known, allowlists, seeing_all)


def check_known(categories: CategoryPolicy, name: str, place: str) -> None:
    """Raise ConfigError for an unknown category and for procedures. It suggests the nearest name, else it lists all."""
    if name in categories.categories and name != PROCEDURAL:
        return
    others = [other for other in categories.categories if other != PROCEDURAL]
    raise ConfigError(f"{place}: unknown category {name!r}; {_suggest(name, others)}")


def _add_defaults(known: dict[str, Category], files: Mapping[str, Any], rag_length: int, *, own: bool) -> None:
    """Add the default categories. If the tenant has its `own` system ones, add only the installation's custom ones."""
    given = files["categories"]
    for group in GROUPS[own:]:
        entries = [entry for entry in given.get(group) or [] if entry["name"] not in known]
        add_categories(known, entries, f"categories.{group}", rag_length)


def _check_categories(known: Mapping[str, Category]) -> None:
    if len(known) > MAX_CATEGORIES:
        raise ConfigError(f"categories: {len(known)} with those of the defaults, at most {MAX_CATEGORIES}")
    for category in known.values():
        place = "categories"
        for text in (category.name, category.label):
            if text is not None:
                _check_name(text, place)
        description = category.description or ""
        if len(description) > MAX_DESCRIPTION or not description.isprintable():
            raise ConfigError(
                f"{place}: {category.name}: a description is one line of at most {MAX_DESCRIPTION} characters"
            )
        if category.rag_length > MAX_RAG_LENGTH:
            raise ConfigError(f"{place}: {category.name}: rag_length must be from 1 to {MAX_RAG_LENGTH}")


def _build_allowlists(
    defaults: CategoryPolicy, known: Mapping[str, Category], given: Mapping[str, Any], seeing_all: frozenset[str]
) -> dict[str, tuple[str, ...]]:
    allowed = {*known, PROCEDURAL}
    merged = {
        agent: tuple(name for name in names if name in allowed)
        for agent, names in defaults.allowlists.items()
        if agent not in given
    }
    for agent, names in given.items():
        _check_name(agent, "allowlists")
        if names is not None and agent not in seeing_all:
            merged[agent] = _check_allowlist(agent, names, known)
    merged |= dict.fromkeys(sorted(seeing_all), all_but_procedural(known))
    if len(merged) > MAX_AGENTS:
        raise ConfigError(f"allowlists: {len(merged)} agents with those of the defaults, at most {MAX_AGENTS}")
    return merged


def _check_allowlist(agent: str, names: Any, known: Mapping[str, Category]) -> tuple[str, ...]:
    place = f"allowlists.{agent}"
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{place}: must be a list of category names, all, or null to remove the agent's allowlist")
    for name in names:
        if name not in known and name != PROCEDURAL:
            hint = _suggest(name, list(dict.fromkeys((*known, PROCEDURAL))))
            raise ConfigError(
                f"{place}: unknown category {name[:100]!r}; {hint} (declare a new category under categories.custom)"
            )
    return tuple(dict.fromkeys(names))


def _check_name(name: str, place: str) -> None:
    try:
        check_identifier(name)
    except InvalidInput as error:
        raise ConfigError(f"{place}: {name[:100]!r}: {error.detail}") from error


def _suggest(name: str, others: list[str]) -> str:
    if len(name) <= 100 and (meant := closest_name(name, others)):
        return f"did you mean {meant!r}?"
    return f"the known ones are: {', '.join(others[:MAX_SHOWN])}{', …' if len(others) > MAX_SHOWN else ''}"


class TenantBuilder:
    """The builder of a tenant's policies from its document. It does no input or output after its construction."""

    def __init__(
        self, defaults: Policies, directory: Path = CONFIG_DIR, adapt: Callable[[Policies], Policies] | None = None
    ) -> None:
        """Read the files of `directory`, from which `defaults` were loaded. `adapt` fits policies to this process."""
        self._defaults = defaults
        self._adapt = adapt or _unchanged
        self._sections = read_yaml(directory / "policies.yaml")
        self._categories = read_yaml(directory / "memory_cat_config.yaml")

    def build_policies(self, document: Mapping[str, Any]) -> Policies:
        """Return the policies of a document. Raise InvalidConfig, which names the place and the valid values."""
        try:
            return self._adapt(self._build(document))
        except InvalidConfig:
            raise
        except (ConfigError, InvalidInput) as error:
            raise InvalidConfig(error.detail[:MAX_DETAIL]) from error

    def _build(self, document: Mapping[str, Any]) -> Policies:
        for name in document:
            if name not in TOP:
                raise ConfigError(_describe_unknown("", name, TOP, installation=SECTIONS))
        built = {name: self._build_section(name, document[name]) for name in FIELDS if name in document}
        query = built.get("query", self._defaults.query)
        categories = build_categories(self._defaults.categories, self._categories, document, query.rag_length)
        changed: dict[str, Any] = {name: value for name, value in built.items() if name not in ("delta", "turns")}
        if "delta" in built:
            changed["delta_bullets"] = built["delta"].bullets
        if "turns" in built:
            changed["turn_category"] = built["turns"].category
        if "facts" in built:
            changed["facts"] = replace(built["facts"], topics=self._defaults.facts.topics)
        if "profiles" in document:
            changed["profiles"] = self._build_profiles(document["profiles"])
        policies = replace(self._defaults, **changed, categories=categories)
        _check_names(policies, document)
        return _filter_lists(policies, categories, document)

    def _build_section(self, section: str, given: Any) -> Any:
        given, default = check_mapping(given, section), self._sections.get(section) or {}
        allowed = FIELDS[section]
        policy = CLASSES[section]
        known = {field.name for field in fields(policy)}
        for name in given:
            if name not in allowed:
                raise ConfigError(_describe_unknown(section, name, tuple(allowed), installation=tuple(known)))
        built = build_policy(policy, _merged(default, given), section)
        _check_ranges(built, section, {name: allowed[name] for name in given})
        return built

    def _build_profiles(self, given: Any) -> dict[str, RankingProfile]:
        given = {profile_name(name): body for name, body in check_mapping(given, "profiles").items()}
        merged = _merged(self._sections["profiles"], given)
        profiles = {}
        if len(merged) > MAX_PROFILES:
            raise ConfigError(f"profiles: {len(merged)}, at most {MAX_PROFILES}")
        for name, body in given.items():
            check_identifier(name)
            for field in check_mapping(body or {}, f"profiles.{name}"):
                if field not in PROFILE_FIELDS:
                    others = tuple(one.name for one in fields(RankingProfile))
                    raise ConfigError(
                        _describe_unknown(f"profiles.{name}", field, tuple(PROFILE_FIELDS), installation=others)
                    )
        for name, body in merged.items():
            where = f"profiles.{name}"
            filled = fill_weights(body, self._defaults.weights, where)
            profiles[name] = build_policy(RankingProfile, {**filled, "name": name}, where)
            _check_ranges(profiles[name], where, {field: PROFILE_FIELDS[field] for field in given.get(name) or {}})
        return profiles


def _unchanged(policies: Policies) -> Policies:
    return policies


def _merged(default: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given` over `default`: mappings merge, other values replace, None removes."""
    merged = dict(default)
    for name, value in given.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = _merged(merged[name], value)
        else:
            merged[name] = value
    return merged


def _check_ranges(policy: Any, where: str, given: Mapping[str, Settable]) -> None:
    for name, bounds in given.items():
        value = getattr(policy, name)
        if isinstance(value, tuple) and len(value) > MAX_LISTED:
            raise ConfigError(f"{where}.{name}: {len(value)} names, at most {MAX_LISTED}")
        if not isinstance(value, int | float):
            continue
        low = -MAX_NUMBER if bounds.low is None else bounds.low
        high = MAX_NUMBER if bounds.high is None else bounds.high
        if not low <= value <= high:
            raise ConfigError(f"{where}.{name}: {value} must be from {low:g} to {high:g}")


def _describe_unknown(where: str, name: str, allowed: tuple[str, ...], installation: tuple[str, ...]) -> str:
    """Return why a tenant may not set a field: only the installation may set it, or there is no such field."""
    place = f"{where}.{name[:100]}" if where else name[:100]
    if name in installation:
        return f"{place} is the installation's; a tenant may set: {', '.join(allowed)}"
    meant = closest_name(name, allowed) if len(name) <= 100 else None
    hint = f"did you mean {meant!r}?" if meant else f"a tenant may set: {', '.join(allowed)}"
    return f"{place} is unknown; {hint}"


def _check_names(policies: Policies, document: Mapping[str, Any]) -> None:
    """Raise ConfigError for an unknown profile, or an unknown category of a section."""
    for section in ("query", "chat", "sources"):
        profile = getattr(policies, section).profile
        if profile_name(profile) not in policies.profiles:
            raise ConfigError(f"{section}.profile: {profile!r} is not one of: {', '.join(policies.profiles)}")
    check = partial(check_known, policies.categories)
    check(policies.turn_category, "turns.category")
    for section in WITH_CATEGORY:
        check(getattr(policies, section).category, f"{section}.category")
    for kind in document.get("write", {}).get("categories") or {}:
        if (name := policies.write.categories.for_type(kind)) != PROCEDURAL:
            check(name, f"write.categories.{kind}")
    if "agent" in document.get("query", {}) and policies.query.agent not in policies.categories.allowlists:
        agents = ", ".join(policies.categories.allowlists)
        raise ConfigError(f"query.agent: {policies.query.agent!r} is not one of: {agents}")
    if "category" in document.get("insights", {}):
        check(policies.insights.category, "insights.category")
    if "categories" in document.get("multi_fact", {}):
        for name in policies.multi_fact.categories:
            check(name, "multi_fact.categories")


def _filter_lists(policies: Policies, categories: CategoryPolicy, document: Mapping[str, Any]) -> Policies:
    """Return the policies without default rules and names of categories that the tenant does not have."""
    known = categories.categories.keys() - {PROCEDURAL}
    rules = tuple(rule for rule in policies.capture.rules if rule.category in known)
    names = tuple(name for name in policies.multi_fact.categories if name in known)
    if "categories" in document.get("multi_fact", {}):
        names = policies.multi_fact.categories
    return replace(
        policies,
        capture=replace(policies.capture, rules=rules),
        multi_fact=replace(policies.multi_fact, categories=names),
    )
