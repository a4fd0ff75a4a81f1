"""Reconciliation of new facts with stored memories: a model's decisions, and the part of them that is carried out.

A model may only name the facts and memories of its question, and its decisions are checked. In doubt nothing is lost:
the memory stays and the fact is added.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal

from app.domain import english
from app.domain.memory.memory import MemoryType
from app.domain.memory.same_fact import content_stems, negation_words, number_and_date_keys
from app.domain.memory.veto import VetoReason, find_veto
from app.domain.reflection import grounding
from app.domain.reflection import writing_rules as writing
from app.domain.reflection.evidence import Evidence, Refusal, find_refusal, is_english
from app.domain.settable import SETTABLE, Range, RangedPolicy
from app.domain.text_rules import TextLimits, normalise_text, text_key

_EN: Final = english.patterns("reflection", "reconcile")

Rule = Literal["unknown_ids", "ids_twice", "ids_missing", "no_fact"]
MAX_NEIGHBOURS: Final = 10
_NEVER: Final = frozenset({"possessives", "fixed_pair"})
"""Differences that no evidence allows: another owner, another person, or the opposite."""
_TOLD_BY_FACT: Final = frozenset({None, "unrelated", "not_ended"})
"""Reasons against a deletion that do not count if the fact itself denies the memory."""
MAX_NEW_WORDS: Final = 3
"""Maximum words of a composed text that neither of its two sources has ("previously", "moved")."""


@dataclass(frozen=True, slots=True)
class ReconcilePolicy(RangedPolicy):
    """The settings of reconciliation.

    A fact is compared with at most `neighbours` memories whose cosine is at least `min_similarity`. The model is called
    at most `tries` times.
    """

    neighbours: Annotated[int, SETTABLE, Range(0, MAX_NEIGHBOURS)] = 5
    min_similarity: Annotated[float, SETTABLE, Range(0, 1)] = 0.4
    tries: Annotated[int, SETTABLE, Range(1, 5)] = 3


@dataclass(frozen=True, slots=True)
class MemoryDecision:
    """A decision on a stored memory. `fact` updates or denies it; `text` is a composed text that states both."""

    id: int
    event: Literal["NONE", "UPDATE", "DELETE"] = "NONE"
    fact: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class FactDecision:
    """A decision on a new fact. `memory` is the one that already states it."""

    fact: int
    event: Literal["ADD", "NONE"] = "ADD"
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class ReconcileDecisions:
    """A model's decisions: one for each memory and one for each fact."""

    memories: Sequence[MemoryDecision]
    facts: Sequence[FactDecision]


@dataclass(frozen=True, slots=True)
class StoredNeighbour:
    """A stored memory of the question. `near` are the facts similar to it. A `fixed` memory is never changed."""

    text: str
    near: frozenset[int]
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class FactWrite:
    """A write of a fact: a new memory, or an update of `memory`, perhaps with a composed `text`."""

    fact: int
    memory: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryDeletion:
    """A deletion of a memory because a fact denies it."""

    memory: int
    fact: int


@dataclass(frozen=True, slots=True)
class VetoedDecision:
    """A decision of the model that is not carried out, with the reason."""

    memory: int
    fact: int
    reason: VetoReason | Refusal


@dataclass(frozen=True, slots=True)
class ReconcilePlan:
    """The changes to carry out.

    `known` maps each fact that is already stored to its memory. `left` are the facts beyond the limit. `vetoed` are the
    decisions that are not carried out because the turn does not support them.
    """

    writes: Sequence[FactWrite] = ()
    forgets: Sequence[MemoryDeletion] = ()
    known: Mapping[int, int] = field(default_factory=dict)
    left: Sequence[int] = ()
    vetoed: Sequence[VetoedDecision] = ()

    @property
    def write_count(self) -> int:
        """The number of writes and deletions."""
        return len(self.writes) + len(self.forgets)

    def without_captured(
        self,
        captured: Collection[int],
        facts: Mapping[int, str],
        stored: Sequence[StoredNeighbour],
        room: int,
        *,
        is_supported: bool = False,
    ) -> "ReconcilePlan":
        """Return this plan without writes of facts that are stored already, with at most `room` changes.

        A memory that such a fact would have updated is deleted if the fact alone may replace it. With `is_supported`,
        the user's words support each update of this plan, so it may.
        """
        writes = [write for write in self.writes if write.fact not in captured]
        replaced = [
            MemoryDeletion(write.memory, write.fact)
            for write in self.writes
            if write.fact in captured and write.memory is not None and write.text in (None, facts[write.fact])
            if is_supported or may_replace(stored[write.memory].text, facts[write.fact])
        ]
        known = {fact: at for fact, at in self.known.items() if fact not in captured}
        left = [fact for fact in self.left if fact not in captured]
        forgets = list(dict.fromkeys([*self.forgets, *replaced]))
        return replace(self, writes=writes, forgets=forgets, known=known, left=left).limit_writes(room)

    def limit_writes(self, room: int) -> "ReconcilePlan":
        """Return this plan with at most `room` changes, writes before deletions."""
        writes = self.writes[:room]
        excess = self.writes[room:]
        kept = room - len(writes)
        forgets = self.forgets[:kept]
        unforgotten = self.forgets[kept:]
        left = [*(write.fact for write in excess), *(forget.fact for forget in unforgotten), *self.left]
        return replace(self, writes=writes, forgets=forgets, left=list(dict.fromkeys(left)))


def broken_rule(answer: ReconcileDecisions, memories: Collection[int], facts: Collection[int]) -> Rule | None:
    """Return the first rule that an answer breaks, or None. `memories` and `facts` are the ids in the question."""
    of_memories = [one.id for one in answer.memories]
    of_facts = [one.fact for one in answer.facts]
    named_facts = {*of_facts, *(one.fact for one in answer.memories)} - {None, *facts}
    named_memories = {*of_memories, *(one.memory for one in answer.facts)} - {None, *memories}
    if named_facts or named_memories:
        return "unknown_ids"
    if len(set(of_memories)) < len(of_memories) or len(set(of_facts)) < len(of_facts):
        return "ids_twice"
    if len(of_memories) < len(memories) or len(of_facts) < len(facts):
        return "ids_missing"
    return "no_fact" if any(one.event != "NONE" and one.fact is None for one in answer.memories) else None


def renumber_facts(answer: ReconcileDecisions, facts: Sequence[int]) -> ReconcileDecisions:
    """Replace the fact numbers of a question: number n becomes `facts[n]`."""
    of_memories = [replace(one, fact=None if one.fact is None else facts[one.fact]) for one in answer.memories]
    return ReconcileDecisions(of_memories, [replace(one, fact=facts[one.fact]) for one in answer.facts])


def plan_writes(
    facts: Mapping[int, str],
    stored: Sequence[StoredNeighbour],
    answer: ReconcileDecisions | None,
    room: int,
    evidence: Evidence | None = None,
) -> ReconcilePlan:
    """Plan at most `room` changes, facts first and in order. Without an answer, add every fact.

    `facts` are texts by number. A fact is left out only if an unchanged memory already states it. A vetoed decision
    leaves the memory, and the fact is added. `evidence` is the turn that the facts were found in.
    """
    order = list(facts)
    if answer is None:
        return ReconcilePlan([FactWrite(fact) for fact in order[:room]], left=order[room:])
    joins: dict[int, MemoryDecision] = {}
    forgets: list[MemoryDeletion] = []
    vetoed: list[VetoedDecision] = []
    for decision in answer.memories:
        memory = stored[decision.id]
        number = decision.fact
        if decision.event == "NONE" or number is None or number not in facts:
            continue
        if memory.fixed or number not in memory.near:
            continue
        veto = find_decision_veto(decision, memory.text, facts[number], evidence)
        if veto is not None and decision.event == "UPDATE" and decision.text:  # the fact's own text may still hold
            decision = replace(decision, text=None)
            veto = find_decision_veto(decision, memory.text, facts[number], evidence)
        if veto is not None:
            vetoed.append(VetoedDecision(decision.id, number, veto))
        elif decision.event == "UPDATE":
            joins.setdefault(number, decision)
        else:
            forgets.append(MemoryDeletion(decision.id, number))
    known = _known_facts(facts, stored, answer, joins)
    new_facts = [fact for fact in order if fact not in known]
    writes = [
        FactWrite(fact, join.id, join.text) if (join := joins.get(fact)) else FactWrite(fact)
        for fact in new_facts[:room]
    ]
    return ReconcilePlan(writes, forgets[: max(0, room - len(writes))], known, new_facts[room:], vetoed)


def _known_facts(
    facts: Mapping[int, str],
    stored: Sequence[StoredNeighbour],
    answer: ReconcileDecisions,
    joins: Mapping[int, MemoryDecision],
) -> dict[int, int]:
    """Return the facts that an unchanged memory already states, with that memory."""
    staying = {one.id for one in answer.memories if one.event == "NONE"}
    return {
        one.fact: one.memory
        for one in answer.facts
        if one.event == "NONE" and one.memory is not None and one.memory in staying
        if one.fact not in joins and one.fact in stored[one.memory].near
        if _covers_fact(stored[one.memory].text, facts[one.fact])
    }


def find_decision_veto(
    decision: MemoryDecision, memory: str, fact: str, evidence: Evidence | None = None
) -> VetoReason | Refusal | None:
    """Return the reason why an UPDATE or DELETE of a memory by a fact is not carried out, or None."""
    if decision.event == "UPDATE":
        return find_update_veto(memory, fact, decision.text, evidence)
    denied = _denies_memory(fact, memory)
    if evidence is None or not _is_readable(memory, fact, evidence):
        return None if denied else "not_ended"
    refusal = find_refusal(memory, None, evidence)
    return None if denied and refusal in _TOLD_BY_FACT else refusal


def find_update_veto(
    memory: str, fact: str, text: str | None = None, evidence: Evidence | None = None
) -> VetoReason | Refusal | None:
    """Return the reason why a fact, or the composed `text`, may not replace a memory, or None.

    With English evidence, the user's own words decide: another name, number, date or negation is allowed if they say
    it. Another owner or person is never allowed. Without evidence only the texts decide.
    """
    veto = _find_text_veto(memory, fact, text)
    if evidence is None or veto in _NEVER or not _is_readable(memory, fact, evidence):
        return veto
    return find_refusal(memory, text or fact, evidence)


def _is_readable(memory: str, fact: str, evidence: Evidence) -> bool:
    return is_english(evidence.text) and is_english(memory) and is_english(fact)


def _find_text_veto(memory: str, fact: str, text: str | None) -> VetoReason | None:
    """Return the difference that forbids a replacement without evidence of what the user said.

    The fact may differ in an amount. A text that keeps the memory's numbers and dates may add those of the fact.
    """
    if text and number_and_date_keys(memory) <= number_and_date_keys(text):
        vetoes = (find_veto(source, text, "new_value", numeric_update=True) for source in (memory, fact))
        return next((veto for veto in vetoes if veto not in (None, "numbers")), None)
    return find_veto(memory, fact, "new_value", numeric_update=True)


def may_replace(memory: str, fact: str, text: str | None = None, evidence: Evidence | None = None) -> bool:
    """Tell whether a fact may replace a memory. With `text`, tell whether this composed text may replace both."""
    return find_update_veto(memory, fact, text, evidence) is None


def checked_composition(text: str, memory: str, fact: str, limits: TextLimits) -> str | None:
    """Return a composed text in its stored form.

    Return None if it breaks a writing rule, lacks a part of the fact, or states something that neither source states.
    """
    both = f"{memory} {fact}"
    if writing.broken_rule(text, MemoryType.semantic, limits) is not None or text_key(text) == text_key(memory):
        return None
    if (
        grounding.find_foreign(text, both)
        or grounding.find_foreign(fact, text)
        or not number_and_date_keys(fact) <= number_and_date_keys(text)
    ):
        return None
    if number_and_date_keys(text) - number_and_date_keys(memory) - number_and_date_keys(fact) or not _keeps_denials(
        text, memory, fact
    ):
        return None
    stems = content_stems(text)
    fact_stems = content_stems(fact)
    new_words = stems - content_stems(memory) - fact_stems
    lost_words = fact_stems - stems
    if len(new_words) > MAX_NEW_WORDS or len(lost_words) > len(fact_stems) // 2:
        return None
    return normalise_text(text)


def _denies_memory(fact: str, memory: str) -> bool:
    """Tell whether only one text denies something, or only the fact states an end, and both speak of one thing."""
    denied = bool(negation_words(fact)) != bool(negation_words(memory))
    if not denied and not (_EN.ends.search(fact) and not _EN.ends.search(memory)):
        return False
    return find_veto(memory, fact, "new_value", numeric_update=False, is_denial=True) is None


def _covers_fact(memory: str, fact: str) -> bool:
    """Tell whether the memory has every name and number of the fact, in the same roles, and its negations."""
    if find_veto(memory, fact, "same", numeric_update=False):
        return False
    if grounding.find_foreign(fact, memory) or not number_and_date_keys(fact) <= number_and_date_keys(memory):
        return False
    return bool(negation_words(fact)) == bool(negation_words(memory))


def _keeps_denials(text: str, memory: str, fact: str) -> bool:
    """Tell whether the text keeps the fact's negation and adds none that neither source has."""
    denies = bool(negation_words(text))
    return denies >= bool(negation_words(fact)) and (not denies or bool(negation_words(fact) or negation_words(memory)))
