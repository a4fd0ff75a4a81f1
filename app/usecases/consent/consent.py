"""A user's context, known with their consent: decide, read, withdraw and expire (`docs/contract.md`, Consent).

In a conversation an assistant asks a question, and a plain yes or no in the user's next turn decides.
"""

from dataclasses import replace
from uuid import UUID

from mnema_wire.limits import MAX_CONSENT_QUESTION

from app.domain.consent.answers import Verdict, evaluate_reply
from app.domain.consent.patches import Patch, PatchState, Question, UserContext, render_profile
from app.domain.consent.statements import contains_words
from app.domain.errors import EmptyText, QuestionNotAsked, QuestionWithoutValue, TextTooLong
from app.domain.idempotency import IdempotencyKey
from app.domain.paging import Page, cut_page, decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.domain.text_rules import normalise_text
from app.storage.uow import WriteTx
from app.usecases.consent.decisions import Decisions
from app.usecases.consent.proposals import Proposals

MAX_CHANGES = 200
"""Changes of a thread that are searched for an answer; after that many, the question is closed as unanswered."""
USER = "user"
"""The actor in history of a decision made in a conversation."""


class ConsentInChat:
    """The use-cases of consent in a chat. A thread has at most one question, the last one asked."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._storage = decisions.storage

    async def ask_question(
        self,
        principal: Principal,
        user_id: str,
        patch_id: UUID,
        thread_id: str,
        question: str,
        key: IdempotencyKey | None = None,
        turn_id: UUID | None = None,
    ) -> Patch:
        """Bind a question to the newest turn of a thread. The user's next turn there is the answer.

        The newest turn must be the assistant's, end with the question, and have the id `turn_id` if given. Raise
        NotFound, WrongState for a decided or expired proposal, EmptyText, TextTooLong, NulByte, QuestionWithoutValue
        or QuestionNotAsked.
        """
        self._decisions.require_access(principal)
        text = normalise_text(question)
        if not any(char.isalnum() for char in text):
            raise EmptyText
        if len(text) > MAX_CONSENT_QUESTION:
            raise TextTooLong(f"A question has at most {MAX_CONSENT_QUESTION} characters.", limit=MAX_CONSENT_QUESTION)

        async def bind_in_tx(tx: WriteTx) -> Patch:
            patch = await self._decisions.load_open_patch(tx, principal, user_id, patch_id, key)
            if patch is not None:
                bound = await self._bind_question(tx, principal, patch, thread_id, text, turn_id)
                await self._storage.store_question(tx, principal, bound)
                await self._decisions.record_entry(
                    tx, principal, patch, "asked", principal.actor_name, _question_meta(bound)
                )
            return await self._decisions.load_patch(tx, principal, user_id, patch_id)

        return await self._decisions.run_with_retries(principal, bind_in_tx)

    async def _bind_question(
        self, tx: WriteTx, principal: Principal, patch: Patch, thread_id: str, text: str, turn_id: UUID | None
    ) -> Question:
        if not contains_words(text, patch.value):
            raise QuestionWithoutValue(f"the question must contain the proposed value, {patch.value!r}")
        turn = await self._storage.newest_turn(tx, principal, patch.user_id, thread_id)
        if turn is None or not turn.asks_question(text) or turn_id not in (None, turn.id):
            raise QuestionNotAsked(
                "store the assistant's turn that ends with this question (POST /turns, role assistant, the same user"
                " and thread), then ask before the user answers"
            )
        now = self._decisions.clock.now()
        return Question(patch.id, patch.user_id, thread_id, text, turn.rev, now, turn.id, principal.key_id)

    async def settle_question(self, principal: Principal, thread_id: str) -> Verdict | None:
        """Look for the answer to the thread's open question. Return the verdict, None if no question is open.

        Idempotent: the same turn answers a question, whenever this runs.
        """
        async with self._decisions.uow.read(principal) as read:
            question = await self._storage.load_question(read, principal, thread_id)
        if question is None:
            return None

        async def settle_in_tx(tx: WriteTx) -> Verdict | None:
            if not await self._storage.is_known_user(tx, principal, question.user_id):
                return None
            if await self._storage.load_question(tx, principal, thread_id) != question:
                return None
            return await self._apply_answer(tx, principal, question)

        return await self._decisions.run_with_retries(principal, settle_in_tx)

    async def _apply_answer(self, tx: WriteTx, principal: Principal, question: Question) -> Verdict:
        patch = await self._storage.load_patch(tx, principal, question.user_id, question.patch_id)
        changes = await self._storage.load_changes(tx, principal, question, MAX_CHANGES)
        answer = evaluate_reply(question, changes, MAX_CHANGES, patch.keys if patch else ())
        if patch is None or answer.verdict == "open":
            return answer.verdict
        if answer.verdict != "unclear" and not await self._storage.is_turn_unchanged(tx, principal, question):
            answer = replace(answer, verdict="unclear", why="lost")
        meta = _question_meta(question) | {"turn_id": str(answer.turn_id)}
        if answer.verdict == "unclear" or not patch.is_open_at(self._decisions.clock.now()):
            await self._storage.delete_question(tx, principal, patch.id)
            why = answer.why or "expired"
            await self._decisions.record_entry(
                tx, principal, patch, "unanswered", principal.actor_name, {**meta, "why": why}
            )
            return "unclear"
        state = PatchState.approved if answer.verdict == "yes" else PatchState.rejected
        await self._decisions.close_patch(tx, principal, patch, state, "chat", USER, meta, answer.turn_id)
        return answer.verdict


def _question_meta(question: Question) -> dict[str, object]:
    return {
        "thread_id": question.thread_id,
        "question": question.question,
        "asked_turn_id": str(question.turn_id),
    }


class Consent:
    """The use-cases of consent. They raise AgentNotAllowed for a key bound to agents that do not see profiles."""

    def __init__(self, decisions: Decisions, secret: bytes) -> None:
        self.proposals = Proposals(decisions, secret)
        self.chat = ConsentInChat(decisions)
        self._decisions = decisions
        self._storage = decisions.storage
        self._policies = decisions.policies
        self._clock = decisions.clock

    async def decide_patch(
        self, principal: Principal, user_id: str, patch_id: UUID, *, approve: bool, key: IdempotencyKey | None = None
    ) -> Patch:
        """Approve or reject a proposal. Raise NotFound, or WrongState if it is decided or expired."""
        self._decisions.require_access(principal)
        state = PatchState.approved if approve else PatchState.rejected

        async def decide_in_tx(tx: WriteTx) -> Patch:
            patch = await self._decisions.load_open_patch(tx, principal, user_id, patch_id, key)
            if patch is not None:
                await self._decisions.close_patch(tx, principal, patch, state, "route", principal.actor_name)
            return await self._decisions.load_patch(tx, principal, user_id, patch_id)

        return await self._decisions.run_with_retries(principal, decide_in_tx)

    async def list_patches(
        self, principal: Principal, user_id: str, state: PatchState | None, cursor: str | None, limit: int
    ) -> Page[Patch]:
        """Return a page of at most `limit` proposals; `state` None means any. Raise NotFound or InvalidCursor."""
        self._decisions.require_access(principal)
        after = decode_cursor(cursor)
        now = self._clock.now()
        async with self._decisions.uow.read_anywhere(principal) as tx:
            await self._decisions.require_user(tx, principal, user_id)
            patches = await self._storage.load_page(tx, principal, user_id, state, now, after, limit + 1)
        items = [patch.as_of(now) for patch in patches]
        return cut_page(items, limit, lambda patch: encode_cursor((patch.created_at, patch.id)))

    async def load_context(self, principal: Principal, user_id: str) -> UserContext:
        """Return the values known of a user; raise NotFound if nothing is stored for the user."""
        self._decisions.require_access(principal)
        async with self._decisions.uow.read_anywhere(principal) as tx:
            await self._decisions.require_user(tx, principal, user_id)
            values = await self._storage.load_values(tx, principal, user_id)
        order = {name: place for place, name in enumerate(self._policies.of(principal).consent.field_names)}
        values.sort(key=lambda value: order.get(value.field, len(order)))  # stable: oldest first within a field
        return UserContext(values, render_profile(values))

    async def withdraw_values(self, principal: Principal, user_id: str, name: str, value: str | None = None) -> int:
        """Delete the values of a field, or only `value` of a field that holds several. Return how many.

        The field may have left the rules since. Raise NotFound if nothing is stored for the user, UnknownField for a
        name that is neither in the rules nor in a proposal of this user.
        """
        self._decisions.require_access(principal)

        async def withdraw_in_tx(tx: WriteTx) -> int:
            await self._decisions.require_user(tx, principal, user_id)
            deleted = await self._storage.delete_values(tx, principal, user_id, name, value)
            if not deleted and not await self._storage.has_field(tx, principal, user_id, name):
                self._policies.of(principal).consent.is_sensitive(name)
            for before, patch_id in deleted:
                patch = await self._decisions.load_patch(tx, principal, user_id, patch_id)
                meta = {"before": {"value": before}, "after": {}}
                await self._decisions.record_entry(
                    tx, principal, patch, "withdrawn", principal.actor_name, meta, patch_id
                )
            return len(deleted)

        return await self._decisions.run_with_retries(principal, withdraw_in_tx)

    async def expire_patches(self, principal: Principal, *, dry_run: bool = False) -> int:
        """Expire the proposals that nobody decided in time, batch by batch. Return how many expired.

        With `dry_run`, change nothing and return how many would expire.
        """
        now = (await self._clock.trusted_time()).moment
        expired = 0
        batch = self._policies.defaults.consent.batch
        if dry_run:
            async with self._decisions.uow.read(principal) as read:
                return await self._storage.count_due(read, principal, now)
        while True:
            async with self._decisions.uow.write(principal) as tx:
                due = await self._storage.lock_due_patches(tx, principal, now, batch)
                for patch in due:
                    await self._decisions.close_patch(
                        tx, principal, patch, PatchState.expired, "expiry", principal.actor_name
                    )
            expired += len(due)
            if len(due) < batch:
                return expired
