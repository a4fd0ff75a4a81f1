"""The loader of policy files. A server checks them at start, and does not start if one is not valid."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from app.domain.categories import PROCEDURAL, Category, CategoryPolicy
from app.domain.consent.patches import ConsentPolicy, profile_label
from app.domain.consolidation.comparison import ConsolidationPolicy
from app.domain.errors import ConfigError
from app.domain.jobs.job import JobPolicy
from app.domain.memory.merge_bands import MergeBands
from app.domain.recall.scoring import RankingProfile
from app.domain.reflection.echoes import EchoMarks
from app.domain.reflection.episodes import EpisodePolicy
from app.domain.reflection.fact_extraction import FactExtractionPolicy
from app.domain.reflection.insights import InsightPolicy
from app.domain.reflection.model_usage import LlmPolicy
from app.domain.reflection.reconcile import ReconcilePolicy
from app.domain.reflection.summaries import SummaryPolicy
from app.domain.retention.forgetting import ForgettingPolicy
from app.domain.tenancy.limits import Allowance, LimitPolicy
from app.domain.text_rules import TextLimits

CONFIG_DIR = Path(__file__).resolve().parents[2] / "config"
TYPO_RATIO = 0.8
"""The similarity (difflib's ratio) from which an unknown name counts as a typing error: `fod` and `food` have 0.86."""
T = TypeVar("T")
P = TypeVar("P", ConsentPolicy, EpisodePolicy, InsightPolicy)


@dataclass(frozen=True, slots=True)
class WritePolicy:
    """The settings of writing memories."""

    default_importance: int = 2
    min_importance: int = 1
    merge_mode: Literal["update", "recreate"] = "update"
    attempts: int = 10
    text_limits: TextLimits = field(default_factory=TextLimits)

    def __post_init__(self) -> None:
        _check_range(self, 1, 5, "default_importance", "min_importance")
        _check_range(self, 1, 100, "attempts")


@dataclass(frozen=True, slots=True)
class QueryPolicy:
    """The settings of memory.query."""

    profile: str = "default"
    top_k: int = 5
    budget_tokens: int = 512
    rag_length: int = 30
    whole_limit: int = 200
    related: int = 2
    exact_up_to: int = 5000

    def __post_init__(self) -> None:
        _check_range(self, 1, 50, "top_k")
        _check_range(self, 1, 8192, "budget_tokens")
        _check_range(self, 1, 10_000, "rag_length", "whole_limit")
        _check_range(self, 0, 10, "related")
        _check_range(self, 0, 10_000_000, "exact_up_to")


@dataclass(frozen=True, slots=True)
class DeltaPolicy:
    """The settings of the delta header."""

    bullets: int

    def __post_init__(self) -> None:
        _check_range(self, 1, 3, "bullets")


@dataclass(frozen=True, slots=True)
class TurnPolicy:
    """The settings of chat turns."""

    category: str


def _check_range(policy: Any, low: int, high: int, *names: str) -> None:
    for name in names:
        if not low <= getattr(policy, name) <= high:
            raise ValueError(f"{name} must be from {low} to {high}")


@dataclass(frozen=True, slots=True)
class Policies:
    """All policies of the folder `config/`."""

    write: WritePolicy
    query: QueryPolicy
    delta_bullets: int
    lifecycle: ForgettingPolicy
    consolidation: ConsolidationPolicy
    jobs: JobPolicy
    limits: LimitPolicy
    llm: LlmPolicy
    multi_fact: FactExtractionPolicy
    episodes: EpisodePolicy
    summaries: SummaryPolicy
    insights: InsightPolicy
    reconcile: ReconcilePolicy
    consent: ConsentPolicy
    turn_category: str
    profiles: Mapping[str, RankingProfile]
    categories: CategoryPolicy
    bands: MergeBands

    @property
    def configuration_warnings(self) -> tuple[str, ...]:
        """Warnings about features that the configuration switches off, each with its remedy."""
        if self.draws_insights:
            return ()
        category = self.insights.category
        return (f"insights are off: no agent may see category {category!r}; name it in memory_cat_config.yaml",)

    @property
    def draws_insights(self) -> bool:
        """True if the category of insights is configured."""
        return self.insights.category in self.categories.categories

    @property
    def echo_marks(self) -> EchoMarks:
        """The marks by which Mnema's own lines in a turn are recognised."""
        fields = (tuple(map(profile_label, names)) for names in (self.consent.sensitive, self.consent.benign))
        return EchoMarks(tuple(self.categories.categories), *fields)


def load_policies(model: str, directory: Path = CONFIG_DIR) -> Policies:
    """Read and check every policy file. `model`, the embedding model, selects the merge bands.

    Raise ConfigError, which names the file and field, if a value is not valid.
    """
    sections = ("write", "query", "delta", "lifecycle", "consolidation", "jobs", "limits", "llm", "multi_fact", "turns")
    reflecting = ("reconcile", "episodes", "summaries", "insights", "consent")
    raw = _read_yaml(directory / "policies.yaml", (*sections, *reflecting, "profiles"))
    query = _build_policy(QueryPolicy, raw["query"], "query")
    _build_policy(TextLimits, _check_mapping(raw["write"], "write").get("text_limits", {}), "write.text_limits")
    delta, turns = _build_policy(DeltaPolicy, raw["delta"], "delta"), _build_policy(TurnPolicy, raw["turns"], "turns")
    profiles = {}
    for name, body in _check_mapping(raw["profiles"], "profiles").items():
        where = f"profiles.{name}"
        profiles[name] = _build_policy(RankingProfile, {"name": name, **_check_mapping(body, where)}, where)
    if query.profile not in profiles:
        raise ConfigError(f"query.profile {query.profile!r} is not one of {', '.join(profiles)}")
    categories = load_categories(directory / "memory_cat_config.yaml", query.rag_length)
    if turns.category not in categories.categories:
        raise ConfigError(f"turns.category {turns.category!r} is not a known category")
    return Policies(
        write=_build_policy(WritePolicy, raw["write"], "write"),
        query=query,
        delta_bullets=delta.bullets,
        lifecycle=_build_policy(ForgettingPolicy, raw["lifecycle"], "lifecycle"),
        consolidation=_build_policy(ConsolidationPolicy, raw["consolidation"], "consolidation"),
        jobs=_build_policy(JobPolicy, raw["jobs"], "jobs"),
        limits=_load_limits(raw["limits"]),
        llm=_build_policy(LlmPolicy, raw["llm"], "llm"),
        multi_fact=_load_multi_fact(raw["multi_fact"], categories),
        episodes=_check_category(categories, _build_policy(EpisodePolicy, raw["episodes"], "episodes"), "episodes"),
        summaries=_build_policy(SummaryPolicy, raw["summaries"], "summaries"),
        insights=_load_insights(categories, raw["insights"]),
        consent=_check_category(categories, _build_policy(ConsentPolicy, raw["consent"], "consent"), "consent"),
        reconcile=_build_policy(ReconcilePolicy, raw["reconcile"], "reconcile"),
        turn_category=turns.category,
        profiles=profiles,
        categories=categories,
        bands=_load_bands(directory / "models", model),
    )


def load_categories(path: Path, rag_length: int) -> CategoryPolicy:
    """Read the categories file. The categories are `system`, `custom` and every name in an allowlist.

    Raise ConfigError if an entry is not valid, or if an undeclared name looks like a typing error.
    """
    raw = _read_yaml(path, ("categories", "allowlists"))
    known: dict[str, Category] = {}
    for group in ("system", "custom"):
        where = f"{path.name}: categories.{group}"
        for entry in _check_list(_check_mapping(raw["categories"], f"{path.name}: categories").get(group) or [], where):
            category = _build_policy(Category, {"rag_length": rag_length, **_check_mapping(entry, where)}, where)
            if category.name in known:
                raise ConfigError(f"{path.name}: category {category.name!r} is defined twice")
            if category.context not in ("all", "rag") or category.rag_length < 1:
                raise ConfigError(f"{path.name}: {category.name}: context is all or rag, rag_length at least 1")
            known[category.name] = category
    allowlists: dict[str, tuple[str, ...]] = {}
    for agent, names in _check_mapping(raw["allowlists"] or {}, f"{path.name}: allowlists").items():
        if not isinstance(names, list) or not all(isinstance(n, str) and n for n in names):
            raise ConfigError(f"{path.name}: allowlist of {agent!r} must be a list of category names")
        allowlists[str(agent)] = tuple(names)
    declared = (*known, PROCEDURAL)
    listings = Counter(name for listed in allowlists.values() for name in listed)
    for agent, listed in allowlists.items():
        for name in listed:
            usual = (other for other, count in listings.items() if count > listings[name])
            if name not in declared and (meant := _closest_name(name, (*declared, *usual))):
                raise ConfigError(
                    f"{path.name}: allowlist of {agent!r}: unknown category {name!r}; did you mean {meant!r}? "
                    f"A category of its own is declared under categories.custom"
                )
            known.setdefault(name, Category(name=name, rag_length=rag_length))
    return CategoryPolicy(known, allowlists)


def _closest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar of `names` if its similarity is at least TYPO_RATIO, else None."""
    folded = {other.casefold(): other for other in names}
    return next((folded[match] for match in get_close_matches(name.casefold(), folded, 1, TYPO_RATIO)), None)


def _check_category(categories: CategoryPolicy, policy: P, section: str) -> P:
    """Return the policy. Raise ConfigError if its category is unknown or procedural."""
    if policy.category not in categories.categories or policy.category == PROCEDURAL:
        raise ConfigError(f"{section}.category {policy.category!r} is not a known category")
    return policy


def _load_insights(categories: CategoryPolicy, values: Any) -> InsightPolicy:
    """Return the policy. An unknown category switches insights off, unless it looks like a typing error."""
    policy = _build_policy(InsightPolicy, values, "insights")
    if policy.category in categories.categories:
        return _check_category(categories, policy, "insights")
    if meant := _closest_name(policy.category, (*categories.categories, PROCEDURAL)):
        raise ConfigError(f"insights.category {policy.category!r} is not a known category; did you mean {meant!r}?")
    return policy


def _load_multi_fact(values: Any, categories: CategoryPolicy) -> FactExtractionPolicy:
    policy = _build_policy(FactExtractionPolicy, values, "multi_fact")
    if unknown := [name for name in policy.categories if name not in categories.categories or name == PROCEDURAL]:
        raise ConfigError(f"multi_fact.categories: {', '.join(unknown)}: not known, or not for facts")
    return policy


def _load_limits(values: Any) -> LimitPolicy:
    """Return the usual limits and those of single tenants. A tenant's entry has only the differences."""
    usual = dict(_check_mapping(values, "limits"))
    tenants = {}
    for name, differs in _check_mapping(usual.pop("tenants", None) or {}, "limits.tenants").items():
        where, merged = f"limits.tenants.{name}", dict(usual)
        for window, ceiling in _check_mapping(differs, where).items():
            merged[window] = _check_mapping(usual.get(window, {}), "limits") | _check_mapping(
                ceiling, f"{where}.{window}"
            )
        tenants[name] = _build_policy(Allowance, merged, where)
    return LimitPolicy(_build_policy(Allowance, usual, "limits"), tenants)


def _load_bands(directory: Path, model: str) -> MergeBands:
    path = directory / f"{model.replace('/', '__')}.yaml"
    return _build_policy(MergeBands, _read_yaml(path), path.name) if path.exists() else MergeBands()


def _read_yaml(path: Path, required: tuple[str, ...] = ()) -> dict[str, Any]:
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read {path.name}: {error}") from error
    missing = [name for name in required if not isinstance(loaded, dict) or name not in loaded]
    if missing or not isinstance(loaded, dict):
        raise ConfigError(f"{path.name} must have: {', '.join(missing) or 'a mapping'}")
    return loaded


def _check_mapping(values: Any, where: str) -> dict[str, Any]:
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ConfigError(f"{where}: must be a mapping of names")
    return values


def _check_list(values: Any, where: str) -> list[Any]:
    if not isinstance(values, list):
        raise ConfigError(f"{where}: must be a list")
    return values


def _build_policy(cls: type[T], values: Any, where: str) -> T:
    """Build `cls` from a mapping. Raise ConfigError if a field's name, type or range is not valid."""
    known = {f.name for f in fields(cls)}  # type: ignore[arg-type]  # every caller passes a dataclass
    if unknown := sorted(set(_check_mapping(values, where)) - known):
        raise ConfigError(f"{where}: unknown {', '.join(unknown)}")
    try:
        return TypeAdapter(cls).validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join([where, *(str(part) for part in first["loc"])])
        raise ConfigError(f"{place}: {first['input']!r}: {first['msg']}") from error
