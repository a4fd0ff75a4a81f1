"""Passages: chunks joined with those beside them are exactly a part of their document."""

from datetime import UTC, datetime
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.recall.candidates import Candidate
from app.domain.recall.passages import FoundChunk, PlacedChunk, join_chunks, passage_text, place_fields, place_parts
from app.domain.recall.scoring import ScoredCandidate
from app.domain.recall.selection import merge_ordered
from app.domain.sources.source import ChunkPlace

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FILE, SOURCE = UUID(int=1), UUID(int=2)


def memory(number: int, text: str) -> Memory:
    fields = {"importance": 2, "pinned": False, "tags": (), "state": MemoryState.active, "version": 1}
    return Memory(
        id=UUID(int=100 + number),
        user_id="maya",
        category="knowledge",
        text=text,
        type=MemoryType.chunk,
        created_at=NOW,
        updated_at=NOW,
        **fields,  # type: ignore[arg-type]  # a mapping of several types
    )


def placed(number: int, text: str, start: int, end: int, gap: str = "") -> PlacedChunk:
    place = ChunkPlace(UUID(int=100 + number), number, start, end, 7, ("Guide",), SOURCE, FILE, "guide.md")
    return PlacedChunk(memory(number, text[start:end]), place, gap)


def found(chunks: list[PlacedChunk], at: int) -> FoundChunk:
    candidate = Candidate(chunks[at].memory.id, "knowledge", "chunk", 2, False, NOW, NOW)
    return FoundChunk(ScoredCandidate(candidate, 1.0, {}, 0), chunks[at], chunks)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, list[PlacedChunk]]:
    """Draw a text and its chunks: some overlap, some touch, some have white space between them that is known or not."""
    text, chunks, end = "", list[PlacedChunk](), 0
    for number in range(draw(st.integers(1, 7))):
        gap = draw(st.sampled_from(["", "\n\n", " \r\n\t"])) if number else ""
        start = len(text) + len(gap)
        text += gap + draw(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12))
        overlap = draw(st.integers(0, 5)) if not gap else 0
        start = max(chunks[-1].place.start if chunks and chunks[-1].place else 0, start - overlap)
        end = len(text)
        known = draw(st.booleans())
        chunks.append(placed(number, text, start, end, gap if known else ""))
    return text, chunks


@given(documents(), st.data())
def test_a_passage_is_exactly_its_part_of_the_document(
    document: tuple[str, list[PlacedChunk]], data: st.DataObject
) -> None:
    text, chunks = document
    at, reach = data.draw(st.integers(0, len(chunks) - 1)), data.draw(st.integers(0, 4))
    taken = data.draw(st.sets(st.sampled_from([c.memory.id for c in chunks]))) - {chunks[at].memory.id}
    passage = join_chunks(found(chunks, at), reach, taken)
    assert passage.place is not None
    assert passage.memory.text == text[passage.place["start"] : passage.place["end"]]
    assert passage.memory.source == passage.place
    ids = [c.memory.id for c in chunks]
    first, last = ids.index(passage.ids[0]), ids.index(passage.ids[-1])
    assert list(passage.ids) == ids[first : last + 1]
    assert first <= at <= last
    assert at - first <= reach
    assert last - at <= reach
    assert not taken & set(passage.ids)


def test_chunks_with_something_unknown_between_them_are_not_joined() -> None:
    text = "one\n\ntwo three"
    for gap, joined in (("\n\n", text[:8]), ("", "one"), ("\n", "one")):
        chunks = [placed(0, text, 0, 3), placed(1, text, 5, 8, gap)]
        assert join_chunks(found(chunks, 0), 1).memory.text == joined
    missing = [placed(0, text, 0, 3), placed(2, text, 5, 8, "\n\n")]
    assert join_chunks(found(missing, 0), 1).memory.text == "one"


def test_a_chunk_without_a_place_stands_alone() -> None:
    alone = PlacedChunk(memory(0, "text"))
    passage = join_chunks(found([alone], 0), 3)
    assert (passage.memory, passage.place, passage_text(passage)) == (alone.memory, None, "text")


def test_the_place_of_a_passage_has_the_page_and_heading_of_the_hit() -> None:
    text = "one two"
    passage = join_chunks(found([placed(0, text, 0, 4), placed(1, text, 4, 7)], 1), 1)
    assert passage.place == {
        "source_id": str(SOURCE),
        "file_id": str(FILE),
        "path": "guide.md",
        "page": 7,
        "heading": "Guide",
        "start": 0,
        "end": 7,
    }
    assert passage_text(passage) == "guide.md, page 7, Guide: one two"


def test_a_label_is_one_short_line() -> None:
    place = ChunkPlace(UUID(int=1), 0, 0, 4, None, ("a\nb", "c" * 500), SOURCE, FILE, "x\r\n" + "y" * 500)
    label = ", ".join(place_parts(place_fields(place)))
    assert len(label.splitlines()) == 1
    assert len(label) <= 402
    turn = ChunkPlace(UUID(int=1), 0, 0, 4, turn_id=UUID(int=9))
    assert (place_fields(turn), place_parts(place_fields(turn))) == (
        {"turn_id": str(UUID(int=9)), "start": 0, "end": 4},
        (),
    )


@given(st.lists(st.integers()), st.lists(st.integers()))
def test_a_merge_keeps_both_orders(some: list[int], others: list[int]) -> None:
    left, right = [(0, n) for n in some], [(1, n) for n in others]
    merged = merge_ordered(left, right, lambda item: float(item[1]))
    assert [i for i in merged if i[0] == 0] == left
    assert [i for i in merged if i[0] == 1] == right


def test_a_merge_puts_the_more_relevant_first() -> None:
    assert merge_ordered([9.0, 2.0, 7.0], [8.0, 3.0], float) == [9.0, 8.0, 3.0, 2.0, 7.0]
    assert merge_ordered([1.0], [1.0], float) == [1.0, 1.0]
