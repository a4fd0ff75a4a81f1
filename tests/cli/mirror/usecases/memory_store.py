"""A store of entries in memory, with the promises of the port: versions, idempotency keys, soft deletion."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from mnema_cli.mirror.rules.entries import OPEN, Draft, MirrorEntry, Span
from mnema_cli.mirror.rules.problems import EntryRefused, StateChanged

START = datetime(2026, 4, 1, 10, 15, tzinfo=UTC)
MAX_TEXT = 5000


@dataclass
class MemoryStore:
    """Entries by id. `clean` is what the store does to each text; equal texts of one place join if `joins` is set."""

    entries: dict[str, MirrorEntry] = field(default_factory=dict)
    deleted: dict[str, MirrorEntry] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    joins: bool = False

    def add(self, text: str, conversation_id: str = "chat", role: str = "memory") -> MirrorEntry:
        number = len(self.entries) + len(self.deleted)
        entry = MirrorEntry(f"id-{number}", conversation_id, role, START + timedelta(minutes=number), text, 1)
        self.entries[entry.id] = entry
        return entry

    def edit(self, entry_id: str, text: str, span: Span = OPEN) -> None:
        old = self.entries[entry_id]
        self.entries[entry_id] = replace(old, text=text, span=span, version=old.version + 1)

    def drop(self, entry_id: str) -> None:
        self.deleted[entry_id] = self.entries.pop(entry_id)

    def list_entries(self) -> list[MirrorEntry]:
        return list(self.entries.values())

    def create_entry(self, draft: Draft, key: str) -> MirrorEntry:
        text = self.check(draft.text)
        if key in self.made:
            made = self.made[key]
            return self.entries.get(made) or self.deleted[made]
        same = [e for e in self.entries.values() if self.joins and e.text == text and e.role == draft.role]
        entry = same[0] if same else self.add(text, draft.conversation_id, draft.role)
        self.made[key] = entry.id
        self.calls.append(("create", entry.id))
        return entry

    def update_entry(self, entry: MirrorEntry, text: str, span: Span) -> MirrorEntry:
        old = self.entries.get(entry.id)
        if old is None or old.version != entry.version:
            raise StateChanged(f"the entry {entry.id} changed")
        text = self.check(text)
        if (text, span) != (old.text, old.span):
            self.edit(entry.id, text, span)
        self.calls.append(("update", entry.id))
        return self.entries[entry.id]

    def find_deleted(self, ids: Collection[str]) -> dict[str, MirrorEntry]:
        return {entry_id: self.deleted[entry_id] for entry_id in ids if entry_id in self.deleted}

    def restore_entry(self, entry_id: str) -> MirrorEntry:
        if entry_id not in self.deleted:
            raise StateChanged(f"the entry {entry_id} changed")
        old = self.deleted.pop(entry_id)
        self.entries[entry_id] = replace(old, version=old.version + 1)
        self.calls.append(("restore", entry_id))
        return self.entries[entry_id]

    def soft_delete_entry(self, entry_id: str, version: int) -> None:
        if entry_id in self.entries:
            if self.entries[entry_id].version != version:
                raise StateChanged(f"the entry {entry_id} changed")
            self.drop(entry_id)
            self.calls.append(("delete", entry_id))

    def check(self, text: str) -> str:
        if len(text) > MAX_TEXT:
            raise EntryRefused(f"the text has more than {MAX_TEXT} characters")
        return text.strip()
