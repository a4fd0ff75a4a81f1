"""Conversions between the stream of changes and its bodies."""

from collections.abc import Iterator

from mnema_wire import changes as wire

from app.api.schemas.memory.memories import memory_body
from app.domain.memory.change_feed import ChangeEvent, ChangePage, EncodedChange
from app.domain.memory.memory import Memory
from app.domain.paging import encode_change_cursor


def encode_changes(page: ChangePage) -> Iterator[EncodedChange]:
    """Yield the events of a page, one after the other: together they may be large.

    Subscribers that share a page share what is encoded.
    """
    for event in page.events:
        memory = page.memories.get(event.memory_id)
        if page.encodings is None:
            yield _encode_change(event, memory)
            continue
        place = event.position.record, memory is not None
        if place not in page.encodings:
            page.encodings[place] = _encode_change(event, memory)
        yield page.encodings[place]


def _encode_change(event: ChangeEvent, memory: Memory | None) -> EncodedChange:
    body = wire.ChangeEvent(
        id=encode_change_cursor(event.position),
        event=event.event,
        memory_id=event.memory_id,
        category=event.category,
        type=event.type,
        user_id=event.user_id,
        version=event.version,
        time=event.time,
        memory=memory_body(memory) if memory else None,
    )
    return EncodedChange(body.event, body.id, body.model_dump_json().encode())


def end_body(page: ChangePage) -> wire.ChangesEnd:
    """Return the body of a page's last line."""
    return wire.ChangesEnd(tenant_id=page.tenant_id, next_cursor=encode_change_cursor(page.position), more=page.more)
