"""Buckets: what the turns of one objective state, gathered by the server. The call that reads them, and its answer."""

from datetime import datetime
from typing import Any, Literal

from mnema_client.answered import Answered
from mnema_client.calls import model_reader, query_params
from mnema_client.transport import Call
from mnema_client.turn_calls import conversation_path


class BucketSignal(Answered):
    """A signal of a bucket. `weight` is from 0.05 to 1."""

    kind: str
    key: str
    value: Any = None
    severity: str
    scope: str
    applies_to: str
    weight: float


class Bucket(Answered):
    """A bucket with its strongest signals.

    `updated_at`: the last change; `used_at`: when a fingerprint was last taken; `status`: active or disabled.
    """

    bucket_id: str
    objective: str
    topics: list[str]
    status: str
    updated_at: datetime
    used_at: datetime
    signal_count: int
    turn_count: int
    signals: list[BucketSignal]


class Buckets(Answered):
    """The buckets of a conversation, the latest change first. Not `enabled`: the server has buckets switched off."""

    enabled: bool
    items: list[Bucket]


def buckets(
    conversation_id: str, *, user_id: str, status: Literal["active", "disabled"] | None = None
) -> Call[Buckets]:
    """Return the buckets of a conversation, with this status or all."""
    path = f"{conversation_path(conversation_id)}/buckets"
    return Call("GET", path, model_reader(Buckets), query_params(user_id=user_id, status=status))
