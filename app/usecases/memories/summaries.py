"""One summary a user and thread: written when enough was said, carried forward after (SPEC §7; seed 002)."""

from dataclasses import replace
from functools import partial

from app.domain.changes import Observation
from app.domain.memory import Memory, MemoryType, NewMemory
from app.domain.scope import Scope
from app.domain.talk import Talk, messages
from app.prompts.summary import MAX_TALK, VERSION, read_summary, summary
from app.usecases.memories.reflection_writes import KeepReflections, Made, source_of
from app.usecases.ops.ask_model import AskModel


class Summarise:
    """One user and thread at a time. A summary that somebody edited is carried forward as they left it."""

    def __init__(self, ask: AskModel, keep: KeepReflections) -> None:
        self._ask = ask
        self._keep = keep
        self._policy = keep.policies.summaries
        self._category = keep.policies.turn_category

    async def thread(self, scope: Scope, user_id: str, thread_id: str, *, dry_run: bool = False) -> Made:
        """Read what was not read yet, if enough was said or time has passed; dry, nothing is stored.

        Raises ChatModelUnavailable, TokensSpent, EmbedderUnavailable: then nothing counts as read.
        """
        made, policy, keep = Made("summary", user_id, thread_id), self._policy, self._keep
        if not self._ask.able:
            return replace(made, why="no_model")
        talk = await keep.unread(scope, made, policy.cooldown, policy.window, self._category, dry_run=dry_run)
        if not isinstance(talk, Talk):
            return replace(made, why=talk)
        async with keep.uow.read(scope) as tx:
            old = await keep.storage.summary(tx, scope, user_id, thread_id)
        return await self._read(scope, made, talk, old, dry_run)

    async def _read(self, scope: Scope, made: Made, talk: Talk, old: Memory | None, dry_run: bool) -> Made:
        told, before, room = messages(talk.turns, MAX_TALK), old.text if old else "", self._policy.characters
        asked = await self._ask.ask(scope, summary(before, told, room), partial(read_summary, before, told, room))
        made, step = replace(made, tokens=asked.usage.tokens), self._keep.step(made, talk)
        event = Observation("worker", "summary", "ok", made.user_id, made.thread_id, None, self._category)
        if asked.value is None:
            if not dry_run and await self._keep.keep(scope, step) is None:
                await self._keep.note(scope, replace(event, status="skipped"))
            return replace(made, why="nothing")
        draft = self._draft(talk, asked.value)
        [embedding] = await self._keep.encode([draft.text])
        made = replace(made, texts=[draft.text], created=int(old is None), updated=int(old is not None))
        if dry_run:
            return made
        if old is None:
            change = self._keep.created(scope, draft, embedding, event)
        else:
            change = self._keep.updated(scope, old, draft, embedding, event)
        return replace(made, why=await self._keep.keep(scope, step, [change]))

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
