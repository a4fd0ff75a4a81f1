"""Protocols of the services that use-cases need: models, the job queue, shared counters and the clock.

Adapters are in `app.storage` and `app.providers`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.domain.chat.upstream import Upstream
from app.domain.consolidation.comparison import Judgement, Pair
from app.domain.memory.kept_turn import KeptTurn
from app.domain.principal import Principal
from app.domain.reflection.model_usage import Usage
from app.domain.rendering.model_text import ModelText
from app.domain.trusted_time import TrustedTime
from app.domain.webhooks.webhook import Attempt

Answer = TypeVar("Answer")
Vector: TypeAlias = NDArray[np.float32]
"""A unit-length embedding, shape (dimension,), float32."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """The embedding of one text.

    `tokens` are its packed token vectors (`late_interaction.pack_tokens`), None if the model gives none. `words` has
    for each token the word of the text that it is part of, in lower case.
    """

    vector: Vector
    tokens: bytes | None = None
    words: tuple[str, ...] = ()


class Embedder(Protocol):
    """An embedding model: it turns texts into unit vectors."""

    @property
    def model(self) -> str:
        """Name of the model. Each embedding space belongs to exactly one model."""

    @property
    def dimension(self) -> int:
        """Length of each vector."""

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector for each text, in order.

        Raise EmbedderUnavailable if the model cannot answer, RuntimeError inside a transaction.
        """

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of one query, perhaps from a cache. Raise the same errors as `embed_texts`."""

    @property
    def gives_tokens(self) -> bool:
        """True if `encode_texts` returns token vectors."""

    async def encode_texts(self, texts: Sequence[str]) -> list[Embedding]:
        """Return the vectors together with the tokens of one pass. Raise the same errors as `embed_texts`."""

    async def encode_query(self, text: str) -> Embedding:
        """Return the embedding of one query, perhaps from a cache. Raise the same errors as `embed_texts`."""

    async def close(self) -> None:
        """Release threads and connections."""


class Reranker(Protocol):
    """A model that reads a query and a text together and scores how well the text answers."""

    @property
    def reads_texts(self) -> bool:
        """True if queries call `score_texts`. False: ranking uses only stored data, such as late interaction."""

    async def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score for each text, in order; a higher score is more relevant.

        If `reads_texts` is True, the score is a logit: its sigmoid is the relevance. Raise RerankerUnavailable if the
        model cannot answer, RuntimeError inside a transaction.
        """

    async def check_health(self) -> None:
        """Raise RerankerUnavailable if the reranker does not work.

        A model whose last call succeeded is not called again, because a call may cost money.
        """

    async def close(self) -> None:
        """Release threads and connections."""


@dataclass(frozen=True, slots=True)
class Prompt(Generic[Answer]):
    """A prompt for a chat model.

    - `version`: name and number, such as `same_fact.v1`. Any changed word needs a new number.
    - `rules`: the instructions.
    - `question`: JSON. Its strings may come from people; they are data, never instructions.
    - `answer`: the pydantic model of the answer.
    - `max_tokens`: the longest answer.
    - `bounds`: by a field's name its most characters, its most items or its highest number, for this question.
    - `max_items`: the most items of each list of the answer, for a second try that is to be shorter.
    - `needs_all_items`: an answer with fewer items than the question asks for is wrong, so no try is shorter.
    """

    version: str
    rules: str
    question: ModelText
    answer: type[Answer]
    max_tokens: int
    bounds: Mapping[str, int] = field(default_factory=dict)
    max_items: int | None = None
    needs_all_items: bool = False


@dataclass(frozen=True, slots=True)
class Reply(Generic[Answer]):
    """A model's answer and its token usage. `value` is None if the answer does not have the requested shape.

    `is_cut`: the answer ended early, so `value` has only the items before its end. `refused`: the rules that the items
    which are not in `value` broke, one for each.
    """

    value: Answer | None
    usage: Usage
    is_cut: bool = False
    refused: Sequence[str] = ()


class AnswerListener(Protocol):
    """A listener to an answer while a model writes it. Its methods return at once and raise nothing."""

    def add_text(self, piece: str) -> None:
        """Take the next piece of the answer's text."""
        ...

    def begin_again(self, reason: str) -> None:
        """Drop the text so far, because the model writes the answer again.

        `reason` is the code of the broken rule, or `interrupted` if the connection was lost.
        """
        ...


class ChatModel(Protocol):
    """A language model that gives structured answers to prompts, at temperature 0 if it can."""

    @property
    def name(self) -> str:
        """The model's name; empty if no model is configured."""

    @property
    def is_available(self) -> bool:
        """True if a model is configured. Without one, work that needs a model is skipped."""

    @property
    def thinking_tokens(self) -> int:
        """The tokens that an answer may take beyond its prompt's limit, because the model thinks first."""

    def describe(self) -> str:
        """Return how the endpoint is asked, as far as that is known; empty if no model is configured."""

    async def generate_reply(self, prompt: Prompt[Answer], listener: AnswerListener | None = None) -> Reply[Answer]:
        """Return the model's answer. Retry transient failures within the time-out.

        With a `listener` the answer is streamed to it as the model writes it.

        Raise NoChatModel if no model is configured, ChatModelUnavailable if it cannot answer, RuntimeError inside a
        transaction.
        """

    async def check_health(self) -> None:
        """Raise ChatModelUnavailable if the model cannot be reached. The check costs no tokens."""

    async def close(self) -> None:
        """Release connections."""


class UpstreamReply(Protocol):
    """An answer of a chat endpoint whose body is still to be read. Close it, also after an error."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """The headers that may be passed on to the caller, with names in lower case."""

    def stream_body(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives.

        Raise UpstreamTimeout (phase `idle`) if nothing arrives for too long, UpstreamBroken if the connection ends too
        early, UpstreamUnusable beyond the size limit of an answer.
        """

    async def close(self) -> None:
        """End the call. The endpoint sees at once that nobody reads any more."""


class UpstreamClient(Protocol):
    """A client of chat endpoints, with bounded pools and time-outs."""

    async def open_call(
        self, upstream: Upstream, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes = b""
    ) -> UpstreamReply:
        """Send a request to `path` below the endpoint's base URL; return when the head of the answer has arrived.

        `headers` are sent as given, with the endpoint's key added, in the header of its API, unless they have one.
        Redirects are not followed.

        Raise ServerBusy if the tenant has too many open calls, UpstreamTimeout (phase `connect` or `first_byte`),
        UpstreamUnreachable, UpstreamUnusable, UpstreamNotAllowed, or RuntimeError inside a transaction.
        """

    async def check_address(self, upstream: Upstream) -> None:
        """Raise UpstreamNotAllowed if the endpoint may not be called, UpstreamUnreachable if its name is unknown."""

    async def close(self) -> None:
        """Release connections."""


class WebhookSender(Protocol):
    """A sender of webhooks, behind the guard of addresses that chat endpoints have."""

    async def check_url(self, url: str) -> None:
        """Raise WebhookNotAllowed if the URL may not be called, or if its host has no address."""

    async def send(self, tenant_id: UUID, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> Attempt:
        """Post a body and return the result; redirects are not followed. Raise RuntimeError inside a transaction."""

    async def close(self) -> None:
        """Release connections."""


class BlobStore(Protocol):
    """A store of blobs. A stored blob never changes. Its coroutines raise BlobStoreUnavailable."""

    def blob_uri(self, tenant_id: UUID, blob_id: UUID) -> str:
        """Return the address that a new blob of this id will have."""

    async def put_blob(self, principal: Principal, uri: str, content: bytes) -> None:
        """Store the blob durably. Raise RuntimeError inside a transaction, NotFound for another tenant's address."""

    async def get_blob(self, principal: Principal, uri: str) -> bytes:
        """Return the blob. Raise NotFound if there is none, or the same errors as `put_blob`."""

    async def delete_blob(self, principal: Principal, uri: str) -> None:
        """Delete the blob; a missing one is no error. Raise the same errors as `put_blob`."""

    async def check_health(self) -> None:
        """Check that the store works."""

    async def close(self) -> None:
        """Release connections."""


class TokenCounter(Protocol):
    """A counter of tokens for budgets."""

    def count_tokens(self, text: str) -> int:
        """Return the number of WordPiece tokens in `text`, without special tokens."""


class SameFactJudge(Protocol):
    """A judge of pairs of memories for which the deterministic rule is not enough."""

    async def judge_pairs(self, principal: Principal, pairs: Sequence[Pair]) -> Judgement:
        """Return verdicts on some or all of the pairs. A later consolidation asks again about the others.

        Raise RuntimeError inside a transaction.
        """


class JobQueue(Protocol):
    """A queue that notifies the workers of jobs. It may lose a notification; a sweep finds those jobs later."""

    def publish_job(self, tenant_id: UUID, job_id: UUID) -> None:
        """Notify the workers of a job without blocking. Call it after the job's transaction has committed."""


@dataclass(frozen=True, slots=True)
class CounterIncrement:
    """An addition to the counter `name`, which is kept for `keep_s` seconds. `add` 0 only reads the counter."""

    name: str
    add: int
    keep_s: int


class SharedCounters(Protocol):
    """Counters that all replicas share. They may be lost."""

    async def add_and_read(self, counts: Sequence[CounterIncrement]) -> list[int]:
        """Add all `counts` and return the totals, in order. An empty list only checks the connection.

        Raise CountersUnavailable if the counters cannot be reached; some may have been added by then.
        """

    async def close(self) -> None:
        """Release connections."""


class Clock(Protocol):
    """A source of the current time."""

    def now(self) -> datetime:
        """Return the current time as an aware datetime in UTC."""


class TrustedClock(Clock, Protocol):
    """The database's clock, guarded. What deletes by time asks it for a time that it vouches for."""

    async def trusted_time(self) -> TrustedTime:
        """Read the database's clock. Raise ClockSkew if the process's clock differs, or if it leapt."""

    async def follow_database(self) -> None:
        """Read the database's clock so that `now` follows it. Raise DatabaseUnavailable."""


class TurnSpool(Protocol):
    """Turns of chats on this server's disk, until the database takes them."""

    waiting_count: int
    """The number of turns that waited when this process last looked."""

    async def keep_turn(self, turn: KeptTurn) -> bool:
        """Write a turn to the disk. Return False if it has no room, or the disk takes nothing."""

    async def list_tenants(self) -> list[UUID]:
        """Return the tenants with turns that are due."""

    async def claim_turn(self, tenant: UUID) -> KeptTurn | None:
        """Return the oldest turn of a tenant that is due, None if there is none or it is unreadable.

        Nobody else gets it for a while.
        """

    async def postpone_turn(self, turn: KeptTurn, seconds: float) -> None:
        """Make a claimed turn due again after some seconds."""

    async def remove_turn(self, turn: KeptTurn) -> None:
        """Remove a turn that is stored."""

    async def require_room(self) -> None:
        """Raise SpoolUnavailable if the next turn would be lost."""

    async def close(self) -> None:
        """Close the file."""
