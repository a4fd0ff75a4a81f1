"""The report of a mirror for people: its plan, its runs and its totals."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from mnema_cli.mirror.rules.actions import (
    NAMES,
    Action,
    Conflict,
    CreateEntry,
    DeleteFile,
    Refuse,
    RestoreEntry,
    SoftDeleteEntry,
    SyncPlan,
    UpdateEntry,
    UpdateFile,
    WriteFile,
)
from mnema_cli.mirror.usecases.steps import Outcome
from mnema_cli.mirror.usecases.sync import SyncReport
from mnema_cli.output import err, out, show_text

SHOWN = 50
"""Paths that are listed one by one."""
SIDES: dict[str, tuple[tuple[type[Action], str], ...]] = {
    "server": (
        (CreateEntry, "created"),
        (UpdateEntry, "updated"),
        (SoftDeleteEntry, "deleted"),
        (RestoreEntry, "restored"),
    ),
    "files": ((WriteFile, "written"), (UpdateFile, "updated"), (DeleteFile, "deleted")),
}

RARE: frozenset[type[Action]] = frozenset({RestoreEntry})
"""Actions that are counted only if there are some."""


@dataclass(slots=True)
class Totals:
    """The sum of a command's runs, and what still needs a person."""

    done: Counter[type[Action]] = field(default_factory=Counter)
    joined: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add_report(self, report: SyncReport) -> None:
        """Add what a run did. Its conflict files and problems take the place of those before."""
        done = [outcome for outcome in report.outcomes if not outcome.problem]
        self.done.update(type(outcome.action) for outcome in done if not outcome.joined)
        self.joined += [f"{outcome.action.path} -> {outcome.joined}" for outcome in done if outcome.joined]
        self.conflicts = list(report.conflicts)
        self.problems = problems_of(report)

    @property
    def needs_person(self) -> bool:
        """True if a conflict file is left, or something was not done."""
        return bool(self.conflicts or self.problems)

    def side_lines(self) -> list[str]:
        """Return a line for each side, with counts."""
        return [
            f"{side:<7} "
            + ", ".join(f"{self.done[kind]} {verb}" for kind, verb in kinds if kind not in RARE or self.done[kind])
            for side, kinds in SIDES.items()
        ]


def print_plan(plan: SyncPlan, report: SyncReport) -> None:
    """Print each action of a plan."""
    _print_snapshot_problem(report)
    for action in plan.actions:
        _print_line(_describe(action))
    _print_list("conflict files that are there", report.conflicts)
    out.print(f"{len(plan.actions)} actions planned; nothing was changed", highlight=False)


def _describe(action: Action) -> str:
    reason = action.reason if isinstance(action, Refuse | Conflict) else ""
    return f"{NAMES[type(action)]:<17} {': '.join(filter(None, (action.path, reason)))}"


def print_totals(totals: Totals) -> None:
    """Print what was done on each side, and what still needs a person."""
    for line in totals.side_lines():
        _print_line(line)
    if count := totals.done[Conflict]:
        _print_line(f"{count} changed on both sides; no text was lost")
    _print_list("joined the file of a memory that says the same", totals.joined)
    _print_list("conflict files are left: take over what you need, then delete them", totals.conflicts)
    _print_list("not done", totals.problems)


def problems_of(report: SyncReport) -> list[str]:
    """Return a line for each action that was not carried out: its path and the reason."""
    undone = [outcome for outcome in report.outcomes if outcome.problem]
    return [f"{o.action.path}: {o.problem}" if o.action.path else o.problem for o in undone]


def print_run(report: SyncReport, told: list[str]) -> list[str]:
    """Print what one run of a watch did. Return its problems; those in `told` are not repeated."""
    _print_snapshot_problem(report)
    done = [outcome for outcome in report.outcomes if not outcome.problem]
    problems = problems_of(report)
    if len(done) > SHOWN:
        totals = Totals()
        totals.add_report(SyncReport(done))
        for line in totals.side_lines():
            _print_line(line)
    else:
        _print_outcomes(done)
    for problem in problems:
        if problem not in told:
            _print_line(f"{'not done':<17} {problem}")
    return problems


def _print_outcomes(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.joined:
            _print_line(f"{'joined':<17} {outcome.action.path} -> {outcome.joined}")
        else:
            _print_line(_describe(outcome.action))


def _print_snapshot_problem(report: SyncReport) -> None:
    if report.snapshot_problem:
        err.print(f"[yellow]note[/] {escape(show_text(report.snapshot_problem))}", highlight=False)


def _print_list(title: str, lines: Sequence[str]) -> None:
    if lines:
        _print_line(f"{len(lines)} {title}")
        for line in lines[:SHOWN]:
            _print_line(f"  {line}")
        if len(lines) > SHOWN:
            _print_line(f"  … and {len(lines) - SHOWN} more")


def _print_line(line: str) -> None:
    out.print(escape(show_text(line)), highlight=False)


class StepBar:
    """A progress bar on stderr, at a terminal only, for runs of many steps."""

    def __init__(self) -> None:
        columns = (TextColumn("mirror"), BarColumn(), MofNCompleteColumn())
        self._progress = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
        self._task: TaskID | None = None

    def show_step(self, done: int, total: int) -> None:
        """Show that so many steps are done. The bar goes away with the last one."""
        if total <= SHOWN:
            return
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task("mirror")
        self._progress.update(self._task, completed=done, total=total)
        if done == total:
            self.close()

    def close(self) -> None:
        """Remove the bar."""
        if self._task is not None:
            self._progress.stop()
            self._progress.remove_task(self._task)
            self._task = None
