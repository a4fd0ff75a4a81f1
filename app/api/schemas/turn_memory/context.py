"""Conversions of views, buckets and assistant signals to their bodies."""

from collections.abc import Mapping
from typing import Any

from mnema_wire import turn_views as wire

from app.usecases.turn_memory.context import BucketCards, View


def context_view_body(view: View) -> wire.ContextView:
    """Return the body for a view."""
    blocks = [wire.ViewBlock(header=block.header, text=block.text) for block in view.blocks]
    return wire.ContextView(view=view.view, text=view.text, blocks=blocks)


def signal_turn_body(turn: Mapping[str, Any]) -> wire.SignalTurn:
    """Return the body for a fingerprint."""
    return wire.SignalTurn.model_validate({name: turn[name] for name in wire.SignalTurn.model_fields})


def buckets_body(cards: BucketCards) -> wire.Buckets:
    """Return the body for the cards of buckets."""
    return wire.Buckets(enabled=cards.enabled, items=[wire.Bucket.model_validate(card) for card in cards.items])
