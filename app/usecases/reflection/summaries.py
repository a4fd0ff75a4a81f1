"""Thread summaries: one for each user and thread, carried forward as the conversation goes on."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from app.config.loader import Policies
from app.domain.changes import Observation
from app.domain.memory.memory import Memory, MemoryType, NewMemory, Origin
from app.domain.outages import UnusableAnswer
from app.domain.principal import Principal
from app.domain.reflection.transcript import Message, Transcript
from app.prompts.summary import MAX_TRANSCRIPT, VERSION, read_summary, summary_prompt
from app.usecases.reflection.generated_memories import GeneratedMemoryWriter, memory_source
from app.usecases.reflection.model_gateway import ModelGateway
from app.usecases.reflection.results import Bounds, ReflectionResult


class SummariseThreads:
    """The use-case that writes the summary of one user and thread at a time. It carries an edit by hand forward."""

    def __init__(self, gateway: ModelGateway, writer: GeneratedMemoryWriter) -> None:
        self._gateway = gateway
        self._writer = writer
        self._cursor = writer.cursor

    def read_bounds(self, principal: Principal) -> Bounds:
        """Return the bounds of the tenant's summaries."""
        policies = self._cursor.policies.of(principal)
        policy = policies.summaries
        return Bounds(policy.cooldown, policy.rounds, policy.window, policies.turn_category)

    async def read_thread(
        self, principal: Principal, user_id: str, thread_id: str, *, dry_run: bool = False, again: bool = False
    ) -> ReflectionResult:
        """Read the unread turns of a thread if its cooldown is over or `again` is set. `dry_run` stores nothing.

        Raise ChatModelUnavailable, TokensSpent or EmbedderUnavailable; then nothing counts as read.
        """
        result = ReflectionResult("summary", user_id, thread_id)
        if not self._cursor.policies.of(principal).summaries.enable_summarization:
            return replace(result, why="off")
        if not self._gateway.has_model:
            return replace(result, why="no_model")
        bounds = self.read_bounds(principal)
        transcript = await self._cursor.load_unread(principal, result, bounds, dry_run=dry_run, again=again)
        if not isinstance(transcript, Transcript):
            return replace(result, why=transcript)
        async with self._cursor.uow.read(principal) as tx:
            old = await self._cursor.storage.load_summary(tx, principal, user_id, thread_id)
        try:
            return await self._read_transcript(principal, result, transcript, old, dry_run)
        except UnusableAnswer:
            return await self._writer.record_unusable_answer(principal, result, transcript, bounds, dry_run=dry_run)

    async def _read_transcript(
        self, principal: Principal, result: ReflectionResult, transcript: Transcript, old: Memory | None, dry_run: bool
    ) -> ReflectionResult:
        policies = self._cursor.policies.of(principal)
        transcript, messages = transcript.trim_to_fit(MAX_TRANSCRIPT, policies.echo_marks)
        result, text = await self._ask_for_summary(principal, result, messages, old) if messages else (result, None)
        event = Observation("worker", "summary", "ok", result.user_id, result.thread_id, None, policies.turn_category)
        if text is None:
            return await self._writer.skip_transcript(
                principal, result, transcript, replace(event, status="skipped"), dry_run=dry_run
            )
        draft = _build_draft(policies, transcript, text)
        [embedding] = await self._writer.encode_texts([draft.text])
        result = replace(result, texts=[draft.text], created=int(old is None), updated=int(old is not None))
        if dry_run:
            return result
        if old is None:
            change = self._writer.build_creation(principal, draft, embedding, event)
        else:
            change = self._writer.build_update(principal, old, draft, embedding, event)
        return await self._writer.store_from_transcript(principal, result, transcript, change)

    async def _ask_for_summary(
        self, principal: Principal, result: ReflectionResult, messages: Sequence[Message], old: Memory | None
    ) -> tuple[ReflectionResult, str | None]:
        before = old.text if old else ""
        room = self._cursor.policies.of(principal).summaries.characters
        answer = await self._gateway.require_answer(
            principal,
            summary_prompt(before, messages, room),
            partial(read_summary, before, messages, room),
            user_id=result.user_id,
        )
        return replace(result, tokens=answer.usage.total_tokens), answer.value


def _build_draft(policies: Policies, transcript: Transcript, text: str) -> NewMemory:
    last = transcript.newest_turn
    return NewMemory(
        user_id=last.user_id,
        category=policies.turn_category,
        text=text,
        type=MemoryType.summary,
        thread_id=last.thread_id,
        importance=policies.summaries.importance,
        source=memory_source(last, transcript.turns),
        metadata={"prompt": VERSION},
        origin=Origin.reflection,
    )
