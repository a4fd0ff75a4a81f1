"""A query as a client sends it, and the state that it carries through its stages."""

from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from uuid import UUID

from app.domain.errors import InvalidInput
from app.domain.filters import Conditions, Filters
from app.domain.memory.moments import NOW, Moments
from app.domain.recall.delta_header import DeltaEntry
from app.domain.receipts.receipt import Via
from app.usecases.recall.answer import Answer, AnswerBuilder
from app.usecases.recall.ranking import Ranking


@dataclass(frozen=True, slots=True)
class Query:
    """A query as a client sends it (`docs/contract.md`, Recall). None means the default of the configuration.

    `since_rev` None: the agent's cursor. `zone` is the time zone of words such as "yesterday" in `query`. The answer
    has no turns of `thread_id` from `before_seq` on, and none of the memories `exclude_ids`. `neighbours`: the number
    of chunks before and after each chunk that are answered with it. `dates`: lines end with the day of the memory's
    last change. `identified`: lines for a model end with day and id of the memory. `moments`: the times that the query
    is about; if they are not NOW, it needs a user, and there is no delta. `via`: the way in, for the receipt.
    """

    agent: str | None
    query: str
    categories: tuple[str, ...] = ()
    filters: Filters = field(default_factory=Filters)
    top_k: int | None = None
    budget_tokens: int | None = None
    threshold: float | None = None
    min_relevance: float | None = None
    thread_id: str | None = None
    before_seq: int | None = None
    exclude_ids: tuple[UUID, ...] = ()
    since_rev: int | None = None
    explain: bool = False
    profile: str | None = None
    zone: tzinfo = UTC
    full: bool = False
    neighbours: int = 0
    dates: bool | None = None
    identified: bool = False
    moments: Moments = NOW
    via: Via = "query"

    def __post_init__(self) -> None:
        if not self.moments.is_now and self.since_rev is not None:
            raise InvalidInput("since_rev is about changes until now; leave it out with as_of or valid_at")

    @property
    def has_delta(self) -> bool:
        """True if the answer tells what changed in the thread."""
        return self.thread_id is not None and self.moments.is_now

    @property
    def left_out(self) -> Conditions:
        """The conditions that leave out what the caller does not want. Raise InvalidInput."""
        conditions = Conditions()
        if self.exclude_ids:
            conditions["exclude_ids"] = [str(id_) for id_ in self.exclude_ids]
        if self.before_seq is not None:
            if self.thread_id is None:
                raise InvalidInput("before_seq needs thread_id")
            conditions["before_seq"] = self.before_seq
            conditions["before_thread"] = self.thread_id
        return conditions


@dataclass(slots=True)
class QueryState:
    """The state that one query carries through its stages. `pinned_categories` are those with context mode `all`.

    `agent`: the one that the query speaks as. `bullets`: the changes that the answer's header shows.
    """

    agent: str
    query: Query
    ranking: Ranking
    pinned_categories: list[str]
    answer: Answer
    builder: AnswerBuilder
    bullets: list[DeltaEntry] = field(default_factory=list)

    def finish_answer(self) -> Answer:
        """Return the answer with what its ranking found and what it spent."""
        self.answer.degraded = self.ranking.degraded
        self.answer.answerable = self.ranking.answerable
        self.answer.dropped = self.ranking.dropped
        self.answer.tokens = self.builder.spent_tokens
        return self.answer
