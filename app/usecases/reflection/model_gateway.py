"""Every call of a chat model: within the tenant's tokens of the day, held against rules, kept (SPEC §7)."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from app.domain.changes import Observation
from app.domain.errors import MnemaError
from app.domain.outages import ChatModelUnavailable, NoChatModel, TokensSpent, UnusableAnswer
from app.domain.principal import Scope
from app.domain.reflection.model_usage import Call, LlmPolicy, Reading, Usage, guessed_tokens
from app.ports import Answer, ChatModel, Clock, Prompt
from app.prompts.probe import PROBE, read_probe
from app.storage.journal import Journal
from app.storage.reflection.model_calls import LlmStorage

T = TypeVar("T")
ATTEMPTS = 2
JSON = "Answer with nothing but JSON of the shape asked for."
NONSENSE = frozenset({"malformed", "too_many"})
"""Rules of which the breach tells that nobody answered the question."""
PATIENCE = 5
LONGEST_REST_S = 600.0


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """What came of it; `value` None: nothing that can be used. `rule`: the one that the last answer broke."""

    value: T | None
    usage: Usage
    rule: str | None = None


class AskModel:
    """Asks once, and again with a complaint, mostly once, when the answer breaks a rule."""

    def __init__(
        self, model: ChatModel, storage: LlmStorage, journal: Journal, policy: LlmPolicy, clock: Clock
    ) -> None:
        self._model = model
        self._storage = storage
        self._journal = journal
        self._policy = policy
        self._clock = clock
        self._unanswered = 0  # questions of ours, in a row
        self._rests_until = 0.0

    @property
    def able(self) -> bool:
        """Whether there is a model at all."""
        return self._model.answers

    async def ask(
        self, scope: Scope, prompt: Prompt[Answer], read: Callable[[Answer], Reading[T]], attempts: int = ATTEMPTS
    ) -> Asked[T]:
        """`read` holds an answer against the prompt's rules; `attempts`: how often it is asked at most.

        Raises NoChatModel, TokensSpent and ChatModelUnavailable; of the last two there is an event.
        """
        if not self.able:
            raise NoChatModel()
        value, usage, asked, rule = None, Usage(), prompt, None
        for attempt in range(1, attempts + 1):
            reading, cost = await self._once(scope, asked, read, attempt)
            value, usage = value if reading.value is None else reading.value, usage + cost
            rule = reading.rule
            if rule is None:
                break
            asked = replace(prompt, question=f"{prompt.question}\n\nYour last answer was refused. {reading.complaint}")
        return Asked(value, usage, rule)

    async def require(self, scope: Scope, prompt: Prompt[Answer], read: Callable[[Answer], Reading[T]]) -> Asked[T]:
        """As `ask`, for what must not be left undone: an answer that is none counts as an outage.

        Raises UnusableAnswer when the model answers a question of ours and not this one, ChatModelUnavailable when it
        answers neither. Then it has to answer ours first, and after PATIENCE of them it is left alone for a while,
        longer each time.
        """
        if self._unanswered:
            await self.check(scope)
        try:
            asked = await self.ask(scope, prompt, read)
        except UnusableAnswer:
            await self.check(scope)
            raise
        if asked.value is None and asked.rule in NONSENSE:
            await self.check(scope)
            raise UnusableAnswer()
        return asked

    async def check(self, scope: Scope) -> None:
        """Ask a question of ours, at the tenant's cost; raises ChatModelUnavailable, TokensSpent."""
        if time.monotonic() < self._rests_until:
            raise ChatModelUnavailable("The chat model answered nonsense, and is left alone for a while.")
        failure = "The chat model answers nonsense."
        try:
            sane = (await self.ask(scope, PROBE, read_probe, 1)).rule is None
        except UnusableAnswer as error:
            sane, failure = False, error.detail
        if sane:
            self._unanswered = 0
            return
        self._unanswered += 1
        if (beyond := self._unanswered - PATIENCE) > 0:
            self._rests_until = time.monotonic() + min(LONGEST_REST_S, 2.0 ** min(beyond, 10))
        raise ChatModelUnavailable(failure)

    async def _once(
        self, scope: Scope, prompt: Prompt[Answer], read: Callable[[Answer], Reading[T]], attempt: int
    ) -> tuple[Reading[T], Usage]:
        day = self._clock.now().date()
        reserved = guessed_tokens(prompt.rules, prompt.question) + prompt.max_tokens
        if not await self._storage.reserve(scope, day, reserved, self._policy.daily_tokens):
            await self._note(scope, "skipped")
            raise TokensSpent()
        call, started = Call(prompt.version, self._model.name, attempt), time.perf_counter()
        try:
            # of a call that is cut short by nobody's fault it is not known what it cost: its tokens stay reserved
            reply = await self._model.ask(prompt)
        except ChatModelUnavailable as error:
            failed = replace(call, duration_ms=_ms(started), status="error", error=error.code)
            await self._storage.settle(scope, day, reserved, failed, self._clock.now())
            await self._note(scope, "error")
            raise
        reading: Reading[T] = (
            read(reply.value) if reply.value is not None else Reading(rule="malformed", complaint=JSON)
        )
        done = replace(
            call, usage=reply.usage, duration_ms=_ms(started), items=reading.items, items_ok=reading.items_ok
        )
        if reading.rule is not None:
            done = replace(done, status="refused", error=reading.rule)
        await self._storage.settle(scope, day, reserved, done, self._clock.now())
        return reading, reply.usage

    async def _note(self, scope: Scope, status: Literal["error", "skipped"]) -> None:
        with contextlib.suppress(MnemaError):
            await self._journal.note(scope, [Observation("worker", "llm", status)])


def _ms(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
