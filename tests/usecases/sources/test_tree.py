"""The tree of a source: entries of a folder with the state of each file."""

import os
from uuid import uuid4

import pytest

from app.domain.errors import InvalidInput, NotFound, RootUnavailable
from app.domain.principal import Principal
from app.domain.sources.folder import EntryKind, TreeEntry
from app.domain.sources.source import NewSource, Source, SourceKind
from app.storage.identity import new_id
from app.storage.sources.sources import SourceStorage
from tests.factories import make_caller
from tests.usecases.sources.indexing import Indexing


async def list_tree(indexing: Indexing, source: Source, path: str = "", limit: int = 100) -> list[TreeEntry]:
    entries: list[TreeEntry] = []
    after: str | None = ""
    while after is not None:
        page = await indexing.app.sources.browse.list_entries(indexing.scope, source.id, path, after, limit)
        assert len(page.entries) <= limit
        entries += page.entries
        after = page.next_after
    return entries


def show(entries: list[TreeEntry]) -> dict[str, str | None]:
    return {entry.name: entry.state for entry in entries}


@pytest.mark.long
@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_a_folder_shows_the_state_of_its_files(indexing: Indexing, limit: int) -> None:
    for path in ("a.md", "b/c.md", "d.exe", "old/e.md", "z.txt"):
        indexing.write(path, "A text about bees.")
    (indexing.root / "link.md").symlink_to("a.md")
    os.mkfifo(indexing.root / "pipe.md")
    new = NewSource("docs", SourceKind.FOLDER, "knowledge", "maya", str(indexing.root), exclude=("old/", "*.txt"))
    source = await SourceStorage(indexing.app.parts.uow).create_source(indexing.scope, new)
    await indexing.sync(source)
    indexing.write("f.md", "later")
    entries = await list_tree(indexing, source, limit=limit)
    assert show(entries) == {
        "a.md": "indexed",
        "b": None,
        "d.exe": "rejected",
        "f.md": "new",
        "link.md": "rejected",
        "old": "excluded",
        "pipe.md": "rejected",
        "z.txt": "excluded",
    }
    by_name = {entry.name: entry for entry in entries}
    assert by_name["a.md"].stored is not None
    assert (by_name["a.md"].stored.chunk_count, by_name["a.md"].size) == (1, 18)
    assert by_name["d.exe"].stored is not None
    assert by_name["d.exe"].stored.reason == "unsupported"
    assert by_name["link.md"].kind is EntryKind.LINK
    [inner] = await list_tree(indexing, source, "b", limit)
    assert (inner.path, inner.state) == ("b/c.md", "indexed")
    assert show(await list_tree(indexing, source, "old", limit)) == {"e.md": "excluded"}


async def test_a_file_that_no_index_job_has_met_tells_its_problem(indexing: Indexing) -> None:
    source = await indexing.add_folder()
    (indexing.root / "a\nb.md").write_text("x")
    [entry] = await list_tree(indexing, source)
    assert (entry.name, entry.state) == ("a\\nb.md", "rejected")
    assert entry.problem is not None
    assert entry.problem.reason == "unusable_name"
    await indexing.sync(source)
    [entry] = await list_tree(indexing, source)
    assert entry.stored is not None
    assert entry.stored.reason == "unusable_name"


async def test_what_is_not_there(indexing: Indexing) -> None:
    source = await indexing.add_folder()
    stranger = await make_caller(indexing.app)
    browse, scope = indexing.app.sources.browse, indexing.scope
    for principal, source_id, path in (
        (scope, uuid4(), ""),
        (scope, source.id, "missing"),
        (stranger.scope, source.id, ""),
        (Principal(scope.tenant_id, categories=frozenset({"goals"})), source.id, ""),
    ):
        with pytest.raises(NotFound):
            await browse.list_entries(principal, source_id, path)
    for path, after in (("../..", ""), ("/etc", ""), (".git", ""), ("", "\0"), ("", "\ud800")):
        with pytest.raises(InvalidInput):
            await browse.list_entries(scope, source.id, path, after)
    indexing.root.rmdir()
    with pytest.raises(RootUnavailable):
        await browse.list_entries(scope, source.id)
    async with indexing.app.parts.uow.write(scope) as tx:
        await SourceStorage(indexing.app.parts.uow).mark_removed(tx, scope, source.id)
    with pytest.raises(NotFound):
        await browse.list_entries(scope, source.id)


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_uploads_are_shown_as_a_tree(indexing: Indexing, limit: int) -> None:
    new = NewSource("uploads", SourceKind.UPLOAD, "knowledge", "maya")
    source = await SourceStorage(indexing.app.parts.uow).create_source(indexing.scope, new)
    for path in ("b/c/d.md", "b/e.md", "b.md", "b", "Z.md", "é.md", "b/c/_%.md"):
        await indexing.sql.execute(
            "INSERT INTO files (tenant_id, id, source_id, user_id, path, size, modified_at, stamp, settings, state)"
            " VALUES ($1, $2, $3, 'maya', $4, 5, now(), '', '', 'waiting')",
            *(indexing.scope.tenant_id, new_id(), source.id, path),
        )
    entries = await list_tree(indexing, source, limit=limit)
    found = [(entry.path, entry.kind, entry.state) for entry in entries]
    assert found == [
        ("Z.md", EntryKind.FILE, "waiting"),
        ("b", EntryKind.FILE, "waiting"),
        ("b.md", EntryKind.FILE, "waiting"),
        ("b", EntryKind.FOLDER, None),
        ("é.md", EntryKind.FILE, "waiting"),
    ]
    inner = [(entry.name, entry.path, entry.size) for entry in await list_tree(indexing, source, "b/c", limit)]
    assert inner == [("_%.md", "b/c/_%.md", 5), ("d.md", "b/c/d.md", 5)]
    with pytest.raises(NotFound):
        await list_tree(indexing, source, "b/x")
