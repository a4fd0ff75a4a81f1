"""What a chat model may cost (SPEC §7): tokens are counted for each tenant and day, before a call and after it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, Literal, TypeVar

T = TypeVar("T")
BYTES_A_TOKEN = 3
"""Fewer than any usual tokeniser needs for prose: a guess that is rather too high."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or several calls."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Both together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@dataclass(frozen=True, slots=True)
class LlmPolicy:
    """`daily_tokens`: of one tenant, in and out, from midnight to midnight UTC; 0: no calls. `wait_days`: how long a
    turn waits for a day that has some left."""

    daily_tokens: int = 200_000
    wait_days: int = 3

    def __post_init__(self) -> None:
        if min(self.daily_tokens, self.wait_days) < 0:
            raise ValueError("daily_tokens must be at least 0, wait_days too")

    def wait_s(self, stored: datetime, now: datetime) -> float | None:
        """Seconds until the next day's tokens; None for what was stored too long ago to wait on."""
        tomorrow = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        return None if tomorrow - stored > timedelta(days=self.wait_days) else (tomorrow - now).total_seconds()


def estimate_tokens(*texts: str) -> int:
    """About as many tokens as the texts have, rather more than fewer."""
    return sum(-(-len(text.encode()) // BYTES_A_TOKEN) for text in texts)


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call as it is kept. `prompt`: its version; `attempt` 2: asked again, for the first answer broke a rule.

    `items`: things in the answer that the rules look at one by one; `items_ok`: how many of them keep the rules.
    `error`: a code, of the rule that was broken or of the failure.
    """

    prompt: str
    model: str
    attempt: int
    usage: Usage = Usage()
    duration_ms: int = 0
    status: Literal["ok", "refused", "error"] = "ok"
    error: str | None = None
    items: int = 0
    items_ok: int = 0


@dataclass(frozen=True, slots=True)
class PromptReport:
    """How one version of a prompt fares. Of `first_passes`, first answers, `first_pass_ok` kept every rule."""

    prompt: str
    version: int
    calls: int
    failed: int
    first_passes: int
    first_pass_ok: int
    items: int
    items_ok: int
    input_tokens: int
    output_tokens: int

    @property
    def pass_rate(self) -> float | None:
        """The share that passed at first: of items where there are any, else of answers; None before the first."""
        passed, of = (self.items_ok, self.items) if self.items else (self.first_pass_ok, self.first_passes)
        return passed / of if of else None


@dataclass(frozen=True, slots=True)
class CheckedAnswer(Generic[T]):
    """An answer held against its prompt's rules.

    `rule`: a code, of the one it breaks; None: of none. `complaint`: what the model is then told when it is asked
    again. `value`: what may be used of the answer, of a broken one only if the next is no better; None: nothing.
    `items` and `items_ok`: as in Call.
    """

    value: T | None = None
    rule: str | None = None
    complaint: str = ""
    items: int = 0
    items_ok: int = 0
