"""Daily consolidation, second half: merges, relations and a report, built from the verdicts.

The order of the verdicts never matters. After a plan is carried out, the next plan finds nothing to merge.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from app.domain.changes import Edge
from app.domain.consolidation.comparison import Pair, Rule, Verdict, deterministic_rule
from app.domain.memory.memory import Memory
from app.domain.memory.merge_bands import MergeBands
from app.domain.memory.same_fact import content_count

_REPLACING: Final = frozenset({"numeric", "new_value"})

IdPair: TypeAlias = frozenset[UUID]
"""The ids of two memories, unordered."""

MAX_DECISIONS: Final = 1000
"""The maximum number of decisions in a report. Its counts still include all of them."""


@dataclass(frozen=True, slots=True)
class AbsorbedMemory:
    """A memory that is merged into a survivor. `score` is their cosine, None if it was not measured."""

    memory: Memory
    rule: Rule
    score: float | None


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge of several memories into one.

    The survivor keeps its id and text and takes these values. The absorbed memories are superseded by it.
    """

    survivor: Memory
    absorbed: tuple[AbsorbedMemory, ...]
    importance: int
    pinned: bool
    tags: tuple[str, ...]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes that the verdicts lead to."""

    verdicts: tuple[Verdict, ...]
    merges: tuple[Merge, ...]
    links: tuple[Edge, ...]

    @property
    def absorbed_ids(self) -> frozenset[UUID]:
        """The memories that the merges supersede."""
        return frozenset(part.memory.id for merge in self.merges for part in merge.absorbed)


@dataclass(frozen=True, slots=True)
class PairDecision:
    """The action on one checked pair. `user_id` and `texts` are set only in a dry run, which stores nothing."""

    user_id: str | None
    category: str
    ids: tuple[UUID, UUID]
    texts: tuple[str, str] | None
    score: float
    rule: Rule | None
    action: Literal["merge", "link", "keep"]


@dataclass(frozen=True, slots=True)
class Report:
    """The counts of a run; `+` adds the reports of several users.

    - `merged`: memories absorbed into another.
    - `duplicates_before`, `duplicates_after`: see `count_duplicates`. They do not depend on the verdicts.
    - `skipped`: merges left for the next run, because a memory was changed in the meantime.
    - `left`: pairs worth a check without a verdict, because of the daily limit or of the model.
    - `unanswered`: the part of `left` for which the model did not answer.
    - `fault`: the failure of the model's endpoint.
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
        """Return the report as a JSON object without `fault`. A dry run's report includes the texts."""
        counts = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "fault"}
        return counts | {"decisions": [_as_json(decision) for decision in self.decisions]}


def make_plan(
    verdicts: Sequence[Verdict],
    bands: MergeBands,
    numeric_categories: Collection[str] = (),
    apart: Collection[IdPair] = (),
) -> Plan:
    """Build merges and relations from the verdicts on distinct pairs. No memory is in two merges.

    Pairs that are one fact form groups. In a merge, every absorbed memory is one fact with the survivor: by a verdict
    or, for an unchecked pair, by the deterministic rule. So no chain drifts from fact to fact. Two memories of a pair
    in `apart` are never in one merge.
    """
    ordered = tuple(sorted(verdicts, key=lambda verdict: (-verdict.pair.score, verdict.pair.fingerprint[:2])))
    by_pair = {verdict.pair.ids: verdict for verdict in ordered}
    groups = _connect(verdict.pair for verdict in ordered if verdict.rule is not None)
    merges = [merge for group in groups for merge in _group_merges(group, by_pair, numeric_categories, apart)]
    return Plan(ordered, tuple(merges), tuple(_relation_edges(ordered, merges, bands.link_min)))


def count_duplicates(pairs: Iterable[Pair], bands: MergeBands, without: Collection[UUID] = ()) -> int:
    """Return how many memories, apart from `without`, a neighbour as near as `auto_update` could replace.

    Of memories that such neighbours connect, all but one count. The cosine alone decides, so this is an upper bound.
    """
    near = [pair for pair in pairs if pair.score >= bands.auto_update and pair.ids.isdisjoint(without)]
    return sum(len(group) - 1 for group in _connect(near))


def plan_report(plan: Plan, *, pairs_seen: int, tokens: int = 0, dry_run: bool = False) -> Report:
    """Return the report of a plan that is carried out completely.

    Its decisions are the merges and links. With `dry_run` they are all pairs, with user and texts.
    """
    merged = sum(len(merge.absorbed) for merge in plan.merges)
    return Report(
        pairs_seen=pairs_seen,
        checked=len(plan.verdicts),
        merged=merged,
        linked=len(plan.links),
        tokens=tokens,
        decisions=tuple(islice(_pair_decisions(plan, dry_run), MAX_DECISIONS)),
    )


def _connect(pairs: Iterable[Pair]) -> list[list[Memory]]:
    """Return the groups of memories that pairs connect, directly or through other memories."""
    group_of: dict[UUID, list[Memory]] = {}
    for pair in pairs:
        first, second = (group_of.setdefault(memory.id, [memory]) for memory in (pair.first, pair.second))
        if first is not second:
            first.extend(second)
            group_of.update((memory.id, first) for memory in second)
    return list({id(group): group for group in group_of.values()}.values())


def _group_merges(
    group: Sequence[Memory],
    by_pair: Mapping[IdPair, Verdict],
    numeric_categories: Collection[str],
    apart: Collection[IdPair],
) -> Iterator[Merge]:
    """Merge into the best survivor, then into the best one of the remaining memories, and so on."""
    rules = _pair_rules(group, by_pair, numeric_categories)
    remaining = sorted(group, key=lambda memory: (-content_count(memory.text), memory.created_at, memory.id))
    while remaining:
        survivor = next(m for m in remaining if not any(_is_outdated(m, other, rules) for other in remaining))
        absorbed: list[Memory] = []
        for memory in remaining:
            one_fact = frozenset((memory.id, survivor.id)) in rules
            if one_fact and not _is_kept_apart(memory, [survivor, *absorbed], apart):
                absorbed.append(memory)
        if absorbed:
            yield _build_merge(survivor, absorbed, rules, by_pair)
        merged_ids = {survivor.id, *(memory.id for memory in absorbed)}
        remaining = [memory for memory in remaining if memory.id not in merged_ids]


def _is_kept_apart(memory: Memory, others: Iterable[Memory], apart: Collection[IdPair]) -> bool:
    return any(frozenset((memory.id, other.id)) in apart for other in others)


def _pair_rules(
    group: Sequence[Memory], by_pair: Mapping[IdPair, Verdict], numeric_categories: Collection[str]
) -> dict[IdPair, Rule]:
    """Return the rule of each pair of the group that is one fact."""
    rules: dict[IdPair, Rule] = {}
    for at, memory in enumerate(group):
        for other in group[at + 1 :]:
            ids = frozenset((memory.id, other.id))
            rule = by_pair[ids].rule if ids in by_pair else deterministic_rule(memory, other, numeric_categories)
            # Pinning changes updated_at too, so the later value is known only if both times agree.
            if rule is not None and (rule not in _REPLACING or _is_later(memory, other) or _is_later(other, memory)):
                rules[ids] = rule
    return rules


def _is_later(memory: Memory, other: Memory) -> bool:
    return memory.created_at > other.created_at and memory.updated_at > other.updated_at


def _is_outdated(memory: Memory, other: Memory, rules: Mapping[IdPair, Rule]) -> bool:
    return rules.get(frozenset((memory.id, other.id))) in _REPLACING and _is_later(other, memory)


def _build_merge(
    survivor: Memory,
    absorbed: Sequence[Memory],
    rules: Mapping[IdPair, Rule],
    by_pair: Mapping[IdPair, Verdict],
) -> Merge:
    parts = []
    for memory in absorbed:
        ids = frozenset((memory.id, survivor.id))
        parts.append(AbsorbedMemory(memory, rules[ids], by_pair[ids].pair.score if ids in by_pair else None))
    memories = [survivor, *absorbed]
    return Merge(
        survivor,
        tuple(parts),
        importance=max(memory.importance for memory in memories),
        pinned=any(memory.pinned for memory in memories),
        tags=tuple(dict.fromkeys(tag for memory in memories for tag in memory.tags)),
        created_at=min(memory.created_at for memory in memories),
    )


def _relation_edges(verdicts: Iterable[Verdict], merges: Iterable[Merge], link_min: float) -> Iterator[Edge]:
    """Yield one relation, from the newer to the older, for each two memories that stay separate.

    If several pairs lead to the same two memories, the nearest pair gives the strength.
    """
    merge_of = _merge_by_memory(merges)
    linked: set[tuple[UUID, UUID]] = set()
    for verdict in verdicts:  # best first
        ends = []
        for memory in (verdict.pair.first, verdict.pair.second):
            merge = merge_of.get(memory.id)
            ends.append((merge.created_at, merge.survivor.id) if merge else (memory.created_at, memory.id))
        (_, old), (_, new) = sorted(ends)
        if old != new and _is_linkable(verdict.pair, link_min) and (old, new) not in linked:
            linked.add((old, new))
            yield Edge(new, old, verdict.pair.first.category, min(verdict.pair.score, 1.0))


def _is_linkable(pair: Pair, link_min: float) -> bool:
    return pair.linkable and pair.score >= link_min


def _merge_by_memory(merges: Iterable[Merge]) -> dict[UUID, Merge]:
    """Return the merge of each memory that is in one, by memory id."""
    return {id_: merge for merge in merges for id_ in (merge.survivor.id, *(part.memory.id for part in merge.absorbed))}


def _pair_decisions(plan: Plan, dry_run: bool) -> Iterator[PairDecision]:
    merge_of = _merge_by_memory(plan.merges)
    linked = {frozenset((edge.from_id, edge.to_id)) for edge in plan.links}
    for verdict in plan.verdicts:
        first = verdict.pair.first
        second = verdict.pair.second
        ends = {merge_of[m.id].survivor.id if m.id in merge_of else m.id for m in (first, second)}
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


def _as_json(decision: PairDecision) -> dict[str, Any]:
    row = asdict(decision) | {"ids": [str(id_) for id_ in decision.ids], "score": round(decision.score, 4)}
    if decision.texts is None:
        return {name: value for name, value in row.items() if name not in ("user_id", "texts")}
    return row | {"texts": list(decision.texts)}
