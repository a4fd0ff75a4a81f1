"""Passages: a chunk of an answer, joined with the chunks beside it, and the place of the whole.

A passage is exact: its text is the document's from `start` to before `end`. Chunks with something unknown between them
are never joined.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from app.domain.memory.memory import Memory
from app.domain.recall.scoring import ScoredCandidate
from app.domain.sources.document import join_heading
from app.domain.sources.source import ChunkPlace
from app.domain.text_rules import one_line, trim_text

MAX_LABEL: Final = 200
"""The characters of a path or a heading in a line of an answer."""


@dataclass(frozen=True, slots=True)
class PlacedChunk:
    """A chunk with its place. The place is None if the chunk belongs to no file and no turn.

    `gap`: the white space between the chunk before and this one.
    """

    memory: Memory
    place: ChunkPlace | None = None
    gap: str = ""


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A chunk that was chosen, with its scores. `beside` has it and the chunks around it, in order."""

    scored: ScoredCandidate
    chunk: PlacedChunk
    beside: Sequence[PlacedChunk] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A chosen chunk as it is answered. `memory` has the joined text; `ids` are those of all chunks that it contains.

    `place` is that of the whole text, with the page and the heading of the chosen chunk; None if it is not known.
    """

    found: FoundChunk
    memory: Memory
    ids: tuple[UUID, ...]
    place: Mapping[str, Any] | None = None
    also: tuple[UUID, ...] = field(default=())


def join_chunks(found: FoundChunk, reach: int, taken: Container[UUID] = ()) -> Passage:
    """Return the chosen chunk with up to `reach` chunks before it and after it, without any that is `taken`."""
    chunk = found.chunk
    place = found.chunk.place
    if place is None:
        return Passage(found, chunk.memory, (chunk.memory.id,))
    around = found.beside
    at = next(n for n, one in enumerate(around) if one.memory.id == chunk.memory.id)
    first = last = at
    while first > max(0, at - reach) and _can_join(around[first - 1], around[first], around[first - 1], taken):
        first -= 1
    while last < min(len(around) - 1, at + reach) and _can_join(
        around[last], around[last + 1], around[last + 1], taken
    ):
        last += 1
    parts = around[first : last + 1]
    text = _join_texts(parts)
    start = _place_of(parts[0]).start
    whole = place_fields(replace(place, start=start, end=start + len(text)))
    memory = replace(chunk.memory, text=text, source=whole)
    return Passage(found, memory, tuple(part.memory.id for part in parts), whole)


def _place_of(chunk: PlacedChunk) -> ChunkPlace:
    assert chunk.place is not None
    return chunk.place


def _can_join(one: PlacedChunk, other: PlacedChunk, added: PlacedChunk, taken: Container[UUID]) -> bool:
    """Tell whether `other` follows `one` with nothing unknown between them, and the `added` one of them is free."""
    here = _place_of(one)
    there = _place_of(other)
    if added.memory.id in taken or there.ordinal != here.ordinal + 1:
        return False
    return here.start <= there.start <= here.end or len(other.gap) == there.start - here.end


def _join_texts(parts: Sequence[PlacedChunk]) -> str:
    texts = [parts[0].memory.text]
    end = _place_of(parts[0]).end
    for part in parts[1:]:
        place = _place_of(part)
        texts += [part.gap, part.memory.text] if place.start > end else [part.memory.text[end - place.start :]]
        end = max(end, place.end)
    return "".join(texts)


def place_fields(place: ChunkPlace) -> dict[str, Any]:
    """Return the fields of a place in an answer: of a file, or of a turn. Unknown fields are left out."""
    if place.turn_id is not None:
        return {"turn_id": str(place.turn_id), "start": place.start, "end": place.end}
    fields = {
        "source_id": str(place.source_id),
        "file_id": str(place.file_id),
        "path": place.path,
        "page": place.page,
        "heading": join_heading(place.heading) or None,
        "start": place.start,
        "end": place.end,
    }
    return {name: value for name, value in fields.items() if value is not None}


def place_parts(place: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the path, the page and the heading of a passage, each on one line; nothing for a turn."""
    if place is None or "path" not in place:
        return ()
    page = f"page {place['page']}" if "page" in place else None
    parts = (place["path"], page, place.get("heading"))
    return tuple(trim_text(one_line(part), MAX_LABEL) for part in parts if part)


def passage_text(passage: Passage) -> str:
    """Return the raw text behind its place: `<path>, page <page>, <heading>: <text>`, without what is not known."""
    label = ", ".join(place_parts(passage.place))
    return f"{label}: {passage.memory.text}" if label else passage.memory.text
