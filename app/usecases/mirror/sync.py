"""One run of a mirror: plan, write down what is intended, carry it out, write down what is in step.

A run may end at any point. Each step is idempotent or leaves a state that the next plan understands.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from app.domain.mirror.actions import (
    Action,
    Conflict,
    CreateEntry,
    DeleteFile,
    FoundFiles,
    Refuse,
    SoftDeleteEntry,
    SyncPlan,
    UpdateEntry,
    UpdateFile,
    WriteFile,
)
from app.domain.mirror.entries import MirrorEntry, MirrorFile, conflict_path, file_of, hash_text
from app.domain.mirror.mass_deletion import MassDeletionPolicy
from app.domain.mirror.plan import plan_sync
from app.domain.mirror.problems import EntryRefused, FilesBusy, StateChanged
from app.domain.mirror.snapshot import BrokenSnapshot, Pending, Record, Snapshot, dump_snapshot, load_snapshot
from app.usecases.mirror.ports import MirrorFiles, MirrorStore

MAX_SCANS = 5
MAX_PASSES = 3
"""Passes of one run. A second one settles steps that were skipped, and texts that joined other entries."""


OnStep: TypeAlias = Callable[[int, int], None]
"""A function that hears after each step how many steps of how many are done. It may raise to end the run."""


def ignore_steps(_done: int, _total: int) -> None:
    """Do nothing after a step."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An action and what became of it. `problem` is empty if it was carried out.

    `is_skipped`: something changed in the meantime, and the next run decides anew.
    """

    action: Action
    problem: str = ""
    is_skipped: bool = False


@dataclass(slots=True)
class SyncReport:
    """The outcomes of a run, the conflict files that are still there, and the snapshot's problem if it has one."""

    outcomes: list[Outcome] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    snapshot_problem: str = ""

    @property
    def is_idle(self) -> bool:
        """True if nothing was done or tried."""
        return all(isinstance(outcome.action, Refuse) for outcome in self.outcomes)

    @property
    def is_complete(self) -> bool:
        """True if no step was skipped."""
        return not any(outcome.is_skipped for outcome in self.outcomes)


@dataclass(frozen=True, slots=True)
class Mirror:
    """A root and the entries of one user. `owner` names the tenant and the user in the snapshot."""

    files: MirrorFiles
    store: MirrorStore
    owner: str
    policy: MassDeletionPolicy = field(default_factory=MassDeletionPolicy)


def make_plan(mirror: Mirror, report: SyncReport) -> tuple[SyncPlan, Snapshot]:
    """Return the plan of a run, and the snapshot that it starts from. Nothing changes. Raise ForeignRoot."""
    snapshot = Snapshot()
    content = mirror.files.read_index()
    if content is not None:
        try:
            snapshot = load_snapshot(content, mirror.owner)
        except BrokenSnapshot as error:
            report.snapshot_problem = f"{error}; both sides are compared without it"
    entries = mirror.store.list_entries()
    found = mirror.files.scan_files(snapshot.records)
    plan = plan_sync(snapshot, entries, found, mirror.policy)
    if any(isinstance(action, SoftDeleteEntry) for action in plan.actions):
        found = _scan_until_stable(mirror.files, snapshot, found)
        plan = plan_sync(snapshot, entries, found, mirror.policy)
    report.conflicts = list(found.conflicts)
    return plan, snapshot


def _scan_until_stable(files: MirrorFiles, snapshot: Snapshot, found: FoundFiles) -> FoundFiles:
    """Return a scan that finds the same files as the one before it.

    A file that is moved or saved during a scan may be missing in it. It must not count as deleted.
    """
    for _ in range(MAX_SCANS):
        again = files.scan_files(snapshot.records)
        if [(file.path, file.id) for file in again.files] == [(file.path, file.id) for file in found.files]:
            return again
        found = again
    raise FilesBusy("files keep moving while they are read; run the mirror again when they rest")


def sync_mirror(mirror: Mirror, on_step: OnStep = ignore_steps) -> SyncReport:
    """Bring both sides into step and report what was done. Raise ForeignRoot, FilesUnusable or the store's errors."""
    report = SyncReport()
    for _ in range(MAX_PASSES):
        plan, snapshot = make_plan(mirror, report)
        outcomes = apply_plan(mirror, plan, snapshot, on_step)
        report.outcomes = [*_without_refusals(report.outcomes), *outcomes]
        if not any(_needs_another_pass(outcome) for outcome in outcomes):
            break
    return report


def _needs_another_pass(outcome: Outcome) -> bool:
    """Return True if the next plan may differ: a text may have joined an entry, a conflict file is new."""
    return outcome.is_skipped or (isinstance(outcome.action, CreateEntry | Conflict) and not outcome.problem)


def _without_refusals(outcomes: list[Outcome]) -> Iterator[Outcome]:
    return (outcome for outcome in outcomes if not isinstance(outcome.action, Refuse) and not outcome.problem)


def apply_plan(mirror: Mirror, plan: SyncPlan, snapshot: Snapshot, on_step: OnStep = ignore_steps) -> list[Outcome]:
    """Carry out the plan and return one outcome for each action, in order.

    The snapshot with the intents is durable before the first step, and the final one after the last.
    """
    intended = Snapshot(plan.records, _pending_creations(plan))
    if intended != snapshot:
        mirror.files.write_index(dump_snapshot(intended, mirror.owner))
    run = _Run(mirror, dict(plan.records), dict(intended.pending))
    outcomes = []
    for done, action in enumerate(plan.actions, 1):
        outcomes.append(run.apply_action(action))
        on_step(done, len(plan.actions))
    final = Snapshot(run.records, run.pending)
    if final != intended:
        mirror.files.write_index(dump_snapshot(final, mirror.owner))
    return outcomes


def _pending_creations(plan: SyncPlan) -> dict[str, Pending]:
    return {
        action.path: Pending(action.key or secrets.token_hex(16), action.text_hash)
        for action in plan.actions
        if isinstance(action, CreateEntry)
    }


@dataclass(slots=True)
class _Run:
    mirror: Mirror
    records: dict[str, Record]
    pending: dict[str, Pending]
    created: set[str] = field(default_factory=set)

    def apply_action(self, action: Action) -> Outcome:
        """Carry out an action and return what became of it."""
        try:
            self._carry_out(action)
        except StateChanged as error:
            return Outcome(action, str(error), is_skipped=True)
        except EntryRefused as error:
            return Outcome(action, str(error))
        return Outcome(action, action.reason if isinstance(action, Refuse) else "")

    def _carry_out(self, action: Action) -> None:
        match action:
            case CreateEntry():
                self._create_entry(action)
            case UpdateEntry():
                self._update_entry(action)
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
        files, known = self.mirror.files, self.records.get(entry.id)
        has_other_file = known is not None and known.text_hash is not None and known.path != action.path
        if has_other_file or entry.id in self.created:  # the text joined an entry that has a file
            files.delete_file(action.path, action.text_hash)
        else:
            self.created.add(entry.id)
            content = files.read_file(action.path)
            if content.id is not None:
                raise StateChanged(f"{action.path} got an id in the meantime")
            is_planned = hash_text(content.text) == action.text_hash
            text = entry.text if is_planned else content.text  # a later edit becomes an update
            filled = replace(file_of(entry, content.other_lines), text=text)
            files.replace_file(action.path, hash_text(content.text), filled)
            self._note_entry(action.path, entry)
        del self.pending[action.path]

    def _update_entry(self, action: UpdateEntry) -> None:
        entry = self.mirror.store.update_entry(action.entry.id, action.text, action.entry.version)
        content = self.mirror.files.read_file(action.path)
        if content.id is None or entry.text != action.text:
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
        if hash_text(content.text) != action.text_hash:
            raise StateChanged(f"{action.path} changed in the meantime")
        self._save_conflict(action, replace(content, id=None))
        if action.entry is None:
            files.delete_file(action.path, action.text_hash)
            self.records.pop(action.entry_id, None)
        else:
            self._rewrite_file(action.path, action.text_hash, action.entry)

    def _save_conflict(self, action: Conflict, content: MirrorFile) -> None:
        files = self.mirror.files
        text_hash = hash_text(content.text)
        for mark in (None, text_hash):
            path = conflict_path(action.path, action.entry_id, mark)
            with suppress(StateChanged):
                files.create_file(path, content)
                return
            with suppress(StateChanged):  # perhaps a killed run has written it
                if hash_text(files.read_file(path).text) == text_hash:
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
        self.records[entry.id] = Record(path, hash_text(entry.text), entry.version)
