"""A mirror that stays in step: a run after each change of a file or an entry, and a whole reading now and then."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from mnema_cli.mirror.rules.problems import FilesBusy, StoreAway
from mnema_cli.mirror.usecases.grace import GraceTime
from mnema_cli.mirror.usecases.ports import WatchedStore
from mnema_cli.mirror.usecases.steps import Mirror
from mnema_cli.mirror.usecases.sync import OnStep, SyncReport, ignore_steps, sync_mirror

READ_ALL_S: Final = 60.0
"""Seconds between two readings of all entries. They find what was purged, and files whose change nobody reported."""

SETTLE_S: Final = 3.0
"""Seconds after a run until the next one notes the stamps of the files that were too young before."""

LONGEST_PAUSE_S: Final = 30.0


class WatchListener(Protocol):
    """A listener that tells a person what happens."""

    def hear_report(self, report: SyncReport) -> None:
        """Hear what a run did."""

    def hear_away(self, problem: str) -> None:
        """Hear that the server is away. The mirror waits for it."""

    def hear_back(self) -> None:
        """Hear that the server is back."""


@dataclass(slots=True)
class MirrorWatch:
    """A watch over both sides. `clock` returns seconds that only grow."""

    mirror: Mirror
    store: WatchedStore
    listener: WatchListener
    on_step: OnStep = ignore_steps
    clock: Callable[[], float] = time.monotonic
    is_due: bool = True
    is_away: bool = False
    read_all_at: float = 0.0
    settle_at: float = 0.0
    retry_at: float = 0.0
    pause_s: float = 1.0

    def keep_in_step(self, ticks: Iterable[bool]) -> None:
        """Run until the ticks end. Each is True if a file changed since the one before.

        The first run may delete many entries, if the policy says so; the later ones may not. Raise what `sync_mirror`
        raises, except StoreAway and FilesBusy: after these the run is repeated.
        """
        self.mirror = replace(self.mirror, grace=GraceTime(self.clock))
        self.settle_at = self.clock()
        self.read_all_at = self.clock() + READ_ALL_S
        for has_changed in ticks:
            self.is_due = self.is_due or has_changed
            if self.is_away and self.clock() < self.retry_at:
                continue
            try:
                self._take_turn()
            except FilesBusy:
                self.is_due = True
            except StoreAway as error:
                self._wait_for_server(str(error))

    def _take_turn(self) -> None:
        if self.clock() >= self.read_all_at:
            self.store.read_all()
            self.read_all_at = self.clock() + READ_ALL_S
            self.is_due = True
        elif self.store.read_changes():
            self.is_due = True
        if self.mirror.grace and self.mirror.grace.is_over:
            self.is_due = True
        if self.is_away:
            self.is_away = False
            self.pause_s = 1.0
            self.listener.hear_back()
        if self.is_due or (self.settle_at and self.clock() >= self.settle_at):
            self._run(is_settling=not self.is_due)

    def _run(self, *, is_settling: bool) -> None:
        self.is_due = True  # until the run ends well
        report = SyncReport()
        try:
            sync_mirror(self.mirror, self.on_step, report)
        except Exception:
            if report.outcomes:  # a run that a signal or an error ends has done something too
                self.listener.hear_report(report)
            raise
        self.is_due = not report.is_complete
        self.settle_at = 0.0 if is_settling and report.is_idle else self.clock() + SETTLE_S
        if not (self.mirror.grace and self.mirror.grace.since):
            self.mirror = replace(self.mirror, policy=replace(self.mirror.policy, allow_mass_deletion=False))
        self.listener.hear_report(report)

    def _wait_for_server(self, problem: str) -> None:
        if not self.is_away:
            self.listener.hear_away(problem)
        self.is_away = True
        self.retry_at = self.clock() + self.pause_s
        self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S)
