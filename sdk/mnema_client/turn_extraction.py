"""Turns that the server's chat model reads: the calls of the ctx-reconciler and of the turn summarizer."""

from collections.abc import Mapping, Sequence
from typing import Any

from mnema_wire.turn_views import AssistantSignal

from mnema_client.answered import Answered, Stored
from mnema_client.calls import JSON, build_body, model_reader
from mnema_client.model_events import EventCall
from mnema_client.requests import Sent
from mnema_client.transport import Call
from mnema_client.turn_calls import conversation_path


class TurnToReconcile(Sent):
    """The current turn."""

    user_id: str
    project_id: str | None = None
    turn_id: str
    user_text: str | None = None
    timezone: str = "UTC"
    stream: bool = False


class SpecEntry(Sent):
    """A kind of assistant signal to look for. With `values`, only these count."""

    key: str
    description: str = ""
    values: list[str] | None = None


class TurnToSummarize(Sent):
    """The turn to sum up."""

    user_id: str
    project_id: str | None = None
    turn_id: str
    user_text: str | None = None
    assistant_text: str | None = None
    assistant_signal_spec: list[SpecEntry] | str | None = None
    store: bool = False
    stream: bool = False


SignalSpec = str | Sequence[SpecEntry | Mapping[str, Any]]


class TokenUsage(Answered):
    """The tokens that the chat model used for an answer, with its retries."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class FoundSignal(AssistantSignal):
    """A statement that the model found: an assertion, an exception, a fact or an assistant signal."""


class ReconciledTurn(Stored):
    """The reading of a user's message: its signals, and the earlier turns, memories and buckets that matter for it.

    `local_memories_turn_ids` and `memory_bucket_ids` are now selected in the conversation's active set.
    """

    objective: str
    topics: list[str]
    assertions: list[FoundSignal]
    exceptions: list[FoundSignal]
    facts: list[FoundSignal]
    turn_ids: list[str]
    memory_bucket_ids: list[str]
    local_memories_turn_ids: list[str]
    usage: TokenUsage


class SummarizedTurn(Stored):
    """The summary of a turn, perhaps empty, and what the assistant mentioned or promoted in it."""

    summary: str
    assistant_signals: list[FoundSignal]
    usage: TokenUsage


def reconcile_turn(
    conversation_id: str,
    turn_id: str,
    *,
    user_id: str,
    user_text: str | None = None,
    timezone: str | None = None,
    project_id: str | None = None,
) -> Call[ReconciledTurn]:
    """Read the user's message of a turn with the server's chat model, and select the memories that matter for it.

    `user_text`: by default that of the stored turn. The fingerprint is not written. A model takes seconds: give the
    client a `timeout_s` that is long enough, or use `stream_reconcile`. Raise NoChatModel.
    """
    body = build_body(
        TurnToReconcile,
        user_id=user_id,
        project_id=project_id,
        turn_id=turn_id,
        user_text=user_text,
        timezone=timezone,
    )
    return _post(conversation_id, "reconcile", ReconciledTurn, body)


def stream_reconcile(
    conversation_id: str,
    turn_id: str,
    *,
    user_id: str,
    user_text: str | None = None,
    timezone: str | None = None,
    project_id: str | None = None,
) -> EventCall[ReconciledTurn]:
    """Read a turn as `reconcile_turn` does. Yield the model's answer as it is written, and at last the result."""
    body = build_body(
        TurnToReconcile,
        user_id=user_id,
        project_id=project_id,
        turn_id=turn_id,
        user_text=user_text,
        timezone=timezone,
        stream=True,
    )
    return EventCall(_post(conversation_id, "reconcile", ReconciledTurn, body), ReconciledTurn)


def summarize_turn(
    conversation_id: str,
    turn_id: str,
    *,
    user_id: str,
    user_text: str | None = None,
    assistant_text: str | None = None,
    assistant_signal_spec: SignalSpec | None = None,
    store: bool | None = None,
    project_id: str | None = None,
) -> Call[SummarizedTurn]:
    """Sum up a turn with the server's chat model, and find the assistant signals that the specification asks for.

    The texts are by default those of the stored turn. `assistant_signal_spec`: entries, or a text that names their
    keys; without one no signals are looked for. `store`: put the summary into the turn's log and the signals into its
    fingerprint. Raise NoChatModel.
    """
    body = build_body(
        TurnToSummarize,
        user_id=user_id,
        project_id=project_id,
        turn_id=turn_id,
        user_text=user_text,
        assistant_text=assistant_text,
        assistant_signal_spec=assistant_signal_spec,
        store=store,
    )
    return _post(conversation_id, "summarize", SummarizedTurn, body)


def stream_summary(
    conversation_id: str,
    turn_id: str,
    *,
    user_id: str,
    user_text: str | None = None,
    assistant_text: str | None = None,
    assistant_signal_spec: SignalSpec | None = None,
    store: bool | None = None,
    project_id: str | None = None,
) -> EventCall[SummarizedTurn]:
    """Sum up a turn as `summarize_turn` does. Yield the model's answer as it is written, and at last the result."""
    body = build_body(
        TurnToSummarize,
        user_id=user_id,
        project_id=project_id,
        turn_id=turn_id,
        user_text=user_text,
        assistant_text=assistant_text,
        assistant_signal_spec=assistant_signal_spec,
        store=store,
        stream=True,
    )
    return EventCall(_post(conversation_id, "summarize", SummarizedTurn, body), SummarizedTurn)


def _post(conversation_id: str, route: str, model: type[Any], body: Sent) -> Call[Any]:
    """Return the call. It costs tokens, so it is only retried if the server certainly did nothing."""
    path = f"{conversation_path(conversation_id)}/{route}"
    return Call("POST", path, model_reader(model), content=body.body(), headers=JSON, repeatable=False)
