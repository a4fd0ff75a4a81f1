"""Answers of the routes that read views and assistant signals (`docs/turn-memory.md`)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from app.domain.turn_memory.views import ViewName
from app.usecases.turn_memory.context import View


class BlockOut(BaseModel):
    """A block of a view. `text` begins with the header."""

    header: str
    text: str


class ContextViewOut(BaseModel):
    """A view of a conversation. `text` has all blocks, with a blank line between them."""

    view: ViewName
    text: str
    blocks: list[BlockOut]

    @classmethod
    def from_view(cls, view: View) -> "ContextViewOut":
        """Return the body for a view."""
        blocks = [BlockOut(header=block.header, text=block.text) for block in view.blocks]
        return cls(view=view.view, text=view.text, blocks=blocks)


class AssistantSignalOut(BaseModel):
    """Something that the assistant mentioned or promoted."""

    key: str
    value: Any
    severity: str
    scope: str
    applies_to: str = ""


class SignalTurnOut(BaseModel):
    """A turn with its assistant signals."""

    conversation_id: str
    turn_id: str
    made_at: datetime
    objective: str
    assistant_signals: list[AssistantSignalOut]

    @classmethod
    def from_turn(cls, turn: Mapping[str, Any]) -> "SignalTurnOut":
        """Return the body for a fingerprint."""
        return cls.model_validate({name: turn[name] for name in cls.model_fields})


class SignalTurnsOut(BaseModel):
    """The newest turns with assistant signals, newest first."""

    items: list[SignalTurnOut] = Field(description="one for each turn that has signals")
