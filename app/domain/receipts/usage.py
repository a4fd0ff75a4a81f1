"""Usage of a day or of a user."""

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a day or of a user. The other of both is None.

    `user_id` is '' for what belongs to no user. `model_tokens` is None where users are told apart.
    """

    day: date | None
    user_id: str | None
    queries: int
    tokens: int
    writes: int
    model_tokens: int | None


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Conditions on usage; None means no condition. Days are in UTC; `until` is exclusive."""

    user_id: str | None = None
    since: date | None = None
    until: date | None = None
