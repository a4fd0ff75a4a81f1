"""The loader of the categories and the agents' allowlists."""

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from app.config.yaml_files import build_policy, check_list, check_mapping, read_yaml
from app.domain.categories import PROCEDURAL, Category, CategoryPolicy
from app.domain.errors import ConfigError

MAX_EXPIRY_DAYS = 36_500
ALL = "all"
"""The allowlist of an agent that may see every category but procedural."""
TYPO_RATIO = 0.8
"""The similarity (difflib's ratio) from which an unknown name counts as a typing error: `fod` and `food` have 0.86."""


def load_categories(path: Path, rag_length: int) -> CategoryPolicy:
    """Read the categories file. The categories are `system`, `custom` and every name in an allowlist.

    Raise ConfigError if an entry is not valid, or if an undeclared name looks like a typing error.
    """
    raw = read_yaml(path, ("categories", "allowlists"))
    known: dict[str, Category] = {}
    for group in ("system", "custom"):
        where = f"{path.name}: categories.{group}"
        entries = check_mapping(raw["categories"], f"{path.name}: categories").get(group) or []
        add_categories(known, check_list(entries, where), where, rag_length)
    allowlists: dict[str, tuple[str, ...]] = {}
    given = check_mapping(raw["allowlists"] or {}, f"{path.name}: allowlists")
    seeing_all = frozenset(agent for agent, names in given.items() if names == ALL)
    for agent, names in given.items():
        if agent in seeing_all:
            allowlists[agent] = ()  # in its place; filled when all categories are known
            continue
        if not isinstance(names, list) or not all(isinstance(n, str) and n for n in names):
            raise ConfigError(f"{path.name}: allowlist of {agent!r} must be a list of category names, or all")
        allowlists[agent] = tuple(names)
    declared = (*known, PROCEDURAL)
    listings = Counter(name for listed in allowlists.values() for name in listed)
    for agent, listed in allowlists.items():
        for name in listed:
            usual = (other for other, count in listings.items() if count > listings[name])
            if name not in declared and (meant := closest_name(name, (*declared, *usual))):
                raise ConfigError(
                    f"{path.name}: allowlist of {agent!r}: unknown category {name!r}; did you mean {meant!r}? "
                    f"Declare a new category under categories.custom"
                )
            known.setdefault(name, Category(name=name, rag_length=rag_length))
    for agent in seeing_all:
        allowlists[agent] = all_but_procedural(known)
    return CategoryPolicy(known, allowlists, seeing_all)


def all_but_procedural(known: Iterable[str]) -> tuple[str, ...]:
    """Return the allowlist of an agent that may see every category."""
    return tuple(name for name in known if name != PROCEDURAL)


def add_categories(known: dict[str, Category], entries: Sequence[Any], where: str, rag_length: int) -> None:
    """Add the categories of a list to `known`. Raise ConfigError, with the place `where`, for one that is not valid."""
    for entry in entries:
        category = build_policy(Category, {"rag_length": rag_length, **check_mapping(entry, where)}, where)
        if category.name in known:
            raise ConfigError(f"{where}: category {category.name!r} is defined twice")
        if category.context not in ("all", "rag") or category.rag_length < 1:
            raise ConfigError(f"{where}: {category.name}: context is all or rag, rag_length at least 1")
        if not 0 <= (category.min_relevance or 0) <= 1:
            raise ConfigError(f"{where}: {category.name}: min_relevance must be from 0 to 1")
        if category.expires_after_days is not None and not 1 <= category.expires_after_days <= MAX_EXPIRY_DAYS:
            raise ConfigError(f"{where}: {category.name}: expires_after_days must be from 1 to {MAX_EXPIRY_DAYS}")
        known[category.name] = category


def closest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar of `names` if its similarity is at least TYPO_RATIO, else None."""
    folded = {other.casefold(): other for other in names}
    return next((folded[match] for match in get_close_matches(name.casefold(), folded, 1, TYPO_RATIO)), None)
