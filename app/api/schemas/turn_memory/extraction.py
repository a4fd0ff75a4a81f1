"""Bodies of the routes that read a turn with a chat model (`docs/turn-memory.md`)."""

from typing import Annotated, Any

from mnema_wire.bases import Request, Stored
from mnema_wire.checks import check_storable
from mnema_wire.fields import Identifier, Zone
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.api.schemas.turn_memory.turns import LongText, TurnMemoryIn
from app.domain.reflection.model_usage import Usage
from app.domain.turn_memory.active_set import MAX_BUCKETS, MAX_SELECTED
from app.domain.turn_memory.extraction import (
    MAX_DESCRIPTION,
    MAX_SPEC,
    MAX_SPEC_ENTRIES,
    MAX_SPEC_VALUE,
    MAX_SPEC_VALUES,
    MAX_TURNS,
    ReconciledTurn,
    SpecEntry,
    SummarisedTurn,
    read_signal_spec,
)
from app.domain.turn_memory.signals import MAX_KEY, Signal
from app.usecases.turn_memory.reconcile import TurnToReconcile
from app.usecases.turn_memory.summarize import TurnToSummarise

_STREAM = "answer with events while the model writes: `delta`, `restart`, then `result` or `error`"


class UsageOut(BaseModel):
    """The tokens that the chat model used for this answer, with its retries."""

    input_tokens: int
    output_tokens: int
    total_tokens: int

    @classmethod
    def from_usage(cls, usage: Usage) -> "UsageOut":
        """Return the body for the tokens of one or several calls."""
        return cls(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, total_tokens=usage.total_tokens)


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

    def to_domain(self) -> TurnToReconcile:
        """Return the turn to read."""
        return TurnToReconcile(self.turn_id, self.user_text, self.timezone)


class ExtractedSignalOut(BaseModel):
    """A statement that the model found."""

    key: str
    value: Any
    severity: str
    scope: str
    applies_to: str = ""

    @classmethod
    def from_signal(cls, signal: Signal) -> "ExtractedSignalOut":
        """Return the body for a signal."""
        return cls(**signal.as_json())


class ReconciledOut(Stored):
    """The reading of the turn. All parts but the ids and `usage` may be put into its fingerprint as they are."""

    told = frozenset({"usage"})
    objective: str
    topics: list[str]
    assertions: list[ExtractedSignalOut]
    exceptions: list[ExtractedSignalOut]
    facts: list[ExtractedSignalOut]
    turn_ids: list[str] = Field(description=f"at most {MAX_TURNS} earlier turns that the message continues")
    memory_bucket_ids: list[str] = Field(description=f"at most {MAX_BUCKETS} buckets; they are now picked")
    local_memories_turn_ids: list[str] = Field(
        description=f"at most {MAX_SELECTED} turns whose memories matter; they are now selected"
    )
    usage: UsageOut

    @classmethod
    def from_turn(cls, turn: ReconciledTurn, usage: Usage) -> "ReconciledOut":
        """Return the body for a turn that was read."""
        return cls(
            objective=turn.objective,
            topics=list(turn.topics),
            assertions=[ExtractedSignalOut.from_signal(signal) for signal in turn.assertions],
            exceptions=[ExtractedSignalOut.from_signal(signal) for signal in turn.exceptions],
            facts=[ExtractedSignalOut.from_signal(signal) for signal in turn.facts],
            turn_ids=list(turn.turn_ids),
            memory_bucket_ids=list(turn.memory_bucket_ids),
            local_memories_turn_ids=list(turn.local_memories_turn_ids),
            usage=UsageOut.from_usage(usage),
        )


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

    def to_domain(self) -> TurnToSummarise:
        """Return the turn to sum up. Raise InvalidInput for a specification that is too large."""
        given = self.assistant_signal_spec
        entries = given if given is None or isinstance(given, str) else [_spec_entry(entry) for entry in given]
        return TurnToSummarise(
            self.turn_id, self.user_text, self.assistant_text, read_signal_spec(entries), stores=self.store
        )


class SummarizedOut(Stored):
    """The summary, empty if the model gave none that keeps the rules, and what the assistant mentioned or promoted."""

    told = frozenset({"usage"})
    summary: str
    assistant_signals: list[ExtractedSignalOut]
    usage: UsageOut

    @classmethod
    def from_turn(cls, turn: SummarisedTurn, usage: Usage) -> "SummarizedOut":
        """Return the body for a turn that was summed up."""
        return cls(
            summary=turn.summary,
            assistant_signals=[ExtractedSignalOut.from_signal(signal) for signal in turn.assistant_signals],
            usage=UsageOut.from_usage(usage),
        )


def _spec_entry(entry: SpecEntryIn) -> SpecEntry:
    return SpecEntry(entry.key, entry.description, tuple(entry.values))
