"""Turns that the server's chat model reads: the calls of the ctx-reconciler and of the turn summarizer."""

from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict, Unpack

from mnema_wire.turn_extraction import ReconciledOut, ReconcileIn, SpecEntryIn, SummarizedOut, SummarizeIn
from pydantic import BaseModel

from mnema_client.calls import JSON, build_body, model_reader
from mnema_client.model_events import EventCall
from mnema_client.requests import encode_body
from mnema_client.transport import Call
from mnema_client.turn_calls import conversation_path

SignalSpec = str | Sequence[SpecEntryIn | Mapping[str, Any]]


class ReconcileFields(TypedDict, total=False):
    """Keywords of `reconcile_turn`. `user_text`: by default that of the stored turn."""

    user_id: Required[str]
    user_text: str | None
    timezone: str | None
    project_id: str | None


class SummaryFields(TypedDict, total=False):
    """Keywords of `summarize_turn`. The texts are by default those of the stored turn.

    `assistant_signal_spec`: entries, or a text that names their keys; without one no signals are looked for. `store`:
    put the summary into the turn's log and the signals into its fingerprint.
    """

    user_id: Required[str]
    user_text: str | None
    assistant_text: str | None
    assistant_signal_spec: SignalSpec | None
    store: bool | None
    project_id: str | None


def reconcile_turn(conversation_id: str, turn_id: str, **fields: Unpack[ReconcileFields]) -> Call[ReconciledOut]:
    """Read the user's message of a turn with the server's chat model, and select the memories that matter for it.

    The fingerprint is not written. A model takes seconds: give the client a `timeout_s` that is long enough, or use
    `stream_reconcile`. Raise NoChatModel.
    """
    body = build_body(ReconcileIn, turn_id=turn_id, **fields)
    return _post(conversation_id, "reconcile", ReconciledOut, body)


def stream_reconcile(conversation_id: str, turn_id: str, **fields: Unpack[ReconcileFields]) -> EventCall[ReconciledOut]:
    """Read a turn as `reconcile_turn` does. Yield the model's answer as it is written, and at last the result."""
    body = build_body(ReconcileIn, turn_id=turn_id, stream=True, **fields)
    return EventCall(_post(conversation_id, "reconcile", ReconciledOut, body), ReconciledOut)


def summarize_turn(conversation_id: str, turn_id: str, **fields: Unpack[SummaryFields]) -> Call[SummarizedOut]:
    """Sum up a turn with the server's chat model, and find the assistant signals that the specification asks for.

    Raise NoChatModel.
    """
    body = build_body(SummarizeIn, turn_id=turn_id, **fields)
    return _post(conversation_id, "summarize", SummarizedOut, body)


def stream_summary(conversation_id: str, turn_id: str, **fields: Unpack[SummaryFields]) -> EventCall[SummarizedOut]:
    """Sum up a turn as `summarize_turn` does. Yield the model's answer as it is written, and at last the result."""
    body = build_body(SummarizeIn, turn_id=turn_id, stream=True, **fields)
    return EventCall(_post(conversation_id, "summarize", SummarizedOut, body), SummarizedOut)


def _post(conversation_id: str, route: str, model: type[Any], body: BaseModel) -> Call[Any]:
    """Return the call. It costs tokens, so it is only retried if the server certainly did nothing."""
    path = f"{conversation_path(conversation_id)}/{route}"
    return Call("POST", path, model_reader(model), content=encode_body(body), headers=JSON, repeatable=False)
