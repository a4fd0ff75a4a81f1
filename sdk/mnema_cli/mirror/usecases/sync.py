"""One run of a mirror: plan, write down what is intended, carry it out, write down what is in step.

A run may end at any point. Each step is idempotent or leaves a state that the next plan understands.
"""

import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from mnema_cli.mirror.rules.actions import Conflict, CreateEntry, FoundFiles, Refuse, SoftDeleteEntry, SyncPlan
from mnema_cli.mirror.rules.entries import MirrorEntry
from mnema_cli.mirror.rules.plan import plan_sync
from mnema_cli.mirror.rules.problems import FilesBusy, FilesUnusable
from mnema_cli.mirror.rules.snapshot import BrokenSnapshot, Pending, Snapshot, dump_snapshot, load_snapshot
from mnema_cli.mirror.usecases.ports import MirrorFiles
from mnema_cli.mirror.usecases.steps import Mirror, Outcome, Run

MAX_SCANS = 5
MAX_PASSES = 3
"""Passes of one run. A second one settles steps that were skipped, and texts that joined other entries."""


OnStep: TypeAlias = Callable[[int, int], None]
"""A function that gets the numbers of done and of all steps after each step. It may raise to end the run."""


def ignore_steps(_done: int, _total: int) -> None:
    """Do nothing after a step."""


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
    plan = _plan_restored(mirror, snapshot, entries, found)
    if any(isinstance(action, SoftDeleteEntry) for action in plan.actions):
        found = _scan_until_stable(mirror.files, snapshot, found)
        plan = _plan_restored(mirror, snapshot, entries, found)
    missing = [action.entry.id for action in plan.actions if isinstance(action, SoftDeleteEntry)]
    if mirror.grace and (held := mirror.grace.hold_missing(missing)):
        plan = _plan_restored(mirror, snapshot, entries, found, held)
    report.conflicts = list(found.conflicts)
    return plan, snapshot


def _plan_restored(
    mirror: Mirror, snapshot: Snapshot, entries: list[MirrorEntry], found: FoundFiles, held: Collection[str] = ()
) -> SyncPlan:
    """Return the plan. Files with an id that is not stored are looked up: their entries may be soft-deleted."""
    stored = {entry.id for entry in entries}
    unknown = sorted({file.id for file in found.files if file.id and file.id not in stored})
    deleted = mirror.store.find_deleted(unknown) if unknown else {}
    return plan_sync(snapshot, entries, found, mirror.policy, deleted, held)


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


def sync_mirror(mirror: Mirror, on_step: OnStep = ignore_steps, report: SyncReport | None = None) -> SyncReport:
    """Bring both sides into step and report what was done. Raise ForeignRoot, FilesUnusable or the store's errors.

    Each outcome goes into `report` at once, so that it tells what was done also if the run ends early.
    """
    report = report or SyncReport()
    for _ in range(MAX_PASSES):
        plan, snapshot = make_plan(mirror, report)
        report.outcomes = list(_without_refusals(report.outcomes))
        known = len(report.outcomes)
        apply_plan(mirror, plan, snapshot, report.outcomes, on_step)
        if not any(_needs_another_pass(outcome) for outcome in report.outcomes[known:]):
            break
    return report


def _needs_another_pass(outcome: Outcome) -> bool:
    """Return True if the next plan may differ: a text may have joined an entry, a conflict file is new."""
    return outcome.is_skipped or (isinstance(outcome.action, CreateEntry | Conflict) and not outcome.problem)


def _without_refusals(outcomes: list[Outcome]) -> Iterator[Outcome]:
    return (outcome for outcome in outcomes if not isinstance(outcome.action, Refuse) and not outcome.problem)


def apply_plan(
    mirror: Mirror, plan: SyncPlan, snapshot: Snapshot, outcomes: list[Outcome], on_step: OnStep = ignore_steps
) -> None:
    """Carry out the plan and add one outcome for each action to `outcomes`, in order.

    The snapshot with the intents is durable before the first step, and the final one after the last. If an error or a
    signal ends the run, the final one has what was done until then.
    """
    intended = Snapshot(plan.records, _pending_creations(plan))
    if intended != snapshot:
        mirror.files.write_index(dump_snapshot(intended, mirror.owner))
    run = Run(mirror, dict(plan.records), dict(intended.pending))
    try:
        for done, action in enumerate(plan.actions, 1):
            outcomes.append(run.apply_action(action))
            on_step(done, len(plan.actions))
    except Exception:
        with suppress(FilesUnusable):  # such as a full disk: then the intents tell what was done
            _write_final(run, intended)
        raise
    _write_final(run, intended)


def _write_final(run: Run, intended: Snapshot) -> None:
    final = Snapshot(run.records, run.pending)
    if final != intended:
        run.mirror.files.write_index(dump_snapshot(final, run.mirror.owner))


def _pending_creations(plan: SyncPlan) -> dict[str, Pending]:
    return {
        action.path: Pending(action.key or secrets.token_hex(16), action.text_hash)
        for action in plan.actions
        if isinstance(action, CreateEntry)
    }
