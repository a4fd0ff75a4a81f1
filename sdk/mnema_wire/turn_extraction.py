"""Turns that the server's chat model reads: requests and answers."""

from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from mnema_wire.bases import Answered, Request, Stored
from mnema_wire.checks import check_storable
from mnema_wire.fields import Identifier, Zone
from mnema_wire.turn_limits import (
    MAX_CONTINUED,
    MAX_DESCRIPTION,
    MAX_KEY,
    MAX_PICKED,
    MAX_SELECTED,
    MAX_SPEC,
    MAX_SPEC_ENTRIES,
    MAX_SPEC_VALUE,
    MAX_SPEC_VALUES,
)
from mnema_wire.turn_memory import LongText, TurnMemoryIn

_STREAM = "answer with events while the model writes: `delta`, `restart`, then `result` or `error`"


class UsageOut(Answered):
    """The tokens that the chat model used for this answer, with its retries."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class ReconcileIn(TurnMemoryIn):
    """The current turn."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"user_id": "maya", "turn_id": "turn_13", "user_text": "Always answer in French, please."}]
        },
    )
    turn_id: Identifier
    user_text: LongText | None = Field(default=None, description="the user's message; absent: that of the stored turn")
    timezone: Zone = Field(default="UTC", description="the user's time zone")
    stream: bool = Field(default=False, description=_STREAM)


class ExtractedSignalOut(Answered):
    """A statement that the model found."""

    key: str
    value: Any
    severity: str
    scope: str
    applies_to: str = ""


class ReconciledOut(Stored):
    """The reading of the turn. All parts but the ids and `usage` may be put into its fingerprint as they are."""

    told = frozenset({"usage"})
    objective: str
    topics: list[str]
    assertions: list[ExtractedSignalOut]
    exceptions: list[ExtractedSignalOut]
    facts: list[ExtractedSignalOut]
    turn_ids: list[str] = Field(description=f"at most {MAX_CONTINUED} earlier turns that the message continues")
    memory_bucket_ids: list[str] = Field(description=f"at most {MAX_PICKED} buckets; they are now picked")
    local_memories_turn_ids: list[str] = Field(
        description=f"at most {MAX_SELECTED} turns whose memories matter; they are now selected"
    )
    usage: UsageOut


class SpecEntryIn(Request):
    """A kind of assistant signal to look for."""

    key: Annotated[str, Field(min_length=1, max_length=MAX_KEY, pattern=r"\w"), AfterValidator(check_storable)]
    description: Annotated[str, Field(max_length=MAX_DESCRIPTION), AfterValidator(check_storable)] = ""
    values: Annotated[
        list[Annotated[str, Field(max_length=MAX_SPEC_VALUE), AfterValidator(check_storable)]],
        Field(max_length=MAX_SPEC_VALUES, description="the only values that count; empty: any"),
    ] = Field(default=[])


class SummarizeIn(TurnMemoryIn):
    """The turn to sum up."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "user_id": "maya",
                    "turn_id": "turn_13",
                    "user_text": "Which plan is best for two?",
                    "assistant_text": "I recommend the Family plan.",
                    "assistant_signal_spec": [{"key": "plan", "description": "a plan that was advised"}],
                }
            ]
        },
    )
    turn_id: Identifier
    user_text: LongText | None = Field(default=None, description="absent: that of the stored turn")
    assistant_text: LongText | None = Field(default=None, description="absent: that of the stored turn")
    assistant_signal_spec: (
        Annotated[list[SpecEntryIn], Field(max_length=MAX_SPEC_ENTRIES)]
        | Annotated[str, Field(max_length=MAX_SPEC), AfterValidator(check_storable)]
        | None
    ) = Field(
        default=None,
        description="the assistant signals to look for, as entries or as a text that names their keys, together at most"
        f" {MAX_SPEC} characters; absent: none",
    )
    store: bool = Field(
        default=False, description="put the summary into the turn's log and the signals into its fingerprint"
    )
    stream: bool = Field(default=False, description=_STREAM)


class SummarizedOut(Stored):
    """The summary, empty if the model gave none that keeps the rules, and what the assistant mentioned or promoted."""

    told = frozenset({"usage"})
    summary: str
    assistant_signals: list[ExtractedSignalOut]
    usage: UsageOut
