"""A framework's messages as turns of a thread: each message is one entry, stored without loss.

A turn's text is for people and for searches; Mnema normalises it. The message itself is JSON in the turn's metadata. A
message that is larger than a turn's metadata is stored as several turns, which are read as one entry.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from mnema_wire.memory import Memory
from mnema_wire.recall import ThreadTurn

from mnema_client.client import AsyncMnema

PART_BYTES = 15_000
"""The JSON of a part, in bytes. A turn's metadata may have 16 KiB."""
PAGE = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """A message of a thread. `payload`: the framework's own JSON value; None if another program wrote the turn.

    `ids`: the turns that hold a stored entry.
    """

    role: str
    text: str
    payload: Any = None
    ids: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A thread of one user, and the framework (`format`) whose messages it holds."""

    user_id: str
    thread_id: str
    format: str

    @property
    def filters(self) -> dict[str, Any]:
        """The filters that match the turns of this thread alone."""
        return {"user_id": self.user_id, "thread_id": self.thread_id, "type": "turn"}

    def turns_of(self, entry: Entry) -> Iterator[dict[str, Any]]:
        """Yield the arguments of `add_turn` for each turn of an entry."""
        parts = _split_json(json.dumps(entry.payload, ensure_ascii=False))
        step = -(-len(entry.text) // len(parts)) or 1
        name = uuid4().hex
        for number, part in enumerate(parts):
            metadata = {"format": self.format, "entry": name, "part": number, "parts": len(parts), "json": part}
            content = entry.text[number * step : (number + 1) * step]
            said = content if any(char.isprintable() and not char.isspace() for char in content) else f"({entry.role})"
            yield {
                "content": said,
                "trim": True,  # the text is for reading; the JSON has all of it
                "user_id": self.user_id,
                "thread_id": self.thread_id,
                "role": entry.role,
                "metadata": metadata,
            }

    def entries_of(self, turns: Iterable[ThreadTurn | Memory]) -> list[Entry]:
        """Return the entries of turns in the order of the thread. An entry that lacks a part is left out."""
        groups: dict[str, list[ThreadTurn | Memory]] = {}
        for turn in turns:
            groups.setdefault(str(turn.metadata.get("entry", turn.id)), []).append(turn)
        read = (self._entry_of(group) for group in groups.values())
        return [entry for entry in read if entry is not None]

    def _entry_of(self, group: Sequence[ThreadTurn | Memory]) -> Entry | None:
        parts = sorted(group, key=lambda turn: turn.metadata.get("part", 0))
        first = parts[0].metadata
        ids = tuple(turn.id for turn in parts)
        if len(parts) != first.get("parts", 1):
            return None
        text = "".join(turn.content if isinstance(turn, ThreadTurn) else turn.text for turn in parts)
        if first.get("format") != self.format:
            return Entry(parts[0].role or "", text, None, ids)
        return Entry(parts[0].role or "", text, json.loads("".join(turn.metadata["json"] for turn in parts)), ids)


class ThreadLog:
    """The entries of one user's thread, read and written with the asynchronous client."""

    def __init__(self, memory: AsyncMnema, place: Place) -> None:
        self.memory = memory
        self.place = place

    async def append(self, entries: Iterable[Entry]) -> None:
        """Store entries in this order: one request for each turn."""
        for entry in entries:
            for fields in self.place.turns_of(entry):
                await self.memory.add_turn(**fields)

    async def read(self, limit: int | None = None) -> list[Entry]:
        """Return the newest `limit` entries, by default all, in the order of the thread."""
        place = self.place
        if limit is None:
            turns = self.memory.thread_turns(place.thread_id, user_id=place.user_id, limit=PAGE)
            return place.entries_of([turn async for turn in turns])
        newest: list[Memory] = []
        found = 0
        if limit > 0:
            async for turn in self.memory.list(**place.filters, limit=min(limit, PAGE)):
                newest.append(turn)
                found += turn.metadata.get("part", 0) == 0
                if found == limit:
                    break
        return place.entries_of(reversed(newest))

    async def pop(self) -> Entry | None:
        """Delete the newest entry and return it; None if there is none. It can be restored until it is purged."""
        found = await self.read(limit=1)
        for memory_id in found[0].ids if found else ():
            await self.memory.delete(memory_id)
        return found[0] if found else None

    async def clear(self) -> None:
        """Delete all turns of the thread. `undo_batch` puts them back until they are purged."""
        await self.memory.delete_matching(self.place.filters)


def _split_json(text: str) -> list[str]:
    """Split `text` into parts whose JSON has at most PART_BYTES bytes."""
    parts = []
    start = 0
    size = 0
    for place, char in enumerate(text):
        cost = 2 if char in '"\\' else len(char.encode("utf-8", "surrogatepass"))
        if size + cost > PART_BYTES:
            parts.append(text[start:place])
            start = place
            size = 0
        size += cost
    return [*parts, text[start:]]
