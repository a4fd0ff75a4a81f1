"""Daily consolidation, second half: merges, relations and a report out of the verdicts (seed 003 §4, SPEC §7).

The order of the verdicts never matters, and a plan that is carried out leaves nothing to merge for the next one.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from app.domain.changes import Edge
from app.domain.consolidation.comparison import Rule, Verdict, deterministic_rule
from app.domain.memory.memory import Memory
from app.domain.memory.merge_bands import MergeBands
from app.domain.memory.same_fact import content_count

_REPLACING: Final = frozenset({"numeric", "new_value"})

IdPair: TypeAlias = frozenset[UUID]
"""The ids of two memories."""

MAX_DECISIONS: Final = 1000
"""A report lists no more; its counts are of all."""


@dataclass(frozen=True, slots=True)
class AbsorbedMemory:
    """A memory that ends in a survivor. `score`: their cosine, None where it was not measured."""

    memory: Memory
    rule: Rule
    score: float | None


@dataclass(frozen=True, slots=True)
class Merge:
    """The survivor keeps id and text and takes these values; the absorbed give way to it."""

    survivor: Memory
    absorbed: tuple[AbsorbedMemory, ...]
    importance: int
    pinned: bool
    tags: tuple[str, ...]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Plan:
    """What the verdicts come to. `duplicates`: memories that the verdicts hold to be one too many."""

    verdicts: tuple[Verdict, ...]
    merges: tuple[Merge, ...]
    links: tuple[Edge, ...]
    duplicates: int


@dataclass(frozen=True, slots=True)
class PairDecision:
    """What becomes of one checked pair. `user_id` and `texts` only where nothing is stored: of a dry run."""

    user_id: str | None
    category: str
    ids: tuple[UUID, UUID]
    texts: tuple[str, str] | None
    score: float
    rule: Rule | None
    action: Literal["merge", "link", "keep"]


@dataclass(frozen=True, slots=True)
class Report:
    """Counts of a run; `+` adds up those of several users. `merged`: memories that gave way to another.

    `duplicates_before` and `duplicates_after`: memories that the verdicts hold to be one too many. `skipped`: merges
    left for the next run, because somebody changed one of the memories meanwhile. `left`: pairs worth a check that
    have none, for the day has no room for them or a model gave no verdict; `unanswered`: of these, because it does not
    answer; `fault`: what its endpoint did.
    """

    pairs_seen: int = 0
    checked: int = 0
    merged: int = 0
    linked: int = 0
    tokens: int = 0
    duplicates_before: int = 0
    duplicates_after: int = 0
    skipped: int = 0
    left: int = 0
    unanswered: int = 0
    decisions: tuple[PairDecision, ...] = ()
    fault: str = ""

    def __add__(self, other: "Report") -> "Report":
        total = Report(*(getattr(self, f) + getattr(other, f) for f in self.__dataclass_fields__))
        return replace(total, decisions=total.decisions[:MAX_DECISIONS], fault=self.fault or other.fault)

    def as_json(self) -> dict[str, Any]:
        """The report in what JSON knows; of a dry run also with the texts."""
        counts = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "fault"}
        return counts | {"decisions": [_as_json(one) for one in self.decisions]}


def make_plan(
    verdicts: Sequence[Verdict],
    bands: MergeBands,
    numeric_categories: Collection[str] = (),
    apart: Collection[IdPair] = (),
) -> Plan:
    """Merges and relations out of the verdicts on distinct pairs; no memory is in two merges.

    Pairs that are one fact form groups; within a group each merge has a survivor that every absorbed memory is one
    fact with, by verdict or, unchecked, by the deterministic rule. So no chain drifts from fact to fact. Two that are
    `apart` never end in one merge.
    """
    ordered = tuple(sorted(verdicts, key=lambda one: (-one.pair.score, one.pair.fingerprint[:2])))
    known = {one.pair.ids: one for one in ordered}
    groups = _fact_groups(ordered)
    merges = [merge for group in groups for merge in _group_merges(group, known, numeric_categories, apart)]
    duplicates = sum(len(group) - 1 for group in groups)
    return Plan(ordered, tuple(merges), tuple(_relation_edges(ordered, merges, bands.link_min)), duplicates)


def plan_report(plan: Plan, *, pairs_seen: int, tokens: int = 0, dry_run: bool = False) -> Report:
    """The figures of a plan that is carried out whole. Decisions: what was done; with `dry_run` every one, and whose
    and what texts."""
    merged = sum(len(merge.absorbed) for merge in plan.merges)
    return Report(
        pairs_seen=pairs_seen,
        checked=len(plan.verdicts),
        merged=merged,
        linked=len(plan.links),
        tokens=tokens,
        duplicates_before=plan.duplicates,
        duplicates_after=plan.duplicates - merged,
        decisions=tuple(islice(_pair_decisions(plan, dry_run), MAX_DECISIONS)),
    )


def _fact_groups(verdicts: Iterable[Verdict]) -> list[list[Memory]]:
    """The memories that verdicts join, directly or by way of others."""
    group_of: dict[UUID, list[Memory]] = {}
    for one in verdicts:
        if one.rule is None:
            continue
        first, second = (group_of.setdefault(memory.id, [memory]) for memory in (one.pair.first, one.pair.second))
        if first is not second:
            first.extend(second)
            group_of.update((memory.id, first) for memory in second)
    return list({id(group): group for group in group_of.values()}.values())


def _group_merges(
    group: Sequence[Memory],
    known: Mapping[IdPair, Verdict],
    numeric_categories: Collection[str],
    apart: Collection[IdPair],
) -> Iterator[Merge]:
    """One merge about the best survivor, then about the best of those it leaves, and so on."""
    rules = _pair_rules(group, known, numeric_categories)
    left = sorted(group, key=lambda one: (-content_count(one.text), one.created_at, one.id))
    while left:
        survivor = next(one for one in left if not any(_is_outdated(one, other, rules) for other in left))
        joined: list[Memory] = []
        for one in left:
            if frozenset((one.id, survivor.id)) in rules and not _is_kept_apart(one, [survivor, *joined], apart):
                joined.append(one)
        if joined:
            yield _build_merge(survivor, joined, rules, known)
        done = {survivor.id, *(one.id for one in joined)}
        left = [one for one in left if one.id not in done]


def _is_kept_apart(one: Memory, others: Iterable[Memory], apart: Collection[IdPair]) -> bool:
    return any(frozenset((one.id, other.id)) in apart for other in others)


def _pair_rules(
    group: Sequence[Memory], known: Mapping[IdPair, Verdict], numeric_categories: Collection[str]
) -> dict[IdPair, Rule]:
    """The rule of every two of the group that are one fact."""
    rules: dict[IdPair, Rule] = {}
    for at, one in enumerate(group):
        for other in group[at + 1 :]:
            ids = frozenset((one.id, other.id))
            rule = known[ids].rule if ids in known else deterministic_rule(one, other, numeric_categories)
            # Pinning moves updated_at as well: unless both instants agree, nobody knows which value is the later.
            if rule is not None and (rule not in _REPLACING or _is_later(one, other) or _is_later(other, one)):
                rules[ids] = rule
    return rules


def _is_later(one: Memory, other: Memory) -> bool:
    return one.created_at > other.created_at and one.updated_at > other.updated_at


def _is_outdated(one: Memory, other: Memory, rules: Mapping[IdPair, Rule]) -> bool:
    return rules.get(frozenset((one.id, other.id))) in _REPLACING and _is_later(other, one)


def _build_merge(
    survivor: Memory,
    joined: Sequence[Memory],
    rules: Mapping[IdPair, Rule],
    known: Mapping[IdPair, Verdict],
) -> Merge:
    absorbed = []
    for one in joined:
        ids = frozenset((one.id, survivor.id))
        absorbed.append(AbsorbedMemory(one, rules[ids], known[ids].pair.score if ids in known else None))
    everyone = [survivor, *joined]
    return Merge(
        survivor,
        tuple(absorbed),
        importance=max(one.importance for one in everyone),
        pinned=any(one.pinned for one in everyone),
        tags=tuple(dict.fromkeys(tag for one in everyone for tag in one.tags)),
        created_at=min(one.created_at for one in everyone),
    )


def _relation_edges(verdicts: Iterable[Verdict], merges: Iterable[Merge], link_min: float) -> Iterator[Edge]:
    """One relation, of the nearest pair, for every two memories that stay two; from the newer to the older."""
    heirs = _merge_by_memory(merges)
    linked: set[tuple[UUID, UUID]] = set()
    for verdict in verdicts:  # best first
        ends = []
        for memory in (verdict.pair.first, verdict.pair.second):
            heir = heirs.get(memory.id)
            ends.append((heir.created_at, heir.survivor.id) if heir else (memory.created_at, memory.id))
        (_, old), (_, new) = sorted(ends)
        if old != new and verdict.pair.score >= link_min and (old, new) not in linked:
            linked.add((old, new))
            yield Edge(new, old, verdict.pair.first.category, min(verdict.pair.score, 1.0))


def _merge_by_memory(merges: Iterable[Merge]) -> dict[UUID, Merge]:
    """The merge of every memory that takes part in one."""
    return {id_: merge for merge in merges for id_ in (merge.survivor.id, *(one.memory.id for one in merge.absorbed))}


def _pair_decisions(plan: Plan, dry_run: bool) -> Iterator[PairDecision]:
    heirs = _merge_by_memory(plan.merges)
    linked = {frozenset((edge.from_id, edge.to_id)) for edge in plan.links}
    for verdict in plan.verdicts:
        first, second = verdict.pair.first, verdict.pair.second
        ends = {heirs[one.id].survivor.id if one.id in heirs else one.id for one in (first, second)}
        action: Literal["merge", "link", "keep"] = "link" if ends in linked else "keep"
        if len(ends) == 1:
            action = "merge"
        if dry_run or action != "keep":
            yield PairDecision(
                first.user_id if dry_run else None,
                first.category,
                (first.id, second.id),
                (first.text, second.text) if dry_run else None,
                verdict.pair.score,
                verdict.rule,
                action,
            )


def _as_json(one: PairDecision) -> dict[str, Any]:
    row = asdict(one) | {"ids": [str(id_) for id_ in one.ids], "score": round(one.score, 4)}
    if one.texts is None:
        return {name: value for name, value in row.items() if name not in ("user_id", "texts")}
    return row | {"texts": list(one.texts)}
