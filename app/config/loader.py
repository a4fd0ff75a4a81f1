"""The loader of policy files. A server checks them at start, and does not start if one is not valid."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from app.config.yaml_files import CONFIG_DIR, build_policy, check_list, check_mapping, read_yaml
from app.domain.categories import PROCEDURAL, Category, CategoryPolicy, DefaultCategories
from app.domain.chat.policy import ChatPolicy
from app.domain.consent.patches import ConsentPolicy, profile_label
from app.domain.consolidation.comparison import ConsolidationPolicy
from app.domain.errors import ConfigError
from app.domain.facts.policy import FactPolicy
from app.domain.facts.topics import FactTopics
from app.domain.jobs.job import JobPolicy
from app.domain.memory.merge_bands import MergeBands
from app.domain.recall.instructions import NearnessModel
from app.domain.recall.profiles import RankingProfile, profile_name
from app.domain.recall.relevance import RelevanceModel
from app.domain.recall.reranker_calibration import RerankerCalibration
from app.domain.reflection.capture import CapturePolicy, CaptureRule
from app.domain.reflection.echoes import EchoMarks
from app.domain.reflection.episodes import EpisodePolicy
from app.domain.reflection.fact_extraction import FactExtractionPolicy
from app.domain.reflection.insights import InsightPolicy
from app.domain.reflection.model_usage import LlmPolicy
from app.domain.reflection.reconcile import ReconcilePolicy
from app.domain.reflection.summaries import SummaryPolicy
from app.domain.retention.forgetting import ForgettingPolicy
from app.domain.settable import SETTABLE, Range, RangedPolicy, Settable
from app.domain.sources.source_policy import SourcePolicy
from app.domain.tenancy.limits import Allowance, LimitPolicy
from app.domain.text_rules import TextLimits
from app.domain.turn_memory.policy import TurnMemoryPolicy

SECTIONS = (
    "write",
    "query",
    "delta",
    "lifecycle",
    "consolidation",
    "jobs",
    "limits",
    "llm",
    "multi_fact",
    "turns",
    "reconcile",
    "episodes",
    "summaries",
    "insights",
    "consent",
    "facts",
    "chat",
    "turn_memory",
    "sources",
    "profiles",
)
"""The required sections of policies.yaml."""
T = TypeVar("T")
P = TypeVar("P", ConsentPolicy, EpisodePolicy, FactPolicy, InsightPolicy, TurnMemoryPolicy, "TurnPolicy")
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


@dataclass(frozen=True, slots=True)
class WritePolicy(RangedPolicy):
    """The settings of writing memories."""

    default_importance: Annotated[int, SETTABLE, Range(1, 5)] = 2
    min_importance: Annotated[int, SETTABLE, Range(1, 5)] = 1
    merge_mode: Annotated[Literal["update", "recreate"], SETTABLE] = "update"
    supersede: Annotated[bool, SETTABLE] = True
    categories: Annotated[DefaultCategories, SETTABLE] = field(default_factory=DefaultCategories)
    attempts: Annotated[int, Range(1, 100)] = 10
    batch_limit: Annotated[int, Range(1, 100_000)] = 10_000
    text_limits: TextLimits = field(default_factory=TextLimits)


@dataclass(frozen=True, slots=True)
class QueryPolicy(RangedPolicy):
    """The settings of memory.query and of the search with citations."""

    agent: Annotated[str, SETTABLE] = "assistant"
    profile: Annotated[str, SETTABLE] = "default"
    top_k: Annotated[int, SETTABLE, Range(1, 50)] = 5
    budget_tokens: Annotated[int, SETTABLE, Range(1, 8192)] = 512
    min_relevance: Annotated[float | None, SETTABLE, Range(0, 1)] = None
    rag_length: Annotated[int, Settable(1, 1_000), Range(1, 10_000)] = 30
    whole_limit: Annotated[int, Settable(1, 1_000), Range(1, 10_000)] = 200
    related: Annotated[int, SETTABLE, Range(0, 10)] = 2
    exact_up_to: Annotated[int, Range(0, 10_000_000)] = 5000
    snippet: Annotated[int, SETTABLE, Range(1, 32_000)] = 1000
    dates: Annotated[bool, SETTABLE] = True
    receipts: Annotated[bool, SETTABLE] = True
    instructions: Annotated[int, SETTABLE, Range(0, 10)] = 3


@dataclass(frozen=True, slots=True)
class DeltaPolicy(RangedPolicy):
    """The settings of the delta header."""

    bullets: Annotated[int, SETTABLE, Range(1, 3)]


@dataclass(frozen=True, slots=True)
class TurnPolicy:
    """The settings of chat turns."""

    category: Annotated[str, SETTABLE]


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
    capture: CapturePolicy
    episodes: EpisodePolicy
    summaries: SummaryPolicy
    insights: InsightPolicy
    reconcile: ReconcilePolicy
    consent: ConsentPolicy
    facts: FactPolicy
    chat: ChatPolicy
    turn_memory: TurnMemoryPolicy
    sources: SourcePolicy
    turn_category: str
    profiles: Mapping[str, RankingProfile]
    weights: Mapping[str, Mapping[str, float]]
    categories: CategoryPolicy
    bands: MergeBands
    relevance: RelevanceModel | None = None
    document_relevance: RelevanceModel | None = None
    nearness: NearnessModel | None = None
    reranker: RerankerCalibration | None = None

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
    """Read and check every policy file. `model`, the embedding model, selects the merge bands and the relevance model.

    Raise ConfigError, which names the file and field, if a value is not valid.
    """
    raw = read_yaml(directory / "policies.yaml", SECTIONS)
    weights = _load_weights(directory, model)
    query = build_policy(QueryPolicy, raw["query"], "query")
    build_policy(TextLimits, check_mapping(raw["write"], "write").get("text_limits", {}), "write.text_limits")
    delta = build_policy(DeltaPolicy, raw["delta"], "delta")
    turns = build_policy(TurnPolicy, raw["turns"], "turns")
    chat = build_policy(ChatPolicy, raw["chat"], "chat")
    sources = build_policy(SourcePolicy, raw["sources"], "sources")
    categories = load_categories(directory / "memory_cat_config.yaml", query.rag_length)
    _check_category(categories, turns, "turns")
    write = build_policy(WritePolicy, raw["write"], "write")
    return Policies(
        write=write,
        query=query,
        delta_bullets=delta.bullets,
        lifecycle=build_policy(ForgettingPolicy, raw["lifecycle"], "lifecycle"),
        consolidation=build_policy(ConsolidationPolicy, raw["consolidation"], "consolidation"),
        jobs=build_policy(JobPolicy, raw["jobs"], "jobs"),
        limits=_load_limits(raw["limits"]),
        llm=build_policy(LlmPolicy, raw["llm"], "llm"),
        multi_fact=_load_multi_fact(raw["multi_fact"], categories),
        capture=load_capture(directory / "capture.yaml", categories),
        episodes=_check_category(categories, build_policy(EpisodePolicy, raw["episodes"], "episodes"), "episodes"),
        summaries=build_policy(SummaryPolicy, raw["summaries"], "summaries"),
        insights=_load_insights(categories, raw["insights"]),
        consent=_check_category(categories, build_policy(ConsentPolicy, raw["consent"], "consent"), "consent"),
        facts=_load_facts(categories, raw["facts"], directory / "facts.yaml"),
        chat=chat,
        turn_memory=_check_category(
            categories, build_policy(TurnMemoryPolicy, raw["turn_memory"], "turn_memory"), "turn_memory"
        ),
        reconcile=build_policy(ReconcilePolicy, raw["reconcile"], "reconcile"),
        sources=sources,
        turn_category=turns.category,
        profiles=_load_profiles(
            raw["profiles"], weights, query=query.profile, chat=chat.profile, sources=sources.profile
        ),
        weights=weights,
        categories=categories,
        bands=_load_model_file(MergeBands, directory, f"{model}.yaml") or MergeBands(),
        **_load_calibrations(directory, model),
    )


def _load_calibrations(directory: Path, model: str) -> dict[str, Any]:
    """Return the relevance models of memories and of chunks, and the calibrations of rerankers and of instructions."""
    files = {"relevance": "relevance", "document_relevance": "documents"}
    reranker = _load_model_file(RerankerCalibration, directory, f"{model}.rerankers.yaml")
    nearness = _load_model_file(NearnessModel, directory, f"{model}.instructions.yaml")
    return {"reranker": reranker, "nearness": nearness} | {
        name: _load_model_file(RelevanceModel, directory, f"{model}.{file}.yaml") for name, file in files.items()
    }


def _load_weights(directory: Path, model: str) -> dict[str, Mapping[str, float]]:
    """Return the sets of weights that were fitted for the model, or those of any other model, by name."""
    path = directory / "models" / f"{model.replace('/', '__')}.weights.yaml"
    path = path if path.exists() else directory / "models" / "other.weights.yaml"
    return {name: check_mapping(body, f"{path.name}: {name}") for name, body in read_yaml(path).items()}


def fill_weights(body: Any, weights: Mapping[str, Mapping[str, float]], where: str) -> dict[str, Any]:
    """Return the fields of a profile, with the fitted weights of the set that it names. Its own fields win."""
    named = dict(check_mapping(body, where))
    chosen = named.pop("weights", None)
    if chosen is not None and chosen not in weights:
        raise ConfigError(f"{where}.weights: {chosen!r} is not one of: {', '.join(weights)}")
    return {**weights.get(chosen, {}), **named}


def _load_profiles(values: Any, weights: Mapping[str, Mapping[str, float]], **used: str) -> dict[str, RankingProfile]:
    profiles = {}
    for name, body in check_mapping(values, "profiles").items():
        where = f"profiles.{name}"
        today = profile_name(name)
        if today in profiles:
            raise ConfigError(f"{where}: {name!r} is an old name of {today!r}, which the file has too")
        profiles[today] = build_policy(RankingProfile, {"name": today, **fill_weights(body, weights, where)}, where)
    for where, name in used.items():
        if profile_name(name) not in profiles:
            raise ConfigError(f"{where}.profile {name!r} is not one of {', '.join(profiles)}")
    return profiles


def _check_category(categories: CategoryPolicy, policy: P, section: str) -> P:
    """Return the policy. Raise ConfigError if its category is unknown or procedural."""
    if policy.category not in categories.categories or policy.category == PROCEDURAL:
        raise ConfigError(f"{section}.category {policy.category!r} is not a known category")
    return policy


def _load_insights(categories: CategoryPolicy, values: Any) -> InsightPolicy:
    """Return the policy. An unknown category switches insights off, unless it looks like a typing error."""
    policy = build_policy(InsightPolicy, values, "insights")
    if policy.category in categories.categories:
        return _check_category(categories, policy, "insights")
    if meant := closest_name(policy.category, (*categories.categories, PROCEDURAL)):
        raise ConfigError(f"insights.category {policy.category!r} is not a known category; did you mean {meant!r}?")
    return policy


def _load_facts(categories: CategoryPolicy, values: Any, topics: Path) -> FactPolicy:
    policy = _check_category(categories, build_policy(FactPolicy, values, "facts"), "facts")
    return replace(policy, topics=build_policy(FactTopics, read_yaml(topics, ("topics",)), topics.name))


def _load_multi_fact(values: Any, categories: CategoryPolicy) -> FactExtractionPolicy:
    policy = build_policy(FactExtractionPolicy, values, "multi_fact")
    if unknown := [name for name in policy.categories if name not in categories.categories or name == PROCEDURAL]:
        raise ConfigError(f"multi_fact.categories: {', '.join(unknown)}: not known, or not for facts")
    return policy


def load_capture(path: Path, categories: CategoryPolicy) -> CapturePolicy:
    """Read the table of captured facts. Raise ConfigError, with the rule's place from 1, if a rule is not valid."""
    raw = dict(read_yaml(path, ("rules",)))
    entries = check_list(raw.pop("rules"), f"{path.name}: rules")
    rules = []
    for place, entry in enumerate(entries, 1):
        where = f"{path.name}: rule {place}"
        rule = build_policy(CaptureRule, entry, where)
        if rule.category == PROCEDURAL or rule.category not in categories.categories:
            known = ", ".join(name for name in categories.categories if name != PROCEDURAL)
            raise ConfigError(f"{where}: unknown category {rule.category!r}; the known ones are: {known}")
        rules.append(rule)
    return replace(build_policy(CapturePolicy, raw, path.name), rules=tuple(rules))


def _load_limits(values: Any) -> LimitPolicy:
    """Return the usual limits and those of single tenants. A tenant's entry has only the differences."""
    usual = dict(check_mapping(values, "limits"))
    tenants = {}
    for name, differs in check_mapping(usual.pop("tenants", None) or {}, "limits.tenants").items():
        where = f"limits.tenants.{name}"
        merged = dict(usual)
        for window, ceiling in check_mapping(differs, where).items():
            merged[window] = check_mapping(usual.get(window, {}), "limits") | check_mapping(
                ceiling, f"{where}.{window}"
            )
        tenants[name] = build_policy(Allowance, merged, where)
    return LimitPolicy(build_policy(Allowance, usual, "limits"), tenants)


def _load_model_file(cls: type[T], directory: Path, name: str) -> T | None:
    path = directory / "models" / name.replace("/", "__")
    return build_policy(cls, read_yaml(path), path.name) if path.exists() else None
