"""The gateway to the chat model: every call is limited by the tenant's daily tokens, checked by rules and recorded."""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Final, Generic, Literal, TypeAlias, TypeVar
from uuid import UUID

from app.domain.changes import Observation
from app.domain.days import start_of_day
from app.domain.errors import MnemaError
from app.domain.outages import ChatModelUnavailable, NoChatModel, TokensSpent, UnusableAnswer, UserTokensSpent
from app.domain.principal import Principal
from app.domain.reflection.model_usage import (
    CUT,
    NONSENSE,
    UNREADABLE,
    CheckedAnswer,
    LlmPolicy,
    ModelCall,
    PromptReport,
    Usage,
    estimate_tokens,
    seconds_to_midnight,
)
from app.domain.reflection.turn_trace import Rejection
from app.domain.rendering.questions import add_complaint
from app.ports import Answer, AnswerListener, ChatModel, Clock, Prompt, Reply
from app.prompts import TOO_MANY
from app.prompts.probe import PROBE, read_probe
from app.storage.journal import Journal
from app.storage.reflection.model_calls import ModelCallStorage, Spent

FRESH_S: Final = 60.0
"""Seconds for which a share that was not spent counts as not spent, because other processes spend it too."""
MAX_KNOWN: Final = 10_000
Owner: TypeAlias = tuple[UUID, str | None]


class UnreadableShare:
    """The shares of the tenants and users that this process works for.

    The sum is read again after each unreadable answer of this process. So a process has at most one unreadable answer
    more than if it read the sum before each call.
    """

    def __init__(self, storage: ModelCallStorage, policy: LlmPolicy) -> None:
        self._storage = storage
        self._policy = policy
        self._unspent: OrderedDict[Owner, tuple[date, float]] = OrderedDict()

    async def find_spent(self, principal: Principal, user_id: str | None, now: datetime) -> Spent | None:
        """Return whose share of today's tokens unreadable answers took; None if there is some left."""
        owner = principal.tenant_id, user_id
        known = self._unspent.get(owner)
        if known is not None and known[0] == now.date() and time.monotonic() < known[1]:
            return None
        spent = await self._storage.find_wasted_share(principal, user_id, start_of_day(now), self._policy)
        if spent is None:
            self._unspent[owner] = now.date(), time.monotonic() + FRESH_S
            self._unspent.move_to_end(owner)
            if len(self._unspent) > MAX_KNOWN:
                self._unspent.popitem(last=False)
        return spent

    def note_unreadable(self, principal: Principal) -> None:
        """Read the sums of a tenant again before its next calls."""
        for owner in [one for one in self._unspent if one[0] == principal.tenant_id]:
            del self._unspent[owner]


T = TypeVar("T")
ATTEMPTS = 2
JSON_COMPLAINT = "Answer with nothing but JSON of the shape asked for."
UNREADABLE_SPENT = "Unreadable answers of the chat model took their share of today's tokens (UTC); wait until tomorrow."
SHORTER = "The answer was too long and was cut off. Answer with {most} at most, none of them twice, in few words."
WHOLE = "The answer was too long and was cut off. Answer for each item once, none of them twice, in few words."
PROBES_BEFORE_REST = 5
LONGEST_REST_S = 600.0
CANCELLED = "cancelled"
"""The code of a call that its caller gave up, for example because a client left."""
FAULT = "internal_error"
"""The code of a call that failed by a fault of this program."""


@dataclass(frozen=True, slots=True)
class ModelAnswer(Generic[T]):
    """The answer to a prompt. `value` is None if no answer was valid. `rule` is the one that the last answer broke.

    `refused`: the rules that keep items out of `value`, one for each item.
    """

    value: T | None
    usage: Usage
    rule: str | None = None
    refused: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Reserved:
    """Tokens that are reserved for one call, with their day and the user that the work concerns."""

    user_id: str | None
    day: date
    tokens: int


class ModelGateway:
    """The calls of the chat model. An invalid answer is retried with the broken rule as feedback."""

    def __init__(
        self, model: ChatModel, storage: ModelCallStorage, journal: Journal, policy: LlmPolicy, clock: Clock
    ) -> None:
        self._model = model
        self._storage = storage
        self._journal = journal
        self._policy = policy
        self._clock = clock
        self._unreadable = UnreadableShare(storage, policy)
        self._failed_probes = 0  # in a row
        self._rests_until = 0.0

    @property
    def model_name(self) -> str:
        """The name of the chat model."""
        return self._model.name

    @property
    def has_model(self) -> bool:
        """True if a chat model is configured."""
        return self._model.is_available

    async def ask_model(
        self,
        principal: Principal,
        prompt: Prompt[Answer],
        read: Callable[[Answer], CheckedAnswer[T]],
        attempts: int = ATTEMPTS,
        listener: AnswerListener | None = None,
        *,
        user_id: str | None,
    ) -> ModelAnswer[T]:
        """Ask the model up to `attempts` times until `read` accepts its answer by the prompt's rules.

        The tokens count for the tenant, and for the user that the work concerns.

        A `listener` gets each answer as the model writes it, and the broken rule before the next answer.

        Raise NoChatModel, TokensSpent or ChatModelUnavailable; the last two are recorded as an event.
        """
        if not self.has_model:
            raise NoChatModel()
        value = None
        kept = 0
        was_cut = False
        usage = Usage()
        attempt_prompt = prompt
        rule = None
        refused: Sequence[str] = ()
        for attempt in range(1, attempts + 1):
            reading, cost = await self._ask_once(principal, user_id, attempt_prompt, read, attempt, listener)
            usage += cost
            is_shorter = was_cut and reading.items_ok < kept  # asked for less, the model may give too little
            is_better = not is_shorter and (reading.rule is None or reading.items_ok >= kept)
            if reading.value is not None and is_better:
                value = reading.value
                kept = reading.items_ok
                refused = reading.refused
            rule = CUT if is_shorter and reading.rule is None else reading.rule
            was_cut = rule == CUT
            if reading.rule is None:
                break
            if listener is not None and attempt < attempts:
                listener.begin_again(reading.rule)
            # A shorter second try: complete items of a cut answer count, and more would be cut off again.
            most = max(1, reading.items_ok) if was_cut and not prompt.needs_all_items else None
            complained = add_complaint(prompt.question, reading.complaint)
            attempt_prompt = replace(prompt, question=complained, max_items=most)
        return ModelAnswer(value, usage, rule, refused)

    async def require_answer(
        self,
        principal: Principal,
        prompt: Prompt[Answer],
        read: Callable[[Answer], CheckedAnswer[T]],
        *,
        user_id: str | None,
    ) -> ModelAnswer[T]:
        """Ask as `ask_model` does, for work that must not be lost: a nonsensical answer counts as an outage.

        Raise TokensSpent if unreadable answers took their share of the user's tokens or of the day's. Raise
        UnusableAnswer if the model fails this prompt but answers the probe, ChatModelUnavailable if it fails both. From
        then on it must answer the probe first. After PROBES_BEFORE_REST failed probes no call is made for a while,
        longer each time.
        """
        await self._refuse_unreadable(principal, user_id)
        if self._failed_probes:
            await self.probe_model(principal)
        try:
            answer = await self.ask_model(principal, prompt, read, user_id=user_id)
        except UnusableAnswer:
            await self.probe_model(principal)
            raise
        if answer.value is None and answer.rule in UNREADABLE:
            await self.probe_model(principal)
            raise UnusableAnswer()
        return answer

    async def _refuse_unreadable(self, principal: Principal, user_id: str | None) -> None:
        """Raise TokensSpent if unreadable answers took their share of the tokens of today, the user's or the tenant's.

        The user's share comes first, so that the texts of one user cannot stop the work for all others.
        """
        now = self._clock.now()
        if not self.has_model:
            return
        wasted = await self._unreadable.find_spent(principal, user_id, now)
        if wasted is not None:
            await self._record_failure(principal, "skipped")
            error = UserTokensSpent if wasted == "user" else TokensSpent
            raise error(UNREADABLE_SPENT, retry_after=seconds_to_midnight(now))

    async def probe_model(self, principal: Principal) -> None:
        """Ask the probe question, at the tenant's cost. Raise ChatModelUnavailable or TokensSpent."""
        if time.monotonic() < self._rests_until:
            raise ChatModelUnavailable("The chat model answered nonsense and is not asked again for a while.")
        failure = "The chat model answers nonsense."
        try:
            sane = (await self.ask_model(principal, PROBE, read_probe, user_id=None)).rule is None
        except UnusableAnswer as error:
            sane = False
            failure = error.detail
        if sane:
            self._failed_probes = 0
            return
        self._failed_probes += 1
        if (excess := self._failed_probes - PROBES_BEFORE_REST) > 0:
            self._rests_until = time.monotonic() + min(LONGEST_REST_S, 2.0 ** min(excess, 10))
        raise ChatModelUnavailable(failure)

    async def _ask_once(
        self,
        principal: Principal,
        user_id: str | None,
        prompt: Prompt[Answer],
        read: Callable[[Answer], CheckedAnswer[T]],
        attempt: int,
        listener: AnswerListener | None,
    ) -> tuple[CheckedAnswer[T], Usage]:
        asked = estimate_tokens(prompt.rules, prompt.question.text)
        most = Usage(asked, prompt.max_tokens + self._model.thinking_tokens)
        budget = await self._reserve_tokens(principal, user_id, most.total_tokens)
        call = ModelCall(prompt.version, self._model.name, attempt)
        started = time.perf_counter()
        try:
            reply = await self._model.generate_reply(prompt, listener)
        except ChatModelUnavailable as error:
            failed = replace(call, duration_ms=_elapsed_ms(started), status="error", error=error.code)
            await self._settle_call(principal, budget, failed)
            await self._record_failure(principal, "error")
            raise
        except BaseException as error:  # cancelled, or a fault of ours: nobody knows the cost, so all counts as used
            code = CANCELLED if isinstance(error, asyncio.CancelledError) else FAULT
            failed = replace(call, duration_ms=_elapsed_ms(started), status="error", error=code, usage=most)
            await self._record_cancelled(principal, budget, failed)
            raise
        reading = _check_reply(reply, read, prompt)
        answered = replace(
            call, usage=reply.usage, duration_ms=_elapsed_ms(started), items=reading.items, items_ok=reading.items_ok
        )
        if reading.rule is not None:
            answered = replace(answered, status="refused", error=reading.rule)
        await self._settle_call(principal, budget, answered)
        if answered.is_unreadable:
            self._unreadable.note_unreadable(principal)
        return reading, reply.usage

    async def _reserve_tokens(self, principal: Principal, user_id: str | None, tokens: int) -> "_Reserved":
        now = self._clock.now()
        spent = await self._storage.reserve_tokens(principal, user_id, now.date(), tokens, self._policy)
        if spent is None:
            return _Reserved(user_id, now.date(), tokens)
        await self._record_failure(principal, "skipped")
        error = UserTokensSpent if spent == "user" else TokensSpent
        raise error(retry_after=seconds_to_midnight(now))

    async def _settle_call(self, principal: Principal, budget: "_Reserved", call: ModelCall) -> None:
        await self._storage.settle_call(principal, budget.user_id, budget.day, budget.tokens, call, self._clock.now())

    async def _record_cancelled(self, principal: Principal, budget: "_Reserved", call: ModelCall) -> None:
        """Record a cancelled call, also if the task is cancelled once more meanwhile."""
        with contextlib.suppress(MnemaError):
            await asyncio.shield(self._settle_call(principal, budget, call))

    async def _record_failure(self, principal: Principal, status: Literal["error", "skipped"]) -> None:
        with contextlib.suppress(MnemaError):
            await self._journal.record_event(principal, [Observation("worker", "llm", status)])


def _check_reply(
    reply: Reply[Answer], read: Callable[[Answer], CheckedAnswer[T]], prompt: Prompt[Answer]
) -> CheckedAnswer[T]:
    """Check a reply by the prompt's rules. Items that are missing in it count as refused."""
    checked: CheckedAnswer[T] = CheckedAnswer() if reply.value is None else read(reply.value)
    # A list that is full already needs no second answer, nor does one whose rules find nothing missing.
    is_complete = TOO_MANY in checked.refused or (checked.value is not None and not checked.items)
    dropped = [*reply.refused, *([CUT] if reply.is_cut else ())]
    checked = replace(checked, items=checked.items + len(reply.refused), refused=[*checked.refused, *dropped])
    if checked.rule is not None:
        return checked
    if reply.is_cut and not is_complete:
        most = "one item" if checked.items_ok < 2 else f"{checked.items_ok} items"
        return replace(checked, rule=CUT, complaint=WHOLE if prompt.needs_all_items else SHORTER.format(most=most))
    if reply.value is None or reply.refused:
        return replace(checked, rule=NONSENSE if reply.value is None else reply.refused[0], complaint=JSON_COMPLAINT)
    return checked


def _elapsed_ms(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The figures by version of each prompt. `spent_today` includes the tokens reserved for calls under way.

    `rejections`: turns and candidate facts that became no memory, by rule. `waiting`: turns that the model could not
    read, which wait for a day or for another model.
    """

    prompts: Sequence[PromptReport]
    rejections: Sequence[Rejection]
    waiting: int
    spent_today: int
    daily_tokens: int


class ReportModel:
    """The use-case that reports on the chat model's calls of a tenant."""

    def __init__(self, storage: ModelCallStorage, policy: LlmPolicy, clock: Clock) -> None:
        self._storage = storage
        self._policy = policy
        self._clock = clock

    async def build_report(self, principal: Principal, days: int) -> ModelReport:
        """Return the report on the calls of the last `days` days; `spent_today` is for the current UTC day."""
        now = self._clock.now()
        since = now - timedelta(days=days)
        return ModelReport(
            prompts=await self._storage.load_reports(principal, since),
            rejections=await self._storage.list_rejections(principal, since),
            waiting=await self._storage.count_waiting(principal),
            spent_today=await self._storage.load_spent_tokens(principal, now.date()),
            daily_tokens=self._policy.daily_tokens,
        )
