"""New facts beside what is stored: what a model decides of both, and what of that may be done (seed 002, SPEC §13).

A model may only point at what it was asked about. What it says is held against bounds of our own, and every doubt is
settled the way that loses nothing: the memory stays and the fact is added.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from app.domain.memory.memory import MemoryType
from app.domain.memory.same_fact import content_stems, negation_words, number_and_date_keys
from app.domain.reflection import grounding
from app.domain.reflection import writing_rules as writing
from app.domain.text_rules import TextLimits, normalise_text, text_key

Rule = Literal["unknown_ids", "ids_twice", "ids_missing", "no_fact"]
MAX_NEIGHBOURS: Final = 10
MAX_NEW_WORDS: Final = 3
"""Words of a composed text that neither of the two it is made of has ("previously", "moved")."""

_ENDS: Final = re.compile(
    r"\b(?:left|sold|lost|moved|gave|gone|resigned|closed|expired|replaced|recovered|cured|outgrew|outgrown|instead)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ReconcilePolicy:
    """`neighbours` of one fact are compared, from cosine `min_similarity` up; the model is asked `tries` times."""

    neighbours: int = 5
    min_similarity: float = 0.4
    tries: int = 3

    def __post_init__(self) -> None:
        if not 0 <= self.neighbours <= MAX_NEIGHBOURS or not 0 <= self.min_similarity <= 1 or not 1 <= self.tries <= 5:
            raise ValueError(f"neighbours from 0 to {MAX_NEIGHBOURS}, min_similarity from 0 to 1, tries from 1 to 5")


@dataclass(frozen=True, slots=True)
class MemoryDecision:
    """What becomes of a stored memory. `fact`: its newer form, or what denies it; `text`: what stands for both."""

    id: int
    event: Literal["NONE", "UPDATE", "DELETE"] = "NONE"
    fact: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class FactDecision:
    """What becomes of a new fact. `memory`: the one that says it already."""

    fact: int
    event: Literal["ADD", "NONE"] = "ADD"
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class ReconcileDecisions:
    """A model's answer: each memory once, each fact once."""

    memories: Sequence[MemoryDecision]
    facts: Sequence[FactDecision]


@dataclass(frozen=True, slots=True)
class StoredNeighbour:
    """A memory that was asked about. `near`: the facts close enough to bear on it; `fixed`: it is left as it is."""

    text: str
    near: frozenset[int]
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class FactWrite:
    """A fact to be written: a memory of its own, or the newer form of `memory`, whose text may be composed."""

    fact: int
    memory: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryDeletion:
    """A memory to be deleted, for this fact denies it."""

    memory: int
    fact: int


@dataclass(frozen=True, slots=True)
class ReconcilePlan:
    """What is done. `known`: facts that a memory says already, and which; `left`: facts there is no room for."""

    writes: Sequence[FactWrite] = ()
    forgets: Sequence[MemoryDeletion] = ()
    known: Mapping[int, int] = field(default_factory=dict)
    left: Sequence[int] = ()

    @property
    def write_count(self) -> int:
        """How many writes it is."""
        return len(self.writes) + len(self.forgets)

    def limit_writes(self, room: int) -> "ReconcilePlan":
        """As much of it as `room` writes are, facts first."""
        writes, over = self.writes[:room], self.writes[room:]
        forgets = self.forgets[: room - len(writes)]
        return replace(self, writes=writes, forgets=forgets, left=[*(one.fact for one in over), *self.left])


def broken_rule(answer: ReconcileDecisions, memories: Collection[int], facts: Collection[int]) -> Rule | None:
    """The first rule that an answer breaks; `memories` and `facts`: those in the question."""
    of_memories, of_facts = [one.id for one in answer.memories], [one.fact for one in answer.facts]
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
    """The same of facts by other numbers: `facts` has that of each in the question."""
    of_memories = [replace(one, fact=None if one.fact is None else facts[one.fact]) for one in answer.memories]
    return ReconcileDecisions(of_memories, [replace(one, fact=facts[one.fact]) for one in answer.facts])


def plan_writes(
    facts: Mapping[int, str], stored: Sequence[StoredNeighbour], answer: ReconcileDecisions | None, room: int
) -> ReconcilePlan:
    """At most `room` writes, facts first, in their order; without an answer every fact is added. `facts`: by number.

    A fact is left out only if a memory that stays as it is says it already.
    """
    order = list(facts)
    if answer is None:
        return ReconcilePlan([FactWrite(fact) for fact in order[:room]], left=order[room:])
    joins: dict[int, MemoryDecision] = {}
    forgets: list[MemoryDeletion] = []
    for one in answer.memories:
        if one.fact not in facts or stored[one.id].fixed or one.fact not in stored[one.id].near:
            continue
        if one.event == "UPDATE":
            joins.setdefault(one.fact, one)
        elif one.event == "DELETE" and _differs_in_denial(facts[one.fact], stored[one.id].text):
            forgets.append(MemoryDeletion(one.id, one.fact))
    staying = {one.id for one in answer.memories if one.event == "NONE"}
    known = {
        one.fact: one.memory
        for one in answer.facts
        if one.event == "NONE" and one.memory is not None and one.memory in staying
        if one.fact not in joins and one.fact in stored[one.memory].near
        if _covers_fact(stored[one.memory].text, facts[one.fact])
    }
    wanted = [fact for fact in order if fact not in known]
    writes = [_build_write(fact, joins.get(fact)) for fact in wanted[:room]]
    return ReconcilePlan(writes, forgets[: max(0, room - len(writes))], known, wanted[room:])


def checked_composition(text: str, memory: str, fact: str, limits: TextLimits) -> str | None:
    """A text made of both, as it is stored; None if it breaks a writing rule, lacks something of the fact, or says
    what neither says."""
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
    said, of_fact = content_stems(text), content_stems(fact)
    if len(said - content_stems(memory) - of_fact) > MAX_NEW_WORDS or len(of_fact - said) > len(of_fact) // 2:
        return None
    return normalise_text(text)


def _differs_in_denial(fact: str, memory: str) -> bool:
    """Whether one of them denies something, or tells of an end, and the other does not."""
    return bool(negation_words(fact)) != bool(negation_words(memory)) or bool(
        _ENDS.search(fact) and not _ENDS.search(memory)
    )


def _covers_fact(memory: str, fact: str) -> bool:
    """Whether the memory has every name and number of the fact, and denies if that does."""
    if grounding.find_foreign(fact, memory) or not number_and_date_keys(fact) <= number_and_date_keys(memory):
        return False
    return bool(negation_words(fact)) == bool(negation_words(memory))


def _build_write(fact: int, join: MemoryDecision | None) -> FactWrite:
    return FactWrite(fact) if join is None else FactWrite(fact, join.id, join.text)


def _keeps_denials(text: str, memory: str, fact: str) -> bool:
    """What the fact denies is denied still, and nothing is that neither denies."""
    said = bool(negation_words(text))
    return said >= bool(negation_words(fact)) and (not said or bool(negation_words(fact) or negation_words(memory)))
