"""The gateway to the chat model: every call is limited by the tenant's daily tokens, checked by rules and recorded."""

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
"""Rules whose breach shows that the model did not answer the question at all."""
PROBES_BEFORE_REST = 5
LONGEST_REST_S = 600.0


@dataclass(frozen=True, slots=True)
class ModelAnswer(Generic[T]):
    """The answer to a prompt. `value` is None if no answer was valid. `rule` is the one that the last answer broke."""

    value: T | None
    usage: Usage
    rule: str | None = None


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
        self._failed_probes = 0  # in a row
        self._rests_until = 0.0

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
    ) -> ModelAnswer[T]:
        """Ask the model up to `attempts` times until `read` accepts its answer by the prompt's rules.

        Raise NoChatModel, TokensSpent or ChatModelUnavailable; the last two are recorded as an event.
        """
        if not self.has_model:
            raise NoChatModel()
        value, usage, attempt_prompt, rule = None, Usage(), prompt, None
        for attempt in range(1, attempts + 1):
            reading, cost = await self._ask_once(principal, attempt_prompt, read, attempt)
            value, usage = value if reading.value is None else reading.value, usage + cost
            rule = reading.rule
            if rule is None:
                break
            feedback = f"Your last answer was refused. {reading.complaint}"
            attempt_prompt = replace(prompt, question=f"{prompt.question}\n\n{feedback}")
        return ModelAnswer(value, usage, rule)

    async def require_answer(
        self, principal: Principal, prompt: Prompt[Answer], read: Callable[[Answer], CheckedAnswer[T]]
    ) -> ModelAnswer[T]:
        """Ask as `ask_model` does, for work that must not be lost: a nonsensical answer counts as an outage.

        Raise UnusableAnswer if the model fails this prompt but answers the probe, ChatModelUnavailable if it fails
        both. From then on it must answer the probe first. After PROBES_BEFORE_REST failed probes it is left alone, for
        longer each time.
        """
        if self._failed_probes:
            await self.probe_model(principal)
        try:
            answer = await self.ask_model(principal, prompt, read)
        except UnusableAnswer:
            await self.probe_model(principal)
            raise
        if answer.value is None and answer.rule in NONSENSE_RULES:
            await self.probe_model(principal)
            raise UnusableAnswer()
        return answer

    async def probe_model(self, principal: Principal) -> None:
        """Ask the probe question, at the tenant's cost. Raise ChatModelUnavailable or TokensSpent."""
        if time.monotonic() < self._rests_until:
            raise ChatModelUnavailable("The chat model answered nonsense and is not asked again for a while.")
        failure = "The chat model answers nonsense."
        try:
            sane = (await self.ask_model(principal, PROBE, read_probe, 1)).rule is None
        except UnusableAnswer as error:
            sane, failure = False, error.detail
        if sane:
            self._failed_probes = 0
            return
        self._failed_probes += 1
        if (excess := self._failed_probes - PROBES_BEFORE_REST) > 0:
            self._rests_until = time.monotonic() + min(LONGEST_REST_S, 2.0 ** min(excess, 10))
        raise ChatModelUnavailable(failure)

    async def _ask_once(
        self, principal: Principal, prompt: Prompt[Answer], read: Callable[[Answer], CheckedAnswer[T]], attempt: int
    ) -> tuple[CheckedAnswer[T], Usage]:
        day = self._clock.now().date()
        reserved = estimate_tokens(prompt.rules, prompt.question) + prompt.max_tokens
        if not await self._storage.reserve_tokens(principal, day, reserved, self._policy.daily_tokens):
            await self._record_failure(principal, "skipped")
            raise TokensSpent()
        call, started = ModelCall(prompt.version, self._model.name, attempt), time.perf_counter()
        try:
            # nobody knows the cost of a cancelled call, so its tokens stay reserved
            reply = await self._model.generate_reply(prompt)
        except ChatModelUnavailable as error:
            failed = replace(call, duration_ms=_elapsed_ms(started), status="error", error=error.code)
            await self._storage.settle_call(principal, day, reserved, failed, self._clock.now())
            await self._record_failure(principal, "error")
            raise
        reading: CheckedAnswer[T] = (
            read(reply.value) if reply.value is not None else CheckedAnswer(rule="malformed", complaint=JSON_COMPLAINT)
        )
        answered = replace(
            call, usage=reply.usage, duration_ms=_elapsed_ms(started), items=reading.items, items_ok=reading.items_ok
        )
        if reading.rule is not None:
            answered = replace(answered, status="refused", error=reading.rule)
        await self._storage.settle_call(principal, day, reserved, answered, self._clock.now())
        return reading, reply.usage

    async def _record_failure(self, principal: Principal, status: Literal["error", "skipped"]) -> None:
        with contextlib.suppress(MnemaError):
            await self._journal.record_event(principal, [Observation("worker", "llm", status)])


def _elapsed_ms(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
