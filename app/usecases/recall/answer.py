"""The answer of memory.query, filled within its token budget (`docs/contract.md`, Recall)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from mnema_wire.marks import TagNames

from app.domain.facts.answers import FactAnswer
from app.domain.memory.memory import Memory, MemoryType
from app.domain.memory.presentation import render_bullet
from app.domain.recall.arrangement import AnswerLimits, RankedItem
from app.domain.recall.delta_header import Header, shrink_header
from app.domain.recall.hidden import Hidden
from app.domain.recall.instructions import AppliedInstruction
from app.domain.recall.passages import FoundChunk, Passage, place_parts
from app.domain.recall.scoring import ScoredCandidate
from app.domain.recall.selection import DroppedCandidate
from app.domain.recall.token_budget import TokenBudget, line_tokens
from app.domain.rendering.lines import (
    DAY_TOKENS,
    IDENTITY_TOKENS,
    citation_line,
    citation_mark,
    dated_line,
    identified_line,
    plain_line,
)
from app.domain.rendering.model_text import NOTHING, ModelText
from app.ports import TokenCounter
from app.storage.recall.search import Related
from app.usecases.recall.chunks import fit_passages


@dataclass(frozen=True, slots=True)
class AnswerItem:
    """One memory of the answer. `ranked` is None for a category with context mode `all`, which is not ranked.

    `line` is its line, `told` what a model reads of it: the same, perhaps with date and id. The memory has the text as
    stored. `instruction`: why a standing instruction comes with the answer. Chunks have a `mark`. The memory of a chunk
    has the text of its passage, and its place as `source`.
    """

    memory: Memory
    line: ModelText
    told: ModelText
    ranked: RankedItem | None = None
    strength: float | None = None
    mark: str | None = None
    instruction: AppliedInstruction | None = None

    @property
    def text(self) -> str:
        """The line, for a face to send."""
        return self.line.text

    @property
    def scored(self) -> ScoredCandidate | None:
        """The scores of a ranked memory."""
        return None if self.ranked is None else self.ranked.scored


@dataclass(slots=True)
class Answer:
    """The answer to a query. `tokens` never exceeds the budget; `degraded` is the code of an unavailable model.

    `fact_answer` is None unless the query asks for facts of the user; `fact_line` is its text as a model reads it, and
    counts against the budget. `told_header` is the delta header.
    `answerable` is the probability that any candidate helps to answer; None if it is not known. `dropped` holds
    candidates that ranked too low, `left_out` items that did not fit into the budget. `query_id` is the id of the
    answer's receipt; None if it leaves none. `hidden`: the better matches that the answer lacks, only with explain.
    """

    items: list[AnswerItem] = field(default_factory=list)
    related: list[AnswerItem] = field(default_factory=list)
    told_header: ModelText = NOTHING
    delta: dict[str, Any] | None = None
    tokens: int = 0
    took_ms: float = 0.0
    degraded: str | None = None
    fact_answer: FactAnswer | None = None
    fact_line: ModelText = NOTHING
    answerable: float | None = None
    dropped: list[DroppedCandidate] = field(default_factory=list)
    left_out: dict[UUID, AnswerItem] = field(default_factory=dict)
    query_id: UUID | None = None
    hidden: list[Hidden] = field(default_factory=list)

    @property
    def header(self) -> str:
        """The delta header, for a face to send."""
        return self.told_header.text


@dataclass(frozen=True, slots=True)
class LineEnding:
    """The end of each line. `dated`: the day of the memory's last change; `identified`: day and id, for a model.

    A passage of a file has no day.
    """

    dated: bool
    identified: bool

    @property
    def tokens(self) -> int:
        """About the tokens that it adds to a line."""
        if self.identified:
            return IDENTITY_TOKENS
        return DAY_TOKENS if self.dated else 0


class AnswerBuilder:
    """A builder that fills an answer line by line and never splits a line.

    With `full`, metadata, source and tags count against the budget as well. `names` are the tags that lines may have.
    """

    def __init__(
        self,
        answer: Answer,
        budget: TokenBudget,
        tokens: TokenCounter,
        names: TagNames,
        *,
        full: bool,
        ending: LineEnding,
    ) -> None:
        self._answer = answer
        self._budget = budget
        self._tokens = tokens
        self._names = names
        self._full = full
        self._ending = ending
        self._pinned: list[AnswerItem] = []
        self._added_pinned: set[UUID] = set()
        self._added: set[UUID] = set()
        self._instructions: dict[UUID, AnswerItem] = {}

    @property
    def answered_ids(self) -> list[UUID]:
        """Ids of the memories in the answer."""
        return list(self._added)

    def relevant_ids(self, limits: AnswerLimits) -> list[UUID]:
        """Return the ids of the ranked memories in the answer that are there because they are relevant."""
        ranked = [(item.memory, item.scored) for item in self._answer.items if item.scored is not None]
        return [
            memory.id
            for memory, scored in ranked
            if limits.is_relevant(memory.category, scored.relevance, is_turn=memory.type is MemoryType.turn)
        ]

    @property
    def instruction_ids(self) -> set[UUID]:
        """Ids of the instructions in the answer."""
        return {item.memory.id for item in self._answer.items if item.instruction is not None}

    @property
    def spent_tokens(self) -> int:
        """Tokens that the answer uses so far."""
        return self._budget.total - self._budget.tokens_left

    def add_fact_answer(self, answer: FactAnswer) -> None:
        """Add the answer to a question about facts; leave it out if its text does not fit."""
        if not answer.asked:
            return
        line = plain_line(answer.text, self._names)
        if not answer.answered or self._budget.try_spend(self._line_cost(line)):
            self._answer.fact_answer = answer
            self._answer.fact_line = line

    def add_header(self, header: Header | None) -> Header | None:
        """Add as many bullets of `header` as fit. Return the header that was added, None if no bullet fits."""
        while header is not None:
            if self._budget.try_spend(sum(map(self._line_cost, header.lines))):
                self._answer.told_header = header.text
                return header
            header = shrink_header(header, header.shown - 1)
        return None

    def add_instructions(
        self, applied: Sequence[AppliedInstruction], memories: dict[UUID, Memory], scored: Sequence[ScoredCandidate]
    ) -> None:
        """Take the tokens of the instructions that apply, before those of all other memories: at most half of the rest.

        Each comes at the place that it is ranked at, or behind the ranked memories. `scored` are the candidates.
        """
        scores = {one.candidate.id: one for one in scored} if applied else {}
        reserve = -(-self._budget.tokens_left // 2)
        for one in applied:
            if (memory := memories.get(one.id)) is None:
                continue  # it is gone since
            ranked = RankedItem(scores[one.id], one.also) if one.id in scores else None
            item = replace(self._make_item(memory, ranked=ranked), instruction=one)
            if self._take_item(item, reserve):
                self._instructions[memory.id] = item
            else:
                self._answer.left_out[memory.id] = item

    def add_pinned_categories(self, memories: Sequence[Memory], *, ranked: bool) -> None:
        """Add the memories of categories with context mode `all`, beside the `top_k` ranked ones.

        With `ranked`, at least half of the remaining budget stays free for the ranked categories.
        """
        self._pinned = [self._make_item(memory) for memory in memories if memory.id not in self._added]
        self._add_pinned(reserve=-(-self._budget.tokens_left // 2) if ranked else 0)

    def add_ranked(self, ranked: Sequence[RankedItem], memories: dict[UUID, Memory]) -> None:
        """Add the ranked memories in their order, then the instructions that are not among them."""
        for item in ranked:
            memory = memories[item.scored.candidate.id]
            if (instruction := self._instructions.pop(memory.id, None)) is not None:
                also = instruction.instruction.also if instruction.instruction else ()
                item = replace(item, also=(*item.also, *(id_ for id_ in also if id_ not in item.also)))
                self._answer.items.append(replace(instruction, ranked=item))
            else:
                self._add_item(self._answer.items, self._make_item(memory, ranked=item))
        self._answer.items += self._instructions.values()
        self._instructions = {}

    def add_related(self, related: Sequence[Related], scored: Sequence[ScoredCandidate], limit: int) -> None:
        """Add at most `limit` memories that the answer does not contain yet, in the order of the question.

        `scored` are the candidates of the question, best first. Memories that are no candidates come last, the
        strongest first.
        """
        places = {s.candidate.id: place for place, s in enumerate(scored)}
        told = self._added.union(*(item.ranked.also for item in self._answer.items if item.ranked))
        new = [r for r in related if r.memory.id not in told]
        new.sort(key=lambda r: (places.get(r.memory.id, len(places)), -r.strength))
        for r in new[:limit]:
            self._add_item(self._answer.related, self._make_item(r.memory, strength=r.strength))

    def add_chunks(self, found: Sequence[FoundChunk], reach: int, most: int, share: float) -> None:
        """Add at most `most` chunks behind all memories, each with up to `reach` chunks before and after it.

        They use at most `share` of the whole budget, and never more than the rest of it.
        """
        floor = max(0, self._budget.tokens_left - int(share * self._budget.total))

        def take(passage: Passage, count: int) -> bool:
            ranked = RankedItem(passage.found.scored, passage.also)
            memory = passage.memory
            label = place_parts(passage.place)
            line = citation_line(count + 1, memory.text, self._names, category=memory.category, label=label)
            item = self._make_item(memory, line, ranked=ranked, mark=citation_mark(count + 1))
            if self._take_item(item, floor):
                self._answer.items.append(item)
                return True
            return False

        for passage in fit_passages(found, reach, most, take):
            self._added.update(passage.also)
        for one in found:
            if (memory := one.chunk.memory).id not in self._added:
                self._answer.left_out[memory.id] = AnswerItem(memory, NOTHING, NOTHING, RankedItem(one.scored))

    def fill_remaining(self) -> None:
        """Spend the rest of the budget on pinned categories that did not fit before."""
        self._add_pinned(reserve=0)
        self._answer.left_out |= {i.memory.id: i for i in self._pinned if i.memory.id not in self._added}

    def _add_pinned(self, reserve: int) -> None:
        fitting = (i for i in self._pinned if i.memory.id not in self._added and self._take_item(i, reserve))
        self._added_pinned |= {item.memory.id for item in fitting}
        others = [item for item in self._answer.items if item.ranked is not None or item.instruction is not None]
        self._answer.items = [item for item in self._pinned if item.memory.id in self._added_pinned] + others

    def _add_item(self, items: list[AnswerItem], item: AnswerItem) -> None:
        if self._take_item(item):
            items.append(item)
            self._answer.left_out.pop(item.memory.id, None)  # an instruction that took more than its share
        else:
            self._answer.left_out.setdefault(item.memory.id, item)  # a ranked memory may also be a related one

    def _take_item(self, item: AnswerItem, reserve: int = 0) -> bool:
        extra = _extra_text(item.memory) if self._full else ""
        cost = self._line_cost(item.told) + (self._text_cost(extra) if extra else 0)
        if self._budget.tokens_left - cost < reserve or not self._budget.try_spend(cost):
            return False
        self._added.add(item.memory.id)
        return True

    def _make_item(
        self,
        memory: Memory,
        line: ModelText | None = None,
        *,
        ranked: RankedItem | None = None,
        strength: float | None = None,
        mark: str | None = None,
    ) -> AnswerItem:
        """Return an item with this line, by default the memory's bullet."""
        plain = line or render_bullet(memory, self._names)
        days = memory.updated_at, memory.valid_to
        shown = dated_line(plain, *days) if self._ending.dated and mark is None else plain
        told = identified_line(plain, memory.id, *days) if self._ending.identified else shown
        return AnswerItem(memory, shown, told, ranked, strength, mark)

    def _line_cost(self, line: ModelText) -> int:
        return self._text_cost(line.text)

    def _text_cost(self, text: str) -> int:
        return line_tokens(text, self._tokens.count_tokens(text))


def _extra_text(memory: Memory) -> str:
    """Return the caller's own fields of a full answer as one line; they may be long."""
    fields = (memory.metadata, memory.source, memory.tags)
    return " ".join(json.dumps(value, ensure_ascii=False) for value in fields if value)
