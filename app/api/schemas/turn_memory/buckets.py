"""Conversion of buckets to their body."""

from mnema_wire import turn_views as wire

from app.usecases.turn_memory.buckets import BucketCards


def buckets_body(cards: BucketCards) -> wire.Buckets:
    """Return the body for the cards of buckets."""
    return wire.Buckets(enabled=cards.enabled, items=[wire.Bucket.model_validate(card) for card in cards.items])
