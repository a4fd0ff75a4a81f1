"""The plan of a sync and the matching of chunks (`app/domain/sources`)."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.domain.sources.chunk_matching import StoredChunk, hash_text, match_chunks
from app.domain.sources.document import Chunk
from app.domain.sources.folder import FolderScan, ScannedFile
from app.domain.sources.source import FileState
from app.domain.sources.sync_plan import KnownFile, Room, plan_folder, plan_uploads
from app.storage.identity import new_id

ROOM = Room(1_000, 1_000)
NOW = datetime(2026, 1, 26, tzinfo=UTC)


def known(path: str, **fields: Any) -> KnownFile:
    """Return a stored file that is indexed and up to date."""
    values: dict[str, Any] = {
        **dict.fromkeys(("reason", "hash", "hosted_uri")),
        **{"id": new_id(), "path": path, "size": 10, "stamp": "s", "state": FileState.INDEXED, "chunk_count": 1},
        **{"modified_at": NOW, "is_new": False, "current": True, "done": False},
    }
    return KnownFile(**values | fields)


def scanned(path: str, stamp: str = "s") -> ScannedFile:
    """Return a file of a scan."""
    return ScannedFile(path, 10, NOW, stamp)


def test_each_file_of_a_folder_is_planned_once() -> None:
    scan = FolderScan(tuple(scanned(path) for path in "abcdefg"), ("lost", "deep/lost"))
    files = [
        known("a"),
        known("b", stamp="other"),
        known("c", current=False),
        known("d", state=FileState.REJECTED, reason="broken"),
        known("e", state=FileState.REJECTED, reason="changed_meanwhile"),
        known("f", stamp="other", done=True),
        known("gone"),
        known("lost/kept"),
        known("deep/lost/kept"),
        known("lostandfound"),
    ]
    plan = plan_folder(scan, files, ROOM)
    assert [(planned.path, planned.known is None) for planned in plan.todo] == [
        ("b", False),
        ("c", False),
        ("e", False),
        ("g", True),
    ]
    assert [file.path for file in plan.gone] == ["gone", "lostandfound"]
    assert (plan.unchanged, plan.rejected) == (3, 1)


def test_nothing_is_gone_below_a_root_that_cannot_be_listed() -> None:
    plan = plan_folder(FolderScan((), ("",)), [known("a"), known("b/c")], ROOM)
    assert (plan.gone, plan.unchanged) == ([], 2)


def test_a_file_without_a_stamp_is_read() -> None:
    plan = plan_folder(FolderScan((scanned("a", ""),)), [known("a", stamp="")], ROOM)
    assert [planned.path for planned in plan.todo] == ["a"]


def test_a_file_beyond_the_quota_is_tried_again_when_there_is_room() -> None:
    scan = FolderScan((scanned("a"),))
    rejected = [known("a", state=FileState.REJECTED, reason="quota")]
    assert [bool(plan_folder(scan, rejected, room).todo) for room in (ROOM, Room(9, 9), Room(10, 0))] == [
        True,
        False,
        False,
    ]


def test_uploads_that_wait_or_have_old_settings_are_read() -> None:
    files = [
        known("a", state=FileState.WAITING, is_new=True),
        known("b"),
        known("c", current=False),
        known("d", state=FileState.REJECTED, reason="broken"),
        known("e", state=FileState.WAITING, done=True),
    ]
    plan = plan_uploads(files, ROOM)
    assert [planned.path for planned in plan.todo] == ["a", "c"]
    assert (plan.unchanged, plan.rejected) == (1, 1)


def chunks(texts: list[str]) -> list[Chunk]:
    """Return chunks of these texts, each in its place."""
    return [Chunk(n, 10 * n, 10 * n + len(text), text, (text[:1],)) for n, text in enumerate(texts)]


TEXTS = st.lists(st.sampled_from(["a", "ab", "b", "ba", "c"]), max_size=12)


@given(old=TEXTS, new=TEXTS)
def test_matching_keeps_as_many_chunks_as_possible_and_loses_none(old: list[str], new: list[str]) -> None:
    stored = [
        StoredChunk(new_id(), hash_text(c.text), c.ordinal, c.start, c.end, c.page, c.heading, c.gap)
        for c in chunks(old)
    ]
    matching = match_chunks(stored, chunks(new))
    assert all(before.digest == hash_text(after.text) for before, after in matching.kept)
    assert sorted(c.ordinal for c in [*matching.added, *(after for _, after in matching.kept)]) == [*range(len(new))]
    assert len({s.memory_id for s in [*matching.removed, *(before for before, _ in matching.kept)]}) == len(old)
    assert len(matching.kept) == sum(min(old.count(text), new.count(text)) for text in set(old))
    assert matching.moved == [(before, after) for before, after in matching.kept if before.ordinal != after.ordinal]


def test_a_chunk_with_other_titles_or_without_an_active_memory_is_replaced() -> None:
    [chunk] = chunks(["a"])
    titled = StoredChunk(new_id(), hash_text("a"), 0, 0, 1, None, ("other",), "")
    hidden = StoredChunk(new_id(), None, 0, 0, 1, None, chunk.heading, "")
    for stored in (titled, hidden):
        matching = match_chunks([stored], [chunk])
        assert (matching.kept, matching.added, matching.removed) == ([], [chunk], [stored])
