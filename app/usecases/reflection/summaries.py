"""One summary a user and thread: written when enough was said, carried forward after (SPEC §7; seed 002)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from app.domain.changes import Observation
from app.domain.memory.memory import Memory, MemoryType, NewMemory
from app.domain.outages import UnusableAnswer
from app.domain.principal import Scope
from app.domain.reflection.transcript import Message, Talk
from app.prompts.summary import MAX_TALK, VERSION, read_summary, summary
from app.usecases.reflection.generated_memories import Bounds, KeepReflections, Made, source_of
from app.usecases.reflection.model_gateway import AskModel


class Summarise:
    """One user and thread at a time. A summary that somebody edited is carried forward as they left it."""

    def __init__(self, ask: AskModel, keep: KeepReflections) -> None:
        self._ask = ask
        self._keep = keep
        self._policy = keep.policies.summaries
        self._category = keep.policies.turn_category
        self.bounds = Bounds(self._policy.cooldown, self._policy.rounds, self._policy.window, self._category)

    async def thread(
        self, scope: Scope, user_id: str, thread_id: str, *, dry_run: bool = False, again: bool = False
    ) -> Made:
        """Read what was not read yet, if enough was said or time has passed, or `again`; dry, nothing is stored.

        Raises ChatModelUnavailable, TokensSpent, EmbedderUnavailable: then nothing counts as read.
        """
        made, keep = Made("summary", user_id, thread_id), self._keep
        if not self._ask.able:
            return replace(made, why="no_model")
        talk = await keep.unread(scope, made, self.bounds, dry_run=dry_run, again=again)
        if not isinstance(talk, Talk):
            return replace(made, why=talk)
        async with keep.uow.read(scope) as tx:
            old = await keep.storage.summary(tx, scope, user_id, thread_id)
        try:
            return await self._read(scope, made, talk, old, dry_run)
        except UnusableAnswer:
            return await keep.stumbled(scope, made, talk, self.bounds, dry_run=dry_run)

    async def _read(self, scope: Scope, made: Made, talk: Talk, old: Memory | None, dry_run: bool) -> Made:
        talk, told = talk.fitting(MAX_TALK, self._keep.policies.marks)
        made, text = await self._ask_of(scope, made, told, old) if told else (made, None)
        event = Observation("worker", "summary", "ok", made.user_id, made.thread_id, None, self._category)
        if text is None:
            return await self._keep.passed(scope, made, talk, replace(event, status="skipped"), dry_run=dry_run)
        draft = self._draft(talk, text)
        [embedding] = await self._keep.encode([draft.text])
        made = replace(made, texts=[draft.text], created=int(old is None), updated=int(old is not None))
        if dry_run:
            return made
        if old is None:
            change = self._keep.created(scope, draft, embedding, event)
        else:
            change = self._keep.updated(scope, old, draft, embedding, event)
        return await self._keep.keep_talk(scope, made, talk, change)

    async def _ask_of(
        self, scope: Scope, made: Made, told: Sequence[Message], old: Memory | None
    ) -> tuple[Made, str | None]:
        before, room = old.text if old else "", self._policy.characters
        asked = await self._ask.require(scope, summary(before, told, room), partial(read_summary, before, told, room))
        return replace(made, tokens=asked.usage.tokens), asked.value

    def _draft(self, talk: Talk, text: str) -> NewMemory:
        last = talk.last
        return NewMemory(
            user_id=last.user_id,
            category=self._category,
            text=text,
            type=MemoryType.summary,
            thread_id=last.thread_id,
            importance=self._policy.importance,
            source=source_of(last, talk.turns),
            metadata={"prompt": VERSION},
        )
