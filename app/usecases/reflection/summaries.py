"""One summary a user and thread: written when enough was said, carried forward after (SPEC §7; seed 002)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from app.domain.changes import Observation
from app.domain.memory.memory import Memory, MemoryType, NewMemory
from app.domain.outages import UnusableAnswer
from app.domain.principal import Principal
from app.domain.reflection.transcript import Message, Transcript
from app.prompts.summary import MAX_TRANSCRIPT, VERSION, read_summary, summary_prompt
from app.usecases.reflection.generated_memories import Bounds, ReflectionResult, ReflectionWriter, memory_source
from app.usecases.reflection.model_gateway import ModelGateway


class SummariseThreads:
    """One user and thread at a time. A summary that somebody edited is carried forward as they left it."""

    def __init__(self, ask: ModelGateway, keep: ReflectionWriter) -> None:
        self._ask = ask
        self._keep = keep
        self._policy = keep.policies.summaries
        self._category = keep.policies.turn_category
        self.bounds = Bounds(self._policy.cooldown, self._policy.rounds, self._policy.window, self._category)

    async def read_thread(
        self, scope: Principal, user_id: str, thread_id: str, *, dry_run: bool = False, again: bool = False
    ) -> ReflectionResult:
        """Read what was not read yet, if enough was said or time has passed, or `again`; dry, nothing is stored.

        Raises ChatModelUnavailable, TokensSpent, EmbedderUnavailable: then nothing counts as read.
        """
        made, keep = ReflectionResult("summary", user_id, thread_id), self._keep
        if not self._ask.has_model:
            return replace(made, why="no_model")
        talk = await keep.load_unread(scope, made, self.bounds, dry_run=dry_run, again=again)
        if not isinstance(talk, Transcript):
            return replace(made, why=talk)
        async with keep.uow.read(scope) as tx:
            old = await keep.storage.load_summary(tx, scope, user_id, thread_id)
        try:
            return await self._read_transcript(scope, made, talk, old, dry_run)
        except UnusableAnswer:
            return await keep.record_unusable_answer(scope, made, talk, self.bounds, dry_run=dry_run)

    async def _read_transcript(
        self, scope: Principal, made: ReflectionResult, talk: Transcript, old: Memory | None, dry_run: bool
    ) -> ReflectionResult:
        talk, told = talk.trim_to_fit(MAX_TRANSCRIPT, self._keep.policies.echo_marks)
        made, text = await self._ask_for_summary(scope, made, told, old) if told else (made, None)
        event = Observation("worker", "summary", "ok", made.user_id, made.thread_id, None, self._category)
        if text is None:
            return await self._keep.skip_transcript(
                scope, made, talk, replace(event, status="skipped"), dry_run=dry_run
            )
        draft = self._build_draft(talk, text)
        [embedding] = await self._keep.encode_texts([draft.text])
        made = replace(made, texts=[draft.text], created=int(old is None), updated=int(old is not None))
        if dry_run:
            return made
        if old is None:
            change = self._keep.build_creation(scope, draft, embedding, event)
        else:
            change = self._keep.build_update(scope, old, draft, embedding, event)
        return await self._keep.store_from_transcript(scope, made, talk, change)

    async def _ask_for_summary(
        self, scope: Principal, made: ReflectionResult, told: Sequence[Message], old: Memory | None
    ) -> tuple[ReflectionResult, str | None]:
        before, room = old.text if old else "", self._policy.characters
        asked = await self._ask.require_answer(
            scope, summary_prompt(before, told, room), partial(read_summary, before, told, room)
        )
        return replace(made, tokens=asked.usage.total_tokens), asked.value

    def _build_draft(self, talk: Transcript, text: str) -> NewMemory:
        last = talk.newest_turn
        return NewMemory(
            user_id=last.user_id,
            category=self._category,
            text=text,
            type=MemoryType.summary,
            thread_id=last.thread_id,
            importance=self._policy.importance,
            source=memory_source(last, talk.turns),
            metadata={"prompt": VERSION},
        )
