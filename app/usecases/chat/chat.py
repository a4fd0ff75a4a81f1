"""Chat with memory: what happens before a request is forwarded, and after its answer has come.

Memory never fails a chat. If a step fails, the chat goes on without it, and the memory label says so (`docs/chat.md`).
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

import structlog
from mnema_wire.marks import ROLES, TagNames

from app.config.tenant_policies import TenantPolicies
from app.domain.chat.conversation import default_user, first_identifier
from app.domain.chat.members import added_members
from app.domain.chat.memories import MEMORY_ROLE, ChatMemories, MemoryHit, RetrievalOptions
from app.domain.chat.request import ChatRequest
from app.domain.chat.thoughts import strip_thoughts
from app.domain.client_prompts import find_user_words, is_client_prompt
from app.domain.errors import CategoryNotAllowed, IdempotencyMismatch
from app.domain.facts.answers import FactAnswer
from app.domain.facts.fact import FactOperation, QuestionPart
from app.domain.facts.label import MemoryActions
from app.domain.facts.reading import parse_question, read_stated
from app.domain.idempotency import OptionalKey
from app.domain.memory.kept_turn import KeptTurn
from app.domain.memory.memory import MemoryType, NewMemory, Origin
from app.domain.outages import EmbedderUnavailable
from app.domain.principal import Principal
from app.domain.rendering.lines import chat_preface
from app.domain.text_rules import normalise_text, replace_halves
from app.ports import Clock, Embedder, Embedding
from app.storage.identity import new_id
from app.usecases.chat.kept_turns import OUTAGES, KeptTurns
from app.usecases.chat.retrieval import RetrieveForChat
from app.usecases.facts.answer import AnswerFacts
from app.usecases.memory.turns import CheckedTurn, StoredTurn, StoreTurn

log = structlog.get_logger(__name__)
MAX_QUESTION: Final = 8000
"""Maximum characters of a message that are used to search memory. More of the message is stored."""
EMBEDDING_SHARE: Final = 0.7
"""The part of the time for memory that the embedder may take."""
CALLER_ERRORS: Final = (CategoryNotAllowed, IdempotencyMismatch)
"""Errors that the caller must hear of. Any other error of the memory lets the chat go on."""
_EmbeddingUnderWay: TypeAlias = asyncio.Future[Embedding | None]


@dataclass(slots=True)
class Chat:
    """A chat under way: what memory did for it so far.

    `answer` is set if stored facts answer it, so that no endpoint is called. `names` are the tags that Mnema's own
    lines may have. `unstored` is a turn that is not in the database yet. `is_pending`: a turn of the chat waits on this
    server's disk for the database.
    """

    principal: Principal
    request: ChatRequest
    user_id: str
    created_at: datetime
    key: OptionalKey = None
    actions: MemoryActions = field(default_factory=MemoryActions)
    memories: ChatMemories = field(default_factory=ChatMemories)
    answer: FactAnswer | None = None
    names: TagNames = ROLES
    unstored: KeptTurn | None = None
    is_pending: bool = False

    @property
    def is_client_prompt(self) -> bool:
        """True if the chat client itself asks, in the user's name."""
        return self.request.message is not None and is_client_prompt(self.request.message.text)

    @property
    def label(self) -> str:
        """The memory label."""
        return self.actions.label(self.request.model or "unknown", used_web=self.request.used_web)

    def forwarded_body(self) -> bytes:
        """Return the body for the endpoint, with what memory has put before the message."""
        hits = self.memories.hits
        days = [hit.days for hit in hits] if self.memories.dated else ()
        told = ((hit.role, hit.content) for hit in hits)
        return self.request.forwarded_body(chat_preface(self.memories.summary, told, self.names, days))

    def added_members(self) -> bytes:
        """Return the members that are added to the answer, as JSON without braces."""
        hits = [
            {"role": h.role, "content": h.content, "created_at": h.created_at.isoformat(), "score": h.score}
            for h in self.memories.hits
        ]
        meta = {
            "usedWebSearch": self.request.used_web,
            "usedMemory": self.actions.retrieved > 0,
            "memory_actions": self.actions.as_counts(),
            **({"memory_pending": True} if self.is_pending else {}),
        }
        return added_members(hits, self.label, meta)

    def mark_failed(self) -> None:
        """Note that a part of the memory failed. The counts so far stay."""
        self.actions = replace(self.actions, failed=True)


@dataclass(frozen=True)
class ChatWithMemory:
    """The use-case around one call of a chat endpoint."""

    turns: StoreTurn
    kept: KeptTurns
    facts: AnswerFacts
    retrieval: RetrieveForChat
    embedder: Embedder
    policies: TenantPolicies
    clock: Clock

    async def begin_chat(self, principal: Principal, request: ChatRequest, key: OptionalKey = None) -> Chat:
        """Store the user's message; answer it from facts, or find the memories to put before it.

        A prompt of the chat client itself (a title, tags) is only forwarded. Raise CategoryNotAllowed if the key
        may not see turns, IdempotencyMismatch for a key of another request, InvalidInput for an invalid user.
        """
        principal.require_categories([self.policies.of(principal).turn_category])
        names = self.policies.of(principal).categories.tag_names
        user_from = self.policies.of(principal).chat.user_from
        user_id = first_identifier(request.named_users, user_from) or default_user(principal)
        chat = Chat(principal, request, user_id, self.clock.now(), key, names=names)
        if request.message is not None and not chat.is_client_prompt:
            try:
                async with asyncio.timeout(self.policies.defaults.chat.memory_timeout_s):
                    await self._use_memory(chat, find_user_words(replace_halves(request.message.text)))
            except CALLER_ERRORS:
                raise
            except Exception as error:
                _note_failure(chat, "begin", error)
            await self._keep_unstored(chat)
        return chat

    async def record_answer(self, chat: Chat, text: str, *, incomplete: bool = False) -> None:
        """Store what the assistant said, without a model's thoughts; `incomplete` marks an answer that was broken off.

        Store nothing if nothing else was said, or if the chat client itself asked. If the database stores nothing now,
        this server keeps the answer until it does.
        """
        text = replace_halves(strip_thoughts(text))  # a stream may cut a character into two events
        if not text or chat.is_client_prompt:
            return
        metadata: dict[str, Any] = {
            "model": chat.request.model,
            "model_label": chat.label,
            "answered_by": "upstream" if chat.answer is None else "facts",
            "hits": [str(hit.id) for hit in chat.memories.hits],
        }
        if incomplete:
            metadata["incomplete"] = True
        kind = "incomplete answer" if incomplete else "answer"
        key = chat.key and replace(chat.key, route=f"{chat.key.route} {kind}")
        try:
            async with asyncio.timeout(self.policies.defaults.chat.memory_timeout_s):
                await self._store_turn(chat, self._hold_turn(chat, "assistant", text, metadata, key))
        except OUTAGES as error:
            if not await self._keep_unstored(chat):
                _note_failure(chat, kind.replace(" ", "_"), error)
        except Exception as error:
            _note_failure(chat, kind.replace(" ", "_"), error)

    def _hold_turn(self, chat: Chat, role: str, text: str, metadata: dict[str, Any], key: OptionalKey) -> KeptTurn:
        """Return a turn to store; it is `chat.unstored` until it is stored."""
        draft = self.turns.check_turn(chat.principal, self._draft_turn(chat, role, text, metadata), trim=True)
        chat.unstored = KeptTurn.of(new_id(), chat.principal, draft, key)
        return chat.unstored

    async def _store_turn(
        self,
        chat: Chat,
        turn: KeptTurn,
        embedding: _EmbeddingUnderWay | None = None,
        stated: tuple[FactOperation, ...] | None = None,
    ) -> StoredTurn:
        """Store a turn. It stays in `chat.unstored` if the database does not store it in time."""
        with _dropping_refused(chat):
            checked = CheckedTurn(turn.turn, turn.memory_id, stated)
            stored = await self.turns.store_checked(chat.principal, checked, key=turn.key, embedding=embedding)
        chat.unstored = None
        return stored

    async def _keep_unstored(self, chat: Chat) -> bool:
        """Keep the turn that the database did not store. Return False if that is not possible either."""
        turn, chat.unstored = chat.unstored, None
        if turn is None:
            return True
        is_kept = await self.kept.keep_turn(turn)
        chat.is_pending = chat.is_pending or is_kept
        return is_kept

    async def _use_memory(self, chat: Chat, text: str) -> None:
        """Store the message, and answer it or find memories. Raise NulByte for a text that cannot be stored."""
        question = normalise_text(text[:MAX_QUESTION])
        embedding = asyncio.ensure_future(self._embed_question(chat, question))
        try:
            facts = self.policies.of(chat.principal).facts
            asked = parse_question(question, facts.topics)
            stated = read_stated(question, facts.topics, facts.max_rank, asked)
            parts = self._parts_to_answer(chat, asked)
            store = self._store_message(chat, text, question, stated, embedding)
            if parts:
                await store
                await self._answer_question(chat, question, parts, embedding)
            elif topics := frozenset(operation.topic_key for operation in stated):
                await _run_steps(chat, store)
                await _run_steps(chat, self._find_memories(chat, question, embedding, topics))
            else:
                await _run_steps(chat, store, self._find_memories(chat, question, embedding))
        finally:
            embedding.cancel()

    def _parts_to_answer(self, chat: Chat, asked: tuple[QuestionPart, ...]) -> tuple[QuestionPart, ...]:
        """Return what stored facts may answer. A question without a topic refers to the messages before it."""
        visible = chat.principal.categories
        if visible is not None and self.policies.of(chat.principal).facts.category not in visible:
            return ()
        return asked if chat.request.is_alone or all(part.topic_key for part in asked) else ()

    async def _answer_question(
        self, chat: Chat, question: str, parts: tuple[QuestionPart, ...], embedding: _EmbeddingUnderWay
    ) -> None:
        """Answer from facts if they settle the whole question: they have the value, or only other ranks of its topic.

        Else the upstream gets the facts with the memories.

        If nothing at all is known, answer that without a model, unless a part of the memory failed or the request has
        other messages.
        """
        answer = await self.facts.answer_parts(chat.principal, chat.user_id, chat.request.memory_id, parts)
        if answer.is_settled and chat.request.is_plain:
            chat.answer = answer
            self._count_retrieved(chat, answer)
            return
        await self._find_memories(chat, question, embedding)
        if answer.is_doubted:  # the upstream decides by the days of the statements
            chat.memories = replace(chat.memories, dated=True)
        if answer.answered:
            other = (hit for hit in chat.memories.hits if hit.fact_topic not in answer.topic_keys)
            chat.memories = replace(chat.memories, hits=(_hit_of(answer), *other))
            self._count_retrieved(chat, answer)
        elif (
            answer.asked
            and parts[0].topic_key
            and _asks_memory_alone(chat)
            and not (chat.memories.found or chat.actions.failed)
        ):
            chat.answer = answer

    async def _store_message(
        self,
        chat: Chat,
        text: str,
        question: str,
        stated: tuple[FactOperation, ...],
        embedding: _EmbeddingUnderWay,
    ) -> None:
        """Store the user's message and the facts that it states, unless it is stored already and not yet answered.

        `stated` is what `question` states. For a long text, `question` is only its beginning.
        """
        turn = self._hold_turn(chat, "user", text, {}, chat.key)
        with _dropping_refused(chat):
            if len(text) <= MAX_QUESTION and await self.kept.is_repeated(chat.principal, turn.turn, question):
                chat.unstored = None
                return
        stored = await self._store_turn(chat, turn, embedding, stated if turn.turn.text == question else None)
        if stored.actions is not None:
            chat.actions = replace(chat.actions, stored=stored.actions.stored, updated=stored.actions.updated)

    async def _find_memories(
        self, chat: Chat, question: str, embedding: _EmbeddingUnderWay, stated: frozenset[str | None] = frozenset()
    ) -> None:
        """Find memories for the upstream, without those of the topics `stated`: the message has them already."""
        request = chat.request
        await embedding  # retrieval finds it in the cache of queries
        options = RetrievalOptions(request.top_k, request.recency_weight, request.score_threshold)
        chat.memories = await self.retrieval.retrieve_memories(
            chat.principal, chat.user_id, request.memory_id, question, options, present=request.texts
        )
        if stated:
            others = (hit for hit in chat.memories.hits if hit.fact_topic is None or hit.fact_topic not in stated)
            chat.memories = replace(chat.memories, hits=tuple(others))
        if chat.memories.degraded is not None:
            chat.mark_failed()
        self._count_retrieved(chat)

    async def _embed_question(self, chat: Chat, question: str) -> Embedding | None:
        """Return the embedding; None if the embedder fails or takes most of the time for memory."""
        try:
            async with asyncio.timeout(EMBEDDING_SHARE * self.policies.defaults.chat.memory_timeout_s):
                return await self.embedder.encode_query(question)
        except (EmbedderUnavailable, TimeoutError) as error:
            _note_failure(chat, "embed", error)
            return None

    def _count_retrieved(self, chat: Chat, answer: FactAnswer | None = None) -> None:
        topics = answer.topic_keys if answer else frozenset[str]()
        told = {fact.id for fact in answer.facts} if answer else set[UUID]()
        used = {hit.category for hit in chat.memories.hits if hit.id not in told}
        count = len(topics) + (len(used) if self.policies.of(chat.principal).chat.count_memories else 0)
        chat.actions = replace(chat.actions, retrieved=count)

    def _draft_turn(self, chat: Chat, role: str, text: str, metadata: dict[str, Any]) -> NewMemory:
        policies = self.policies.of(chat.principal)
        return NewMemory(
            user_id=chat.user_id,
            category=policies.turn_category,
            text=text,
            type=MemoryType.turn,
            thread_id=chat.request.memory_id,
            role=role,
            importance=policies.write.default_importance,
            metadata=metadata,
            origin=Origin.chat,
        )


@contextmanager
def _dropping_refused(chat: Chat) -> Iterator[None]:
    """Keep the turn if an outage prevents its storing. Drop a refused turn, such as one of a revoked key."""
    try:
        yield
    except OUTAGES:
        raise
    except Exception:
        chat.unstored = None
        raise


def _asks_memory_alone(chat: Chat) -> bool:
    return chat.request.is_alone and chat.request.is_plain


def _hit_of(answer: FactAnswer) -> MemoryHit:
    """Return the answer from facts as a memory, for an upstream that answers the rest."""
    fact = answer.facts[0]
    days = fact.created_at, None
    return MemoryHit(fact.id, MEMORY_ROLE, answer.text, fact.created_at, 1.0, fact.category, days=days)


async def _run_steps(chat: Chat, *steps: Coroutine[Any, Any, None]) -> None:
    """Run steps at the same time. A failure of one does not stop the other."""
    for error in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(error, CALLER_ERRORS) or not isinstance(error, Exception | None):
            raise error
        if error is not None:
            _note_failure(chat, "memory", error)


def _note_failure(chat: Chat, step: str, error: Exception) -> None:
    """Mark the chat and log the step; never a text of the user."""
    chat.mark_failed()
    log.warning("chat_memory_failed", step=step, error=getattr(error, "code", type(error).__name__))
