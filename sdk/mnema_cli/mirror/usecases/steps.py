"""The steps of one run of a mirror: each carries out one action of the plan and notes what is in step."""

from contextlib import suppress
from dataclasses import dataclass, field, replace

from mnema_cli.mirror.rules.actions import (
    Action,
    Conflict,
    CreateEntry,
    DeleteFile,
    Refuse,
    RestoreEntry,
    SoftDeleteEntry,
    UpdateEntry,
    UpdateFile,
    WriteFile,
)
from mnema_cli.mirror.rules.entries import MirrorEntry, MirrorFile, conflict_path, file_of, hash_content
from mnema_cli.mirror.rules.mass_deletion import MassDeletionPolicy
from mnema_cli.mirror.rules.problems import EntryRefused, StateChanged
from mnema_cli.mirror.rules.snapshot import Pending, Record
from mnema_cli.mirror.usecases.grace import GraceTime
from mnema_cli.mirror.usecases.ports import MirrorFiles, MirrorStore


@dataclass(frozen=True, slots=True)
class Outcome:
    """An action and what became of it. `problem` is empty if it was carried out.

    `is_skipped`: something changed in the meantime, and the next run decides anew. `joined` is the file of the entry
    that a new file joined; the new file is gone then.
    """

    action: Action
    problem: str = ""
    is_skipped: bool = False
    joined: str = ""


@dataclass(frozen=True, slots=True)
class Mirror:
    """A root and the entries of one user. `owner` names the tenant and the user in the snapshot."""

    files: MirrorFiles
    store: MirrorStore
    owner: str
    policy: MassDeletionPolicy = field(default_factory=MassDeletionPolicy)
    grace: GraceTime | None = None


@dataclass(slots=True)
class Run:
    """The steps of one run. `created` are the ids of the entries that it created."""

    mirror: Mirror
    records: dict[str, Record]
    pending: dict[str, Pending]
    created: set[str] = field(default_factory=set)
    joined: dict[str, str] = field(default_factory=dict)

    def apply_action(self, action: Action) -> Outcome:
        """Carry out an action and return what became of it."""
        try:
            self._carry_out(action)
        except StateChanged as error:
            return Outcome(action, str(error), is_skipped=True)
        except EntryRefused as error:
            return Outcome(action, str(error))
        joined = self.joined.get(action.path, "") if isinstance(action, CreateEntry) else ""
        return Outcome(action, action.reason if isinstance(action, Refuse) else "", joined=joined)

    def _carry_out(self, action: Action) -> None:
        match action:
            case CreateEntry():
                self._create_entry(action)
            case UpdateEntry():
                self._update_entry(action)
            case RestoreEntry():
                self._restore_entry(action)
            case SoftDeleteEntry(entry=entry):
                self.mirror.store.soft_delete_entry(entry.id, entry.version)
                self.records.pop(entry.id, None)
            case Conflict():
                self._keep_both(action)
            case UpdateFile(path, text_hash, entry):
                self._rewrite_file(path, text_hash, entry)
            case DeleteFile(path, entry_id, text_hash):
                self.mirror.files.delete_file(path, text_hash)
                self.records.pop(entry_id, None)
            case WriteFile(path, entry):
                if entry.id not in self.created:
                    self._write_file(path, entry)

    def _create_entry(self, action: CreateEntry) -> None:
        entry = self.mirror.store.create_entry(action.draft, self.pending[action.path].key)
        files = self.mirror.files
        known = self.records.get(entry.id)
        has_other_file = known is not None and known.text_hash is not None and known.path != action.path
        if has_other_file or entry.id in self.created:  # the text joined an entry that has a file
            self._join_file(action, entry)
        else:
            self.created.add(entry.id)
            content = files.read_file(action.path)
            if content.id is not None:
                raise StateChanged(f"{action.path} got an id in the meantime")
            is_planned = content.content_hash == action.text_hash
            filled = file_of(entry, content.other_lines)
            if not is_planned:  # a later edit becomes an update
                filled = replace(filled, text=content.text, span=content.span)
            files.replace_file(action.path, content.content_hash, filled)
            self._note_entry(action.path, entry)
        del self.pending[action.path]

    def _join_file(self, action: CreateEntry, entry: MirrorEntry) -> None:
        """Carry the new file's own lines into the file of the entry, then delete the new file."""
        files = self.mirror.files
        path = self.records[entry.id].path
        content = files.read_file(action.path)
        other = files.read_file(path)
        new_lines = set(content.other_lines) - set(other.other_lines)
        if new_lines and not _keys_of(content) & _keys_of(other):
            filled = replace(other, other_lines=other.other_lines + content.other_lines)
            files.replace_file(path, other.content_hash, filled)
        elif new_lines:  # the same keys have other values
            reason = "the file joined an entry whose file has other lines"
            self._save_conflict(Conflict(path, entry.id, action.text_hash, entry, reason), content)
        files.delete_file(action.path, action.text_hash)
        self.joined[action.path] = path

    def _update_entry(self, action: UpdateEntry) -> None:
        entry = self.mirror.store.update_entry(action.entry, action.text, action.span)
        content = self.mirror.files.read_file(action.path)
        if content.id is None or entry.content_hash != hash_content(action.text, action.span):
            self._rewrite_file(action.path, action.text_hash, entry)
        self._note_entry(action.path, entry)

    def _restore_entry(self, action: RestoreEntry) -> None:
        entry = self.mirror.store.restore_entry(action.entry.id)
        wanted = hash_content(action.text, action.span)
        if entry.content_hash != wanted:
            entry = self.mirror.store.update_entry(entry, action.text, action.span)
        if entry.content_hash != wanted:
            self._rewrite_file(action.path, action.text_hash, entry)
        self._note_entry(action.path, entry)

    def _keep_both(self, action: Conflict) -> None:
        files = self.mirror.files
        if action.text_hash is None and action.entry is not None:
            self._write_file(action.path, action.entry)
            return
        if action.text_hash is None:
            return
        content = files.read_file(action.path)
        if content.content_hash != action.text_hash:
            raise StateChanged(f"{action.path} changed in the meantime")
        self._save_conflict(action, replace(content, id=None))
        if action.entry is None:
            files.delete_file(action.path, action.text_hash)
            self.records.pop(action.entry_id, None)
        else:
            self._rewrite_file(action.path, action.text_hash, action.entry)

    def _save_conflict(self, action: Conflict, content: MirrorFile) -> None:
        files = self.mirror.files
        text_hash = content.content_hash
        for mark in (None, text_hash):
            path = conflict_path(action.path, action.entry_id, mark)
            with suppress(StateChanged):
                files.create_file(path, content)
                return
            with suppress(StateChanged):  # perhaps a killed run has written it
                if files.read_file(path).content_hash == text_hash:
                    return
        raise StateChanged(f"the conflict files of {action.entry_id} are in the way; move them away")

    def _rewrite_file(self, path: str, text_hash: str, entry: MirrorEntry) -> None:
        content = self.mirror.files.read_file(path)
        self.mirror.files.replace_file(path, text_hash, file_of(entry, content.other_lines))
        self._note_entry(path, entry)

    def _write_file(self, path: str, entry: MirrorEntry) -> None:
        self.mirror.files.create_file(path, file_of(entry))
        self._note_entry(path, entry)

    def _note_entry(self, path: str, entry: MirrorEntry) -> None:
        self.records[entry.id] = Record(path, entry.content_hash, entry.version)


def _keys_of(content: MirrorFile) -> set[str]:
    """Return the keys of a file's own lines. Lines that are indented belong to the key above them."""
    return {line.partition(":")[0].strip() for line in content.other_lines if line[:1] not in (" ", "\t", "-", "#", "")}
