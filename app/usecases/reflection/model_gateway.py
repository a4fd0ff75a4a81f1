"""Every call of a chat model: within the tenant's tokens of the day, held against rules, kept (SPEC §7)."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from app.domain.changes import Observation
from app.domain.errors import MnemaError
from app.domain.outages import ChatModelUnavailable, NoChatModel, TokensSpent, UnusableAnswer
from app.domain.principal import Principal
from app.domain.reflection.model_usage import CheckedAnswer, LlmPolicy, ModelCall, Usage, estimate_tokens
from app.ports import Answer, ChatModel, Clock, Prompt
from app.prompts.probe import PROBE, read_probe
from app.storage.journal import Journal
from app.storage.reflection.model_calls import ModelCallStorage

T = TypeVar("T")
ATTEMPTS = 2
JSON_COMPLAINT = "Answer with nothing but JSON of the shape asked for."
NONSENSE_RULES = frozenset({"malformed", "too_many"})
"""Rules of which the breach tells that nobody answered the question."""
PROBES_BEFORE_REST = 5
LONGEST_REST_S = 600.0


@dataclass(frozen=True, slots=True)
class ModelAnswer(Generic[T]):
    """What came of it; `value` None: nothing that can be used. `rule`: the one that the last answer broke."""

    value: T | None
    usage: Usage
    rule: str | None = None


class ModelGateway:
    """Asks once, and again with a complaint, mostly once, when the answer breaks a rule."""

    def __init__(
        self, model: ChatModel, storage: ModelCallStorage, journal: Journal, policy: LlmPolicy, clock: Clock
    ) -> None:
        self._model = model
        self._storage = storage
        self._journal = journal
        self._policy = policy
        self._clock = clock
        self._unanswered = 0  # questions of ours, in a row
        self._rests_until = 0.0

    @property
    def has_model(self) -> bool:
        """Whether there is a model at all."""
        return self._model.is_available

    async def ask_model(
        self,
        scope: Principal,
        prompt: Prompt[Answer],
        read: Callable[[Answer], CheckedAnswer[T]],
        attempts: int = ATTEMPTS,
    ) -> ModelAnswer[T]:
        """`read` holds an answer against the prompt's rules; `attempts`: how often it is asked at most.

        Raises NoChatModel, TokensSpent and ChatModelUnavailable; of the last two there is an event.
        """
        if not self.has_model:
            raise NoChatModel()
        value, usage, asked, rule = None, Usage(), prompt, None
        for attempt in range(1, attempts + 1):
            reading, cost = await self._ask_once(scope, asked, read, attempt)
            value, usage = value if reading.value is None else reading.value, usage + cost
            rule = reading.rule
            if rule is None:
                break
            asked = replace(prompt, question=f"{prompt.question}\n\nYour last answer was refused. {reading.complaint}")
        return ModelAnswer(value, usage, rule)

    async def require_answer(
        self, scope: Principal, prompt: Prompt[Answer], read: Callable[[Answer], CheckedAnswer[T]]
    ) -> ModelAnswer[T]:
        """As `ask`, for what must not be left undone: an answer that is none counts as an outage.

        Raises UnusableAnswer when the model answers a question of ours and not this one, ChatModelUnavailable when it
        answers neither. Then it has to answer ours first, and after PATIENCE of them it is left alone for a while,
        longer each time.
        """
        if self._unanswered:
            await self.probe_model(scope)
        try:
            asked = await self.ask_model(scope, prompt, read)
        except UnusableAnswer:
            await self.probe_model(scope)
            raise
        if asked.value is None and asked.rule in NONSENSE_RULES:
            await self.probe_model(scope)
            raise UnusableAnswer()
        return asked

    async def probe_model(self, scope: Principal) -> None:
        """Ask a question of ours, at the tenant's cost; raises ChatModelUnavailable, TokensSpent."""
        if time.monotonic() < self._rests_until:
            raise ChatModelUnavailable("The chat model answered nonsense, and is left alone for a while.")
        failure = "The chat model answers nonsense."
        try:
            sane = (await self.ask_model(scope, PROBE, read_probe, 1)).rule is None
        except UnusableAnswer as error:
            sane, failure = False, error.detail
        if sane:
            self._unanswered = 0
            return
        self._unanswered += 1
        if (beyond := self._unanswered - PROBES_BEFORE_REST) > 0:
            self._rests_until = time.monotonic() + min(LONGEST_REST_S, 2.0 ** min(beyond, 10))
        raise ChatModelUnavailable(failure)

    async def _ask_once(
        self, scope: Principal, prompt: Prompt[Answer], read: Callable[[Answer], CheckedAnswer[T]], attempt: int
    ) -> tuple[CheckedAnswer[T], Usage]:
        day = self._clock.now().date()
        reserved = estimate_tokens(prompt.rules, prompt.question) + prompt.max_tokens
        if not await self._storage.reserve_tokens(scope, day, reserved, self._policy.daily_tokens):
            await self._record_failure(scope, "skipped")
            raise TokensSpent()
        call, started = ModelCall(prompt.version, self._model.name, attempt), time.perf_counter()
        try:
            # of a call that is cut short by nobody's fault it is not known what it cost: its tokens stay reserved
            reply = await self._model.generate_reply(prompt)
        except ChatModelUnavailable as error:
            failed = replace(call, duration_ms=_elapsed_ms(started), status="error", error=error.code)
            await self._storage.settle_call(scope, day, reserved, failed, self._clock.now())
            await self._record_failure(scope, "error")
            raise
        reading: CheckedAnswer[T] = (
            read(reply.value) if reply.value is not None else CheckedAnswer(rule="malformed", complaint=JSON_COMPLAINT)
        )
        done = replace(
            call, usage=reply.usage, duration_ms=_elapsed_ms(started), items=reading.items, items_ok=reading.items_ok
        )
        if reading.rule is not None:
            done = replace(done, status="refused", error=reading.rule)
        await self._storage.settle_call(scope, day, reserved, done, self._clock.now())
        return reading, reply.usage

    async def _record_failure(self, scope: Principal, status: Literal["error", "skipped"]) -> None:
        with contextlib.suppress(MnemaError):
            await self._journal.record_event(scope, [Observation("worker", "llm", status)])


def _elapsed_ms(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
