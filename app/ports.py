"""What the use-cases need from outside, as protocols. Adapters live in `app.storage` and `app.providers`."""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.domain.consolidation.comparison import Judgement, Pair
from app.domain.principal import Principal
from app.domain.reflection.model_usage import Usage

Answer = TypeVar("Answer")
Vector: TypeAlias = NDArray[np.float32]
"""A unit-length embedding, shape (dimension,), float32."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """A text as its model sees it: as a whole, and word by word (`late_interaction.pack`) if the model tells that.

    `words`: for each token the word of the text it stands in, lower case.
    """

    vector: Vector
    tokens: bytes | None = None
    words: tuple[str, ...] = ()


in_transaction: ContextVar[bool] = ContextVar("in_transaction", default=False)
"""True while a unit of work is open. Providers refuse to be called then: a slow model must never hold a row lock."""


def refuse_inside_transaction(provider: str) -> None:
    """Raise RuntimeError when called while a unit of work is open in this task."""
    if in_transaction.get():
        raise RuntimeError(f"{provider} was called inside a database transaction")


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def model(self) -> str:
        """Name of the model; an embedding space belongs to exactly one."""
        ...

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        ...

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector a text, in order.

        Raises EmbedderUnavailable when the model cannot answer, RuntimeError inside a transaction.
        """
        ...

    async def embed_query(self, text: str) -> Vector:
        """As `embed` for one query; may be cached."""
        ...

    @property
    def gives_tokens(self) -> bool:
        """Whether `encode` tells tokens."""
        ...

    async def encode_texts(self, texts: Sequence[str]) -> list[Embedding]:
        """As `embed`, with the tokens, from the same pass through the model."""
        ...

    async def encode_query(self, text: str) -> Embedding:
        """As `encode` for one query; may be cached."""
        ...

    async def close(self) -> None:
        """Release threads and connections."""
        ...


class Reranker(Protocol):
    """Judges how well each text answers a question, looking at both at once."""

    @property
    def reads_texts(self) -> bool:
        """Whether queries ask it. False: the ranking does this by itself, from what is stored, or nobody does."""
        ...

    async def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
        """One number a text, in order; the higher, the more relevant. If it `reads_texts`, a logit: the sigmoid is the
        relevance.

        Raises RerankerUnavailable when the model cannot answer, RuntimeError inside a transaction.
        """
        ...

    async def check_health(self) -> None:
        """Raises RerankerUnavailable unless it works. What answered last is not asked again: it may cost."""
        ...

    async def close(self) -> None:
        """Release threads and connections."""
        ...


@dataclass(frozen=True, slots=True)
class Prompt(Generic[Answer]):
    """What a chat model is asked, in at most `max_tokens` of an answer that has the shape of `answer` (pydantic).

    `version`: name and number, `same_fact.v1`; whoever changes a word of a prompt counts it up. `rules` are ours;
    `question` is JSON, whose strings may be of people: data, and never instructions.
    """

    version: str
    rules: str
    question: str
    answer: type[Answer]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Reply(Generic[Answer]):
    """What came back, and what it cost. `value` None: an answer without the shape asked for."""

    value: Answer | None
    usage: Usage


class ChatModel(Protocol):
    """Answers prompts in structured form, at temperature 0."""

    @property
    def name(self) -> str:
        """The model's name; empty if there is none."""
        ...

    @property
    def is_available(self) -> bool:
        """False: there is no model, and what needs one is left undone."""
        ...

    async def generate_reply(self, prompt: Prompt[Answer]) -> Reply[Answer]:
        """One answer; what is transient is tried again within the time-out.

        Raises NoChatModel, ChatModelUnavailable when the model cannot answer, RuntimeError inside a transaction.
        """
        ...

    async def check_health(self) -> None:
        """Raises ChatModelUnavailable unless it can be reached. Costs no tokens."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class TokenCounter(Protocol):
    """Counts tokens for budgets."""

    def count_tokens(self, text: str) -> int:
        """WordPiece tokens in `text`, special tokens excluded."""
        ...


class SameFactJudge(Protocol):
    """Decides which memories state the same fact, where the deterministic rule is not enough."""

    async def judge_pairs(self, scope: Principal, pairs: Sequence[Pair]) -> Judgement:
        """Verdicts on some or all of the pairs; what is left out comes again another day.

        Raises RuntimeError inside a transaction.
        """
        ...


class JobQueue(Protocol):
    """Tells the workers that a job is there. May forget: a sweep finds what nobody was told of."""

    def publish_job(self, tenant_id: UUID, job_id: UUID) -> None:
        """Returns at once; call it after the job's transaction has committed."""
        ...


@dataclass(frozen=True, slots=True)
class CounterIncrement:
    """So many to be added to the counter of this name, which is kept for so long; with none to add, it is only read."""

    name: str
    add: int
    keep_s: int


class SharedCounters(Protocol):
    """Numbers that all replicas count together. They may be forgotten."""

    async def add_and_read(self, counts: Sequence[CounterIncrement]) -> list[int]:
        """Add and answer the totals, in order; with no counts, tell whether they can be reached.

        Raises CountersUnavailable; some may have been added then.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class Clock(Protocol):
    """Tells the time, in UTC."""

    def now(self) -> datetime:
        """The present instant, timezone-aware UTC."""
        ...
