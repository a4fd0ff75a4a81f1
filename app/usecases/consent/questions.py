"""Consent in a conversation (SPEC §8): a question is asked, and a plain yes or no to it decides."""

from dataclasses import replace
from uuid import UUID

from app.domain.consent.answers import Verdict, reply
from app.domain.consent.patches import MAX_QUESTION, Patch, PatchState, Question
from app.domain.consent.statements import contains
from app.domain.errors import EmptyText, QuestionNotAsked, QuestionWithoutValue, TextTooLong
from app.domain.idempotency import IdempotencyKey
from app.domain.principal import Scope
from app.domain.text_rules import normalise
from app.storage.uow import WriteTx
from app.usecases.consent.decisions import Decisions

CHANGES = 200
"""Of a thread, looked at for an answer; a question that is not answered by then is over."""
USER = "user"
"""Whom history names for a decision made in a conversation."""


class ConsentInChat:
    """Of one question a thread, the last one asked."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._storage = decisions.storage

    async def ask(
        self,
        scope: Scope,
        user_id: str,
        patch_id: UUID,
        thread_id: str,
        question: str,
        key: IdempotencyKey | None = None,
        turn_id: UUID | None = None,
    ) -> Patch:
        """Bind a question to the newest turn of a thread: the user's next turn there is the answer.

        That turn is the assistant's, ends with the question, and is `turn_id` if one is given. Raises NotFound,
        WrongState when it was decided or has expired, EmptyText, TextTooLong, NulByte, QuestionWithoutValue,
        QuestionNotAsked.
        """
        self._decisions.allow(scope)
        asked = normalise(question)
        if not any(char.isalnum() for char in asked):
            raise EmptyText
        if len(asked) > MAX_QUESTION:
            raise TextTooLong(f"A question may have {MAX_QUESTION} characters.", limit=MAX_QUESTION)

        async def work(tx: WriteTx) -> Patch:
            patch = await self._decisions.open(tx, scope, user_id, patch_id, key)
            if patch is not None:
                bound = await self._bound(tx, scope, patch, thread_id, asked, turn_id)
                await self._storage.ask(tx, scope, bound)
                await self._decisions.enter(tx, scope, patch, "asked", scope.actor, _told(bound))
            return await self._decisions.stored(tx, scope, user_id, patch_id)

        return await self._decisions.attempts(scope, work)

    async def _bound(
        self, tx: WriteTx, scope: Scope, patch: Patch, thread_id: str, asked: str, turn_id: UUID | None
    ) -> Question:
        if not contains(asked, patch.value):
            raise QuestionWithoutValue(f"the question must contain the proposed value, {patch.value!r}")
        turn = await self._storage.newest_turn(tx, scope, patch.user_id, thread_id)
        if turn is None or not turn.asks(asked) or turn_id not in (None, turn.id):
            raise QuestionNotAsked(
                "store the assistant's turn that ends with this question (POST /turns, role assistant, the same user"
                " and thread), then ask before the user answers"
            )
        now = self._decisions.clock.now()
        return Question(patch.id, patch.user_id, thread_id, asked, turn.rev, now, turn.id, scope.key_id)

    async def settle(self, scope: Scope, thread_id: str) -> Verdict | None:
        """Read what was said to the thread's question, if there is one; None without.

        Twice does what once does: a question is answered once, and by the same turn whenever this runs.
        """
        async with self._decisions.uow.read(scope) as read:
            question = await self._storage.question(read, scope, thread_id)
        if question is None:
            return None

        async def work(tx: WriteTx) -> Verdict | None:
            if not await self._storage.known(tx, scope, question.user_id):
                return None
            if await self._storage.question(tx, scope, thread_id) != question:
                return None
            return await self._settle(tx, scope, question)

        return await self._decisions.attempts(scope, work)

    async def _settle(self, tx: WriteTx, scope: Scope, question: Question) -> Verdict:
        patch = await self._storage.patch(tx, scope, question.user_id, question.patch_id)
        told = await self._storage.told(tx, scope, question, CHANGES)
        answer = reply(question, told, CHANGES, patch.keys if patch else ())
        if patch is None or answer.verdict == "open":
            return answer.verdict
        if answer.verdict != "unclear" and not await self._storage.stands(tx, scope, question):
            answer = replace(answer, verdict="unclear", why="lost")
        said = _told(question) | {"turn_id": str(answer.turn_id)}
        if answer.verdict == "unclear" or not patch.open_at(self._decisions.clock.now()):
            await self._storage.unask(tx, scope, patch.id)
            why = answer.why or "expired"
            await self._decisions.enter(tx, scope, patch, "unanswered", scope.actor, {**said, "why": why})
            return "unclear"
        state = PatchState.approved if answer.verdict == "yes" else PatchState.rejected
        await self._decisions.close(tx, scope, patch, state, "chat", USER, said, answer.turn_id)
        return answer.verdict


def _told(question: Question) -> dict[str, object]:
    return {
        "thread_id": question.thread_id,
        "question": question.question,
        "asked_turn_id": str(question.turn_id),
    }
