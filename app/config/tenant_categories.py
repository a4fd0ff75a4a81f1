"""The categories and allowlists of a tenant: its own document over the defaults."""

from collections.abc import Mapping
from typing import Any

from app.config.categories import ALL, add_categories, all_but_procedural, closest_name
from app.config.yaml_files import check_list, check_mapping
from app.domain.categories import PROCEDURAL, Category, CategoryPolicy
from app.domain.errors import ConfigError, InvalidInput
from app.domain.ids import check_identifier
from app.domain.tenancy.rules import MAX_AGENTS, MAX_CATEGORIES

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
