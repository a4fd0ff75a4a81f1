"""Views of turn memory that agents read: buckets, blocks and assistant signals."""

from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from mnema_wire.bases import Answered, words

View = Literal["gate", "reconciler", "downstream", "final"]


class BucketSignal(Answered):
    """A signal of a bucket. `weight` is from 0.05 to 1."""

    kind: Annotated[str, words("assertions", "exceptions", "facts")]
    key: str
    value: Any
    severity: str
    scope: str
    applies_to: str
    weight: float


class Bucket(Answered):
    """A bucket: what the turns of one objective state, with its strongest signals."""

    bucket_id: str
    objective: str
    topics: list[str]
    status: Annotated[str, words("active", "disabled")]
    updated_at: datetime = Field(description="the last change")
    used_at: datetime = Field(description="when a fingerprint was last taken")
    signal_count: int
    turn_count: int
    signals: list[BucketSignal]


class Buckets(Answered):
    """The buckets of a conversation, the latest change first. `enabled` false: buckets are switched off."""

    enabled: bool
    items: list[Bucket]


class ViewBlock(Answered):
    """A block of a view. `text` begins with the header."""

    header: str
    text: str


class ContextView(Answered):
    """A view of a conversation. `text` has all blocks, with a blank line between them."""

    view: Annotated[str, words(*get_args(View))]
    text: str
    blocks: list[ViewBlock]

    def __str__(self) -> str:
        return self.text


class AssistantSignal(Answered):
    """Something that the assistant mentioned or promoted."""

    key: str
    value: Any
    severity: str
    scope: str
    applies_to: str = ""


class SignalTurn(Answered):
    """A turn with its assistant signals."""

    conversation_id: str
    turn_id: str
    made_at: datetime
    objective: str
    assistant_signals: list[AssistantSignal]


class SignalTurns(Answered):
    """The newest turns with assistant signals, newest first."""

    items: list[SignalTurn] = Field(description="one for each turn that has signals")
