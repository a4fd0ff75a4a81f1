"""Actions that bring both sides into step. Each names the state that it expects and is skipped if that has changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mnema_cli.mirror.rules.entries import OPEN, Draft, MirrorEntry, MirrorFile, Span
from mnema_cli.mirror.rules.snapshot import Record, Stamp


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file below the root. `problem` says why it cannot be an entry; then nothing else is known.

    `id` is None in a new file. `content` is None if the file has the stamp of its record and was not read again. A
    stamp is settled if every later change of the file must change the stamp too.
    """

    path: str
    text_hash: str = ""
    id: str | None = None
    content: MirrorFile | None = None
    stamp: Stamp | None = None
    is_settled: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """All files of a root. `has_entries` is False if the folder of the entries itself is gone."""

    files: Sequence[FoundFile]
    conflicts: Sequence[str] = ()
    has_entries: bool = True


@dataclass(frozen=True, slots=True)
class CreateEntry:
    """Create an entry from a new file. `key` is that of an earlier attempt with the same text, if there was one."""

    path: str
    text_hash: str
    draft: Draft
    key: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateEntry:
    """Give an entry the text and the span of its file."""

    path: str
    text_hash: str
    text: str
    entry: MirrorEntry
    span: Span = OPEN


@dataclass(frozen=True, slots=True)
class SoftDeleteEntry:
    """Soft-delete an entry because its file is gone."""

    path: str
    entry: MirrorEntry


@dataclass(frozen=True, slots=True)
class RestoreEntry:
    """Restore a soft-deleted entry whose file came back, and give it the text and the span of the file."""

    path: str
    text_hash: str
    text: str
    entry: MirrorEntry
    span: Span = OPEN


@dataclass(frozen=True, slots=True)
class Conflict:
    """Keep both sides: the file's text goes to a conflict file, and the store's state stays.

    `text_hash` is that of the file, None if the file was deleted. `entry` is None if the entry was deleted.
    """

    path: str
    entry_id: str
    text_hash: str | None
    entry: MirrorEntry | None
    reason: str


@dataclass(frozen=True, slots=True)
class UpdateFile:
    """Give a file the text and the span of its entry. Its other lines stay."""

    path: str
    text_hash: str
    entry: MirrorEntry


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Delete a file because its entry is gone."""

    path: str
    entry_id: str
    text_hash: str


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Write the file of an entry that has none."""

    path: str
    entry: MirrorEntry


@dataclass(frozen=True, slots=True)
class Refuse:
    """Leave everything as it is, and say why. Without a `path` the reason concerns many files."""

    path: str
    reason: str


Action: TypeAlias = (
    CreateEntry | RestoreEntry | UpdateEntry | SoftDeleteEntry | Conflict | UpdateFile | DeleteFile | WriteFile | Refuse
)
ORDER: tuple[type[Action], ...] = (
    CreateEntry,
    RestoreEntry,
    UpdateEntry,
    SoftDeleteEntry,
    Conflict,
    UpdateFile,
    DeleteFile,
    WriteFile,
    Refuse,
)
"""The order of actions. Creations come first, because an entry of a killed run may have no file yet."""

NAMES: Mapping[type[Action], str] = {
    CreateEntry: "create_entry",
    RestoreEntry: "restore",
    UpdateEntry: "update_entry",
    SoftDeleteEntry: "soft_delete_entry",
    Conflict: "conflict",
    UpdateFile: "update_file",
    DeleteFile: "delete_file",
    WriteFile: "write_file",
    Refuse: "refuse",
}
"""Names of the actions in reports."""


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """Actions in order, and the records of the entries, which say what each action is about to do."""

    actions: tuple[Action, ...]
    records: Mapping[str, Record]
