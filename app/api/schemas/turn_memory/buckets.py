"""The body of the route that lists buckets (`docs/turn-memory.md`)."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.usecases.turn_memory.buckets import BucketCards

BucketStatusName = Literal["active", "disabled"]


class BucketSignalOut(BaseModel):
    """A signal of a bucket. `weight` is from 0.05 to 1."""

    kind: Literal["assertions", "exceptions", "facts"]
    key: str
    value: Any
    severity: str
    scope: str
    applies_to: str
    weight: float


class BucketOut(BaseModel):
    """A bucket: what the turns of one objective state, with its strongest signals."""

    bucket_id: str
    objective: str
    topics: list[str]
    status: BucketStatusName
    updated_at: datetime = Field(description="the last change")
    used_at: datetime = Field(description="when a fingerprint was last taken")
    signal_count: int
    turn_count: int
    signals: list[BucketSignalOut]


class BucketsOut(BaseModel):
    """The buckets of a conversation, the latest change first. `enabled` false: buckets are switched off."""

    enabled: bool
    items: list[BucketOut]

    @classmethod
    def from_cards(cls, cards: BucketCards) -> "BucketsOut":
        """Return the body for the cards of buckets."""
        return cls(enabled=cards.enabled, items=[BucketOut.model_validate(card) for card in cards.items])
