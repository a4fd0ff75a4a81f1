"""The plan of a run: each case of the three-way comparison, and what is held or refused."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from mnema_cli.mirror.rules.actions import (
    Action,
    Conflict,
    CreateEntry,
    DeleteFile,
    FoundFile,
    FoundFiles,
    Refuse,
    SoftDeleteEntry,
    UpdateEntry,
    UpdateFile,
    WriteFile,
)
from mnema_cli.mirror.rules.entries import MirrorEntry, MirrorFile, Span, hash_text
from mnema_cli.mirror.rules.mass_deletion import MassDeletionPolicy
from mnema_cli.mirror.rules.names import encode_name
from mnema_cli.mirror.rules.plan import plan_sync
from mnema_cli.mirror.rules.snapshot import Intent, Pending, Record, Snapshot, Stamp

MOMENT = datetime(2026, 4, 1, 10, 15, tzinfo=UTC)
PATH = "entries/chat/facts/a.md"


def entry(text: str = "old", version: int = 1, entry_id: str = "a") -> MirrorEntry:
    return MirrorEntry(entry_id, "chat", "memory", MOMENT, text, version)


def file(text: str = "old", path: str = PATH, entry_id: str | None = "a") -> FoundFile:
    return FoundFile(path, hash_text(text), entry_id, MirrorFile(text, entry_id))


def record(text: str = "old", path: str = PATH, intent: Intent | None = None) -> Snapshot:
    return Snapshot({"a": Record(path, hash_text(text), 1, intent=intent)})


def actions(snapshot: Snapshot, entries: list[MirrorEntry], *files: FoundFile) -> list[Action]:
    return list(plan_sync(snapshot, entries, FoundFiles(files)).actions)


OLD, NEW = hash_text("old"), hash_text("new")
USUAL = "entries/chat/facts/20260401T101500Z__a.md"
BOTH = "the file and the server changed since they were last in step"
GONE_HERE = "the file was deleted, but the server changed the entry; its file is written again"
GONE_THERE = "the server deleted the entry, but the file was edited"


@pytest.mark.parametrize(
    ("snapshot", "stored", "found", "expected"),
    [
        (record(), [entry()], [file()], []),
        (record(), [entry()], [file("new")], [UpdateEntry(PATH, NEW, "new", entry())]),
        (record(), [entry("new", 2)], [file()], [UpdateFile(PATH, OLD, entry("new", 2))]),
        (record(), [entry("new", 2)], [file("new")], []),
        (record(), [entry("else", 2)], [file("new")], [Conflict(PATH, "a", NEW, entry("else", 2), BOTH)]),
        (record(), [entry()], [], [SoftDeleteEntry(PATH, entry())]),
        (record(), [entry("new", 2)], [], [Conflict(USUAL, "a", None, entry("new", 2), GONE_HERE)]),
        (record(), [entry("old", 2)], [], [Conflict(USUAL, "a", None, entry("old", 2), GONE_HERE)]),
        (record(), [], [file()], [DeleteFile(PATH, "a", OLD)]),
        (record(), [], [file("new")], [Conflict(PATH, "a", NEW, None, GONE_THERE)]),
        (record(), [], [], []),
        (Snapshot(), [entry()], [], [WriteFile(USUAL, entry())]),
        (Snapshot(), [entry()], [file()], []),
        (Snapshot(), [entry()], [file("new")], [Conflict(PATH, "a", NEW, entry(), BOTH)]),
        (record(), [entry()], [file(path="entries/chat/elsewhere/b.md")], []),
        (record(), [entry()], [file(entry_id=None)], [UpdateFile(PATH, OLD, entry())]),
        (record(), [entry()], [file("new", entry_id=None)], [UpdateEntry(PATH, NEW, "new", entry())]),
    ],
)
def test_each_case(
    snapshot: Snapshot, stored: list[MirrorEntry], found: list[FoundFile], expected: list[Action]
) -> None:
    assert actions(snapshot, stored, *found) == expected


def to_store(text: str | None) -> Intent:
    return Intent("store", hash_text(text) if text else None, 1)


TOUCHED = replace(file(), stamp=Stamp(1, 2, 3, 4))


def to_file(text: str | None) -> Intent:
    return Intent("file", hash_text(text) if text else None, 2)


@pytest.mark.parametrize(
    ("intent", "stored", "found", "expected"),
    [
        (to_store("new"), [entry("new", 2)], [file()], [UpdateEntry(PATH, OLD, "old", entry("new", 2))]),
        (to_store("new"), [entry("new", 2)], [], [SoftDeleteEntry(PATH, entry("new", 2))]),
        (to_store("new"), [entry()], [file("new")], [UpdateEntry(PATH, NEW, "new", entry())]),
        (
            to_file("new"),
            [entry("new", 2)],
            [file("edit")],
            [Conflict(PATH, "a", hash_text("edit"), entry("new", 2), BOTH)],
        ),
        (to_store("new"), [entry("old", 3)], [file("new")], [Conflict(PATH, "a", NEW, entry("old", 3), BOTH)]),
        (to_store(None), [entry("old", 3)], [], [WriteFile(USUAL, entry("old", 3))]),
        (to_file("new"), [entry("new", 2)], [TOUCHED], [Conflict(PATH, "a", OLD, entry("new", 2), BOTH)]),
        (to_file("new"), [entry("new", 2)], [file()], [UpdateFile(PATH, OLD, entry("new", 2))]),
        (to_file("new"), [entry("old", 3)], [file("new")], [UpdateFile(PATH, NEW, entry("old", 3))]),
        (to_file(None), [entry()], [], [WriteFile(USUAL, entry())]),
        (to_file(None), [], [file()], [DeleteFile(PATH, "a", OLD)]),
    ],
)
def test_a_change_that_a_killed_run_has_made_counts_as_in_step(
    intent: Intent, stored: list[MirrorEntry], found: list[FoundFile], expected: list[Action]
) -> None:
    assert actions(record(intent=intent), stored, *found) == expected


def test_a_file_that_comes_back_after_its_entry_was_deleted_stays() -> None:
    assert [type(a) for a in actions(record(intent=to_store(None)), [], file())] == [Refuse]


def test_a_new_file_becomes_an_entry_of_its_folder_with_the_key_of_an_earlier_attempt() -> None:
    path = "entries/My%20chat~7b8f64b4f4b46ce8/turns/user/x.md"
    snapshot = Snapshot(pending={path: Pending("key", NEW)})
    (action,) = actions(snapshot, [], file("new", path, None))
    assert isinstance(action, CreateEntry)
    assert (action.key, action.draft.role, action.draft.text) == ("key", "user", "new")
    (action,) = actions(snapshot, [], file("newer", path, None))
    assert isinstance(action, CreateEntry)
    assert action.key is None


def reasons(snapshot: Snapshot, entries: list[MirrorEntry], *files: FoundFile) -> list[tuple[str, str]]:
    planned = actions(snapshot, entries, *files)
    assert all(isinstance(action, Refuse) for action in planned), planned
    return [(a.path, a.reason.partition(";")[0]) for a in planned if isinstance(a, Refuse)]


def test_a_foreign_id_is_refused() -> None:
    assert reasons(Snapshot(), [], file()) == [(PATH, "no entry of this user has the id a")]


def test_a_mistyped_id_does_not_delete_the_entry() -> None:
    assert reasons(record(), [entry()], file(entry_id="b")) == [(PATH, "no entry of this user has the id b")]


def test_a_copy_is_refused_and_the_original_goes_on() -> None:
    copy = file("edited", "entries/chat/facts/copy.md")
    assert reasons(record(), [entry()], file(), copy) == [(copy.path, "another file has the id a too")]
    assert reasons(Snapshot(), [entry()], file(), copy) == [
        (PATH, "another file has the id a too"),
        (copy.path, "another file has the id a too"),
    ]


@pytest.mark.parametrize("path", [PATH, "entries/chat/facts", "entries", "elsewhere/20260401T101500Z__a.md"])
def test_an_entry_is_not_deleted_while_its_file_cannot_be_read(path: str) -> None:
    assert reasons(record(), [entry()], FoundFile(path, problem="broken")) == [(path, "broken")]


@pytest.mark.parametrize(("field", "value"), [("conversation_id", "other"), ("role", "user")])
def test_a_fixed_field_cannot_change(field: str, value: str) -> None:
    changed = replace(file(), content=replace(MirrorFile("old", "a"), **{field: value}))
    ((path, reason),) = reasons(record(), [entry()], changed)
    assert (path, reason.startswith(f"{field} is `")) == (PATH, True)


def spanned(item: MirrorEntry | FoundFile, **moments: datetime) -> Any:
    """Return an entry or a file with a span."""
    if isinstance(item, MirrorEntry):
        return replace(item, span=Span(**moments))
    assert item.content is not None
    content = replace(item.content, span=Span(**moments))
    return replace(item, text_hash=content.content_hash, content=content)


def test_a_span_is_compared_like_the_text() -> None:
    later = spanned(file(), valid_to=MOMENT)
    [update] = actions(record(), [entry()], later)
    assert (type(update), getattr(update, "span", None)) == (UpdateEntry, Span(valid_to=MOMENT))
    ended = spanned(entry(version=2), valid_to=MOMENT)
    assert actions(record(), [ended], file()) == [UpdateFile(PATH, OLD, ended)]
    assert actions(record(), [ended], later) == []
    other = spanned(file(), expires_at=MOMENT)
    assert [type(action) for action in actions(record(), [ended], other)] == [Conflict]


def test_a_file_without_front_matter_keeps_the_span_of_its_entry() -> None:
    stored = spanned(entry(), valid_to=MOMENT)
    known = Snapshot({"a": Record(PATH, stored.content_hash, 1)})
    bare = FoundFile(PATH, OLD, None, MirrorFile("old", span=None))
    assert actions(known, [stored], bare) == [UpdateFile(PATH, OLD, stored)]
    edited = FoundFile(PATH, NEW, None, MirrorFile("new", span=None))
    assert actions(known, [stored], edited) == [UpdateEntry(PATH, NEW, "new", stored, stored.span)]


def test_an_emptied_file_does_not_empty_its_entry() -> None:
    assert reasons(record(), [entry()], file(" \n")) == [(PATH, "the file has no text")]


def many(count: int) -> tuple[Snapshot, list[MirrorEntry], list[FoundFile]]:
    entries = [entry("old", 1, f"e{number}") for number in range(count)]
    files = [file("old", f"entries/chat/facts/{e.id}.md", e.id) for e in entries]
    return Snapshot({f.id or "": Record(f.path, f.text_hash, 1) for f in files}), entries, files


@pytest.mark.parametrize(
    ("count", "gone", "held"), [(30, 20, False), (30, 21, True), (100, 50, False), (100, 51, True)]
)
def test_a_mass_deletion_is_held_on_either_side_unless_allowed(count: int, gone: int, held: bool) -> None:
    snapshot, entries, files = many(count)
    for kind, left, found in ((SoftDeleteEntry, entries, files[gone:]), (DeleteFile, entries[gone:], files)):
        plan = plan_sync(snapshot, left, FoundFiles(found))
        assert [type(a) for a in plan.actions] == ([Refuse] if held else [kind] * gone)
        assert len(plan.records) == count
        again = plan_sync(Snapshot(plan.records), left, FoundFiles(found))
        assert again == plan
        asked = plan_sync(snapshot, left, FoundFiles(found), MassDeletionPolicy(allow_mass_deletion=True))
        assert [type(a) for a in asked.actions] == [kind] * gone


def test_nothing_is_deleted_if_the_folder_of_the_entries_is_gone() -> None:
    snapshot, entries, _ = many(2)
    (action,) = plan_sync(snapshot, entries, FoundFiles((), has_entries=False)).actions
    assert isinstance(action, Refuse)
    assert action.reason.startswith("2 of 2 files are gone here; nothing was deleted")


def test_a_new_summary_takes_the_name_of_the_one_that_it_replaces() -> None:
    path = "entries/chat/summaries/summary.md"
    old = file("old", path)
    new = replace(entry("new", 1, "b"), role="summary")
    assert actions(record(path=path), [new], old) == [DeleteFile(path, "a", OLD), WriteFile(path, new)]


def test_the_file_of_an_entry_never_takes_the_path_of_another_file() -> None:
    other = file("x", USUAL.upper().replace("ENTRIES/CHAT/FACTS", "entries/chat/facts"), "b")
    planned = actions(Snapshot(), [entry()], other)
    assert planned[0] == WriteFile(USUAL.removesuffix(".md") + f"-{hash_text('a')[:8]}.md", entry())


def test_the_order_of_the_sides_does_not_matter() -> None:
    snapshot, entries, files = many(9)
    edited = [file(f"new {number}", f.path, f.id) for number, f in enumerate(files[:5])]
    plan = plan_sync(snapshot, entries, FoundFiles(edited))
    assert plan == plan_sync(snapshot, entries[::-1], FoundFiles(edited[::-1]))


def test_a_shortened_folder_stands_for_the_conversation_that_entries_or_files_name() -> None:
    long = "a long conversation " * 20
    folder = f"entries/{encode_name(long)}/facts"
    new = FoundFile(f"{folder}/new.md", NEW, None, MirrorFile("new"))
    (refused,) = actions(Snapshot(), [], new)
    assert isinstance(refused, Refuse)
    assert "does not tell the conversation" in refused.reason
    stored = MirrorEntry("a", long, "memory", MOMENT, "old", 1)
    sibling = FoundFile(f"{folder}/b.md", OLD, None, MirrorFile("old", conversation_id=long))
    for entries, files in (([stored], [new]), ([], [sibling, new])):
        created = [action for action in actions(Snapshot(), entries, *files) if isinstance(action, CreateEntry)]
        assert {action.draft.conversation_id for action in created} == {long}
    named = FoundFile(f"{folder}/new.md", NEW, None, MirrorFile("new", conversation_id="short"))
    assert [a.draft.conversation_id for a in actions(Snapshot(), [], named) if isinstance(a, CreateEntry)] == ["short"]
