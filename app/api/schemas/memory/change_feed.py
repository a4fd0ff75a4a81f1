"""Conversions between the stream of changes and its bodies."""

from collections.abc import Iterator

from mnema_wire.changes import ChangeEvent, ChangesEnd

from app.api.schemas.memory.memories import memory_body
from app.domain.memory.change_feed import ChangePage
from app.domain.paging import encode_change_cursor


def event_bodies(page: ChangePage) -> Iterator[ChangeEvent]:
    """Yield the bodies of a page's events, one after the other: together they may be large."""
    for event in page.events:
        memory = page.memories.get(event.memory_id)
        yield ChangeEvent(
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


def end_body(page: ChangePage) -> ChangesEnd:
    """Return the body of a page's last line."""
    return ChangesEnd(tenant_id=page.tenant_id, next_cursor=encode_change_cursor(page.position), more=page.more)
