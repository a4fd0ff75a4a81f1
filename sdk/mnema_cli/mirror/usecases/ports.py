"""Protocols of the two sides that a mirror keeps in step."""

from collections.abc import Collection, Mapping
from typing import Protocol

from mnema_cli.mirror.rules.actions import FoundFiles
from mnema_cli.mirror.rules.entries import Draft, MirrorEntry, MirrorFile, Span
from mnema_cli.mirror.rules.snapshot import Record


class MirrorStore(Protocol):
    """The entries of one user. The store is the truth."""

    def list_entries(self) -> list[MirrorEntry]:
        """Return all entries that are not deleted."""

    def create_entry(self, draft: Draft, key: str) -> MirrorEntry:
        """Create an entry and return it. The same key and draft return the first result.

        The text may join an existing entry; then return that one. Raise EntryRefused.
        """

    def update_entry(self, entry: MirrorEntry, text: str, span: Span) -> MirrorEntry:
        """Give the entry this text and span and return it, with its text as it is stored.

        Raise StateChanged if it is gone or has another version, EntryRefused.
        """

    def find_deleted(self, ids: Collection[str]) -> dict[str, MirrorEntry]:
        """Return the soft-deleted entries of this user with these ids. All other ids are left out."""

    def restore_entry(self, entry_id: str) -> MirrorEntry:
        """Restore a soft-deleted entry and return it. Raise StateChanged if it is not soft-deleted, EntryRefused."""

    def soft_delete_entry(self, entry_id: str, version: int) -> None:
        """Soft-delete the entry; a missing one is no error. Raise StateChanged if it has another version."""


class WatchedStore(MirrorStore, Protocol):
    """A store that lists its entries from memory, and brings them up to date when it is told to.

    Both methods raise StoreAway or StoreUnusable.
    """

    def read_all(self) -> None:
        """Read all entries anew."""

    def read_changes(self) -> bool:
        """Read what changed since the last time. Return True if an entry did."""


class MirrorFiles(Protocol):
    """The files below one root, which this run alone writes. Paths are relative to it.

    Every method raises FilesUnusable if the root is gone or the disk is full.
    """

    def read_index(self) -> bytes | None:
        """Return the content of the snapshot's file, None if there is none."""

    def write_index(self, content: bytes) -> None:
        """Replace the snapshot's file. All files written before are durable then."""

    def scan_files(self, records: Mapping[str, Record]) -> FoundFiles:
        """Return all files. One with the stamp of its record is not read again."""

    def read_file(self, path: str) -> MirrorFile:
        """Return the content of a file. Raise StateChanged if it is gone or broken."""

    def create_file(self, path: str, content: MirrorFile) -> None:
        """Write a new file. Raise StateChanged if there is one already."""

    def replace_file(self, path: str, text_hash: str, content: MirrorFile) -> None:
        """Replace a file. Raise StateChanged if its text has not this hash."""

    def delete_file(self, path: str, text_hash: str) -> None:
        """Delete a file; a missing one is no error. Raise StateChanged if its text has not this hash."""
