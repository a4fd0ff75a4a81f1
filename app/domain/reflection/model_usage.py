"""The cost of chat models: tokens are counted for each tenant and day, before and after each call."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final, Generic, Literal, TypeVar

from app.domain.days import start_of_next_day
from app.domain.settable import Range, RangedPolicy

T = TypeVar("T")
NONSENSE: Final = "malformed"
"""The rule whose breach shows that the model did not answer the question at all."""
CUT: Final = "cut"
"""The rule that an answer breaks which ends early. Its complete items count."""
UNREADABLE: Final = (NONSENSE, CUT)
BYTES_A_TOKEN = 3
"""Bytes assumed for a token. In prose a token usually has more bytes, so the estimate is rather too high."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one or several calls."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """The input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@dataclass(frozen=True, slots=True)
class LlmPolicy(RangedPolicy):
    """The limits of chat model calls.

    `daily_tokens` is the limit of one tenant for input and output, from midnight to midnight UTC; 0 means no calls.
    `user_share` is the part of these tokens that may be spent on one user. `wait_days` is the time that a turn waits
    for tokens, or for a model that can read it. `unreadable_share` is the part of the day's tokens that unreadable
    answers may take; then calls wait for the next day.
    """

    daily_tokens: Annotated[int, Range(0)] = 200_000
    user_share: Annotated[float, Range(0, 1, excludes_low=True)] = 0.25
    wait_days: Annotated[int, Range(0)] = 3
    unreadable_share: Annotated[float, Range(0, 1, excludes_low=True)] = 0.1

    @property
    def counted_users(self) -> int:
        """The number of users from which the part of each is `user_share`. With fewer users the parts are larger."""
        return math.ceil(1 / self.user_share)

    def user_tokens(self, users: int) -> int:
        """Return the tokens of a day that may be spent on one of a tenant's `users`. Few users have larger parts."""
        return int(self.daily_tokens * max(self.user_share, 1 / max(1, users)))

    def wait_s(self, stored: datetime, now: datetime) -> float | None:
        """Return the seconds until the next day's tokens; None if the turn is too old to wait."""
        tomorrow = start_of_next_day(now)
        return None if tomorrow - stored > timedelta(days=self.wait_days) else (tomorrow - now).total_seconds()


def seconds_to_midnight(now: datetime) -> int:
    """Return the whole seconds, at least 1, until the next day (UTC) and its tokens begin."""
    return math.ceil((start_of_next_day(now) - now).total_seconds())


def estimate_tokens(*texts: str) -> int:
    """Return an estimate of the texts' tokens, rather too high than too low."""
    return sum(-(-len(text.encode()) // BYTES_A_TOKEN) for text in texts)


@dataclass(frozen=True, slots=True)
class ModelCall:
    """The record of one call.

    - `prompt`: the prompt's version.
    - `attempt`: from 2 on, a retry because the answer before broke a rule.
    - `items`, `items_ok`: the parts of the answer that are checked one by one, and those that keep the rules.
    - `error`: the code of the broken rule or of the failure.
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

    @property
    def is_unreadable(self) -> bool:
        """True if nothing could be read of the answer."""
        return self.status == "refused" and self.error in UNREADABLE and not self.items_ok


@dataclass(frozen=True, slots=True)
class PromptReport:
    """The figures of one version of a prompt. Of `first_passes` first answers, `first_pass_ok` kept every rule."""

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
        """The share of items that kept the rules, or of first answers if there are no items; None without any."""
        passed, total = (self.items_ok, self.items) if self.items else (self.first_pass_ok, self.first_passes)
        return passed / total if total else None


@dataclass(frozen=True, slots=True)
class CheckedAnswer(Generic[T]):
    """A model's answer, checked against its prompt's rules.

    - `rule`: the code of the broken rule; None if the answer keeps all.
    - `complaint`: the feedback to the model for a retry.
    - `value`: the usable part of the answer, None if there is none. That of a broken answer is used only if the retry
      is no better.
    - `items`, `items_ok`: see `ModelCall`.
    - `refused`: the codes of the rules that keep items out of `value`, one for each item.
    """

    value: T | None = None
    rule: str | None = None
    complaint: str = ""
    items: int = 0
    items_ok: int = 0
    refused: Sequence[str] = ()
