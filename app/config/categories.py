"""The loader of the categories and the agents' allowlists."""

from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from app.config.yaml_files import build_policy, check_list, check_mapping, read_yaml
from app.domain.categories import PROCEDURAL, Category, CategoryPolicy
from app.domain.errors import ConfigError

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
        for entry in check_list(check_mapping(raw["categories"], f"{path.name}: categories").get(group) or [], where):
            category = build_policy(Category, {"rag_length": rag_length, **check_mapping(entry, where)}, where)
            if category.name in known:
                raise ConfigError(f"{path.name}: category {category.name!r} is defined twice")
            if category.context not in ("all", "rag") or category.rag_length < 1:
                raise ConfigError(f"{path.name}: {category.name}: context is all or rag, rag_length at least 1")
            if not 0 <= (category.min_relevance or 0) <= 1:
                raise ConfigError(f"{path.name}: {category.name}: min_relevance must be from 0 to 1")
            known[category.name] = category
    allowlists: dict[str, tuple[str, ...]] = {}
    for agent, names in check_mapping(raw["allowlists"] or {}, f"{path.name}: allowlists").items():
        if not isinstance(names, list) or not all(isinstance(n, str) and n for n in names):
            raise ConfigError(f"{path.name}: allowlist of {agent!r} must be a list of category names")
        allowlists[str(agent)] = tuple(names)
    declared = (*known, PROCEDURAL)
    listings = Counter(name for listed in allowlists.values() for name in listed)
    for agent, listed in allowlists.items():
        for name in listed:
            usual = (other for other, count in listings.items() if count > listings[name])
            if name not in declared and (meant := closest_name(name, (*declared, *usual))):
                raise ConfigError(
                    f"{path.name}: allowlist of {agent!r}: unknown category {name!r}; did you mean {meant!r}? "
                    f"A category of its own is declared under categories.custom"
                )
            known.setdefault(name, Category(name=name, rag_length=rag_length))
    return CategoryPolicy(known, allowlists)


def closest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar of `names` if its similarity is at least TYPO_RATIO, else None."""
    folded = {other.casefold(): other for other in names}
    return next((folded[match] for match in get_close_matches(name.casefold(), folded, 1, TYPO_RATIO)), None)
